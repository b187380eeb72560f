//! The primary is frozen, killed, replaced or silent: no response is outdated, and no request waits for
//! long.

use std::time::{Duration, Instant};

use berth::http::app::Options;
use berth::store::{Pruning, Store, StoreOptions};
use futures_util::future::join_all;
use serde_json::json;
use sqlx::Connection;
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::Host;
use crate::support::cluster::{Cluster, Forwarder, at, until};

/// The size of the replicas' pools.
const CONNECTIONS: u32 = 5;
/// Connections of a replica beside its pool: the feed, two writers with two unfinished transactions each, the
/// heartbeat, pruning, and one that probes the server.
const BESIDE: i64 = 10;

/// A replica that looks for its primary on these ports.
async fn replica(ports: &[u16]) -> Berth {
    leased(ports, None).await
}

async fn leased(ports: &[u16], lease: Option<Duration>) -> Berth {
    let hosts: Vec<_> = ports.iter().map(|port| at(*port)).collect();
    let pruning = Pruning::default();
    let opening =
        StoreOptions { hosts, lease, pruning, ..StoreOptions::at(at(ports[0]), CONNECTIONS) };
    Berth::opened(opening, Options::default()).await
}

/// Returns the responses of two replicas about a host and one of its consumers.
async fn shown(berth: &Berth, host: Host, consumer: Uuid) -> Vec<(u16, String)> {
    let mut shown = Vec::new();
    for path in [
        format!("/resource_providers/{}/usages", host.0),
        format!("/resource_providers/{}/allocations", host.0),
        format!("/allocations/{consumer}"),
        "/resource_providers".to_owned(),
    ] {
        let answer = berth.get(&path).await;
        shown.push((answer.status, answer.text()));
    }
    shown
}

/// A new server is the primary, and the old one lives on. `old` was connected to the old one.
async fn assert_follows(old: &Berth, new: &Berth) {
    let host = new.host("after", &[("VCPU", 8)]).await;
    for nth in 0..20 {
        let consumer = Uuid::new_v4();
        let (writer, reader) = if nth % 2 == 0 { (new, old) } else { (old, new) };
        writer.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
        assert_eq!(shown(reader, host, consumer).await, shown(writer, host, consumer).await);
        writer.delete(&format!("/allocations/{consumer}")).await.expect(204);
        assert_eq!(shown(reader, host, consumer).await, shown(writer, host, consumer).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_primary_that_resumes_is_not_used() {
    let one = Cluster::new(&[]).await;
    let proxy = Forwarder::new(one.port).await;
    let berth = replica(&[proxy.port]).await;
    let host = berth.host("before", &[("VCPU", 8)]).await;
    let other = one.standby();
    until("the standby has it all", async || {
        let mut conn = other.session().await;
        let count = "select count(*) from providers";
        sqlx::query_scalar::<_, i64>(count).fetch_one(&mut conn).await.unwrap() == 1
    })
    .await;
    // Connections of the pool, too.
    shown(&berth, host, Uuid::new_v4()).await;

    one.freeze();
    other.promote();
    // The proxy leads new connections to the new one, and leaves the old ones alone.
    proxy.lead_to(other.port);
    let path = format!("/resource_providers/{}", host.0);
    until("reads are back", async || berth.get(&path).await.status == 200).await;
    one.thaw();
    assert_follows(&berth, &replica(&[other.port]).await).await;
}

/// A primary that is silent for half a minute may come back in any role: its old connections are not used any
/// more.
#[tokio::test(flavor = "multi_thread")]
async fn connections_to_a_primary_that_was_silent_for_long_are_given_up() {
    let one = Cluster::new(&[]).await;
    let berth = replica(&[one.port]).await;
    let host = berth.host("before", &[("VCPU", 8)]).await;
    shown(&berth, host, Uuid::new_v4()).await;
    let mut session = one.session().await;
    let before: Vec<i32> = sqlx::query_scalar(
        "select pid from pg_stat_activity where application_name like 'berth@%' and pid <> pg_backend_pid()",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    assert!(!before.is_empty());

    one.freeze();
    tokio::time::sleep(Duration::from_secs(33)).await;
    one.thaw();
    let path = format!("/resource_providers/{}", host.0);
    until("reads are back", async || berth.get(&path).await.status == 200).await;
    until("the sessions of before have ended", async || {
        let count = "select count(*) from pg_stat_activity where pid = any($1)";
        let left = sqlx::query_scalar::<_, i64>(count).bind(&before).fetch_one(&mut session);
        left.await.unwrap() == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_hosts_the_primary_is_found() {
    let one = Cluster::new(&[]).await;
    let other = one.standby();
    let berth = replica(&[other.port, one.port]).await;
    let host = berth.host("before", &[("VCPU", 8)]).await;
    let path = format!("/resource_providers/{}", host.0);
    until("the standby has it all", async || {
        let mut conn = other.session().await;
        let count = "select count(*) from providers";
        sqlx::query_scalar::<_, i64>(count).fetch_one(&mut conn).await.unwrap() == 1
    })
    .await;

    one.stop("immediate");
    berth.get(&path).await.expect(503);
    other.promote();
    until("reads are back", async || berth.get(&path).await.status == 200).await;
    // It comes back as the primary that it was.
    one.start();
    assert_follows(&berth, &replica(&[other.port]).await).await;
    let opened = Store::open(StoreOptions::at(one.options(), 1)).await;
    assert!(opened.is_ok(), "who knows of no other believes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_gets_no_queries() {
    let one = Cluster::new(&[]).await;
    let proxy = Forwarder::new(one.port).await;
    let berth = replica(&[proxy.port]).await;
    let host = berth.host("before", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    let other = one.standby();

    let refused = Store::open(StoreOptions::at(other.options(), 1)).await.err().unwrap();
    assert!(refused.to_string().contains("standby"), "{refused}");

    proxy.lead_to(other.port);
    one.stop("fast");
    for (status, text) in shown(&berth, host, consumer).await {
        assert_eq!(status, 503, "{text}");
    }
    other.promote();
    until("it is found", async || {
        shown(&berth, host, consumer).await.iter().all(|(status, _)| *status == 200)
    })
    .await;
    assert_eq!(berth.usages(host).await, json!({"VCPU": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_primary_delays_no_request_for_long() {
    let one = Cluster::new(&[]).await;
    let berth = replica(&[one.port]).await;
    let host = berth.host("here", &[("VCPU", 8)]).await;
    shown(&berth, host, Uuid::new_v4()).await;

    one.freeze();
    let reads = ["/resource_providers".to_owned(), format!("/allocations/{}", Uuid::new_v4())];
    for path in reads {
        let began = Instant::now();
        let answer = berth.get(&path).await.expect(503);
        assert!(answer.headers.contains_key("retry-after"));
        // 30 s before; 2.5 s, and what a busy machine adds.
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
    let began = Instant::now();
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(503);
    berth.post("/resource_providers", json!({"name": "other"})).await.expect(503);
    // 45 s each before; 10 s, and what a busy machine adds.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    one.thaw();
    until("all is well again", async || {
        berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.status == 204
            && berth.post("/resource_providers", json!({"name": "other"})).await.status != 503
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_hang_do_not_pile_up_sessions_nor_stop_reads() {
    let one = Cluster::new(&[]).await;
    let berth = replica(&[one.port]).await;
    let host = berth.host("here", &[("VCPU", 1000)]).await;
    one.execute("postgres", "alter system set synchronous_standby_names = 'nobody'").await;
    one.execute("postgres", "select pg_reload_conf()").await;

    let count = "select count(*) from pg_stat_activity
                 where application_name like 'berth@%' and backend_type = 'client backend'";
    let mut session = one.session().await;
    for round in 0..3 {
        let claims = (0..20).map(|_| berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]));
        let changes = (0..10).map(|nth| {
            berth.post("/resource_providers", json!({"name": format!("{round}-{nth}")}))
        });
        let reads = async {
            for _ in 0..20 {
                berth.get("/resource_providers").await.expect(200);
                berth.get(&format!("/resource_providers/{}/allocations", host.0)).await.expect(200);
            }
        };
        let (claims, changes, ()) = tokio::join!(join_all(claims), join_all(changes), reads);
        assert!(claims.iter().chain(&changes).all(|answer| answer.status == 503));
        let sessions: i64 = sqlx::query_scalar(count).fetch_one(&mut session).await.unwrap();
        assert!(sessions <= i64::from(CONNECTIONS) + BESIDE, "{sessions} sessions");
    }

    one.execute("postgres", "alter system reset synchronous_standby_names").await;
    one.execute("postgres", "select pg_reload_conf()").await;
    until("all is well again", async || {
        berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.status == 204
    })
    .await;
    session.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_lease_a_primary_that_cannot_commit_serves_no_reads() {
    let one = Cluster::new(&[]).await;
    let berth = leased(&[one.port], Some(Duration::from_secs(2))).await;
    let host = berth.host("here", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    assert!(shown(&berth, host, consumer).await.iter().all(|(status, _)| *status == 200));

    one.execute("postgres", "alter system set synchronous_standby_names = 'nobody'").await;
    one.execute("postgres", "select pg_reload_conf()").await;
    until("the lease has passed", async || {
        shown(&berth, host, consumer).await.iter().all(|(status, _)| *status == 503)
    })
    .await;
    one.execute("postgres", "alter system reset synchronous_standby_names").await;
    one.execute("postgres", "select pg_reload_conf()").await;
    until("heartbeats are back", async || {
        shown(&berth, host, consumer).await.iter().all(|(status, _)| *status == 200)
    })
    .await;
}
