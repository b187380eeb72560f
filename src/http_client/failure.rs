//! Why a request has no answer.

use std::error::Error;

use hyper_util::client::legacy;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection could be made. The server has not seen the request.
    #[error("{0}")]
    NotConnected(String),
    /// There was no answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The connection broke before the answer had come, or what came was no answer.
    #[error("{0}")]
    Broken(String),
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    /// There is no answer, or its end is missing.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Its body has more bytes than this.
    #[error("its answer has more than {0} bytes")]
    TooLarge(usize),
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        if error.is_connect() {
            Self::NotConnected(words(error))
        } else if error.is_timeout() {
            Self::TimedOut
        } else {
            Self::Broken(words(error))
        }
    }
}

impl From<legacy::Error> for Failure {
    fn from(error: legacy::Error) -> Self {
        let words = causes(&error).join(": ");
        if error.is_connect() { Self::NotConnected(words) } else { Self::Broken(words) }
    }
}

/// An error with its causes.
pub(super) fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = vec![error.to_string()];
    words.append(&mut causes(&error));
    words.join(": ")
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
