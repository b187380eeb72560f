//! Everything that knows HTTP and JSON.

pub mod server;

/// Placeholder until the API stands.
pub fn router() -> axum::Router {
    axum::Router::new().route("/", axum::routing::get(|| async { "{}" }))
}
