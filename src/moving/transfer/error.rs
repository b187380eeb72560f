//! Errors of imports and exports.

use crate::moving::placement_client;
use crate::store;

/// An error that prevented a move, as a message for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source is unsuitable, or its rows cannot be imported.
    #[error("{0}")]
    Refused(String),
    /// The source changes while it is read. The next import continues with the rows read so far.
    #[error("{0}")]
    Changing(String),
    /// The database of OpenStack Placement cannot be read or written.
    #[error("the database of OpenStack Placement: {0}")]
    Reference(sqlx::Error),
    /// A placement service cannot be read.
    #[error("{0}")]
    Service(#[from] placement_client::Error),
    /// Berth's database cannot be read or written.
    #[error("Berth's database: {0}")]
    Target(store::Error),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Target(error)
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Target(error.into())
    }
}
