//! Bodies that are not read: the next request gets its response on the same connection, or the response announces
//! that the connection closes. Clients such as Python's http.client send the head of a request first and its
//! body later.

use std::time::Duration;

use berth::http::Api;
use berth::http::app::Options;
use berth::http::edge::bounds::Bounds;
use berth::http::edge::listener::Listener;
use berth::http::edge::server::ServerListeners;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::app::Berth;
use crate::support::postgres;
use crate::support::served::{PATIENCE, Served, get, rest, wide};

/// Between the head of a request and its body.
const LATER: Duration = Duration::from_millis(20);
const JSON: &str = "content-type: application/json\r\n";
const ADMIN: &str = "x-auth-token: admin\r\n";

const PLACEMENT: [&str; 16] = [
    "/",
    "/resource_classes",
    "/resource_classes/CUSTOM_X",
    "/resource_providers",
    "/resource_providers/4e8e5957-649f-477b-9e5b-f1f75b21c03c",
    "/resource_providers/4e8e5957-649f-477b-9e5b-f1f75b21c03c/inventories",
    "/resource_providers/4e8e5957-649f-477b-9e5b-f1f75b21c03c/inventories/VCPU",
    "/resource_providers/4e8e5957-649f-477b-9e5b-f1f75b21c03c/traits",
    "/resource_providers/4e8e5957-649f-477b-9e5b-f1f75b21c03c/allocations",
    "/allocations",
    "/allocations/4e8e5957-649f-477b-9e5b-f1f75b21c03c",
    "/allocation_candidates?resources=VCPU:1",
    "/traits",
    "/traits/CUSTOM_X",
    "/reshaper",
    "/nowhere",
];
const PLANNER: [&str; 9] = [
    "/",
    "/v1",
    "/v1/groups",
    "/v1/groups/one/members",
    "/v1/placements/one",
    "/v1/plans",
    "/v1/plans/one",
    "/v1/status",
    "/nowhere",
];
const METHODS: [&str; 7] = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS"];

/// Both APIs, Placement first.
async fn both(berth: &Berth) -> Served {
    let mut listeners = Vec::new();
    for api in [Api::Placement, Api::Planner] {
        let endpoint = "127.0.0.1:0".parse().unwrap();
        listeners.push((api, Listener::bind(&endpoint).await.unwrap()));
    }
    // Room for all conversations of a test at once.
    Served::on(
        berth,
        ServerListeners { listeners, tls: None, admin: Vec::new(), admin_tls: false },
        Bounds { connections: 1000, ..wide() },
    )
}

async fn connect(served: &Served, api: Api) -> TcpStream {
    let nth = usize::from(api != Api::Placement);
    let stream = TcpStream::connect(served.endpoints[nth].to_string()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn head(request: &str, headers: &str) -> String {
    format!(
        "{request} HTTP/1.1\r\nhost: x\r\nopenstack-api-version: placement 1.39\r\n{headers}\r\n"
    )
}

/// Head and content of one answer.
async fn answer(stream: &mut TcpStream, method: &str) -> String {
    let reading = async {
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(answer).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = if method == "HEAD" { None } else { length };
        let mut content = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut content).await?;
        Ok::<_, std::io::Error>(head + &String::from_utf8_lossy(&content))
    };
    let read = timeout(PATIENCE, reading).await.unwrap();
    read.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// Sends a request, its body later; gives the answer. The connection must be good for another.
async fn goes_on(served: &Served, api: Api, head: &str, body: &str) -> String {
    let mut stream = connect(served, api).await;
    let method = head.split(' ').next().unwrap();
    let mut first = String::new();
    for _ in 0..2 {
        stream.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(LATER).await;
        stream.write_all(body.as_bytes()).await.unwrap_or_else(|error| panic!("{head}: {error}"));
        first = answer(&mut stream, method).await;
        assert!(!first.contains("connection: close"), "{head}{first}");
    }
    // The next request arrives while the server is busy.
    stream.write_all(get("/").as_bytes()).await.unwrap();
    let next = rest(&mut stream).await;
    assert!(next.starts_with("HTTP/1.1 200 "), "{head}{first}{next}");
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_leaves_the_connection_at_the_next_request() {
    let berth = Berth::new().await;
    let served = both(&berth).await;
    let headers = format!("{ADMIN}{JSON}");
    let paths = PLACEMENT.map(|path| (Api::Placement, path)).into_iter();
    let tried = paths.chain(PLANNER.map(|path| (Api::Planner, path))).flat_map(|(api, path)| {
        METHODS.map(|method| (api, format!("{method} {path}"), headers.clone()))
    });
    let conversations = tried.map(async |(api, request, headers)| {
        let whole = head(&request, &format!("{headers}content-length: 2\r\n"));
        goes_on(&served, api, &whole, "{}").await;
        let chunked = head(&request, &format!("{headers}transfer-encoding: chunked\r\n"));
        goes_on(&served, api, &chunked, "2\r\n{}\r\n0\r\n\r\n").await;
    });
    futures_util::future::join_all(conversations).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_early_answer_leaves_the_connection_at_the_next_request() {
    let options = Options { max_uri_bytes: 1000, ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    let served = both(&berth).await;
    let provider = "PUT /resource_providers/4e8e5957-649f-477b-9e5b-f1f75b21c03c";
    let long = format!("GET /{}", "x".repeat(2000));
    let reader = "x-auth-token: u:p\r\nx-roles: reader\r\n";
    let text = "content-type: text/plain\r\n";
    let nobody = String::new();
    let known = |more: &str| format!("{ADMIN}{more}");
    let early = [
        (Api::Placement, provider, format!("{nobody}{JSON}"), 401),
        (Api::Placement, provider, format!("{reader}{JSON}"), 403),
        (Api::Placement, "PUT /nowhere", known(JSON), 404),
        (Api::Placement, "PATCH /traits", known(JSON), 405),
        (
            Api::Placement,
            "GET /resource_providers",
            known(&format!("accept: text/plain\r\n{JSON}")),
            406,
        ),
        (Api::Placement, provider, known(text), 415),
        (Api::Placement, provider, known(""), 400),
        (Api::Placement, &long, known(JSON), 414),
        (Api::Planner, "PUT /v1/plans/one", format!("{nobody}{JSON}"), 401),
        (Api::Planner, "PUT /v1/groups/one", format!("{reader}{JSON}"), 401),
        (Api::Planner, "PUT /nowhere", known(JSON), 404),
        (Api::Planner, "PATCH /v1/plans", known(JSON), 405),
        (Api::Planner, &long, known(JSON), 414),
    ];
    let body = "x".repeat(100_000);
    for (api, request, headers, status) in early {
        let whole = head(request, &format!("{headers}content-length: {}\r\n", body.len()));
        let output = goes_on(&served, api, &whole, &body).await;
        assert!(output.starts_with(&format!("http/1.1 {status} ")), "{request:.60}: {output}");
        if status != 400 {
            let chunked = head(request, &format!("{headers}transfer-encoding: chunked\r\n"));
            let body = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
            let output = goes_on(&served, api, &chunked, &body).await;
            assert!(output.starts_with(&format!("http/1.1 {status} ")), "{request:.60}: {output}");
        }
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_full_leaves_the_connection_at_the_next_request() {
    let options = Options { max_requests: 1, ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    let served = both(&berth).await;
    let announced =
        head("POST /resource_providers", &format!("{ADMIN}{JSON}content-length: 9\r\n"));
    let mut busy = connect(&served, Api::Placement).await;
    busy.write_all(announced.as_bytes()).await.unwrap();
    for (api, request) in
        [(Api::Placement, "PUT /traits/CUSTOM_X"), (Api::Planner, "PUT /v1/plans/one")]
    {
        let head = head(request, &format!("{ADMIN}{JSON}content-length: 2\r\n"));
        loop {
            // The first request may not have arrived yet, or it may have met the one that was sent
            // here, and was refused itself.
            let output = goes_on(&served, api, &head, "{}").await;
            if output.starts_with("http/1.1 503 ") {
                break;
            }
            let refused = timeout(Duration::from_millis(10), busy.read_u8()).await;
            if refused.is_ok() {
                busy = connect(&served, Api::Placement).await;
                busy.write_all(announced.as_bytes()).await.unwrap();
            }
        }
    }
    drop(busy);
    served.stop().await;
}

/// A client that sends without waiting for responses gets the response to each request, in order.
#[tokio::test(flavor = "multi_thread")]
async fn requests_after_an_unread_body_get_responses_in_order() {
    let berth = Berth::new().await;
    let served = both(&berth).await;
    let put = head("PUT /traits/CUSTOM_X", &format!("{ADMIN}{JSON}content-length: 2\r\n"));
    let none = head("PUT /nowhere", &format!("{ADMIN}{JSON}transfer-encoding: chunked\r\n"));
    let all = format!("{put}{{}}{none}2\r\n{{}}\r\n0\r\n\r\n{put}{{}}{}", get("/"));
    let output = served.say(all).await;
    let statuses: Vec<&str> = output.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]).collect();
    assert_eq!(statuses, ["201", "404", "204", "200"], "{output}");
    served.stop().await;
}

/// The client waits for 100 before it sends the body. It does not come, and the connection ends with the response.
#[tokio::test(flavor = "multi_thread")]
async fn an_unused_body_gets_no_100_continue() {
    let berth = Berth::new().await;
    let served = both(&berth).await;
    let expect = "content-length: 2\r\nexpect: 100-continue\r\n";
    for (api, request, headers, status) in [
        (Api::Placement, "PUT /traits/CUSTOM_X", ADMIN, 201),
        (Api::Placement, "PUT /resource_providers", "", 401),
        (Api::Planner, "PUT /v1/plans/one", "", 401),
    ] {
        let mut stream = connect(&served, api).await;
        let head = head(request, &format!("{headers}{JSON}{expect}"));
        stream.write_all(head.as_bytes()).await.unwrap();
        let output = rest(&mut stream).await.to_lowercase();
        assert!(output.starts_with(&format!("http/1.1 {status} ")), "{output}");
        assert!(output.contains("\r\nconnection: close\r\n"), "{output}");
    }
    // A body that is read is requested by 100, and the connection stays open.
    let mut stream = connect(&served, Api::Placement).await;
    let body = r#"{"name": "one"}"#;
    let headers =
        format!("{ADMIN}{JSON}content-length: {}\r\nexpect: 100-continue\r\n", body.len());
    stream.write_all(head("POST /resource_providers", &headers).as_bytes()).await.unwrap();
    assert!(answer(&mut stream, "POST").await.starts_with("http/1.1 100 "));
    stream.write_all(body.as_bytes()).await.unwrap();
    assert!(answer(&mut stream, "POST").await.starts_with("http/1.1 200 "));
    stream.write_all(get("/").as_bytes()).await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 "));
    served.stop().await;
}

/// Beyond the limits the connection is closed, with an announcement, and the client gets the complete response,
/// although it is still sending.
#[tokio::test(flavor = "multi_thread")]
async fn a_rest_beyond_the_bounds_ends_the_connection_with_a_word() {
    let short = Duration::from_millis(200);
    let options = Options { max_body_bytes: 1000, body_timeout: short, ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    let served = both(&berth).await;
    let long = "x".repeat(200_000);
    let (announced, chunked) = ("content-length: 200000\r\n", "transfer-encoding: chunked\r\n");
    let chunks = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    for (headers, framing, body, status) in [
        ("", announced, long.as_str(), 401),
        ("", chunked, chunks.as_str(), 401),
        (ADMIN, announced, long.as_str(), 413),
        (ADMIN, chunked, chunks.as_str(), 413),
        // It never comes.
        ("", "content-length: 2\r\n", "", 401),
        (ADMIN, "content-length: 2\r\n", "", 408),
        ("", chunked, "2\r\n{", 401),
        // This is not a chunk.
        (ADMIN, chunked, "2x\r\n{", 400),
        ("", chunked, "2x\r\n{", 401),
    ] {
        let mut stream = connect(&served, Api::Placement).await;
        let head = head("POST /resource_providers", &format!("{headers}{JSON}{framing}"));
        stream.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(LATER).await;
        stream.write_all(body.as_bytes()).await.unwrap();
        let output = answer(&mut stream, "POST").await;
        assert!(output.starts_with(&format!("http/1.1 {status} ")), "{output}");
        assert!(output.contains("\r\nconnection: close\r\n"), "{framing}{output}");
        assert_eq!(rest(&mut stream).await, "");
    }
    served.stop().await;
}

/// A malformed request belongs to no API, and is refused in the form of the listener's API.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_is_refused_in_the_form_of_its_api() {
    let served = both(&Berth::new().await).await;
    for malformed in [
        "GET /v1 HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n",
        "GET /v1 HTTP/1.1\r\nhost: x y\r\n\r\n",
        "GET /v1 HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
    ] {
        for (api, status) in [(Api::Placement, "/errors/0/status"), (Api::Planner, "/code")] {
            let mut stream = connect(&served, api).await;
            stream.write_all(malformed.as_bytes()).await.unwrap();
            let output = answer(&mut stream, "GET").await;
            assert!(output.starts_with("http/1.1 400 "), "{output}");
            let body: Value =
                serde_json::from_str(output.split("\r\n\r\n").nth(1).unwrap()).unwrap();
            assert_eq!(body.pointer(status), Some(&Value::from(400)), "{malformed}{body}");
        }
    }
    served.stop().await;
}
