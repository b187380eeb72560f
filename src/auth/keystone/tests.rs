//! Tests with a Keystone that does not respond about unknown tokens, and with one that is slower than the
//! timeout of requests.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::{Semaphore, mpsc};

use super::{
    ClientTls, Credentials, Keystone, Options, Scope, Secret, UNKNOWN_LATE, UNKNOWN_MAX,
    UNKNOWN_WAITING, User,
};

const STRANGER: &str = "192.0.2.66";
const CALLER: &str = "192.0.2.1";

/// A Keystone that accepts tokens with the prefix `good`. Responses about others wait for a permit of
/// `strangers`.
#[derive(Clone)]
struct Fake {
    queries: mpsc::UnboundedSender<String>,
    strangers: Arc<Semaphore>,
}

async fn respond(State(fake): State<Fake>, method: Method, headers: HeaderMap) -> Response {
    let expires = (OffsetDateTime::now_utc() + time::Duration::hours(1)).format(&Rfc3339).unwrap();
    let body = json!({"token": {"user": {"id": "u"}, "expires_at": expires}}).to_string();
    if method == Method::POST {
        return (StatusCode::CREATED, [("x-subject-token", "own")], body).into_response();
    }
    let token = headers["x-subject-token"].to_str().unwrap().to_owned();
    fake.queries.send(token.clone()).unwrap();
    if token.starts_with("good") {
        return body.into_response();
    }
    fake.strangers.acquire().await.unwrap().forget();
    StatusCode::NOT_FOUND.into_response()
}

struct Scene {
    keystone: Arc<Keystone>,
    queries: mpsc::UnboundedReceiver<String>,
    strangers: Arc<Semaphore>,
}

impl Scene {
    /// Starts the server, and a client with this cache time.
    async fn new(cache_time: Duration) -> Self {
        Self::waiting(Duration::from_mins(10), cache_time).await
    }

    /// Starts the server, and a client with these times.
    async fn waiting(timeout: Duration, cache_time: Duration) -> Self {
        let strangers = Arc::new(Semaphore::new(0));
        let (sender, queries) = mpsc::unbounded_channel();
        let fake = Fake { queries: sender, strangers: Arc::clone(&strangers) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let auth_url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(respond).with_state(fake);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let options = Options {
            auth_url,
            credentials: Credentials::Password {
                user: User::Id("berth".to_owned()),
                password: Secret("secret".to_owned()),
                scope: Scope::System,
            },
            interface: "internal".to_owned(),
            region: None,
            tls: ClientTls::default(),
            timeout,
            retries: 0,
            cache_time,
        };
        Self { keystone: Arc::new(Keystone::new(options).unwrap()), queries, strangers }
    }

    async fn is_valid(&self, token: &str, from: &str) -> Result<bool, String> {
        let from = Some(from.parse::<IpAddr>().unwrap());
        let response = self.keystone.validate(token, false, from).await;
        response.map(|token| token.is_some()).map_err(|why| why.to_string())
    }

    /// Fills all places and the whole queue of one address with unknown tokens.
    async fn crowd(&mut self) {
        for number in 0..UNKNOWN_MAX + UNKNOWN_WAITING.per_requester {
            let keystone = Arc::clone(&self.keystone);
            let from = STRANGER.parse().unwrap();
            tokio::spawn(async move {
                drop(keystone.validate(&format!("made up {number}"), false, Some(from)).await);
            });
        }
        for _ in 0..UNKNOWN_MAX {
            self.queries.recv().await.unwrap();
        }
        while self.keystone.unknown.prompt.waiting() < UNKNOWN_WAITING.per_requester {
            tokio::task::yield_now().await;
        }
    }
}

/// Such requests used to wait behind unknown tokens until their timeout, and then got 503.
#[tokio::test]
async fn tokens_that_were_valid_are_validated_while_strangers_wait() {
    // Nothing is cached, so that each request queries Keystone.
    let mut scene = Scene::new(Duration::ZERO).await;
    assert_eq!(scene.is_valid("good", CALLER).await, Ok(true));
    assert_eq!(scene.queries.recv().await.unwrap(), "good");
    scene.crowd().await;
    for _ in 0..3 {
        assert_eq!(scene.is_valid("good", CALLER).await, Ok(true));
        assert_eq!(scene.queries.recv().await.unwrap(), "good");
    }
    // The same holds for the address of the others, as behind one proxy.
    assert_eq!(scene.is_valid("good", STRANGER).await, Ok(true));
}

#[tokio::test]
async fn cached_tokens_need_no_permit() {
    let mut scene = Scene::new(Duration::from_mins(5)).await;
    assert_eq!(scene.is_valid("good", CALLER).await, Ok(true));
    scene.strangers.add_permits(1);
    assert_eq!(scene.is_valid("bad", CALLER).await, Ok(false));
    scene.queries.recv().await.unwrap();
    scene.queries.recv().await.unwrap();
    scene.crowd().await;
    assert_eq!(scene.is_valid("good", CALLER).await, Ok(true));
    assert_eq!(scene.is_valid("bad", CALLER).await, Ok(false));
    assert!(scene.queries.try_recv().is_err());
}

#[tokio::test]
async fn a_new_token_from_another_address_is_next() {
    let mut scene = Scene::new(Duration::from_mins(5)).await;
    scene.crowd().await;
    // The queue of this address is full.
    let why = scene.is_valid("good from there", STRANGER).await.unwrap_err();
    assert!(why.contains("too many requests wait"), "{why}");
    let newcomer = {
        let keystone = Arc::clone(&scene.keystone);
        let from = CALLER.parse().unwrap();
        tokio::spawn(async move { keystone.validate("good and new", false, Some(from)).await })
    };
    while scene.keystone.unknown.prompt.waiting() <= UNKNOWN_WAITING.per_requester {
        tokio::task::yield_now().await;
    }
    // Two places become free, of which at most one goes to another request of the same stranger.
    scene.strangers.add_permits(2);
    assert!(newcomer.await.unwrap().unwrap().is_some());
}

/// Timeout of requests to the Keystone that is slower.
const SHORT: Duration = Duration::from_millis(50);

impl Scene {
    /// Repeats the request until there is a response, as a client does after a 503.
    async fn until_known(&self, token: &str) -> bool {
        loop {
            if let Ok(is_valid) = self.is_valid(token, CALLER).await {
                return is_valid;
            }
        }
    }

    /// Waits until no query is in flight.
    async fn until_quiet(&self) {
        while self.keystone.token_queries.count() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Each request used to start a new query and to drop it at its timeout, for ever.
#[tokio::test]
async fn an_answer_that_comes_too_late_is_there_for_the_next_request() {
    let mut scene = Scene::waiting(SHORT, Duration::from_mins(5)).await;
    // The first may be in time or not: this machine may be slow.
    assert!(scene.until_known("good").await);
    scene.queries.recv().await.unwrap();
    for _ in 0..3 {
        let why = scene.is_valid("late", CALLER).await.unwrap_err();
        assert!(why.contains("no response within"), "{why}");
    }
    let all = (0..20).map(|_| scene.is_valid("late", STRANGER));
    assert!(futures_util::future::join_all(all).await.iter().all(Result::is_err));
    // It was sent once, and is still in flight.
    assert_eq!(scene.queries.recv().await.unwrap(), "late");
    assert_eq!(scene.keystone.token_queries.count(), 1);
    scene.strangers.add_permits(1);
    scene.until_quiet().await;
    // The response is cached, although no request waited for it.
    assert_eq!(scene.is_valid("late", CALLER).await, Ok(false));
    assert!(scene.queries.try_recv().is_err());
}

#[tokio::test]
async fn abandoned_token_requests_are_bounded() {
    let scene = Scene::waiting(SHORT, Duration::from_mins(5)).await;
    assert!(scene.until_known("good").await);
    for number in 0..UNKNOWN_LATE {
        drop(scene.is_valid(&format!("late {number}"), STRANGER).await);
    }
    while scene.keystone.unknown.prompt.held() > 0 {
        tokio::task::yield_now().await;
    }
    // One address has at most half of the places; its other queries were dropped.
    assert_eq!(scene.keystone.unknown.late.held(), UNKNOWN_LATE / 2);
    assert_eq!(scene.keystone.token_queries.count(), UNKNOWN_LATE / 2);
    assert!(scene.is_valid("late too", CALLER).await.is_err());
    while scene.keystone.unknown.prompt.held() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.keystone.unknown.late.held(), UNKNOWN_LATE / 2 + 1);
    scene.strangers.add_permits(UNKNOWN_LATE * 2);
    scene.until_quiet().await;
    assert_eq!(scene.keystone.unknown.late.held(), 0);
    assert_eq!(scene.is_valid("late too", CALLER).await, Ok(false));
}

/// No response may be cached then, so no query continues.
#[tokio::test]
async fn without_a_cache_no_request_is_shared() {
    let scene = Scene::waiting(SHORT, Duration::ZERO).await;
    assert!(scene.is_valid("late", CALLER).await.is_err());
    scene.until_quiet().await;
    assert_eq!(scene.keystone.unknown.late.held(), 0);
}

#[tokio::test]
async fn an_abandoned_query_takes_no_turn() {
    let mut scene = Scene::new(Duration::from_mins(5)).await;
    scene.crowd().await;
    let waiting = scene.keystone.unknown.prompt.waiting();
    {
        let from = CALLER.parse().unwrap();
        let left = scene.keystone.validate("left", false, Some(from));
        assert!(tokio::time::timeout(SHORT, left).await.is_err());
    }
    while scene.keystone.unknown.prompt.waiting() > waiting {
        tokio::task::yield_now().await;
    }
    scene.strangers.add_permits(UNKNOWN_MAX + UNKNOWN_WAITING.per_requester);
    scene.until_quiet().await;
    while let Ok(token) = scene.queries.try_recv() {
        assert_ne!(token, "left");
    }
}
