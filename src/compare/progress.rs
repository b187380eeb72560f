//! Progress bars on a terminal: requests compared of each subject, their rate, and the time that is left.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

const TEMPLATE: &str =
    "{prefix:26} {wide_bar} {human_pos}/{human_len} {per_sec:>16} {eta_precise} left";

/// The bars, which are only shown on a terminal.
#[derive(Debug)]
pub(super) struct Progress(MultiProgress);

impl Progress {
    pub(super) fn new() -> Self {
        Self(MultiProgress::new())
    }

    /// A bar for so many requests.
    pub(super) fn of(&self, what: &'static str, requests: u64) -> ProgressBar {
        let bar = self.0.add(ProgressBar::new(requests));
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        bar
    }
}
