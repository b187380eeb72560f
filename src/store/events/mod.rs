//! The log of events, which clients follow: every change of providers, consumers, traits and resource classes, with
//! the state that it left. It is written in the transaction of the change, so it has exactly the committed
//! changes; [`numbering`] numbers them afterwards, [`reading`] reads by number, [`tail`] publishes the last
//! number, and [`retention`] removes old events.
//!
//! # Numbers
//!
//! Transactions cannot know in which order they will commit. So rows have no numbers, but a sequence number that
//! is drawn when everything that the transaction changes is locked. From time to time a replica takes a snapshot
//! and stores it as a *batch*: it has the transactions that are visible in this snapshot and not in that of the
//! previous batch, in the order of their sequence numbers, which fixes the number of each event.
//!
//! Example: transaction A changes a provider, draws 7 and stays open; B changes another one, draws 8 and commits.
//! A batch has B alone; A is in a later one, whose snapshot sees it. Had B waited for a lock of A, it would have
//! drawn its number after A's commit. So an event comes after all that its transaction could have seen.
//!
//! Numbers start at the microseconds since 1970 if that is more than the previous number. Whatever state a
//! database is restored to, no number is used twice, and an unknown number is recognised.

mod describing;
pub(super) mod event;
mod numbering;
pub mod reading;
mod retention;
mod snapshot_number;
mod tail;

use sqlx::PgConnection;

use super::effects::Recorder;
use super::error::{Error, Result};
pub use event::{Change, ConsumerState, Inventory, MadeBy, ProviderAllocations, ProviderState};
use event::{NotedChanges, StoredEvent};
pub(super) use numbering::reach_now;
pub(super) use retention::remove_old;
pub(super) use snapshot_number::Numbering;
pub(super) use tail::Tail;

/// A transaction that changes more providers than this is not described: the log restarts.
const PROVIDERS_MAX: usize = 1000;

/// The events of a transaction, as they are stored.
#[derive(Debug)]
pub(super) struct Entries {
    /// Their number.
    pub(super) count: i32,
    /// The events as JSON.
    pub(super) text: String,
}

/// Describes the changes of a transaction. Returns `None` if it has none, or so many that the log of events restarts.
///
/// # Errors
/// The database is unavailable.
pub(super) async fn entries(
    conn: &mut PgConnection,
    recorder: &Recorder,
    noted: NotedChanges,
) -> Result<Option<Entries>> {
    if noted.is_empty() {
        return Ok(None);
    }
    if noted.providers.len() > PROVIDERS_MAX {
        let count = noted.providers.len();
        tracing::info!("{count} providers have changed at once: the log of events restarts");
        return Ok(None);
    }
    let described = describing::changes(conn, noted).await?;
    let events: Vec<StoredEvent<'_>> = described
        .iter()
        .map(|(of, change)| {
            let origin = of.as_ref().map_or(recorder.origin(), Recorder::origin);
            StoredEvent { change, made_by: MadeBy::of(origin) }
        })
        .collect();
    let text = serde_json::to_string(&events)
        .map_err(|error| Error::bug(format!("events cannot be serialized: {error}")))?;
    let count =
        i32::try_from(events.len()).map_err(|_| Error::bug("a transaction has too many events"))?;
    Ok(Some(Entries { count, text }))
}
