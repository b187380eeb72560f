//! Options of a comparison.

use std::path::PathBuf;

use super::response::Rules;
use super::subject::Subject;

/// Options of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Optional parts of the comparison.
    pub rules: Rules,
    /// Maximum number of consumers to compare; all if `None`. The sample is chosen by the seed.
    pub consumers: Option<usize>,
    /// Number of requests for candidates.
    pub candidates: usize,
    /// Seed for choosing samples.
    pub seed: u64,
    /// Maximum number of differences in the report. All are counted.
    pub kept: usize,
    /// Subjects to leave out.
    pub skipped: Vec<Subject>,
    /// State file, with which an interrupted comparison can continue.
    pub state: Option<PathBuf>,
}

impl Options {
    /// Returns whether a subject is left out, directly or because the subject that yields its objects is.
    pub(super) fn skips(&self, subject: Subject) -> bool {
        self.skipped.contains(&subject) || subject.found_in().is_some_and(|it| self.skips(it))
    }
}
