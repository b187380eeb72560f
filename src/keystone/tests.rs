//! Strangers and known callers before a Keystone that does not answer about strangers.

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
    Connection, Credentials, Keystone, Options, Scope, Secret, UNKNOWN_MAX, UNKNOWN_WAITING, User,
};

const STRANGER: &str = "192.0.2.66";
const CALLER: &str = "192.0.2.1";

/// A Keystone that knows tokens that begin with `good`. Answers about others wait until they are
/// let out.
#[derive(Clone)]
struct Fake {
    asked: mpsc::UnboundedSender<String>,
    strangers: Arc<Semaphore>,
}

async fn answer(State(fake): State<Fake>, method: Method, headers: HeaderMap) -> Response {
    let expires = (OffsetDateTime::now_utc() + time::Duration::hours(1)).format(&Rfc3339).unwrap();
    let body = json!({"token": {"user": {"id": "u"}, "expires_at": expires}}).to_string();
    if method == Method::POST {
        return (StatusCode::CREATED, [("x-subject-token", "own")], body).into_response();
    }
    let token = headers["x-subject-token"].to_str().unwrap().to_owned();
    fake.asked.send(token.clone()).unwrap();
    if token.starts_with("good") {
        return body.into_response();
    }
    fake.strangers.acquire().await.unwrap().forget();
    StatusCode::NOT_FOUND.into_response()
}

struct Scene {
    keystone: Arc<Keystone>,
    asked: mpsc::UnboundedReceiver<String>,
    strangers: Arc<Semaphore>,
}

impl Scene {
    /// With so long a time in which answers are kept.
    async fn new(cache_time: Duration) -> Self {
        let strangers = Arc::new(Semaphore::new(0));
        let (told, asked) = mpsc::unbounded_channel();
        let fake = Fake { asked: told, strangers: Arc::clone(&strangers) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let auth_url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(answer).with_state(fake);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let options = Options {
            auth_url,
            credentials: Credentials::Password {
                user: User::Id("berth".to_owned()),
                password: Secret("secret".to_owned()),
                scope: Scope::System,
            },
            endpoint: None,
            interface: "internal".to_owned(),
            region: None,
            connection: Connection::default(),
            timeout: Duration::from_mins(10),
            retries: 0,
            cache_time,
        };
        Self { keystone: Arc::new(Keystone::new(options).unwrap()), asked, strangers }
    }

    async fn is_valid(&self, token: &str, from: &str) -> Result<bool, String> {
        let from = Some(from.parse::<IpAddr>().unwrap());
        let answer = self.keystone.validate(token, false, from).await;
        answer.map(|token| token.is_some()).map_err(|why| why.to_string())
    }

    /// Has strangers take all places, and all the room to wait that one address has.
    async fn crowd(&mut self) {
        for number in 0..UNKNOWN_MAX + UNKNOWN_WAITING.of_one {
            let keystone = Arc::clone(&self.keystone);
            let from = STRANGER.parse().unwrap();
            tokio::spawn(async move {
                drop(keystone.validate(&format!("made up {number}"), false, Some(from)).await);
            });
        }
        for _ in 0..UNKNOWN_MAX {
            self.asked.recv().await.unwrap();
        }
        while self.keystone.unknown.waiting() < UNKNOWN_WAITING.of_one {
            tokio::task::yield_now().await;
        }
    }
}

/// They waited behind strangers for up to the time an answer may take, and then got 503.
#[tokio::test]
async fn tokens_that_were_valid_are_asked_about_while_strangers_wait() {
    // Nothing is kept, so that each request asks.
    let mut scene = Scene::new(Duration::ZERO).await;
    assert_eq!(scene.is_valid("good", CALLER).await, Ok(true));
    assert_eq!(scene.asked.recv().await.unwrap(), "good");
    scene.crowd().await;
    for _ in 0..3 {
        assert_eq!(scene.is_valid("good", CALLER).await, Ok(true));
        assert_eq!(scene.asked.recv().await.unwrap(), "good");
    }
    // Even if it comes from where they come from, as behind one proxy.
    assert_eq!(scene.is_valid("good", STRANGER).await, Ok(true));
}

#[tokio::test]
async fn what_is_remembered_needs_no_place() {
    let mut scene = Scene::new(Duration::from_mins(5)).await;
    assert_eq!(scene.is_valid("good", CALLER).await, Ok(true));
    scene.strangers.add_permits(1);
    assert_eq!(scene.is_valid("bad", CALLER).await, Ok(false));
    scene.asked.recv().await.unwrap();
    scene.asked.recv().await.unwrap();
    scene.crowd().await;
    assert_eq!(scene.is_valid("good", CALLER).await, Ok(true));
    assert_eq!(scene.is_valid("bad", CALLER).await, Ok(false));
    assert!(scene.asked.try_recv().is_err());
}

#[tokio::test]
async fn a_new_token_from_another_address_is_next() {
    let mut scene = Scene::new(Duration::from_mins(5)).await;
    scene.crowd().await;
    // From where so many wait already, no more do.
    let why = scene.is_valid("good from there", STRANGER).await.unwrap_err();
    assert!(why.contains("too many requests wait"), "{why}");
    let newcomer = {
        let keystone = Arc::clone(&scene.keystone);
        let from = CALLER.parse().unwrap();
        tokio::spawn(async move { keystone.validate("good and new", false, Some(from)).await })
    };
    while scene.keystone.unknown.waiting() <= UNKNOWN_WAITING.of_one {
        tokio::task::yield_now().await;
    }
    // Two places become free, of which one is for another stranger at the most.
    scene.strangers.add_permits(2);
    assert!(newcomer.await.unwrap().unwrap().is_some());
}
