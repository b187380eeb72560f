//! Reads what changed since a snapshot: the entries of the change log, and the rows of the providers that it names.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

use super::error::{Error, Result};
use super::log_entry::LoggedChanges;
use super::world_rows::{self, catalogue, holds, shown};
use crate::model::provider::{InventoryRow, ProviderRow};
use crate::model::{ClassId, Inventory, ProviderId, TraitId};
use crate::world::{Changes, ConsumerChange};

/// The entry of `change_log.providers` for changed names of classes or traits. Entries below it are holds of plans:
/// the negative key of the consumer.
pub(super) const CATALOGUE: i64 = 0;

/// The changes since a snapshot.
pub(super) struct Delta {
    /// The snapshot with all of them.
    pub(super) snapshot: String,
    /// The identity of the database; `None` after a crash of the server.
    pub(super) identity: Option<String>,
    /// Number of changes.
    pub(super) count: usize,
    /// The changes of the provider side.
    pub(super) changes: Changes,
    /// The changes of consumers, in their order.
    pub(super) consumers: Vec<ConsumerChange>,
}

/// Reads what changed since a snapshot, in one snapshot: one statement, or when names changed too,
/// one transaction. `None`: the log no longer reaches back to the snapshot, or the snapshot is later than the present
/// one, because the database has been restored to an earlier state.
pub(super) async fn delta(conn: &mut PgConnection, since: &str) -> Result<Option<Delta>> {
    let read = changed_providers(conn, since).await?;
    if !read.names_changed {
        return Ok(read.delta);
    }
    let mut tx = world_rows::begin(conn).await?;
    let delta = delta_in_snapshot(&mut tx, since).await?;
    tx.commit().await?;
    Ok(delta)
}

/// The same within a transaction that has one snapshot.
pub(super) async fn delta_in_snapshot(
    conn: &mut PgConnection,
    since: &str,
) -> Result<Option<Delta>> {
    let mut read = changed_providers(conn, since).await?;
    if let Some(delta) = &mut read.delta
        && read.names_changed
    {
        delta.changes.catalogue = Some(catalogue(conn).await?);
    }
    Ok(read.delta)
}

struct Read {
    delta: Option<Delta>,
    names_changed: bool,
}

/// A changed key, repeated for each inventory of the provider; missing values are null. The first row has no key, but
/// the entries of the log with the times of their transactions.
struct ChangedRow {
    snapshot: String,
    identity: Option<String>,
    lost: bool,
    keys: i32,
    entries: Option<Vec<String>>,
    moments: Option<Vec<i64>>,
    key: Option<i64>,
    uuid: Option<Uuid>,
    name: Option<String>,
    generation: Option<i64>,
    parent_id: Option<i64>,
    root_id: Option<i64>,
    updated_at: Option<i64>,
    traits: Vec<i32>,
    aggregates: Vec<Uuid>,
    spellings: Vec<String>,
    class_id: Option<i32>,
    total: Option<i32>,
    reserved: Option<i32>,
    min_unit: Option<i32>,
    max_unit: Option<i32>,
    step_size: Option<i32>,
    allocation_ratio: Option<f64>,
    used: Option<i64>,
    inventory_updated_at: Option<i64>,
}

impl ChangedRow {
    /// Returns the inventory of this row; `None` if the provider has none or is gone.
    fn inventory(&self) -> Result<Option<InventoryRow>> {
        let Some(class) = self.class_id else { return Ok(None) };
        let read = || {
            Some(InventoryRow {
                class: ClassId(class),
                terms: Inventory {
                    total: self.total?,
                    reserved: self.reserved?,
                    min_unit: self.min_unit?,
                    max_unit: self.max_unit?,
                    step_size: self.step_size?,
                    allocation_ratio: self.allocation_ratio?,
                },
                used: self.used?,
                updated_at: self.inventory_updated_at?,
            })
        };
        let key = || format!("provider {:?}, class {class}: null", self.key);
        read().map(Some).ok_or_else(|| Error::inconsistent("inventories", "*", key()))
    }

    /// Returns the provider of this row; `None` if it is gone.
    fn provider(self) -> Result<Option<ProviderRow>> {
        let Some(uuid) = self.uuid else { return Ok(None) };
        let read = || {
            Some(ProviderRow {
                id: ProviderId(self.key?),
                uuid,
                name: self.name?,
                generation: self.generation?,
                parent: self.parent_id.map(ProviderId),
                root: ProviderId(self.root_id?),
                updated_at: self.updated_at?,
                inventories: Vec::new(),
                traits: self.traits.into_iter().map(TraitId).collect(),
                spellings: shown(&self.aggregates, self.spellings),
                aggregates: self.aggregates,
            })
        };
        let null = || Error::inconsistent("providers", "*", format!("{uuid}: null"));
        read().map(Some).ok_or_else(null)
    }
}

/// Returns whether the present snapshot is this one, of the database with this identity: no transaction has written
/// or ended since, so there are no changes. Costs half as much as [`delta`].
pub(super) async fn is_unchanged(
    conn: &mut PgConnection,
    snapshot: &str,
    identity: &str,
) -> Result<bool> {
    let is_same = sqlx::query_scalar!(
        r#"select pg_current_snapshot()::text = $1
                  and exists (select from database_identity where identity = $2) as "is_same!""#,
        snapshot,
        identity
    );
    Ok(is_same.fetch_one(conn).await?)
}

async fn changed_providers(conn: &mut PgConnection, since: &str) -> Result<Read> {
    let mut rows = changed_rows(conn, since).await?.into_iter();
    let Some(head) = rows.next() else {
        return Err(Error::bug("the change feed gave no row"));
    };
    if head.lost {
        return Ok(Read { delta: None, names_changed: false });
    }
    let (snapshot, identity) = (head.snapshot, head.identity);
    let keys = usize::try_from(head.keys)
        .map_err(|_| Error::bug(format!("{} providers have changed", head.keys)))?;
    let mut logged = LoggedChanges::default();
    for (list, at) in head.entries.iter().flatten().zip(head.moments.iter().flatten()) {
        logged.add(list, *at)?;
    }
    let LoggedChanges { consumers, uses } = logged;
    let mut names_changed = false;
    let mut changed_holds: Vec<i64> = Vec::new();
    let mut providers: Vec<(ProviderId, Option<ProviderRow>)> = Vec::with_capacity(keys);
    for row in rows {
        let Some(key) = row.key else { continue };
        if key <= CATALOGUE {
            names_changed |= key == CATALOGUE;
            changed_holds.extend((key < CATALOGUE).then_some(-key));
            continue;
        }
        let id = ProviderId(key);
        let inventory = row.inventory()?;
        match providers.last_mut() {
            Some((last, Some(provider))) if *last == id => provider.inventories.extend(inventory),
            _ => {
                let mut provider = row.provider()?;
                if let Some(provider) = &mut provider {
                    provider.inventories.extend(inventory);
                }
                providers.push((id, provider));
            }
        }
    }
    // A later state than the other rows is no fault: the log has it, too.
    let holds = match changed_holds.as_slice() {
        [] => BTreeMap::new(),
        changed => holds(conn, changed).await?,
    };
    let count = keys + consumers.len() + uses.len();
    let changes = Changes { catalogue: None, uses, providers, holds };
    let delta = Some(Delta { snapshot, identity, count, changes, consumers });
    Ok(Read { delta, names_changed })
}

/// A snapshot has not seen the transactions that were in progress in it and those that have begun since. Both are
/// looked up in the index, so the cost depends on the number of new rows, even if an old transaction has been left
/// open. Above the present snapshot there are only rows of another cluster, which a restore has brought.
///
/// The keys are collected in one array before anything is joined to them, which keeps the plan to index
/// look-ups.
async fn changed_rows(conn: &mut PgConnection, since: &str) -> Result<Vec<ChangedRow>> {
    let rows = sqlx::query_as!(
        ChangedRow,
        r#"with unseen as materialized (
               select id, at, providers, entries from change_log
               where xid = any(array(select pg_snapshot_xip($1::text::pg_snapshot)))
               union all
               select id, at, providers, entries from change_log
               where xid >= pg_snapshot_xmax($1::text::pg_snapshot)
                 and xid < pg_snapshot_xmax(pg_current_snapshot())
           ), dirty as materialized (
               select array(select distinct key from unseen, unnest(providers) as key) as keys
           )
           select pg_current_snapshot()::text as "snapshot!",
                  (select identity from database_identity) as identity,
                  (select pg_snapshot_xmax(cut) > pg_snapshot_xmax($1::text::pg_snapshot)
                          or exists (select from pg_snapshot_xip($1::text::pg_snapshot) as xid
                                     where pg_visible_in_snapshot(xid, cut))
                          or xid > pg_snapshot_xmax(cut)
                             and xid > pg_snapshot_xmin($1::text::pg_snapshot)
                          or pg_snapshot_xmax(pg_current_snapshot())
                             < pg_snapshot_xmax($1::text::pg_snapshot)
                   from change_log_horizon) as "lost!",
                  cardinality(dirty.keys) as "keys!",
                  case when key is null then array(
                      select entries from unseen where entries is not null order by id
                  ) end as "entries: Vec<String>",
                  case when key is null then array(
                      select extract(epoch from at)::bigint from unseen
                      where entries is not null order by id
                  ) end as "moments: Vec<i64>",
                  key,
                  p.uuid as "uuid?", p.name as "name?", p.generation as "generation?",
                  p.parent_id as "parent_id?", p.root_id as "root_id?",
                  extract(epoch from p.updated_at)::bigint as updated_at,
                  array(select trait_id from provider_traits where provider_id = p.id order by 1)
                      as "traits!",
                  array(select aggregate from provider_aggregates where provider_id = p.id
                        order by aggregate, spelling) as "aggregates!",
                  array(select spelling from provider_aggregates where provider_id = p.id
                        order by aggregate, spelling) as "spellings!",
                  i.class_id as "class_id?", i.total as "total?", i.reserved as "reserved?",
                  i.min_unit as "min_unit?", i.max_unit as "max_unit?",
                  i.step_size as "step_size?", i.allocation_ratio as "allocation_ratio?",
                  i.used as "used?",
                  extract(epoch from i.updated_at)::bigint as inventory_updated_at
           from dirty
           cross join lateral unnest(array_append(dirty.keys, null)) as key
           left join providers p on p.id = key
           left join inventories i on i.provider_id = p.id
           order by key nulls first, i.class_id"#,
        since
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}
