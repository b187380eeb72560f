//! Invalid requests of any kind get 400 with an explanation.

use berth::http::app::Options;
use serde_json::{Value, json};

use crate::groups::create;
use crate::site::Site;

/// Values of every kind, and some that are hard to bear.
fn values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5e300),
        json!(u64::MAX),
        json!(""),
        json!("x".repeat(100_000)),
        json!("a\u{0}b"),
        json!("\u{202e}\u{feff}"),
        json!([]),
        json!([[[[]]]]),
        json!([null]),
        json!({}),
        json!({"a": {"b": [1, {"c": null}]}}),
        json!({"a\u{0}": 1}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_checked() {
    let site = Site::new().await;
    let admin = site.admin();
    create(&admin, "g").await;
    let whole = json!({"name": "n", "type": "exclusivity", "level": "host", "description": "d"});
    let mut request = Vec::new();
    for value in values() {
        for key in ["name", "type", "level", "description", "other"] {
            let mut body = whole.clone();
            body[key] = value.clone();
            request.push(("POST", "/v1/groups", body));
        }
        request.push(("PUT", "/v1/groups/g", json!({"description": value})));
        request.push(("PUT", "/v1/groups/g", json!({"other": value})));
        request.push(("PUT", "/v1/groups/g/members", json!({"members": value})));
        request.push(("PUT", "/v1/groups/g/members", json!({"members": [value]})));
        request.push(("PUT", "/v1/groups/g/members", json!({"members": [], "other": value})));
    }
    for (method, path, body) in request {
        let text = body.to_string();
        let answer = admin.ask(method, path, Some(text.clone().into_bytes())).await;
        // Some values are fine where they stand.
        assert!([201, 400, 409].contains(&answer.status), "{path} {text}: {}", answer.text());
        if answer.status == 400 {
            let why = answer.explanation(400);
            assert!(!why.is_empty() && why.len() < 2000, "{why}");
        }
        if text.contains("\\u0000") || path == "/v1/groups" && body.get("other").is_some() {
            assert_eq!(answer.status, 400, "{path} {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_a_json_object() {
    let site = Site::new().await;
    let admin = site.admin();
    create(&admin, "g").await;
    let deep = format!("{{\"name\": {}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    for (method, path) in
        [("POST", "/v1/groups"), ("PUT", "/v1/groups/g"), ("PUT", "/v1/groups/g/members")]
    {
        for empty in ["", " ", "\r\n"] {
            let why = admin.ask(method, path, Some(empty.into())).await.explanation(400);
            assert_eq!(why, "No JSON object could be decoded");
        }
        for bad in [
            b"{".to_vec(),
            b"{}}".to_vec(),
            b"[]".to_vec(),
            b"[1]".to_vec(),
            b"null".to_vec(),
            b"1".to_vec(),
            b"1e999".to_vec(),
            b"{\"name\": 1e999}".to_vec(),
            b"{\"name\": NaN}".to_vec(),
            b"\"text\"".to_vec(),
            b"name=g".to_vec(),
            b"{\"name\": \"\\ud800\"}".to_vec(),
            b"{\"name\": \"\xff\"}".to_vec(),
            b"\xef\xbb\xbf{}".to_vec(),
            b"{\"a\": 1, \"a\": 2}".to_vec(),
            deep.clone().into_bytes(),
        ] {
            admin.ask(method, path, Some(bad)).await.explanation(400);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_queries_are_checked() {
    let site = Site::new().await;
    let admin = site.admin();
    for path in ["/v1/groups/%00", "/v1/groups/%ff", "/v1/groups?a=%00", "/v1/groups?%ff"] {
        admin.get(path).await.explanation(400);
    }
    // A slash in an id is part of it.
    let why = admin.get("/v1/groups/a%2Fmembers").await.explanation(404);
    assert_eq!(why, "Group not found");
    admin.get("/v1/groups?some=thing&more").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_values_are_refused() {
    let options = Options { max_body_bytes: 1000, max_uri_bytes: 2000, ..Options::default() };
    let site = Site::with(options).await;
    let admin = site.admin();
    let long = json!({"name": "g", "type": "exclusivity", "description": "x".repeat(1000)});
    let answer = admin.post("/v1/groups", long).await;
    assert_eq!(answer.explanation(413), "At most 1000 bytes are accepted.");
    assert_eq!(answer.json()["error"]["type"], "HTTPRequestEntityTooLarge");
    let answer = admin.get(&format!("/v1/groups/{}", "x".repeat(2000))).await;
    assert_eq!(answer.explanation(414), "At most 2000 bytes are accepted.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_sends_retry_after() {
    let site = Site::with(Options { max_requests: 0, ..Options::default() }).await;
    let answer = site.admin().get("/v1/groups").await;
    let why = "The server is currently unavailable. Please try again at a later time.";
    assert_eq!(answer.explanation(503), why);
    assert_eq!(answer.header("retry-after"), "1");
    site.stranger().get("/").await.expect(200);
}
