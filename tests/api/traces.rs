//! Traces: the spans at a collector, the context that Keystone receives, and the ids in log lines.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as Any, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::held::hold;
use crate::support::process::{Server, free_port, signal};
use crate::support::served::PATIENCE;

/// The trace headers of a client.
struct Client {
    trace: String,
    span: String,
}

impl Client {
    fn new() -> Self {
        let span = Uuid::new_v4().simple().to_string();
        Self { trace: Uuid::new_v4().simple().to_string(), span: span[..16].to_owned() }
    }

    fn parent(&self, sampled: bool) -> String {
        format!("00-{}-{}-0{}", self.trace, self.span, u8::from(sampled))
    }
}

/// A collector of OTLP over HTTP.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

impl Collector {
    /// Starts one. Returns its URL as well.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let router = axum::Router::new()
            .route("/v1/traces", axum::routing::post(Self::take))
            .with_state(collector.clone());
        let address = listen(router).await;
        (collector, format!("http://{address}"))
    }

    async fn take(State(collector): State<Self>, request: Request) -> Response {
        assert_eq!(request.headers()["content-type"], "application/x-protobuf");
        let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
        let message = ExportTraceServiceRequest::decode(body).unwrap();
        collector.0.lock().unwrap().push(message);
        ExportTraceServiceResponse::default().encode_to_vec().into_response()
    }

    fn spans(&self) -> Vec<Span> {
        let messages = self.0.lock().unwrap();
        let resources = messages.iter().flat_map(|message| &message.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans).cloned().collect()
    }

    /// Returns the spans of a trace, once the span of the request has arrived: it ends last.
    async fn trace(&self, client: &Client) -> Trace {
        let began = Instant::now();
        loop {
            let spans: Vec<Span> =
                self.spans().into_iter().filter(|it| hex(&it.trace_id) == client.trace).collect();
            if spans.iter().any(|it| hex(&it.parent_span_id) == client.span) {
                return Trace(spans);
            }
            assert!(began.elapsed() < PATIENCE, "no span of the request came");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn listen(router: axum::Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// The spans of one trace.
struct Trace(Vec<Span>);

impl Trace {
    fn root(&self) -> &Span {
        let mut roots = self.0.iter().filter(|it| it.kind == SpanKind::Server as i32);
        let root = roots.next().unwrap();
        assert!(roots.next().is_none());
        root
    }

    /// The names of the spans below one, each with what is below it, in the order of their beginnings.
    fn below(&self, parent: &Span) -> String {
        let mut below: Vec<&Span> =
            self.0.iter().filter(|it| it.parent_span_id == parent.span_id).collect();
        below.sort_by_key(|it| it.start_time_unix_nano);
        let shown = below.iter().map(|it| {
            assert!(it.start_time_unix_nano >= parent.start_time_unix_nano, "{}", it.name);
            assert!(it.end_time_unix_nano >= it.start_time_unix_nano, "{}", it.name);
            match self.below(it) {
                inner if inner.is_empty() => it.name.clone(),
                inner => format!("{}({inner})", it.name),
            }
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    fn tree(&self) -> String {
        format!("{}: {}", self.root().name, self.below(self.root()))
    }

    fn named(&self, name: &str) -> &Span {
        self.0.iter().find(|it| it.name == name).unwrap()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Attributes as JSON.
fn attributes(of: &[KeyValue]) -> HashMap<String, Value> {
    let value = |value: &Option<Any>| match value.as_ref().and_then(|it| it.value.as_ref()) {
        Some(AnyValue::StringValue(text)) => json!(text),
        Some(AnyValue::IntValue(number)) => json!(number),
        Some(AnyValue::BoolValue(is)) => json!(is),
        other => panic!("{other:?}"),
    };
    of.iter().map(|it| (it.key.clone(), value(&it.value))).collect()
}

/// Sends a request of a client. Returns the answer's status, id and body.
async fn ask(
    url: String,
    client: &Client,
    method: Method,
    body: Option<Value>,
) -> (u16, String, Value) {
    let mut request = reqwest::Client::new()
        .request(method, url)
        .timeout(PATIENCE)
        .header("x-auth-token", "admin")
        .header("openstack-api-version", "placement 1.39")
        .header("traceparent", client.parent(true))
        .header("tracestate", "rojo=00f067aa0ba902b7");
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = request.send().await.unwrap();
    let id = answer.headers()["x-openstack-request-id"].to_str().unwrap().to_owned();
    let status = answer.status().as_u16();
    let body = answer.text().await.unwrap();
    (status, id, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// A provider with an inventory.
async fn provider(server: &Server) -> Uuid {
    let uuid = Uuid::new_v4();
    let body = json!({"name": uuid.to_string(), "uuid": uuid});
    assert_eq!(server.ask("POST", "/resource_providers", Some(&body)).await.unwrap().0, 200);
    let body = json!({
        "resource_provider_generation": 0,
        "inventories": {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 8192}, "DISK_GB": {"total": 80}},
    });
    let path = format!("/resource_providers/{uuid}/inventories");
    assert_eq!(server.ask("PUT", &path, Some(&body)).await.unwrap().0, 200);
    uuid
}

fn claim(provider: Uuid) -> Value {
    json!({
        "allocations": {provider.to_string(): {"resources": {"VCPU": 1}}},
        "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE",
    })
}

fn plan() -> Value {
    let server = json!({
        "type": "OS::Nova::Server", "name": "a", "properties": {"resources": {"VCPU": 1}},
    });
    json!({"plan_name": "s", "stack_id": "s", "resources": {"a": server}})
}

/// The span tree shows where a request waited; lines of the log name the trace.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_receives_what_a_request_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let (collector, url) = Collector::start().await;
    let planner = format!("127.0.0.1:{}", free_port());
    let options = ["--otlp-endpoint", &url, "--planner-listen", &planner];
    let server = Server::start_with(directory.path(), &options).await;
    let provider = provider(&server).await;

    let (client, consumer) = (Client::new(), Uuid::new_v4());
    let target = format!("http://{}/allocations/{consumer}", server.address);
    let (status, id, _) = ask(target, &client, Method::PUT, Some(claim(provider))).await;
    assert_eq!(status, 204);
    let trace = collector.trace(&client).await;
    let tree = "PUT /allocations/{consumer}: receive claim(queue lock write commit)";
    assert_eq!(trace.tree(), tree);
    let root = trace.root();
    assert_eq!(root.trace_state, "rojo=00f067aa0ba902b7");
    let found = attributes(&root.attributes);
    for (name, value) in [
        ("http.request.method", json!("PUT")),
        ("http.route", json!("/allocations/{consumer}")),
        ("http.response.status_code", json!(204)),
        ("url.path", json!(format!("/allocations/{consumer}"))),
        ("url.scheme", json!("http")),
        ("client.address", json!("127.0.0.1")),
        ("openstack.request_id", json!(id)),
        ("openstack.microversion", json!("1.39")),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name}");
    }
    let found = attributes(&trace.named("commit").attributes);
    assert_eq!(found["db.system.name"], "postgresql");
    let resource = collector.0.lock().unwrap()[0].resource_spans[0].resource.clone().unwrap();
    let resource = attributes(&resource.attributes);
    assert_eq!(resource["service.name"], "berth");
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
    let line = server.logged(&id).await;
    assert!(line.contains(&format!("trace_id={}", client.trace)), "{line}");

    let client = Client::new();
    let target = format!("http://{}/allocation_candidates?resources=VCPU:1", server.address);
    let (status, _, body) = ask(target, &client, Method::GET, None).await;
    assert_eq!((status, body["allocation_requests"].as_array().unwrap().len()), (200, 1));
    let trace = collector.trace(&client).await;
    let tree = "GET /allocation_candidates: refresh prepare search render";
    assert_eq!(trace.tree(), tree);
    assert_eq!(attributes(&trace.named("search").attributes)["berth.candidates"], 1);

    let client = Client::new();
    let target = format!("http://{planner}/v1/plans");
    let (status, ..) = ask(target, &client, Method::POST, Some(plan())).await;
    assert_eq!(status, 201);
    let trace = collector.trace(&client).await;
    let tree = trace.tree();
    assert!(tree.starts_with("POST /v1/plans: receive "), "{tree}");
    for part in [
        " queue ",
        " read(connection) ",
        " refresh ",
        " solve ",
        " change(queue connection lock",
        " commit) render",
    ] {
        assert!(tree.contains(part), "{part}: {tree}");
    }
    assert_eq!(attributes(&trace.named("change").attributes)["berth.change"], "Booking");
    assert_eq!(attributes(&trace.named("solve").attributes)["berth.plan.servers"], 1);
}

/// A client decides for its trace; without a client's decision, the share does.
#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_recorded_if_the_client_records_it() {
    let directory = tempfile::tempdir().unwrap();
    let (collector, url) = Collector::start().await;
    let options = ["--otlp-endpoint", &url, "--otlp-sample-ratio", "0"];
    let server = Server::start_with(directory.path(), &options).await;
    let client = reqwest::Client::new();
    let get = |parent: Option<String>| {
        let request = client.get(format!("http://{}/traits", server.address));
        let request = request.header("x-auth-token", "admin");
        let request = request.header("openstack-api-version", "placement 1.39");
        parent.into_iter().fold(request, |request, it| request.header("traceparent", it)).send()
    };
    get(None).await.unwrap();
    get(Some(Client::new().parent(false))).await.unwrap();
    let sampled = Client::new();
    get(Some(sampled.parent(true))).await.unwrap();
    collector.trace(&sampled).await;
    let spans = collector.spans();
    assert!(spans.iter().all(|it| hex(&it.trace_id) == sampled.trace), "{spans:?}");
}

/// A Keystone that takes every token for an administrator's. It notes the headers of questions.
#[derive(Clone, Default)]
struct Keystone {
    requests: Arc<Mutex<Vec<HeaderMap>>>,
    /// Time that validating a token takes.
    slowness: Duration,
}

impl Keystone {
    async fn start(slowness: Duration) -> (Self, String) {
        let keystone = Self { requests: Arc::default(), slowness };
        let router = axum::Router::new().fallback(Self::answer).with_state(keystone.clone());
        let address = listen(router).await;
        (keystone, format!("http://{address}"))
    }

    async fn answer(State(keystone): State<Self>, request: Request) -> Response {
        let (head, body) = request.into_parts();
        to_bytes(body, usize::MAX).await.unwrap();
        keystone.requests.lock().unwrap().push(head.headers);
        let token = json!({"token": {
            "user": {"id": "u"}, "project": {"id": "p"}, "roles": [{"name": "admin"}],
            "expires_at": "2999-01-01T00:00:00Z",
        }});
        let issues = head.method == Method::POST;
        if !issues {
            tokio::time::sleep(keystone.slowness).await;
        }
        let status = if issues { StatusCode::CREATED } else { StatusCode::OK };
        (status, [("x-subject-token", "own")], token.to_string()).into_response()
    }

    fn options(url: &str) -> [&str; 12] {
        [
            "--auth",
            "keystone",
            "--keystone-auth-url",
            url,
            "--keystone-username",
            "berth",
            "--keystone-user-domain-id",
            "default",
            "--keystone-password",
            "secret",
            "--keystone-system-scope",
            "all",
        ]
    }

    /// The trace contexts of all questions since the last time.
    fn contexts(&self) -> Vec<(String, String)> {
        let headers = std::mem::take(&mut *self.requests.lock().unwrap());
        let text = |headers: &HeaderMap, name: &str| {
            headers.get(name).map_or_else(String::new, |it| it.to_str().unwrap().to_owned())
        };
        headers.iter().map(|it| (text(it, "traceparent"), text(it, "tracestate"))).collect()
    }
}

/// Without traces, Keystone receives the client's context; with them, the span of Berth that queries it.
#[tokio::test(flavor = "multi_thread")]
async fn requests_to_keystone_carry_the_trace() {
    let (keystone, auth_url) = Keystone::start(Duration::ZERO).await;
    let (collector, url) = Collector::start().await;
    for traces in [&[][..], &["--otlp-endpoint", &url]] {
        let directory = tempfile::tempdir().unwrap();
        let options = [&Keystone::options(&auth_url)[..], traces].concat();
        let server = Server::start_with(directory.path(), &options).await;
        keystone.contexts();
        let client = Client::new();
        let target = format!("http://{}/traits", server.address);
        let request = reqwest::Client::new().get(target).header("x-auth-token", "another");
        let request = request.header("traceparent", client.parent(true));
        let request = request.header("openstack-api-version", "placement 1.39");
        let answer = request.header("tracestate", "rojo=1").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let contexts = keystone.contexts();
        assert_eq!(contexts.len(), 1, "{contexts:?}");
        let (parent, state) = &contexts[0];
        assert_eq!(state, "rojo=1");
        let line = server.logged(&client.trace).await;
        assert!(line.contains("GET /traits 200"), "{line}");
        if traces.is_empty() {
            assert_eq!(*parent, client.parent(true));
            continue;
        }
        let trace = collector.trace(&client).await;
        assert_eq!(trace.tree(), "GET /traits: authenticate(queue keystone) refresh render");
        let exchange = trace.named("keystone");
        assert_eq!(exchange.kind, SpanKind::Client as i32);
        assert_eq!(*parent, format!("00-{}-{}-01", client.trace, hex(&exchange.span_id)));
        let found = attributes(&exchange.attributes);
        assert_eq!(found["http.response.status_code"], 200);
        assert_eq!(found["url.path"], "/v3/auth/tokens");
    }
}

/// A question to Keystone goes on in a task of its own when its request has been answered.
#[tokio::test(flavor = "multi_thread")]
async fn lines_about_a_slow_keystone_name_the_request() {
    let (_keystone, auth_url) = Keystone::start(Duration::from_secs(3)).await;
    let directory = tempfile::tempdir().unwrap();
    let log = ["--log", "info,berth=debug", "--log-format", "json", "--keystone-timeout", "1"];
    let options = [&Keystone::options(&auth_url)[..], &log].concat();
    let server = Server::start_with(directory.path(), &options).await;
    let client = Client::new();
    let target = format!("http://{}/traits", server.address);
    let request = reqwest::Client::new().get(target).header("x-auth-token", "another");
    let answer = request.header("traceparent", client.parent(true)).send().await.unwrap();
    assert_eq!(answer.status(), 503);
    let id = answer.headers()["x-openstack-request-id"].to_str().unwrap().to_owned();
    let began = Instant::now();
    for words in ["waiting longer for Keystone", "Keystone responded after the timeout"] {
        loop {
            let log = server.log();
            let mut lines = log.lines().filter(|line| line.contains(words));
            let mut lines = lines.by_ref().filter_map(|it| serde_json::from_str::<Value>(it).ok());
            if lines.any(|line| {
                let span = &line["span"];
                span["request_id"] == json!(id) && span["trace_id"] == json!(client.trace)
            }) {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{words}: {log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Without a collector, or with one that never responds, requests are served, and the server stops.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_delays_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let closed_url = format!("http://127.0.0.1:{}", free_port());
    for (url, is_closed) in [(silent_url, false), (closed_url, true)] {
        let directory = tempfile::tempdir().unwrap();
        let admin = format!("127.0.0.1:{}", free_port());
        let options = ["--otlp-endpoint", &url, "--admin-listen", &admin];
        let mut server = Server::start_with(directory.path(), &options).await;
        // More spans than find room.
        for _ in 0..3000 {
            assert_eq!(server.ask("GET", "/resource_providers", None).await.unwrap().0, 200);
        }
        if is_closed {
            server.logged("traces cannot be sent").await;
        } else {
            server.logged("spans are dropped, because the collector is slow or away").await;
            let metrics = server.client.get(format!("http://{admin}/metrics"));
            let metrics = metrics.send().await.unwrap().text().await.unwrap();
            let dropped = "berth_trace_spans_total{outcome=\"dropped\"} ";
            let dropped = metrics.lines().find_map(|line| line.strip_prefix(dropped)).unwrap();
            assert!(dropped.parse::<u64>().unwrap() > 0);
        }
        signal("TERM", &server.pid());
        let (code, log) = server.ended().await;
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("stopped"), "{log}");
        assert!(log.matches("traces cannot be sent").count() <= 1, "{log}");
    }
}

/// Lines that other tasks and threads write for a request: the solver's and the claim writer's.
#[tokio::test(flavor = "multi_thread")]
async fn lines_of_other_tasks_name_their_request() {
    let directory = tempfile::tempdir().unwrap();
    let planner = format!("127.0.0.1:{}", free_port());
    let options =
        ["--log", "info,berth=debug", "--log-format", "json", "--planner-listen", &planner];
    let server = Server::start_with(directory.path(), &options).await;
    let provider = provider(&server).await;
    let client = Client::new();

    let target = format!("http://{planner}/v1/plans");
    let (status, id, _) = ask(target, &client, Method::POST, Some(plan())).await;
    assert_eq!(status, 201);
    let line: Value = serde_json::from_str(&server.logged("hosts are chosen").await).unwrap();
    assert_eq!(
        (&line["span"]["request_id"], &line["span"]["trace_id"]),
        (&json!(id), &json!(client.trace))
    );

    let mut stranger = server.session().await;
    let held = hold(&mut stranger, "providers", provider).await;
    let claims = (0..3).map(|_| {
        let target = format!("http://{}/allocations/{}", server.address, Uuid::new_v4());
        let body = claim(provider);
        tokio::spawn(async move { ask(target, &Client::new(), Method::PUT, Some(body)).await })
    });
    let claims = claims.collect::<Vec<_>>();
    let target = format!("http://{}/resource_providers/{provider}", server.address);
    let (_, _, shown) = ask(target.clone(), &client, Method::GET, None).await;
    let body = json!({"resource_provider_generation": shown["generation"], "traits": []});
    let change = tokio::spawn(async move {
        ask(format!("{target}/traits"), &client, Method::PUT, Some(body)).await
    });
    server.logged("claims have met a lock").await;
    let line: Value =
        serde_json::from_str(&server.logged("a change waits for a lock").await).unwrap();
    held.commit().await.unwrap();
    let (status, change, _) = change.await.unwrap();
    // The claims may have come first, and moved the generation.
    assert!([200, 409].contains(&status), "{status}");
    assert_eq!(line["span"]["request_id"], json!(change));
    let mut ids = Vec::new();
    for claim in claims {
        let (status, id, _) = claim.await.unwrap();
        assert_eq!(status, 204);
        ids.push(id);
    }
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("claims have met a lock"));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in lines {
        let span = &line["span"];
        let named = span["request_id"].as_str().or(span["request_ids"].as_str());
        let named = named.unwrap_or_else(|| panic!("no request: {line}"));
        assert!(!named.is_empty() && named.split(' ').all(|id| ids.iter().any(|it| it == id)));
    }
}
