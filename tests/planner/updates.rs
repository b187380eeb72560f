//! Changes of plans: more servers, other servers, and servers that migrate. Servers that a change does not concern
//! stay where they are.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::plans::{sample, sample_site};
use crate::site::{Asker, Host, Site};
use crate::stack::{
    Usages, arrive, bare, counts, create, finish, flavored, group, having, host, hosts, placement,
    placements, reserve, server, show, usages, vcpus, with,
};

/// Makes a site with this number of hosts of 4 `VCPU`, `r01h01`, ...
async fn hosts_of_four(count: usize) -> (Site, Usages) {
    let site = Site::new().await;
    site.racks(1, count, [4, 1, 1]).await;
    let before = usages(&site).await;
    (site, before)
}

/// The body that adds resources to a plan.
fn adding(stack: &str, resources: Value, update: Value) -> Value {
    let mut body = json!({"plan_name": stack, "stack_id": stack});
    body["resources"] = resources;
    body["resources_update"] = update;
    body
}

/// The body that makes these the resources of a plan.
fn replacing(resources: Value) -> Value {
    let mut body = json!({"action": "update"});
    body["resources"] = resources;
    body
}

async fn update(asker: &Asker, body: Value) -> Value {
    asker.put("/v1/plans/stack", body).await.expect(201).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn r44_update_a_plan_as_the_seed_does() {
    let site = sample_site().await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let made = tenant.post("/v1/plans", sample()).await.expect(201).json();
    let properties = json!({
        "flavor": "m1.small",
        "image": "ubuntu12_04",
        "key_name": "demo",
        "networks": [{"network": "demo-net"}],
    });
    let capital = |name: &str| json!({"Properties": properties.clone(), "Type": "OS::Nova::Server", "name": name});
    let stack = "e624474b-fc80-4053-ab5f-45cc1030e692";
    let old = "b71bedad-dd57-4942-a7bd-ab074b72d652";
    let new = "a649424b-dd57-1431-befc-45cc4b72d653";
    let body = json!({
        "plan_name": stack,
        "resources": {old: capital("my_instance")},
        "resources_update": {new: capital("my_new_instance")},
        "stack_id": stack,
        "timeout": "60 sec",
    });
    let path = format!("/v1/plans/{stack}");
    let expected = json!({
        "stack_id": stack,
        "id": made["id"],
        "placements": {
            old: {"location": "qos103", "name": "my_instance"},
            new: {"location": "qos103", "name": "my_new_instance"},
        },
        "name": stack,
    });
    // As often as one likes, and by either id.
    for path in [&path, &path, &format!("/v1/plans/{}", made["id"].as_str().unwrap())] {
        let updated = tenant.put(path, body.clone()).await.expect(201).json();
        assert_eq!(bare(&updated), expected);
        assert_eq!(show(&tenant, stack).await, updated);
        assert_eq!(vcpus(&site).await, [("qos103".to_owned(), 2)].into());
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r44_what_is_new_is_added_and_what_is_there_is_changed() {
    let (site, before) = hosts_of_four(3).await;
    let tenant = site.tenant("p");
    let old = json!({"a": server("a", 2), "b": server("b", 2)});
    let made = create(&tenant, "stack", old.clone()).await;
    // In neither of both: untouched. In both: as the plan has it.
    let resources = json!({"a": server("a", 4)});
    let added = update(&tenant, adding("stack", resources, json!({"c": server("c", 3)}))).await;
    assert_eq!(hosts(&added).len(), 3);
    for server in ["a", "b"] {
        assert_eq!(added["placements"][server], made["placements"][server]);
    }
    assert_eq!(vcpus(&site).await.values().sum::<i64>(), 7);
    // A change of an existing server.
    let larger = json!({"b": server("renamed", 4)});
    let changed = update(&tenant, adding("stack", old.clone(), larger)).await;
    assert_eq!(changed["placements"]["b"]["name"], "renamed");
    assert_eq!(changed["placements"]["a"], made["placements"]["a"]);
    assert_eq!(changed["placements"]["c"], added["placements"]["c"]);
    assert_eq!(vcpus(&site).await.values().sum::<i64>(), 9);
    // A server that the client names as existing, and that does not exist, is new as well.
    let unknown = json!({"d": with(server("d", 1), "image", json!("cirros"))});
    let changed = update(&tenant, adding("stack", unknown, json!({}))).await;
    assert_eq!(hosts(&changed).len(), 4);
    // Nothing at all is fine, too.
    assert_eq!(update(&tenant, adding("stack", json!({}), json!({}))).await, changed);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r44_groups_of_an_update_bind_what_is_there() {
    let (site, before) = hosts_of_four(3).await;
    let tenant = site.tenant("p");
    let old = json!({"a": server("a", 1)});
    let made = create(&tenant, "stack", old.clone()).await;
    let new = json!({"b": server("b", 1), "g": group("diversity", "host", &["a", "b"])});
    let updated = update(&tenant, adding("stack", old.clone(), new)).await;
    assert_eq!(host(&updated, "a"), host(&made, "a"));
    assert_ne!(host(&updated, "b"), host(&made, "a"));
    let new = json!({"c": server("x", 1), "h": group("affinity", "host", &["b", "x"])});
    let updated = update(&tenant, adding("stack", json!({}), new)).await;
    assert_eq!(host(&updated, "c"), host(&updated, "b"));
    finish(&site, &before).await;
}

/// A group that is new to a server binds it as in a new plan, although no other server of the group was there.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_outside_of_all_racks_moves_if_a_group_of_racks_gets_it() {
    let bare = Host { name: "bare", size: [4, 1, 1], traits: &[] };
    for kind in ["affinity", "diversity"] {
        let site = Site::new().await;
        site.hosts(&[bare]).await;
        let tenant = site.tenant("p");
        let old = json!({"s": server("s", 1), "t": server("t", 1)});
        create(&tenant, "stack", old).await;
        site.racks(2, 1, [4, 1, 1]).await;
        reserve(&tenant, "t", &["bare"]).await;
        let new = json!({"n": server("n", 1), "g": group(kind, "rack", &["s", "n"])});
        let response = tenant.put("/v1/plans/stack", adding("stack", json!({}), new)).await;
        assert_eq!(response.header("berth-broken"), "");
        let updated = response.expect(201).json();
        assert_eq!(host(&updated, "t"), "bare");
        let racks = counts(&updated, 3);
        let expected: &[_] = if kind == "affinity" { &[1, 2] } else { &[1, 1, 1] };
        let mut found: Vec<usize> = racks.into_values().collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{updated}");
        // A reserved server stays, so its group is impossible.
        let new = json!({"m": server("m", 1), "h": group(kind, "rack", &["t", "m"])});
        let response = tenant.put("/v1/plans/stack", adding("stack", json!({}), new)).await;
        let why = response.explanation(409);
        assert!(why.contains(&format!("{kind} group h")), "{why}");
        assert_eq!(show(&tenant, "stack").await, updated);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r44_flavors_are_looked_up_wherever_they_stand() {
    let site = sample_site().await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    create(&tenant, "stack", json!({})).await;
    let small = |name: &str| json!({name: flavored(name, "m1.small")});
    let updated = update(&tenant, adding("stack", small("a"), small("b"))).await;
    assert_eq!(hosts(&updated).len(), 2);
    for (resources, new) in [
        (json!({"c": flavored("c", "no")}), json!({})),
        (json!({}), json!({"c": flavored("c", "no")})),
    ] {
        let answer = tenant.put("/v1/plans/stack", adding("stack", resources, new)).await;
        assert_eq!(answer.explanation(400), "Valet error: flavor 'no' not found");
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r44_what_an_update_must_not_say() {
    let (site, before) = hosts_of_four(2).await;
    let tenant = site.tenant("p");
    let old = json!({"a": server("a", 1)});
    let made = create(&tenant, "stack", old.clone()).await;
    let good = adding("stack", old, json!({"b": server("b", 1)}));
    let mut other = good.clone();
    other["stack_id"] = json!("other");
    let why = tenant.put("/v1/plans/stack", other).await.explanation(400);
    assert!(why.contains("stack_id 'other' differs from that of the plan"), "{why}");
    for key in ["plan_name", "resources", "resources_update", "stack_id"] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(key);
        let why = tenant.put("/v1/plans/stack", body).await.explanation(400);
        assert!(why.contains(&format!("required key in data is missing: {key}")), "{why}");
    }
    let large = adding("stack", json!({}), json!({"b": server("b", 1), "c": server("c", 5)}));
    let why = tenant.put("/v1/plans/stack", large).await.explanation(409);
    assert!(why.starts_with("Ostro error: "), "{why}");
    let why = tenant.put("/v1/plans/other", good).await.explanation(404);
    assert_eq!(why, "Plan not found");
    assert_eq!(show(&tenant, "stack").await, made);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_the_resources_of_an_update_are_all_there_are() {
    let (site, before) = hosts_of_four(3).await;
    let tenant = site.tenant("p");
    let old = json!({"a": server("a", 2), "b": server("b", 2), "c": server("c", 3)});
    let made = create(&tenant, "stack", old.clone()).await;
    let mut body = replacing(json!({"b": server("b", 2), "d": server("d", 3)}));
    body["original_resources"] = old;
    body["plan_name"] = json!("stack");
    body["timeout"] = json!("60 sec");
    let updated = update(&tenant, body).await;
    assert_eq!(updated["id"], made["id"]);
    assert_eq!(hosts(&updated).keys().collect::<Vec<_>>(), ["b", "d"]);
    assert_eq!(updated["placements"]["b"], made["placements"]["b"]);
    assert_eq!(show(&tenant, "stack").await, updated);
    // A removed server without an instance frees its capacity at once.
    assert_eq!(vcpus(&site).await.values().sum::<i64>(), 5);
    assert_eq!(placements(&tenant).await.as_array().unwrap().len(), 2);
    let body = replacing(json!({}));
    assert_eq!(update(&tenant, body).await["placements"], json!({}));
    assert_eq!(usages(&site).await, before);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_who_comes_finds_the_room_of_who_goes() {
    let (site, before) = hosts_of_four(2).await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "stack", json!({"a": server("a", 3), "b": server("b", 3)})).await;
    let body = replacing(json!({"a": server("a", 3), "c": server("c", 4)}));
    let updated = update(&tenant, body).await;
    let (home, free) = (host(&made, "a"), host(&made, "b"));
    assert_eq!((host(&updated, "a"), host(&updated, "c")), (home.clone(), free.clone()));
    assert_eq!(vcpus(&site).await, [(home, 3), (free.clone(), 4)].into());
    // A reserved server frees nothing.
    reserve(&tenant, "c", &[&free]).await;
    let body = replacing(json!({"a": server("a", 3), "d": server("d", 4)}));
    tenant.put("/v1/plans/stack", body).await.explanation(409);
    assert_eq!(show(&tenant, "stack").await, updated);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_what_is_reserved_leaves_the_plan_and_keeps_its_room() {
    let (site, before) = hosts_of_four(2).await;
    let tenant = site.tenant("p");
    let both = json!({"a": server("a", 3), "b": server("b", 3)});
    let made = create(&tenant, "stack", both.clone()).await;
    let home = host(&made, "a");
    let kept = reserve(&tenant, "a", &[&home]).await;
    let updated = update(&tenant, replacing(json!({"b": server("b", 3)}))).await;
    assert_eq!(hosts(&updated).keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(vcpus(&site).await.values().sum::<i64>(), 6);
    let list = placements(&tenant).await;
    assert!(list.as_array().unwrap().contains(&kept), "{list}");
    assert_eq!(placement(&tenant, "a").await, kept);
    // Its room is not for others.
    let other = replacing(json!({"b": server("b", 3), "c": server("c", 3)}));
    tenant.put("/v1/plans/stack", other).await.explanation(409);
    // A server that comes back has it again.
    let updated = update(&tenant, replacing(both)).await;
    assert_eq!(updated, made);
    assert_eq!(placement(&tenant, "a").await, kept);
    assert_eq!(vcpus(&site).await.values().sum::<i64>(), 6);
    // It may be given up for good.
    update(&tenant, replacing(json!({"b": server("b", 3)}))).await;
    tenant.delete("/v1/placements/a").await.expect(204);
    assert_eq!(vcpus(&site).await, [(host(&made, "b"), 3)].into());
    finish(&site, &before).await;
}

/// A larger server would have to leave its host, on which its instance is running.
#[tokio::test(flavor = "multi_thread")]
async fn r45_only_who_may_migrate_moves_instances_by_an_update() {
    let site = Site::new().await;
    let hosts = site.racks(1, 2, [4, 1, 1]).await;
    let tenant = site.tenant("p");
    create(&tenant, "stack", json!({"a": server("a", 2)})).await;
    let instance = Uuid::new_v4();
    let body = json!({"resource_id": instance, "locations": ["r01h01"]});
    tenant.post("/v1/placements/a", body).await.expect(201);
    arrive(&site, instance, hosts[0], 2).await;
    let larger = || replacing(json!({"a": server("a", 4)}));
    let why = tenant.put("/v1/plans/stack", larger()).await.explanation(409);
    assert!(why.starts_with("Ostro error: "), "{why}");
    assert_eq!(placement(&tenant, "a").await["location"], "r01h01");
    let moved = update(&site.admin_of("p"), larger()).await;
    assert_eq!(host(&moved, "a"), "r01h02");
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_a_server_of_another_size_stays_if_it_still_fits() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 9000, 90]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let servers = |flavor| json!({"a": flavored("a", flavor), "b": flavored("b", "m1.small")});
    let made = create(&tenant, "stack", servers("m1.small")).await;
    let (home, other) = (host(&made, "a"), host(&made, "b"));
    assert_eq!(home, other);
    let larger = update(&tenant, replacing(servers("m1.medium"))).await;
    assert_eq!(bare(&larger), bare(&made));
    assert_eq!(usages(&site).await[&home]["MEMORY_MB"], 6144);
    // Now one of both has to go; it is the one that has changed.
    let largest = update(&tenant, replacing(servers("m1.large"))).await;
    assert_eq!(host(&largest, "b"), other);
    assert_ne!(host(&largest, "a"), home);
    let sum = |used: &Usages| used.values().map(|used| used["VCPU"].as_i64().unwrap()).sum::<i64>();
    assert_eq!(sum(&usages(&site).await), 5);
    let why = tenant.put("/v1/plans/stack", replacing(servers("m1.xlarge"))).await;
    assert!(why.explanation(409).starts_with("Ostro error: "));
    assert_eq!(show(&tenant, "stack").await, largest);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_servers_that_are_as_they_were_never_move() {
    let (site, before) = hosts_of_four(6).await;
    let tenant = site.tenant("p");
    let servers = |names: &[&str]| -> BTreeMap<String, Value> {
        names.iter().map(|name| ((*name).to_owned(), server(name, 1))).collect()
    };
    let mut body = crate::stack::plan("stack", json!(servers(&["a", "b", "c", "d", "e"])));
    body["spread"] = json!(true);
    let made = tenant.post("/v1/plans", body).await.expect(201).json();
    let there = hosts(&made);
    for names in [
        &["a", "b", "c", "d", "e", "f", "g"][..],
        &["b", "d"],
        &["d", "x", "y", "b", "z"],
        &["b", "d"],
    ] {
        let updated = hosts(&update(&tenant, replacing(json!(servers(names)))).await);
        assert_eq!((&updated["b"], &updated["d"]), (&there["b"], &there["d"]), "{names:?}");
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_a_server_that_is_to_be_elsewhere_goes_there() {
    let site = Site::new().await;
    let zone = |name, zone: &'static [&'static str]| Host { name, size: [4, 1, 1], traits: zone };
    site.hosts(&[zone("h1", &["CUSTOM_AZ_ONE"]), zone("h2", &["CUSTOM_AZ_TWO"])]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let within = |zone: &str| with(server("a", 1), "availability_zone", json!(zone));
    let servers = |a: Value| json!({"a": a, "b": server("b", 1)});
    let made = create(&tenant, "stack", servers(within("one"))).await;
    assert_eq!(host(&made, "a"), "h1");
    for (a, there) in [
        (within("two"), "h2"),
        (having(server("a", 1), "locations", json!(["h1"])), "h1"),
        (with(server("a", 1), "required", json!(["CUSTOM_AZ_TWO"])), "h2"),
        (with(server("a", 1), "forbidden", json!(["CUSTOM_AZ_TWO"])), "h1"),
    ] {
        let updated = update(&tenant, replacing(servers(a))).await;
        assert_eq!((host(&updated, "a").as_str(), host(&updated, "b")), (there, host(&made, "b")));
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_which_actions_there_are_and_what_they_take() {
    let (site, before) = hosts_of_four(2).await;
    let admin = site.admin();
    let made = create(&admin, "stack", json!({"a": server("a", 1)})).await;
    for (body, message) in [
        (json!({"action": "grow", "resources": {}}), "(must be update or migrate)"),
        (json!({"action": 1, "resources": {}}), "(must be update or migrate)"),
        (json!({"action": null, "resources": {}}), "(must be update or migrate)"),
        (json!({"action": "update", "resources": ["a"]}), "resources must be a dictionary."),
        (json!({"action": "update", "resources": "a"}), "resources must be a dictionary."),
        (json!({"action": "update", "resources": null}), "resources must be a dictionary."),
        (json!({"action": "update"}), "required key in data is missing: resources"),
        (
            json!({"action": "migrate", "resources": {"a": 1}}),
            "must be a list of 1 to 1000 ids, or a dictionary",
        ),
        (
            json!({"action": "migrate", "resources": "a"}),
            "must be a list of 1 to 1000 ids, or a dictionary",
        ),
        (
            json!({"action": "migrate", "resources": []}),
            "must be a list of 1 to 1000 ids, or a dictionary",
        ),
        (
            json!({"action": "migrate", "resources": ["a", 1]}),
            "must be a list of 1 to 1000 ids, or a dictionary",
        ),
        (
            json!({"action": "migrate", "resources": vec!["a"; 1001]}),
            "must be a list of 1 to 1000 ids, or a dictionary",
        ),
        (
            json!({"action": "migrate", "resources": [1]}),
            "must be a list of 1 to 1000 ids, or a dictionary",
        ),
        (json!({"action": "migrate", "resources": ["no"]}), "Unknown resource or orchestration id"),
        (json!({"action": "migrate", "resources": ["a"], "excluded_hosts": "h"}), "type array"),
        (json!({"action": "update", "resources": {}, "stack_id": "stack"}), "stack_id"),
    ] {
        let why = admin.put("/v1/plans/stack", body.clone()).await.explanation(400);
        assert!(why.contains(message), "{body}: {why}");
    }
    assert_eq!(show(&admin, "stack").await, made);
    finish(&site, &before).await;
}
