//! Errors of a placement service.

use reqwest::StatusCode;
use serde_json::Value;

use crate::observe::printable::escaped;

/// Maximum number of characters quoted from a response.
const SAID_MAX: usize = 300;

/// An error of a placement service. The message names the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No response.
    #[error("{request}: {why}")]
    NoAnswer {
        /// Method and URL.
        request: String,
        /// The cause.
        why: String,
    },
    /// The response has an unexpected status.
    #[error("{request}: {status}{}", words(message))]
    Status {
        /// Method and URL.
        request: String,
        /// The status.
        status: StatusCode,
        /// The service's error message, if any.
        message: String,
    },
    /// The service is not a placement service.
    #[error("{url}: the response is not from a placement service: {why}")]
    NotPlacement {
        /// The URL.
        url: String,
        /// The missing part of its response.
        why: String,
    },
    /// Keystone issued no token, or its catalog lacks the service.
    #[error("{url}: {why}")]
    Keystone {
        /// The URL at which tokens are issued.
        url: String,
        /// The cause.
        why: String,
    },
}

impl Error {
    /// The status of the response, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        if let Self::Status { status, .. } = self { Some(*status) } else { None }
    }
}

fn words(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// The error message in a response's body: the text in its JSON, or else the beginning of the body. It is truncated,
/// and control characters are escaped.
pub(super) fn error_message(body: &[u8]) -> String {
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
    use super::error_message;

    #[test]
    fn the_error_of_a_service_is_repeated_up_to_a_limit() {
        let placement = br#"{"errors": [{"status": 404, "detail": "No such\n\nprovider."}]}"#;
        assert_eq!(error_message(placement), "No such provider.");
        assert_eq!(error_message(br#"{"error": {"message": "Not you."}}"#), "Not you.");
        assert_eq!(error_message(b"<h1>Bad\x1b Gateway</h1>"), r"<h1>Bad\u{1b} Gateway</h1>");
        assert_eq!(error_message(b""), "");
        assert_eq!(error_message(&[b'x'; 1000]).len(), 303);
    }
}
