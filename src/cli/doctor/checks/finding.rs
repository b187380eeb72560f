//! What a check found.

use std::fmt;

/// How a check went. The order is that of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing is wrong.
    Fine,
    /// The check does not apply, or could not be made.
    Skipped,
    /// Something should be looked at. Berth works.
    Warning,
    /// Something is wrong.
    Failure,
}

impl Verdict {
    /// The word for it.
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
    /// What was looked at, in a word or two.
    pub subject: &'static str,
    /// How it went.
    pub verdict: Verdict,
    /// What was found, in a sentence.
    pub found: String,
    /// What to do about it; `None` if there is nothing to do.
    pub advice: Option<String>,
}

impl Finding {
    /// Nothing is wrong.
    pub fn fine(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Fine, found: found.into(), advice: None }
    }

    /// The check does not apply, or could not be made.
    pub fn skipped(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Skipped, found: found.into(), advice: None }
    }

    /// Something should be looked at.
    pub fn warning(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (found, advice) = (found.into(), Some(advice.into()));
        Self { subject, verdict: Verdict::Warning, found, advice }
    }

    /// Something is wrong.
    pub fn failure(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (found, advice) = (found.into(), Some(advice.into()));
        Self { subject, verdict: Verdict::Failure, found, advice }
    }
}

/// The most severe verdict. A check that was skipped has found nothing.
pub fn worst(findings: &[Finding]) -> Verdict {
    let made = findings.iter().map(|finding| finding.verdict).filter(|it| *it != Verdict::Skipped);
    made.max().unwrap_or(Verdict::Fine)
}
