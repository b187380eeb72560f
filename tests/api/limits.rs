//! Clients that want too much, or are too slow: each meets its bound, and the others are served.

use std::time::{Duration, Instant};

use berth::http::app::Options;
use berth::http::server::Bounds;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::app::Berth;
use crate::support::postgres;
use crate::support::served::{PATIENCE, Served, get, rest, wide};

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

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_bound_wait_for_those_that_idle() {
    let berth = Berth::new().await;
    let bounds = Bounds { connections: 3, header_timeout: SHORT, ..wide() };
    let served = Served::new(&berth, bounds).await;
    let mut flood = Vec::new();
    for _ in 0..50 {
        flood.push(served.connect().await);
    }
    let answer = served.say(get("/resource_providers")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(flood);
    served.stop().await;
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
        // The server may have said no and closed before it has read all.
        drop(stream.write_all(request.as_bytes()).await);
        let mut answer = vec![0; 13];
        stream.read_exact(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status} "), "{request:.40}");
    }
    assert!(served.say(get("/")).await.starts_with("HTTP/1.1 200 "));
    served.stop().await;
}

#[test]
fn nothing_may_be_bounded_by_nothing() {
    for option in ["--max-requests", "--max-connections"] {
        for count in ["0", "-1", "many", "1000001"] {
            let given = ["berth", "serve", &format!("{option}={count}")].map(Into::into);
            let refused = berth::cli::parse(&given).unwrap_err().to_string();
            assert!(refused.contains(option), "{refused}");
        }
    }
}
