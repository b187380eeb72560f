//! Clients that disappear in the middle: their changes are finished, no session is left inside a transaction, and
//! later clients are served as usual. And clients that stop sending.

use std::time::Duration;

use berth::http::Api;
use berth::http::app::EventSettings;
use berth::http::edge::bounds::Bounds;
use berth::http::edge::listener::{Endpoint, Listener};
use berth::http::edge::server::ServerListeners;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use uuid::Uuid;

use crate::events::with as with_events;
use crate::support::app::Berth;
use crate::support::cloud::{Host, claim_body};
use crate::support::cluster::until;
use crate::support::postgres;
use crate::support::served::{PATIENCE, Served, last_words, wide};

/// The replica over a real socket.
async fn listen(berth: &Berth, header_timeout: Duration) -> std::net::SocketAddr {
    let bounds = Bounds {
        header_timeout,
        idle_timeout: header_timeout,
        write_timeout: header_timeout,
        ..wide()
    };
    let served = Served::new(berth, bounds).await;
    let address = served.address();
    // It serves until the test ends.
    std::mem::forget(served);
    address
}

fn request(host: Host, consumer: Uuid) -> Vec<u8> {
    let body = claim_body(None, &[(host, "VCPU", 1)]).to_string();
    let length = body.len();
    format!(
        "PUT /allocations/{consumer} HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
         openstack-api-version: placement 1.39\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_vanish_leave_nothing_half_done() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 100_000)]).await;
    let address = listen(&berth, Duration::from_secs(10)).await;
    let mut consumers = Vec::new();
    for nth in 0..200_usize {
        let consumer = Uuid::new_v4();
        let request = request(host, consumer);
        let mut stream = TcpStream::connect(address).await.unwrap();
        // From a few bytes of the head to everything and some time for the work to begin.
        let sent = request.len() * (nth % 5 + 1) / 5;
        stream.write_all(&request[..sent]).await.unwrap();
        tokio::time::sleep(Duration::from_micros(300 * (nth as u64 % 7))).await;
        drop(stream);
        if sent == request.len() {
            consumers.push(consumer);
        }
    }
    let mut session = berth.session().await;
    until("no session is within a transaction", async || {
        let busy = "select count(*) from pg_stat_activity where datname = current_database()
                    and pid <> pg_backend_pid()
                    and (state = 'active' or state like 'idle in transaction%')";
        sqlx::query_scalar::<_, i64>(busy).fetch_one(&mut session).await.unwrap() == 0
    })
    .await;
    berth.assert_consistent().await;
    let mut held = 0;
    for consumer in consumers {
        let allocations = berth.held(consumer).await;
        let whole = json!({host.0.to_string(): {"resources": {"VCPU": 1}}});
        if allocations != json!({}) {
            assert_eq!(
                allocations[host.0.to_string()]["resources"],
                whole[host.0.to_string()]["resources"]
            );
            held += 1;
        }
    }
    assert_eq!(berth.usages(host).await, json!({"VCPU": held}));
    for _ in 0..20 {
        berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
    }
}

/// Writes wait for the database, their clients do not: they happen all the same, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_outlives_its_client_while_the_database_stands_still() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 10)]).await;
    let address = listen(&berth, Duration::from_secs(10)).await;
    let mut session = berth.session().await;
    sqlx::raw_sql("begin; lock table providers in exclusive mode")
        .execute(&mut session)
        .await
        .unwrap();
    let consumers: Vec<Uuid> = (0..5).map(|_| Uuid::new_v4()).collect();
    for consumer in &consumers {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&request(host, *consumer)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(stream);
    }
    sqlx::raw_sql("commit").execute(&mut session).await.unwrap();
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
    // Theirs were set aside while the table was locked: ours may come first.
    for consumer in consumers {
        until("it is written", async || berth.held(consumer).await != json!({})).await;
    }
    assert_eq!(berth.usages(host).await, json!({"VCPU": 6}));
    berth.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_dawdles_over_its_head_is_cut_off() {
    let berth = Berth::new().await;
    let address = listen(&berth, Duration::from_millis(300)).await;
    for begun in ["", "GET / HTTP/1.1\r\nhost: x\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(5), read).await.expect("cut off").ok();
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    }
    // A kept-alive connection that lies idle is closed too, after its answer.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    tokio::time::timeout(PATIENCE, read).await.expect("closed").ok();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

/// A response that the client does not read holds its connection, and its search, for a limited time only.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answer_is_cut_off() {
    let berth = Berth::new().await;
    for root in 0..4 {
        let root = berth.host(&format!("root-{root}"), &[]).await;
        for nth in 0..8 {
            berth.child(&format!("device-{}-{nth}", root.0), Some(root), &[("VGPU", 1)]).await;
        }
    }
    let address = listen(&berth, Duration::from_millis(500)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let groups: Vec<String> = (1..=7).map(|nth| format!("resources{nth}=VGPU:1")).collect();
    let query = groups.join("&");
    let request = format!(
        "GET /allocation_candidates?group_policy=none&{query} HTTP/1.1\r\nhost: x\r\n\
         x-auth-token: admin\r\nopenstack-api-version: placement 1.39\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    until("the search is given up", async || berth.app().streams.held() == 0).await;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    drop(tokio::time::timeout(PATIENCE, read).await.expect("cut off"));
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    assert!(!answer.ends_with(b"0\r\n\r\n"), "the answer would have been far longer");
}

/// Data that is not HTTP gets an error in the usual form.
#[tokio::test(flavor = "multi_thread")]
async fn an_unparsable_request_gets_an_error_body() {
    let berth = Berth::new().await;
    let address = listen(&berth, Duration::from_secs(5)).await;
    let long = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    for (request, status) in [
        ("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: hi mom\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +5\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost : x\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
        (long.as_str(), 431),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.60}: {answer}");
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        let error: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(error["errors"][0]["status"], status);
    }
}

/// `shutdown(SHUT_WR)` after a request, as `socat` and `nc -N` do, is no hang-up.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_closed_connection_gets_its_response() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 100)]).await;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let endpoints = ["127.0.0.1:0".parse().unwrap(), Endpoint::Unix(socket.clone())];
    let served = Served::at(&berth, &endpoints, wide()).await;
    let connections = (0..20).map(|_| async {
        let stream = served.connect().await;
        let over_tcp = last_words(stream, &request(host, Uuid::new_v4())).await;
        let stream = UnixStream::connect(&socket).await.unwrap();
        over_tcp + &last_words(stream, &request(host, Uuid::new_v4())).await
    });
    let answers = futures_util::future::join_all(connections).await.concat();
    assert_eq!(answers.matches("HTTP/1.1 204 ").count(), 40, "{answers}");
    // One after the other on a connection.
    let requests: Vec<u8> = (0..20).flat_map(|_| request(host, Uuid::new_v4())).collect();
    let answers = last_words(served.connect().await, &requests).await;
    assert_eq!(answers.matches("HTTP/1.1 204 ").count(), 20, "{answers}");
    assert_eq!(berth.usages(host).await, json!({"VCPU": 60}));

    let get = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
             openstack-api-version: placement 1.39\r\n\r\n"
        )
    };
    for path in ["/-/v1/providers", "/allocation_candidates?resources=VCPU:1", "/", "/traits"] {
        let answer = last_words(served.connect().await, get(path).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        assert!(answer.ends_with('}') || answer.ends_with("0\r\n\r\n"), "{path}: {answer}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_made_for_a_client_that_sends_nothing_more() {
    let berth = Berth::new().await;
    berth.host("host", &[("VCPU", 8), ("MEMORY_MB", 1024), ("DISK_GB", 10)]).await;
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
    let listeners = vec![(Api::Planner, listener)];
    let served = Served::on(
        &berth,
        ServerListeners { listeners, tls: None, admin: Vec::new(), admin_tls: false },
        wide(),
    );
    let stack = Uuid::new_v4();
    let one = json!({
        "type": "OS::Nova::Server", "name": "one", "properties": {"resources": {"VCPU": 1}},
    });
    let body = json!({
        "plan_name": stack, "stack_id": stack, "resources": {"one": one}, "timeout": "60 sec",
    });
    let body = body.to_string();
    let length = body.len();
    let request = format!(
        "POST /v1/plans HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let answer = last_words(served.connect().await, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    served.stop().await;
}

/// An answer without end goes on for a client that sends nothing more, and ends with a reset.
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_ends_an_answer_and_the_end_of_sending_does_not() {
    // Nothing is written in between, so only the reset shows that the client is gone.
    let events = EventSettings {
        followers: 2,
        heartbeat: Duration::from_hours(1),
        ..EventSettings::default()
    };
    let berth = with_events(&postgres::database().await, events).await;
    let served = Served::new(&berth, wide()).await;
    let follow = async || {
        let mut stream = served.connect().await;
        let request = "GET /-/v1/events HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut status = [0; 13];
        stream.read_exact(&mut status).await.unwrap();
        (stream, String::from_utf8(status.to_vec()).unwrap())
    };
    let (mut stream, status) = follow().await;
    assert_eq!(status, "HTTP/1.1 200 ");
    berth.host("late", &[]).await;
    let mut output = Vec::new();
    while !output.windows(4).any(|it| it == b"late") {
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut output)).await;
        assert_ne!(read.unwrap().unwrap(), 0, "{}", String::from_utf8_lossy(&output));
    }
    assert_ne!(follow().await.1, "HTTP/1.1 200 ", "one project has one place");
    stream.set_zero_linger().unwrap();
    drop(stream);
    let free = async {
        while follow().await.1 != "HTTP/1.1 200 " {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, free).await.expect("the work has ended with the reset");
}

/// The end of sending in the middle of a request is the end of the request.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_breaks_off_is_not_carried_out() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 10)]).await;
    let served = Served::new(&berth, wide()).await;
    let whole = request(host, Uuid::new_v4());
    let text = String::from_utf8(whole.clone()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length = format!("content-length: {}", body.len());
    let chunked = format!(
        "{}\r\n\r\n{:x}\r\n{body}\r\n0\r\n",
        head.replace(&length, "transfer-encoding: chunked"),
        body.len()
    );
    for part in [&whole[..20], &whole[..head.len()], &whole[..whole.len() - 1], chunked.as_bytes()]
    {
        let answer = last_words(served.connect().await, part).await;
        assert!(!answer.contains("HTTP/1.1 2"), "{answer}");
    }
    let answer = last_words(served.connect().await, format!("{chunked}\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    assert_eq!(berth.usages(host).await, json!({"VCPU": 1}));
    served.stop().await;
}
