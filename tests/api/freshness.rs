//! No read is stale: what any replica has acknowledged is seen by every read that starts after,
//! whatever the order of commits.

use std::time::{Duration, Instant};

use berth::http::app::Options;
use berth::store::{Pruning, StoreOptions};
use serde_json::json;
use sqlx::{Connection, Executor};
use uuid::Uuid;

use crate::support::app::{Berth, store_at};

#[tokio::test(flavor = "multi_thread")]
async fn a_read_elsewhere_shows_what_was_acknowledged_here() {
    let writer = Berth::new().await;
    let reader = writer.replica().await;
    let host = writer.host("host", &[("VCPU", 1_000_000)]).await;
    for nth in 1..=2000 {
        writer.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
        assert_eq!(reader.usages(host).await, json!({"VCPU": nth}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_traits_aggregates_and_trees_are_as_fresh_as_usage() {
    let writer = Berth::new().await;
    let reader = writer.replica().await;
    let root = writer.host("root", &[]).await;
    for nth in 0..50 {
        let custom = format!("CUSTOM_T{nth}");
        let path = format!("/traits/{custom}");
        writer.ask(axum::http::Method::PUT, &path, None).await.expect(201);
        reader.get(&path).await.expect(204);

        let child = writer.child(&format!("child-{nth}"), Some(root), &[]).await;
        let url = format!("/resource_providers/{}", child.0);
        assert_eq!(reader.get(&url).await.json()["root_provider_uuid"], json!(root.0));

        let body = json!({"resource_provider_generation": 0, "traits": [custom]});
        writer.put(&format!("{url}/traits"), body).await.expect(200);
        let listed = reader.get(&format!("/resource_providers?required={custom}")).await.json();
        assert_eq!(listed["resource_providers"][0]["uuid"], json!(child.0));

        let aggregate = Uuid::new_v4();
        let body = json!({"resource_provider_generation": 1, "aggregates": [aggregate]});
        writer.put(&format!("{url}/aggregates"), body).await.expect(200);
        let listed = reader.get(&format!("/resource_providers?member_of={aggregate}")).await.json();
        assert_eq!(listed["resource_providers"][0]["uuid"], json!(child.0));

        let body = json!({"name": format!("child-{nth}"), "parent_provider_uuid": null});
        writer.put(&url, body).await.expect(200);
        assert_eq!(reader.get(&url).await.json()["root_provider_uuid"], json!(child.0));

        writer.delete(&url).await.expect(204);
        reader.get(&url).await.expect(404);
    }
}

/// A replica whose reads may be an hour old shows its own writes, and why they were refused.
#[tokio::test(flavor = "multi_thread")]
async fn writes_of_a_replica_are_seen_there_whatever_staleness_is_allowed() {
    let other = Berth::new().await;
    let max_staleness = Duration::from_hours(1);
    let opening = StoreOptions { max_staleness, ..store_at(&other.database) };
    let berth = Berth::opened(opening, Options::default()).await;
    let host = other.host("host", &[("VCPU", 1000)]).await;
    let path = format!("/resource_providers/{}/aggregates", host.0);
    for nth in 1..=100 {
        berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
        assert_eq!(berth.usages(host).await, json!({"VCPU": nth}));
        let known = berth.get(&path).await.json()["resource_provider_generation"].clone();
        let aggregates = [Uuid::new_v4()];
        let body = json!({"resource_provider_generation": known, "aggregates": aggregates});
        other.put(&path, body.clone()).await.expect(200);
        berth.put(&path, body).await.expect(409);
        let body = berth.get(&path).await.json();
        assert_ne!(body["resource_provider_generation"], known);
    }
}

/// Transaction numbers are taken before commit: the lower one may become visible later.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_commit_out_of_order_are_all_seen() {
    let berth = Berth::new().await;
    let [early, late] = [berth.host("early", &[]).await, berth.host("late", &[]).await];
    let rename = |host: Uuid, name: &str| {
        sqlx::AssertSqlSafe(format!(
            "with renamed as (update providers set name = '{name}' where uuid = '{host}' returning id)
             insert into change_log (providers) select array[id] from renamed"
        ))
    };
    let mut first = berth.session().await;
    let mut second = berth.session().await;
    let mut begun_first = first.begin().await.unwrap();
    begun_first.execute(rename(early.0, "early-renamed")).await.unwrap();
    let mut begun_second = second.begin().await.unwrap();
    begun_second.execute(rename(late.0, "late-renamed")).await.unwrap();
    begun_second.commit().await.unwrap();

    let name = |uuid: Uuid| {
        let berth = berth.clone();
        async move { berth.get(&format!("/resource_providers/{uuid}")).await.json()["name"].clone() }
    };
    assert_eq!(name(late.0).await, "late-renamed");
    assert_eq!(name(early.0).await, "early", "not committed yet");
    begun_first.commit().await.unwrap();
    assert_eq!(name(early.0).await, "early-renamed");
    assert_eq!(name(late.0).await, "late-renamed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_rolled_back_leaves_nothing() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let mut session = berth.session().await;
    let mut transaction = session.begin().await.unwrap();
    transaction
        .execute(
            "with renamed as (update providers set name = 'other' returning id)
             insert into change_log (providers) select array[id] from renamed",
        )
        .await
        .unwrap();
    transaction.rollback().await.unwrap();
    let shown = berth.get(&format!("/resource_providers/{}", host.0)).await.json();
    assert_eq!(shown["name"], "host");
}

/// Other replicas may have pruned the log: a replica behind the cut reads everything again.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_cut_off_is_noticed() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    berth
        .session()
        .await
        .execute(
            "begin;
             update providers set name = 'renamed';
             delete from change_log;
             update change_log_horizon set xid = pg_snapshot_xmax(pg_current_snapshot());
             commit",
        )
        .await
        .unwrap();
    let shown = berth.get(&format!("/resource_providers/{}", host.0)).await.json();
    assert_eq!(shown["name"], "renamed");
}

/// A backup restored into another cluster brings transaction ids that lie ahead of that cluster's.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_database_is_followed_by_its_changes() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let mut session = berth.session().await;
    session
        .execute(
            "update change_log_horizon
             set xid = '99999999999', cut = '99999999990:99999999999:99999999990';
             update change_log_pruning
             set reached = '99999999995', removed = '99999999980:99999999980:';
             insert into change_log (xid, providers) values ('99999999998', '{}');
             update epoch set system_identifier = 1",
        )
        .await
        .unwrap();
    let soon = Pruning { period: Duration::from_millis(200), ..Pruning::default() };
    let restored = Berth::pruning(&berth.database, soon).await;
    restored.get(&format!("/resource_providers/{}", host.0)).await.expect(200);
    session.execute("update providers set name = 'untold'").await.unwrap();
    let began = Instant::now();
    loop {
        let (horizon, ahead): (bool, i64) = sqlx::query_as(
            "select (select pg_snapshot_xmax(cut) <= pg_snapshot_xmax(pg_current_snapshot())
                            and xid <= pg_snapshot_xmax(pg_current_snapshot())
                     from change_log_horizon), count(*)
             from change_log where xid > pg_current_xact_id()",
        )
        .fetch_one(&mut session)
        .await
        .unwrap();
        assert!(horizon, "the horizon lies ahead");
        if ahead == 0 {
            break;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{ahead} rows lie ahead");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let shown = restored.get(&format!("/resource_providers/{}", host.0)).await.json();
    assert_eq!(shown["name"], "host", "it goes on reading everything again");
    restored.host("new", &[]).await;
    restored.get("/resource_providers?name=new").await.expect(200);
}

/// PostgreSQL empties the unlogged epoch in crash recovery and on promotion.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_epoch_makes_every_replica_read_again() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let mut session = berth.session().await;
    session
        .execute("update providers set name = 'unlogged change'; delete from epoch")
        .await
        .unwrap();
    for replica in [berth.clone(), berth.replica().await] {
        let shown = replica.get(&format!("/resource_providers/{}", host.0)).await.json();
        assert_eq!(shown["name"], "unlogged change");
    }
    let epochs: i64 =
        sqlx::query_scalar("select count(*) from epoch").fetch_one(&mut session).await.unwrap();
    assert_eq!(epochs, 1);
}
