//! The log: a reader that stalls, and the journal of systemd.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::ConnectOptions;

use crate::support::cluster::{Cluster, until};
use crate::support::process::{Server, free_port, signal};
use crate::support::served::PATIENCE;

/// A server whose database is away: it answers every request with 503, and logs each.
struct Logging {
    child: Child,
    address: String,
    admin: String,
    client: reqwest::Client,
}

impl Logging {
    async fn to(stderr: impl Into<Stdio>, options: &[&str], journal: Option<&str>) -> Self {
        let (address, admin) =
            (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command
            .args(["serve", "--listen", &address, "--planner-listen", "none"])
            .args(["--admin-listen", &admin, "--database-url", "postgres://127.0.0.1:1/none"])
            .args(options)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        command.envs(journal.map(|stream| ("JOURNAL_STREAM", stream)));
        let child = command.spawn().unwrap();
        drop(command);
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        let server = Self { child, address, admin, client };
        let began = Instant::now();
        while server.get(&server.address, "/healthz").await.is_none() {
            assert!(began.elapsed() < PATIENCE, "it does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server
    }

    /// Status and body of an answer.
    async fn get(&self, address: &str, path: &str) -> Option<(u16, String)> {
        let answer = self.client.get(format!("http://{address}{path}")).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.unwrap()))
    }

    /// Asks for as much as makes `count` long lines in the log.
    async fn log_much(&self, count: usize) {
        let path = format!("/resource_providers?name={}", "x".repeat(60_000));
        for _ in 0..count {
            assert_eq!(self.get(&self.address, &path).await.unwrap().0, 503);
        }
    }

    async fn dropped(&self) -> u64 {
        let metrics = self.get(&self.admin, "/metrics").await.unwrap().1;
        let name = "berth_log_lines_dropped_total ";
        metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
    }

    async fn ended(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Lines are dropped and counted instead, and the log says where they are missing.
#[tokio::test(flavor = "multi_thread")]
async fn an_unread_log_does_not_stop_the_server() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut server = Logging::to(writer, &[], None).await;
    assert_eq!(server.dropped().await, 0);
    server.log_much(150).await;
    let dropped = server.dropped().await;
    assert!(dropped > 0);

    let notice = format!("{dropped} log lines were dropped here, because the log was not read");
    let (sender, found) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        sender.send(lines.by_ref().any(|line| line.contains(&notice))).unwrap();
        // Stands still again, with the pipe open.
        may_go_on.recv().unwrap_err();
    });
    assert!(tokio::task::block_in_place(|| found.recv_timeout(PATIENCE).unwrap()));

    server.log_much(150).await;
    assert!(server.dropped().await > dropped);
    signal("TERM", &server.child.id().to_string());
    assert_eq!(server.ended().await, Some(0));
    drop(go_on);
}

/// The journal takes the priority from the beginning of a line, and notes the time itself.
#[tokio::test(flavor = "multi_thread")]
async fn lines_for_the_journal_have_a_priority_and_no_time() {
    for (format, is_json) in [("human", false), ("json", true)] {
        let (journal, stderr) = UnixStream::pair().unwrap();
        let stat = File::from(OwnedFd::from(stderr.try_clone().unwrap())).metadata().unwrap();
        let stream = format!("{}:{}", stat.st_dev(), stat.st_ino());
        let server =
            Logging::to(OwnedFd::from(stderr), &["--log-format", format], Some(&stream)).await;
        server.get(&server.address, "/resource_providers").await.unwrap();
        server.get(&server.address, "/healthz").await.unwrap();
        journal.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut lines = BufReader::new(journal).lines().map(Result::unwrap);
        let away = lines.by_ref().find(|line| line.contains("waiting for it")).unwrap();
        let request = lines.by_ref().find(|line| line.contains("/resource_providers")).unwrap();
        assert!(away.starts_with(if is_json { "<3>{" } else { "<3>ERROR " }), "{away}");
        assert!(request.starts_with(if is_json { "<6>{" } else { "<6> INFO " }), "{request}");
        let took = request.split("took_ms").nth(1).unwrap();
        let took: String = took
            .chars()
            .skip_while(|it| !it.is_ascii_digit())
            .take_while(|it| *it != ' ' && *it != ',')
            .collect();
        assert_eq!(took.split('.').nth(1).unwrap().len(), 1, "{request}");
        assert!(!request.contains("healthz"));
    }
}

/// Clients of the private PostgreSQL are stopped before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_normal_stop_warns_of_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for pause in [0, 300, 700, 1000] {
        let options = ["--log-format", "json", "--planner-hold-ttl", "4"];
        let mut server = Server::start_with(directory.path(), &options).await;
        // The server looks for changes every second.
        tokio::time::sleep(Duration::from_millis(pause)).await;
        signal("TERM", &server.pid());
        let (code, log) = server.ended().await;
        assert_eq!(code, Some(0), "{log}");
        // A slow machine may have warned of a timeout before.
        let (_, stop) = log.split_once("finishing the requests in flight").unwrap();
        assert!(stop.ends_with('\n') && stop.contains("\"message\":\"stopped\""), "{log}");
        for level in ["WARN", "ERROR"] {
            assert!(!stop.contains(&format!("\"level\":\"{level}\"")), "{log}");
        }
    }
}

/// `pg_stat_activity` no longer shows what waited when a write is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_keeps_rows_locked_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let host = json!({"name": "host", "uuid": "8f5ba3a4-9e8e-4f0d-b6b5-0c4f4f6f2f01"});
    assert_eq!(server.ask("POST", "/resource_providers", Some(&host)).await.unwrap().0, 200);
    let mut session = server.session().await;
    sqlx::raw_sql("begin; select from providers for update").execute(&mut session).await.unwrap();
    let pid: i32 =
        sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut session).await.unwrap();
    let traits = "/resource_providers/8f5ba3a4-9e8e-4f0d-b6b5-0c4f4f6f2f01/traits";
    let none = json!({"resource_provider_generation": 0, "traits": []});
    let refused = server.ask("PUT", traits, Some(&none)).await.unwrap();
    assert_eq!(refused.0, 503, "{refused:?}");
    let named = format!(
        "writes were refused because a session keeps rows locked writes=1 \
                         session=\"process {pid} of berth ("
    );
    let line = server.logged(&named).await;
    assert!(line.contains("tables=\"providers\" seconds="), "{line}");
}

/// A log line for each attempt would hide everything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_logged_once_a_minute() {
    let cluster = Cluster::new(&[]).await;
    let url = cluster.options().to_url_lossy().to_string();
    let migrated = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["db", "migrate", "--database-url", &url])
        .output()
        .unwrap();
    assert!(migrated.status.success(), "{migrated:?}");
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_with(directory.path(), &["--database-url", &url]).await;
    let began = Instant::now();
    cluster.stop("fast");
    for _ in 0..20 {
        assert_eq!(server.ask("GET", "/resource_providers", None).await.unwrap().0, 503);
    }
    cluster.start();
    until("the end is logged", async || {
        server.ready().await;
        server.log().contains("refreshing the world succeeds again")
    })
    .await;
    let minutes = began.elapsed().as_secs() / 60;
    let log = server.log();
    let failed = log.matches("refreshing the world failed").count() as u64;
    assert!((1..=1 + minutes).contains(&failed), "{log}");
}
