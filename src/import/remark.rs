//! What is said to the operator about one option.

use std::fmt;

use super::location::Location;

/// How much a remark matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing is lost.
    Note,
    /// Something is lost or needs a look.
    Warning,
    /// Nothing is written because of it.
    Error,
}

/// A sentence about one option. It never contains the option's value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// How much it matters.
    pub level: Level,
    /// The option as `[group] name`, or nothing when it is about a whole file.
    pub option: String,
    /// Where it stands.
    pub place: Location,
    /// What is to be known.
    pub words: String,
}

impl Remark {
    /// The sentence without its level, as comments have it.
    pub(super) fn sentence(&self) -> String {
        let place = self.place.to_string();
        let parts = [self.option.as_str(), place.as_str()];
        let subject: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let subject = subject.join(", ");
        if subject.is_empty() { self.words.clone() } else { format!("{subject}: {}", self.words) }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        write!(f, "{level}: {}", self.sentence())
    }
}
