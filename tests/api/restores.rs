//! Databases that are restored under running replicas, which show the restored state afterwards.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Executor;
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::Host;
use crate::support::cluster::{Cluster, programs};
use crate::support::served::PATIENCE;

/// Waits until reads succeed.
async fn until_back(berth: &Berth) {
    let began = Instant::now();
    loop {
        let answer = berth.get("/resource_providers").await;
        if answer.status == 200 {
            return;
        }
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(began.elapsed() < PATIENCE, "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Creates the data of the backup.
async fn before(berth: &Berth) -> Host {
    let host = berth.host("kept", &[("VCPU", 8)]).await;
    berth.put("/traits/CUSTOM_KEPT", json!({})).await.expect(201);
    host
}

/// Creates later data: a provider, a claim by new owners, a trait.
async fn after(berth: &Berth, host: Host) -> Host {
    let gone = berth.host("gone", &[("VCPU", 8)]).await;
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 3)]).await.expect(204);
    berth.put("/traits/CUSTOM_GONE", json!({})).await.expect(201);
    gone
}

/// A replica shows what was there when the backup was taken, and goes on from that.
async fn assert_set_back(berth: &Berth, host: Host, gone: Host) {
    berth.get(&format!("/resource_providers/{}", gone.0)).await.expect(404);
    berth.get("/traits/CUSTOM_GONE").await.expect(404);
    berth.get("/traits/CUSTOM_KEPT").await.expect(204);
    assert_eq!(berth.usages(host).await, json!({"VCPU": 0}));
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 8)]).await.expect(204);
    assert_eq!(berth.usages(host).await, json!({"VCPU": 8}));
    berth.assert_consistent().await;
}

/// Creates data, makes a clean copy of the files, and creates more data.
async fn backed_up(cluster: &Cluster, berth: &Berth) -> (Host, Host) {
    let host = before(berth).await;
    cluster.stop("fast");
    cluster.back_up();
    cluster.start();
    until_back(berth).await;
    (host, after(berth, host).await)
}

/// A clean copy of the files brings its epoch along.
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_backup_that_is_restored_is_shown() {
    let cluster = Cluster::new(&[]).await;
    let berth = Berth::over(&cluster.options()).await;
    let (host, gone) = backed_up(&cluster, &berth).await;
    assert_eq!(berth.usages(host).await, json!({"VCPU": 3}));
    cluster.stop("fast");
    cluster.restore();
    cluster.start();
    until_back(&berth).await;
    assert_set_back(&berth, host, gone).await;
}

/// The same when the restored server has begun as many transactions as the replica has seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_backup_that_has_caught_up_in_numbers_is_shown() {
    let cluster = Cluster::new(&[]).await;
    let berth = Berth::over(&cluster.options()).await;
    let (host, gone) = backed_up(&cluster, &berth).await;
    cluster.stop("fast");
    cluster.restore();
    cluster.start();
    // Before the replica has looked, or not: it must not matter.
    let burn = "do $$ begin for nth in 1..1000 loop perform pg_current_xact_id(); commit; end loop;
                end $$";
    cluster.session().await.execute(burn).await.unwrap();
    until_back(&berth).await;
    assert_set_back(&berth, host, gone).await;
}

/// A client program of PostgreSQL; nothing if the server came without it.
fn program(name: &str) -> Option<PathBuf> {
    Some(programs().join(name)).filter(|path| path.exists())
}

/// Runs a program, again if PostgreSQL has ended it to break a deadlock with readers.
fn run(program: &PathBuf, cluster: &Cluster, arguments: &[&str]) -> Vec<u8> {
    loop {
        let output = Command::new(program)
            .args(["--host=127.0.0.1", "--username=berth", "--dbname=berth"])
            .arg(format!("--port={}", cluster.port))
            .args(arguments)
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        if message.contains("deadlock detected") {
            continue;
        }
        assert!(output.status.success(), "{message}");
        return output.stdout;
    }
}

/// A dump is loaded into the database that it was taken of, with and without the rows of unlogged
/// tables, while clients read.
#[tokio::test(flavor = "multi_thread")]
async fn a_dump_that_is_restored_is_shown() {
    let cluster = Cluster::new(&[]).await;
    let (Some(dump), Some(load)) = (program("pg_dump"), program("psql")) else { return };
    let berth = Berth::over(&cluster.options()).await;
    let mut host = before(&berth).await;
    for unlogged in [true, false] {
        let mut arguments = vec!["--clean", "--if-exists"];
        if !unlogged {
            arguments.push("--no-unlogged-table-data");
        }
        let script = run(&dump, &cluster, &arguments);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), script).unwrap();
        let gone = after(&berth, host).await;
        let reader = berth.clone();
        let reading = tokio::spawn(async move {
            loop {
                let response = reader.get(&format!("/resource_providers/{}", host.0)).await;
                assert!([200, 404, 503].contains(&response.status), "{}", response.text());
            }
        });
        let load_all = ["-q", "-v", "ON_ERROR_STOP=1", "-f", file.path().to_str().unwrap()];
        tokio::task::block_in_place(|| run(&load, &cluster, &load_all));
        // It has had no reason to fail so far, and ends now.
        assert!(!reading.is_finished(), "{:?}", reading.await);
        reading.abort();
        until_back(&berth).await;
        assert_set_back(&berth, host, gone).await;
        host = berth.host(&format!("kept {unlogged}"), &[("VCPU", 8)]).await;
    }
}
