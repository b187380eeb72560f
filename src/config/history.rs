//! Whether the history of changes is kept, and for how long.

use clap::Args;

use crate::audit;
use crate::store::History;

/// The longest time for which the history is kept, in days.
const DAYS_MAX: i64 = 3650;

/// Options of the history of changes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "History")]
pub struct HistoryOptions {
    /// Days for which each change is kept in the database, for `berth history`.
    ///
    /// Set it on all replicas: what a replica without it changes is not in the history. Default:
    /// changes are not kept.
    #[arg(long, env = "BERTH_HISTORY", value_name = "DAYS",
          value_parser = clap::value_parser!(u16).range(1..=DAYS_MAX))]
    pub history: Option<u16>,
}

impl HistoryOptions {
    /// How the store keeps the history, if it does.
    pub fn kept(&self) -> Option<History> {
        self.history.map(|days| History { days, summary: audit::summary })
    }
}
