//! Units that exclusivity groups have to themselves: taking and letting go of them. Their hosts carry
//! a trait that says so.

use uuid::Uuid;

use crate::model::exclusive::EXCLUSIVE_TRAIT;
use crate::model::{ProviderId, Refusal};
use crate::planner::group::level_word;
use crate::planner::stack::KeptHost;
use crate::store::change::Tx;
use crate::store::claims::Locked;
use crate::store::error::{Error, Result};

/// The stored groups that consumers are in by their placements.
pub(in crate::store) async fn groups_of_consumers(
    tx: &mut Tx<'_>,
    consumers: &[Uuid],
) -> Result<Vec<Uuid>> {
    let groups = sqlx::query_scalar!(
        r#"select distinct pg.group_id as "group!"
           from placements p join placement_groups pg on pg.placement_id = p.id
           where p.consumer = any($1) or p.id = any($1)"#,
        consumers
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    Ok(groups)
}

/// Gives units to groups, unless they have them: hosts of which every provider is locked, and on
/// which, if they are new to the group, nobody may be who is not of it, now that all claims have been
/// written.
///
/// # Errors
/// `UnitTaken`.
pub(in crate::store) async fn take(tx: &mut Tx<'_>, hosts: &[KeptHost]) -> Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let roots: Vec<i64> = hosts.iter().map(|it| it.root.0).collect();
    let levels: Vec<&str> = hosts.iter().map(|it| level_word(it.level)).collect();
    let units: Vec<&str> = hosts.iter().map(|it| it.unit.as_str()).collect();
    let groups: Vec<Uuid> = hosts.iter().map(|it| it.group).collect();
    let taken = sqlx::query_scalar!(
        r#"with wanted as (
               select * from unnest($1::bigint[], $2::text[], $3::text[], $4::uuid[])
                   as w (root_id, level, unit, group_id)
           ), given as (
               insert into exclusive_units (root_id, level, unit, group_id)
               select * from wanted order by root_id, level
               on conflict (root_id, level) do update set unit = excluded.unit
                   where exclusive_units.group_id = excluded.group_id
               returning root_id, level, xmax = 0 as is_new
           )
           select w.unit as "unit!"
           from wanted w left join given g on g.root_id = w.root_id and g.level = w.level
           where g.root_id is null
              or g.is_new and exists (select from providers p
                         join allocations a on a.provider_id = p.id
                         join consumers c on c.id = a.consumer_id
                         where p.root_id = w.root_id and not exists (
                             select from placements s
                             join placement_groups g on g.placement_id = s.id
                             where s.consumer = c.uuid and g.group_id = w.group_id))
           order by 1 limit 1"#,
        &roots,
        &levels as &[&str],
        &units as &[&str],
        &groups
    )
    .fetch_optional(&mut *tx.conn)
    .await?;
    if let Some(unit) = taken {
        return Err(Refusal::UnitTaken(unit).into());
    }
    mark(tx, &roots).await
}

/// Lets everybody see which hosts are kept.
async fn mark(tx: &mut Tx<'_>, roots: &[i64]) -> Result<()> {
    let created = sqlx::query!(
        "insert into traits (id, name) select nextval('traits_id'), $1
         where not exists (select from traits where name = $1) on conflict do nothing",
        EXCLUSIVE_TRAIT
    )
    .execute(&mut *tx.conn)
    .await?;
    if created.rows_affected() > 0 {
        tx.touch_catalogue();
    }
    let marked = sqlx::query_scalar!(
        r#"insert into provider_traits (provider_id, trait_id)
           select root, t.id from unnest($1::bigint[]) as root, traits t where t.name = $2
           on conflict do nothing returning provider_id as "root!""#,
        roots,
        EXCLUSIVE_TRAIT
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    advance(tx, &marked).await
}

/// Lets go of the units of groups that nobody of them is in any more. Their roots have been locked
/// with the consumers of those groups.
///
/// The last two may leave a unit at the same time, and another one come, on different hosts of it:
/// whoever gives or lets go holds the rows first, and then looks.
///
/// # Errors
/// [`Error::Again`] if a unit became free that was given away after the locks were taken: to lock its
/// root now would be out of order.
pub(in crate::store) async fn release(
    tx: &mut Tx<'_>,
    groups: &[Uuid],
    locked: &Locked,
) -> Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    let kept = sqlx::query_scalar!(
        "select root_id from exclusive_units where group_id = any($1)
         order by root_id, level for update",
        groups
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    if kept.is_empty() {
        return Ok(());
    }
    let freed = sqlx::query_scalar!(
        r#"with live as (
               select distinct pg.group_id, pr.root_id
               from placement_groups pg join placements p on p.id = pg.placement_id
               join consumers c on c.uuid = p.consumer
               join allocations a on a.consumer_id = c.id
               join providers pr on pr.id = a.provider_id
               where pg.group_id = any($1)
           )
           delete from exclusive_units e
           where e.group_id = any($1) and not exists (
               select from exclusive_units o
               join live on live.root_id = o.root_id and live.group_id = o.group_id
               where o.group_id = e.group_id and o.level = e.level and o.unit = e.unit)
           returning e.root_id as "root!""#,
        groups
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    if freed.is_empty() {
        return Ok(());
    }
    if freed.iter().any(|root| !locked.has(ProviderId(*root))) {
        return Err(Error::Again("a unit changed hands meanwhile".to_owned()));
    }
    let unmarked = sqlx::query_scalar!(
        r#"delete from provider_traits t using traits n
           where n.id = t.trait_id and n.name = $2 and t.provider_id = any($1)
             and not exists (select from exclusive_units e where e.root_id = t.provider_id)
           returning t.provider_id as "root!""#,
        &freed,
        EXCLUSIVE_TRAIT
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    advance(tx, &unmarked).await
}

/// Moves the generations of providers whose traits have changed.
async fn advance(tx: &mut Tx<'_>, providers: &[i64]) -> Result<()> {
    if providers.is_empty() {
        return Ok(());
    }
    let moved = sqlx::query!(
        "update providers set generation = generation + 1, updated_at = now()
         where id in (select id from providers where id = any($1) order by id for no key update)",
        providers
    )
    .execute(&mut *tx.conn)
    .await?;
    if usize::try_from(moved.rows_affected()) != Ok(providers.len()) {
        return Err(Error::Again("a provider went while its unit changed hands".to_owned()));
    }
    for provider in providers {
        tx.touch(ProviderId(*provider));
    }
    Ok(())
}
