//! Everything that knows HTTP and JSON.
//!
//! A connection is kept by the [`server`]. A request passes, from the outside in: the edge (an id, a
//! line in the log, panics caught), then the API it is for. There is one so far, Placement: it finds
//! out who asks ([`identity`]) and for which version, chooses a row of its route table, asks the
//! [`policy`], and calls a handler, which works on the store and the options it finds in the
//! [`app`].

pub mod app;
mod edge;
pub mod identity;
mod placement;
pub mod policy;
pub mod server;
mod unreadable;

use axum::extract::Request;
use axum::response::Response;

pub use app::{App, Options};
pub use placement::write_candidates;

/// Answers a request: the whole service, as the server and the tests use it.
pub async fn answer(app: App, request: Request) -> Response {
    edge::observe(request, |request| placement::answer(app, request)).await
}
