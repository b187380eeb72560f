//! What is compared.

use std::path::PathBuf;

use super::answers::Rules;
use super::subject::Subject;

/// What is compared.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What is compared beside everything else.
    pub rules: Rules,
    /// How many consumers are compared; all if there is no number. A sample is chosen by the seed.
    pub consumers: Option<usize>,
    /// How many questions for candidates are asked.
    pub candidates: usize,
    /// By which samples are chosen.
    pub seed: u64,
    /// How many differences are kept for the report. All are counted.
    pub kept: usize,
    /// Subjects that are left out.
    pub skipped: Vec<Subject>,
    /// The file that keeps what has been compared, so that an interrupted comparison can go on.
    pub state: Option<PathBuf>,
}

impl Options {
    /// Whether a subject is left out, by itself or because its objects are found in one that is.
    pub(super) fn skips(&self, subject: Subject) -> bool {
        self.skipped.contains(&subject) || subject.found_in().is_some_and(|it| self.skips(it))
    }
}
