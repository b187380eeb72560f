//! Progress bars on a terminal: the progress of each task, its rate, and the remaining time.

use std::fmt;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

const TEMPLATE: &str =
    "{prefix:30} {wide_bar} {human_pos}/{human_len} {rate:>9} {elapsed_precise} {eta_precise} left";

/// The bars, which are only shown on a terminal.
#[derive(Debug)]
pub struct Progress(MultiProgress);

impl Progress {
    /// Creates an empty set of bars.
    pub fn new() -> Self {
        Self(MultiProgress::new())
    }

    /// Creates bars that are never shown.
    pub fn hidden() -> Self {
        Self(MultiProgress::with_draw_target(ProgressDrawTarget::hidden()))
    }

    /// Adds a bar for `count` rows or requests.
    pub fn of(&self, what: &'static str, count: u64) -> ProgressBar {
        let bar = self.0.add(ProgressBar::new(count));
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.with_key("rate", write_rate));
        }
        bar.set_prefix(what);
        bar
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

fn write_rate(state: &ProgressState, into: &mut dyn fmt::Write) {
    // Errors of drawing are ignored.
    let _ = into.write_str(&rate(state.per_sec()));
}

/// A rate per second, as a whole number.
fn rate(per_second: f64) -> String {
    format!("{per_second:.0}/s")
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn rates_are_whole_numbers() {
        assert_eq!(rate(443.675_102_852_964), "444/s");
        assert_eq!(rate(0.0), "0/s");
    }
}
