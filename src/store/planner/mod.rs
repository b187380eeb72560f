//! The planner's tables: groups, plans with their placements, exclusive units, flavors.

pub mod aggregates;
pub mod booking;
pub mod caps;
mod exclusive_units;
pub mod expiry;
pub mod flavors;
pub mod groups;
mod handover;
mod placements;
pub mod plans;
mod projects;
mod report;
pub mod status;

use sqlx::PgConnection;

pub(super) use self::handover::Handover;
use super::change;
use super::change::Change;
use super::effects::{Effect, Recorder};
use super::error::Result;
use super::found_faults::FoundFaults;
use super::history::summary::Summary;
use super::options::History;
use super::tx::Observers;
use crate::observe::spans::Spans;

/// Changes flavors, groups or aggregates, without a store. `summary` describes the changes for the history.
///
/// # Errors
/// Those of the change, or the database is unavailable.
pub async fn change<C: Change>(
    conn: &mut PgConnection,
    change: &C,
    summary: fn(&Effect) -> Summary,
) -> Result<C::Outcome> {
    let history = History::of_commands(conn, summary).await?;
    // None of these changes claims exclusive units.
    let (recorder, found, spans) = (Recorder::none(), FoundFaults::ignoring(), Spans::default());
    // None of these changes appears in events.
    let observers = Observers { recorder, found, history, events: None, spans };
    change::transact(conn, change, false, observers).await
}
