//! `berth check` and `berth check --upgrade`: what they find in databases that are well and in ones that are not.

use std::process::Command;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use berth::store::condition;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cluster::{Cluster, until};
use crate::support::postgres::{database, empty_database};
use crate::support::process::{Server, free_port};

async fn execute(options: &PgConnectOptions, statements: &str) {
    let mut conn = PgConnection::connect_with(options).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut conn).await.unwrap();
}

/// The findings of a command, and its exit code.
async fn findings(command: &[&str], arguments: &[&str]) -> (Vec<Value>, Option<i32>) {
    let mut berth = Command::new(env!("CARGO_BIN_EXE_berth"));
    berth.args(command).args(["--format", "json"]).args(arguments);
    let output = tokio::task::spawn_blocking(move || berth.output().unwrap()).await.unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {message}"));
    (found["findings"].as_array().unwrap().clone(), output.status.code())
}

async fn over(command: &[&str], options: &PgConnectOptions) -> (Vec<Value>, Option<i32>) {
    findings(command, &["--database-url", options.to_url_lossy().as_str()]).await
}

/// The verdict about a subject, and what was found.
#[track_caller]
fn about<'a>(found: &'a [Value], subject: &str) -> (&'a str, &'a str) {
    let about = found.iter().find(|finding| finding["subject"] == subject);
    let about = about.unwrap_or_else(|| panic!("nothing about {subject}: {found:?}"));
    (about["verdict"].as_str().unwrap(), about["found"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_well_has_no_faults() {
    let (found, _) = over(&["check"], &database().await).await;
    for subject in [
        "configuration",
        "database",
        "clock",
        "schema",
        "replication",
        "transactions",
        "change log",
    ] {
        assert_eq!(about(&found, subject).0, "ok", "{found:?}");
    }
    assert_eq!(about(&found, "keystone").0, "skipped");
    let (found, code) = over(&["check", "--upgrade"], &database().await).await;
    for subject in ["configuration", "database", "schema", "inventories", "consistency"] {
        assert_eq!(about(&found, subject).0, "ok", "{found:?}");
    }
    assert_eq!(code, Some(0));
}

/// Tests run without fsync; no other server should.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_lose_data_is_a_fault() {
    let cluster = Cluster::new(&["fsync=off"]).await;
    let (found, code) = over(&["check"], &cluster.options()).await;
    assert_eq!(about(&found, "durability").0, "failure");
    assert_eq!(code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_database_are_named_with_advice() {
    let (found, code) = over(&["check"], &empty_database().await).await;
    assert_eq!(about(&found, "schema").0, "warning");
    let schema = found.iter().find(|finding| finding["subject"] == "schema").unwrap();
    assert!(schema["advice"].as_str().unwrap().contains("berth db migrate"), "{schema}");
    assert!(code == Some(0) || about(&found, "durability").0 == "failure");

    let lacking = database().await;
    execute(&lacking, "drop view allocations").await;
    let (found, code) = over(&["check"], &lacking).await;
    let (verdict, words) = about(&found, "schema");
    assert!(verdict == "failure" && words.contains("view allocations"), "{words}");
    assert_eq!(code, Some(2));

    let nowhere = ["--database-url", "postgres://127.0.0.1:1/none"];
    let (found, code) = findings(&["check"], &nowhere).await;
    assert_eq!((about(&found, "database").0, code), ("failure", Some(2)));
    assert_eq!(about(&found, "configuration").0, "ok", "the rest is looked at all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_warned_of_what_is_oversubscribed_or_broken() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 6)]).await.expect(204);
    execute(&berth.database, "update inventories set total = 4").await;
    let (found, code) = over(&["check", "--upgrade"], &berth.database).await;
    let (verdict, words) = about(&found, "inventories");
    assert_eq!(verdict, "warning");
    assert!(words.contains(&format!("VCPU of provider {}: 6 used, capacity 4", host.0)), "{words}");
    assert_eq!((about(&found, "consistency").0, code), ("ok", Some(0)));

    execute(&berth.database, "update inventories set used = 1").await;
    let (found, code) = over(&["check", "--upgrade"], &berth.database).await;
    assert_eq!((about(&found, "consistency").0, code), ("failure", Some(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_without_space_and_wrong_usages_are_found() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 6)]).await.expect(204);
    let (found, _) = over(&["check"], &berth.database).await;
    assert_eq!((about(&found, "space").0, about(&found, "consistency").0), ("ok", "ok"));

    let full = "create function full_disk() returns event_trigger language plpgsql as $$ begin
                    raise exception 'could not extend file' using errcode = '53100';
                end $$;
                create event trigger full_disk on ddl_command_end execute function full_disk();
                update inventories set used = 1";
    execute(&berth.database, full).await;
    let (found, code) = over(&["check"], &berth.database).await;
    assert_eq!(about(&found, "space"), ("failure", "could not extend file"));
    assert_eq!((about(&found, "consistency").0, code), ("failure", Some(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readiness_of_the_running_server_is_checked() {
    let options = database().await;
    let url = options.to_url_lossy().to_string();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_with(directory.path(), &["--database-url", &url]).await;
    let nowhere = format!("127.0.0.1:{}", free_port());
    for (address, verdict, words) in [
        (
            silent.local_addr().unwrap().to_string(),
            "failure",
            "accepts connections and does not respond",
        ),
        (server.address.clone(), "ok", "is ready"),
        (nowhere, "skipped", "none runs at"),
    ] {
        let arguments = ["--database-url", &url, "--listen", &address, "--planner-listen", "none"];
        let (found, _) = findings(&["check"], &arguments).await;
        let (output, found) = about(&found, "server");
        assert!(output == verdict && found.contains(words) && found.contains(&address), "{found}");
    }
}

/// The one of a test's own that is open is found, also by a role that sees no other sessions.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_are_open_for_long_are_found() {
    let options = database().await;
    let mut other = PgConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql("begin; select 1").execute(&mut other).await.unwrap();
    let pid: i32 =
        sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut other).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut conn = PgConnection::connect_with(&options).await.unwrap();
    let open = condition::long_transactions(&mut conn, 1, 1000).await.unwrap();
    let place = format!("process {pid} of ");
    let found = open.iter().find(|open| open.place.starts_with(&place));
    assert!(found.is_some_and(|open| open.seconds >= 1), "{open:?}");
    let open = condition::long_transactions(&mut conn, 600, 1000).await.unwrap();
    assert!(!open.iter().any(|open| open.place.starts_with(&place)), "{open:?}");
}

/// A person's `select ... for update` that is left open.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_keeps_rows_locked_is_named() {
    let options = database().await;
    let mut reader = PgConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql("begin; select from providers").execute(&mut reader).await.unwrap();
    let mut other = PgConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql("begin; select from providers for update").execute(&mut other).await.unwrap();
    let pid: i32 =
        sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut other).await.unwrap();
    let mut conn = PgConnection::connect_with(&options).await.unwrap();
    let found = condition::lock_holders(&mut conn, 0, 10).await.unwrap();
    assert_eq!(found.iter().map(|holder| holder.pid).collect::<Vec<_>>(), [pid], "{found:?}");
    assert_eq!(found[0].tables, "providers");
    assert!(found[0].place.starts_with(&format!("process {pid} of ")), "{found:?}");
    assert!(condition::lock_holders(&mut conn, 600, 10).await.unwrap().is_empty());
    until("it is named", async || {
        let (found, code) = over(&["check"], &options).await;
        let named = found.iter().find(|finding| finding["subject"] == "locks");
        named.is_some_and(|it| it["found"].as_str().unwrap().contains(&format!("process {pid} ")))
            && code == Some(2)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_and_its_lag_are_reported() {
    let cluster = Cluster::new(&[]).await;
    let _standby = cluster.standby();
    let mut conn = cluster.session().await;
    until("the standby streams", async || {
        !condition::standbys(&mut conn).await.unwrap().is_empty()
    })
    .await;
    let (found, _) = over(&["check"], &cluster.options()).await;
    let (verdict, words) = about(&found, "replication");
    assert_eq!(verdict, "ok", "{words}");
    assert!(words.contains("bytes"), "{words}");
}

/// The URL of something like a Keystone that gives tokens and knows none, with a service of this type in its catalog.
async fn keystone(service: &'static str) -> String {
    keystone_at(service, SystemTime::now()).await
}

/// The same, with a clock that shows this time.
async fn keystone_at(service: &'static str, time: SystemTime) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v3", listener.local_addr().unwrap());
    let answer = async move |method: Method| -> Response {
        let date = [("date", httpdate::fmt_http_date(time))];
        if method != Method::POST {
            return (StatusCode::NOT_FOUND, date).into_response();
        }
        let endpoint = json!({"interface": "public", "region_id": "one", "url": "http://front"});
        let body = json!({"token": {
            "user": {"id": "u"},
            "expires_at": "2999-01-01T00:00:00.000000Z",
            "catalog": [{"type": service, "endpoints": [endpoint]}],
        }});
        let token = [("x-subject-token", "own")];
        (StatusCode::CREATED, token, date, body.to_string()).into_response()
    };
    tokio::spawn(
        async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() },
    );
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn keystone_is_checked() {
    let options = database().await;
    let url = options.to_url_lossy();
    let slow = SystemTime::now() - Duration::from_hours(2);
    for (auth_url, verdict, catalog, clock) in [
        (keystone("placement").await.as_str(), "ok", Some("ok"), None),
        (keystone("compute").await.as_str(), "ok", Some("warning"), None),
        (keystone_at("placement", slow).await.as_str(), "ok", Some("ok"), Some("failure")),
        ("http://127.0.0.1:1/v3", "failure", None, None),
    ] {
        let arguments = [
            &[
                "--database-url",
                url.as_str(),
                "--auth",
                "keystone",
                "--keystone-auth-url",
                auth_url,
            ][..],
            &["--keystone-username", "berth", "--keystone-user-domain-name", "Default"],
            &["--keystone-project-name", "service", "--keystone-project-domain-name", "Default"],
            &["--keystone-password", "s3cret", "--keystone-timeout", "5"],
        ];
        let (found, _) = findings(&["check"], &arguments.concat()).await;
        let (is, words) = about(&found, "keystone");
        assert_eq!(is, verdict, "{words}");
        assert!(!words.contains("s3cret"), "{words}");
        for (subject, verdict) in [("catalog", catalog), ("keystone clock", clock)] {
            let about = found.iter().find(|finding| finding["subject"] == subject);
            assert_eq!(about.map(|it| it["verdict"].as_str().unwrap()), verdict, "{found:?}");
        }
    }
}
