//! Headers of proxies about their clients, and the proxies from which they are accepted.

use berth::http::Api;
use berth::http::edge::listener::{Endpoint, Listener};
use berth::http::edge::server::ServerListeners;
use berth::http::layers::proxy::Trusted;
use tokio::net::{TcpStream, UnixStream};

use crate::support::app::Berth;
use crate::support::served::{Served, converse, wide};

/// Makes a provider through a proxy by the first address and by the second, and gives the locations.
async fn locations(berth: &Berth, trusted: &[&str], lines: &str) -> [Option<String>; 2] {
    answers(berth, trusted, lines).await.map(|answer| {
        let location = answer.lines().find_map(|line| line.strip_prefix("location: "))?;
        Some(location.rsplit_once('/')?.0.to_owned())
    })
}

/// The same, and gives the answers.
async fn answers(berth: &Berth, trusted: &[&str], lines: &str) -> [String; 2] {
    let directory = tempfile::tempdir().unwrap();
    let unix = Endpoint::Unix(directory.path().join("berth.sock"));
    let mut listeners = Vec::new();
    for endpoint in [&"127.0.0.1:0".parse().unwrap(), &unix] {
        listeners.push((Api::Placement, Listener::bind(endpoint).await.unwrap()));
    }
    let trusted: Vec<String> = trusted.iter().map(ToString::to_string).collect();
    let app = berth.app().with_trusted_proxies(Trusted::parse(&trusted).unwrap());
    let served = Served::with(
        app,
        ServerListeners { listeners, tls: None, admin: Vec::new(), admin_tls: false },
        wide(),
    );
    let question = || {
        let body = format!("{{\"name\": \"{}\"}}", uuid::Uuid::new_v4());
        let length = body.len();
        format!(
            "POST /resource_providers HTTP/1.1\r\nhost: inside:8778\r\nx-auth-token: admin\r\n\
             content-type: application/json\r\nconnection: close\r\n{lines}\
             content-length: {length}\r\n\r\n{body}"
        )
    };
    let by_tcp = TcpStream::connect(served.address()).await.unwrap();
    let by_tcp = converse(by_tcp, question().as_bytes()).await;
    let by_unix = UnixStream::connect(directory.path().join("berth.sock")).await.unwrap();
    let by_unix = converse(by_unix, question().as_bytes()).await;
    served.stop().await;
    [by_tcp, by_unix]
}

#[tokio::test(flavor = "multi_thread")]
async fn only_headers_of_trusted_proxies_are_used() {
    let berth = Berth::new().await;
    let old = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: cloud.example.com:443\r\n\
               X-Forwarded-Prefix: /placement\r\n";
    let standard = "Forwarded: for=192.0.2.1;proto=https;host=\"cloud.example.com:8443\"\r\n";
    let inside = "http://inside:8778/resource_providers";
    let outside = "https://cloud.example.com/placement/resource_providers";
    let port = "https://cloud.example.com:8443/resource_providers";
    for (trusted, message, expected) in [
        (&[][..], old, [inside, inside]),
        (&["192.0.2.0/24"], old, [inside, inside]),
        (&["127.0.0.0/8"], old, [outside, inside]),
        (&["unix:"], old, [inside, outside]),
        (&["unix:", "127.0.0.1"], old, [outside, outside]),
        (&["unix:", "127.0.0.1"], standard, [port, port]),
        (&["unix:", "127.0.0.1"], "", [inside, inside]),
    ] {
        let found = locations(&berth, trusted, message).await;
        let expected = expected.map(|location| Some(location.to_owned()));
        assert_eq!(found, expected, "{trusted:?} {message}");
    }
}

/// Every link of an answer begins with the prefix.
#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_has_a_bounded_length() {
    let berth = Berth::new().await;
    let prefix_of = |bytes: usize| format!("X-Forwarded-Prefix: /{}\r\n", "p".repeat(bytes - 1));
    let [long, unknown] = answers(&berth, &["127.0.0.1"], &prefix_of(513)).await;
    assert!(long.starts_with("HTTP/1.1 400 ") && long.contains("X-Forwarded-Prefix"), "{long}");
    assert!(unknown.starts_with("HTTP/1.1 201 "), "{unknown}");
    let [allowed, _] = answers(&berth, &["127.0.0.1"], &prefix_of(512)).await;
    assert!(allowed.starts_with("HTTP/1.1 201 "), "{allowed}");
}
