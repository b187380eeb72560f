//! Servers that are killed in the middle of their work, or stopped regularly: acknowledged changes exist
//! afterwards, and usage adds up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::support::cloud::{Host, claim_body};
use crate::support::cluster::until;
use crate::support::process::{Server, signal};

const HOSTS: u128 = 4;

fn host(nth: u128) -> Host {
    Host(Uuid::from_u128(0xb000 + nth))
}

async fn build(server: &Server) {
    for nth in 0..HOSTS {
        let uuid = host(nth).0;
        let body = json!({"name": format!("host-{nth}"), "uuid": uuid});
        assert_eq!(server.ask("POST", "/resource_providers", Some(&body)).await.unwrap().0, 200);
        let body = json!({"resource_provider_generation": 0,
                          "inventories": {"VCPU": {"total": 100_000}}});
        let path = format!("/resource_providers/{uuid}/inventories");
        assert_eq!(server.ask("PUT", &path, Some(&body)).await.unwrap().0, 200);
    }
}

/// A load of claims.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    acknowledged: AtomicUsize,
}

impl Load {
    /// Waits until this number of further claims has been acknowledged.
    async fn wait_for(&self, claims: usize) {
        let before = self.acknowledged.load(Ordering::Relaxed);
        let enough = async || self.acknowledged.load(Ordering::Relaxed) >= before + claims;
        until("claims are acknowledged", enough).await;
    }
}

/// Claims until the load is stopped. Returns the consumers whose claims were acknowledged.
async fn claim_until(server: &Server, load: &Load, seed: u128) -> Vec<Uuid> {
    let mut acknowledged = Vec::new();
    let mut nth = 0;
    while !load.stop.load(Ordering::Relaxed) {
        nth += 1;
        let consumer = Uuid::new_v4();
        let hosts = [host((seed + nth) % HOSTS), host((seed + nth + 1) % HOSTS)];
        let body = claim_body(None, &hosts.map(|host| (host, "VCPU", 1)));
        let path = format!("/allocations/{consumer}");
        match server.ask("PUT", &path, Some(&body)).await {
            Ok((204, _)) => {
                acknowledged.push(consumer);
                load.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Ok((503, _)) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Ok((status, body)) => panic!("{status}: {body}"),
        }
    }
    acknowledged
}

/// Runs a load of eight clients over `disaster`, and returns the consumers whose claims were acknowledged.
async fn under_load(server: &Arc<Server>, disaster: impl AsyncFnOnce(&Load)) -> Vec<Uuid> {
    let load = Arc::new(Load::default());
    let clients: Vec<_> = (0..8)
        .map(|seed| {
            let (server, load) = (Arc::clone(server), Arc::clone(&load));
            tokio::spawn(async move { claim_until(&server, &load, seed).await })
        })
        .collect();
    load.wait_for(21).await;
    disaster(&load).await;
    load.stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for client in clients {
        acknowledged.extend(client.await.unwrap());
    }
    acknowledged
}

async fn assert_held(server: &Server, consumers: &[Uuid]) {
    for consumer in consumers {
        let (status, body) =
            server.ask("GET", &format!("/allocations/{consumer}"), None).await.unwrap();
        assert_eq!(status, 200);
        let held: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(held["allocations"].as_object().unwrap().len(), 2, "{consumer}: {held}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_postgresql_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let server = Arc::new(Server::start(directory.path()).await);
    build(&server).await;
    let acknowledged = under_load(&server, async |load: &Load| {
        for _ in 0..2 {
            let killed = server.postgres();
            signal("KILL", &killed);
            let file = server.directory.join("data/postgres/postmaster.pid");
            until("PostgreSQL is started again", async || {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                text.lines().next().is_some_and(|pid| pid != killed)
            })
            .await;
            server.ready().await;
            load.wait_for(21).await;
        }
    })
    .await;
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    assert_held(&server, &acknowledged).await;
    assert_eq!(Arc::into_inner(server).unwrap().faults(), "0 faults\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_berth_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let server = Arc::new(Server::start(directory.path()).await);
    build(&server).await;
    let acknowledged = under_load(&server, async |_: &Load| signal("KILL", &server.pid())).await;
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    drop(server);
    let server = Server::start(directory.path()).await;
    assert_held(&server, &acknowledged).await;
    assert_eq!(server.faults(), "0 faults\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_finishes_what_is_in_flight_and_stops_everything() {
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let mut server = Server::start(directory.path()).await;
    build(&server).await;
    let postgres = server.postgres();
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let body = claim_body(None, &[(host(0), "VCPU", 1)]);
            let request = server
                .client
                .put(format!("http://{}/allocations/{}", server.address, Uuid::new_v4()))
                .header("x-auth-token", "admin")
                .header("openstack-api-version", "placement 1.39")
                .json(&body);
            tokio::spawn(async move { request.send().await.map(|answer| answer.status()) })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(5)).await;
    signal("TERM", &server.pid());
    let mut answered = 0_i64;
    for request in requests {
        // Requests without a connection so far are refused; the others are served.
        if let Ok(status) = request.await.unwrap() {
            assert_eq!(status, 204);
            answered += 1;
        }
    }
    assert!(server.wait().success());
    assert!(!std::path::Path::new(&format!("/proc/{postgres}")).exists(), "PostgreSQL stopped too");

    let server = Server::start(directory.path()).await;
    let path = format!("/resource_providers/{}/usages", host(0).0);
    let usages: Value =
        serde_json::from_str(&server.ask("GET", &path, None).await.unwrap().1).unwrap();
    assert!(usages["usages"]["VCPU"].as_i64().unwrap() >= answered, "data survives a restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_stops_at_once() {
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let mut server = Server::start(directory.path()).await;
    // A request whose body never comes keeps the first one waiting.
    let mut stuck = TcpStream::connect(&server.address).await.unwrap();
    let head = "POST /resource_providers HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
                content-type: application/json\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n";
    stuck.write_all(head.as_bytes()).await.unwrap();
    stuck.read_exact(&mut [0; 25]).await.unwrap();
    signal("TERM", &server.pid());
    until("it stops listening", async || TcpStream::connect(&server.address).await.is_err()).await;
    signal("TERM", &server.pid());
    assert_eq!(server.ended().await.0, Some(130));
}

/// As root, the private PostgreSQL runs as another user, who must be able to get there.
fn open_to_all(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}
