//! HTTP and JSON.
//!
//! A [listener](edge::listener) receives a connection, the [server](edge::server) accepts it within its limits (`connections`), and
//! `serving` serves it until it ends and reads the rest of bodies that no handler read (`unread_body`).
//! Each request passes the tower stack in `middleware` and then, once the store is open ([`backend`]),
//! the API of its listener.
//!
//! [`placement`], [`planner`] and [`operator`] define one table of routes each. `api` makes an axum router of a table
//! and adds the layers that authenticate the caller ([identity](layers::identity)) and check every request. A route
//! then chooses a row of the table, asks the [policy](crate::auth::policy) and calls a handler, which uses the
//! store and the options in the [`app`]. Long work waits for its [turn](crate::fairness::turns).
//!
//! `health` serves the health checks, on the addresses of the APIs and on those of [`admin`].

pub mod admin;
pub(crate) mod api;
pub mod app;
pub mod backend;
pub mod edge;
pub mod layers;
pub mod operator;
mod placement;
mod planner;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{Extensions, StatusCode};
use axum::response::Response;

use crate::model::Bug;
pub use api::refused::RefusedSettings;
pub use app::{App, Options};
pub use backend::Backend;
use edge::listener::Peer;
pub(crate) use edge::serving::Service;
pub(crate) use edge::unread_body::Bounds as UnreadBounds;
pub use operator::count_flavors;
pub use placement::write_candidates;

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

impl Api {
    /// Returns how the API writes errors.
    pub(crate) fn write_error(self) -> WriteError {
        match self {
            Self::Placement => placement::write_error,
            Self::Planner => planner::write_error,
        }
    }
}

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
fn connection(extensions: &Extensions) -> Connection {
    let connection = extensions.get::<Connection>().copied();
    connection.unwrap_or_else(|| Bug::raise("a request has no connection".to_owned()))
}

/// Handles a request with the complete service, as the server and the tests use it.
pub async fn answer(
    connection: Connection,
    app: impl Into<Arc<App>>,
    request: Request,
) -> Response {
    Backend::from(app.into()).answer(connection, request).await
}
