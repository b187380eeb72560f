//! A row that another transaction holds: only requests that need it wait, for a bounded time, and then fail with
//! 503. In each test the row is held until the others have got their responses.

use std::time::Duration;

use axum::http::header::RETRY_AFTER;
use futures_util::future::join_all;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection, Postgres, Transaction};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::support::app::{ApiResponse, Berth};
use crate::support::cloud::Host;
use crate::support::cluster::until;

/// Takes a row's lock as an administrator with psql would.
pub(crate) async fn hold<'c>(
    session: &'c mut PgConnection,
    table: &str,
    row: Uuid,
) -> Transaction<'c, Postgres> {
    let mut held = session.begin().await.unwrap();
    let lock = format!("select from {table} where uuid = '{row}' for update");
    held.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(lock))).await.unwrap();
    held
}

fn claim(
    berth: &Berth,
    consumer: Uuid,
    generation: Option<i64>,
    wants: Vec<(Host, &'static str, i64)>,
) -> JoinHandle<ApiResponse> {
    let berth = berth.clone();
    tokio::spawn(async move { berth.claim(consumer, generation, &wants).await })
}

/// Waits until a session of Berth waits for a lock.
async fn until_it_waits(observer: &mut PgConnection) {
    until("a session waits for a lock", async || waits(observer).await).await;
}

/// Looks for a session of Berth that waits for a lock, and returns its process.
async fn waiting(watcher: &mut PgConnection) -> Option<i32> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    let waiting = "select pid from pg_stat_activity where application_name like 'berth@%'
                   and datname = current_database() and wait_event_type = 'Lock'";
    sqlx::query_scalar(waiting).fetch_optional(watcher).await.unwrap()
}

async fn is_open(observer: &mut PgConnection, process: i32) -> bool {
    let open = sqlx::query_scalar("select exists (select from pg_stat_activity where pid = $1)");
    open.bind(process).fetch_one(observer).await.unwrap()
}

/// Whether Berth waits for a lock.
async fn waits(observer: &mut PgConnection) -> bool {
    let waits = "select exists (select from pg_stat_activity where application_name like 'berth@%'
                 and datname = current_database() and wait_event_type = 'Lock')";
    sqlx::query_scalar(waits).fetch_one(observer).await.unwrap()
}

async fn hosts(berth: &Berth, count: usize) -> Vec<Host> {
    let mut hosts = Vec::new();
    for nth in 0..count {
        hosts.push(berth.host(&format!("host-{nth}"), &[("VCPU", 1000)]).await);
    }
    hosts
}

#[tokio::test(flavor = "multi_thread")]
async fn only_claims_that_need_a_held_provider_wait() {
    let berth = Berth::new().await;
    let hosts = hosts(&berth, 4).await;
    let [mut stranger, mut observer] = [berth.session().await, berth.session().await];
    let old = Uuid::new_v4();
    berth.claim(old, None, &[(hosts[0], "VCPU", 1)]).await.expect(204);

    let held = hold(&mut stranger, "providers", hosts[0].0).await;
    let kept = claim(&berth, Uuid::new_v4(), None, vec![(hosts[0], "VCPU", 1)]);
    until_it_waits(&mut observer).await;
    // It names nothing that is held, but what it gives up is.
    let path = format!("/allocations/{old}");
    let (releasing, moving) = (berth.clone(), Uuid::new_v4());
    let release = tokio::spawn(async move { releasing.delete(&path).await });
    let others = (0..40).map(|nth| {
        let mut wants = vec![(hosts[1 + nth % 3], "VCPU", 1)];
        if nth % 4 == 3 {
            wants.push((hosts[1], "VCPU", 1));
            wants.dedup_by_key(|(host, ..)| host.0);
        }
        claim(&berth, Uuid::new_v4(), None, wants)
    });
    for answer in join_all(others.collect::<Vec<_>>()).await {
        answer.unwrap().expect(204);
    }
    // One after the other as well, when the locked rows are known.
    for nth in 0..20 {
        claim(&berth, moving, (nth > 0).then_some(nth), vec![(hosts[2], "VCPU", 1 + nth)])
            .await
            .unwrap()
            .expect(204);
    }
    assert!(!kept.is_finished() && !release.is_finished());
    held.commit().await.unwrap();
    kept.await.unwrap().expect(204);
    release.await.unwrap().expect(204);
    assert_eq!(berth.usages(hosts[0]).await, json!({"VCPU": 1}));
    berth.assert_consistent().await;
}

/// Forty claims of new consumers on three hosts, all of which succeed.
async fn other_claims_proceed(berth: &Berth, hosts: &[Host]) {
    let others: Vec<_> = (0..40)
        .map(|nth| claim(berth, Uuid::new_v4(), None, vec![(hosts[nth % 3], "VCPU", 1)]))
        .collect();
    for answer in join_all(others).await {
        answer.unwrap().expect(204);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_claims_that_need_a_held_consumer_wait() {
    let berth = Berth::new().await;
    let hosts = hosts(&berth, 3).await;
    let [mut stranger, mut observer] = [berth.session().await, berth.session().await];
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(hosts[0], "VCPU", 1)]).await.expect(204);

    let held = hold(&mut stranger, "consumers", consumer).await;
    let kept = claim(&berth, consumer, Some(1), vec![(hosts[1], "VCPU", 2)]);
    until_it_waits(&mut observer).await;
    other_claims_proceed(&berth, &hosts).await;
    assert!(!kept.is_finished());
    held.commit().await.unwrap();
    kept.await.unwrap().expect(204);
    berth.assert_consistent().await;
}

/// A consumer that is being inserted is an invisible row, so no locked row can be found.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_being_inserted_blocks_no_other_claim() {
    let berth = Berth::new().await;
    let hosts = hosts(&berth, 3).await;
    let [mut stranger, mut observer] = [berth.session().await, berth.session().await];
    let consumer = Uuid::new_v4();
    let mut inserting = stranger.begin().await.unwrap();
    sqlx::query("insert into consumers (uuid, project_id, user_id) values ($1, 1, 1)")
        .bind(consumer)
        .execute(&mut *inserting)
        .await
        .unwrap();
    let kept = claim(&berth, consumer, None, vec![(hosts[0], "VCPU", 1)]);
    until_it_waits(&mut observer).await;
    other_claims_proceed(&berth, &hosts).await;
    assert!(!kept.is_finished());
    inserting.rollback().await.unwrap();
    kept.await.unwrap().expect(204);
    berth.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_one_consumer_keep_their_order_while_one_waits() {
    let berth = Berth::new().await;
    let hosts = hosts(&berth, 2).await;
    let [mut stranger, mut observer] = [berth.session().await, berth.session().await];
    let held = hold(&mut stranger, "providers", hosts[0].0).await;
    let consumer = Uuid::new_v4();
    let first = claim(&berth, consumer, None, vec![(hosts[0], "VCPU", 1)]);
    until_it_waits(&mut observer).await;
    // It fits after the first one only, and its own rows are free.
    let second = claim(&berth, consumer, Some(1), vec![(hosts[1], "VCPU", 1)]);
    claim(&berth, Uuid::new_v4(), None, vec![(hosts[1], "VCPU", 1)]).await.unwrap().expect(204);
    assert!(!first.is_finished() && !second.is_finished());
    held.commit().await.unwrap();
    first.await.unwrap().expect(204);
    second.await.unwrap().expect(204);
    assert_eq!(berth.usages(hosts[0]).await, json!({"VCPU": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_row_stays_locked_gets_503_and_is_never_written() {
    let berth = Berth::new().await;
    let hosts = hosts(&berth, 2).await;
    let [mut stranger, mut watcher, mut observer] =
        [berth.session().await, berth.session().await, berth.session().await];
    let held = hold(&mut stranger, "providers", hosts[0].0).await;
    let kept: Vec<_> =
        (0..3).map(|_| claim(&berth, Uuid::new_v4(), None, vec![(hosts[0], "VCPU", 1)])).collect();
    let (mut kept, mut task) = (std::pin::pin!(join_all(kept)), None);
    let answers = loop {
        tokio::select! {
            answers = &mut kept => break answers,
            waiting = waiting(&mut watcher) => task = waiting.or(task),
        }
    };
    for answer in answers {
        let answer = answer.unwrap().expect(503);
        assert!(answer.headers.contains_key(RETRY_AFTER));
    }
    // On a busy machine the last attempt may take longer than its caller waits. The task of deferred claims gives its
    // connection back when it has none left.
    let task = task.unwrap();
    until("no claim is left", async || !is_open(&mut observer, task).await).await;
    held.commit().await.unwrap();
    berth.claim(Uuid::new_v4(), None, &[(hosts[0], "VCPU", 1)]).await.expect(204);
    assert_eq!(berth.usages(hosts[0]).await, json!({"VCPU": 1}));
}

/// The pool has five connections.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_held_providers_leave_connections_to_others() {
    let berth = Berth::new().await;
    let hosts = hosts(&berth, 3).await;
    let [mut one, mut two, mut observer] =
        [berth.session().await, berth.session().await, berth.session().await];
    let held = [
        hold(&mut one, "providers", hosts[0].0).await,
        hold(&mut two, "providers", hosts[1].0).await,
    ];
    let change = |nth: usize, host: Host| {
        let berth = berth.clone();
        tokio::spawn(async move {
            let path = format!("/resource_providers/{}", host.0);
            match nth % 3 {
                0 => berth.stock(host, 1, &[("VCPU", 1000)]).await.status,
                1 => berth.put(&path, json!({"name": format!("host-{}", host.0)})).await.status,
                _ => {
                    berth
                        .put(
                            &format!("{path}/aggregates"),
                            json!({
                    "resource_provider_generation": 1, "aggregates": []}),
                        )
                        .await
                        .status
                }
            }
        })
    };
    let kept: Vec<_> = (0..40).map(|nth| change(nth, hosts[nth % 2])).collect();
    until_it_waits(&mut observer).await;
    for generation in 1..=5 {
        berth.stock(hosts[2], generation, &[("VCPU", 1000)]).await.expect(200);
        berth.host(&format!("child-{generation}"), &[]).await;
        berth.child(&format!("below-{generation}"), Some(hosts[2]), &[]).await;
        berth.get("/usages?project_id=project").await.expect(200);
    }
    assert!(kept.iter().all(|change| !change.is_finished()));
    for held in held {
        held.commit().await.unwrap();
    }
    for status in join_all(kept).await {
        let status = status.unwrap();
        assert!([200, 409, 503].contains(&status), "{status}");
    }
}

/// Nothing that clients do locks the rows of projects and users.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_project_blocks_no_claim() {
    let berth = Berth::new().await;
    let hosts = hosts(&berth, 1).await;
    berth.claim(Uuid::new_v4(), None, &[(hosts[0], "VCPU", 1)]).await.expect(204);
    let mut stranger = berth.session().await;
    let mut held = stranger.begin().await.unwrap();
    held.execute("select from projects, users, consumer_types for update").await.unwrap();
    berth.claim(Uuid::new_v4(), None, &[(hosts[0], "VCPU", 1)]).await.expect(204);
    held.rollback().await.unwrap();
}
