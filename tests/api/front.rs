//! Checks of every request before its resource: identity, version, path, limits; and the headers of every
//! response.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request};
use berth::http::Options;
use serde_json::json;
use uuid::Uuid;

use crate::support::app::{ApiResponse, Berth};
use crate::support::postgres;

/// Sends exactly this.
async fn send(berth: &Berth, request: Request<Body>) -> ApiResponse {
    let (head, body) = berth.answer(request).await.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    ApiResponse { status: head.status.as_u16(), headers: head.headers, body }
}

/// A request with these headers and nothing else.
fn request(method: Method, uri: &str, headers: &[(&str, &str)], body: Body) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(uri).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn only_the_root_needs_no_token() {
    let berth = Berth::new().await;
    let root = send(&berth, request(Method::GET, "/", &[], Body::empty())).await.expect(200);
    assert_eq!(header(&root.headers, "openstack-api-version"), Some("placement 1.0"));
    assert_eq!(
        root.json(),
        json!({"versions": [{
            "id": "v1.0", "max_version": "1.39", "min_version": "1.0", "status": "CURRENT",
            "links": [{"rel": "self", "href": ""}],
        }]})
    );
    let bad_version = [("openstack-api-version", "placement 0.5")];
    for headers in [&[][..], &bad_version] {
        let path = "/resource_providers";
        let answer = send(&berth, request(Method::GET, path, headers, Body::empty())).await;
        let answer = answer.expect(401);
        assert_eq!(answer.json()["title"], "Unauthorized");
        assert_eq!(header(&answer.headers, "openstack-api-version"), None);
        assert!(header(&answer.headers, "x-openstack-request-id").is_some());
    }
}

#[tokio::test]
async fn every_answer_says_its_version_and_its_id() {
    let berth = Berth::new().await;
    for (path, status) in [("/resource_providers", 200), ("/nothing", 404), ("/traits/X", 404)] {
        let answer = berth.at("1.20").get(path).await.expect(status);
        assert_eq!(header(&answer.headers, "openstack-api-version"), Some("placement 1.20"));
        assert_eq!(header(&answer.headers, "vary"), Some("openstack-api-version"));
        let id = header(&answer.headers, "x-openstack-request-id").unwrap();
        assert!(Uuid::try_parse(id.strip_prefix("req-").unwrap()).is_ok());
        if status != 200 {
            assert_eq!(answer.json()["errors"][0]["request_id"], id);
        }
    }
    let given = format!("req-{}", Uuid::new_v4());
    let answer = berth.header("x-openstack-request-id", &given).get("/").await;
    assert_ne!(header(&answer.headers, "x-openstack-request-id"), Some(given.as_str()));
}

#[tokio::test]
async fn a_version_that_is_none_is_refused() {
    let berth = Berth::new().await;
    for (version, status, message) in [
        ("0.5", 406, "Unacceptable version header: 0.5"),
        ("1.40", 406, "Unacceptable version header: 1.40"),
        ("pony", 400, "invalid version string: pony"),
        ("1", 400, "invalid version string: 1"),
    ] {
        let answer = berth.at(version).get("/").await.expect(status);
        assert!(answer.detail().contains(message), "{}", answer.text());
        assert_eq!(header(&answer.headers, "openstack-api-version"), None);
    }
    assert_eq!(berth.at("1.40").get("/").await.json()["errors"][0]["max_version"], "1.39");
}

#[tokio::test]
async fn roles_and_scope_decide_who_may() {
    let berth = Berth::new().await;
    let get = |headers: &[(&str, &str)], path: &'static str| {
        let berth =
            headers.iter().fold(berth.clone(), |berth, (name, value)| berth.header(name, value));
        async move { berth.get(path).await }
    };
    let list = "/resource_providers";
    get(&[("x-auth-token", "admin")], list).await.expect(200);
    get(&[("x-auth-token", "nova"), ("x-roles", "member, Service")], list).await.expect(200);
    let answer = get(&[("x-auth-token", "nova")], list).await.expect(403);
    let output = "Policy does not allow placement:resource_providers:list to be performed.";
    assert!(answer.detail().contains(output));
    let scoped = [("openstack-system-scope", "all"), ("x-auth-token", "admin")];
    let answer = get(&scoped, list).await.expect(403);
    assert!(answer.detail().ends_with("\n\n placement:resource_providers:list  "));
    let reader = [("x-auth-token", "u:p"), ("x-roles", "reader")];
    get(&reader, "/usages?project_id=p").await.expect(200);
    get(&reader, "/usages?project_id=q").await.expect(403);
}

#[tokio::test]
async fn a_body_needs_a_content_type() {
    let berth = Berth::new().await;
    let path = "/resource_providers";
    let token = ("x-auth-token", "admin");
    let announced = [token, ("content-length", "2")];
    let answer = send(&berth, request(Method::POST, path, &announced, Body::from("{}"))).await;
    let output = "content-type header required when content-length > 0";
    assert!(answer.expect(400).detail().contains(output));
    let answer =
        send(&berth, request(Method::POST, path, &[token], Body::empty())).await.expect(415);
    let output = "The media type None is not supported, use application/json";
    assert!(answer.detail().contains(output));
    let empty = [token, ("content-length", "0"), ("openstack-api-version", "placement 1.6")];
    send(&berth, request(Method::PUT, "/traits/CUSTOM_X", &empty, Body::empty())).await.expect(201);
}

#[tokio::test]
async fn paths_are_decoded_once() {
    let berth = Berth::new().await;
    berth.at("1.7").ask(Method::PUT, "/resource_classes/CUSTOM%5FX", None).await.expect(201);
    berth.get("/%72esource_classes/CUSTOM_X").await.expect(200);
    berth.get("/resource_classes/CUSTOM%255FX").await.expect(404);
    // An escaped slash is part of a name, and no name of Berth's has one.
    berth.get("/resource_classes%2FCUSTOM_X").await.expect(404);
    for path in ["//resource_classes", "/resource_classes/", "/resource_providers//inventories"] {
        berth.get(path).await.expect(404);
        berth.delete(path).await.expect(404);
    }
    let answer = berth.get("/resource_classes/CUSTOM_X%2F").await.expect(404);
    assert!(answer.detail().contains("CUSTOM_X/"), "{}", answer.text());
    let answer = berth.get("/traits/%zz").await.expect(404);
    assert!(answer.detail().contains("No such trait(s): %zz."));
}

#[tokio::test]
async fn locations_are_absolute_and_links_are_not() {
    let berth = Berth::new().await;
    let uuid = Uuid::new_v4();
    let body = json!({ "name": "one", "uuid": uuid });
    let proxied = berth.header("x-forwarded-proto", "https").header("x-forwarded-host", "evil");
    let answer = proxied.post("/resource_providers", body).await.expect(200);
    let path = format!("/resource_providers/{uuid}");
    let location = format!("http://localhost{path}");
    assert_eq!(header(&answer.headers, "location"), Some(location.as_str()));
    assert_eq!(answer.json()["links"][0], json!({"rel": "self", "href": path}));
}

#[tokio::test]
async fn the_api_is_served_below_a_prefix_too() {
    let options = Options { path_prefix: "/placement".to_owned(), ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    for path in ["/", "/placement", "/placement/"] {
        let nobody = request(Method::GET, path, &[], Body::empty());
        assert!(send(&berth, nobody).await.expect(200).text().contains("v1.0"), "{path}");
    }
    let uuid = Uuid::new_v4();
    let body = json!({ "name": "one", "uuid": uuid });
    let answer = berth.post("/placement/resource_providers", body).await.expect(200);
    let path = format!("/placement/resource_providers/{uuid}");
    assert_eq!(answer.json()["links"][0]["href"], path);
    let location = format!("http://localhost{path}");
    assert_eq!(header(&answer.headers, "location"), Some(location.as_str()));
    let direct = format!("/resource_providers/{uuid}");
    assert_eq!(berth.get(&direct).await.expect(200).json()["links"][0]["href"], direct);
    berth.get("/placement2/resource_providers").await.expect(404);
}

#[tokio::test]
async fn an_answer_without_content_has_no_content_type() {
    let berth = Berth::new().await;
    let created = berth.ask(Method::PUT, "/traits/CUSTOM_X", None).await.expect(201);
    let known = berth.ask(Method::PUT, "/traits/CUSTOM_X", None).await.expect(204);
    let shown = berth.get("/traits/CUSTOM_X").await.expect(204);
    let deleted = berth.delete("/traits/CUSTOM_X").await.expect(204);
    for (answer, located, cached) in
        [(created, true, true), (known, true, true), (shown, false, true), (deleted, false, false)]
    {
        assert!(answer.body.is_empty());
        assert_eq!(header(&answer.headers, "content-type"), None);
        assert_eq!(answer.headers.contains_key("location"), located);
        assert_eq!(answer.headers.contains_key("last-modified"), cached);
        assert_eq!(answer.headers.contains_key("cache-control"), cached);
    }
    let body = json!({"name": "old"});
    let old = berth.at("1.19").post("/resource_providers", body).await.expect(201);
    assert!(old.body.is_empty() && !old.headers.contains_key("content-type"));
    assert!(old.headers.contains_key("location"));
}
