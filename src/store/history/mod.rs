//! The history of changes, with their callers and the states before and after. It is written in the transaction of
//! the change, so it has exactly the committed changes.
//!
//! [`reading`] finds the entries about an object, [`summary`] puts an entry into a line, [`retention`] removes old
//! ones. `history_periods` has the times during which changes were recorded: a replica with the option begins a period
//! at its start unless one is open, and a replica without it ends the open one, because its changes are not recorded.

pub mod entry;
pub mod reading;
mod retention;
pub mod summary;

use futures_util::FutureExt;
use metrics::counter;
use sqlx::PgConnection;

use super::effects::{Effect, Recorder};
use super::error::{Error, Result};
use super::log_entry::JsonLists;
use super::primary::Primary;
use entry::NewEntry;
pub(super) use retention::{Retention, measure};

/// Stores that this replica records changes from now on, or that it does not.
///
/// # Errors
/// The database is unavailable.
pub(super) async fn begin(primary: &Primary, is_on: bool) -> Result<()> {
    primary
        .read(|conn| {
            async move {
                if is_on {
                    let begun = sqlx::query!(
                        "insert into history_periods (began) select clock_timestamp()
                         where not exists (select from history_periods where ended is null)
                         on conflict do nothing"
                    );
                    begun.execute(conn).await
                } else {
                    let ended = sqlx::query!(
                        "update history_periods set ended = clock_timestamp() where ended is null"
                    );
                    ended.execute(conn).await
                }
            }
            .boxed()
        })
        .await?;
    Ok(())
}

/// Returns whether changes are recorded at present.
///
/// # Errors
/// The database is unavailable.
pub(super) async fn is_on(conn: &mut PgConnection) -> Result<bool> {
    let is_on = sqlx::query_scalar!(
        r#"select exists (select from history_periods where ended is null) as "is_on!""#
    );
    Ok(is_on.fetch_one(conn).await?)
}

/// Returns the rows for the effects of a transaction: lists of entries, as JSON.
///
/// # Errors
/// A bug: an entry cannot be serialized.
pub(super) fn rows(effects: &[(Recorder, Effect)]) -> Result<Vec<String>> {
    let mut rows = JsonLists::default();
    for (recorder, effect) in effects {
        let entry = serde_json::to_string(&NewEntry::of(recorder, effect))
            .map_err(|error| Error::bug(format!("the history cannot be serialized: {error}")))?;
        rows.push(&entry);
    }
    counter!("berth_history_entries_total").increment(effects.len() as u64);
    Ok(rows.finish())
}
