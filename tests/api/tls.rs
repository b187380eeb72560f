//! TLS: the choice of the certificate, client certificates, and their exchange while serving.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth::cli::Command;
use berth::cli::health::{Probe, health};
use berth::http::Api;
use berth::http::edge::bounds::Bounds;
use berth::http::edge::listener::Listener;
use berth::http::edge::server::ServerListeners;
use berth::http::edge::tls::{Files, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use crate::support::app::Berth;
use crate::support::cluster::until;
use crate::support::process::{Server, free_port};
use crate::support::served::{PATIENCE, Served, converse, get, last_words, rest, wide};

/// An authority and what it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, in PEM.
struct Signed {
    cert: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn sign(&self) -> Signed {
        self.sign_until(date_time_ymd(4096, 1, 1))
    }

    fn sign_until(&self, expiry: OffsetDateTime) -> Signed {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = expiry;
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Signed { cert, key: key.serialize_pem() }
    }
}

fn write(directory: &Path, signed: &Signed) -> Files {
    let files =
        Files { cert: directory.join("cert.pem"), key: directory.join("key.pem"), client_ca: None };
    std::fs::write(&files.cert, &signed.cert).unwrap();
    std::fs::write(&files.key, &signed.key).unwrap();
    files
}

async fn serve(berth: &Berth, files: Files, bounds: Bounds) -> (Served, Arc<Tls>) {
    let tls = Arc::new(Tls::new(files).unwrap());
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
    let listeners = vec![(Api::Placement, listener)];
    let sockets = ServerListeners {
        listeners,
        tls: Some(Arc::clone(&tls)),
        admin: Vec::new(),
        admin_tls: false,
    };
    (Served::on(berth, sockets, bounds), tls)
}

/// A client that believes an authority, and perhaps has a certificate.
async fn connect(
    served: &Served,
    authority: &Authority,
    client: Option<&Signed>,
    version: &'static SupportedProtocolVersion,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        None => config.with_no_client_auth(),
        Some(Signed { cert, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = served.connect().await;
    let name = "localhost".try_into().unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// With the announcement of TLS that nothing more follows, and without.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_closed_connection_gets_its_response() {
    let berth = Berth::new().await;
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let (served, _) = serve(&berth, write(directory.path(), &authority.sign()), wide()).await;
    let question = |name: String| {
        let body = format!("{{\"name\": \"{name}\"}}");
        let length = body.len();
        format!(
            "POST /resource_providers HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    for version in [&TLS12, &TLS13] {
        let stream = connect(&served, &authority, None, version).await.unwrap();
        let pair = (0..2).map(|nth| question(format!("{:?}-{nth}", version.version)));
        let answer = last_words(stream, pair.collect::<String>().as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 201 ").count(), 2, "{answer}");

        let mut stream = connect(&served, &authority, None, version).await.unwrap();
        let single = question(format!("{:?}", version.version));
        stream.write_all(single.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        stream.get_mut().0.shutdown().await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
    served.stop().await;
}

/// Whether a connection is served.
async fn answers(stream: std::io::Result<TlsStream<TcpStream>>) -> bool {
    match stream {
        Ok(stream) => converse(stream, get("/").as_bytes()).await.starts_with("HTTP/1.1 200 "),
        Err(_) => false,
    }
}

fn certificate(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_an_encrypted_server_say_https() {
    let berth = Berth::new().await;
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let (served, _) = serve(&berth, write(directory.path(), &authority.sign()), wide()).await;
    for version in [&TLS12, &TLS13] {
        let stream = connect(&served, &authority, None, version).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let body = format!("{{\"name\": \"{:?}\"}}", version.version);
        let length = body.len();
        let question = format!(
            "POST /resource_providers HTTP/1.1\r\nhost: cloud.example.com:443\r\n\
             x-auth-token: admin\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        let answer = converse(stream, question.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
        let location = "location: https://cloud.example.com/resource_providers/";
        assert!(answer.contains(location), "{answer}");
    }
    let endpoint = served.endpoints[0].clone();
    let ask = |with_tls: bool| {
        let endpoint = endpoint.clone();
        tokio::task::spawn_blocking(move || health(&endpoint, with_tls, Probe::Answers))
    };
    ask(true).await.unwrap().unwrap();
    ask(false).await.unwrap().unwrap_err();
    assert!(!served.say(get("/")).await.contains("HTTP/1.1 200"));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_present_a_certificate_where_one_is_wanted() {
    let berth = Berth::new().await;
    let (authority, clients) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    let client_ca = directory.path().join("clients.pem");
    std::fs::write(&client_ca, &clients.pem).unwrap();
    let files = write(directory.path(), &authority.sign());
    let files = Files { client_ca: Some(client_ca), ..files };
    let (served, _) = serve(&berth, files, wide()).await;
    let (known, stranger) = (clients.sign(), Authority::new().sign());
    for version in [&TLS12, &TLS13] {
        assert!(answers(connect(&served, &authority, Some(&known), version).await).await);
        assert!(!answers(connect(&served, &authority, None, version).await).await);
        assert!(!answers(connect(&served, &authority, Some(&stranger), version).await).await);
    }
    let endpoint = served.endpoints[0].clone();
    tokio::task::spawn_blocking(move || health(&endpoint, true, Probe::Answers))
        .await
        .unwrap()
        .unwrap();
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_served_and_a_broken_one_is_not() {
    let berth = Berth::new().await;
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (authority.sign(), authority.sign());
    let (served, tls) = serve(&berth, write(directory.path(), &old), wide()).await;
    let keeper = tokio::spawn(async move { tls.keep_current().await });
    let mut held = connect(&served, &authority, None, &TLS13).await.unwrap();
    let first = certificate(&held);

    // The certificate without its key, and what is no certificate at all.
    std::fs::write(directory.path().join("cert.pem"), &new.cert).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    std::fs::write(directory.path().join("cert.pem"), "half of it").unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let stream = connect(&served, &authority, None, &TLS13).await.unwrap();
    assert_eq!(certificate(&stream), first);

    write(directory.path(), &new);
    let expected = CertificateDer::from_pem_slice(new.cert.as_bytes()).unwrap();
    let began = Instant::now();
    loop {
        let stream = connect(&served, &authority, None, &TLS13).await.unwrap();
        if certificate(&stream) == expected {
            break;
        }
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // An existing connection is served as before.
    held.write_all(get("/").as_bytes()).await.unwrap();
    let mut answer = [0; 13];
    held.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 ");
    keeper.abort();
    drop(held);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_handshake_is_aborted() {
    let berth = Berth::new().await;
    let directory = tempfile::tempdir().unwrap();
    let files = write(directory.path(), &Authority::new().sign());
    let bounds = Bounds { header_timeout: Duration::from_millis(200), ..wide() };
    let (served, _) = serve(&berth, files.clone(), bounds).await;
    assert_eq!(served.say("").await, "");
    served.stop().await;
    // Told to stop, the server does not wait for them.
    let (served, _) = serve(&berth, files, wide()).await;
    let began = Instant::now();
    let waiting = served.connect().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    served.stop().await;
    assert!(began.elapsed() < PATIENCE / 2);
    drop(waiting);
}

#[test]
fn files_that_do_not_fit_are_refused_with_their_names() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let fitting = write(directory.path(), &authority.sign());
    Tls::new(fitting.clone()).unwrap();
    let other = directory.path().join("other.pem");
    std::fs::write(&other, authority.sign().key).unwrap();
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let with = |change: fn(&mut Files, std::path::PathBuf), path: &Path| {
        let mut files = fitting.clone();
        change(&mut files, path.to_owned());
        Tls::new(files).unwrap_err()
    };
    let missing = directory.path().join("missing.pem");
    for path in [&empty, &missing] {
        let name = path.display().to_string();
        let output = with(|files, path| files.cert = path, path);
        assert!(output.starts_with(&format!("--tls-cert {name}")), "{output}");
        let output = with(|files, path| files.key = path, path);
        assert!(output.starts_with(&format!("--tls-key {name}")), "{output}");
        let output = with(|files, path| files.client_ca = Some(path), path);
        assert!(output.starts_with(&format!("--tls-client-ca {name}")), "{output}");
    }
    let output = with(|files, path| files.key = path, &other);
    assert!(output.contains("do not match"), "{output}");
}

#[test]
fn an_expired_certificate_is_an_error_of_the_configuration() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let mut signed = authority.sign_until(date_time_ymd(2024, 1, 1));
    // Of a chain, each certificate counts.
    signed.cert.push_str(&authority.pem);
    let files = write(directory.path(), &signed);
    let check = std::process::Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["config", "check", "--auth", "noauth2"])
        .arg("--tls-cert")
        .arg(&files.cert)
        .arg("--tls-key")
        .arg(&files.key)
        .output()
        .unwrap();
    let printed = String::from_utf8(check.stderr).unwrap();
    assert!(!check.status.success(), "{printed}");
    let file = files.cert.display();
    assert!(printed.contains(&format!("--tls-cert {file}: the certificate expired ")), "{printed}");
    assert_eq!(Tls::new(write(directory.path(), &authority.sign())).unwrap().expired(), None);
}

/// Half of what TLS needs must not mean to serve without it.
#[test]
fn half_of_the_files_are_refused() {
    for option in ["--tls-cert", "--tls-key", "--tls-client-ca"] {
        let given = ["berth", "serve", &format!("{option}=/nowhere.pem")].map(Into::into);
        let Command::Serve(config) = berth::cli::parse(&given).unwrap().command else { panic!() };
        let output = config.check().unwrap_err();
        assert_eq!(output, "TLS needs both --tls-cert and --tls-key", "{option}");
    }
}

/// Prometheus sends the token, and knows the authority.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_over_tls_to_those_who_have_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = write(directory.path(), &authority.sign());
    let token = directory.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let port = free_port();
    let admin = format!("127.0.0.1:{port}");
    let options = [
        ["--admin-listen", &admin],
        ["--admin-tls", "true"],
        ["--admin-token-file", token.to_str().unwrap()],
        ["--tls-cert", files.cert.to_str().unwrap()],
        ["--tls-key", files.key.to_str().unwrap()],
    ];
    let server = Server::spawn(directory.path(), options.as_flattened());
    until("it is ready", async || {
        let health = ["health", "--ready", "--config", "/dev/null", "--planner-listen", "none"];
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(health).args(["--listen", &server.address, "--tls-cert", "x"]);
        tokio::task::spawn_blocking(move || command.output().unwrap().status.success())
            .await
            .unwrap()
    })
    .await;

    let root = reqwest::Certificate::from_pem(authority.pem.as_bytes()).unwrap();
    let client = reqwest::Client::builder().add_root_certificate(root).build().unwrap();
    let status = async |path: &str, token: Option<&str>| {
        let request = client.get(format!("https://localhost:{port}{path}"));
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        request.send().await.unwrap().status().as_u16()
    };
    for path in ["/metrics", "/metrics/cloud"] {
        assert_eq!(status(path, Some("s3cret")).await, 200);
        assert_eq!(status(path, Some("wrong")).await, 401);
        assert_eq!(status(path, None).await, 401);
    }
    assert_eq!(status("/readyz", None).await, 200, "balancers have no token");
    assert!(server.client.get(format!("http://{admin}/readyz")).send().await.is_err());
    let mut probe = std::process::Command::new(env!("CARGO_BIN_EXE_berth"));
    probe.args(["health", "--ready", "--config", "/dev/null", "--planner-listen", "none"]);
    probe.args([
        "--listen",
        &admin,
        "--admin-listen",
        &admin,
        "--admin-tls",
        "true",
        "--tls-cert",
        "x",
    ]);
    let probed = tokio::task::spawn_blocking(move || probe.output().unwrap()).await.unwrap();
    assert!(probed.status.success(), "{probed:?}");

    // `berth debug` sends the token only to the server that has the certificate.
    let elsewhere = tempfile::tempdir().unwrap();
    let other = write(elsewhere.path(), &authority.sign());
    for (cert, is_shown) in [(&files.cert, true), (&other.cert, false)] {
        let file = directory.path().join("debug.tar.gz");
        let mut debug = std::process::Command::new(env!("CARGO_BIN_EXE_berth"));
        debug.args(["debug", "--interval", "1", "--config", "/dev/null", "--output"]).arg(&file);
        debug.args(["--admin-listen", &admin, "--admin-tls", "true", "--admin-token-file"]);
        debug.arg(&token).args(["--database-url", "postgres://u@127.0.0.1:1/d", "--tls-cert"]);
        debug.arg(cert).args(["--url", "http://127.0.0.1:1"]);
        let done = tokio::task::spawn_blocking(move || debug.output().unwrap()).await.unwrap();
        assert!(done.status.success(), "{done:?}");
        let metrics = &crate::debugging::unpacked(&file)["metrics-1.txt"];
        assert_eq!(metrics.contains("berth_ready 1"), is_shown, "{metrics}");
        assert_eq!(metrics.contains("is not that of --tls-cert"), !is_shown, "{metrics}");
    }
}
