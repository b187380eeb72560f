//! That Keystone did not answer.

/// Keystone did not say. The words are for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Keystone: {0}")]
pub struct Unavailable(pub String);
