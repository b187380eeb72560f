//! The Placement API.
//!
//! [`routes`] is the API as a table, [`versioned`] chooses from it, and one file per resource says
//! what may be asked, what it means and what is shown. What changes with the version stands in one
//! of five places: a row's range, a ladder, a field shown from a version on, an answer's headers
//! here, or a field of the command that is set by the version.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a resource names the refusals it has words for; the others mean the same everywhere"
)]

mod accept;
mod aggregates;
mod allocation_candidates;
mod allocations;
mod body;
mod extract;
mod inventories;
mod microversion;
mod names;
mod problem;
mod query;
mod reply;
mod reshaper;
mod resource_classes;
mod resource_providers;
mod root;
mod routes;
mod schema;
mod spelling;
mod traits;
mod usages;
mod validation;
mod versioned;
mod wording;

use std::future::ready;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::extract::{Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{BoxError, ServiceBuilder};

pub use self::allocation_candidates::write_candidates;
use self::microversion::{Microversion, Unacceptable};
use self::problem::{Problem, Recipient};
use self::routes::{ROOT, TABLE};
use self::versioned::{Offered, Route};
use super::access_log::Findings;
use super::app::App;
use super::around::{Before, around};
use super::identity::Caller;
use super::intake;
use super::middleware::{HttpService, boxed, request_id};
use super::{panics, path};

/// The API as a service.
///
/// The layers ask the questions that come before a route's own in the reference's order, because the
/// order decides which of several faults a client is told: the length of the URI, the caller, a free
/// place among the requests that are worked on, the version, whether a body is described, the path.
/// What a route asks then stands in [`versioned`].
pub(super) fn service(app: &Arc<App>) -> HttpService {
    let options = Arc::clone(&app.options);
    let busy = move |_: BoxError| ready(Problem::from(intake::busy(&options)));
    let questions = ServiceBuilder::new()
        .layer(from_fn_with_state(Arc::clone(app), identify))
        // Strangers take no place.
        .layer(HandleErrorLayer::new(busy))
        .load_shed()
        .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&app.requests)))
        .layer(around(negotiate));
    let known = router(&TABLE).fallback(async || Problem::not_found("")).layer(questions);
    // Whoever asks whether the server answers needs no token, and is told however busy it is.
    let root = router(&*ROOT).layer(around(negotiate));
    let answers = ServiceBuilder::new()
        .layer(around(respond(app)))
        .map_response(boxed)
        .layer(panics::catch(app, Problem::internal));
    let router = known.merge(root).layer(answers).with_state(Arc::clone(app));
    let prefix: Arc<str> = app.options.path_prefix.trim_end_matches('/').into();
    let service = ServiceBuilder::new()
        .map_request(move |request| at_its_path(&prefix, request))
        .service(router);
    HttpService::new(service)
}

fn router(table: &[Route]) -> Router<Arc<App>> {
    let empty = Router::new();
    table.iter().fold(empty, |router, route| router.route(route.path, route.answer.clone().into()))
}

/// What is known of a request. The layers share it.
#[derive(Debug)]
struct Context {
    offered: Offered,
    asked: OnceLock<Microversion>,
    caller: OnceLock<Arc<Caller>>,
}

impl Context {
    /// The version asked for.
    fn asked(&self) -> Result<Microversion, Problem> {
        let missing = || Problem::internal("no layer has found out which version is asked for");
        self.asked.get().copied().ok_or_else(missing)
    }

    /// Who asks.
    fn caller(&self) -> Result<&Arc<Caller>, Problem> {
        let missing = || Problem::internal("no layer has found out who asks");
        self.caller.get().ok_or_else(missing)
    }
}

/// Writes problems in the form that the client prefers, and says of which version an answer is.
fn respond(app: &Arc<App>) -> impl Fn(&mut Request) -> Before + Clone + use<> {
    let options = Arc::clone(&app.options);
    move |request| {
        let context = Arc::new(Context {
            offered: Offered::of(request.headers()),
            asked: OnceLock::new(),
            caller: OnceLock::new(),
        });
        let method = request.method().clone();
        let id = request_id(request.extensions()).to_owned();
        request.extensions_mut().insert(Arc::clone(&context));
        let then = move |response| written(response, &context, method, id);
        let length = intake::check_uri(as_written(request.extensions(), request.uri()), &options);
        match length {
            Ok(()) => Ok(Box::new(then)),
            Err(unfit) => Err(Box::new(then(Problem::from(unfit).into_response()))),
        }
    }
}

fn written(mut response: Response, context: &Context, method: Method, id: String) -> Response {
    let asked = context.asked.get().copied();
    let mut cause = None;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        cause.clone_from(&problem.cause);
        let Offered { content_type, accept } = context.offered.clone();
        let to = Recipient { method, accept, content_type, asked, request_id: id };
        response = problem.render(&to);
    }
    if let Some(asked) = asked {
        asked.describe(response.headers_mut());
    }
    let caller = context.caller.get();
    response.extensions_mut().insert(Findings {
        version: asked.map(|asked| asked.to_string()),
        user: caller.and_then(|caller| caller.user.clone()),
        project: caller.and_then(|caller| caller.project.clone()),
        cause,
    });
    response
}

/// Finds out who asks.
async fn identify(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let path = as_written(&parts.extensions, &parts.uri).path();
    let caller = app.identity.caller(&parts, path).await?;
    context(&parts.extensions)?.caller.get_or_init(|| caller);
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// Finds out which version is asked for, and whether a body and the path can be understood.
fn negotiate(request: &mut Request) -> Before {
    match understand(request) {
        Ok(()) => Ok(Box::new(|response| response)),
        Err(problem) => Err(Box::new(problem.into_response())),
    }
}

fn understand(request: &mut Request) -> Result<(), Problem> {
    let asked = Microversion::from_headers(request.headers()).map_err(unacceptable)?;
    context(request.extensions())?.asked.get_or_init(|| asked);
    check_content_type(request.headers())?;
    match request.extensions_mut().remove::<Unreadable>() {
        Some(fault) => Err(Problem::bad_request(fault.0)),
        None => check_parts(request.uri().path()),
    }
}

/// What is known of a request.
fn context(extensions: &Extensions) -> Result<&Context, Problem> {
    let missing = || Problem::internal("a request has no context");
    extensions.get::<Arc<Context>>().map(Arc::as_ref).ok_or_else(missing)
}

/// No part of a path that a route knows is empty.
fn check_parts(path: &str) -> Result<(), Problem> {
    if path.contains("//") { Err(Problem::not_found("")) } else { Ok(()) }
}

/// Answers a request that cannot be looked at: 503, in the form that the client prefers.
pub(super) fn refuse(request: &Request, why: &str) -> Response {
    let headers = request.headers();
    let Offered { content_type, accept } = Offered::of(headers);
    // What is wrong with the version is said once there is an answer.
    let asked = Microversion::from_headers(headers).ok();
    let request_id = request_id(request.extensions()).to_owned();
    let method = request.method().clone();
    let to = Recipient { method, accept, content_type, asked, request_id };
    let mut response = Problem::overloaded(why).render(&to);
    if let Some(asked) = asked {
        asked.describe(response.headers_mut());
    }
    response
}

/// The URI as the client wrote it, if it was rewritten for the router.
#[derive(Clone, Debug)]
struct Written(Uri);

/// The URI as the client wrote it.
fn as_written<'u>(extensions: &'u Extensions, uri: &'u Uri) -> &'u Uri {
    extensions.get::<Written>().map_or(uri, |written| &written.0)
}

/// The prefix that the client's path had, if it had the configured one.
#[derive(Clone, Debug)]
struct Prefix(String);

/// What is wrong with a path that cannot be decoded.
#[derive(Clone, Debug)]
struct Unreadable(String);

/// Brings the path into the form of the routes: without the configured prefix, and with only those
/// characters escaped that have to be. An escaped slash ends no part.
fn at_its_path(prefix: &str, mut request: Request) -> Request {
    let path = request.uri().path();
    let (taken, rest) = split_prefix(prefix, path);
    if taken.is_empty() && !rest.is_empty() && !rest.contains('%') {
        return request;
    }
    let rest = match path::canonical(rest) {
        Ok(rest) => rest,
        Err(why) => {
            request.extensions_mut().insert(Unreadable(why));
            return request;
        }
    };
    match with_path(request.uri(), &rest) {
        Ok(uri) => {
            let taken = Prefix(taken.to_owned());
            let written = Written(std::mem::replace(request.uri_mut(), uri));
            request.extensions_mut().insert(taken);
            request.extensions_mut().insert(written);
        }
        Err(error) => {
            let why = format!("Invalid path: {error}");
            request.extensions_mut().insert(Unreadable(why));
        }
    }
    request
}

/// The same URI with another path. The target of `CONNECT`, an address without a path, becomes one.
fn with_path(uri: &Uri, path: &str) -> Result<Uri, axum::http::Error> {
    let mut parts = uri.clone().into_parts();
    if parts.scheme.is_none() {
        parts.authority = None;
    }
    let target = match uri.query() {
        Some(query) => PathAndQuery::try_from(format!("{path}?{query}"))?,
        None => PathAndQuery::try_from(path)?,
    };
    parts.path_and_query = Some(target);
    Ok(Uri::from_parts(parts)?)
}

/// The configured prefix and what follows it, if the path has it.
fn split_prefix<'p>(prefix: &'p str, path: &'p str) -> (&'p str, &'p str) {
    match path.strip_prefix(prefix) {
        Some(rest) if !prefix.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
            (prefix, rest)
        }
        _ => ("", path),
    }
}

fn unacceptable(why: Unacceptable) -> Problem {
    match why {
        Unacceptable::Unknown(text) => Problem::not_acceptable(format!(
            "Invalid microversion: Unacceptable version header: {text}"
        )),
        Unacceptable::Malformed(text, why) => Problem::bad_request(format!(
            "Invalid microversion: invalid version string: {text}; {why}"
        )),
    }
}

/// Who announces a body says what it is.
fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let has = |name| headers.get(name).is_some_and(|value: &HeaderValue| !value.is_empty());
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.is_some_and(|length| !length.trim_matches('0').is_empty())
        && !has(header::CONTENT_TYPE)
    {
        let detail = "content-type header required when content-length > 0";
        return Err(Problem::bad_request(detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
