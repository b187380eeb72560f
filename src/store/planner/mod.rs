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
use super::effects::Recorder;
use super::error::Result;
use super::history;
use super::tx::Observers;
use crate::observe::spans::Spans;

/// Changes flavors, groups or aggregates, without a store.
///
/// # Errors
/// Those of the change, or the database is unavailable.
pub async fn change<C: Change>(conn: &mut PgConnection, change: &C) -> Result<C::Outcome> {
    let has_history = history::is_on(conn).await?;
    // None of these changes claims exclusive units.
    let (recorder, spans) = (Recorder::none(), Spans::default());
    // None of these changes appears in events.
    let observers = Observers { recorder, has_history, has_events: false, spans };
    change::transact(conn, change, false, observers).await
}
