//! Groups that the flavor of a server names.

use serde_json::json;
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{create, finish, flavored, host, plan, store_group, usages};

async fn set(site: &Site, name: &str, property: &str) -> Result<String, String> {
    let arguments = ["set", name, "--vcpus", "1", "--ram", "1", "--property", property];
    site.command("flavor", &arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn r56_a_flavor_puts_its_servers_into_groups() {
    let site = Site::new().await;
    site.racks(1, 3, [4, 999, 99]).await;
    let before = usages(&site).await;
    store_group(&site, "apart", "diversity", "host", &[]).await;
    let tenant = site.tenant("p");
    let path = "/v1/groups/apart";
    let group = site.admin().get(path).await.expect(200).json()["group"]["id"].clone();
    for (nth, property) in [
        "valet:groups=apart".to_owned(),
        "valet:groups=[\"apart\"]".to_owned(),
        format!("valet={}", json!({"groups": [group]})),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("wide{nth}");
        set(&site, &name, property).await.unwrap();
        let stack = format!("s{nth}");
        // The rule holds between plans, and a server may have the group from elsewhere, too.
        create(&tenant, &stack, json!({"a": flavored("a", &name)})).await;
    }
    let hosts: Vec<String> = {
        let mut hosts = Vec::new();
        for stack in ["s0", "s1", "s2"] {
            let plan = tenant.get(&format!("/v1/plans/{stack}")).await.expect(200).json();
            hosts.push(host(&plan, "a"));
        }
        hosts.sort();
        hosts
    };
    assert_eq!(hosts, ["r01h01", "r01h02", "r01h03"]);
    let body = plan("s3", json!({"a": flavored("a", "wide0")}));
    let why = tenant.post("/v1/plans", body).await.explanation(409);
    assert!(why.starts_with("Ostro error: "), "{why}");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r56_a_plan_keeps_the_groups_of_the_flavor() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 999, 99]).await;
    store_group(&site, "apart", "diversity", "host", &[]).await;
    let tenant = site.tenant("p");
    set(&site, "wide", "valet:groups=apart").await.unwrap();
    let resources = json!({"a": flavored("a", "wide"), "b": flavored("b", "wide")});
    let made = create(&tenant, "s", resources.clone()).await;
    assert_ne!(host(&made, "a"), host(&made, "b"));
    // As with sizes, the plan goes on as it was made.
    set(&site, "wide", "a=b").await.unwrap();
    let update = json!({"action": "update", "resources": resources});
    let updated = tenant.put("/v1/plans/s", update).await.expect(201).json();
    assert_eq!(updated, made);
    let more = json!({"a": flavored("a", "wide"), "b": flavored("b", "wide"),
                      "c": flavored("c", "wide")});
    let update = json!({"action": "update", "resources": more});
    tenant.put("/v1/plans/s", update).await.expect(201);
    // A server that gets another flavor leaves the groups of the first.
    let update = json!({"action": "update", "resources": {"a": flavored("a", "m1.tiny")}});
    tenant.put("/v1/plans/s", update).await.expect(201);
    tenant.delete("/v1/plans/s").await.expect(204);
    site.admin().delete("/v1/groups/apart").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn r56_the_group_must_exist_and_be_for_the_project() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 999, 99]).await;
    set(&site, "odd", "valet:groups=gone").await.unwrap();
    let tenant = site.tenant("p");
    let body = plan("s", json!({"a": flavored("a", "odd")}));
    let why = tenant.post("/v1/plans", body.clone()).await.explanation(409);
    assert!(why.contains("Group 'gone' not found"), "{why}");
    let member = Uuid::new_v4().to_string();
    store_group(&site, "gone", "exclusivity", "host", &[&member]).await;
    let why = tenant.post("/v1/plans", body.clone()).await.explanation(409);
    assert!(why.contains("not a member of exclusivity group 'gone'"), "{why}");
    site.tenant(&member).post("/v1/plans", body).await.expect(201);
    for (property, words) in [("valet=gold", "must be"), ("valet:groups=[1]", "string")] {
        let why = set(&site, "bad", property).await.unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}
