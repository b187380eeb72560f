//! The error of all queries to Keystone.

/// Keystone gave no usable response. The text is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Keystone: {0}")]
pub struct Unavailable(pub String);
