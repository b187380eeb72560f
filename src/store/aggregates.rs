//! Aggregates of a provider.

use uuid::Uuid;

use super::change::{Change, Tx};
use super::error::Result;
use super::providers::{advance, lock_at};
use crate::model::Generation;

/// `PUT .../aggregates`. With `seen` (microversion 1.19) the generation is compared and moves;
/// without, it stays. Refusals: `ProviderNotFound`, `ProviderGeneration`.
#[derive(Clone, Debug)]
pub struct ReplaceAggregates {
    /// Which provider.
    pub provider: Uuid,
    /// The generation the client saw, if it said.
    pub seen: Option<Generation>,
    /// All its aggregates from now on.
    pub aggregates: Vec<Uuid>,
}

impl Change for ReplaceAggregates {
    const NAME: &'static str = "replace_aggregates";
    type Outcome = Generation;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Generation> {
        let provider = lock_at(tx.conn, self.provider, self.seen).await?;
        sqlx::query!(
            "delete from provider_aggregates where provider_id = $1 and aggregate <> all($2)",
            provider.id.0,
            &self.aggregates
        )
        .execute(&mut *tx.conn)
        .await?;
        sqlx::query!(
            "insert into provider_aggregates (provider_id, aggregate) select $1, unnest($2::uuid[]) \
             on conflict do nothing",
            provider.id.0,
            &self.aggregates
        )
        .execute(&mut *tx.conn)
        .await?;
        tx.touch(provider.id);
        match self.seen {
            Some(_) => advance(tx, provider).await,
            None => Ok(provider.generation),
        }
    }
}
