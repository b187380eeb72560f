use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::routing::any;
use axum::{Router, http};
use proptest::prelude::*;
use tower::ServiceExt;

use super::at_its_path;
use super::routes::{ROOT, TABLE};

/// A router of the API's paths that tells which form a path has and what its parts are.
fn paths() -> Router {
    ROOT.iter().chain(TABLE.iter()).fold(Router::new(), |router, route| {
        let form = route.path;
        let tell = async move |parts: RawPathParams| {
            let parts = parts.iter().map(|(name, value)| format!(" {name}={value}"));
            format!("{form}{}", parts.collect::<String>())
        };
        router.route(form, any(tell))
    })
}

/// The form of a path, below a prefix or not, with its parts; nothing if there is none.
async fn found(prefix: &str, path: &str) -> Option<String> {
    let request = Request::builder().uri(path).body(Body::empty()).ok()?;
    let answer = paths().oneshot(at_its_path(prefix, request)).await.unwrap();
    if answer.status() == http::StatusCode::NOT_FOUND {
        return None;
    }
    let body = axum::body::to_bytes(answer.into_body(), 1024).await.unwrap();
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
            at_its_path("/placement", request);
        }
    }
}
