//! Failures of outgoing requests.

use std::error::Error;

use hyper_util::client::legacy;

/// A failure to get a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection could be made, so the server has not seen the request.
    #[error("{0}")]
    NotConnected(String),
    /// No response came in time.
    #[error("no response in time")]
    TimedOut,
    /// The connection broke before the response had come, or the response was invalid.
    #[error("{0}")]
    Broken(String),
}

/// A failure to get a complete response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    /// The request failed, or the response is incomplete.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The body of the response is longer than this limit, in bytes.
    #[error("its response has more than {0} bytes")]
    TooLarge(usize),
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        if error.is_connect() {
            Self::NotConnected(with_causes(error))
        } else if error.is_timeout() {
            Self::TimedOut
        } else {
            Self::Broken(with_causes(error))
        }
    }
}

impl From<legacy::Error> for Failure {
    fn from(error: legacy::Error) -> Self {
        let with_causes = causes(&error).join(": ");
        if error.is_connect() { Self::NotConnected(with_causes) } else { Self::Broken(with_causes) }
    }
}

/// Formats an error with its causes.
pub(super) fn with_causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut with_causes = vec![error.to_string()];
    with_causes.append(&mut causes(&error));
    with_causes.join(": ")
}

fn causes(error: &dyn Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    causes
}
