//! Reads the rows of which the world is made.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::error::{Error, Result};
use crate::model::provider::{InventoryRow, ProviderRow};
use crate::model::{ClassId, ConsumerId, Inventory, ProviderId, TraitId};
use crate::world::{Catalogue, HeldAmounts, Name};

/// All rows, as of one snapshot.
pub(super) struct All {
    pub(super) snapshot: String,
    /// The identity of the database; see the view `database_identity`.
    pub(super) identity: String,
    pub(super) catalogue: Catalogue,
    pub(super) providers: Vec<ProviderRow>,
    pub(super) holds: BTreeMap<ConsumerId, HeldAmounts>,
}

/// Begins a transaction that reads in one snapshot.
pub(super) async fn begin(conn: &mut PgConnection) -> Result<Transaction<'_, Postgres>> {
    Ok(conn.begin_with("begin isolation level repeatable read, read only").await?)
}

/// Reads everything in one snapshot.
pub(super) async fn all(conn: &mut PgConnection) -> Result<All> {
    let mut tx = begin(conn).await?;
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
    let mut rows = sqlx::query!(
        r#"select provider_id, array_agg(trait_id) as "traits!"
           from provider_traits group by provider_id order by provider_id"#
    )
    .fetch(&mut *conn);
    while let Some(row) = rows.try_next().await? {
        let provider = providers.find("provider_traits", row.provider_id)?;
        provider.traits = row.traits.into_iter().map(TraitId).collect();
    }
    drop(rows);
    let mut rows = sqlx::query!(
        r#"select provider_id, array_agg(aggregate) as "aggregates!",
                  array_agg(spelling) as "spellings!"
           from (select * from provider_aggregates order by provider_id, aggregate, spelling) as a
           group by provider_id order by provider_id"#
    )
    .fetch(conn);
    while let Some(row) = rows.try_next().await? {
        let provider = providers.find("provider_aggregates", row.provider_id)?;
        provider.spellings = shown(&row.aggregates, row.spellings);
        provider.aggregates = row.aggregates;
    }
    Ok(())
}

/// Reads the allocations of all holds.
async fn all_holds(conn: &mut PgConnection) -> Result<BTreeMap<ConsumerId, HeldAmounts>> {
    let rows = sqlx::query_as!(
        HeldRow,
        r#"select c.id as consumer_id, a.provider_id as "provider_id!", a.class_id as "class_id!",
                a.used as "used!"
         from placements p
         join consumers c on c.uuid = p.id
         join allocations a on a.consumer_id = c.id"#
    );
    Ok(by_hold(rows.fetch_all(conn).await?))
}

/// Reads the allocations of these consumers; none of those that are no hold or have ended.
pub(super) async fn holds(
    conn: &mut PgConnection,
    consumers: &[i64],
) -> Result<BTreeMap<ConsumerId, HeldAmounts>> {
    let rows = sqlx::query_as!(
        HeldRow,
        r#"select c.id as consumer_id, a.provider_id as "provider_id!", a.class_id as "class_id!",
                a.used as "used!"
         from consumers c
         join placements p on p.id = c.uuid
         join allocations a on a.consumer_id = c.id
         where c.id = any($1)"#,
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

pub(super) async fn catalogue(conn: &mut PgConnection) -> Result<Catalogue> {
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
pub(super) fn shown(aggregates: &[Uuid], stored: Vec<String>) -> Vec<String> {
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
        while self.rows.get(self.cursor).is_some_and(|row| row.id < id) {
            self.cursor += 1;
        }
        self.rows.get_mut(self.cursor).filter(|row| row.id == id).ok_or_else(|| {
            Error::inconsistent(table, "provider_id", format!("{provider}: no such provider"))
        })
    }
}
