//! Requests that browsers make for pages of other origins.

use axum::http::Method;
use berth::http::app::Options;
use berth::http::layers::cors::Cors;

use crate::support::app::{ApiResponse, Berth};
use crate::support::postgres;

const PAGE: &str = "https://horizon.example.com";

async fn berth() -> Berth {
    let cors = Some(Cors::new(&[PAGE.to_owned()]).unwrap());
    let options = Options { cors, ..Options::default() };
    Berth::with(&postgres::database().await, options).await
}

fn header<'a>(answer: &'a ApiResponse, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_browser_may_ask_beforehand_without_a_token() {
    let nobody = berth().await.without("x-auth-token").header("origin", PAGE);
    let asking = nobody.header("access-control-request-method", "PUT");
    let asking = asking.header("access-control-request-headers", "x-auth-token");
    let answer = asking.ask(Method::OPTIONS, "/resource_providers", None).await.expect(200);
    assert!(answer.body.is_empty());
    assert_eq!(header(&answer, "content-type"), None);
    for (name, value) in [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "PUT"),
        ("access-control-allow-headers", "x-auth-token"),
        ("access-control-max-age", "3600"),
        ("vary", "Origin"),
    ] {
        assert_eq!(header(&answer, name), Some(value), "{name}");
    }
    assert!(header(&answer, "x-openstack-request-id").is_some());
}

#[tokio::test]
async fn every_answer_can_be_read_by_allowed_pages_and_only_by_them() {
    let berth = berth().await;
    for (asking, path, status, vary) in [
        (berth.clone(), "/traits", 200, "openstack-api-version,Origin"),
        (berth.clone(), "/nowhere", 404, "openstack-api-version,Origin"),
        (berth.without("x-auth-token"), "/traits", 401, "Origin"),
        (berth.at("9.9"), "/traits", 406, "Origin"),
    ] {
        let answer = asking.header("origin", PAGE).get(path).await.expect(status);
        assert_eq!(header(&answer, "access-control-allow-origin"), Some(PAGE));
        assert_eq!(header(&answer, "access-control-allow-credentials"), Some("true"));
        let exposed = header(&answer, "access-control-expose-headers");
        let names = "X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token,X-Service-Token,OpenStack-API-Version";
        assert_eq!(exposed, Some(names));
        assert_eq!(header(&answer, "vary"), Some(vary));
    }
    let other = berth.header("origin", "https://other.example.com");
    let answer = other.get("/traits").await.expect(200);
    assert_eq!(header(&answer, "access-control-allow-origin"), None);
}

#[tokio::test]
async fn without_allowed_origins_there_are_no_cors_headers() {
    let asking = Berth::new().await.header("origin", PAGE);
    let answer = asking.get("/traits").await.expect(200);
    assert_eq!(header(&answer, "access-control-allow-origin"), None);
    assert_eq!(header(&answer, "vary"), Some("openstack-api-version"));
    let asking = asking.header("access-control-request-method", "PUT");
    asking.ask(Method::OPTIONS, "/traits", None).await.expect(405);
}
