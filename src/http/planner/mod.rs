//! The planner's API: places for many servers at once, groups of them, and what state all is in.
//!
//! The API is served twice: on `/v1`, and on `/compat/v1` with the answers of Valet's later versions.
//! [`mount`] says what differs; everything else is the same.
//!
//! [`routes`] is the API as a table; one file per resource says what may be asked and what is shown.
//! What a client accepts and how it calls its body does not matter: bodies are read as JSON
//! ([`schema`]), and so are all answers written but that to strangers ([`problem`]).
//!
//! Handlers check keys and values, call [`crate::planning`], and show what came of it ([`views`]). What
//! went wrong there becomes an answer in one function of [`problem`].

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
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method, StatusCode};
use axum::response::Response;

use self::extract::Query;
use self::mount::Mount;
use self::problem::Problem;
use super::api::routes::{OneVersion, Row, methods};
use super::api::{self, Context, Dialect, context, query};
use super::app::{App, Options};
use crate::auth::policy::Rule;
use crate::http::layers::identity::Caller;
use crate::http::layers::middleware::HttpService;
use crate::model::Refusal;

/// The API as a service.
pub(super) fn service(app: &Arc<App>) -> HttpService {
    api::service(app, routes::root(), routes::table())
}

/// Writes an error that is found before the API is asked.
pub(super) fn write_error(status: StatusCode, detail: &str, _: &str) -> (&'static str, String) {
    ("application/json", Problem::new(status, detail).body().to_string())
}

/// The ways of the planner's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planner;

/// What a request says, whatever its path.
#[derive(Debug, Default)]
pub(super) struct Facts {
    query: OnceLock<Query>,
    mount: OnceLock<Mount>,
}

impl Dialect for Planner {
    type Versions = OneVersion;
    type Facts = Facts;
    type Code = Option<Box<problem::Contradiction>>;

    const NAME: &'static str = "planner";
    const IGNORES_LAST_SLASH: bool = true;

    fn prefix(_: &Options) -> &str {
        mount::COMPAT
    }

    fn facts(_: &HeaderMap) -> Facts {
        Facts::default()
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

    /// The row of the method, for who asks for a project and is permitted to have it. All others are
    /// told that authentication is needed, and nothing more: who may do nothing at a path does not
    /// learn either which methods it has.
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
        let asked = row.map_or(rows, std::slice::from_ref);
        let rules: Vec<Rule> = asked.iter().flat_map(|row| row.rules.iter().copied()).collect();
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

/// The project that a caller asks for; empty if it asks for none.
fn project(caller: &Caller) -> &str {
    caller.project.as_deref().unwrap_or_default()
}

/// Turns away whom none of the rules lets pass. What a caller may do is judged by its own project;
/// whether it sees those of others is one rule for all of it.
fn permit(app: &App, caller: &Caller, rules: &[Rule]) -> Result<(), Problem> {
    let may = rules.iter().any(|rule| app.policy.check(caller, *rule, None).is_ok());
    if may { Ok(()) } else { Err(Problem::unauthorized()) }
}

/// The methods of a path as `Allow` lists them.
fn allowed(rows: &[Row<Planner>]) -> String {
    let others = methods(rows).into_iter().filter(|method| *method != Method::OPTIONS.as_str());
    others.collect::<Vec<_>>().join(",")
}

/// Who asks, below `/v1`.
fn caller(extensions: &Extensions) -> Result<&Arc<Caller>, Problem> {
    let missing = || Problem::internal("no layer has found out who asks");
    context::<Planner>(extensions)?.caller().ok_or_else(missing)
}
