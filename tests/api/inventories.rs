//! `/resource_providers/{uuid}/inventories`: the resources of a provider, as docs/api/inventories.md specifies them.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::Host;

fn all(host: Host) -> String {
    format!("/resource_providers/{}/inventories", host.0)
}

fn one(host: Host, class: &str) -> String {
    format!("{}/{class}", all(host))
}

fn set(generation: i64, inventories: &Value) -> Value {
    json!({"resource_provider_generation": generation, "inventories": inventories})
}

#[tokio::test]
async fn omitted_keys_get_their_defaults_not_their_previous_values() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let full = json!({"total": 8, "reserved": 2, "allocation_ratio": 4.0, "min_unit": 2,
                      "max_unit": 4, "step_size": 2});
    let shown = berth.put(&all(host), set(0, &json!({"VCPU": full}))).await.expect(200);
    assert_eq!(shown.json(), set(1, &json!({"VCPU": full})));
    let body = json!({"resource_provider_generation": 1, "total": 8});
    berth.put(&one(host, "VCPU"), body).await.expect(200);
    assert_eq!(
        berth.get(&one(host, "VCPU")).await.expect(200).json(),
        json!({"resource_provider_generation": 2, "total": 8, "reserved": 0,
               "allocation_ratio": 1.0, "min_unit": 1, "max_unit": 2_147_483_647, "step_size": 1})
    );
}

#[tokio::test]
async fn the_capacity_is_the_unreserved_amount_times_the_ratio_truncated() {
    let berth = Berth::new().await;
    for (total, reserved, ratio, capacity) in [(100, 0, 0.29, 28), (8, 2, 1.5, 9), (3, 1, 1.25, 2)]
    {
        let host = berth.host(&Uuid::new_v4().to_string(), &[]).await;
        let inventory = json!({"total": total, "reserved": reserved, "allocation_ratio": ratio});
        berth.put(&all(host), set(0, &json!({"VCPU": inventory}))).await.expect(200);
        let claim =
            async |amount| berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", amount)]).await;
        claim(capacity + 1).await.expect(409);
        claim(capacity).await.expect(204);
    }
}

#[tokio::test]
async fn a_class_is_added_once_and_only_put_checks_the_generation() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let added =
        json!({"resource_class": "DISK_GB", "total": 100, "resource_provider_generation": 99});
    let created = berth.post(&all(host), added.clone()).await.expect(201);
    assert!(created.headers["location"].to_str().unwrap().ends_with(&one(host, "DISK_GB")));
    assert_eq!(
        berth.post(&all(host), added).await.expect(409).code(),
        "placement.concurrent_update"
    );
    let stale = berth.put(&all(host), set(1, &json!({}))).await.expect(409);
    assert_eq!(stale.code(), "placement.concurrent_update");
    let unknown = json!({"resource_class": "CUSTOM_NONE", "total": 1});
    berth.post(&all(host), unknown).await.expect(400);
    let body = json!({"resource_provider_generation": 2, "total": 1});
    berth.put(&one(host, "MEMORY_MB"), body).await.expect(400);
    berth.get(&one(host, "MEMORY_MB")).await.expect(404);
    berth.delete(&one(host, "MEMORY_MB")).await.expect(404);
}

#[tokio::test]
async fn an_allocated_class_is_not_removed_and_the_codes_differ() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8), ("DISK_GB", 100)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    let generation = berth.generation(host).await;
    let in_use = "placement.inventory.inuse";
    let without = set(generation, &json!({"DISK_GB": {"total": 100}}));
    assert_eq!(berth.put(&all(host), without).await.expect(409).code(), in_use);
    assert_eq!(berth.delete(&all(host)).await.expect(409).code(), in_use);
    let refused = berth.delete(&one(host, "VCPU")).await.expect(409);
    assert_eq!(refused.code(), "placement.concurrent_update");
    berth.delete(&one(host, "DISK_GB")).await.expect(204);
    berth.delete(&format!("/allocations/{consumer}")).await.expect(204);
    berth.delete(&all(host)).await.expect(204);
}

#[tokio::test]
async fn an_inventory_may_become_smaller_than_its_allocations() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 6)]).await.expect(204);
    berth.stock(host, berth.generation(host).await, &[("VCPU", 4)]).await.expect(200);
    assert_eq!(berth.usages(host).await, json!({"VCPU": 6}));
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(409);
    berth.claim(consumer, Some(1), &[(host, "VCPU", 7)]).await.expect(409);
    // A smaller amount is accepted, although it still exceeds the capacity.
    berth.claim(consumer, Some(1), &[(host, "VCPU", 5)]).await.expect(204);
}

#[tokio::test]
async fn every_write_increases_the_generation() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    berth.delete(&all(host)).await.expect(204);
    assert_eq!(berth.generation(host).await, 1);
    for generation in 1..3 {
        berth.stock(host, generation, &[("VCPU", 8)]).await.expect(200);
        assert_eq!(berth.generation(host).await, generation + 1);
    }
}

#[tokio::test]
async fn versions_differ_in_what_may_be_reserved_and_deleted() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let reserved = |generation, reserved| {
        set(generation, &json!({"VCPU": {"total": 8, "reserved": reserved}}))
    };
    berth.at("1.25").put(&all(host), reserved(0, 8)).await.expect(400);
    berth.at("1.26").put(&all(host), reserved(0, 8)).await.expect(200);
    berth.at("1.26").put(&all(host), reserved(1, 9)).await.expect(400);
    berth.at("1.4").delete(&all(host)).await.expect(405);
    berth.at("1.5").delete(&all(host)).await.expect(204);
}
