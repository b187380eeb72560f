//! Authentication failures.

/// Authentication failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// The token is missing or invalid.
    NoValidToken,
    /// The same, with the value of `WWW-Authenticate`.
    Challenged(String),
    /// Tokens cannot be validated at present; the text is for the log.
    Unavailable(String),
}
