//! The API document at `/openapi.json`. `tests/openapi` checks its content; each response that a test of the API gets is
//! compared with it.

use axum::http::HeaderMap;
use berth::http::Api;
use berth::http::app::Options;

use crate::support::app::{ApiResponse, Berth};
use crate::support::described::assert_described;
use crate::support::postgres;

#[tokio::test]
async fn the_document_needs_no_token() {
    let berth = Berth::new().await.without("x-auth-token").without("openstack-api-version");
    let response = berth.get("/openapi.json").await.expect(200);
    assert_eq!(response.headers["content-type"], "application/json");
    assert_eq!(response.json(), *berth::http::openapi::document());
    berth.post("/openapi.json", serde_json::Value::Null).await.expect(405);
}

#[tokio::test]
async fn the_document_is_below_the_prefix_of_the_api() {
    let options = Options { path_prefix: "/placement".to_owned(), ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    berth.get("/placement/openapi.json").await.expect(200);
}

#[test]
#[should_panic(expected = "is a required property")]
fn a_response_without_a_member_is_noticed() {
    let headers = HeaderMap::from_iter([(
        "content-type".parse().unwrap(),
        "application/json".parse().unwrap(),
    )]);
    let body = br#"{"uuid": "a5500000-0000-4000-8000-000000000001", "name": "a", "links": []}"#;
    let response = ApiResponse { status: 200, headers, body: body.to_vec() };
    assert_described(Api::Placement, "GET", "/resource_providers/a55", &response);
}

#[test]
#[should_panic(expected = "204 is not described")]
fn another_status_is_noticed() {
    let response = ApiResponse { status: 204, headers: HeaderMap::new(), body: Vec::new() };
    assert_described(Api::Placement, "GET", "/resource_providers", &response);
}
