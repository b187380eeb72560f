//! The operator API, beyond the published APIs: below `/-/v1`, on the address of the Placement API,
//! with the same tokens and policy language. Errors have the form and the codes of the Placement
//! API.

mod candidates;
mod claim;
pub(super) mod claim_faults;
mod consumers;
pub(super) mod context;
pub(super) mod costly;
mod events;
pub(super) mod explain;
pub(super) mod explanation;
mod figures;
mod fit;
mod fragmentation;
mod members;
mod moves;
mod options;
mod providers;
pub(super) mod refused;
mod relocations;
pub(super) mod requests;
pub mod views;

use std::sync::Arc;

use axum::extract::Request;
use serde_json::json;

use self::context::{Operator, Problem};
pub use self::figures::count_flavors;
use super::api;
use super::api::dialect::Route;
use super::api::reply::Reply;
use super::api::routes::{get, post, route};
use super::app::App;
use super::layers::service::HttpService;
use crate::auth::policy::operator as rule;
use crate::http::layers::external_url::ExternalUrl;

/// The path of the API.
const PREFIX: &str = "/-/";

/// Creates the service of the API.
pub(super) fn service(app: &Arc<App>) -> HttpService {
    let root: Route<Operator> = route("/-", [get::<Operator, _, _>(.., None, versions)]);
    let table: Vec<Route<Operator>> = vec![
        route(
            "/-/v1/allocation_candidates",
            [get::<Operator, _, _>(.., rule::CANDIDATES, candidates::list)],
        ),
        route(
            "/-/v1/explain",
            [
                get::<Operator, _, _>(.., rule::EXPLAIN, explain::show),
                post::<Operator, _, _>(.., rule::EXPLAIN, claim::explain),
            ],
        ),
        route("/-/v1/events", [get::<Operator, _, _>(.., rule::EVENTS, events::follow)]),
        route("/-/v1/refused", [get::<Operator, _, _>(.., rule::REFUSED, refused::list)]),
        route(
            "/-/v1/refused/{request_id}",
            [get::<Operator, _, _>(.., rule::REFUSED, refused::show)],
        ),
        route("/-/v1/members", [get::<Operator, _, _>(.., rule::MEMBERS, members::list)]),
        route("/-/v1/options", [get::<Operator, _, _>(.., rule::OPTIONS, options::list)]),
        route("/-/v1/fit", [get::<Operator, _, _>(.., rule::FIT, fit::show)]),
        route(
            "/-/v1/fragmentation",
            [get::<Operator, _, _>(.., rule::FRAGMENTATION, fragmentation::show)],
        ),
        route("/-/v1/drain", [post::<Operator, _, _>(.., rule::RELOCATE, relocations::drain)]),
        route(
            "/-/v1/rebalance",
            [post::<Operator, _, _>(.., rule::RELOCATE, relocations::rebalance)],
        ),
        route("/-/v1/moves", [get::<Operator, _, _>(.., rule::MOVES, moves::show)]),
        route("/-/v1/providers", [get::<Operator, _, _>(.., rule::PROVIDERS, providers::list)]),
        route("/-/v1/consumers", [get::<Operator, _, _>(.., rule::CONSUMERS, consumers::list)]),
        route(
            "/-/v1/allocations/get",
            [post::<Operator, _, _>(.., rule::CONSUMERS, consumers::allocations)],
        ),
    ];
    api::service(app, [root], table)
}

/// Returns whether a request is for this API. `prefix` is the additional path prefix of the
/// Placement API.
pub(super) fn handles(request: &Request, prefix: &str) -> bool {
    let is_below = |path: &str| path.starts_with(PREFIX) || path == "/-";
    api::path::with_and_without(prefix, request).any(is_below)
}

/// `GET /-`: the versions.
async fn versions(external_url: ExternalUrl) -> Result<Reply, Problem> {
    let links = json!([{"rel": "self", "href": external_url.location("/-/v1")}]);
    Ok(Reply::json(&json!({"versions": [{"id": "v1", "status": "CURRENT", "links": links}]})))
}
