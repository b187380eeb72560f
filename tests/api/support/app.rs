//! The API in process: requests go through the real router to a real database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, Response};
use berth::auth::policy::Policy;
use berth::fairness::watch::Watch;
use berth::http::app::{App, Options};
use berth::http::edge::listener::Peer;
use berth::http::{self, Api};
use berth::store::{Pruning, Store, StoreOptions, Timeouts};
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

use super::described::assert_described;
use super::postgres;

/// Settings of a replica that prunes nothing while a test lasts.
pub const NO_PRUNING: Pruning =
    Pruning { period: Duration::from_hours(1), piece: 5000, pause: Duration::ZERO };

/// One replica with the headers of requests to it.
#[derive(Clone)]
pub struct Berth {
    app: App,
    pub database: PgConnectOptions,
    api: Api,
    version: String,
    headers: Vec<(String, String)>,
}

/// A response.
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// The clock of searches and plans runs slower by this factor, and timeouts of the store are longer, so that tests
/// have the same result on a busy machine.
const SLOWER: u32 = 20;

/// Returns the clock for deadlines that a test does not count itself.
pub fn slow() -> Watch {
    let began = Instant::now();
    Watch::of(move || began + began.elapsed() / SLOWER)
}

/// Returns options of a store with timeouts that a busy machine does not reach.
pub fn store_at(database: &PgConnectOptions) -> StoreOptions {
    let short = Timeouts::default();
    let timeouts = Timeouts {
        connect: short.connect * SLOWER,
        acquire: short.acquire * SLOWER,
        read: short.read * SLOWER,
        refresh: short.refresh * SLOWER,
        write: short.write * SLOWER,
    };
    StoreOptions { timeouts, ..StoreOptions::at(database.clone(), 5) }
}

impl Berth {
    /// A replica over a database of its own.
    pub async fn new() -> Self {
        Self::over(&postgres::database().await).await
    }

    /// A further replica over the same database.
    pub async fn replica(&self) -> Self {
        Self::over(&self.database).await
    }

    pub async fn over(database: &PgConnectOptions) -> Self {
        Self::with(database, Options::default()).await
    }

    pub async fn with(database: &PgConnectOptions, options: Options) -> Self {
        Self::opened(store_at(database), options).await
    }

    /// One that cuts the change log off at this pace.
    pub async fn pruning(database: &PgConnectOptions, pruning: Pruning) -> Self {
        let opening = StoreOptions { pruning, ..store_at(database) };
        Self::opened(opening, Options::default()).await
    }

    pub async fn opened(opening: StoreOptions, options: Options) -> Self {
        let database = opening.hosts[0].clone();
        let store = Store::open(opening).await.unwrap();
        let app = App::new(store, options).with_watch(slow());
        Self {
            app,
            database,
            api: Api::Placement,
            version: "1.39".to_owned(),
            headers: vec![("x-auth-token".to_owned(), "admin".to_owned())],
        }
    }

    /// The same replica with deadlines read from another watch.
    pub fn with_watch(self, watch: Watch) -> Self {
        Self { app: self.app.with_watch(watch), ..self }
    }

    /// The same replica with another policy.
    pub fn with_policy(&self, policy: Policy) -> Self {
        Self { app: self.app().with_policy(Arc::new(policy)), ..self.clone() }
    }

    /// The planner of the same replica.
    pub fn planner(&self) -> Self {
        Self { api: Api::Planner, ..self.clone() }
    }

    /// Returns the same replica at another microversion, such as `1.20`.
    pub fn at(&self, version: &str) -> Self {
        Self { version: version.to_owned(), ..self.clone() }
    }

    /// Returns the same replica with a further header, or another value of one.
    pub fn header(&self, name: &str, value: &str) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(other, _)| other != name);
        headers.push((name.to_owned(), value.to_owned()));
        Self { headers, ..self.clone() }
    }

    /// Returns the same replica without a header.
    pub fn without(&self, name: &str) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(other, _)| other != name);
        Self { headers, ..self.clone() }
    }

    pub fn app(&self) -> App {
        self.app.clone()
    }

    /// Answers a request as it is.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let connection = http::Connection { api: self.api, peer: Peer::Unix, secure: false };
        http::respond(connection, self.app(), request).await
    }

    pub async fn get(&self, path: &str) -> ApiResponse {
        self.ask(Method::GET, path, None).await
    }

    pub async fn delete(&self, path: &str) -> ApiResponse {
        self.ask(Method::DELETE, path, None).await
    }

    pub async fn put(&self, path: &str, body: Value) -> ApiResponse {
        self.ask(Method::PUT, path, Some(body.to_string().into_bytes())).await
    }

    pub async fn post(&self, path: &str, body: Value) -> ApiResponse {
        self.ask(Method::POST, path, Some(body.to_string().into_bytes())).await
    }

    /// Asks with exactly these bytes as the body, called JSON.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> ApiResponse {
        let mut request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header("host", "localhost")
            .header("openstack-api-version", format!("placement {}", self.version));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(body.map_or_else(Body::empty, Body::from)).unwrap();
        let answer = self.answer(request).await;
        let (head, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let response = ApiResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.to_vec(),
        };
        assert_described(self.api, method.as_str(), path, &response);
        response
    }

    /// A session of one's own with the database.
    pub async fn session(&self) -> PgConnection {
        PgConnection::connect_with(&self.database).await.unwrap()
    }

    /// Makes new sessions look for deadlocks before their lock timeout, so that every deadlock is counted. Only a
    /// superuser of PostgreSQL may set this.
    pub async fn watch_deadlocks(database: &PgConnectOptions) {
        let mut session = PgConnection::connect_with(database).await.unwrap();
        let name = database.get_database().unwrap();
        let sooner = format!("alter database {name} set deadlock_timeout = '20ms'");
        if let Err(error) = sqlx::raw_sql(sqlx::AssertSqlSafe(sooner)).execute(&mut session).await {
            assert!(std::env::var("TEST_POSTGRES_URL").is_ok(), "{error}");
        }
    }

    /// Returns the number of deadlocks in this database.
    pub async fn deadlocks(&self) -> i64 {
        sqlx::query_scalar(
            "select deadlocks from pg_stat_database where datname = current_database()",
        )
        .fetch_one(&mut self.session().await)
        .await
        .unwrap()
    }

    /// Fails unless recorded usage is the sum of the allocations and no consumer is empty.
    pub async fn assert_consistent(&self) {
        let faults = berth::store::consistency::faults(&mut self.session().await).await.unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

impl ApiResponse {
    /// Fails unless the status is this one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The first error's detail.
    #[track_caller]
    pub fn detail(&self) -> String {
        self.json()["errors"][0]["detail"].as_str().unwrap_or_default().to_owned()
    }

    /// The first error's code.
    #[track_caller]
    pub fn code(&self) -> String {
        self.json()["errors"][0]["code"].as_str().unwrap_or_default().to_owned()
    }
}
