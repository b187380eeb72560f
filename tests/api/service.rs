//! The surroundings of the API: request ids, a path prefix, and an unavailable database.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use berth::http::app::Options;
use berth::http::edge::listener::Peer;
use berth::http::{self, Api};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::postgres;
use crate::support::process::{Server, signal};

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_a_request_id_of_its_own() {
    let berth = Berth::new().await;
    let one = berth.get("/").await;
    let theirs = format!("req-{}", Uuid::new_v4());
    let other = berth.header("x-openstack-request-id", &theirs).get("/nowhere").await.expect(404);
    let id = |answer: &crate::support::app::ApiResponse| {
        answer.headers["x-openstack-request-id"].to_str().unwrap().to_owned()
    };
    assert!(id(&one).starts_with("req-"));
    assert_ne!(id(&one), id(&other));
    assert_ne!(id(&other), theirs, "a caller's own id goes to the log, not into the answer");
    assert_eq!(other.json()["errors"][0]["request_id"], id(&other));
    assert!(other.detail().contains("could not be found"));
    for answer in [one, other] {
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
}

/// The future of a request is moved from layer to layer, so it is small; the state of an API and its handlers is
/// elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_takes_little_room() {
    let app = Arc::new(Berth::new().await.app());
    for api in [Api::Placement, Api::Planner] {
        let connection = http::Connection { api, peer: Peer::Unix, secure: false };
        let answer = http::respond(
            connection,
            Arc::clone(&app),
            Request::get("/").header("host", "localhost").body(Body::empty()).unwrap(),
        );
        let size = size_of_val(&answer);
        assert!(size <= 4096, "{size} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_served_below_a_path_too() {
    let options = Options { path_prefix: "/placement".to_owned(), ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    for prefix in ["", "/placement"] {
        berth.get(&format!("{prefix}/")).await.expect(200);
        let uuid = Uuid::new_v4();
        let body = json!({"name": format!("host{prefix}"), "uuid": uuid});
        let made = berth.post(&format!("{prefix}/resource_providers"), body).await.expect(200);
        let location = made.headers["location"].to_str().unwrap();
        assert_eq!(location, format!("http://localhost{prefix}/resource_providers/{uuid}"));
        let links = made.json()["links"].clone();
        assert_eq!(links[0]["href"], format!("{prefix}/resource_providers/{uuid}"));
    }
    berth.get("/placement").await.expect(200);
    berth.get("/placements/resource_providers").await.expect(404);
}

/// 503 with a time to come back at, within bounds, nothing half-written, and whole again at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_database_is_reported_until_it_returns() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let name = berth.database.get_database().unwrap().to_owned();
    let mut elsewhere = {
        let options = berth.database.clone().database("postgres");
        <sqlx::PgConnection as sqlx::Connection>::connect_with(&options).await.unwrap()
    };
    let away = format!(
        "alter database {name} allow_connections false;
         select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(away)).execute(&mut elsewhere).await.unwrap();
    let began = Instant::now();
    let consumer = Uuid::new_v4();
    for answer in [
        berth.get(&format!("/resource_providers/{}", host.0)).await,
        berth.claim(consumer, None, &[(host, "VCPU", 1)]).await,
        berth.get(&format!("/allocations/{consumer}")).await,
        berth.post("/resource_providers", json!({"name": "other"})).await,
    ] {
        let answer = answer.expect(503);
        assert!(answer.headers.contains_key("retry-after"));
        assert!(!answer.text().contains("database \""), "{}", answer.text());
    }
    assert!(began.elapsed() < Duration::from_mins(1));
    berth.get("/").await.expect(200);

    let back = format!("alter database {name} allow_connections true");
    sqlx::raw_sql(sqlx::AssertSqlSafe(back)).execute(&mut elsewhere).await.unwrap();
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    assert_eq!(berth.usages(host).await, json!({"VCPU": 1}));
    berth.post("/resource_providers", json!({"name": "other"})).await.expect(200);
}

/// Neither half a head nor a request that does not end keeps the process, and its PostgreSQL stops
/// with it.
#[tokio::test(flavor = "multi_thread")]
async fn the_process_ends_after_the_grace() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--shutdown-grace", "60"];
    let mut server = Server::start_with(directory.path(), &options).await;
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    signal("TERM", &server.pid());
    let status = tokio::task::block_in_place(|| server.wait());
    assert!(status.success(), "{status}");
    assert!(began.elapsed() < Duration::from_secs(50), "it waits for half a head");
    assert!(!directory.path().join("data/postgres/postmaster.pid").exists());

    let options = ["--shutdown-grace", "1"];
    let mut server = Server::start_with(directory.path(), &options).await;
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    let head = "POST /resource_providers HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\n\
                content-type: application/json\r\ncontent-length: 15\r\n\
                expect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.read_exact(&mut [0; 25]).await.unwrap();
    signal("TERM", &server.pid());
    let status = tokio::task::block_in_place(|| server.wait());
    assert!(status.success(), "{status}");
    assert!(!directory.path().join("data/postgres/postmaster.pid").exists());
    let log = std::fs::read_to_string(directory.path().join("berth.log")).unwrap();
    assert!(log.contains("1 requests were aborted") && log.ends_with("stopped\n"), "{log}");
}

/// The private PostgreSQL runs with the programs that `BERTH_POSTGRES_BIN` names and with no others:
/// here with those that are found without it, by way of scripts that leave a trace.
#[test]
fn the_operator_names_the_programs_of_the_private_postgresql() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let programs = directory.path().join("programs");
    let serve = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--planner-listen", "none", "--data-dir"])
            .arg(directory.path().join("data"))
            .env("BERTH_POSTGRES_BIN", &programs)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    };
    let output = serve().output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{words}");
    let where_looked = format!("are not in {}", programs.display());
    assert!(words.contains("BERTH_POSTGRES_BIN") && words.contains(&where_looked), "{words}");

    let installed = installed_programs();
    std::fs::create_dir(&programs).unwrap();
    for name in ["postgres", "initdb", "pg_ctl"] {
        let trace = directory.path().join(name);
        std::fs::write(&trace, "").unwrap();
        std::fs::set_permissions(&trace, Permissions::from_mode(0o666)).unwrap();
        let (real, trace) = (installed.join(name), trace.display().to_string());
        let script = format!("#!/bin/sh\necho \"$@\" >>{trace}\nexec {} \"$@\"\n", real.display());
        std::fs::write(programs.join(name), script).unwrap();
        std::fs::set_permissions(programs.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    let mut server = serve().spawn().unwrap();
    let began = Instant::now();
    for name in ["initdb", "pg_ctl", "postgres"] {
        while !std::fs::read_to_string(directory.path().join(name)).unwrap().contains("-D") {
            assert!(began.elapsed() < Duration::from_mins(2), "{name} did not run from there");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&server),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    server.wait().unwrap();
}

/// Returns the folder of the server programs that the other tests run.
fn installed_programs() -> PathBuf {
    if let Some(named) = std::env::var_os("BERTH_POSTGRES_BIN") {
        return named.into();
    }
    let beside = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let path = std::env::var_os("PATH").unwrap();
    let mut candidates: Vec<_> = beside.map(|entry| entry.path().join("bin")).collect();
    candidates.extend(std::env::split_paths(&path));
    candidates.into_iter().find(|directory| directory.join("initdb").is_file()).unwrap()
}

/// Names that clients choose do not write lines of the log, or move the cursor of its reader.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_writes_a_line_of_the_log() {
    for format in ["human", "json"] {
        let directory = tempfile::tempdir().unwrap();
        let options = ["--log-format", format, "--log", "debug"];
        let mut server = Server::start_with(directory.path(), &options).await;
        let name = "evil\u{1b}[2J\u{9b}31m\u{202e}\r\nINFO forged";
        let body = json!({ "name": name });
        let (status, _) = server.ask("POST", "/resource_providers", Some(&body)).await.unwrap();
        assert_eq!(status, 200);
        // Says the name in its refusal.
        server.ask("POST", "/resource_providers", Some(&body)).await.unwrap();
        let path = "/traits/CUSTOM%0D%0AINFO%20forged%1B";
        server.ask("PUT", path, None).await.unwrap();
        signal("TERM", &server.pid());
        tokio::task::block_in_place(|| server.wait());
        let log = std::fs::read_to_string(directory.path().join("berth.log")).unwrap();
        let acts = |it: char| it != '\n' && (it.is_control() || it == '\u{202e}');
        assert!(!log.contains(acts), "{log:?}");
        assert!(!log.lines().any(|line| line.starts_with("INFO forged")), "{log}");
    }
}
