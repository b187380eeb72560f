//! The API document in the form of `OpenAPI` 3.1, at `/openapi.json` on the address of the Placement API.
//!
//! It is made of the tables of routes: [`Document`] describes their rows, whose bodies and queries have the schemas
//! that requests are checked against, and whose responses have the schemas of the types that are written.
//! [`versions`] marks what only some microversions have with `x-openstack`, as OpenStack's own documents do.

mod document;
mod simplified;
mod versions;

use std::sync::LazyLock;

use axum::extract::Request;
use serde_json::Value;

use self::document::{Document, Section};
use super::api;
use super::api::dialect::Route;
use super::api::reply::Reply;
use super::api::routes::{self, get};
use crate::http::operator::context::{Operator, Problem};
use crate::http::{operator, placement, planner};

/// The path of the document.
const PATH: &str = "/openapi.json";

/// The document, and its text.
static DOCUMENT: LazyLock<(Value, String)> = LazyLock::new(|| {
    let document = made();
    let text = document.to_string();
    (document, text)
});

/// Returns the document.
pub fn document() -> &'static Value {
    &DOCUMENT.0
}

/// Returns the route of the document, which needs no token.
pub(super) fn route() -> Route<Operator> {
    routes::route(PATH, [get::<Operator, _, _>(.., None, show)])
}

/// Returns whether a request is for the document. `prefix` is the additional path prefix of the Placement API.
pub(super) fn handles(request: &Request, prefix: &str) -> bool {
    api::path::with_and_without(prefix, request).any(|path| path == PATH)
}

/// `GET /openapi.json`: the document.
async fn show() -> Result<Reply, Problem> {
    Ok(Reply::body(DOCUMENT.1.as_str().into()))
}

fn made() -> Value {
    let mut document = Document::new();
    document.add(
        &Section {
            name: "Placement",
            about: "The OpenStack Placement API.",
            server: None,
            operation_prefix: "",
            has_microversions: true,
            open: Some("/"),
            error: placement::describe_errors,
        },
        placement::described_routes(),
    );
    document.add(
        &Section {
            name: "Planner",
            about: "The Valet Placement API: hosts for all servers of a stack together. It has an address of its own.",
            server: Some("http://localhost:8090"),
            operation_prefix: "planner_",
            has_microversions: false,
            open: None,
            error: planner::describe_errors,
        },
        planner::described_routes(),
    );
    document.add(
        &Section {
            name: "Operator",
            about: "Questions about the cloud, beyond the published APIs. Queries for candidates are those of the microversion in the header, or of the latest.",
            server: None,
            operation_prefix: "operator_",
            has_microversions: true,
            open: Some("/-"),
            error: placement::describe_errors,
        },
        operator::described_routes(),
    );
    document.finished()
}

#[cfg(test)]
mod tests;
