//! The connection of a request.

use axum::http::{Extensions, StatusCode};

use crate::http::edge::listener::Peer;
use crate::model::Bug;

/// The API that a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// The Placement API.
    Placement,
    /// The planner's API.
    Planner,
}

/// Writes an error that occurs before an API handles the request. Takes the status, the detail and
/// the request id; returns the media type and the body.
pub(crate) type WriteError = fn(StatusCode, &str, &str) -> (&'static str, String);

/// The connection of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The API of its listener.
    pub api: Api,
    /// The remote end.
    pub peer: Peer,
    /// Whether it uses TLS.
    pub secure: bool,
}

/// Returns the connection of a request.
pub(super) fn connection(extensions: &Extensions) -> Connection {
    let connection = extensions.get::<Connection>().copied();
    connection.unwrap_or_else(|| Bug::raise("a request has no connection".to_owned()))
}
