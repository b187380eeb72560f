//! The planner's side of what is stored: groups, plans and their placements, units that groups have
//! to themselves, flavors.

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
use super::Result;
use super::change::{self, Change, Observers};
use super::effects::{Effect, Recorder};
use super::found_faults::FoundFaults;
use super::history::{History, Summary};
use crate::observe::spans::Spans;

/// Changes flavors, groups or aggregates, without a store. `summary` puts what has changed into words for the history
/// of changes.
///
/// # Errors
/// Those of the change, or the database cannot be asked.
pub async fn change<C: Change>(
    conn: &mut PgConnection,
    change: &C,
    summary: fn(&Effect) -> Summary,
) -> Result<C::Outcome> {
    let history = History::of_commands(conn, summary).await?;
    // None of these has to do with claims in exclusive units.
    let (recorder, found, spans) = (Recorder::none(), FoundFaults::unwanted(), Spans::default());
    // None of these changes what events tell.
    let observers = Observers { recorder, found, history, events: None, spans };
    change::transact(conn, change, false, observers).await
}
