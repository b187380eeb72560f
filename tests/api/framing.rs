//! Requests whose framing two parsers may read differently: each is refused and the connection closed, so that
//! no part of its body is ever taken for another request.

use berth::http::Api;
use berth::http::edge::listener::{Endpoint, Listener};
use berth::http::edge::server::ServerListeners;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::app::Berth;
use crate::support::served::{Served, converse, get, last_words, rest, wide};

/// A request that must never get a response: only a misled parser finds it.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\r\n";

/// Returns requests, each with its fault.
fn shapes() -> Vec<(&'static str, Vec<u8>)> {
    let post = |headers: &str, body: &str| {
        let head = "POST /resource_providers HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
                    content-type: application/json\r\n";
        format!("{head}{headers}\r\n{body}").into_bytes()
    };
    let with = |header: &str| format!("GET / HTTP/1.1\r\nhost: x\r\n{header}\r\n\r\n{HIDDEN}");
    let chunked = "transfer-encoding: chunked\r\n";
    let chunk = |size: &str| post(chunked, &format!("{size}\r\n{{}}\r\n0\r\n\r\n{HIDDEN}"));
    let extensions = format!("1;{}\r\n \r\n", "x".repeat(20)).repeat(20_000);
    // This would be carried out if it were parsed as chunks.
    let whole = format!("12\r\n{{\"name\": \"forged\"}}\r\n0\r\n\r\n{HIDDEN}");
    let length = whole.len();
    let both = format!("content-length: {length}\r\n{chunked}");
    let swapped = format!("{chunked}content-length: {length}\r\n");
    vec![
        ("length, then chunks", post(&both, &whole)),
        ("chunks, then length", post(&swapped, &whole)),
        ("chunks, and no length", post(&format!("{chunked}content-length: 0\r\n"), &whole)),
        ("gzip, then chunks", post("transfer-encoding: gzip, chunked\r\n", &whole)),
        ("chunks in chunks", post("transfer-encoding: chunked, chunked\r\n", &whole)),
        ("chunks twice", post(&chunked.repeat(2), &whole)),
        ("identity, then chunks", post("transfer-encoding: identity, chunked\r\n", &whole)),
        (
            "identity above chunks",
            post(&format!("transfer-encoding: identity\r\n{chunked}"), &whole),
        ),
        ("two lengths", post("content-length: 2\r\ncontent-length: 0\r\n", "{}")),
        ("two lengths in one", post("content-length: 2, 0\r\n", "{}")),
        ("a signed length", post("content-length: +2\r\n", "{}")),
        ("a negative length", post("content-length: -1\r\n", "{}")),
        ("a hexadecimal length", post("content-length: 0x2\r\n", "{}")),
        ("a length beyond 64 bits", post("content-length: 18446744073709551618\r\n", "")),
        ("chunks last, not at all", post("transfer-encoding: chunked, identity\r\n", "")),
        ("an unknown coding", post("transfer-encoding: xchunked\r\n", HIDDEN)),
        ("a coding in HTTP/1.0", with_version("1.0", chunked)),
        ("a blank before the colon", with("content-length : 5").into()),
        ("a folded header", with("x: a\r\n content-length: 5").into()),
        ("a header without a colon", with("content-length").into()),
        ("a NUL in a header", with("x: a\0b").into()),
        ("a bare CR in a header", with("x: a\rcontent-length: 5").into()),
        ("a NUL in a name", with("x\0: a").into()),
        ("an unknown version", with_version("3.0", "")),
        ("no version", b"GET /\r\n\r\n".to_vec()),
        ("a huge method", format!("{} / HTTP/1.1\r\n\r\n", "M".repeat(200_000)).into()),
        ("a chunk's size beyond 64 bits", chunk("10000000000000002")),
        ("a chunk's size that is none", chunk("2x")),
        ("a chunk's size with a sign", chunk("+2")),
        ("a chunk's size by bare LF", post(chunked, &format!("2\n{{}}\n0\n\n{HIDDEN}"))),
        ("extensions without end", post(chunked, &extensions)),
    ]
}

fn with_version(version: &str, headers: &str) -> Vec<u8> {
    format!("POST / HTTP/{version}\r\nhost: x\r\n{headers}\r\n0\r\n\r\n{HIDDEN}").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_hides_in_another() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, wide()).await;
    let mut faults = Vec::new();
    for (name, bytes) in shapes() {
        // All that comes until the connection is closed: by the server, which waits for no more.
        let answer = served.say(bytes).await;
        let answers = answer.matches("HTTP/1.1 ").count();
        let refused = ["400", "431"].contains(&answer.get(9..12).unwrap_or_default());
        // Refused while the client still writes, the answer may be lost with the connection.
        if answers > 1 || (answers == 1 && !refused) || answer.contains("hidden") {
            faults.push(format!("{name}: {answer:.200}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let answer = served.say(get("/resource_providers")).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && !answer.contains("forged"), "{answer}");
    served.stop().await;
}

/// In the form of its API, also behind another request, whose answer comes first.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_with_two_lengths_is_refused_with_words() {
    let berth = Berth::new().await;
    let mut listeners = Vec::new();
    for api in [Api::Placement, Api::Planner] {
        listeners.push((api, Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap()));
    }
    let served = Served::on(
        &berth,
        ServerListeners { listeners, tls: None, admin: Vec::new(), admin_tls: false },
        wide(),
    );
    let shapes = shapes();
    for endpoint in &served.endpoints {
        let Endpoint::Tcp(address) = endpoint else { panic!() };
        for (name, bytes) in shapes.iter().filter(|(name, _)| name.contains("chunks")) {
            let first = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
            for before in [&b""[..], &first[..]] {
                let stream = TcpStream::connect(address).await.unwrap();
                let answer = converse(stream, &[before, bytes].concat()).await;
                let refused = answer.split_once("HTTP/1.1 400 Bad Request\r\n");
                let (others, refused) = refused.unwrap_or_else(|| panic!("{name}: {answer}"));
                assert_eq!(others.is_empty(), before.is_empty(), "{name}: {answer}");
                let (head, body) = refused.split_once("\r\n\r\n").unwrap();
                assert!(head.contains("connection: close"), "{name}: {answer}");
                let error: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(error.to_string().contains("transfer-encoding"), "{name}: {answer}");
                // To a client that sends nothing more, too.
                let stream = TcpStream::connect(address).await.unwrap();
                let answer = last_words(stream, &[before, bytes].concat()).await;
                assert!(answer.contains("HTTP/1.1 400 Bad Request\r\n"), "{name}: {answer}");
            }
        }
    }
    served.stop().await;
}

/// Chunks that two parsers end at different places, with a head between the two: that head must not count for the
/// next request, whose framing is unclear.
#[tokio::test(flavor = "multi_thread")]
async fn chunks_with_two_ends_let_no_unclear_head_in() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, wide()).await;
    let hidden = format!("\r\n{HIDDEN}");
    let zeros = "0".repeat(300);
    for chunks in [
        format!("0\r\nx: y\n{hidden}"),
        format!("0\r\nx: {zeros}\n{hidden}"),
        format!("{zeros}{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len()),
    ] {
        let answer = served
            .say(format!(
                "POST /resource_providers HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
                 transfer-encoding: chunked\r\n\r\n{chunks}\
                 GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\
                 transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
            ))
            .await;
        assert!(!answer.contains("HTTP/1.1 200 "), "{chunks}: {answer}");
        assert!(answer.contains("HTTP/1.1 400 "), "{chunks}: {answer}");
    }
    served.stop().await;
}

/// Chunks with extensions and trailers, one request behind the other, however they are cut.
#[tokio::test(flavor = "multi_thread")]
async fn chunked_requests_follow_each_other() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, wide()).await;
    let post = |nth: usize| {
        format!(
            "POST /resource_providers HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
             content-type: application/json\r\nTransfer-Encoding: Chunked\r\n\r\n\
             9;a=\"GET / HTTP/1.1\"\r\n{{\"name\":\"\r\n3 \r\n{nth:01}\"}}\r\n0\r\nx: y\r\n\r\n"
        )
    };
    let requests: String = (0..4).map(post).chain([get("/")]).collect();
    for length in [requests.len(), 7, 50] {
        let mut stream = served.connect().await;
        for part in requests.as_bytes().chunks(length) {
            stream.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        let answer = rest(&mut stream).await;
        // The names are taken after the first time.
        let done =
            answer.matches("HTTP/1.1 201 ").count() + answer.matches("HTTP/1.1 409 ").count();
        assert_eq!((done, answer.matches("HTTP/1.1 200 ").count()), (4, 1), "{length}: {answer}");
    }
    served.stop().await;
}

/// Shapes that have one meaning: line ends without CR, and a target with scheme and host.
#[tokio::test(flavor = "multi_thread")]
async fn unusual_shapes_have_one_meaning() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, wide()).await;
    let two = format!("GET / HTTP/1.1\nhost: x\n\n{}", get("/nowhere"));
    let answer = served.say(two).await;
    let statuses: Vec<&str> = answer.matches("HTTP/1.1 ").collect();
    assert_eq!(statuses.len(), 2, "{answer}");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("HTTP/1.1 404 "), "{answer}");
    let absolute = get("http://elsewhere.example.com/resource_providers");
    assert!(served.say(absolute).await.starts_with("HTTP/1.1 200 "));
    let same = get("/").replace("host: x", "host: x\r\ncontent-length: 0\r\ncontent-length: 0");
    assert!(served.say(same).await.starts_with("HTTP/1.1 200 "));
    served.stop().await;
}

/// RFC 9112: one host for each request, and a target that is a path or a URI.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_says_where_it_goes() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, wide()).await;
    let rest = "x-auth-token: admin\r\nconnection: close\r\n\r\n";
    for (head, status) in [
        ("GET / HTTP/1.1\r\nhost: x\r\n", 200),
        ("GET / HTTP/1.1\r\n", 400),
        ("GET /resource_providers HTTP/1.1\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: x\r\nhost: x\r\n", 400),
        ("GET / HTTP/1.0\r\nhost: x\r\nhost: y\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: x/y\r\n", 400),
        ("GET / HTTP/1.0\r\n", 200),
        ("GET x HTTP/1.1\r\nhost: x\r\n", 400),
        ("GET x:80 HTTP/1.1\r\nhost: x\r\n", 400),
        ("GET * HTTP/1.1\r\nhost: x\r\n", 400),
        ("OPTIONS * HTTP/1.1\r\nhost: x\r\n", 404),
        ("GET http://y/resource_providers HTTP/1.1\r\nhost: x\r\n", 200),
        ("GET http://y HTTP/1.1\r\nhost: x\r\n", 200),
    ] {
        let answer = served.say(format!("{head}{rest}")).await;
        let version = head.find("HTTP/").map(|at| &head[at..at + 8]).unwrap();
        assert!(answer.starts_with(&format!("{version} {status} ")), "{head}{answer}");
        if status == 400 {
            let id = answer.lines().find_map(|line| line.strip_prefix("x-openstack-request-id: "));
            assert!(answer.contains(&format!("\"request_id\":\"{}\"", id.unwrap())), "{answer}");
        }
    }
    // The host of the target wins over the header.
    let body = r#"{"name": "one"}"#;
    let post = format!(
        "POST http://y.example.com/resource_providers HTTP/1.1\r\nhost: x\r\n\
         openstack-api-version: placement 1.39\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{rest}{body}",
        body.len()
    );
    let answer = served.say(post).await;
    assert!(answer.contains("\r\nlocation: http://y.example.com/resource_providers/"), "{answer}");
    served.stop().await;
}
