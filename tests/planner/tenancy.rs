//! A plan of one project does not bind other projects, and is not visible to them.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Asker, Site};
use crate::stack::{
    allocations, arrive_of, claim_of, create, finish, host, hosts, named, placement, placements,
    plan, server, show, store_group, usages, vcpus,
};

/// Members of an exclusivity group are UUIDs.
const ONE: &str = "b7d0e9b175294b649464caa3411adb3f";
const ONE_DASHED: &str = "b7d0e9b1-7529-4b64-9464-caa3411adb3f";

async fn reserve_for(asker: &Asker, server: &str, instance: Uuid) -> Value {
    let body = json!({"resource_id": instance});
    asker.post(&format!("/v1/placements/{server}"), body).await.expect(201).json()
}

/// Returns the outcome of a reservation, without the parts that differ each time.
fn shape(reserved: &Value) -> Vec<String> {
    let keys = reserved.as_object().unwrap().keys();
    keys.map(|key| format!("{key}: {}", reserved[key].is_string())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_of_another_project_is_as_one_that_does_not_exist() {
    let site = Site::new().await;
    let providers = site.racks(1, 2, [8, 1, 1]).await;
    let before = usages(&site).await;
    let (owner, other) = (site.tenant("p"), site.tenant("q"));
    let instance = Uuid::new_v4();
    arrive_of(&site, "p", instance, providers[0], 1).await;
    // The hold of the other project is on the very host, and on one where the instance is not.
    let mut stack = json!({"a": server("a", 1), "b": server("b", 1)});
    stack["a"]["locations"] = json!(["r01h01"]);
    stack["b"]["locations"] = json!(["r01h02"]);
    create(&other, "stack", stack.clone()).await;
    let held = placement(&other, "a").await["id"].as_str().unwrap().to_owned();
    for server in ["a", "b"] {
        let planned = placement(&other, server).await["location"].clone();
        let known = reserve_for(&other, server, instance).await;
        assert_eq!((&known["location"], &known["reserved"]), (&planned, &json!(true)));
        let unknown = reserve_for(&other, server, Uuid::new_v4()).await;
        assert_eq!(shape(&known), shape(&unknown));
    }
    reserve_for(&other, "a", instance).await;
    // The hold was not taken over, and another host is recommended as for any hold.
    assert_eq!(allocations(&site, &held).await.as_object().unwrap().len(), 1);
    let body = json!({"resource_id": instance});
    let requested = json!({"resource_id": instance, "locations": ["r01h01", "r01h02"]});
    let recommended = other.post("/v1/placements", requested).await.expect(200).json();
    assert_eq!(recommended["current_location"], "r01h01", "that of the hold");
    assert_eq!(recommended["id"], json!(held));
    // Its owner is not in anybody's way.
    create(&owner, "stack", json!({"a": server("a", 1)})).await;
    let reserved = reserve_for(&owner, "a", instance).await;
    assert_eq!(reserved["resource_id"], json!(instance));
    // An administrator's request finds the owner's placement.
    let shown = site.admin().post("/v1/placements", body).await.expect(200).json();
    assert_eq!(shown["id"], reserved["id"]);
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    let listed = placements(&other).await;
    assert_eq!(listed.as_array().unwrap().len(), 2);
    owner.delete("/v1/plans/stack").await.expect(204);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_ticket_of_the_project_that_claims_counts() {
    let site = Site::new().await;
    let providers = site.racks(1, 1, [8, 1, 1]).await;
    let before = usages(&site).await;
    let (owner, other) = (site.tenant(ONE_DASHED), site.tenant("q"));
    let instance = Uuid::new_v4();
    for tenant in [&other, &owner] {
        create(tenant, "stack", json!({"a": server("a", 2)})).await;
        reserve_for(tenant, "a", instance).await;
    }
    let (mine, theirs) = (placement(&owner, "a").await, placement(&other, "a").await);
    // A project has many spellings if it is a UUID.
    arrive_of(&site, ONE, instance, providers[0], 2).await;
    let held = |placement: &Value| placement["id"].as_str().unwrap().to_owned();
    assert_eq!(allocations(&site, &held(&mine)).await, json!({}));
    assert_eq!(allocations(&site, &held(&theirs)).await.as_object().unwrap().len(), 1);
    assert_eq!(vcpus(&site).await, [("r01h01".to_owned(), 4)].into());
    assert_eq!((placement(&owner, "a").await, placement(&other, "a").await), (mine, theirs));
    // Both within one project: one instance is one server.
    create(&owner, "second", json!({"b": server("b", 1)})).await;
    let body = json!({"resource_id": instance});
    owner.post("/v1/placements/b", body).await.explanation(409);
    owner.delete("/v1/plans/second").await.expect(204);
    // The host of an instance that went to another project is hidden from the old one.
    let path = format!("/allocations/{instance}");
    let mut gone = claim_of("elsewhere", providers[0], 2);
    gone["consumer_generation"] = json!(1);
    site.placement().put(&path, gone).await.expect(204);
    assert_eq!(placement(&owner, "a").await["location"], Value::Null);
    site.placement().delete(&path).await.expect(204);
    for tenant in [&other, &owner] {
        tenant.delete("/v1/plans/stack").await.expect(204);
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_of_another_project_opens_no_exclusive_host() {
    let site = Site::new().await;
    let providers = site.racks(1, 1, [8, 1, 1]).await;
    let before = usages(&site).await;
    store_group(&site, "own", "exclusivity", "host", &[ONE]).await;
    let member = site.tenant(ONE);
    let resources = json!({"a": server("a", 1), "g": named("exclusivity", "own", &["a"])});
    create(&member, "stack", resources).await;
    let instance = Uuid::new_v4();
    reserve_for(&member, "a", instance).await;
    let path = format!("/allocations/{instance}");
    let stranger = claim_of("q", providers[0], 1);
    site.placement().put(&path, stranger).await.expect(409);
    arrive_of(&site, ONE, instance, providers[0], 1).await;
    member.delete("/v1/plans/stack").await.expect(204);
    site.placement().delete(&path).await.expect(204);
    finish(&site, &before).await;
}

/// A server leaves an exclusivity group and grows, while its instance, in the group, is on the host: the host stays closed
/// to all others, the new hold of the server included.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_stays_exclusive_while_the_instance_of_a_leaving_server_is_there() {
    let site = Site::new().await;
    let providers = site.racks(1, 2, [8, 1, 1]).await;
    let before = usages(&site).await;
    store_group(&site, "own", "exclusivity", "host", &[ONE]).await;
    let member = site.tenant(ONE);
    let mut a = server("a", 1);
    a["locations"] = json!(["r01h01"]);
    let resources = json!({"a": a, "g": named("exclusivity", "own", &["a"])});
    let made = create(&member, "stack", resources).await;
    assert_eq!(host(&made, "a"), "r01h01");
    let instance = Uuid::new_v4();
    reserve_for(&member, "a", instance).await;
    arrive_of(&site, ONE, instance, providers[0], 1).await;
    let update = json!({"action": "update", "resources": {"a": server("a", 2)}});
    let why = member.put("/v1/plans/stack", update.clone()).await.explanation(409);
    assert!(why.contains("1 is kept for exclusivity group own"), "{why}");
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    member.put("/v1/plans/stack", update).await.expect(201);
    member.delete("/v1/plans/stack").await.expect(204);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stacks_are_those_of_a_project() {
    let site = Site::new().await;
    site.racks(1, 2, [8, 1, 1]).await;
    let before = usages(&site).await;
    let (one, two) = (site.tenant("p"), site.tenant("q"));
    let mine = create(&one, "stack", json!({"a": server("a", 1)})).await;
    let theirs = create(&two, "stack", json!({"a": server("b", 2)})).await;
    assert_ne!(mine["id"], theirs["id"]);
    assert_eq!((show(&one, "stack").await, show(&two, "stack").await), (mine.clone(), theirs));
    assert_eq!(create(&one, "stack", json!({"a": server("a", 1)})).await, mine, "the same plan");
    let update = json!({"action": "update", "resources": {"a": server("a", 1),
                        "c": server("c", 1)}});
    let updated = two.put("/v1/plans/stack", update).await.expect(201).json();
    assert_eq!(hosts(&updated).len(), 2);
    assert_eq!(show(&one, "stack").await, mine);
    // The id of another's plan is a stack like any other.
    let named = mine["id"].as_str().unwrap();
    let odd = create(&two, named, json!({})).await;
    assert_eq!((show(&one, named).await, show(&two, named).await), (mine.clone(), odd));
    two.delete(&format!("/v1/plans/{named}")).await.expect(204);
    // A caller who sees all projects gets the own plan, or else the only one.
    let admin = site.admin();
    for (method, body) in [("GET", None), ("DELETE", None), ("OPTIONS", None)] {
        let why = admin.ask(method, "/v1/plans/stack", body).await.explanation(409);
        let ids = [mine["id"].as_str().unwrap(), updated["id"].as_str().unwrap()];
        assert!(ids.iter().all(|id| why.contains(id)), "{why}");
        assert!(why.starts_with("Valet error: Several projects have a plan for stack 'stack'"));
    }
    for (key, expected) in [(named, &mine), (updated["id"].as_str().unwrap(), &updated)] {
        assert_eq!(&show(&admin, key).await, expected);
    }
    let why = admin.get("/v1/placements/a").await.explanation(409);
    let ids = [placement(&one, "a").await, placement(&two, "a").await];
    assert!(ids.iter().all(|it| why.contains(it["id"].as_str().unwrap())), "{why}");
    let own = create(&admin, "stack", json!({"a": server("own", 1)})).await;
    assert_eq!(show(&admin, "stack").await, own);
    assert_eq!(placement(&admin, "a").await["name"], "own");
    admin.delete("/v1/plans/stack").await.expect(204);
    two.delete("/v1/plans/stack").await.expect(204);
    assert_eq!(show(&admin, "stack").await, mine);
    assert_eq!(host(&show(&one, "stack").await, "a"), host(&mine, "a"));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_of_one_stack_in_two_projects_make_two_plans() {
    let site = Site::new().await;
    site.racks(1, 2, [64, 1, 1]).await;
    for round in 0..10 {
        let stack = format!("stack-{round}");
        let (one, two) = (site.tenant("p"), site.tenant("q"));
        let body = plan(&stack, json!({"a": server("a", 1)}));
        let path = "/v1/plans";
        let (mine, theirs) = tokio::join!(one.post(path, body.clone()), two.post(path, body));
        assert_ne!(mine.expect(201).json()["id"], theirs.expect(201).json()["id"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_counts_what_the_caller_sees() {
    let site = Site::new().await;
    site.racks(1, 1, [8, 1, 1]).await;
    create(&site.tenant("p"), "stack", json!({"a": server("a", 1)})).await;
    for (asker, plans) in [(site.tenant("p"), 1), (site.tenant("q"), 0), (site.admin(), 1)] {
        let status = asker.get("/v1/status").await.expect(200).json()["status"].clone();
        let expected = json!({"plans": plans, "placements": plans, "expired_holds": 0});
        assert_eq!(status["ostro"]["resources"], expected);
    }
}
