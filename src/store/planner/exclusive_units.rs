//! The rows of exclusive units: giving units to groups and taking them back. The rules are those of
//! [`exclusive`](crate::model::exclusive). The hosts carry a trait that says so.

use uuid::Uuid;

use crate::model::exclusive::{abandoned, may_take};
use crate::model::{ExclusiveHost, Level, ProviderId, Refusal, traits};
use crate::store::change::Tx;
use crate::store::claims::LockedClaims;
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

/// Gives units to groups, as far as they [may take](may_take) them: hosts of which every provider is
/// locked. All claims have been written.
///
/// # Errors
/// `UnitTaken`.
pub(in crate::store) async fn take(tx: &mut Tx<'_>, hosts: &[ExclusiveHost]) -> Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let roots: Vec<i64> = hosts.iter().map(|it| it.root.0).collect();
    let levels: Vec<&str> = hosts.iter().map(|it| it.level.name()).collect();
    let units: Vec<&str> = hosts.iter().map(|it| it.unit.as_str()).collect();
    let groups: Vec<Uuid> = hosts.iter().map(|it| it.group).collect();
    let wanted = sqlx::query!(
        r#"with wanted as (
               select * from unnest($1::bigint[], $2::text[], $3::text[], $4::uuid[])
                   as w (root_id, level, unit, group_id)
           ), stored as (
               insert into exclusive_units (root_id, level, unit, group_id)
               select * from wanted order by root_id, level
               on conflict (root_id, level) do update set unit = case
                   when exclusive_units.group_id = excluded.group_id then excluded.unit
                   else exclusive_units.unit end
               returning root_id, level, group_id, xmax = 0 as is_new
           )
           select w.unit as "unit!", w.group_id as "group!",
                  case when not s.is_new then s.group_id end as holder,
                  s.is_new and exists (select from providers p
                         join allocations a on a.provider_id = p.id
                         join consumers c on c.id = a.consumer_id
                         where p.root_id = w.root_id and not exists (
                             select from placements s
                             join placement_groups g on g.placement_id = s.id
                             where s.consumer = c.uuid and g.group_id = w.group_id))
                      as "is_used_by_others!"
           from wanted w join stored s on s.root_id = w.root_id and s.level = w.level
           order by 1"#,
        &roots,
        &levels as &[&str],
        &units as &[&str],
        &groups
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    for row in wanted {
        if !may_take(row.group, row.holder, || row.is_used_by_others) {
            return Err(Refusal::UnitTaken(row.unit).into());
        }
    }
    mark(tx, &roots).await
}

/// Gives the roots of exclusive hosts their trait.
async fn mark(tx: &mut Tx<'_>, roots: &[i64]) -> Result<()> {
    let created = sqlx::query!(
        "insert into traits (id, name) select nextval('traits_id'), $1
         where not exists (select from traits where name = $1) on conflict do nothing",
        traits::EXCLUSIVE
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
        traits::EXCLUSIVE
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    advance(tx, &marked).await
}

/// Takes [abandoned] units from their groups. Their roots have been locked with the consumers of those
/// groups.
///
/// The last two members may leave a unit at the same time, and another one join, on different hosts of
/// it: each transaction that gives or takes a unit locks the rows first, and then looks who is there.
///
/// # Errors
/// [`Error::Again`] if a unit was abandoned that was given away after the locks were taken: to lock its
/// root now would be out of order.
pub(in crate::store) async fn release(
    tx: &mut Tx<'_>,
    groups: &[Uuid],
    locked: &LockedClaims,
) -> Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query_as!(
        HostRow,
        "select root_id, level, unit, group_id from exclusive_units where group_id = any($1)
         order by root_id, level for update",
        groups
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    if rows.is_empty() {
        return Ok(());
    }
    let hosts = rows.into_iter().map(HostRow::read).collect::<Result<Vec<_>>>()?;
    let used = sqlx::query!(
        r#"select distinct pg.group_id, pr.root_id
           from placement_groups pg join placements p on p.id = pg.placement_id
           join consumers c on c.uuid = p.consumer
           join allocations a on a.consumer_id = c.id
           join providers pr on pr.id = a.provider_id
           where pg.group_id = any($1)"#,
        groups
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    let used = used.into_iter().map(|row| (row.group_id, ProviderId(row.root_id))).collect();
    let (roots, levels): (Vec<i64>, Vec<&str>) =
        abandoned(&hosts, &used).map(|host| (host.root.0, host.level.name())).unzip();
    if roots.is_empty() {
        return Ok(());
    }
    if roots.iter().any(|root| !locked.has(ProviderId(*root))) {
        return Err(Error::Again("a unit changed hands meanwhile".to_owned()));
    }
    let unmarked = sqlx::query_scalar!(
        r#"with gone as (
               delete from exclusive_units e using unnest($1::bigint[], $2::text[]) as g (root_id, level)
               where e.root_id = g.root_id and e.level = g.level returning e.root_id, e.level
           )
           delete from provider_traits t using traits n
           where n.id = t.trait_id and n.name = $3 and t.provider_id = any($1)
             and not exists (select from exclusive_units e where e.root_id = t.provider_id
                             and (e.root_id, e.level) not in (select root_id, level from gone))
           returning t.provider_id as "root!""#,
        &roots,
        &levels as &[&str],
        traits::EXCLUSIVE
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    advance(tx, &unmarked).await
}

/// A row of `exclusive_units`.
pub(super) struct HostRow {
    pub(super) root_id: i64,
    pub(super) level: String,
    pub(super) unit: String,
    pub(super) group_id: Uuid,
}

impl HostRow {
    pub(super) fn read(self) -> Result<ExclusiveHost> {
        let Self { root_id, level, unit, group_id: group } = self;
        let unknown =
            || Error::inconsistent("exclusive_units", "level", format!("{root_id}: {level:?}"));
        let level = Level::named(&level).ok_or_else(unknown)?;
        Ok(ExclusiveHost { root: ProviderId(root_id), level, unit, group })
    }
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
