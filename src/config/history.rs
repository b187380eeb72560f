//! Options of the history of changes.

use clap::Args;

/// Maximum retention of the history, in days.
const DAYS_MAX: i64 = 3650;

/// Options of the history of changes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "History")]
pub struct HistoryOptions {
    /// Days for which each change is kept in the database, for `berth history`; 0: changes are not kept.
    ///
    /// Set the same on all replicas: changes by a replica with 0 are missing from the history.
    #[arg(long, value_name = "DAYS", default_value = "7",
          value_parser = clap::value_parser!(u16).range(0..=DAYS_MAX))]
    pub history: u16,
}

impl HistoryOptions {
    /// Returns the number of days; `None`: changes are not kept.
    pub(crate) fn days(&self) -> Option<u16> {
        (self.history > 0).then_some(self.history)
    }
}
