//! The planner's API: placements of many servers at once, groups of servers, and status.
//!
//! The API is served on `/v1` and, in the form of Valet's later versions, on `/compat/v1`.
//! [`mount`] contains all differences.
//!
//! [`routes`] is the API as a table; one file per resource contains its schemas, handlers and
//! views. The client's `Accept` and `Content-Type` do not matter: bodies are read as JSON
//! ([`schema`]), and all responses but that to unauthenticated callers are JSON ([`problem`]).
//!
//! Handlers validate bodies, call [`crate::planning`], and render the result ([`views`]).
//! [`problem`] converts all its failures.

mod context;
pub(super) mod dialect;
mod extract;
mod groups;
mod mount;
mod placements;
mod plans;
mod problem;
mod resources;
mod routes;
mod schema;
mod status;
mod versions;
mod views;

use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use schemars::{Schema, SchemaGenerator};

pub(super) use self::context::project;
use self::context::{allowed, permit};
use self::dialect::Planner;
use self::extract::Query;
use self::mount::Mount;
use self::problem::Problem;
use super::api;
use super::api::dialect::{Context, Dialect, Route, Row, context};
use super::api::query;
use super::api::routes::OneVersion;
use super::app::{App, Options};
use super::layers::service::HttpService;
use crate::auth::policy::Rule;
use crate::http::layers::identity::Caller;
use crate::model::Refusal;
use crate::planning::Failure;

/// Creates the service of the API.
pub(super) fn service(app: &Arc<App>) -> HttpService {
    api::service(app, [routes::root()], routes::table())
}

/// Returns the routes that no other API has, for the API document.
pub(super) fn described_routes() -> Vec<Route<Planner>> {
    routes::table()
}

/// Converts a failure of planning into an error of the API.
pub(super) fn error_of(failure: Failure) -> api::problem::Problem<Planner> {
    failure.into()
}

/// Makes the schema of an error.
pub(super) fn describe_errors(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<problem::ErrorBody<'_>>()
}

/// Writes an error that occurs before the API handles the request.
pub(super) fn write_error(status: StatusCode, detail: &str, _: &str) -> (&'static str, String) {
    ("application/json", Problem::new(status, detail).body().to_string())
}

/// Facts about a request, whatever its path.
#[derive(Debug, Default)]
pub(super) struct PlannerFacts {
    query: OnceLock<Query>,
    mount: OnceLock<Mount>,
}

impl Dialect for Planner {
    type Versions = OneVersion;
    type Facts = PlannerFacts;
    type Code = Option<Box<problem::Contradiction>>;

    const NAME: &'static str = "planner";
    const IGNORES_LAST_SLASH: bool = true;

    fn prefix(_: &Options) -> &str {
        mount::COMPAT
    }

    fn facts(_: &Request) -> PlannerFacts {
        PlannerFacts::default()
    }

    fn caller(app: &App, caller: Arc<Caller>, request: &Parts) -> Arc<Caller> {
        app.identity.planning(caller, request)
    }

    fn understand(context: &Context<Self>, request: &Request) -> Result<(), Problem> {
        let pairs = query::pairs(request.uri().query().unwrap_or_default(), &['&']);
        let pairs =
            pairs.map_err(|why| Problem::bad_request(format!("Invalid query string: {why}")))?;
        context.facts.query.get_or_init(|| Query::of(pairs));
        context.facts.mount.get_or_init(|| Mount::of(request.extensions()));
        Ok(())
    }

    /// Chooses the row of the method, if the caller has a project and the policy allows it.
    /// Otherwise the response is 401, so that callers without access to a path do not learn its
    /// methods.
    fn choose<'r>(
        rows: &'r [Row<Self>],
        app: &App,
        request: &Request,
    ) -> Result<&'r Row<Self>, Problem> {
        let caller = context::<Self>(request.extensions())?.caller();
        if caller.is_some_and(|caller| project(caller).is_empty()) {
            return Err(Problem::unauthorized());
        }
        let row = rows.iter().find(|row| row.method == *request.method());
        let permitted = row.map_or(rows, std::slice::from_ref);
        let rules: Vec<Rule> = permitted.iter().flat_map(|row| row.rules.iter().copied()).collect();
        if !rules.is_empty() {
            permit(app, caller.ok_or_else(Problem::unauthorized)?, &rules)?;
        }
        row.ok_or_else(|| {
            let detail = format!("The {} method is not allowed.", request.method());
            Problem::method_not_allowed(detail, allowed(rows))
        })
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other refusal is a conflict")]
    fn status(why: &Refusal) -> StatusCode {
        match why {
            Refusal::GroupNotFound | Refusal::MemberNotFound => StatusCode::NOT_FOUND,
            Refusal::GroupNameTaken(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::CONFLICT,
        }
    }

    fn render(problem: Problem, _: &Context<Self>) -> Response {
        problem.render()
    }
}
