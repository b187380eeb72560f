//! A server of both APIs over its own database, and clients for both.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use berth::http::Api;
use berth::http::app::{App, Options, PlannerSettings};
use berth::http::edge::listener::{Endpoint, Listener};
use berth::http::edge::server::ServerListeners;
use berth::store::{Store, StoreOptions};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use uuid::Uuid;

use crate::support::app::{slow, store_at};
use crate::support::postgres;
use crate::support::served::{PATIENCE, Served, wide};

/// A server of both APIs.
pub struct Site {
    pub database: PgConnectOptions,
    client: reqwest::Client,
    /// The addresses of the Placement API and the planner.
    addresses: [String; 2],
    server: Server,
}

/// The program that serves.
enum Server {
    /// This process, as long as the site lives.
    Here { app: Box<App>, _served: Served },
    /// Another process, which may be killed and started again.
    Process,
}

/// A response.
#[derive(Debug)]
pub struct SiteResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// A client of one of the APIs.
#[derive(Clone)]
pub struct Asker {
    client: reqwest::Client,
    base: String,
    headers: Vec<(String, String)>,
    /// Whether the server may be gone at any moment, and comes again.
    may_die: bool,
}

/// A host to be: its name, how much of `VCPU`, `MEMORY_MB` and `DISK_GB` it has, and its traits.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    pub name: &'a str,
    pub size: [i64; 3],
    pub traits: &'a [&'a str],
}

/// Timeout for a server and its database to return after they were killed.
const RETURN_MAX: Duration = Duration::from_mins(2);
/// Pause before a request to a missing server is repeated.
const RETURN_PAUSE: Duration = Duration::from_millis(50);

impl Site {
    /// Over a fresh database.
    pub async fn new() -> Self {
        Self::with(Options::default()).await
    }

    /// The same with other options.
    pub async fn with(options: Options) -> Self {
        Self::over(&postgres::database().await, options).await
    }

    /// Starts another server on an existing database.
    pub async fn over(database: &PgConnectOptions, options: Options) -> Self {
        Self::opened(store_at(database), options).await
    }

    /// Over a fresh database, where strangers in exclusive units are only reported.
    pub async fn reporting() -> Self {
        let database = postgres::database().await;
        let opening = StoreOptions { report_only: true, ..store_at(&database) };
        Self::opened(opening, Options::default()).await
    }

    async fn opened(opening: StoreOptions, mut options: Options) -> Self {
        if options.planner.turn_wait == PlannerSettings::default().turn_wait {
            // On a busy machine, a plan waits longer for its turn.
            options.planner.turn_wait = PATIENCE;
        }
        let database = opening.hosts[0].clone();
        let store = Store::open(opening).await.unwrap();
        Self::serving(App::new(store, options).with_watch(slow()), &database).await
    }

    /// Serving as this application does.
    pub async fn serving(app: App, database: &PgConnectOptions) -> Self {
        let local: Endpoint = "127.0.0.1:0".parse().unwrap();
        let mut listeners = Vec::new();
        for api in [Api::Placement, Api::Planner] {
            listeners.push((api, Listener::bind(&local).await.unwrap()));
        }
        let served = Served::with(
            app.clone(),
            ServerListeners { listeners, tls: None, admin: Vec::new(), admin_tls: false },
            wide(),
        );
        let addresses = [0, 1].map(|nth: usize| served.endpoints[nth].to_string());
        Self::at(addresses, database, Server::Here { app: Box::new(app), _served: served })
    }

    /// Makes a site of another process at these addresses, which may be killed and started again.
    pub fn of_process(addresses: [String; 2], database: &PgConnectOptions) -> Self {
        Self::at(addresses, database, Server::Process)
    }

    fn at(addresses: [String; 2], database: &PgConnectOptions, server: Server) -> Self {
        // Installed already, if this is not the first site.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().timeout(3 * PATIENCE).build().unwrap();
        Self { database: database.clone(), client, addresses, server }
    }

    /// The application, which has to be one of this process.
    pub fn app(&self) -> &App {
        match &self.server {
            Server::Here { app, .. } => app,
            Server::Process => panic!("the server is another process"),
        }
    }

    fn asker(&self, nth: usize) -> Asker {
        let base = format!("http://{}", self.addresses[nth]);
        let may_die = matches!(self.server, Server::Process);
        Asker { client: self.client.clone(), base, headers: Vec::new(), may_die }
    }

    /// Returns the Placement API's client for an administrator, at its newest version.
    pub fn placement(&self) -> Asker {
        let version = ("openstack-api-version", "placement 1.39");
        self.asker(0).header(version.0, version.1).header("x-auth-token", "admin")
    }

    /// Returns a client of the planner without an identity.
    pub fn stranger(&self) -> Asker {
        self.asker(1)
    }

    /// Returns the planner's client for an administrator of the project `admin`.
    pub fn admin(&self) -> Asker {
        self.stranger().header("x-auth-token", "admin")
    }

    /// Returns the planner's client for an administrator of a project.
    pub fn admin_of(&self, project: &str) -> Asker {
        self.stranger().header("x-auth-token", &format!("admin:{project}"))
    }

    /// Returns the planner's client for an ordinary user of a project.
    pub fn tenant(&self, project: &str) -> Asker {
        self.stranger().header("x-auth-token", &format!("user:{project}"))
    }

    /// Adds hosts by the Placement API, and gives their ids.
    pub async fn hosts(&self, hosts: &[Host<'_>]) -> Vec<Uuid> {
        let placement = self.placement();
        let mut ids = Vec::new();
        for host in hosts {
            let id = Uuid::new_v4();
            let body = json!({"name": host.name, "uuid": id});
            placement.post("/resource_providers", body).await.expect(200);
            let [vcpu, memory_mb, disk_gb] = host.size.map(|total| json!({"total": total}));
            let inventories = json!({"VCPU": vcpu, "MEMORY_MB": memory_mb, "DISK_GB": disk_gb});
            let path = format!("/resource_providers/{id}/inventories");
            let body = json!({"resource_provider_generation": 0, "inventories": inventories});
            placement.put(&path, body).await.expect(200);
            for name in host.traits {
                let custom = name.starts_with("CUSTOM_");
                if custom {
                    let answer = placement.put(&format!("/traits/{name}"), json!({})).await;
                    assert!([201, 204].contains(&answer.status), "{}", answer.text());
                }
            }
            let path = format!("/resource_providers/{id}/traits");
            let body = json!({"resource_provider_generation": 1, "traits": host.traits});
            placement.put(&path, body).await.expect(200);
            ids.push(id);
        }
        ids
    }

    /// Creates racks `CUSTOM_RACK_R01`, ... with equal hosts `r01h01`, ..., each with these amounts of
    /// `VCPU`, `MEMORY_MB` and `DISK_GB`.
    pub async fn racks(&self, racks: usize, hosts: usize, size: [i64; 3]) -> Vec<Uuid> {
        let mut ids = Vec::new();
        for rack in 1..=racks {
            let traits = [format!("CUSTOM_RACK_R{rack:02}")];
            let traits = [traits[0].as_str()];
            for nth in 1..=hosts {
                let name = format!("r{rack:02}h{nth:02}");
                ids.extend(self.hosts(&[Host { name: &name, size, traits: &traits }]).await);
            }
        }
        ids
    }

    /// A session of one's own with the database.
    pub async fn session(&self) -> PgConnection {
        PgConnection::connect_with(&self.database).await.unwrap()
    }

    /// Runs a statement beside the server.
    pub async fn execute(&self, statement: &str) {
        let statement = sqlx::AssertSqlSafe(statement.to_owned());
        sqlx::raw_sql(statement).execute(&mut self.session().await).await.unwrap();
    }

    /// Runs a command of `berth` on the database, and gives what it prints, or what it says is wrong.
    pub async fn command(&self, name: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.arg(name).args(arguments).args(["--log", "warn"]);
        command.args(["--database-url", self.database.to_url_lossy().as_str()]).env_clear();
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Runs the walk through the planner of the samples.
    pub async fn walk_through(&self) -> Output {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/planner/walk-through");
        let mut walk = Command::new(script);
        for (name, address) in ["BERTH_PLACEMENT", "BERTH_PLANNER"].iter().zip(&self.addresses) {
            walk.env(name, format!("http://{address}"));
        }
        walk.env("no_proxy", "*");
        tokio::task::spawn_blocking(move || walk.output()).await.unwrap().unwrap()
    }

    /// Fails unless recorded usage is the sum of the allocations and no consumer is empty.
    pub async fn assert_consistent(&self) {
        let faults = berth::store::consistency::faults(&mut self.session().await).await.unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

impl Asker {
    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub async fn get(&self, path: &str) -> SiteResponse {
        self.ask("GET", path, None).await
    }

    pub async fn delete(&self, path: &str) -> SiteResponse {
        self.ask("DELETE", path, None).await
    }

    pub async fn put(&self, path: &str, body: Value) -> SiteResponse {
        self.ask("PUT", path, Some(body.to_string().into_bytes())).await
    }

    pub async fn post(&self, path: &str, body: Value) -> SiteResponse {
        self.ask("POST", path, Some(body.to_string().into_bytes())).await
    }

    /// Asks with exactly these bytes as the body.
    pub async fn ask(&self, method: &str, path: &str, body: Option<Vec<u8>>) -> SiteResponse {
        let began = Instant::now();
        loop {
            let answer = self.try_ask(method, path, body.clone()).await;
            if !self.may_die {
                return answer.unwrap();
            }
            // Reads are repeated until the server and its database are back. For a change without a response, it is
            // unknown whether it was made.
            let missed = answer.as_ref().map_or(true, |answer| answer.status == 503);
            if method != "GET" || !missed || began.elapsed() > RETURN_MAX {
                let none = |error: reqwest::Error| SiteResponse {
                    status: 503,
                    headers: HeaderMap::new(),
                    body: format!("no answer: {error}").into_bytes(),
                };
                return answer.unwrap_or_else(none);
            }
            tokio::time::sleep(RETURN_PAUSE).await;
        }
    }

    async fn try_ask(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> reqwest::Result<SiteResponse> {
        let method = method.parse().unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let answer = request.body(body.unwrap_or_default()).send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Ok(SiteResponse { status, headers, body: answer.bytes().await?.to_vec() })
    }
}

impl SiteResponse {
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

    /// A header as text; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the text of an error, after checking that it is complete and has this status.
    #[track_caller]
    pub fn explanation(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/json");
        let body = self.json();
        assert_eq!(body["code"], status);
        assert!(body["error"]["message"].is_string(), "{body}");
        assert!(body["error"]["type"].is_string(), "{body}");
        assert_eq!(body["error"].get("traceback"), Some(&Value::Null), "{body}");
        assert!(body["title"].is_string(), "{body}");
        body["explanation"].as_str().unwrap().to_owned()
    }
}
