//! What can go wrong below HTTP.

use crate::model::Refusal;

/// The result of asking the store.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the store did not do as asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The rules say no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database is away, slow or full up: worth trying again.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// A fault of ours.
    #[error("{0}")]
    Bug(String),
}
