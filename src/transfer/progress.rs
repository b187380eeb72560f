//! Progress bars on a terminal: rows read of each table, their rate, and the time that is left.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

const TEMPLATE: &str =
    "{prefix:30} {wide_bar} {human_pos}/{human_len} {per_sec:>16} {eta_precise} left";

/// The bars, which are only shown on a terminal.
pub(super) struct Progress(MultiProgress);

impl Progress {
    pub(super) fn new() -> Self {
        Self(MultiProgress::new())
    }

    /// A bar for the rows of a table.
    pub(super) fn of(&self, table: &'static str, rows: u64) -> ProgressBar {
        let bar = self.0.add(ProgressBar::new(rows));
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_prefix(table);
        bar
    }
}
