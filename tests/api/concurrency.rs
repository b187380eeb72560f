//! Concurrent writers: exactly the capacity is allocated, no request is refused because of another one, and
//! nothing is left behind. All tests use two replicas of one database.

use axum::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::{Host, claim_body};
use crate::support::postgres;

async fn replicas() -> [Berth; 2] {
    let database = postgres::database().await;
    Berth::watch_deadlocks(&database).await;
    let first = Berth::over(&database).await;
    let second = first.replica().await;
    [first, second]
}

/// The reference sells up to 24 where there is room for 12.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_units_are_sold_exactly_once() {
    let berths = replicas().await;
    let host = berths[0].host("host", &[("VCPU", 12)]).await;
    for _ in 0..10 {
        let consumers: Vec<Uuid> = (0..24).map(|_| Uuid::new_v4()).collect();
        let claims = consumers.iter().enumerate().map(|(nth, consumer)| {
            let berth = berths[nth % 2].clone();
            async move { berth.claim(*consumer, None, &[(host, "VCPU", 1)]).await.status }
        });
        let statuses = join_all(claims).await;
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 12, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 12, "{statuses:?}");
        assert_eq!(berths[1].usages(host).await, json!({"VCPU": 12}));
        berths[0].assert_consistent().await;
        let releases = consumers.iter().map(|consumer| {
            let path = format!("/allocations/{consumer}");
            let berth = berths[0].clone();
            async move { berth.delete(&path).await.status }
        });
        let statuses = join_all(releases).await;
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 12);
    }
    assert_eq!(berths[1].usages(host).await, json!({"VCPU": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_on_one_provider_never_refuse_each_other() {
    let berths = replicas().await;
    let pool = berths[0].host("pool", &[("DISK_GB", 100_000)]).await;
    let claims = (0..200).map(|nth| {
        let berth = berths[nth % 2].clone();
        async move { berth.claim(Uuid::new_v4(), None, &[(pool, "DISK_GB", 10)]).await.status }
    });
    assert!(join_all(claims).await.iter().all(|status| *status == 204));
    assert_eq!(berths[0].usages(pool).await, json!({"DISK_GB": 2000}));
    assert_eq!(berths[0].generation(pool).await, 201, "one step a claim, one for the inventory");
}

/// In the reference the retry of a first claim may be acknowledged as well, and its clean-up may
/// delete the consumer below the winner.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_consumer_is_claimed_for_once() {
    let berths = replicas().await;
    let host = berths[0].host("host", &[("VCPU", 1000)]).await;
    for round in 0..40 {
        let consumer = Uuid::new_v4();
        // Every other round, the second one cannot fit and must not take the first one with it.
        let second = if round % 2 == 0 { 1 } else { 2000 };
        let (one, other) = tokio::join!(
            berths[0].claim(consumer, None, &[(host, "VCPU", 1)]),
            berths[1].claim(consumer, None, &[(host, "VCPU", second)])
        );
        let statuses = [one.status, other.status];
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 1, "{statuses:?}");
        let held = berths[0].get(&format!("/allocations/{consumer}")).await.json();
        assert_eq!(held["consumer_generation"], 1);
    }
    berths[0].assert_consistent().await;
}

/// In the reference both may be acknowledged and the allocation stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_delete_is_ordered_with_a_guarded_replace() {
    let berths = replicas().await;
    let host = berths[0].host("host", &[("VCPU", 1000)]).await;
    for _ in 0..40 {
        let consumer = Uuid::new_v4();
        berths[0].claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
        let path = format!("/allocations/{consumer}");
        let (replaced, deleted) = tokio::join!(
            berths[0].claim(consumer, Some(1), &[(host, "VCPU", 2)]),
            berths[1].delete(&path)
        );
        deleted.expect(204);
        assert!([204, 409].contains(&replaced.status), "{}", replaced.text());
        assert_eq!(berths[1].held(consumer).await, json!({}));
    }
    assert_eq!(berths[0].usages(host).await, json!({"VCPU": 0}));
    berths[0].assert_consistent().await;
}

/// In the reference these end in deadlocks and 500s.
#[tokio::test(flavor = "multi_thread")]
async fn claims_on_two_providers_in_opposite_order_all_succeed() {
    let berths = replicas().await;
    let one = berths[0].host("one", &[("VCPU", 1000)]).await;
    let two = berths[0].host("two", &[("VCPU", 1000)]).await;
    let claims = (0..100).map(|nth| {
        let berth = berths[nth % 2].clone();
        let order = if nth % 4 < 2 { [one, two] } else { [two, one] };
        let wants = order.map(|host| (host, "VCPU", 1));
        async move { berth.claim(Uuid::new_v4(), None, &wants).await.status }
    });
    assert!(join_all(claims).await.iter().all(|status| *status == 204));
    assert_eq!(berths[0].usages(one).await, json!({"VCPU": 100}));
    assert_eq!(berths[1].usages(two).await, json!({"VCPU": 100}));
    berths[0].assert_consistent().await;
    assert_eq!(berths[0].deadlocks().await, 0);
}

/// In the reference both may be acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn claimed_inventory_is_not_removed() {
    let berths = replicas().await;
    for round in 0..30 {
        let host = berths[0].host(&format!("host-{round}"), &[("VCPU", 8)]).await;
        let consumer = Uuid::new_v4();
        let provider = format!("/resource_providers/{}", host.0);
        let removed = match round % 3 {
            0 => provider.clone(),
            1 => format!("{provider}/inventories"),
            _ => format!("{provider}/inventories/VCPU"),
        };
        let (claimed, removed) = tokio::join!(
            berths[0].claim(consumer, None, &[(host, "VCPU", 1)]),
            berths[1].delete(&removed)
        );
        let outcome = (claimed.status, removed.status);
        assert!(
            [(204, 409), (409, 204), (400, 204)].contains(&outcome),
            "{outcome:?}: {} {}",
            claimed.text(),
            removed.text()
        );
    }
    berths[0].assert_consistent().await;
}

/// Moves that are each allowed must not close a loop together.
#[tokio::test(flavor = "multi_thread")]
async fn providers_that_move_below_each_other_make_no_loop() {
    let berths = replicas().await;
    for round in 0..20 {
        let one = berths[0].host(&format!("one-{round}"), &[]).await;
        let two = berths[0].host(&format!("two-{round}"), &[]).await;
        let place = |berth: &Berth, name: String, host: Host, parent: Host| {
            let berth = berth.clone();
            async move {
                let body = json!({"name": name, "parent_provider_uuid": parent.0});
                berth.put(&format!("/resource_providers/{}", host.0), body).await.status
            }
        };
        let statuses: (u16, u16) = tokio::join!(
            place(&berths[0], format!("one-{round}"), one, two),
            place(&berths[1], format!("two-{round}"), two, one)
        );
        assert!([(200, 400), (400, 200)].contains(&statuses), "{statuses:?}");
    }
    berths[0].assert_consistent().await;
}

/// A move of a consumer from one host to the other by `POST /allocations`, as in a migration: concurrent reads
/// return one of the two states.
#[tokio::test(flavor = "multi_thread")]
async fn a_swap_is_never_seen_half_done() {
    let berths = replicas().await;
    let one = berths[0].host("one", &[("VCPU", 1)]).await;
    let two = berths[0].host("two", &[("VCPU", 1)]).await;
    let (instance, migration) = (Uuid::new_v4(), Uuid::new_v4());
    berths[0].claim(instance, None, &[(one, "VCPU", 1)]).await.expect(204);
    berths[0].claim(migration, None, &[(two, "VCPU", 1)]).await.expect(204);

    let swapping = berths[0].clone();
    let swaps = tokio::spawn(async move {
        let mut hosts = [two, one];
        for generation in 1..=100 {
            let body = json!({
                instance.to_string(): claim_body(Some(generation), &[(hosts[0], "VCPU", 1)]),
                migration.to_string(): claim_body(Some(generation), &[(hosts[1], "VCPU", 1)]),
            });
            swapping.post("/allocations", body).await.expect(204);
            hosts.reverse();
        }
    });
    let mut seen = 0;
    while !swaps.is_finished() {
        let row: (i64, i64) =
            sqlx::query_as("select count(*), count(distinct provider_id) from allocations")
                .fetch_one(&mut berths[1].session().await)
                .await
                .unwrap();
        assert_eq!(row, (2, 2));
        assert_eq!(berths[1].usages(one).await, json!({"VCPU": 1}));
        seen += 1;
    }
    swaps.await.unwrap();
    assert!(seen > 0);
    berths[0].assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_several_consumers_is_all_or_nothing() {
    let berths = replicas().await;
    let host = berths[0].host("host", &[("VCPU", 10)]).await;
    let attempts = (0..40).map(|nth| {
        let berth = berths[nth % 2].clone();
        let pair = [Uuid::new_v4(), Uuid::new_v4()];
        async move {
            let body: serde_json::Map<String, Value> = pair
                .iter()
                .map(|uuid| (uuid.to_string(), claim_body(None, &[(host, "VCPU", 3)])))
                .collect();
            let status = berth.post("/allocations", Value::Object(body)).await.status;
            (pair, status)
        }
    });
    for (pair, status) in join_all(attempts).await {
        for consumer in pair {
            let empty = berths[0].held(consumer).await == json!({});
            assert_eq!(empty, status != 204);
        }
    }
    assert_eq!(berths[0].usages(host).await, json!({"VCPU": 6}), "one pair fits");
    berths[0].assert_consistent().await;
}

/// Generations are compare-and-set: of the updates with the same generation, one wins.
#[tokio::test(flavor = "multi_thread")]
async fn of_updates_that_saw_one_generation_one_wins() {
    let berths = replicas().await;
    let host = berths[0].host("host", &[("VCPU", 10)]).await;
    let updates = (0..20).map(|nth| {
        let berth = berths[nth % 2].clone();
        async move { berth.stock(host, 1, &[("VCPU", 11)]).await }
    });
    let answers = join_all(updates).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!((answer.status, answer.code().as_str()), (409, "placement.concurrent_update"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_those_who_delete_a_name_at_once_one_does() {
    let berths = replicas().await;
    for path in ["/traits/CUSTOM_X", "/resource_classes/CUSTOM_X"] {
        for _ in 0..10 {
            berths[0].ask(Method::PUT, path, None).await.expect(201);
            let deletes = (0..8).map(|nth| {
                let berth = berths[nth % 2].clone();
                tokio::spawn(async move { berth.delete(path).await.status })
            });
            let statuses = join_all(deletes).await.into_iter().map(Result::unwrap);
            let mut statuses: Vec<u16> = statuses.collect();
            statuses.sort_unstable();
            assert_eq!(statuses, [204, 404, 404, 404, 404, 404, 404, 404], "{path}");
        }
    }
}

/// Everything that locks providers, on the same few of them, in whatever order clients name them:
/// transactions wait for each other, and never in a circle.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claims_do_not_deadlock() {
    let berths = replicas().await;
    let [one, two] = [
        berths[0].host("one", &[("VCPU", 1000)]).await,
        berths[0].host("two", &[("VCPU", 1000)]).await,
    ];
    let mut nodes = Vec::new();
    for nth in 0..4 {
        nodes.push(berths[0].child(&format!("node-{nth}"), Some(one), &[("VCPU", 1000)]).await);
    }
    let clients = (0..12).map(|number| {
        let (berth, nodes) = (berths[number % 2].clone(), nodes.clone());
        tokio::spawn(async move {
            for round in 0..25 {
                let node = nodes[(number + round) % nodes.len()];
                let status = match number % 6 {
                    0 | 1 => claim_and_move_on(&berth, [node, one, two], round).await,
                    2 => put_below(&berth, node, if round % 2 == 0 { two } else { one }).await,
                    3 => rename(&berth, node, nodes[round % nodes.len()]).await,
                    4 => come_and_go(&berth, if round % 2 == 0 { one } else { two }).await,
                    _ => reshape(&berth, node, two).await,
                };
                assert!((200..500).contains(&status), "client {number}: {status}");
            }
        })
    });
    for client in join_all(clients).await {
        client.unwrap();
    }
    berths[0].assert_consistent().await;
    assert_eq!(berths[0].deadlocks().await, 0);
}

/// A consumer takes from the providers in one order, then in the other, and goes.
async fn claim_and_move_on(berth: &Berth, mut hosts: [Host; 3], round: usize) -> u16 {
    let consumer = Uuid::new_v4();
    hosts.rotate_left(round % 3);
    let wants = hosts.map(|host| (host, "VCPU", 1));
    berth.claim(consumer, None, &wants).await.expect(204);
    hosts.reverse();
    let wants = hosts.map(|host| (host, "VCPU", 2));
    berth.claim(consumer, Some(1), &wants[..2]).await.expect(204);
    berth.delete(&format!("/allocations/{consumer}")).await.status
}

async fn put_below(berth: &Berth, node: Host, parent: Host) -> u16 {
    let path = format!("/resource_providers/{}", node.0);
    let name = berth.get(&path).await.expect(200).json()["name"].clone();
    berth.put(&path, json!({"name": name, "parent_provider_uuid": parent.0})).await.status
}

/// Gives one the name of another, which is free now and then.
async fn rename(berth: &Berth, node: Host, other: Host) -> u16 {
    let path = format!("/resource_providers/{}", other.0);
    let name = berth.get(&path).await.expect(200).json()["name"].clone();
    berth.put(&path, json!({"name": format!("{}-once", node.0)})).await;
    berth.put(&format!("/resource_providers/{}", node.0), json!({"name": name})).await.status
}

/// A child is created, gets an inventory and a trait, and is deleted.
async fn come_and_go(berth: &Berth, parent: Host) -> u16 {
    let name = Uuid::new_v4().to_string();
    let child = berth.child(&name, Some(parent), &[("VCPU", 8)]).await;
    let path = format!("/resource_providers/{}", child.0);
    berth.ask(Method::PUT, "/traits/CUSTOM_NEW", None).await;
    let body = json!({"resource_provider_generation": 1, "traits": ["CUSTOM_NEW"]});
    berth.put(&format!("{path}/traits"), body).await;
    berth.delete(&path).await;
    berth.delete("/traits/CUSTOM_NEW").await.status
}

/// Both providers get the inventories that they have, in the same request.
async fn reshape(berth: &Berth, one: Host, two: Host) -> u16 {
    let mut inventories = serde_json::Map::new();
    for host in [two, one] {
        let generation = berth.generation(host).await;
        let all = json!({"VCPU": {"total": 1000}});
        let new = json!({"resource_provider_generation": generation, "inventories": all});
        inventories.insert(host.0.to_string(), new);
    }
    let consumer = Uuid::new_v4().to_string();
    let claims = json!({consumer: claim_body(None, &[(two, "VCPU", 1), (one, "VCPU", 1)])});
    let body = json!({"inventories": inventories, "allocations": claims});
    berth.post("/reshaper", body).await.status
}
