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
use schemars::JsonSchema;
use serde::Serialize;

use self::context::{Operator, Problem};
pub use self::figures::count_flavors;
use super::api;
use super::api::dialect::Route;
use super::api::json::LINES;
use super::api::operation::json_of;
use super::api::reply::Reply;
use super::api::routes::{get, post, route};
use super::app::App;
use super::layers::service::HttpService;
use super::placement;
use super::placement::allocation_candidates::Candidates;
use super::placement::resource_providers::Link;
use crate::auth::policy::operator as rule;
use crate::http::layers::external_url::ExternalUrl;

/// The path of the API.
const PREFIX: &str = "/-/";

/// Creates the service of the API, and of another route that needs no token.
pub(super) fn service(app: &Arc<App>, open: Route<Operator>) -> HttpService {
    api::service(app, [root(), open], table())
}

/// Returns the routes, for the API document.
pub(super) fn described_routes() -> Vec<Route<Operator>> {
    let mut all = vec![root()];
    all.extend(table());
    all
}

fn root() -> Route<Operator> {
    route(
        "/-",
        [get::<Operator, _, _>(.., None, versions)
            .about("Returns the versions of the operator API.")
            .returns::<Versions>()],
    )
}

#[expect(clippy::too_many_lines, reason = "it is one table")]
fn table() -> Vec<Route<Operator>> {
    vec![
        route(
            "/-/v1/allocation_candidates",
            [get(.., rule::CANDIDATES, candidates::list)
                .about("Returns allocation candidates in an order of the caller's choice.")
                .query(placement::candidates_query())
                .query(&candidates::OWN_QUERY)
                .returns::<Candidates>()],
        ),
        route(
            "/-/v1/explain",
            [
                get(.., rule::EXPLAIN, explain::show)
                    .about("Explains the result of a query for candidates, step by step.")
                    .query(placement::candidates_query())
                    .query(&explain::OWN_QUERY)
                    .returns::<views::Explanation>(),
                post(.., rule::EXPLAIN, claim::explain)
                    .about("Returns whether a claim would be refused, and why.")
                    .query(&claim::QUERY)
                    .body(placement::claim_body())
                    .body(placement::claims_body())
                    .returns::<views::claim::ClaimExplanation>(),
            ],
        ),
        route(
            "/-/v1/events",
            [get(.., rule::EVENTS, events::follow)
                .about("Follows changes, one in each line or event, until the client disconnects.")
                .query(&events::FOLLOW_QUERY)
                .returns_as::<views::events::Event>(LINES)
                .returns_as::<views::events::Event>(events::SSE)],
        ),
        route(
            "/-/v1/refused",
            [get(.., rule::REFUSED, refused::list)
                .about("Lists the latest requests that were refused or found nothing.")
                .query(&refused::LIST_QUERY)
                .returns::<views::refused::RefusedList>()],
        ),
        route(
            "/-/v1/refused/{request_id}",
            [get(.., rule::REFUSED, refused::show)
                .about("Returns the requests with an id that were refused, with the reasons.")
                .returns::<views::refused::FoundRequests>()],
        ),
        route(
            "/-/v1/members",
            [get(.., rule::MEMBERS, members::list)
                .about("Lists the replicas, as each has last reported.")
                .returns::<members::Members>()],
        ),
        route(
            "/-/v1/options",
            [get(.., rule::OPTIONS, options::list)
                .about("Lists the options in force.")
                .returns::<views::options::OptionsInForce>()],
        ),
        route(
            "/-/v1/fit",
            [get(.., rule::FIT, fit::show)
                .about("Counts how often requests fit.")
                .query(placement::candidates_query())
                .query(&requests::REQUESTS_QUERY)
                .query(&fit::HOSTS_QUERY)
                .query(&fit::OWN_QUERY)
                .returns::<views::fit::Fits>()],
        ),
        route(
            "/-/v1/fragmentation",
            [get(.., rule::FRAGMENTATION, fragmentation::show)
                .about("Returns the free capacity that requests cannot use.")
                .query(placement::candidates_query())
                .query(&requests::REQUESTS_QUERY)
                .query(&fit::HOSTS_QUERY)
                .returns::<views::fragmentation::Fragmentation>()],
        ),
        route(
            "/-/v1/drain",
            [post(.., rule::RELOCATE, relocations::drain)
                .about("Finds the fewest moves by which all servers leave some hosts.")
                .body(json_of::<relocations::RelocationBody>())
                .returns::<views::relocations::Relocations>()],
        ),
        route(
            "/-/v1/rebalance",
            [post(.., rule::RELOCATE, relocations::rebalance)
                .about("Finds the fewest moves that make room for more servers.")
                .body(json_of::<relocations::RelocationBody>())
                .returns::<views::relocations::Relocations>()],
        ),
        route(
            "/-/v1/moves",
            [get(.., rule::MOVES, moves::show)
                .about("Proposes which consumers to move so that a request fits.")
                .query(&moves::QUERIES)
                .returns::<views::moves::Moves>()],
        ),
        route(
            "/-/v1/providers",
            [get(.., rule::PROVIDERS, providers::list)
                .about("Lists resource providers with their details, in one snapshot.")
                .query(placement::providers_query())
                .query(&providers::OWN_QUERY)
                .returns::<providers::DescribedProviders>()
                .returns_as::<providers::DescribedProvider>(LINES)],
        ),
        route(
            "/-/v1/consumers",
            [get(.., rule::CONSUMERS, consumers::list)
                .about("Lists the consumers that match all filters, page by page.")
                .query(&consumers::LIST_QUERY)
                .returns::<views::consumers::Consumers>()],
        ),
        route(
            "/-/v1/allocations/get",
            [post(.., rule::CONSUMERS, consumers::allocations)
                .about("Returns the allocations of many consumers, in one snapshot.")
                .body(json_of::<consumers::ConsumersBody>())
                .returns::<views::consumers::Allocations>()],
        ),
    ]
}

/// Returns whether a request is for this API. `prefix` is the additional path prefix of the
/// Placement API.
pub(super) fn handles(request: &Request, prefix: &str) -> bool {
    let is_below = |path: &str| path.starts_with(PREFIX) || path == "/-";
    api::path::with_and_without(prefix, request).any(is_below)
}

/// The version document.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "OperatorVersions")]
struct Versions {
    versions: [Version; 1],
}

/// A version of the API.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "OperatorVersion")]
struct Version {
    id: &'static str,
    status: &'static str,
    links: [Link; 1],
}

/// `GET /-`: the versions.
async fn versions(external_url: ExternalUrl) -> Result<Reply, Problem> {
    let links = [Link { rel: "self", href: external_url.location("/-/v1") }];
    Ok(Reply::json(&Versions { versions: [Version { id: "v1", status: "CURRENT", links }] }))
}
