//! The finding of a check.

use std::fmt;

/// The verdict of a check, in order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No problem.
    Fine,
    /// The check does not apply, or could not be run.
    Skipped,
    /// Something needs attention. Berth works.
    Warning,
    /// An error.
    Failure,
}

impl Verdict {
    /// The verdict as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The subject, in a word or two.
    pub subject: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// A description of the finding.
    pub found: String,
    /// The recommended action, if any.
    pub advice: Option<String>,
}

impl Finding {
    /// No problem.
    pub fn fine(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Fine, found: found.into(), advice: None }
    }

    /// The check does not apply, or could not be run.
    pub fn skipped(subject: &'static str, found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Skipped, ..Self::fine(subject, found) }
    }

    /// Something needs attention.
    pub fn warning(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Warning, ..Self::failure(subject, found, advice) }
    }

    /// An error.
    pub fn failure(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Self { subject, verdict: Verdict::Failure, found: found.into(), advice }
    }
}

/// The most severe verdict. A skipped check counts as fine.
pub fn worst(findings: &[Finding]) -> Verdict {
    let made = findings.iter().map(|finding| finding.verdict).filter(|it| *it != Verdict::Skipped);
    made.max().unwrap_or(Verdict::Fine)
}
