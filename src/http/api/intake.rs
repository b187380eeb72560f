//! What a request may take, whichever API it is for: a place among those that are worked on, and so
//! much of a URI and a body.

use axum::body::{Body, Bytes};
use axum::http::Uri;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tracing::Instrument as _;

use crate::http::app::Options;
use crate::observe::spans::span;

/// Why a request is not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum IntakeError {
    /// There is no place for it now; the words are for the log.
    Busy(String),
    /// Its URI is longer than so many bytes.
    UriTooLong(usize),
    /// Its body is longer than so many bytes.
    BodyTooLong(usize),
    /// Its body did not arrive in time.
    BodyTimeout,
    /// Its body broke off, as the words say.
    BodyBroken(String),
}

/// Refuses a path and query that are longer than is looked at.
pub(in crate::http) fn check_uri(uri: &Uri, options: &Options) -> Result<(), IntakeError> {
    let bytes = uri.path_and_query().map_or(0, |target| target.as_str().len());
    let most = options.max_uri_bytes;
    if bytes > most { Err(IntakeError::UriTooLong(most)) } else { Ok(()) }
}

/// Why there is no place for one more request.
pub(in crate::http) fn busy(options: &Options) -> IntakeError {
    IntakeError::Busy(format!(
        "{} requests are worked on already (--max-requests)",
        options.max_requests
    ))
}

/// The whole body.
pub(in crate::http) async fn read(body: Body, options: &Options) -> Result<Bytes, IntakeError> {
    let most = options.max_body_bytes;
    let arriving = Limited::new(body, most).collect();
    let arriving = tokio::time::timeout(options.body_timeout, arriving);
    match arriving.instrument(span!("receive")).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(IntakeError::BodyTooLong(most)),
        Ok(Err(error)) => Err(IntakeError::BodyBroken(format!("The body did not arrive: {error}"))),
        Err(_) => Err(IntakeError::BodyTimeout),
    }
}
