//! `/healthz`, `/readyz` and `berth health`, for balancers and containers.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::metrics::metrics_of;
use crate::support::app::Berth;
use crate::support::process::{Server, free_port, signal};
use crate::support::served::{PATIENCE, Served, get, wide};

/// Closes the database of a server to all connections, or opens it again.
async fn allow_connections(berth: &Berth, allowed: bool) {
    let name = berth.database.get_database().unwrap().to_owned();
    let options = berth.database.clone().database("postgres");
    let mut elsewhere =
        <sqlx::PgConnection as sqlx::Connection>::connect_with(&options).await.unwrap();
    let words = format!(
        "alter database {name} allow_connections {allowed};
         select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(words)).execute(&mut elsewhere).await.unwrap();
}

/// Asks until the status is as expected: an answer counts for a second.
async fn becomes(served: &Served, path: &str, status: u16) -> String {
    let began = Instant::now();
    loop {
        // Without a token.
        let answer = served.say(get(path).replace("x-auth-token: admin\r\n", "")).await;
        if answer.starts_with(&format!("HTTP/1.1 {status} ")) {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "{path}: {answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// `GET /` succeeds without a database, as in the reference, so balancers use another path.
#[tokio::test(flavor = "multi_thread")]
async fn balancers_learn_without_a_token_whether_a_replica_can_serve() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, wide()).await;
    becomes(&served, "/healthz", 200).await;
    let ready = becomes(&served, "/readyz", 200).await;
    assert!(ready.ends_with("ready\n") && ready.contains("cache-control: no-store"), "{ready}");
    let posted = served.say(get("/readyz").replace("GET ", "POST ")).await;
    assert!(posted.starts_with("HTTP/1.1 405 "), "{posted}");

    allow_connections(&berth, false).await;
    let away = becomes(&served, "/readyz", 503).await;
    assert!(away.ends_with("the database is not available\n"), "{away}");
    becomes(&served, "/healthz", 200).await;
    becomes(&served, "/", 200).await;
    allow_connections(&berth, true).await;
    becomes(&served, "/readyz", 200).await;
    served.stop().await;
}

/// Runs a statement in the database of a Berth, behind its back.
async fn meddle(berth: &Berth, words: &str) {
    let mut conn =
        <sqlx::PgConnection as sqlx::Connection>::connect_with(&berth.database).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(words.to_owned())).execute(&mut conn).await.unwrap();
}

/// The schema was right when the replica started, and may have changed since then.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_not_ready_while_the_schema_does_not_serve_it() {
    let berth = Berth::new().await;
    let served = Served::new(&berth, wide()).await;
    becomes(&served, "/readyz", 200).await;

    let newer =
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
                 values (9999, 'of the future', true, '', 0);";
    meddle(&berth, &format!("{newer} update schema_compatibility set oldest_program = 9999")).await;
    let ahead = becomes(&served, "/readyz", 503).await;
    assert!(ahead.contains("the schema is ahead of this program; unknown: [9999]"), "{ahead}");
    meddle(&berth, "update schema_compatibility set oldest_program = 1").await;
    becomes(&served, "/readyz", 200).await;

    // A table that only the planner reads.
    meddle(&berth, "alter table flavors rename to elsewhere").await;
    let incomplete = becomes(&served, "/readyz", 503).await;
    assert!(incomplete.contains("there is no table flavors"), "{incomplete}");
    meddle(&berth, "alter table elsewhere rename to flavors").await;
    becomes(&served, "/readyz", 200).await;
    served.stop().await;
}

/// Metrics of a server in a process of its own; those of this process belong to all tests.
async fn has_metrics(server: &Server, admin: &str, wanted: &[&str]) {
    let metrics = metrics_of(server, admin).await;
    for series in wanted {
        assert!(metrics.lines().any(|line| line == *series), "{series}: {metrics}");
    }
}

/// A full disk of the database refuses what makes its files larger, and reads go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_tells_of_writes_that_fail_and_of_inventories_below_their_usage() {
    let directory = tempfile::tempdir().unwrap();
    let admin = format!("127.0.0.1:{}", free_port());
    let server = Server::start_with(directory.path(), &["--admin-listen", &admin]).await;
    let ask = async |method: &str, path: &str, body: Option<Value>| {
        server.ask(method, path, body.as_ref()).await.unwrap()
    };

    let uuid = "8f5ba3a4-9e8e-4f0d-b6b5-0c4f4f6f2f01";
    let host = Some(json!({"name": "host", "uuid": uuid}));
    assert_eq!(ask("POST", "/resource_providers", host).await.0, 200);
    let inventories = format!("/resource_providers/{uuid}/inventories");
    let total = |total: i32, generation: i32| {
        Some(json!({
            "resource_provider_generation": generation,
            "inventories": {"VCPU": {"total": total, "allocation_ratio": 1.0}},
        }))
    };
    assert_eq!(ask("PUT", &inventories, total(8, 0)).await.0, 200);
    let claim = json!({
        "allocations": {uuid: {"resources": {"VCPU": 6}}},
        "consumer_generation": null, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE",
    });
    let consumer = "/allocations/4d1f6a8e-6f1e-4b11-9d5c-5f6c6f1b0a01";
    assert_eq!(ask("PUT", consumer, Some(claim)).await.0, 204);
    has_metrics(&server, &admin, &["berth_overcommitted_providers 0"]).await;
    assert_eq!(ask("PUT", &inventories, total(4, 2)).await.0, 200);
    has_metrics(&server, &admin, &["berth_overcommitted_providers 1"]).await;
    let warned = format!(
        "an inventory is set below its usage provider={uuid} class=\"VCPU\" used=6 capacity=4"
    );
    server.logged(&warned).await;

    let mut database = server.session().await;
    sqlx::raw_sql(
        "create function refuse() returns trigger language plpgsql as $$ begin
             raise exception 'could not extend file' using errcode = '53100';
         end $$;
         create trigger refuse before insert on traits execute function refuse()",
    )
    .execute(&mut database)
    .await
    .unwrap();
    let create = || ask("PUT", "/traits/CUSTOM_NEW", None);
    for _ in 0..3 {
        has_metrics(&server, &admin, &["berth_writes_failing 0"]).await;
        assert_eq!(create().await.0, 503);
    }
    has_metrics(&server, &admin, &["berth_writes_failing 1", "berth_ready 1"]).await;
    let readyz = format!("http://{admin}/readyz");
    let readiness = async || {
        let response = server.client.get(&readyz).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let text = "reads only: the last writes failed, and the log has the reason\n";
    assert_eq!(readiness().await, (200, text.to_owned()));
    assert_eq!(ask("GET", "/resource_providers", None).await.0, 200);

    sqlx::raw_sql("drop trigger refuse on traits").execute(&mut database).await.unwrap();
    assert_eq!(create().await.0, 201);
    assert_eq!(readiness().await, (200, "ready\n".to_owned()));
    has_metrics(&server, &admin, &["berth_writes_failing 0"]).await;
}

/// Runs `berth health` for a server.
fn check(server: &Server, planner: &str, ready: bool) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["health", "--listen", &server.address, "--planner-listen", planner]);
    command.args(ready.then_some("--ready")).env_remove("BERTH_CONFIG").output().unwrap()
}

/// The listeners stay open until balancers have noticed that the replica goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_to_stop_is_not_ready_but_serves_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let planner = format!("127.0.0.1:{}", free_port());
    let options = ["--planner-listen", &planner, "--shutdown-delay", "600"];
    let mut server = Server::start_with(directory.path(), &options).await;
    for ready in [true, false] {
        let output = check(&server, &planner, ready);
        assert!(output.status.success(), "{output:?}");
    }
    let nowhere = format!("127.0.0.1:{}", free_port());
    assert!(check(&server, &nowhere, false).status.success(), "the planner gets no request");
    let output = check(&server, &nowhere, true);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&nowhere), "{output:?}");

    signal("TERM", &server.pid());
    let began = Instant::now();
    while server.ask("GET", "/readyz", None).await.unwrap().0 != 503 {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.ask("GET", "/readyz", None).await.unwrap().1, "the server is stopping\n");
    assert_eq!(server.ask("GET", "/resource_providers", None).await.unwrap().0, 200);
    let output = check(&server, &planner, true);
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        words.matches("503 Service Unavailable: the server is stopping").count(),
        2,
        "{words}"
    );
    assert!(check(&server, &planner, false).status.success());

    // The second one ends it at once.
    signal("TERM", &server.pid());
    assert_eq!(server.ended().await.0, Some(130));
}

/// The address for health checks has no TLS, and answers for APIs that demand certificates.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_is_probed_on_its_plain_address() {
    let directory = tempfile::tempdir().unwrap();
    let admin = format!("127.0.0.1:{}", free_port());
    let _server = Server::start_with(directory.path(), &["--admin-listen", &admin]).await;
    let file = directory.path().join("berth.toml");
    let closed = format!("127.0.0.1:{}", free_port());
    let text = format!(
        "listen = [\"{closed}\"]\nadmin-listen = [\"{admin}\"]\ntls-cert = \"cert.pem\"\n\
         tls-client-ca = \"ca.pem\"\n"
    );
    std::fs::write(&file, text).unwrap();
    for more in [&[] as &[&str], &["--listen", &admin, "--planner-listen", "none"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["health", "--ready", "--config", file.to_str().unwrap()]).args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{more:?}: {output:?}");
    }
}
