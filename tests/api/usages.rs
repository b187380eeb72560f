//! `/usages` and `/resource_providers/{uuid}/usages`: the amounts in use, as docs/api/usages.md specifies them.

use serde_json::json;
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::claim_body;

#[tokio::test]
async fn the_usage_of_a_provider_has_each_of_its_classes_and_excludes_its_tree() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8), ("DISK_GB", 100)]).await;
    let device = berth.child("device", Some(host), &[("VGPU", 2)]).await;
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 2), (device, "VGPU", 1)]).await.expect(204);
    let path = format!("/resource_providers/{}/usages", host.0);
    let generation = berth.generation(host).await;
    assert_eq!(
        berth.get(&path).await.expect(200).json(),
        json!({"resource_provider_generation": generation, "usages": {"VCPU": 2, "DISK_GB": 0}})
    );
    assert_eq!(berth.usages(device).await, json!({"VGPU": 1}));
    berth.get(&format!("/resource_providers/{}/usages", Uuid::new_v4())).await.expect(404);
}

#[tokio::test]
async fn the_usage_of_a_project_has_the_classes_in_use() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8), ("DISK_GB", 100)]).await;
    for (user, cores) in [("one", 1), ("other", 2)] {
        let mut body = claim_body(None, &[(host, "VCPU", cores)]);
        body["user_id"] = json!(user);
        berth.put(&format!("/allocations/{}", Uuid::new_v4()), body).await.expect(204);
    }
    let usages = async |query: &str| {
        let shown = berth.at("1.37").get(&format!("/usages?{query}")).await.expect(200).json();
        shown["usages"].clone()
    };
    assert_eq!(usages("project_id=project").await, json!({"VCPU": 3}));
    assert_eq!(usages("project_id=project&user_id=other").await, json!({"VCPU": 2}));
    // An unknown project or user is not an error.
    assert_eq!(usages("project_id=project&user_id=nobody").await, json!({}));
    assert_eq!(usages("project_id=nobody").await, json!({}));
}

#[tokio::test]
async fn all_and_unknown_are_special_in_lower_case_only() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let mut body = claim_body(None, &[(host, "VCPU", 1)]);
    body["consumer_type"] = json!("ALL");
    berth.put(&format!("/allocations/{}", Uuid::new_v4()), body).await.expect(204);
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 2)]).await.expect(204);
    let usages = async |kind: &str| {
        let path = format!("/usages?project_id=project&consumer_type={kind}");
        berth.get(&path).await.expect(200).json()["usages"].clone()
    };
    assert_eq!(usages("ALL").await, json!({"ALL": {"consumer_count": 1, "VCPU": 1}}));
    assert_eq!(usages("all").await, json!({"all": {"consumer_count": 2, "VCPU": 3}}));
    assert_eq!(usages("unknown").await, json!({}));
}

#[tokio::test]
async fn invalid_parameters_are_refused() {
    let berth = Berth::new().await;
    let long = "x".repeat(256);
    for query in [
        "",
        "user_id=u",
        "project_id=",
        &format!("project_id={long}"),
        "project_id=p&consumer_type=instance",
        "project_id=p&flavor=f",
    ] {
        berth.get(&format!("/usages?{query}")).await.expect(400);
    }
    berth.at("1.37").get("/usages?project_id=p&consumer_type=INSTANCE").await.expect(400);
    berth.at("1.8").get("/usages?project_id=p").await.expect(404);
}
