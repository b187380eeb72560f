use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, Method};

use super::{Offered, Placement, choose};
use crate::http::api::dialect::Route;
use crate::http::placement::microversion::{
    AGGREGATES, CACHE_HEADERS, ENSURE_RESOURCE_CLASS, INITIAL, LATEST, Microversion, TRAITS,
};
use crate::http::placement::routes::{root, table};

fn offered(content_type: &str, accept: &str) -> Offered {
    let mut headers = HeaderMap::new();
    for (name, value) in [(CONTENT_TYPE, content_type), (ACCEPT, accept)] {
        if !value.is_empty() {
            headers.insert(name, value.parse().unwrap());
        }
    }
    Offered::of(&headers)
}

/// Returns the route with this path.
fn route(form: &str) -> Route<Placement> {
    std::iter::once(root()).chain(table()).find(|route| route.path == form).unwrap()
}

/// Returns the status of the refusal, or 200 and the first version of the chosen row.
fn outcome(request: &str, microversion: Microversion, offered: &Offered) -> String {
    let (method, form) = request.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    match choose(&route(form).rows, &method, microversion, offered) {
        Ok(row) => row.versions.to_string(),
        Err(problem) => {
            let allow = problem.allow.map(|allow| format!(" {allow}")).unwrap_or_default();
            format!("{}{allow}", problem.status.as_u16())
        }
    }
}

#[test]
fn method_then_version_then_media_type() {
    let json = offered("application/json", "application/json");
    for (request, microversion, expected) in [
        ("GET /", INITIAL, "1.0-"),
        ("POST /", INITIAL, "405 GET"),
        ("HEAD /", INITIAL, "405 GET"),
        ("OPTIONS /resource_providers", INITIAL, "405 GET, POST"),
        ("PATCH /resource_providers/{uuid}", INITIAL, "405 GET, DELETE, PUT"),
        ("DELETE /allocations", LATEST, "405 POST"),
        ("GET /traits", INITIAL, "404"),
        ("POST /traits", INITIAL, "405 GET"),
        ("GET /traits", TRAITS, "1.6-"),
        ("PUT /resource_classes/{name}", INITIAL, "404"),
        ("PUT /resource_classes/{name}", TRAITS, "1.2-1.6"),
        ("PUT /resource_classes/{name}", ENSURE_RESOURCE_CLASS, "1.7-"),
        ("DELETE /resource_providers/{uuid}/inventories", AGGREGATES, "405 GET, POST, PUT"),
        ("DELETE /resource_providers/{uuid}/inventories", LATEST, "1.5-"),
    ] {
        assert_eq!(outcome(request, microversion, &json), expected, "{request} {microversion}");
    }
}

#[test]
fn media_types_are_looked_at_after_the_version_but_for_aggregates() {
    let html = offered("text/plain", "text/html");
    for (request, microversion, expected) in [
        ("GET /", INITIAL, "1.0-"),
        ("GET /resource_providers", INITIAL, "406"),
        ("POST /resource_providers", INITIAL, "415"),
        ("GET /resource_classes", INITIAL, "404"),
        ("POST /resource_classes", INITIAL, "404"),
        ("GET /resource_providers/{uuid}/aggregates", INITIAL, "406"),
        ("PUT /resource_providers/{uuid}/aggregates", INITIAL, "415"),
        ("PUT /resource_providers/{uuid}/aggregates", CACHE_HEADERS, "415"),
        ("GET /traits/{name}", LATEST, "1.6-"),
        ("PUT /traits/{name}", LATEST, "1.6-"),
        ("PUT /resource_classes/{name}", TRAITS, "415"),
        ("PUT /resource_classes/{name}", LATEST, "1.7-"),
        ("DELETE /resource_providers/{uuid}", LATEST, "1.0-"),
    ] {
        assert_eq!(outcome(request, microversion, &html), expected, "{request} {microversion}");
    }
}

#[test]
fn the_media_type_of_a_body_has_no_parameters() {
    let check = |content_type| {
        let providers = route("/resource_providers").rows;
        choose(&providers, &Method::POST, LATEST, &offered(content_type, "")).map(|_| ())
    };
    assert_eq!(check("application/json"), Ok(()));
    assert_eq!(check("application/json; charset=utf-8"), Ok(()));
    for (content_type, named) in [("", "None"), ("text/plain;x=y", "text/plain")] {
        let detail = format!("The media type {named} is not supported, use application/json");
        assert_eq!(check(content_type).unwrap_err().detail, detail);
    }
}
