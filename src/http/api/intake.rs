//! Limits of a request in any API: `--max-requests`, the length of the URI, and the length and time
//! of the body.

use axum::body::{Body, Bytes};
use axum::http::Uri;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::http::app::Options;
use crate::observe::spans::{Timed, span};

/// Reason to reject a request before it is handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum IntakeError {
    /// Too many requests are in progress; the text is for the log.
    Busy(String),
    /// The URI is longer than this many bytes.
    UriTooLong(usize),
    /// The body is longer than this many bytes.
    BodyTooLong(usize),
    /// The body did not arrive in time.
    BodyTimeout,
    /// The body was cut off, for this reason.
    BodyBroken(String),
}

/// Rejects a path and query above the maximum length.
pub(in crate::http) fn check_uri(uri: &Uri, options: &Options) -> Result<(), IntakeError> {
    let bytes = uri.path_and_query().map_or(0, |target| target.as_str().len());
    let most = options.max_uri_bytes;
    if bytes > most { Err(IntakeError::UriTooLong(most)) } else { Ok(()) }
}

/// Returns the error for more than `--max-requests`.
pub(in crate::http) fn busy(options: &Options) -> IntakeError {
    IntakeError::Busy(format!("{} requests are in progress (--max-requests)", options.max_requests))
}

/// Reads the complete body.
pub(in crate::http) async fn read(body: Body, options: &Options) -> Result<Bytes, IntakeError> {
    read_at_most(options.max_body_bytes, body, options).await
}

/// Reads a body of at most `most` bytes.
///
/// # Errors
/// It is longer, does not arrive in time, or is broken off.
pub(in crate::http) async fn read_at_most(
    most: usize,
    body: Body,
    options: &Options,
) -> Result<Bytes, IntakeError> {
    let arriving = Limited::new(body, most).collect();
    let arriving = tokio::time::timeout(options.body_timeout, arriving);
    match arriving.timed(span!("receive")).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(IntakeError::BodyTooLong(most)),
        Ok(Err(error)) => Err(IntakeError::BodyBroken(format!("The body did not arrive: {error}"))),
        Err(_) => Err(IntakeError::BodyTimeout),
    }
}
