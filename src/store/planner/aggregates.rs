//! Metadata of aggregates.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::model::Refusal;
use crate::planner::aggregates::AggregateMetadata;
use crate::store::Result;
use crate::store::access::Store;
use crate::store::change::Change;
use crate::store::tx::Tx;

/// Sets metadata of an aggregate; other keys stay as they are.
#[derive(Clone, Debug)]
pub struct SetAggregate {
    /// The aggregate.
    pub aggregate: Uuid,
    /// Keys and values.
    pub metadata: BTreeMap<String, String>,
}

/// Removes metadata of an aggregate. Refusals: `AggregateKeyNotFound`.
#[derive(Clone, Debug)]
pub struct UnsetAggregate {
    /// The aggregate.
    pub aggregate: Uuid,
    /// The keys; empty: all.
    pub keys: Vec<String>,
}

/// An aggregate, a key and its value.
type Row = (Uuid, String, String);

impl Change for SetAggregate {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let keys: Vec<String> = self.metadata.keys().cloned().collect();
        let values: Vec<String> = self.metadata.values().cloned().collect();
        sqlx::query!(
            "insert into aggregate_metadata (aggregate, key, value)
             select $1, key, value from unnest($2::text[], $3::text[]) as new (key, value)
             order by key
             on conflict (aggregate, key) do update set value = excluded.value",
            self.aggregate,
            &keys,
            &values
        )
        .execute(&mut *tx.conn)
        .await?;
        Ok(())
    }
}

impl Change for UnsetAggregate {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let gone = sqlx::query_scalar!(
            "delete from aggregate_metadata where aggregate = $1
             and (key = any($2) or cardinality($2::text[]) = 0) returning key",
            self.aggregate,
            &self.keys
        )
        .fetch_all(&mut *tx.conn)
        .await?;
        match self.keys.iter().find(|key| !gone.contains(key)) {
            Some(key) => {
                let (aggregate, key) = (self.aggregate, key.clone());
                Err(Refusal::AggregateKeyNotFound { aggregate, key }.into())
            }
            None => Ok(()),
        }
    }
}

fn select(conn: &mut PgConnection) -> BoxFuture<'_, sqlx::Result<Vec<Row>>> {
    let rows = sqlx::query!("select aggregate, key, value from aggregate_metadata order by 1, 2")
        .fetch_all(conn);
    async move {
        let rows = rows.await?;
        Ok(rows.into_iter().map(|row| (row.aggregate, row.key, row.value)).collect())
    }
    .boxed()
}

/// Returns all metadata of aggregates, in the order of aggregates and keys, without a store.
///
/// # Errors
/// The database is unavailable.
pub async fn list(conn: &mut PgConnection) -> Result<Vec<Row>> {
    Ok(select(conn).await?)
}

impl Store {
    /// Returns all metadata of aggregates.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn aggregate_metadata(&self) -> Result<AggregateMetadata> {
        Ok(self.read(|conn| select(conn)).await?.into_iter().collect())
    }
}
