//! The lock of a provider: its row, at the generation that the request expects.

use sqlx::PgConnection;
use uuid::Uuid;

use super::error::Result;
use super::tx::Tx;
use crate::model::{Generation, ProviderId, Refusal};

/// A provider whose row is locked until the transaction ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProviderLock {
    pub(super) id: ProviderId,
    pub(super) uuid: Uuid,
    pub(super) generation: Generation,
    pub(super) parent: Option<i64>,
}

impl ProviderLock {
    /// Returns the lock of a provider that was locked for claims, with its generation at that time.
    pub(super) fn of(id: ProviderId, uuid: Uuid, generation: Generation) -> Self {
        Self { id, uuid, generation, parent: None }
    }
}

/// Locks a provider against every other writer of it.
pub(super) async fn lock(conn: &mut PgConnection, uuid: Uuid) -> Result<ProviderLock> {
    let row = sqlx::query!(
        "select id, generation, parent_id from providers where uuid = $1 \
         for no key update",
        uuid
    )
    .fetch_optional(conn)
    .await?
    .ok_or(Refusal::ProviderNotFound(uuid))?;
    Ok(ProviderLock {
        id: ProviderId(row.id),
        uuid,
        generation: row.generation,
        parent: row.parent_id,
    })
}

/// Locks a provider, and compares the generation that the client saw, if given.
pub(super) async fn lock_at(
    conn: &mut PgConnection,
    uuid: Uuid,
    expected_generation: Option<Generation>,
) -> Result<ProviderLock> {
    let provider = lock(conn, uuid).await?;
    match expected_generation {
        Some(given) if given != provider.generation => {
            let actual = provider.generation;
            Err(Refusal::ProviderGeneration { provider: uuid, actual, given }.into())
        }
        _ => Ok(provider),
    }
}

/// Advances the generation of a locked provider, and returns it.
pub(super) async fn advance(tx: &mut Tx<'_>, provider: ProviderLock) -> Result<Generation> {
    tx.touch(provider.id);
    let generation = sqlx::query_scalar!(
        "update providers set generation = generation + 1, updated_at = now() where id = $1 \
         returning generation",
        provider.id.0
    )
    .fetch_one(&mut *tx.conn)
    .await?;
    Ok(generation)
}
