//! The Placement API.
//!
//! [`routes`] is the API as a table, [`dispatch`] chooses from it, and one file per resource says
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
mod call;
mod dispatch;
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
mod wording;

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};
use axum::response::Response;

pub use self::allocation_candidates::write_candidates;
use self::body::Body;
use self::call::Call;
use self::dispatch::Offered;
use self::microversion::{HEADER, Microversion, SERVICE, Unacceptable};
use self::problem::{Problem, Recipient};
use self::reply::Reply;
use self::routes::{Media, TABLE};
use super::app::App;
use super::edge::{self, Account, Ids};
use super::identity::Caller;
use super::intake;
use super::site::Site;

/// Answers a request, whatever it is.
pub(super) async fn answer(app: Arc<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let request_id = request_id(&parts.extensions);
    let offered = Offered::of(&parts.headers);
    let mut known = Known::default();
    let work = async {
        let reply = serve(&app, &parts, body, &offered, &mut known).await?;
        Ok(reply.render(known.asked.unwrap_or(microversion::INITIAL)))
    };
    let outcome = edge::guard(&app, work).await;
    let outcome = outcome.unwrap_or_else(|panic| Err(Problem::internal(panic)));
    let cause = outcome.as_ref().err().and_then(|problem| problem.cause.clone());
    let asked = known.asked;
    let mut response = match outcome {
        Ok(response) => response,
        Err(problem) => {
            let Offered { content_type, accept } = offered;
            let method = parts.method;
            problem.render(&Recipient { method, accept, content_type, asked, request_id })
        }
    };
    if let Some(asked) = asked {
        say_version(response.headers_mut(), asked);
    }
    response.extensions_mut().insert(Account {
        version: asked.map(|asked| asked.to_string()),
        user: known.caller.user.clone(),
        project: known.caller.project.clone(),
        cause,
    });
    response
}

/// Answers a request that cannot be looked at: 503, in the form that the client prefers.
pub(super) fn refuse(request: &Request, why: &str) -> Response {
    let headers = request.headers();
    let Offered { content_type, accept } = Offered::of(headers);
    // What is wrong with the version is said once there is an answer.
    let asked = Microversion::from_headers(headers).ok();
    let request_id = request_id(request.extensions());
    let method = request.method().clone();
    let to = Recipient { method, accept, content_type, asked, request_id };
    let mut response = Problem::overloaded(why).render(&to);
    if let Some(asked) = asked {
        say_version(response.headers_mut(), asked);
    }
    response
}

fn request_id(extensions: &Extensions) -> String {
    extensions.get::<Ids>().map_or_else(String::new, |ids| ids.request.clone())
}

/// What has been found out about a request so far.
#[derive(Debug, Default)]
struct Known {
    asked: Option<Microversion>,
    caller: Arc<Caller>,
}

/// Asks the questions in the reference's order, then the handler.
async fn serve(
    app: &Arc<App>,
    parts: &Parts,
    body: HttpBody,
    offered: &Offered,
    known: &mut Known,
) -> Result<Reply, Problem> {
    intake::check_uri(&parts.uri, &app.options)?;
    let (prefix, path) = split_prefix(&app.options.path_prefix, parts.uri.path());
    let is_root = matches!(path, "/" | "");
    if !is_root {
        known.caller = app.identity.caller(parts, parts.uri.path()).await?;
    }
    // Strangers take nobody's place, and whoever asks whether the server answers is told so however
    // busy it is.
    let _permit = if is_root { None } else { Some(intake::begin(app)?) };
    let asked = Microversion::from_headers(&parts.headers).map_err(unacceptable)?;
    known.asked = Some(asked);
    check_content_type(&parts.headers)?;
    let (route, captured) = dispatch::find(&TABLE, path)?;
    let row = dispatch::choose(route, &parts.method, asked, offered)?;
    let mut call = Call {
        app: Arc::clone(app),
        asked,
        caller: Arc::clone(&known.caller),
        captured,
        raw_query: parts.uri.query().unwrap_or_default().to_owned(),
        body: Body::default(),
        site: Site::of(parts, prefix),
    };
    if let Some(rule) = row.rule {
        call.permit(rule, None)?;
    }
    if row.media == Media::JsonIn {
        call.body = Body(intake::read(body, &app.options).await?);
    }
    (row.handler)(call).await
}

/// The configured prefix and what follows it, if the path has it.
fn split_prefix<'p>(prefix: &'p str, path: &'p str) -> (&'p str, &'p str) {
    let prefix = prefix.trim_end_matches('/');
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

/// Which version the answer is of, and that it depends on that.
fn say_version(headers: &mut HeaderMap, asked: Microversion) {
    if let Ok(version) = HeaderValue::try_from(format!("{SERVICE} {asked}")) {
        headers.insert(HEADER, version);
    }
    headers.insert(header::VARY, HeaderValue::from_static(HEADER));
}
