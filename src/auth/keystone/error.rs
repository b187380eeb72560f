//! The error of all queries to Keystone.

/// Keystone gave no usable answer. The text is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Keystone: {0}")]
pub struct Unavailable(pub String);
