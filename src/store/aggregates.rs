//! Aggregates of a provider.

use uuid::Uuid;

use super::change::Change;
use super::effects::Kind;
use super::error::Result;
use super::provider_lock::{advance, lock_at};
use super::tx::Tx;
use crate::model::Generation;

/// `PUT .../aggregates`. With `expected_generation` (microversion 1.19) the generation is compared and moves;
/// without, it stays. Refusals: `ProviderNotFound`, `ProviderGeneration`.
#[derive(Clone, Debug)]
pub struct ReplaceAggregates {
    /// The provider.
    pub provider: Uuid,
    /// The generation that the client saw, if given.
    pub expected_generation: Option<Generation>,
    /// All its aggregates from now on, each as the client spelled it; no spelling twice.
    pub aggregates: Vec<(Uuid, String)>,
}

/// Returns the spelling to store: empty for the usual one.
fn stored(aggregate: Uuid, spelling: &str) -> String {
    if aggregate.to_string() == spelling { String::new() } else { spelling.to_owned() }
}

impl Change for ReplaceAggregates {
    type Outcome = Generation;

    fn row(&self) -> Option<Uuid> {
        Some(self.provider)
    }

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Generation> {
        let provider = lock_at(tx.conn, self.provider, self.expected_generation).await?;
        let aggregates: Vec<Uuid> = self.aggregates.iter().map(|(uuid, _)| *uuid).collect();
        let spellings = self.aggregates.iter().map(|(uuid, spelling)| stored(*uuid, spelling));
        let spellings: Vec<String> = spellings.collect();
        let before = tx.before(Kind::ProviderAggregates, provider).await?;
        sqlx::query!(
            "delete from provider_aggregates a where provider_id = $1 and not exists (
                 select from unnest($2::uuid[], $3::text[]) as wanted(aggregate, spelling)
                 where wanted.aggregate = a.aggregate and wanted.spelling = a.spelling)",
            provider.id.0,
            &aggregates,
            &spellings
        )
        .execute(&mut *tx.conn)
        .await?;
        sqlx::query!(
            "insert into provider_aggregates (provider_id, aggregate, spelling)
             select $1, * from unnest($2::uuid[], $3::text[]) on conflict do nothing",
            provider.id.0,
            &aggregates,
            &spellings
        )
        .execute(&mut *tx.conn)
        .await?;
        tx.touch(provider.id);
        let generation = match self.expected_generation {
            Some(_) => advance(tx, provider).await?,
            None => provider.generation,
        };
        tx.note_since(before, generation).await?;
        Ok(generation)
    }
}
