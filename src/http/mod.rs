//! HTTP and JSON.
//!
//! A [listener](edge::listener) receives a connection, the [server](edge::server) accepts it within its limits (`connections`), and
//! `serving` serves it until it ends and reads the rest of bodies that no handler read (`unread_body`).
//! Each request passes the tower stack in `middleware` and then, once the store is open ([`backend`]),
//! the API of its listener.
//!
//! [`placement`], [`planner`], [`operator`] and the [`console`] define one table of routes each. `api` makes an axum router of a table
//! and adds the layers that authenticate the caller ([identity](layers::identity)) and check every request. A route
//! then chooses a row of the table, checks the [policy](crate::auth::policy) and calls a handler, which uses the
//! store and the options in the [`app`]. Long work waits for its [turn](crate::fairness::turns).
//!
//! `health` serves the health checks, on the addresses of the APIs and on those of [`admin`].

pub mod admin;
pub(crate) mod api;
pub mod app;
pub mod backend;
mod connection;
mod console;
pub mod current_options;
pub mod edge;
pub mod layers;
pub mod openapi;
pub mod operator;
mod placement;
mod planner;

use std::sync::Arc;

pub use api::query::pasted_query;
pub use api::refused::RefusedSettings;
pub use app::{App, Options};
use axum::extract::Request;
use axum::response::Response;
pub use backend::Backend;
pub(crate) use backend::write_error;
pub(crate) use connection::WriteError;
pub use connection::{Api, Connection};
pub(crate) use edge::serving::Service;
pub(crate) use edge::unread_body::Bounds as UnreadBounds;
pub use operator::count_flavors;
pub use placement::write_candidates;

/// Handles a request with the complete service, as the server and the tests use it.
pub async fn respond(
    connection: Connection,
    app: impl Into<Arc<App>>,
    request: Request,
) -> Response {
    Backend::from(app.into()).respond(connection, request).await
}
