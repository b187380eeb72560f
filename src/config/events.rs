//! Whether the log of events is kept, and for how long.

use clap::Args;

use crate::http::operator::views::events;
use crate::store::EventLog;

/// The longest time for which events are kept, in hours.
const HOURS_MAX: i64 = 720;

/// Options of the log of events.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Events")]
pub struct EventOptions {
    /// Hours for which each change is kept in the database, for `GET /-/v1/events` and `berth watch`.
    ///
    /// Set it on all replicas: what a replica without it changes is not in the log, which then begins
    /// anew. Default: changes are not kept.
    #[arg(long, env = "BERTH_EVENTS", value_name = "HOURS",
          value_parser = clap::value_parser!(u16).range(1..=HOURS_MAX))]
    pub events: Option<u16>,
}

impl EventOptions {
    /// How the store keeps the log, if it does.
    pub fn kept(&self) -> Option<EventLog> {
        self.events.map(|hours| EventLog { hours, write: events::written })
    }
}
