//! Reads the rows of which the world is made: all of them, or those that changed since a snapshot.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::error::{Error, Result};
use crate::model::provider::{InventoryRow, ProviderRow};
use crate::model::{ClassId, ConsumerId, Inventory, ProviderId, TraitId};
use crate::world::{Catalogue, Changes, HeldAmounts, Name};

/// The entry of `change_log.providers` for changed names of classes or traits. Entries below it are holds of plans:
/// the negative key of the consumer.
pub(super) const CATALOGUE: i64 = 0;

const ONE_SNAPSHOT: &str = "begin isolation level repeatable read, read only";

/// All rows, as of one snapshot.
pub(super) struct All {
    pub(super) snapshot: String,
    /// The identity of the database; see the view `database_identity`.
    pub(super) identity: String,
    pub(super) catalogue: Catalogue,
    pub(super) providers: Vec<ProviderRow>,
    pub(super) holds: BTreeMap<ConsumerId, HeldAmounts>,
}

/// The changes since a snapshot.
pub(super) enum Delta {
    /// These keys changed; `changes` has their current rows.
    Changes {
        /// The snapshot of these rows.
        snapshot: String,
        /// The identity of the database; `None` after a crash of the server.
        identity: Option<String>,
        /// Number of keys.
        keys: usize,
        /// Their rows.
        changes: Changes,
    },
    /// The log no longer reaches back to the snapshot, or the snapshot is later than the present one, because the
    /// database has been restored to an earlier state.
    Lost,
}

/// Reads everything in one snapshot.
pub(super) async fn all(conn: &mut PgConnection) -> Result<All> {
    let mut tx = conn.begin_with(ONE_SNAPSHOT).await?;
    // Whole tables are read here, however long that takes.
    sqlx::raw_sql("set local statement_timeout = 0; set local enable_seqscan = on")
        .execute(&mut *tx)
        .await?;
    let now = sqlx::query!(
        r#"select pg_current_snapshot()::text as "snapshot!",
                  (select identity from database_identity) as identity"#
    )
    .fetch_one(&mut *tx)
    .await?;
    let Some(identity) = now.identity else {
        return Err(Error::Again("the epoch was removed meanwhile".to_owned()));
    };
    let catalogue = catalogue(&mut tx).await?;
    let mut providers = Assembly::default();
    let mut rows = sqlx::query!(
        r#"select id, uuid, name, generation, parent_id, root_id,
                  extract(epoch from updated_at)::bigint as "updated_at!"
           from providers order by id"#
    )
    .fetch(&mut *tx);
    while let Some(row) = rows.try_next().await? {
        providers.add(ProviderRow {
            id: ProviderId(row.id),
            uuid: row.uuid,
            name: row.name,
            generation: row.generation,
            parent: row.parent_id.map(ProviderId),
            root: ProviderId(row.root_id),
            updated_at: row.updated_at,
            inventories: Vec::new(),
            traits: Vec::new(),
            aggregates: Vec::new(),
            spellings: Vec::new(),
        });
    }
    drop(rows);
    let mut rows = sqlx::query!(
        r#"select provider_id, class_id, total, reserved, min_unit, max_unit, step_size,
                  allocation_ratio, used, extract(epoch from updated_at)::bigint as "updated_at!"
           from inventories order by provider_id, class_id"#
    )
    .fetch(&mut *tx);
    while let Some(row) = rows.try_next().await? {
        let terms = Inventory {
            total: row.total,
            reserved: row.reserved,
            min_unit: row.min_unit,
            max_unit: row.max_unit,
            step_size: row.step_size,
            allocation_ratio: row.allocation_ratio,
        };
        let class = ClassId(row.class_id);
        let (used, updated_at) = (row.used, row.updated_at);
        let row_of_class = InventoryRow { class, terms, used, updated_at };
        providers.find("inventories", row.provider_id)?.inventories.push(row_of_class);
    }
    drop(rows);
    memberships(&mut tx, &mut providers).await?;
    let holds = all_holds(&mut tx).await?;
    tx.commit().await?;
    Ok(All { snapshot: now.snapshot, identity, catalogue, providers: providers.rows, holds })
}

/// Reads traits and aggregates of all providers.
async fn memberships(conn: &mut PgConnection, providers: &mut Assembly) -> Result<()> {
    let mut rows = sqlx::query!("select provider_id, trait_id from provider_traits order by 1, 2")
        .fetch(&mut *conn);
    while let Some(row) = rows.try_next().await? {
        let provider = providers.find("provider_traits", row.provider_id)?;
        provider.traits.push(TraitId(row.trait_id));
    }
    drop(rows);
    read_aggregates(conn, providers).await
}

async fn read_aggregates(conn: &mut PgConnection, providers: &mut Assembly) -> Result<()> {
    let mut rows = sqlx::query!(
        "select provider_id, aggregate, spelling from provider_aggregates order by 1, 2, 3"
    )
    .fetch(conn);
    while let Some(row) = rows.try_next().await? {
        let provider = providers.find("provider_aggregates", row.provider_id)?;
        provider.aggregates.push(row.aggregate);
        provider.spellings.push(row.spelling);
    }
    for row in &mut providers.rows {
        row.spellings = shown(&row.aggregates, std::mem::take(&mut row.spellings));
    }
    Ok(())
}

/// Reads the allocations of all holds.
async fn all_holds(conn: &mut PgConnection) -> Result<BTreeMap<ConsumerId, HeldAmounts>> {
    let rows = sqlx::query_as!(
        HeldRow,
        "select a.consumer_id, a.provider_id, a.class_id, a.used
         from placements p
         join consumers c on c.uuid = p.id
         join allocations a on a.consumer_id = c.id"
    );
    Ok(by_hold(rows.fetch_all(conn).await?))
}

/// Reads the allocations of these consumers; none of those that are no hold or have ended.
async fn holds(
    conn: &mut PgConnection,
    consumers: &[i64],
) -> Result<BTreeMap<ConsumerId, HeldAmounts>> {
    let rows = sqlx::query_as!(
        HeldRow,
        "select a.consumer_id, a.provider_id, a.class_id, a.used
         from consumers c
         join placements p on p.id = c.uuid
         join allocations a on a.consumer_id = c.id
         where c.id = any($1)",
        consumers
    );
    let mut holds = by_hold(rows.fetch_all(conn).await?);
    for consumer in consumers {
        holds.entry(ConsumerId(*consumer)).or_default();
    }
    Ok(holds)
}

struct HeldRow {
    consumer_id: i64,
    provider_id: i64,
    class_id: i32,
    used: i64,
}

fn by_hold(rows: Vec<HeldRow>) -> BTreeMap<ConsumerId, HeldAmounts> {
    let mut holds: BTreeMap<ConsumerId, HeldAmounts> = BTreeMap::new();
    for row in rows {
        let amount = (ProviderId(row.provider_id), ClassId(row.class_id), row.used);
        holds.entry(ConsumerId(row.consumer_id)).or_default().push(amount);
    }
    holds
}

async fn catalogue(conn: &mut PgConnection) -> Result<Catalogue> {
    let classes = sqlx::query!(
        r#"select id, name, extract(epoch from updated_at)::bigint as "updated_at!"
           from resource_classes"#
    )
    .fetch_all(&mut *conn)
    .await?;
    let traits = sqlx::query!(
        r#"select id, name, extract(epoch from updated_at)::bigint as "updated_at!" from traits"#
    )
    .fetch_all(&mut *conn)
    .await?;
    Ok(Catalogue {
        classes: classes
            .into_iter()
            .map(|row| (ClassId(row.id), Name { name: row.name, updated_at: row.updated_at }))
            .collect(),
        traits: traits
            .into_iter()
            .map(|row| (TraitId(row.id), Name { name: row.name, updated_at: row.updated_at }))
            .collect(),
    })
}

/// Returns aggregates as clients spelled them, from the stored spellings; empty if each is spelled in the
/// usual way.
fn shown(aggregates: &[Uuid], stored: Vec<String>) -> Vec<String> {
    if stored.iter().all(String::is_empty) {
        return Vec::new();
    }
    let spelled = |(uuid, stored): (&Uuid, String)| {
        if stored.is_empty() { uuid.to_string() } else { stored }
    };
    aggregates.iter().zip(stored).map(spelled).collect()
}

/// Assembles providers from rows sorted by provider.
#[derive(Default)]
struct Assembly {
    rows: Vec<ProviderRow>,
    cursor: usize,
}

impl Assembly {
    fn add(&mut self, row: ProviderRow) {
        self.rows.push(row);
    }

    /// Returns the provider of a table's row. Providers come in ascending order, from the start again for each
    /// table.
    fn find(&mut self, table: &'static str, provider: i64) -> Result<&mut ProviderRow> {
        let id = ProviderId(provider);
        if self.rows.get(self.cursor).is_none_or(|row| row.id > id) {
            self.cursor = 0;
        }
        let (_, ahead) = self.rows.split_at_mut(self.cursor);
        let step = ahead.partition_point(|row| row.id < id);
        self.cursor += step;
        ahead.get_mut(step).filter(|row| row.id == id).ok_or_else(|| {
            Error::inconsistent(table, "provider_id", format!("{provider}: no such provider"))
        })
    }
}

/// Reads what changed since a snapshot, in one snapshot: one statement, or when names changed too,
/// one transaction.
pub(super) async fn delta(conn: &mut PgConnection, since: &str) -> Result<Delta> {
    let delta = changed_providers(conn, since).await?;
    if !delta.names_changed {
        return Ok(delta.known);
    }
    let mut tx = conn.begin_with(ONE_SNAPSHOT).await?;
    let known = delta_in_snapshot(&mut tx, since).await?;
    tx.commit().await?;
    Ok(known)
}

/// Reads what changed since a snapshot, within a transaction that has one snapshot.
pub(super) async fn delta_in_snapshot(conn: &mut PgConnection, since: &str) -> Result<Delta> {
    let mut delta = changed_providers(conn, since).await?;
    if let Delta::Changes { changes, .. } = &mut delta.known
        && delta.names_changed
    {
        changes.catalogue = Some(catalogue(conn).await?);
    }
    Ok(delta.known)
}

struct Read {
    known: Delta,
    names_changed: bool,
}

/// A changed key, repeated for each inventory of the provider; missing values are null.
struct ChangedRow {
    snapshot: String,
    identity: Option<String>,
    lost: bool,
    keys: i32,
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
    let rows = changed_rows(conn, since).await?;
    let Some(head) = rows.first() else {
        return Err(Error::bug("the change feed gave no row"));
    };
    if head.lost {
        return Ok(Read { known: Delta::Lost, names_changed: false });
    }
    let (snapshot, identity) = (head.snapshot.clone(), head.identity.clone());
    let keys = usize::try_from(head.keys)
        .map_err(|_| Error::bug(format!("{} providers have changed", head.keys)))?;
    let mut names_changed = false;
    let mut changed_holds: Vec<i64> = Vec::new();
    let mut providers: Vec<(ProviderId, Option<ProviderRow>)> = Vec::with_capacity(keys);
    for row in rows {
        // One row without a key says that nothing has changed.
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
    let changes = Changes { catalogue: None, providers, holds };
    Ok(Read { known: Delta::Changes { snapshot, identity, keys, changes }, names_changed })
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
        r#"with dirty as materialized (
               select coalesce(array_agg(distinct key), '{}') as keys
               from (
                   select providers from change_log
                   where xid = any(array(select pg_snapshot_xip($1::text::pg_snapshot)))
                   union all
                   select providers from change_log
                   where xid >= pg_snapshot_xmax($1::text::pg_snapshot)
                     and xid < pg_snapshot_xmax(pg_current_snapshot())
               ) as unseen, unnest(providers) as key
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
                  cardinality(dirty.keys) as "keys!", key,
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
           left join lateral unnest(dirty.keys) as key on true
           left join providers p on p.id = key
           left join inventories i on i.provider_id = p.id
           order by key, i.class_id"#,
        since
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}
