//! Errors of the store, and the meaning of database errors.

use std::borrow::Cow;
use std::fmt::Display;

use crate::model::claim::Faults;
use crate::model::{Bug, Refusal, bug};

/// The result of an operation of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A rule refuses the request. Has all its faults, as the refusing transaction saw them.
    #[error("{0}")]
    Refused(Refusal, Box<Faults>),
    /// The database is unreachable, slow or full. Nothing was written, unless a commit was in progress. The
    /// request may succeed later.
    #[error("{CANNOT}: {0}")]
    Unavailable(String),
    /// The transaction conflicted with another one, or its connection was dead. Nothing was written, and it is
    /// retried at once. Becomes [`Error::Unavailable`] when that does not help.
    #[error("the transaction must be tried again: {0}")]
    Again(String),
    /// Rows contradict each other, or have values that this program does not know. Made by
    /// [`Error::inconsistent`]. Nothing was written.
    #[error("inconsistent data: {table}.{column} of {key}")]
    Inconsistent {
        /// The table that has the row, or should have it.
        table: &'static str,
        /// Its column.
        column: &'static str,
        /// The key of the row, with the contradiction.
        key: String,
    },
    /// Another transaction had a row locked for longer than one wait. Nothing was written. Becomes
    /// [`Error::Unavailable`] when that does not change in time.
    #[error("a row is held by another transaction: {0}")]
    Locked(String),
    /// Operators have ordered that writes are refused, for this reason. Nothing was written.
    #[error("writes are refused for maintenance: {0}")]
    Maintenance(String),
    /// The program has a bug.
    #[error(transparent)]
    Bug(#[from] Bug),
}

/// Prefix of errors of a database that cannot serve any request now, or not this one: it may be unreachable, be a
/// standby, or refuse the role.
pub(crate) const CANNOT: &str = "the database cannot be used now";

/// SQLSTATEs after which the whole transaction is tried again: serialization failure, deadlock,
/// and a server that ends the session because it stops.
const TRY_AGAIN: [&str; 5] = ["40001", "40P01", "57P01", "57P02", "25P03"];

/// SQLSTATEs and classes of a server that cannot serve now: connection trouble, no resources, starting up,
/// time-outs, read-only (a standby, or a full disk), a database that is closed or gone, a password or a
/// privilege that was withdrawn, and tables or keys that a restore has not made yet.
const AWAY: [&str; 13] = [
    "08", "28", "3D000", "42501", "42P01", "42P10", "53", "55000", "57014", "57P03", "57P05", "58",
    "25006",
];

/// SQLSTATE of a lock time-out.
const LOCKED: &str = "55P03";

impl Error {
    /// Makes and counts an error of a bug with a description.
    pub fn bug(what: impl Into<Cow<'static, str>>) -> Self {
        Self::Bug(Bug::new(what))
    }

    /// Makes and counts an error of an inconsistent row: the table, the column, and the key with the contradiction.
    pub fn inconsistent(table: &'static str, column: &'static str, key: impl Display) -> Self {
        bug::count();
        Self::Inconsistent { table, column, key: key.to_string() }
    }

    /// Returns whether the program or the stored rows are wrong, so that trying again does not help.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Bug(_) | Self::Inconsistent { .. })
    }

    /// Returns the error for the caller when a retry has not helped, or is not allowed because the transaction
    /// may have been committed.
    pub(super) fn settled(self) -> Self {
        match self {
            Self::Again(why) => Self::Unavailable(why),
            Self::Locked(why) => {
                Self::Unavailable(format!("a row is held by another transaction: {why}"))
            }
            Self::Refused(..)
            | Self::Unavailable(_)
            | Self::Maintenance(_)
            | Self::Inconsistent { .. }
            | Self::Bug(_) => self,
        }
    }
}

impl From<Refusal> for Error {
    /// Makes an error with the facts that the refusal has itself.
    fn from(refusal: Refusal) -> Self {
        let faults = Box::new(Faults::of(&refusal));
        Self::Refused(refusal, faults)
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other kind is a mistake of ours")]
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let text = described(&error);
        match &error {
            sqlx::Error::Database(database) => {
                let code = database.code().unwrap_or_default();
                if TRY_AGAIN.contains(&code.as_ref()) {
                    Self::Again(text)
                } else if code == LOCKED {
                    Self::Locked(text)
                } else if AWAY.iter().any(|away| code.starts_with(away)) {
                    Self::Unavailable(text)
                } else {
                    Bug::new(format!("{text} (SQLSTATE {code})")).into()
                }
            }
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => Self::Again(text),
            sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(text),
            other => Bug::new(format!("{other:?}")).into(),
        }
    }
}

/// Returns the text of an error. Errors of the database have the message alone, because sqlx's own text ends
/// with a line number of PostgreSQL's source.
pub fn described(error: &sqlx::Error) -> String {
    let database = error.as_database_error();
    database.map_or_else(|| error.to_string(), |database| database.message().to_owned())
}

/// Returns the name of the violated constraint.
pub(super) fn violated(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error()?.constraint()
}

/// Turns violations of named constraints into refusals; other errors stay.
pub(super) fn refuse_on(
    error: sqlx::Error,
    refusals: impl IntoIterator<Item = (&'static str, Refusal)>,
) -> Error {
    let name = violated(&error).map(str::to_owned);
    let refusal = refusals.into_iter().find(|(constraint, _)| Some(*constraint) == name.as_deref());
    refusal.map_or_else(|| error.into(), |(_, refusal)| refusal.into())
}
