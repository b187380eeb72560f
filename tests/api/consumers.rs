//! Consumers in memory: the same as in the database, on every replica, whatever was written and while they are read.

use berth::http::app::Options;
use berth::store::StoreOptions;
use serde_json::json;
use sqlx::Executor;
use uuid::Uuid;

use crate::support::app::{Berth, store_at};
use crate::support::cloud::Host;
use crate::support::cluster::until;
use crate::support::postgres;

/// Waits until a replica has the consumers in memory.
async fn in_memory(berth: &Berth) {
    until("the consumers are in memory", async || {
        berth.app().store.consumers_in_memory().is_some()
    })
    .await;
}

/// Checks that reads from memory and from the database have the same results.
async fn check(berth: &Berth, consumers: &[Uuid], hosts: &[Host]) {
    let store = &berth.app().store;
    assert!(store.consumers_in_memory().is_some());
    for consumer in consumers {
        let read = store.consumer_allocations(*consumer).await.unwrap();
        assert_eq!(read, store.stored_consumer_allocations(*consumer).await.unwrap());
    }
    for host in hosts {
        let (world, read) = store.provider_allocations(host.0).await.unwrap();
        let id = world.provider(host.0).unwrap().id();
        assert_eq!(read, store.stored_provider_allocations(id).await.unwrap());
    }
}

/// Makes one of several random changes of a consumer, whether it is allowed or not.
async fn change(berth: &Berth, consumer: Uuid, hosts: &[Host]) {
    let host = hosts[fastrand::usize(..hosts.len())];
    let other = hosts[fastrand::usize(..hosts.len())];
    let path = format!("/allocations/{consumer}");
    let generation = berth.get(&path).await.json()["consumer_generation"].clone();
    let amounts = json!({"VCPU": fastrand::u8(1..4), "MEMORY_MB": fastrand::u8(1..9)});
    let mut allocations = json!({(host.0.to_string()): {"resources": amounts}});
    match fastrand::u8(..8) {
        0 => {
            berth.delete(&path).await;
            return;
        }
        1 => allocations = json!({}),
        2 => allocations[other.0.to_string()] = json!({"resources": {"VCPU": 1}}),
        _ => {}
    }
    let owner = fastrand::u8(..3);
    let body = json!({
        "allocations": allocations, "consumer_generation": generation,
        "project_id": format!("project-{owner}"), "user_id": format!("user-{owner}"),
        "consumer_type": if owner == 0 { "INSTANCE" } else { "MIGRATION" },
    });
    berth.put(&path, body).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_and_database_agree_after_every_kind_of_change() {
    let berth = Berth::new().await;
    let replica = berth.replica().await;
    let hosts = [
        berth.host("one", &[("VCPU", 60), ("MEMORY_MB", 100)]).await,
        berth.host("two", &[("VCPU", 60), ("MEMORY_MB", 100)]).await,
        berth.host("three", &[("VCPU", 60), ("MEMORY_MB", 100)]).await,
    ];
    let consumers: Vec<Uuid> = (0..30).map(|_| Uuid::new_v4()).collect();
    in_memory(&berth).await;
    in_memory(&replica).await;
    for _ in 0..20 {
        let changes = consumers.iter().map(|consumer| change(&berth, *consumer, &hosts));
        let elsewhere = consumers.iter().map(|consumer| change(&replica, *consumer, &hosts));
        let all = futures_util::future::join_all(changes);
        tokio::join!(all, futures_util::future::join_all(elsewhere));
        check(&berth, &consumers, &hosts).await;
        check(&replica, &consumers, &hosts).await;
    }
    let late = berth.replica().await;
    in_memory(&late).await;
    check(&late, &consumers, &hosts).await;
}

/// A consumer that was written before, or is written while others are read, is neither missed nor seen twice.
#[tokio::test(flavor = "multi_thread")]
async fn changes_are_not_lost_while_consumers_are_read() {
    let berth = Berth::new().await;
    let hosts = [
        berth.host("one", &[("VCPU", 60), ("MEMORY_MB", 100)]).await,
        berth.host("two", &[("VCPU", 60), ("MEMORY_MB", 100)]).await,
    ];
    let consumers: Vec<Uuid> = (0..8).map(|_| Uuid::new_v4()).collect();
    for _ in 0..10 {
        let replica = berth.replica().await;
        let mut changed = 0;
        while changed < 20 || replica.app().store.consumers_in_memory().is_none() {
            change(&berth, consumers[fastrand::usize(..consumers.len())], &hosts).await;
            // Reads are of the present, also before the consumers are in memory.
            let path = format!("/allocations/{}", consumers[0]);
            assert_eq!(replica.get(&path).await.json(), berth.get(&path).await.json());
            changed += 1;
        }
        check(&replica, &consumers, &hosts).await;
    }
}

/// A read that begins after a change was acknowledged shows it, on another replica as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_elsewhere_shows_what_was_acknowledged_here() {
    let writer = Berth::new().await;
    let reader = writer.replica().await;
    in_memory(&reader).await;
    let host = writer.host("host", &[("VCPU", 1_000_000)]).await;
    let consumer = Uuid::new_v4();
    for nth in 1..=500 {
        let generation = (nth > 1).then_some(nth - 1);
        writer.claim(consumer, generation, &[(host, "VCPU", nth)]).await.expect(204);
        let shown = reader.get(&format!("/allocations/{consumer}")).await.json();
        assert_eq!(shown["consumer_generation"], nth);
        let on_host =
            reader.get(&format!("/resource_providers/{}/allocations", host.0)).await.json();
        assert_eq!(on_host["allocations"][consumer.to_string()]["resources"]["VCPU"], nth);
    }
    assert!(reader.app().store.consumers_in_memory().is_some());
}

/// A database that was restored to an earlier state has other consumers.
#[tokio::test(flavor = "multi_thread")]
async fn consumers_are_read_again_with_the_world() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    in_memory(&berth).await;
    let mut session = berth.session().await;
    session
        .execute(
            "update allocation_sets set used = '{2}'; update inventories set used = 2;
             update epoch set id = gen_random_uuid()",
        )
        .await
        .unwrap();
    let path = format!("/allocations/{consumer}");
    let used = |shown: &serde_json::Value| {
        shown["allocations"][host.0.to_string()]["resources"]["VCPU"].clone()
    };
    assert_eq!(used(&berth.get(&path).await.json()), 2);
    in_memory(&berth).await;
    assert_eq!(used(&berth.get(&path).await.json()), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_that_need_too_much_memory_are_read_from_the_database() {
    let database = postgres::database().await;
    let consumers_memory_max = Some(1000);
    let opening = StoreOptions { consumers_memory_max, ..store_at(&database) };
    let berth = Berth::opened(opening, Options::default()).await;
    let host = berth.host("host", &[("VCPU", 80)]).await;
    in_memory(&berth).await;
    for _ in 0..10 {
        let consumer = Uuid::new_v4();
        berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
        let shown = berth.get(&format!("/allocations/{consumer}")).await.json();
        assert_eq!(shown["consumer_generation"], 1);
    }
    assert_eq!(berth.app().store.consumers_in_memory(), None);
    let shown = berth.get(&format!("/resource_providers/{}/allocations", host.0)).await.json();
    assert_eq!(shown["allocations"].as_object().unwrap().len(), 10);
}

/// The log has what a claim changed, so that replicas read no rows of providers.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_names_no_provider_in_the_log() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let mut session = berth.session().await;
    let before: i64 =
        sqlx::query_scalar("select max(id) from change_log").fetch_one(&mut session).await.unwrap();
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    berth.claim(consumer, Some(1), &[(host, "VCPU", 2)]).await.expect(204);
    berth.delete(&format!("/allocations/{consumer}")).await.expect(204);
    let rows: Vec<(Vec<i64>, bool)> =
        sqlx::query_as("select providers, entries is not null from change_log where id > $1")
            .bind(before)
            .fetch_all(&mut session)
            .await
            .unwrap();
    assert_eq!(rows, vec![(vec![], true); 3]);
    assert_eq!(berth.usages(host).await, json!({"VCPU": 0}));
}

/// One thousand consumers are read from memory, and more from the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_of_many_consumers_is_read_in_full() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 10_000)]).await;
    in_memory(&berth).await;
    let path = format!("/resource_providers/{}/allocations", host.0);
    for count in [1000, 1003] {
        let held = berth.get(&path).await.json()["allocations"].as_object().unwrap().len();
        for _ in held..count {
            berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
        }
        let shown = berth.get(&path).await.json();
        assert_eq!(shown["allocations"].as_object().unwrap().len(), count);
    }
}
