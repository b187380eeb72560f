//! Options of the history of changes.

use clap::Args;

/// Maximum retention of the history, in days.
const DAYS_MAX: i64 = 3650;

/// Options of the history of changes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "History")]
pub struct HistoryOptions {
    /// Days for which each change is kept in the database, for `berth history`.
    ///
    /// Set it on all replicas: changes by a replica without it are missing from the history.
    /// Default: changes are not kept.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..=DAYS_MAX))]
    pub history: Option<u16>,
}
