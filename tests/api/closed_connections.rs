//! Every client of Berth's before servers that close kept connections without saying so.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use berth::auth::keystone::{ClientTls, Credentials, Keystone, Options, Scope, Secret, User};
use serde_json::{Value, json};
use sqlx::ConnectOptions;

use crate::support::app::Berth;
use crate::support::closing_peer::{AFTER_AN_ANSWER, ClosingPeer, Ending};
use crate::support::postgres;
use crate::support::process::free_port;
use crate::support::served::{PATIENCE, Served, wide};

/// Requests of each kind: more than are lucky.
const COUNT: usize = 40;
/// Time after which a request counts as lost. hyper can lose a request that it queues in the instant in which the
/// connection ends: tokio's channel accepts the request and never drops it, so no error comes. The timeout is
/// then the response, and the caller may try again.
const LOST_AFTER: Duration = Duration::from_secs(20);
/// Maximum number of lost requests of a test.
const LOST_MAX: usize = 1;
const CONSUMER: &str = "00000000-0000-0000-0000-00000000c001";

/// A `berth shadow` that passes requests on to a closing server.
struct Shadow {
    process: Child,
    url: String,
    admin: String,
    client: reqwest::Client,
}

impl Shadow {
    async fn start(upstream: &ClosingPeer, berth: &Served, options: &[&str]) -> Self {
        // Installed already, if this is not the first client.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        let (listen, admin) = (free_port(), free_port());
        let process = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(["shadow", "--upstream", &upstream.url(), "--log", "error"])
            .args(["--berth", &format!("http://{}", berth.address())])
            .args(["--listen", &format!("127.0.0.1:{listen}")])
            .args(["--admin-listen", &format!("127.0.0.1:{admin}")])
            .args(["--upstream-timeout", &LOST_AFTER.as_secs().to_string()])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let [url, admin] = [listen, admin].map(|port| format!("http://127.0.0.1:{port}"));
        let shadow = Self { process, url, admin, client };
        let began = Instant::now();
        while shadow.client.get(format!("{}/healthz", shadow.admin)).send().await.is_err() {
            assert!(began.elapsed() < PATIENCE, "the shadow does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        shadow
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> reqwest::Response {
        let request = self.client.request(method.parse().unwrap(), format!("{}{path}", self.url));
        let request = request
            .header("x-auth-token", "admin")
            .header("openstack-api-version", "placement 1.39");
        let request = if let Some(body) = body { request.json(&body) } else { request };
        request.send().await.unwrap()
    }

    async fn summary(&self) -> Value {
        let answer = self.client.get(format!("{}/summary", self.admin)).send().await.unwrap();
        answer.json().await.unwrap()
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shadow_responds_to_every_request_and_sends_each_write_once() {
    let served = Served::new(&Berth::new().await, wide()).await;
    let mut lost = 0;
    for (nth, ending) in AFTER_AN_ANSWER.into_iter().enumerate() {
        let peer = ClosingPeer::before(served.address(), ending).await;
        let shadow = Shadow::start(&peer, &served, &[]).await;
        for number in 0..COUNT {
            let path = format!("/traits/CUSTOM_{nth}_{number}");
            let written = shadow.send("PUT", &path, None).await;
            assert_eq!(written.status(), 201, "{ending:?}: {}", written.text().await.unwrap());
            let mut read = shadow.send("GET", &path, None).await;
            if read.status() == StatusCode::GATEWAY_TIMEOUT {
                lost += 1;
                read = shadow.send("GET", &path, None).await;
            }
            assert_eq!(read.status(), 204, "{ending:?}: {}", read.text().await.unwrap());
        }
        assert_eq!(peer.counts("PUT"), [1; COUNT], "{ending:?}");
        let requests = &mut shadow.summary().await["requests"];
        // A lost request is counted beside the others.
        requests["read"].as_object_mut().unwrap().remove("timeout");
        let expected = json!({"read": {"answered": COUNT}, "write": {"accepted": COUNT}});
        assert_eq!(requests, &expected, "{ending:?}");
    }
    assert!(lost <= LOST_MAX, "{lost} requests got no response");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_answer_passes_the_shadow_as_a_broken_one() {
    let served = Served::new(&Berth::new().await, wide()).await;
    let peer = ClosingPeer::before(served.address(), Ending::HalfAnswer).await;
    let shadow = Shadow::start(&peer, &served, &[]).await;
    for (method, path, body) in
        [("GET", "/traits", None), ("POST", "/resource_providers", Some(json!({"name": "cn1"})))]
    {
        let answer = shadow.send(method, path, body).await;
        assert_eq!(answer.status(), 200, "{method}");
        answer.bytes().await.unwrap_err();
        // Its head had been passed on.
        assert_eq!(peer.counts(method), [1], "{method}");
    }
    let answer = shadow.send("GET", "/traits", None).await;
    assert!(answer.json::<Value>().await.unwrap()["traits"].is_array());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shadow_repeats_reads_only_and_counts_writes_by_what_is_known_of_them() {
    let served = Served::new(&Berth::new().await, wide()).await;
    let peer = ClosingPeer::before(served.address(), Ending::NoAnswer).await;
    let shadow = Shadow::start(&peer, &served, &["--mirror-writes"]).await;
    assert_eq!(shadow.send("GET", "/traits", None).await.status(), 200);
    assert_eq!(peer.counts("GET"), [2]);
    for (path, status) in [("/traits/CUSTOM_A", 201), ("/traits/NO_CUSTOM", 400)] {
        let answer = shadow.send("PUT", path, None).await;
        assert_eq!(answer.status(), 502);
        let why = answer.text().await.unwrap();
        assert!(why.contains("It may have carried out the request."), "{why}");
        assert_eq!(peer.counts(&format!("PUT {path} ")), [1]);
        assert_eq!(shadow.send("PUT", path, None).await.status(), status);
    }
    let summary = shadow.summary().await;
    let expected = json!({"accepted": 1, "broken": 2, "refused": 1});
    assert_eq!(summary["requests"]["write"], expected);
    let lacking = ["writes_lacking", "writes_perhaps_lacking"].map(|name| &summary[name]);
    assert_eq!(lacking, [&json!(0), &json!(2)]);
    let words = shadow.client.get(format!("{}/summary?format=words", shadow.admin)).send().await;
    let words = words.unwrap().text().await.unwrap();
    assert!(words.contains("Berth may lack 2 writes") && !words.contains("Berth lacks"), "{words}");
}

/// Runs a command to its end, and returns its exit code and all that it prints.
async fn berth(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(printed).unwrap())
}

/// A server with hosts that have 8 VCPU each.
async fn cloud() -> (Berth, Served) {
    let replica = Berth::new().await;
    for nth in 1..=9 {
        let uuid = uuid::Uuid::from_u128(nth);
        let host = json!({"name": format!("cn{nth}"), "uuid": uuid});
        assert_eq!(replica.post("/resource_providers", host).await.status, 200);
        let inventories = json!({"VCPU": {"total": 8}});
        let body = json!({"resource_provider_generation": 0, "inventories": inventories});
        let path = format!("/resource_providers/{uuid}/inventories");
        assert_eq!(replica.put(&path, body).await.status, 200);
    }
    let served = Served::new(&replica, wide()).await;
    (replica, served)
}

const CLAIM: [&str; 10] =
    ["claim", CONSUMER, "--on", "cn1", "--resources", "VCPU:4", "--project", "p", "--user", "u"];

#[tokio::test(flavor = "multi_thread")]
async fn commands_do_their_work() {
    let (_replica, served) = cloud().await;
    let direct = format!("http://{}", served.address());
    for ending in AFTER_AN_ANSWER.into_iter().chain([Ending::HalfAnswer, Ending::NoAnswer]) {
        let peer = ClosingPeer::before(served.address(), ending).await;
        let url = peer.url();
        let (code, printed) = berth(&["compare", &url, &direct, "--sample", "5"]).await;
        assert_eq!(code, Some(0), "{ending:?}: {printed}");
        let database = postgres::database().await.to_url_lossy().to_string();
        let import = ["import", "--from-api", &url, "--database-url", &database];
        let (code, printed) = berth(&import).await;
        assert_eq!(code, Some(0), "{ending:?}: {printed}");
        if !AFTER_AN_ANSWER.contains(&ending) {
            continue;
        }
        let (code, printed) = berth(&[&CLAIM[..], &["--yes", "--url", &url]].concat()).await;
        assert_eq!(code, Some(0), "{ending:?}: {printed}");
        let (code, printed) = berth(&["release", CONSUMER, "--yes", "--url", &url]).await;
        assert_eq!(code, Some(0), "{ending:?}: {printed}");
        assert_eq!(peer.counts("PUT"), [2], "{ending:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_does_not_repeat_a_write_of_which_nothing_is_known() {
    let (replica, served) = cloud().await;
    let peer = ClosingPeer::before(served.address(), Ending::HalfAnswer).await;
    let (code, printed) = berth(&[&CLAIM[..], &["--yes", "--url", &peer.url()]].concat()).await;
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("it may have been carried out"), "{printed}");
    assert_eq!(peer.counts("PUT"), [1]);
    // In fact it was.
    let held: Value =
        serde_json::from_slice(&replica.get(&format!("/allocations/{CONSUMER}")).await.body)
            .unwrap();
    assert_eq!(held["consumer_generation"], 1);
}

/// A Keystone to which every token is valid.
async fn keystone(method: Method, headers: HeaderMap) -> Response {
    let body = json!({"token": {"user": {"id": "u"}, "expires_at": "2099-01-01T00:00:00Z"}});
    if method == Method::POST {
        let token = [("x-subject-token", "own")];
        return (StatusCode::CREATED, token, body.to_string()).into_response();
    }
    assert_eq!(headers["x-auth-token"], "own");
    body.to_string().into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn keystone_validates_every_new_token() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = listener.local_addr().unwrap();
    let router = axum::Router::new().fallback(keystone);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut lost = 0;
    for (ending, retries) in AFTER_AN_ANSWER
        .map(|ending| (ending, 0))
        .into_iter()
        // The request for Berth's own token gets no answer at first.
        .chain([(Ending::HalfAnswer, 1), (Ending::NoAnswer, 1)])
    {
        let peer = ClosingPeer::before(backend, ending).await;
        let user = User::Id("berth".to_owned());
        let password = Secret("secret".to_owned());
        let options = Options {
            auth_url: peer.url(),
            credentials: Credentials::Password { user, password, scope: Scope::System },
            interface: "internal".to_owned(),
            region: None,
            tls: ClientTls::default(),
            timeout: LOST_AFTER,
            retries,
            cache_time: Duration::ZERO,
        };
        let keystone = Arc::new(Keystone::new(options).unwrap());
        for number in 0..COUNT {
            let subject = format!("token {number}");
            let mut token = keystone.validate(&subject, false, None).await;
            if token.as_ref().is_err_and(|why| why.0.starts_with("no response within")) {
                lost += 1;
                token = keystone.validate(&subject, false, None).await;
            }
            assert!(matches!(token, Ok(Some(_))), "{ending:?}: {number}: {token:?}");
        }
    }
    assert!(lost <= LOST_MAX, "{lost} requests got no response");
}
