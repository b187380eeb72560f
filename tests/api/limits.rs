//! Clients that want too much, or are too slow: each meets its bound, and the others are served.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use berth::fairness::rate_limits::{Rate, Rates};
use berth::http::App;
use berth::http::app::Options;
use berth::http::edge::bounds::Bounds;
use berth::http::edge::listener::Endpoint;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::support::app::Berth;
use crate::support::postgres;
use crate::support::served::{PATIENCE, Served, converse, get, rest, wide};

const SHORT: Duration = Duration::from_millis(300);

/// A request whose body is announced and does not come, although the server waits for it.
async fn begin_a_body(served: &Served) -> TcpStream {
    let mut stream = served.connect().await;
    let head = "POST /resource_providers HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
                content-type: application/json\r\ncontent-length: 15\r\n\
                expect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn more_requests_than_can_be_worked_on_are_put_off() {
    let options = Options { max_requests: 1, ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    let served = Served::new(&berth, wide()).await;
    let mut first = begin_a_body(&served).await;
    let refused = berth.get("/resource_providers").await.expect(503);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.json()["errors"][0]["title"], "Service Unavailable");
    assert!(!refused.text().contains("max-requests"), "{}", refused.text());
    berth.get("/").await.expect(200);

    first.write_all(b"{\"name\": \"one\"}").await.unwrap();
    let mut answer = [0; 13];
    first.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201 ");
    berth.get("/resource_providers").await.expect(200);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let options = Options { body_timeout: SHORT, ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    let served = Served::new(&berth, wide()).await;
    let mut stream = begin_a_body(&served).await;
    stream.write_all(b"{").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["errors"][0]["status"], 408);
    served.stop().await;
}

/// A byte now and then does not prolong anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_trickles_in_is_not_waited_for() {
    let berth = Berth::new().await;
    let bounds = Bounds { header_timeout: SHORT, ..wide() };
    let served = Served::new(&berth, bounds).await;
    let mut stream = served.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    let began = Instant::now();
    while stream.write_all(b"y").await.is_ok() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    served.stop().await;
}

/// Sends a request over a kept connection, and lets the server see that it is idle again: a
/// client has the answer before the server has noted that it was sent.
async fn ask_and_rest(stream: &mut TcpStream) {
    ask(stream).await;
    tokio::time::sleep(SHORT).await;
}

/// Sends a request over a kept connection.
async fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}]}]}") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_idle_make_room_for_others() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, Bounds { connections: 3, ..wide() }).await;
    let mut flood = Vec::new();
    for _ in 0..50 {
        flood.push(served.connect().await);
    }
    for _ in 0..10 {
        let answer = served.say(get("/resource_providers")).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    // The first of the requests took the last place that an idle connection had to make room for.
    for idle in &mut flood[..48] {
        assert_eq!(rest(idle).await, "");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_that_has_been_idle_longest_is_closed() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, Bounds { connections: 2, ..wide() }).await;
    let (mut one, mut other) = (served.connect().await, served.connect().await);
    ask_and_rest(&mut one).await;
    ask_and_rest(&mut other).await;
    ask_and_rest(&mut one).await;
    let mut third = served.connect().await;
    ask(&mut third).await;
    assert_eq!(rest(&mut other).await, "");
    ask(&mut one).await;
    ask(&mut third).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_is_not_ended_for_another_connection() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, Bounds { connections: 1, ..wide() }).await;
    let mut first = begin_a_body(&served).await;
    let mut second = served.connect().await;
    second.write_all(get("/").as_bytes()).await.unwrap();
    let waits = tokio::time::timeout(SHORT, second.read_u8()).await;
    assert!(waits.is_err(), "there is room for one");
    first.write_all(b"{\"name\": \"one\"}").await.unwrap();
    assert!(rest(&mut first).await.starts_with("HTTP/1.1 201 "));
    assert!(rest(&mut second).await.starts_with("HTTP/1.1 200 "));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_has_a_time_of_its_own() {
    let berth = Berth::new().await;
    let bounds = Bounds { header_timeout: SHORT, ..wide() };
    let served = Served::new(&berth, bounds).await;
    let mut stream = served.connect().await;
    ask(&mut stream).await;
    tokio::time::sleep(SHORT * 3).await;
    ask(&mut stream).await;
    // A head that has begun has the other.
    stream.write_all(b"GET /").await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
    // So has the first.
    assert_eq!(rest(&mut served.connect().await).await, "");
    served.stop().await;

    let served = Served::new(&berth, Bounds { idle_timeout: SHORT, ..wide() }).await;
    let mut stream = served.connect().await;
    ask(&mut stream).await;
    assert_eq!(rest(&mut stream).await, "");
    served.stop().await;
}

/// An incomplete head is not a request that could be finished.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_head_does_not_hold_the_end_of_the_server() {
    let berth = Berth::new().await;
    let bounds = Bounds { shutdown_grace: PATIENCE * 2, header_timeout: PATIENCE * 2, ..wide() };
    let served = Served::new(&berth, bounds).await;
    let mut first = served.connect().await;
    first.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    let mut later = served.connect().await;
    ask(&mut later).await;
    later.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    let silent = served.connect().await;
    // Waits for less than the grace.
    served.stop().await;
    drop((first, later, silent));
}

/// A request under way is finished, and its answer says that it is the last.
#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_are_finished_within_the_grace() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, wide()).await;
    let mut stream = begin_a_body(&served).await;
    let stopping = tokio::spawn(served.stop());
    tokio::time::sleep(SHORT).await;
    assert!(!stopping.is_finished());
    stream.write_all(b"{\"name\": \"one\"}").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 201 ") && answer.contains("connection: close"),
        "{answer}"
    );
    stopping.await.unwrap();

    // Beyond it, they are cut off.
    let served = Served::new(&berth, Bounds { shutdown_grace: SHORT, ..wide() }).await;
    let mut stream = begin_a_body(&served).await;
    served.stop().await;
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_and_bodies_have_their_bounds() {
    let options = Options { max_body_bytes: 100, ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    let served = Served::new(&berth, wide()).await;
    let many = "x: y\r\n".repeat(500);
    let long = "y".repeat(200_000);
    let body = "y".repeat(101);
    let post = "POST /resource_providers HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
                content-type: application/json\r\n";
    for (request, status) in [
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n"), 431),
        (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", &long[..100_000]), 414),
        (format!("{post}content-length: 101\r\n\r\n{body}"), 413),
        (format!("{post}transfer-encoding: chunked\r\n\r\n65\r\n{body}\r\n0\r\n\r\n"), 413),
    ] {
        let mut stream = served.connect().await;
        // The server may have refused the request and closed before it has read all.
        drop(stream.write_all(request.as_bytes()).await);
        let mut answer = vec![0; 13];
        stream.read_exact(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status} "), "{request:.40}");
    }
    assert!(served.say(get("/")).await.starts_with("HTTP/1.1 200 "));
    served.stop().await;
}

/// The head of an answer.
async fn head(stream: &mut UnixStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// A Unix socket takes in a small amount for a client that does not read, which is always the same.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_take_in_lists_hold_a_bounded_amount_and_others_are_served() {
    const BYTES_MAX: usize = 6 << 20;
    let options = Options { large_responses_max: BYTES_MAX, ..Options::default() };
    let database = postgres::database().await;
    postgres::add_providers(&database, 4000).await;
    let berth = Berth::with(&database, options).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("berth.sock");
    let served = Served::at(&berth, &[Endpoint::Unix(path.clone())], wide()).await;
    let list = get("/resource_providers");
    let answers = berth.app().large_responses;
    let mut slow = Vec::new();
    while slow.len() < 6 {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(list.as_bytes()).await.unwrap();
        let head = head(&mut stream).await;
        assert!(answers.bytes() <= BYTES_MAX, "{} bytes", answers.bytes());
        if head.starts_with("HTTP/1.1 200 ") {
            assert!(answers.bytes() > 0);
            slow.push(stream);
        } else {
            assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("retry-after"), "{head}");
        }
    }
    let whole = loop {
        let answer = converse(UnixStream::connect(&path).await.unwrap(), list.as_bytes()).await;
        if answer.starts_with("HTTP/1.1 200 ") {
            break answer;
        }
    };
    let (_, body) = whole.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["resource_providers"].as_array().map(Vec::len), Some(4000));
    let cut_off = rest(&mut slow[0]).await;
    assert!(!cut_off.ends_with('}'), "it was cut off for the others");
    // Small answers have room at all times.
    let (stream, small) = (UnixStream::connect(&path).await.unwrap(), get("/"));
    assert!(converse(stream, small.as_bytes()).await.starts_with("HTTP/1.1 200 "));
    served.stop().await;
    assert_eq!(answers.bytes(), 0);
}

#[test]
fn every_limit_is_positive() {
    for option in ["--max-requests", "--max-connections"] {
        for count in ["0", "-1", "many", "1000001"] {
            let given = ["berth", "serve", &format!("{option}={count}")].map(Into::into);
            let refused = berth::cli::parse(&given).unwrap_err().to_string();
            assert!(refused.contains(option), "{refused}");
        }
    }
}

/// One project, and one user of another, use up their burst; the rest is served.
#[tokio::test(flavor = "multi_thread")]
async fn callers_beyond_their_rate_get_429() {
    let berth = Berth::new().await;
    let rate = |burst: u32| {
        let per_second = NonZeroU32::new(1).unwrap();
        Some(Rate { per_second, burst: NonZeroU32::new(burst).unwrap() })
    };
    let rates = Rates { project: rate(6), user: rate(3) };
    let app = App::new(berth.app().store, Options { rates, ..Options::default() });
    let served = Served::with_admin(app, wide()).await;
    let ask = async |path: &str, token: &str| {
        served
            .say(get(path).replace("x-auth-token: admin", &format!("x-auth-token: {token}")))
            .await
    };
    let list = "/resource_providers";
    let began = Instant::now();
    let mut refused = None;
    for _ in 0..3 * 60 {
        let response = ask(list, "admin:busy").await;
        if !response.starts_with("HTTP/1.1 200 ") {
            refused = Some(response);
            break;
        }
    }
    let refused = refused.unwrap_or_else(|| panic!("no limit within {:?}", began.elapsed()));
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    assert!(refused.contains("The user sends too many requests (--rate-limit-user)."), "{refused}");
    let other = ask(list, "other:quiet").await;
    assert!(other.starts_with("HTTP/1.1 403 "), "the policy decides about others: {other}");
    assert!(ask("/", "admin:busy").await.starts_with("HTTP/1.1 200 "), "versions need no caller");
    served.stop().await;
}
