//! Several addresses at once, Unix sockets among them, and the health check on them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use berth::cli::health::{Probe, health};
use berth::http::edge::bounds::Bounds;
use berth::http::edge::listener::{Endpoint, Listener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::support::app::Berth;
use crate::support::process::free_port;
use crate::support::served::{Served, converse, get, rest, wide};

fn unix(path: &Path) -> Endpoint {
    Endpoint::Unix(path.to_owned())
}

/// Asks as `berth health` does, which waits for answers.
async fn ask(endpoint: &Endpoint) -> std::io::Result<String> {
    let endpoint = endpoint.clone();
    tokio::task::spawn_blocking(move || health(&endpoint, false, Probe::Answers)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_listeners_are_served_and_closed() {
    let berth = Berth::new().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("berth.sock");
    let local: Endpoint = "127.0.0.1:0".parse().unwrap();
    let served = Served::at(&berth, &[local.clone(), unix(&path), local], wide()).await;
    let endpoints = served.endpoints.clone();
    for endpoint in &endpoints {
        ask(endpoint).await.unwrap();
    }
    assert!(served.say(get("/")).await.starts_with("HTTP/1.1 200 "));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let stream = UnixStream::connect(&path).await.unwrap();
    assert!(
        converse(stream, get("/resource_providers").as_bytes()).await.starts_with("HTTP/1.1 200 ")
    );

    // The stop does not wait for idle connections.
    let mut idle = UnixStream::connect(&path).await.unwrap();
    served.stop().await;
    assert_eq!(rest(&mut idle).await, "");
    assert!(!path.exists());
    for endpoint in &endpoints {
        ask(endpoint).await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_a_socket_is_replaced_only_without_a_listener() {
    let berth = Berth::new().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("berth.sock");
    // A killed server leaves this behind.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let served = Served::at(&berth, &[unix(&path)], wide()).await;
    Listener::bind(&unix(&path)).await.unwrap_err();
    ask(&unix(&path)).await.unwrap();
    served.stop().await;
    // A file that is not a socket is not replaced.
    std::fs::write(&path, "precious").unwrap();
    Listener::bind(&unix(&path)).await.unwrap_err();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_check_knows_the_servers_file() {
    let berth = Berth::new().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("berth.sock");
    let closed = format!("127.0.0.1:{}", free_port());
    let served = Served::at(&berth, &[unix(&path)], wide()).await;
    let file = directory.path().join("berth.toml");
    let check = async |listen: String| {
        std::fs::write(&file, format!("max-connections = 5\nlisten = {listen}\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["health", "--config"]).arg(&file).env_remove("BERTH_LISTEN");
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    let socket = unix(&path).to_string();
    assert!(check(format!("{socket:?}")).await.status.success());
    assert!(check(format!("[{socket:?}]")).await.status.success());
    let one_is_closed = check(format!("[{socket:?}, {closed:?}]")).await;
    assert_eq!(one_is_closed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&one_is_closed.stderr).contains(&closed));
    served.stop().await;
}

/// Half a service would look like a whole one.
#[test]
fn a_server_whose_planner_finds_its_port_busy_does_not_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["serve", "--listen", "127.0.0.1:0", "--planner-listen", &address])
        .args(["--database-url", "postgres://127.0.0.1:1/none"])
        .env_clear()
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(words.contains(&format!("cannot listen on {address} (--planner-listen)")), "{words}");
}

async fn admin_response(served: &Served, path: &str) -> String {
    converse(
        tokio::net::TcpStream::connect(served.admin_address()).await.unwrap(),
        get(path).as_bytes(),
    )
    .await
}

/// The health check gets its response however busy the server is.
#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_have_connections_of_their_own() {
    let berth = Berth::new().await;
    let served = Served::with_admin(berth.app(), Bounds { connections: 1, ..wide() }).await;
    let mut busy = served.connect().await;
    let head = "POST /resource_providers HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
                content-type: application/json\r\ncontent-length: 15\r\n\
                expect: 100-continue\r\n\r\n";
    busy.write_all(head.as_bytes()).await.unwrap();
    busy.read_exact(&mut [0; 25]).await.unwrap();
    for (path, status) in [
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/", 404),
        ("/resource_providers", 404),
    ] {
        let answer = admin_response(&served, path).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    let metrics = admin_response(&served, "/metrics").await;
    for line in [
        "# TYPE berth_connections_open gauge",
        "berth_connections_open 1",
        "berth_connections_idle 0",
        "berth_requests_in_flight 1",
        "berth_connections_closed_for_room_total 0",
        "berth_panics_total 0",
        "berth_accept_errors_total{reason=\"scarce\"} 0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
    // The whole process counts these, so other tests may have raised the number.
    let inconsistencies =
        metrics.lines().find_map(|it| it.strip_prefix("berth_inconsistencies_total "));
    assert!(inconsistencies.is_some_and(|it| it.parse::<u64>().is_ok()), "{metrics}");
    drop(busy);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_database_lives_and_is_not_ready() {
    let berth = Berth::new().await;
    let served = Served::with_admin(berth.app(), wide()).await;
    let name = berth.database.get_database().unwrap().to_owned();
    let options = berth.database.clone().database("postgres");
    let mut elsewhere =
        <sqlx::PgConnection as sqlx::Connection>::connect_with(&options).await.unwrap();
    let away = format!(
        "alter database {name} allow_connections false;
         select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(away)).execute(&mut elsewhere).await.unwrap();
    assert!(admin_response(&served, "/readyz").await.starts_with("HTTP/1.1 503 "));
    assert!(admin_response(&served, "/healthz").await.starts_with("HTTP/1.1 200 "));
    assert!(admin_response(&served, "/metrics").await.starts_with("HTTP/1.1 200 "));
    let back = format!("alter database {name} allow_connections true");
    sqlx::raw_sql(sqlx::AssertSqlSafe(back)).execute(&mut elsewhere).await.unwrap();
    assert!(admin_response(&served, "/readyz").await.starts_with("HTTP/1.1 200 "));
    served.stop().await;
}

#[test]
fn too_few_descriptors_are_reported_at_the_start() {
    let check = |most: &str| {
        let words = format!("ulimit -n 256 && exec \"$0\" config check --max-connections {most}");
        let mut command = Command::new("sh");
        command.args(["-c", &words, env!("CARGO_BIN_EXE_berth")]).env_clear();
        command.output().unwrap()
    };
    let message = check("1000");
    assert!(message.status.success());
    let words = String::from_utf8_lossy(&message.stderr).into_owned();
    assert!(words.contains("256 file descriptors") && words.contains("LimitNOFILE"), "{words}");
    assert_eq!(String::from_utf8_lossy(&check("50").stderr), "");
}
