//! The rows of exclusive units: assigns units to groups and releases them. The rules are in
//! [`exclusive`](crate::model::exclusive). The hosts carry a trait that shows it.

use uuid::Uuid;

use crate::model::exclusive::{Tenant, abandoned, departed, may_take};
use crate::model::{ExclusiveHost, Level, ProviderId, Refusal, traits};
use crate::store::claims::locked::LockedClaims;
use crate::store::effects::Kind;
use crate::store::error::{Error, Result};
use crate::store::tx::Tx;

/// Returns the stored groups that consumers are in by their placements, or as tenants.
pub(in crate::store) async fn groups_of_consumers(
    tx: &mut Tx<'_>,
    consumers: &[Uuid],
) -> Result<Vec<Uuid>> {
    let groups = sqlx::query_scalar!(
        r#"select pg.group_id as "group!"
           from placements p join placement_groups pg on pg.placement_id = p.id
           where p.consumer = any($1) or p.id = any($1)
           union
           select group_id from exclusive_tenants where consumer = any($1)"#,
        consumers
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    Ok(groups)
}

/// Assigns units to groups that [may take](may_take) them. Every provider of their hosts is locked, and all
/// claims have been written.
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
                         join allocation_sets a on a.provider_id = p.id
                         join consumers c on c.id = a.consumer_id
                         where p.root_id = w.root_id and not exists (
                             select from group_consumers m
                             where m.consumer = c.uuid and m.group_id = w.group_id))
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

/// Adds the trait to the roots of exclusive hosts.
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
        tx.note_named(Kind::Trait, traits::EXCLUSIVE, None, Some(traits::EXCLUSIVE));
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

/// Releases [abandoned] units. Their roots have been locked with the consumers of their groups.
///
/// The last two members may leave a unit at the same time, and another one join, on different hosts of
/// it: each transaction that assigns or releases a unit locks the rows first, and then reads its members.
///
/// # Errors
/// [`Error::Again`] if an abandoned unit was assigned after the locks were taken: locking its root now would be
/// out of order.
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
    let hosts = rows.into_iter().map(HostRow::read).collect::<Result<Vec<_>>>()?;
    release_tenants(tx, groups, &hosts).await?;
    if hosts.is_empty() {
        return Ok(());
    }
    let used = sqlx::query!(
        r#"select distinct m.group_id as "group_id!", pr.root_id
           from group_consumers m
           join consumers c on c.uuid = m.consumer
           join allocation_sets a on a.consumer_id = c.id
           join providers pr on pr.id = a.provider_id
           where m.group_id = any($1)"#,
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
        return Err(Error::Again("a unit was reassigned meanwhile".to_owned()));
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

/// Keeps the instances of exclusivity groups as tenants of these groups when their placements are about to end, or
/// to hold the capacity themselves: those of `placements`, and of a deleted plan. Tenants without an
/// exclusive host are removed by the [`release`] that follows.
pub(in crate::store) async fn keep_tenants(
    tx: &mut Tx<'_>,
    placements: &[Uuid],
    deleted_plan: Option<Uuid>,
) -> Result<()> {
    if placements.is_empty() && deleted_plan.is_none() {
        return Ok(());
    }
    sqlx::query!(
        "insert into exclusive_tenants (consumer, project, group_id)
         select p.consumer, p.project, pg.group_id
         from placements p join placement_groups pg on pg.placement_id = p.id
         join planner_groups g on g.id = pg.group_id
         where (p.id = any($1) or p.plan_id = $2) and p.consumer <> p.id
           and g.kind = 'exclusivity'
         order by 1, 2, 3 on conflict do nothing",
        placements,
        deleted_plan
    )
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
}

/// Removes tenants that have a placement of their group again. The placements have been written.
pub(in crate::store) async fn forget_tenants(tx: &mut Tx<'_>, placements: &[Uuid]) -> Result<()> {
    sqlx::query!(
        "delete from exclusive_tenants t
         using placements p join placement_groups g on g.placement_id = p.id
         where p.id = any($1) and p.consumer = t.consumer and p.project = t.project
           and g.group_id = t.group_id",
        placements
    )
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
}

/// Removes tenants that have [departed] from the hosts of their groups. `hosts` are all hosts of the groups.
async fn release_tenants(tx: &mut Tx<'_>, groups: &[Uuid], hosts: &[ExclusiveHost]) -> Result<()> {
    let tenants = sqlx::query!(
        r#"select t.consumer, t.group_id,
                  array(select distinct p.root_id from consumers c
                        join allocation_sets a on a.consumer_id = c.id
                        join providers p on p.id = a.provider_id
                        where c.uuid = t.consumer) as "roots!"
           from exclusive_tenants t where t.group_id = any($1)"#,
        groups
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    let tenants: Vec<Tenant> = tenants
        .into_iter()
        .map(|row| Tenant {
            consumer: row.consumer,
            group: row.group_id,
            roots: row.roots.into_iter().map(ProviderId).collect(),
        })
        .collect();
    let (consumers, groups): (Vec<Uuid>, Vec<Uuid>) =
        departed(hosts, &tenants).map(|tenant| (tenant.consumer, tenant.group)).unzip();
    if consumers.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "delete from exclusive_tenants
         where (consumer, group_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
        &consumers,
        &groups
    )
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
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

/// Advances the generations of providers whose traits have changed.
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
        return Err(Error::Again(
            "a provider was deleted while its unit was reassigned".to_owned(),
        ));
    }
    for provider in providers {
        tx.touch(ProviderId(*provider));
    }
    Ok(())
}
