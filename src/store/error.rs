//! What can go wrong below HTTP, and what each kind of database error means.

use crate::model::Refusal;

/// The result of asking the store.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the store did not do as asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The rules say no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database is away, slow or full up, and nothing was written unless a commit was under
    /// way: worth trying again later.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The transaction met another one, or a connection that had died, and wrote nothing: worth
    /// trying again at once. Becomes [`Error::Unavailable`] when that has not helped.
    #[error("the transaction must be tried again: {0}")]
    Again(String),
    /// A fault of ours.
    #[error("{0}")]
    Bug(String),
}

/// SQLSTATEs after which the whole transaction is tried again: serialization failure, deadlock,
/// and a server that ends the session because it stops.
const TRY_AGAIN: [&str; 5] = ["40001", "40P01", "57P01", "57P02", "25P03"];

/// SQLSTATEs and classes of a server that cannot serve now: connection trouble, no resources,
/// starting up, time-outs, read-only (a standby, or a full disk), a database that is closed or
/// gone, and a password that no longer holds.
const AWAY: [&str; 11] =
    ["08", "28", "3D000", "53", "55000", "55P03", "57014", "57P03", "57P05", "58", "25006"];

impl Error {
    /// What the caller is told when trying again at once has not helped, or must not be tried
    /// because the transaction may have been committed.
    pub(super) fn settled(self) -> Self {
        if let Self::Again(why) = self { Self::Unavailable(why) } else { self }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other kind is a mistake of ours")]
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let text = error.to_string();
        match &error {
            sqlx::Error::Database(database) => {
                let code = database.code().unwrap_or_default();
                if TRY_AGAIN.contains(&code.as_ref()) {
                    Self::Again(text)
                } else if AWAY.iter().any(|away| code.starts_with(away)) {
                    Self::Unavailable(text)
                } else {
                    Self::Bug(format!("{text} (SQLSTATE {code})"))
                }
            }
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => Self::Again(text),
            sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(text),
            other => Self::Bug(format!("{other:?}")),
        }
    }
}

/// The name of the constraint that an error says was violated.
pub(super) fn violated(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error()?.constraint()
}

/// Turns the violation of named constraints into refusals; anything else stays what it is.
pub(super) fn refuse_on(
    error: sqlx::Error,
    refusals: impl IntoIterator<Item = (&'static str, Refusal)>,
) -> Error {
    let name = violated(&error).map(str::to_owned);
    let refusal = refusals.into_iter().find(|(constraint, _)| Some(*constraint) == name.as_deref());
    refusal.map_or_else(|| error.into(), |(_, refusal)| Error::Refused(refusal))
}
