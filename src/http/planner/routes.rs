//! The whole API as one table: path, methods, rules, handlers.
//!
//! `Allow` lists the methods of a path in table order.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::{HeaderValue, Method, header};

use super::context::allowed;
use super::dialect::Planner;
use super::problem::Problem;
use super::{groups, placements, plans, resources, status, versions};
use crate::auth::policy::planning as rule;
use crate::http::api::dialect::{BoxedHandler, BoxedResponse, Row};
use crate::http::api::reply::Reply;
use crate::http::api::routes;
use crate::http::api::routes::{OneVersion, boxed, delete, get, head, post, put};
use crate::http::app::App;
use crate::model::Bug;

type Route = routes::Route<Planner>;

/// The route that needs no token.
pub(super) fn root() -> Route {
    route("/", [get(.., None, versions::root)])
}

/// The API.
pub(super) fn table() -> Vec<Route> {
    vec![
        route("/v1", [get(.., None, versions::endpoints)]),
        route(
            "/v1/groups",
            [
                get(.., rule::GROUPS_LIST, groups::list),
                post(.., rule::GROUPS_CREATE, groups::create),
            ],
        ),
        item(
            "/v1/groups/{group}",
            [
                get(.., rule::GROUPS_SHOW, groups::show),
                put(.., rule::GROUPS_UPDATE, groups::update),
                delete(.., rule::GROUPS_DELETE, groups::delete),
            ],
            groups::exists,
        ),
        item(
            "/v1/groups/{group}/members",
            [
                put(.., rule::MEMBERS_ADD, groups::add_members),
                delete(.., rule::MEMBERS_REMOVE, groups::remove_members),
            ],
            groups::exists,
        ),
        item(
            "/v1/groups/{group}/members/{member}",
            [
                get(.., rule::MEMBERS_SHOW, groups::show_member),
                delete(.., rule::MEMBERS_REMOVE, groups::remove_member),
            ],
            groups::show_member,
        ),
        route(
            "/v1/placements",
            [
                get(.., rule::PLACEMENTS_LIST, placements::list),
                post(.., rule::PLACEMENTS_RECOMMEND, placements::recommend),
            ],
        ),
        item(
            "/v1/placements/{placement}",
            [
                get(.., rule::PLACEMENTS_SHOW, placements::show),
                post(.., rule::PLACEMENTS_RESERVE, placements::reserve),
                delete(.., rule::PLACEMENTS_DELETE, placements::delete),
            ],
            placements::exists,
        ),
        route(
            "/v1/plans",
            [get(.., rule::PLANS_LIST, plans::list), post(.., rule::PLANS_CREATE, plans::create)],
        ),
        item(
            "/v1/plans/{plan}",
            [
                get(.., rule::PLANS_SHOW, plans::show),
                put(.., rule::PLANS_UPDATE, plans::update).or(rule::PLANS_MIGRATE),
                delete(.., rule::PLANS_DELETE, plans::delete),
            ],
            plans::exists,
        ),
        route("/v1/resources", [get(.., rule::RESOURCES_LIST, resources::list)]),
        route(
            "/v1/status",
            [head(.., rule::STATUS_SHOW, status::check), get(.., rule::STATUS_SHOW, status::show)],
        ),
    ]
}

/// Creates a route of a path and its rows. `OPTIONS` lists its methods.
fn route<const N: usize>(path: &'static str, rows: [Row<Planner>; N]) -> Route {
    item(path, rows, async || Ok::<_, Problem>(Reply::no_content()))
}

/// Creates a route of a path with an item. `OPTIONS` lists its methods if the item exists.
fn item<H, T, const N: usize>(path: &'static str, rows: [Row<Planner>; N], exists: H) -> Route
where
    H: Handler<T, Arc<App>, Future = BoxedResponse> + Sync,
    T: 'static,
{
    let mut rows = Vec::from(rows);
    // A caller that may use any of the methods may list them.
    let rules = rows.iter().flat_map(|row| row.rules.iter().copied()).collect();
    let options = listing(&allowed(&rows), boxed(exists));
    rows.push(Row::new(Method::OPTIONS, OneVersion, rules, options));
    Route { path, rows }
}

/// Adds the header `Allow` to successful responses of a handler.
fn listing(allow: &str, handler: BoxedHandler) -> BoxedHandler {
    let allow = HeaderValue::try_from(allow)
        .unwrap_or_else(|error| Bug::raise(format!("{allow:?} as a header: {error}")));
    Box::new(move |request, app| {
        let (response, allow) = (handler(request, app), allow.clone());
        Box::pin(async {
            let mut response = response.await;
            if response.status().is_success() {
                response.headers_mut().insert(header::ALLOW, allow);
            }
            response
        })
    })
}
