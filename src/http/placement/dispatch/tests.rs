use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, Method};
use proptest::prelude::*;

use super::{Offered, choose, find};
use crate::http::placement::microversion::{
    AGGREGATES, CACHE_HEADERS, ENSURE_RESOURCE_CLASS, INITIAL, LATEST, Microversion, TRAITS,
};
use crate::http::placement::routes::TABLE;

fn offered(content_type: &str, accept: &str) -> Offered {
    let mut headers = HeaderMap::new();
    for (name, value) in [(CONTENT_TYPE, content_type), (ACCEPT, accept)] {
        if !value.is_empty() {
            headers.insert(name, value.parse().unwrap());
        }
    }
    Offered::of(&headers)
}

/// The status that refuses a request, or 200 and the first version of the row that answers it.
fn outcome(request: &str, asked: Microversion, offered: &Offered) -> String {
    let (method, path) = request.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    let route = match find(&TABLE, path) {
        Ok((route, _)) => route,
        Err(problem) => return problem.status.as_u16().to_string(),
    };
    match choose(route, &method, asked, offered) {
        Ok(row) => row.versions.to_string(),
        Err(problem) => {
            let allow = problem.allow.map(|allow| format!(" {allow}")).unwrap_or_default();
            format!("{}{allow}", problem.status.as_u16())
        }
    }
}

#[test]
fn a_path_is_found_with_its_parts() {
    let parts = |path| find(&TABLE, path).map(|(_, captured)| captured).ok();
    let values = |values: &[(&'static str, &str)]| {
        Some(values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect::<Vec<_>>())
    };
    assert_eq!(parts("/"), values(&[]));
    assert_eq!(parts(""), values(&[]));
    assert_eq!(parts("/resource_providers"), values(&[]));
    assert_eq!(parts("/resource_providers/é x"), values(&[("uuid", "é x")]));
    assert_eq!(
        parts("/resource_providers/a/inventories/VCPU"),
        values(&[("uuid", "a"), ("resource_class", "VCPU")])
    );
    for path in [
        "/nothing",
        "/resource_providers/",
        "/resource_providers//inventories",
        "/resource_providers/a/",
        "/resource_providers/a/b",
        "/resource_providers/a/inventories/VCPU/x",
        "//",
        "*",
    ] {
        assert_eq!(parts(path), None, "{path}");
    }
}

#[test]
fn path_then_method_then_version_then_media_type() {
    let json = offered("application/json", "application/json");
    for (request, asked, expected) in [
        ("GET /", INITIAL, "1.0-"),
        ("POST /", INITIAL, "405 GET"),
        ("HEAD /", INITIAL, "405 GET"),
        ("OPTIONS /resource_providers", INITIAL, "405 GET, POST"),
        ("PATCH /resource_providers/x", INITIAL, "405 GET, DELETE, PUT"),
        ("DELETE /allocations", LATEST, "405 POST"),
        ("GET /traits", INITIAL, "404"),
        ("POST /traits", INITIAL, "405 GET"),
        ("GET /traits", TRAITS, "1.6-"),
        ("PUT /resource_classes/x", INITIAL, "404"),
        ("PUT /resource_classes/x", TRAITS, "1.2-1.6"),
        ("PUT /resource_classes/x", ENSURE_RESOURCE_CLASS, "1.7-"),
        ("DELETE /resource_providers/x/inventories", AGGREGATES, "405 GET, POST, PUT"),
        ("DELETE /resource_providers/x/inventories", LATEST, "1.5-"),
    ] {
        assert_eq!(outcome(request, asked, &json), expected, "{request} {asked}");
    }
}

#[test]
fn media_types_are_looked_at_after_the_version_but_for_aggregates() {
    let html = offered("text/plain", "text/html");
    for (request, asked, expected) in [
        ("GET /", INITIAL, "1.0-"),
        ("GET /resource_providers", INITIAL, "406"),
        ("POST /resource_providers", INITIAL, "415"),
        ("GET /resource_classes", INITIAL, "404"),
        ("POST /resource_classes", INITIAL, "404"),
        ("GET /resource_providers/x/aggregates", INITIAL, "406"),
        ("PUT /resource_providers/x/aggregates", INITIAL, "415"),
        ("PUT /resource_providers/x/aggregates", CACHE_HEADERS, "415"),
        ("GET /traits/x", LATEST, "1.6-"),
        ("PUT /traits/x", LATEST, "1.6-"),
        ("PUT /resource_classes/x", TRAITS, "415"),
        ("PUT /resource_classes/x", LATEST, "1.7-"),
        ("DELETE /resource_providers/x", LATEST, "1.0-"),
    ] {
        assert_eq!(outcome(request, asked, &html), expected, "{request} {asked}");
    }
}

#[test]
fn the_media_type_of_a_body_is_told_without_its_parameters() {
    let told = |content_type| {
        let route = find(&TABLE, "/resource_providers").unwrap().0;
        choose(route, &Method::POST, LATEST, &offered(content_type, "")).map(|_| ())
    };
    assert_eq!(told("application/json"), Ok(()));
    assert_eq!(told("application/json; charset=utf-8"), Ok(()));
    for (content_type, named) in [("", "None"), ("text/plain;x=y", "text/plain")] {
        let detail = format!("The media type {named} is not supported, use application/json");
        assert_eq!(told(content_type).unwrap_err().detail, detail);
    }
}

proptest! {
    #[test]
    fn no_path_makes_it_panic(path in "(/|[a-z_]|\\PC){0,20}") {
        let _ = find(&TABLE, &path);
    }
}
