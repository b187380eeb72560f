//! Errors of a comparison.

use crate::moving::placement_client::Error;

/// An error of a comparison, as a message for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A service gave no usable response.
    #[error("{0}")]
    Service(#[from] Error),
    /// A service is too old.
    #[error("{0}")]
    TooOld(String),
    /// The file of `--state` cannot be used.
    #[error("{0}")]
    State(String),
}
