//! Options of the log of events.

use clap::Args;

/// Maximum retention of events, in hours.
const HOURS_MAX: i64 = 720;

/// Options of the log of events.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Events")]
pub struct EventOptions {
    /// Hours for which each change is kept in the database, for `GET /-/v1/events` and `berth watch`.
    ///
    /// Set it on all replicas: changes by a replica without it are missing from the log, which then
    /// starts again. Default: changes are not kept.
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u16).range(1..=HOURS_MAX))]
    pub events: Option<u16>,
}
