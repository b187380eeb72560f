//! Where the value of an option stands.

use std::fmt;

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a line of a file.
    Line(String, usize),
    /// In a variable of the environment.
    Variable(String),
    /// Nowhere.
    Nowhere,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{file}:{line}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Nowhere => Ok(()),
        }
    }
}
