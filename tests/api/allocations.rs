//! `/allocations` and `/resource_providers/{uuid}/allocations`: the resources that consumers use, as
//! docs/api/allocations.md specifies them.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::{Host, claim_body};

fn path(consumer: Uuid) -> String {
    format!("/allocations/{consumer}")
}

async fn shown(berth: &Berth, consumer: Uuid) -> Value {
    berth.get(&path(consumer)).await.expect(200).json()
}

async fn host(berth: &Berth) -> Host {
    berth.host("host", &[("VCPU", 8), ("DISK_GB", 100)]).await
}

#[tokio::test]
async fn a_write_replaces_all_allocations_of_a_consumer() {
    let berth = Berth::new().await;
    let host = host(&berth).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 2), (host, "DISK_GB", 10)]).await.expect(204);
    berth.claim(consumer, Some(1), &[(host, "VCPU", 3)]).await.expect(204);
    let allocations = json!({host.0.to_string(): {"generation": 3, "resources": {"VCPU": 3}}});
    assert_eq!(
        shown(&berth, consumer).await,
        json!({"allocations": allocations, "project_id": "project", "user_id": "user",
               "consumer_generation": 2, "consumer_type": "INSTANCE"})
    );
    assert_eq!(berth.usages(host).await, json!({"VCPU": 3, "DISK_GB": 0}));
}

#[tokio::test]
async fn a_consumer_exists_as_long_as_it_has_allocations() {
    let berth = Berth::new().await;
    let host = host(&berth).await;
    let consumer = Uuid::new_v4();
    assert_eq!(shown(&berth, consumer).await, json!({"allocations": {}}));
    berth.delete(&path(consumer)).await.expect(404);
    for removed in ["by an empty write", "by a deletion"] {
        berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
        if removed == "by a deletion" {
            berth.delete(&path(consumer)).await.expect(204);
        } else {
            berth.claim(consumer, Some(1), &[]).await.expect(204);
        }
        assert_eq!(shown(&berth, consumer).await, json!({"allocations": {}}), "{removed}");
    }
}

#[tokio::test]
async fn the_generation_of_a_consumer_is_checked_from_1_28() {
    let berth = Berth::new().await;
    let host = host(&berth).await;
    let consumer = Uuid::new_v4();
    let wants = [(host, "VCPU", 1)];
    let refused = berth.claim(consumer, Some(1), &wants).await.expect(409);
    assert_eq!(refused.code(), "placement.concurrent_update");
    berth.claim(consumer, None, &wants).await.expect(204);
    berth.claim(consumer, None, &wants).await.expect(409);
    // An earlier version does not check it, but increases it.
    let mut old = claim_body(None, &wants);
    for key in ["consumer_generation", "consumer_type"] {
        old.as_object_mut().unwrap().remove(key);
    }
    berth.at("1.27").put(&path(consumer), old).await.expect(204);
    assert_eq!(shown(&berth, consumer).await["consumer_generation"], 2);
    assert_eq!(
        shown(&berth, consumer).await["consumer_type"],
        "INSTANCE",
        "a write before 1.38 keeps the type"
    );
}

#[tokio::test]
async fn amounts_must_fit_units_and_capacity() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let inventory = json!({"total": 12, "min_unit": 2, "max_unit": 8, "step_size": 2});
    let body = json!({"resource_provider_generation": 0, "inventories": {"VCPU": inventory}});
    let inventories = format!("/resource_providers/{}/inventories", host.0);
    berth.put(&inventories, body).await.expect(200);
    let claim =
        async |class, amount| berth.claim(Uuid::new_v4(), None, &[(host, class, amount)]).await;
    for amount in [1, 3, 10] {
        let refused = claim("VCPU", amount).await.expect(409);
        assert_eq!(refused.code(), "placement.undefined_code", "{amount}");
    }
    claim("VCPU", 0).await.expect(400);
    claim("DISK_GB", 2).await.expect(409);
    claim("CUSTOM_NONE", 2).await.expect(400);
    claim("VCPU", 8).await.expect(204);
    claim("VCPU", 6).await.expect(409);
    claim("VCPU", 4).await.expect(204);
    let nowhere = Host(Uuid::new_v4());
    berth.claim(Uuid::new_v4(), None, &[(nowhere, "VCPU", 2)]).await.expect(400);
}

/// Nova moves instances like this, so that no other claim can take the released resources in between.
#[tokio::test]
async fn several_consumers_are_written_in_one_step() {
    let berth = Berth::new().await;
    let source = berth.host("source", &[("VCPU", 4)]).await;
    let target = berth.host("target", &[("VCPU", 4)]).await;
    let (instance, migration) = (Uuid::new_v4(), Uuid::new_v4());
    berth.claim(instance, None, &[(source, "VCPU", 4)]).await.expect(204);
    let body = |amount| {
        json!({instance.to_string(): claim_body(Some(1), &[(target, "VCPU", amount)]),
               migration.to_string(): claim_body(None, &[(source, "VCPU", 4)])})
    };
    // A request that is refused for one consumer changes none.
    berth.post("/allocations", body(5)).await.expect(409);
    assert_eq!(berth.usages(source).await, json!({"VCPU": 4}));
    assert_eq!(berth.held(migration).await, json!({}));
    berth.post("/allocations", body(4)).await.expect(204);
    assert_eq!(berth.usages(target).await, json!({"VCPU": 4}));
    let on_source = format!("/resource_providers/{}/allocations", source.0);
    assert_eq!(
        berth.get(&on_source).await.expect(200).json()["allocations"],
        json!({migration.to_string(): {"resources": {"VCPU": 4}, "consumer_generation": 1}})
    );
}

#[tokio::test]
async fn each_version_has_its_body() {
    let berth = Berth::new().await;
    let host = host(&berth).await;
    let consumer = Uuid::new_v4();
    let list = json!([{"resource_provider": {"uuid": host.0}, "resources": {"VCPU": 1}}]);
    let map = json!({host.0.to_string(): {"resources": {"VCPU": 1}}});
    let owned = |allocations: &Value| json!({"allocations": allocations, "project_id": "p", "user_id": "u"});
    for (version, body, status) in [
        ("1.0", json!({"allocations": list}), 204),
        ("1.8", json!({"allocations": list}), 400),
        ("1.8", owned(&list), 204),
        ("1.12", owned(&list), 400),
        ("1.12", owned(&map), 204),
        ("1.27", owned(&json!({})), 400),
        ("1.28", owned(&map), 400),
    ] {
        let answer = berth.at(version).put(&path(consumer), body.clone()).await;
        assert_eq!(answer.status, status, "{version}: {body}: {}", answer.text());
    }
    let keys = async |version: &str| {
        let shown = berth.at(version).get(&path(consumer)).await.expect(200).json();
        shown.as_object().unwrap().len()
    };
    assert_eq!(
        [keys("1.11").await, keys("1.12").await, keys("1.28").await, keys("1.38").await],
        [1, 3, 4, 5]
    );
    assert_eq!(shown(&berth, consumer).await["consumer_type"], "unknown");
}
