//! The planner's API: places for many servers at once, groups of them, and what state all is in.
//!
//! [`routes`] is the API as a table; one file per resource says what may be asked and what is shown.
//! Callers are known before their path is looked at, so strangers learn nothing. What a client
//! accepts and how it calls its body does not matter: bodies are read as JSON ([`schema`]), and so
//! are all answers written but that to strangers ([`problem`]).
//!
//! Handlers check keys and values, call [`crate::planning`], and show what came of it ([`views`]). What
//! went wrong there becomes an answer in one function of [`problem`].

mod call;
mod groups;
mod placements;
mod plans;
mod problem;
mod reply;
mod routes;
mod schema;
mod status;
mod versions;
mod views;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;

use self::call::Call;
use self::problem::Problem;
use self::reply::Reply;
use self::routes::{Access, Route, TABLE};
use super::access_log::Findings;
use super::app::App;
use super::external_url::ExternalUrl;
use super::identity::Caller;
use super::path::Captured;
use super::{intake, panics, path};
use crate::policy::{Rule, planning};
use crate::turns::Asker;

/// Answers a request, whatever it is.
pub(super) async fn answer(app: Arc<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let mut caller = Arc::default();
    let work = async { serve(&app, &parts, body, &mut caller).await.map(Reply::render) };
    let outcome = panics::guard(&app, work).await;
    let outcome = outcome.unwrap_or_else(|panic| Err(Problem::internal(panic)));
    let cause = outcome.as_ref().err().and_then(|problem| problem.cause.clone());
    let mut response = outcome.unwrap_or_else(Problem::render);
    response.extensions_mut().insert(Findings {
        version: None,
        user: caller.user.clone(),
        project: caller.project.clone(),
        cause,
    });
    response
}

/// Answers a request that cannot be looked at: 503.
pub(super) fn refuse(why: &str) -> Response {
    Problem::not_now(why).render()
}

/// Asks who asks, then for what, then the handler.
async fn serve(
    app: &Arc<App>,
    parts: &Parts,
    body: Body,
    caller: &mut Arc<Caller>,
) -> Result<Reply, Problem> {
    intake::check_uri(&parts.uri, &app.options)?;
    // A slash at the end says nothing, neither to routes nor to access rules.
    let path = parts.uri.path();
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_root = path.is_empty();
    if !is_root {
        let known = app.identity.caller(parts, path).await?;
        *caller = app.identity.planning(known, parts);
    }
    let _permit = if is_root { None } else { Some(intake::begin(app)?) };
    let (route, captured) = find(path)?;
    let mut call = Call {
        app: Arc::clone(app),
        caller: Arc::clone(caller),
        sees_all: app.policy.check(caller, of_all_projects(&parts.method), None).is_ok(),
        captured,
        query: call::query(parts.uri.query().unwrap_or_default())?,
        body: schema::Object::new(),
        site: ExternalUrl::of(parts, ""),
    };
    if route.access == Access::Project {
        call.need_project()?;
    }
    let Some(row) = route.rows.iter().find(|row| row.method == parts.method) else {
        return without_row(route, &parts.method, call).await;
    };
    if !row.rules.is_empty() {
        call.permit(row.rules)?;
    }
    if row.takes_body {
        // Bodies that arrive slowly take a bounded share of `--max-requests` for each project.
        let asker = Asker::of(caller);
        let _arriving = app.arriving.turn_now(asker).ok_or_else(Problem::too_many_bodies)?;
        call.body = schema::read(&intake::read(body, &app.options).await?)?;
    }
    // Whoever sends a body slowly keeps no place meanwhile.
    let project = if row.plans { call.project().to_owned() } else { String::new() };
    let _place = if row.plans { Some(app.admissions.enter(&project).await?) } else { None };
    (row.handler)(call).await
}

/// The route of a path, and the values of its variable parts.
fn find(path: &str) -> Result<(&'static Route, Captured), Problem> {
    let parts = path::parts(path).map_err(Problem::bad_request)?;
    let table: &'static [Route] = &TABLE;
    let found = table.iter().find_map(|route| Some((route, path::capture(route.path, &parts)?)));
    found.ok_or_else(|| Problem::not_found(""))
}

/// The rule by which a caller sees what belongs to other projects: to read it, or to change it.
fn of_all_projects(method: &Method) -> Rule {
    if [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) {
        planning::ALL_PROJECTS_READ
    } else {
        planning::ALL_PROJECTS_WRITE
    }
}

/// `OPTIONS`, which every path has, and methods that it does not have.
async fn without_row(route: &Route, method: &Method, call: Call) -> Result<Reply, Problem> {
    // Who may do nothing here learns nothing of it.
    let rules = || route.rows.iter().flat_map(|row| row.rules);
    if rules().next().is_some() {
        call.permit(rules())?;
    }
    if method != Method::OPTIONS {
        return Err(Problem::method_not_allowed(method, route.allow()));
    }
    if let Some(exists) = &route.exists {
        exists(call).await?;
    }
    Ok(Reply::no_content().allow(route.allow()))
}
