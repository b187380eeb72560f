//! Why a placement service gave no usable answer.

use reqwest::StatusCode;
use serde_json::Value;

use crate::observe::printable::escaped;

/// The most characters of an answer that are repeated.
const SAID_MAX: usize = 300;

/// Why a placement service gave no usable answer: a sentence with the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There was no answer.
    #[error("{request}: {why}")]
    NoAnswer {
        /// Method and URL.
        request: String,
        /// What went wrong.
        why: String,
    },
    /// The service answered with another status than is wanted.
    #[error("{request}: {status}{}", words(said))]
    Status {
        /// Method and URL.
        request: String,
        /// The status.
        status: StatusCode,
        /// What the service said about it, if anything.
        said: String,
    },
    /// What answered is no placement service.
    #[error("{url}: this is no placement service, or what answers for it is not: {why}")]
    NotPlacement {
        /// The URL.
        url: String,
        /// What its answer lacks.
        why: String,
    },
    /// Keystone issued no token, or its catalog has no such service.
    #[error("{url}: {why}")]
    Keystone {
        /// The URL at which tokens are issued.
        url: String,
        /// What went wrong.
        why: String,
    },
}

impl Error {
    /// The status of the service's answer, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        if let Self::Status { status, .. } = self { Some(*status) } else { None }
    }
}

fn words(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

/// What a service says in the body of an error: the text of its JSON, or else the body's beginning. It is
/// cut off, and does nothing to a terminal.
pub(super) fn said(body: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let text = json.as_ref().and_then(|json| {
        let placement = json.pointer("/errors/0/detail");
        let keystone = json.pointer("/error/message");
        placement.or(keystone).and_then(Value::as_str).map(str::to_owned)
    });
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let text = escaped(&text);
    let shown: String = text.chars().take(SAID_MAX).collect();
    if text.chars().count() > SAID_MAX { format!("{shown}...") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn what_a_service_says_is_repeated_and_bounded() {
        let placement = br#"{"errors": [{"status": 404, "detail": "No such\n\nprovider."}]}"#;
        assert_eq!(said(placement), "No such provider.");
        assert_eq!(said(br#"{"error": {"message": "Not you."}}"#), "Not you.");
        assert_eq!(said(b"<h1>Bad\x1b Gateway</h1>"), r"<h1>Bad\u{1b} Gateway</h1>");
        assert_eq!(said(b""), "");
        assert_eq!(said(&[b'x'; 1000]).len(), 303);
    }
}
