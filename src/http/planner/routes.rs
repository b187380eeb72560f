//! The whole API as one table: path, methods, rules, handlers.
//!
//! `Allow` lists the methods of a path in table order.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::{HeaderValue, Method, header};

use super::context::allowed;
use super::dialect::Planner;
use super::extract::TERMS_QUERY;
use super::problem::Problem;
use super::views::{GroupView, PlacementView, Plan};
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
    let endpoints = get(.., None, versions::endpoints)
        .about("Returns the endpoints of the planner.")
        .returns::<versions::Versions>();
    let others = vec![
        route("/v1", [endpoints]),
        route(
            "/v1/resources",
            [get(.., rule::RESOURCES_LIST, resources::list)
                .about("Lists the servers that violate rules or are not on their planned hosts.")
                .returns::<resources::Resources>()],
        ),
        route(
            "/v1/status",
            [
                head(.., rule::STATUS_SHOW, status::check)
                    .about("Responds whether the planner works.")
                    .returns_nothing(),
                get(.., rule::STATUS_SHOW, status::show)
                    .about("Returns the status of the planner.")
                    .returns::<status::Statuses>(),
            ],
        ),
    ];
    [groups(), placements(), plans(), others].into_iter().flatten().collect()
}

fn groups() -> Vec<Route> {
    vec![
        route(
            "/v1/groups",
            [
                get(.., rule::GROUPS_LIST, groups::list)
                    .about("Lists the groups.")
                    .returns::<groups::Groups>(),
                post(.., rule::GROUPS_CREATE, groups::create)
                    .about("Creates a group without members.")
                    .body(&groups::CREATE)
                    .creates::<GroupView>(),
            ],
        ),
        item(
            "/v1/groups/{group}",
            [
                get(.., rule::GROUPS_SHOW, groups::show)
                    .about("Returns a group.")
                    .returns::<groups::WrappedGroup>(),
                put(.., rule::GROUPS_UPDATE, groups::update)
                    .about("Changes the description of a group.")
                    .body(&groups::UPDATE)
                    .creates::<GroupView>(),
                delete(.., rule::GROUPS_DELETE, groups::delete)
                    .about("Deletes a group without members and servers.")
                    .returns_nothing(),
            ],
            groups::exists,
        ),
        item(
            "/v1/groups/{group}/members",
            [
                put(.., rule::MEMBERS_ADD, groups::add_members)
                    .about("Adds projects to a group.")
                    .body(&groups::MEMBERS)
                    .creates::<GroupView>(),
                delete(.., rule::MEMBERS_REMOVE, groups::remove_members)
                    .about("Removes all projects from a group.")
                    .returns_nothing(),
            ],
            groups::exists,
        ),
        item(
            "/v1/groups/{group}/members/{member}",
            [
                get(.., rule::MEMBERS_SHOW, groups::show_member)
                    .about("Responds whether a project is in a group.")
                    .returns_nothing(),
                delete(.., rule::MEMBERS_REMOVE, groups::remove_member)
                    .about("Removes a project from a group.")
                    .returns_nothing(),
            ],
            groups::show_member,
        ),
    ]
}

fn placements() -> Vec<Route> {
    vec![
        route(
            "/v1/placements",
            [
                get(.., rule::PLACEMENTS_LIST, placements::list)
                    .about("Lists the placements of servers that match all parameters.")
                    .query(&placements::LIST_QUERY)
                    .returns::<Vec<PlacementView>>(),
                post(.., rule::PLACEMENTS_RECOMMEND, placements::recommend)
                    .about("Recommends another host for a server. Changes nothing.")
                    .query(&TERMS_QUERY)
                    .body(&placements::RECOMMEND)
                    .returns::<PlacementView>(),
            ],
        ),
        item(
            "/v1/placements/{placement}",
            [
                get(.., rule::PLACEMENTS_SHOW, placements::show)
                    .about("Returns the placement of a server.")
                    .returns::<PlacementView>(),
                post(.., rule::PLACEMENTS_RESERVE, placements::reserve)
                    .about("Reserves a placement on one of the locations, or on another host.")
                    .body(&placements::RESERVE)
                    .creates::<PlacementView>(),
                delete(.., rule::PLACEMENTS_DELETE, placements::delete)
                    .about("Removes a server from its plan.")
                    .returns_nothing(),
            ],
            placements::exists,
        ),
    ]
}

fn plans() -> Vec<Route> {
    vec![
        route(
            "/v1/plans",
            [
                get(.., rule::PLANS_LIST, plans::list)
                    .about("Lists the names of the plans, oldest first.")
                    .returns::<Vec<String>>(),
                post(.., rule::PLANS_CREATE, plans::create)
                    .about("Chooses a host for each server of a stack, and reserves the capacity.")
                    .query(&TERMS_QUERY)
                    .body(&plans::CREATE)
                    .creates::<Plan>()
                    .returns::<Plan>(),
            ],
        ),
        item(
            "/v1/plans/{plan}",
            [
                get(.., rule::PLANS_SHOW, plans::show)
                    .about("Returns a plan with the host of each server.")
                    .returns::<Plan>(),
                put(.., rule::PLANS_UPDATE, plans::update)
                    .or(rule::PLANS_MIGRATE)
                    .about("Adds servers, replaces all of them, or moves some to other hosts.")
                    .query(&TERMS_QUERY)
                    .body(&plans::ACT)
                    .body(&plans::ADD)
                    .creates::<Plan>()
                    .returns::<Plan>(),
                delete(.., rule::PLANS_DELETE, plans::delete)
                    .about("Deletes a plan and releases its capacity. Instances keep their allocations.")
                    .returns_nothing(),
            ],
            plans::exists,
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
