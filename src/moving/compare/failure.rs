//! Why two services could not be compared.

use crate::moving::placement_client::Error;

/// Why two services could not be compared: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A service gave no usable answer.
    #[error("{0}")]
    Service(#[from] Error),
    /// A service is too old.
    #[error("{0}")]
    TooOld(String),
    /// The file of `--state` cannot be used.
    #[error("{0}")]
    State(String),
}
