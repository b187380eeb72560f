//! Failures of the private PostgreSQL.

/// An error of the private PostgreSQL, as a message for the operator.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub(super) String);

pub(super) type Result<T> = std::result::Result<T, Failure>;

pub(super) fn failure(what: impl Into<String>) -> Failure {
    Failure(what.into())
}

/// A failure with the error's own message.
pub(super) fn plain(error: impl std::fmt::Display) -> Failure {
    failure(error.to_string())
}
