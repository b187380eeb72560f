use std::fmt::Write;

use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::routing::any;
use axum::{Router, http};
use proptest::prelude::*;
use tower::ServiceExt;

use super::{Placement, Route, root, table};
use crate::auth::policy::OPERATIONS;
use crate::http::api::dialect::{Elsewhere, Media};
use crate::http::api::path::normalized;
use crate::http::api::refused::Kind;

fn routes() -> Vec<Route<Placement>> {
    std::iter::once(root()).chain(table()).collect()
}

#[test]
fn each_write_is_of_a_kind_under_which_it_is_kept_if_it_is_refused() {
    let writes =
        |route: &Route<Placement>| route.rows.iter().any(|row| row.method != http::Method::GET);
    for route in routes() {
        assert_eq!(Kind::of_write(route.path).is_some(), writes(&route), "{}", route.path);
    }
}

/// Prints the table: path, method, versions, media, rule.
fn printed() -> String {
    let mut text = String::new();
    for route in routes() {
        writeln!(text, "{}", route.path).unwrap();
        for row in &route.rows {
            let media = match row.media {
                Media::JsonIn => "json in",
                Media::JsonOut => "json out",
                Media::Any => "any",
            };
            let first = if row.media_before_version { ", media first" } else { "" };
            let elsewhere = if row.elsewhere == Elsewhere::NotAllowed { ", else 405" } else { "" };
            let rule = row.rules.first().map_or("-", |rule| rule.name());
            let (method, versions) = (&row.method, row.versions);
            writeln!(text, "  {method} {versions} {rule} ({media}{first}{elsewhere})").unwrap();
        }
    }
    text
}

#[test]
fn the_table_is_the_api() {
    insta::assert_snapshot!(printed());
}

#[test]
fn no_version_has_two_rows_of_one_method() {
    for route in routes() {
        for (nth, row) in route.rows.iter().enumerate() {
            let others = route.rows[..nth].iter().filter(|other| other.method == row.method);
            for other in others {
                assert!(!row.versions.overlap(other.versions), "{} {}", row.method, route.path);
            }
        }
    }
}

#[test]
fn the_operations_of_a_rule_are_the_rows_under_it() {
    let mut rows: Vec<(String, &str)> = Vec::new();
    for route in routes() {
        for row in &route.rows {
            // The policy calls the consumer by its full name.
            let path = route.path.replace("{consumer}", "{consumer_uuid}");
            let rule = row.rules.first().map_or("", |rule| rule.name());
            rows.push((format!("{} {path}", row.method), rule));
        }
    }
    for rule in OPERATIONS.iter().filter(|rule| rule.name != "placement:usages") {
        for operation in rule.operations {
            assert!(rows.contains(&((*operation).to_owned(), rule.name)), "{operation}");
        }
    }
    for (operation, name) in rows.iter().filter(|(_, name)| !name.is_empty()) {
        let rule = OPERATIONS.iter().find(|rule| rule.name == *name).unwrap();
        assert!(rule.operations.contains(&operation.as_str()), "{operation}");
    }
}

#[test]
fn every_rule_but_that_of_usages_stands_in_the_table() {
    let used: Vec<_> =
        routes().iter().flat_map(|route| &route.rows).flat_map(|row| row.rules.clone()).collect();
    let used = |name: &str| used.iter().any(|rule| rule.name() == name);
    let unused: Vec<_> =
        OPERATIONS.iter().map(|rule| rule.name).filter(|name| !used(name)).collect();
    // The rule depends on the project in the query, so the handler checks it.
    assert_eq!(unused, ["placement:usages"]);
}

/// A router that responds with the matched path and its segments.
fn paths() -> Router {
    routes().into_iter().fold(Router::new(), |router, route| {
        let form = route.path;
        let tell = async move |parts: RawPathParams| {
            let parts = parts.iter().map(|(name, value)| format!(" {name}={value}"));
            format!("{form}{}", parts.collect::<String>())
        };
        router.route(form, any(tell))
    })
}

/// Returns the matched path with its segments, below an optional prefix; `None` if none matches.
async fn found(prefix: &str, path: &str) -> Option<String> {
    let request = Request::builder().uri(path).body(Body::empty()).ok()?;
    let response = paths().oneshot(normalized(prefix, false, request)).await.unwrap();
    if response.status() == http::StatusCode::NOT_FOUND {
        return None;
    }
    let body = axum::body::to_bytes(response.into_body(), 1024).await.unwrap();
    Some(String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_path_is_found_with_its_parts() {
    for (path, expected) in [
        ("/", "/"),
        ("/resource_providers", "/resource_providers"),
        ("/resource_providers?name=x", "/resource_providers"),
        ("/%72esource_providers", "/resource_providers"),
        ("/resource_providers/%C3%A9%20x", "/resource_providers/{uuid} uuid=\u{e9} x"),
        ("/traits/a%2Fb", "/traits/{name} name=a/b"),
        ("/traits/a%252Fb", "/traits/{name} name=a%2Fb"),
        (
            "/resource_providers/a/inventories/VCPU",
            "/resource_providers/{uuid}/inventories/{resource_class} uuid=a resource_class=VCPU",
        ),
    ] {
        assert_eq!(found("", path).await.as_deref(), Some(expected), "{path}");
        let below = format!("/placement{path}");
        assert_eq!(found("/placement", &below).await.as_deref(), Some(expected), "{below}");
    }
    assert_eq!(found("/placement", "/placement").await.as_deref(), Some("/"));
    for path in [
        "/nothing",
        "/resource_providers/",
        "/resource_providers/a/",
        "/resource_providers/a/b",
        "/resource_providers/a/inventories/VCPU/x",
        "/resource_providers%2Fa",
        "//",
        "*",
        "/placements",
    ] {
        assert_eq!(found("/placement", path).await, None, "{path}");
    }
}

proptest! {
    #[test]
    fn no_path_makes_it_panic(path in "(/|[a-z_%]|\\PC){0,20}") {
        if let Ok(request) = Request::builder().uri(path).body(Body::empty()) {
            normalized("/placement", false, request);
        }
    }
}
