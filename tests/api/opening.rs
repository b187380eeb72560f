//! A server that is started while its database is away: it reports that, waits, and serves once the database is
//! available.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::support::cluster::until;
use crate::support::postgres::{database, empty_database};
use crate::support::process::{Server, free_port, signal};
use crate::support::served::PATIENCE;

/// Returns the URL of a database at a port of this machine.
fn url(options: &PgConnectOptions, port: u16) -> String {
    let mut url = options.to_url_lossy();
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(port)).unwrap();
    url.to_string()
}

/// From now on connections to this port lead to the cluster.
async fn lead(port: u16, options: &PgConnectOptions) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let options = options.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Some(path) = options.get_socket() {
                let path = path.join(format!(".s.PGSQL.{}", options.get_port()));
                join(stream, UnixStream::connect(path).await.unwrap());
            } else {
                let address = (options.get_host(), options.get_port());
                join(stream, TcpStream::connect(address).await.unwrap());
            }
        }
    });
}

fn join(mut one: TcpStream, mut other: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    tokio::spawn(async move { drop(copy_bidirectional(&mut one, &mut other).await) });
}

/// Waits for the first answer.
async fn first_answer(server: &Server) -> (u16, String) {
    let began = Instant::now();
    loop {
        match server.ask("GET", "/resource_providers", None).await {
            Ok(answer) => return answer,
            Err(_) if began.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error}; the log: {}", server.log()),
        }
    }
}

async fn status_of(server: &Server, address: &str, path: &str) -> (u16, Option<String>, String) {
    let request = server.client.get(format!("http://{address}{path}"));
    let answer = request.header("x-auth-token", "admin").send().await.unwrap();
    let retry_after = answer.headers().get("retry-after").map(|it| it.to_str().unwrap().to_owned());
    (answer.status().as_u16(), retry_after, answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_waited_for() {
    let database = database().await;
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let planner = format!("127.0.0.1:{}", free_port());
    let admin = format!("127.0.0.1:{}", free_port());
    let url = url(&database, port);
    let options = ["--database-url", &url, "--planner-listen", &planner, "--admin-listen", &admin];
    let began = Instant::now();
    let mut server = Server::spawn(folder.path(), &options);

    let (status, body) = first_answer(&server).await;
    assert_eq!(status, 503, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let error = &body["errors"][0];
    assert_eq!(
        (&error["status"], &error["code"]),
        (&json!(503), &json!("placement.undefined_code"))
    );
    assert!(error["request_id"].as_str().unwrap().starts_with("req-"), "{error}");
    let written = json!({"name": "host"});
    let refused = server.ask("POST", "/resource_providers", Some(&written)).await.unwrap();
    assert_eq!(refused.0, 503, "{}", refused.1);
    let (status, retry_after, _) = status_of(&server, &server.address, "/").await;
    assert_eq!((status, retry_after.as_deref()), (503, Some("1")));
    for path in ["/", "/v1/plans"] {
        let (status, retry_after, body) = status_of(&server, &planner, path).await;
        assert_eq!((status, retry_after.as_deref()), (503, Some("1")), "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["code"], &body["title"]), (&json!(503), &json!("Service Unavailable")));
    }
    for (path, expected) in [("/healthz", 200), ("/readyz", 503), ("/metrics", 200)] {
        let (status, _, body) = status_of(&server, &admin, path).await;
        assert_eq!(status, expected, "{path}: {body}");
    }

    lead(port, &database).await;
    server.ready().await;
    server.logged("the database is available").await;
    let log = server.log();
    let lines = log.matches("waiting for it").count();
    assert!((1..=1 + began.elapsed().as_secs() / 60).contains(&(lines as u64)), "{log}");
    assert_eq!(server.ask("POST", "/resource_providers", Some(&written)).await.unwrap().0, 200);
    assert_eq!(status_of(&server, &planner, "/").await.0, 200);
    assert_eq!(status_of(&server, &admin, "/readyz").await.0, 200);
    signal("TERM", &server.pid());
    assert_eq!(server.ended().await.0, Some(0));
}

/// Whether new sessions may write, for one database.
async fn set_read_only(options: &PgConnectOptions, setting: &str) {
    let mut conn = PgConnection::connect_with(options).await.unwrap();
    let name = options.get_database().unwrap();
    let statement = format!(
        "begin read write; alter database {name} set default_transaction_read_only = {setting}; commit"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// Waits until `/readyz` answers this status, and returns what it says.
async fn until_readyz(server: &Server, admin: &str, expected: u16) -> String {
    let began = Instant::now();
    loop {
        let (status, _, body) = status_of(server, admin, "/readyz").await;
        if status == expected {
            return body;
        }
        assert!(began.elapsed() < PATIENCE, "{status}: {body}; the log: {}", server.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A database that takes no writes is waited for at the start. Later, reads go on, and the server is not ready until
/// its connections can write again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_ready_while_its_database_takes_writes() {
    let database = database().await;
    let folder = tempfile::tempdir().unwrap();
    let (port, admin) = (free_port(), format!("127.0.0.1:{}", free_port()));
    lead(port, &database).await;
    let url = url(&database, port);
    set_read_only(&database, "on").await;
    let server = Server::spawn(folder.path(), &["--database-url", &url, "--admin-listen", &admin]);
    assert_eq!(first_answer(&server).await.0, 503);
    until_readyz(&server, &admin, 503).await;
    server.logged("default_transaction_read_only is on (source: database)").await;

    set_read_only(&database, "off").await;
    until_readyz(&server, &admin, 200).await;
    let host = json!({"name": "host"});
    assert_eq!(server.ask("POST", "/resource_providers", Some(&host)).await.unwrap().0, 200);

    set_read_only(&database, "on").await;
    let message = until_readyz(&server, &admin, 503).await;
    assert!(message.contains("default_transaction_read_only"), "{message}");
    assert_eq!(server.ask("GET", "/resource_providers", None).await.unwrap().0, 200);
    let other = json!({"name": "other"});
    assert_eq!(server.ask("POST", "/resource_providers", Some(&other)).await.unwrap().0, 503);

    set_read_only(&database, "off").await;
    until_readyz(&server, &admin, 200).await;
    assert_eq!(server.ask("POST", "/resource_providers", Some(&other)).await.unwrap().0, 200);
}

/// Whether it has begun to look after SIGTERM, as the system says.
fn obeys(server: &Server) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << 14) != 0
}

/// One that takes connections and says nothing is away, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_server_stops_on_a_signal() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap();
    for (url, is_asked) in [
        (format!("postgres://berth@{silent}/berth"), true),
        (format!("postgres://berth@{silent}/berth"), false),
        (format!("postgres://berth@127.0.0.1:{}/berth", free_port()), true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::spawn(folder.path(), &["--database-url", &url]);
        if is_asked {
            assert_eq!(first_answer(&server).await.0, 503);
        } else {
            let began = Instant::now();
            while !obeys(&server) && began.elapsed() < PATIENCE {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        signal("TERM", &server.pid());
        let (code, log) = server.ended().await;
        assert_eq!(code, Some(0), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_has_the_configured_limit() {
    for (wait, words) in [("0", "Connection refused"), ("1", "gave up after 1s (--database-wait)")]
    {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("postgres://berth:s3cret@127.0.0.1:{}/berth", free_port());
        let options = ["--database-url", &url, "--database-wait", wait];
        let (code, log) = Server::spawn(folder.path(), &options).ended().await;
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains(words) && !log.contains("s3cret"), "{log}");
        assert_eq!(log.contains("waiting for it"), wait != "0", "{log}");
    }
}

/// An error that waiting cannot cure ends the wait, even later.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_and_is_not_migrated_ends_the_waiting() {
    let database = empty_database().await;
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut server = Server::spawn(folder.path(), &["--database-url", &url(&database, port)]);
    assert_eq!(first_answer(&server).await.0, 503);
    lead(port, &database).await;
    let (code, log) = server.ended().await;
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("berth db migrate"), "{log}");
}

/// Containers start all at once, on a database without migrations.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_migrate_at_the_start_with_the_option() {
    let database = empty_database().await;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let url = database.to_url_lossy().to_string();
    let options = ["--database-url", &url, "--database-migrate"];
    let servers = folders.each_ref().map(|folder| Server::spawn(folder.path(), &options));
    for server in &servers {
        server.ready().await;
    }
    let applied = |server: &Server| server.log().matches("applied: ").count();
    until("a migration is logged", async || servers.iter().map(applied).sum::<usize>() > 0).await;
}

/// An operator can put right what is missing or wrong in the cluster, so it is waited for; the log
/// says what it is, because it may be a mistake in the URL.
#[tokio::test(flavor = "multi_thread")]
async fn faults_that_an_operator_can_mend_are_logged_and_retried() {
    let database = database().await;
    let name = database.get_database().unwrap();
    let mut conn =
        PgConnection::connect_with(&database.clone().database("postgres")).await.unwrap();
    let rename = |from: &str, to: &str| {
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("alter database {from} rename to {to}")))
    };
    let elsewhere = format!("{name}0000");
    rename(name, &elsewhere).execute(&mut conn).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = database.to_url_lossy().to_string();
    let server = Server::spawn(folder.path(), &["--database-url", &url]);
    assert_eq!(first_answer(&server).await.0, 503);
    let line = server.logged("waiting for it").await;
    assert!(line.contains("ERROR") && line.contains("does not exist"), "{line}");
    rename(&elsewhere, name).execute(&mut conn).await.unwrap();
    server.ready().await;
}
