//! Tests of a client with services that refuse tokens, are overloaded, break off, or are not placement services.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::{Access, Client, Limits, Microversion, Settings};

/// A Keystone and a placement service in one, which counts requests.
#[derive(Default)]
struct Fake {
    url: String,
    issued: AtomicUsize,
    received: AtomicUsize,
    /// Number of requests that are still refused.
    overloaded: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

async fn respond(
    State(fake): State<Arc<Fake>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let token = headers.get("x-auth-token").map(|it| it.to_str().unwrap().to_owned());
    match (method, uri.path()) {
        (Method::POST, "/v3/auth/tokens") => {
            let number = fake.issued.fetch_add(1, Ordering::SeqCst) + 1;
            let endpoint =
                json!({"interface": "public", "url": format!("{}/placement/", fake.url)});
            let body = json!({"token": {
                "user": {"id": "u"}, "expires_at": "2099-01-01T00:00:00Z",
                "catalog": [{"type": "placement", "endpoints": [endpoint]}],
            }});
            let token = [("x-subject-token", format!("token-{number}"))];
            (StatusCode::CREATED, token, body.to_string()).into_response()
        }
        (_, "/placement/") => json!({"versions": [
            {"id": "v1.0", "min_version": "1.0", "max_version": "1.38"}]})
        .to_string()
        .into_response(),
        (_, "/nova/") => r#"{"versions": [{"id": "v2.1", "version": "2.96"}]}"#.into_response(),
        (_, "/placement/known") => {
            fake.received.fetch_add(1, Ordering::SeqCst);
            let version = headers["openstack-api-version"].to_str().unwrap().to_owned();
            match token.as_deref() {
                // The first token is revoked.
                None | Some("token-1") => StatusCode::UNAUTHORIZED.into_response(),
                Some(token) => {
                    json!({"token": token, "version": version}).to_string().into_response()
                }
            }
        }
        (_, "/placement/overloaded") => {
            fake.received.fetch_add(1, Ordering::SeqCst);
            let left = fake.overloaded.load(Ordering::SeqCst);
            if left == 0 {
                return "{}".into_response();
            }
            fake.overloaded.store(left - 1, Ordering::SeqCst);
            (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "0")], "busy").into_response()
        }
        (_, "/placement/slow") => {
            let now = fake.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            fake.most_at_once.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            fake.at_once.fetch_sub(1, Ordering::SeqCst);
            "{}".into_response()
        }
        (_, "/placement/large") => vec![b' '; 100_000].into_response(),
        _ => {
            let body = r#"{"errors": [{"status": 404, "detail": "Nothing there."}]}"#;
            (StatusCode::NOT_FOUND, body).into_response()
        }
    }
}

async fn fake() -> Arc<Fake> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let fake = Arc::new(Fake { url, ..Fake::default() });
    let router = axum::Router::new().fallback(respond).with_state(Arc::clone(&fake));
    tokio::spawn(async move { axum::serve(listener, router).await });
    fake
}

fn settings(fake: &Fake) -> Settings {
    let settings =
        [("auth_url", &*fake.url), ("user_id", "u"), ("password", "p"), ("project_id", "p")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Settings::of_cloud("fake", BTreeMap::from(settings))
}

fn client(fake: &Fake) -> Client {
    Client::new(Access::by_settings(&settings(fake), None).unwrap(), Limits::default()).unwrap()
}

fn direct(url: &str, limits: Limits) -> Client {
    Client::new(Access::by_url(url, None, None).unwrap(), limits).unwrap()
}

#[tokio::test]
async fn the_catalog_leads_to_the_service_and_a_refused_token_is_renewed_once() {
    let fake = fake().await;
    let client = client(&fake);
    assert_eq!(client.url().await.unwrap().as_str(), format!("{}/placement/", fake.url));
    assert_eq!(client.highest_microversion().await.unwrap(), Microversion(38));
    let response = client.read("/known", Microversion(38)).await.unwrap();
    assert_eq!(response, json!({"token": "token-2", "version": "placement 1.38"}));
    client.read("/known", Microversion(38)).await.unwrap();
    assert_eq!(fake.issued.load(Ordering::SeqCst), 2);
    assert_eq!(fake.received.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_read_is_repeated_and_a_write_is_not() {
    let fake = fake().await;
    let client = client(&fake);
    fake.overloaded.store(2, Ordering::SeqCst);
    assert_eq!(client.read("/overloaded", Microversion::MAX).await.unwrap(), json!({}));
    assert_eq!(fake.received.load(Ordering::SeqCst), 3);
    fake.overloaded.store(1, Ordering::SeqCst);
    let sent = client.send(Method::PUT, "/overloaded", Microversion::MAX, Some(&json!({}))).await;
    assert_eq!(sent.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(fake.received.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn failures_name_url_status_and_response() {
    let fake = fake().await;
    let why = client(&fake).read("/nothing", Microversion::MAX).await.unwrap_err();
    let url = &fake.url;
    assert_eq!(
        why.to_string(),
        format!("GET {url}/placement/nothing: 404 Not Found: Nothing there.")
    );
    assert_eq!(client(&fake).find("/nothing", Microversion::MAX).await, Ok(None));
    let nova = direct(&format!("{url}/nova"), Limits::default());
    let why = nova.highest_microversion().await.unwrap_err().to_string();
    assert!(why.contains("/nova/: the response is not from a placement service"), "{why}");
    let why = Access::by_settings(&settings(&fake), Some("http://127.0.0.1:1/x")).unwrap();
    let small = Limits { answer_max: 1000, ..Limits::default() };
    let large = direct(&format!("{url}/placement"), small);
    let sent = large.send(Method::GET, "/large", Microversion::MAX, None).await;
    assert!(
        sent.unwrap_err().to_string().ends_with("/large: its response has more than 1000 bytes")
    );
    let gone = Client::new(why, Limits::default()).unwrap();
    let sent = gone.send(Method::GET, "/y", Microversion::MAX, None).await;
    assert!(sent.unwrap_err().to_string().starts_with("GET http://127.0.0.1:1/x/y: "));
}

#[tokio::test]
async fn so_many_requests_are_sent_at_once_and_no_more() {
    let fake = fake().await;
    let limits = Limits { concurrency: 3, ..Limits::default() };
    let client = direct(&format!("{}/placement", fake.url), limits);
    let all = (0..12).map(|_| client.read("/slow", Microversion::MAX));
    for response in futures_util::future::join_all(all).await {
        response.unwrap();
    }
    let most = fake.most_at_once.load(Ordering::SeqCst);
    assert!((1..=3).contains(&most), "{most}");
}
