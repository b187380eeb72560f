//! The Placement API.
//!
//! [`routes`] is the API as a table; one file per resource contains its schemas, handlers and
//! views. A difference between versions is expressed in one of five places: a row's range, a
//! ladder, a field shown from a version on, a response header here, or a field of the command that
//! is set by the version.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a resource names the refusals it has words for; the others mean the same everywhere"
)]

pub(super) mod accept;
mod aggregates;
pub(super) mod allocation_candidates;
pub(super) mod allocations;
pub(super) mod body;
mod choice;
pub(super) mod context;
pub(super) mod dialect;
mod extract;
mod inventories;
pub(super) mod microversion;
mod names;
mod problem;
pub(super) mod query;
mod refused;
mod reshaper;
mod resource_classes;
pub(super) mod resource_providers;
mod root;
mod routes;
mod schema;
mod since;
pub(super) mod spelling;
mod traits;
mod usages;
mod validation;
mod wording;

use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use schemars::{Schema, SchemaGenerator};
use serde_json::json;

use self::accept::Accept;
pub use self::allocation_candidates::write_candidates;
use self::context::microversion;
use self::dialect::{Offered, Placement, PlacementFacts};
use self::microversion::{Microversion, Unacceptable, Versions};
pub(super) use self::problem::{Code, Problem, RefusedAs};
use self::problem::{Recipient, is_absence};
use super::api;
use super::api::dialect::{Context, Dialect, Route, Row, caller, context};
use super::api::json::JSON;
use super::api::operation::{Described, VersionBounds};
use super::app::{App, Options};
use super::layers::service::HttpService;
use crate::http::api::status::title;
use crate::model::Refusal;

/// Creates the service of the API.
pub(super) fn service(app: &Arc<App>) -> HttpService {
    let table = routes::table().into_iter().map(refused::keeping_refused_writes);
    api::service(app, [routes::root()], table)
}

/// Returns the routes, for the API document.
pub(super) fn described_routes() -> Vec<Route<Placement>> {
    let mut all = vec![routes::root()];
    all.extend(routes::table());
    all
}

/// Returns the parameters of `GET /allocation_candidates`, for the API document.
pub(super) fn candidates_query() -> &'static dyn Described {
    &allocation_candidates::LIST_QUERY
}

/// Returns the parameters of `GET /resource_providers`, for the API document.
pub(super) fn providers_query() -> &'static dyn Described {
    &resource_providers::LIST_QUERY
}

/// Returns the body of `PUT /allocations/{consumer}`, for the API document.
pub(super) fn claim_body() -> &'static dyn Described {
    &allocations::request::REPLACE_BODY
}

/// Returns the body of `POST /allocations`, for the API document.
pub(super) fn claims_body() -> &'static dyn Described {
    &allocations::request::REPLACE_MANY_BODY
}

/// Makes the schema of an error.
pub(super) fn describe_errors(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<problem::Errors<'_>>()
}

/// Writes an error that occurs before the API handles the request.
pub(super) fn write_error(
    status: StatusCode,
    detail: &str,
    request_id: &str,
) -> (&'static str, String) {
    (JSON, error_body(status, detail, None, request_id))
}

/// Returns the body of an error, with a code if the API has codes.
pub(super) fn error_body(
    status: StatusCode,
    detail: &str,
    code: Option<Code>,
    request_id: &str,
) -> String {
    let error = problem::ErrorView {
        status: status.as_u16(),
        title: title(status),
        detail,
        code,
        request_id,
        max_version: None,
        min_version: None,
    };
    json!(problem::Errors { errors: [error] }).to_string()
}

impl Offered {
    /// Reads the headers of a request.
    fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get(CONTENT_TYPE).map(|it| String::from_utf8_lossy(it.as_bytes()));
        let sent = sent.map(|it| it.split(';').next().unwrap_or_default().to_owned());
        Self {
            content_type: sent.filter(|sent| !sent.is_empty()),
            accept: Accept::from_headers(headers),
        }
    }
}

impl Dialect for Placement {
    type Versions = Versions;
    type Facts = PlacementFacts;
    type Code = Code;

    const NAME: &'static str = "placement";
    const IGNORES_LAST_SLASH: bool = false;

    fn prefix(options: &Options) -> &str {
        &options.path_prefix
    }

    fn facts(request: &Request) -> PlacementFacts {
        PlacementFacts { offered: Offered::of(request.headers()), microversion: OnceLock::new() }
    }

    fn understand(context: &Context<Self>, request: &Request) -> Result<(), Problem> {
        let headers = request.headers();
        let microversion = Microversion::from_headers(headers).map_err(unacceptable)?;
        context.facts.microversion.get_or_init(|| microversion);
        check_content_type(headers)
    }

    fn choose<'r>(
        rows: &'r [Row<Self>],
        app: &App,
        request: &Request,
    ) -> Result<&'r Row<Self>, Problem> {
        let extensions = request.extensions();
        let offered = &context::<Self>(extensions)?.facts.offered;
        let row = choice::choose(rows, request.method(), microversion(extensions)?, offered)?;
        for rule in &row.rules {
            app.policy.check(caller(extensions)?, *rule, None)?;
        }
        Ok(row)
    }

    fn status(why: &Refusal) -> StatusCode {
        if is_absence(why) { StatusCode::NOT_FOUND } else { StatusCode::CONFLICT }
    }

    fn render(problem: Problem, context: &Context<Self>) -> Response {
        let PlacementFacts { offered, microversion } = &context.facts;
        problem.render(&Recipient {
            method: &context.method,
            offered,
            microversion: microversion.get().copied(),
            request_id: &context.request_id,
        })
    }

    fn describe(context: &Context<Self>, response: &mut HeaderMap) {
        if let Some(microversion) = context.facts.microversion.get() {
            microversion.describe(response);
        }
    }

    fn bounds(versions: &Versions) -> VersionBounds {
        versions.bounds()
    }

    fn version(context: &Context<Self>) -> Option<String> {
        context.facts.microversion.get().map(Microversion::to_string)
    }
}

pub(super) fn unacceptable(why: Unacceptable) -> Problem {
    match why {
        Unacceptable::Unknown(text) => Problem::not_acceptable(format!(
            "Invalid microversion: Unacceptable version header: {text}"
        )),
        Unacceptable::Malformed(text, why) => Problem::bad_request(format!(
            "Invalid microversion: invalid version string: {text}; {why}"
        )),
    }
}

/// A request that announces a body must name its type.
fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let has = |name| headers.get(name).is_some_and(|value: &HeaderValue| !value.is_empty());
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.is_some_and(|length| !length.trim_matches('0').is_empty()) && !has(CONTENT_TYPE) {
        let detail = "content-type header required when content-length > 0";
        return Err(Problem::bad_request(detail));
    }
    Ok(())
}
