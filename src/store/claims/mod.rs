//! Claims in the database: locks and reads the rows that they need, and writes the judged state.
//!
//! Every transaction takes its locks in the same order (see [`locks`](super::locks)), so claims queue
//! behind each other, and none is refused because another one came at the same time.

pub(super) mod locked;
mod read;
mod rows;
mod write;

use uuid::Uuid;

use super::consistency;
use super::error::{Error, Result};
use super::tx::Tx;
use crate::model::claim::LockedState;
use crate::observe::spans::Phase;
use locked::{LockedClaims, Needs};
pub(super) use read::read;
use rows::{
    insert_consumers, lock_consumers, lock_providers, read_classes, read_held, read_inventories,
};
pub(super) use write::{GenerationSteps, write};

/// Locks and reads the needed rows.
pub(super) async fn lock(tx: &mut Tx<'_>, needs: &Needs<'_>) -> Result<LockedClaims> {
    let _locking = tx.spans.begin(Phase::Lock);
    let (mut rows, expected) = insert_consumers(tx.conn, &needs.claiming).await?;
    let mut consumers = lock_consumers(tx.conn, needs, expected, &mut rows).await?;
    if needs.claiming.keys().any(|uuid| !rows.contains_key(uuid)) {
        return Err(Error::Again("a consumer was deleted while it was being locked".to_owned()));
    }
    let held = read_held(tx.conn, &mut consumers, &rows).await?;
    let named: Vec<Uuid> = consumers.keys().copied().collect();
    let providers = lock_providers(tx.conn, needs, &held, &named).await?;
    let mut state = LockedState { providers, consumers, ..LockedState::default() };
    let planner_role = read_inventories(tx.conn, &mut state).await?;
    read_classes(tx.conn, needs, &mut state.classes).await?;
    consistency::check_held(&state)?;
    Ok(LockedClaims { state, rows, planner_role })
}
