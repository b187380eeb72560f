//! Failures of commands and of opening the store.

use crate::store::Error;
use crate::store::error::CANNOT;

/// An error that ends a command, as a message for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// Reason why the store is not open.
pub(crate) enum OpenError {
    /// The database is unusable at present; this may resolve itself, or be resolved by an operator.
    Away(String),
    /// Another database or program is required.
    Lasting(Failure),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(why) | Error::Again(why) | Error::Locked(why) => {
                Self::Away(format!("{CANNOT}: {why}"))
            }
            Error::Refused(..)
            | Error::Maintenance(_)
            | Error::Inconsistent { .. }
            | Error::Bug(_) => Self::Lasting(Failure(error.to_string())),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Away(why) => Self(why),
            OpenError::Lasting(failure) => failure,
        }
    }
}
