//! Messages of the import about options, with their locations.

use std::fmt;

/// Source of an option's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A file and a line of it, from 1.
    Line(String, usize),
    /// An environment variable.
    Variable(String),
    /// The option is not set.
    Unset,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{file}:{line}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Unset => Ok(()),
        }
    }
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is lost.
    Note,
    /// A setting is lost or needs a decision.
    Warning,
    /// The import writes nothing.
    Error,
}

/// A message about one option. It never contains the option's value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// The option as `[section] name`; empty if the message is about a whole file.
    pub option: String,
    /// Source of the value.
    pub location: Location,
    /// Message for the operator.
    pub message: String,
}

impl Diagnostic {
    /// Option, location and message, for comments.
    pub(super) fn sentence(&self) -> String {
        let mut subject = vec![self.option.clone(), self.location.to_string()];
        subject.retain(|part| !part.is_empty());
        if subject.is_empty() {
            return self.message.clone();
        }
        format!("{}: {}", subject.join(", "), self.message)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}", self.sentence())
    }
}
