//! The token for metrics.

use std::fmt;
use std::path::Path;

use axum::http::{HeaderMap, header};

/// The token that requests for metrics must have.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(String);

impl AdminToken {
    /// Reads a token from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is empty.
    pub fn read(path: &Path) -> Result<Self, String> {
        let failed =
            |why: &dyn fmt::Display| format!("--admin-token-file {}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        match text.trim() {
            "" => Err(failed(&"the file is empty")),
            token => Ok(Self(token.to_owned())),
        }
    }

    /// Returns the value of the header `Authorization`.
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Returns whether a request has the token, as `Authorization: Bearer TOKEN`.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
        });
        given.is_some_and(|given| is_same(given, self.0.as_bytes()))
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AdminToken")
    }
}

/// Compares in a time that does not depend on where the texts differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |found, (one, other)| found | (one ^ other));
    one.len() == other.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, header};

    use super::AdminToken;

    #[test]
    fn a_request_must_have_the_whole_token() {
        let token = AdminToken("s3cret".to_owned());
        for (value, has_it) in [
            ("Bearer s3cret", true),
            ("bearer s3cret", true),
            ("Bearer s3cre", false),
            ("Bearer s3cret2", false),
            ("Basic s3cret", false),
            ("s3cret", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            assert_eq!(token.is_in(&headers), has_it, "{value}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }
}
