//! Nova's server groups in stacks, and what answers say of all that a plan is made without.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::site::{Asker, Site};
use crate::stack::{create, finish, host, hosts, plan, server, show, usages, with};

fn server_group(policy: &str) -> Value {
    json!({"type": "OS::Nova::ServerGroup", "properties": {"policies": [policy]}})
}

/// So many servers of 1 `VCPU`, `s1`, ..., that name a server group `sg` of this policy.
fn bound(count: usize, policy: &str) -> Value {
    let mut resources = json!({"sg": server_group(policy)});
    for nth in 1..=count {
        resources[format!("s{nth}")] = member(&format!("s{nth}"), &json!({"get_resource": "sg"}));
    }
    resources
}

fn member(name: &str, group: &Value) -> Value {
    with(server(name, 1), "scheduler_hints", json!({"group": group}))
}

/// One rack of so many hosts of 4 `VCPU`.
async fn site(hosts: usize) -> Site {
    let site = Site::new().await;
    site.racks(1, hosts, [4, 1, 1]).await;
    site
}

/// What the answer with a new plan says is ignored.
async fn ignored(asker: &Asker, resources: Value) -> Value {
    let answer = asker.post("/v1/plans", plan("stack", resources)).await.expect(201);
    serde_json::from_str(answer.header("berth-ignored")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn anti_affine_servers_are_on_hosts_of_their_own() {
    let site = site(3).await;
    let before = usages(&site).await;
    let made = create(&site.tenant("p"), "stack", bound(3, "anti-affinity")).await;
    let used: BTreeSet<String> = hosts(&made).into_values().collect();
    assert_eq!(used.len(), 3, "{made}");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_hosts_are_a_conflict_that_names_the_server_group() {
    let site = site(2).await;
    let body = plan("stack", bound(3, "anti-affinity"));
    let answer = site.tenant("p").post("/v1/plans", body).await;
    let why = answer.explanation(409);
    assert!(why.contains("diversity group sg needs 3 hosts"), "{why}");
    let demand = &answer.json()["detail"][0];
    assert_eq!((&demand["group"], &demand["level"]), (&json!("sg"), &json!("host")));
}

#[tokio::test(flavor = "multi_thread")]
async fn affine_servers_are_on_one_host() {
    let site = site(3).await;
    let tenant = site.tenant("p");
    // Spread, they would be on several.
    let mut body = plan("stack", bound(3, "affinity"));
    body["spread"] = json!(true);
    let made = tenant.post("/v1/plans", body).await.expect(201).json();
    let used: BTreeSet<String> = hosts(&made).into_values().collect();
    assert_eq!(used.len(), 1, "{made}");
    let five = plan("five", bound(5, "affinity"));
    let why = tenant.post("/v1/plans", five).await.explanation(409);
    assert!(why.contains("affinity group sg"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_with_updates() {
    let site = site(3).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "stack", bound(2, "anti-affinity")).await;
    // The request names only what is new; the plan remembers the group.
    let update = |id: &str| {
        let mut body = plan("stack", json!({}));
        body["resources_update"] = json!({id: member(id, &json!("sg"))});
        body
    };
    let third = tenant.put("/v1/plans/stack", update("s3")).await.expect(201).json();
    let used: BTreeSet<String> = hosts(&third).into_values().collect();
    assert_eq!(used.len(), 3, "{third}");
    for server in ["s1", "s2"] {
        assert_eq!(host(&third, server), host(&made, server));
    }
    let why = tenant.put("/v1/plans/stack", update("s4")).await.explanation(409);
    assert!(why.contains("diversity group sg"), "{why}");
    // One goes, and the fourth takes its host.
    let mut resources = bound(4, "anti-affinity");
    resources.as_object_mut().unwrap().remove("s1");
    let body = json!({"action": "update", "resources": resources});
    let changed = tenant.put("/v1/plans/stack", body).await.expect(201).json();
    assert_eq!(host(&changed, "s4"), host(&made, "s1"));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plan_is_made_without_is_named() {
    let site = site(1).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let mut resources = bound(2, "soft-anti-affinity");
    resources["disk"] = json!({"type": "OS::Cinder::Volume", "properties": {"size": 1}});
    resources["at"] = json!({"type": "OS::Cinder::VolumeAttachment"});
    let most = json!({"max_server_per_host": 2});
    resources["two"] = with(server_group("anti-affinity"), "rules", most);
    resources["pört"] = json!({"type": "OS::Neutron::Port"});
    let named = ignored(&tenant, resources).await;
    let mut found: Vec<(&str, &str)> = Vec::new();
    for item in named.as_array().unwrap() {
        assert_ne!(item["why"].as_str().unwrap(), "");
        found.push((item["resource"].as_str().unwrap(), item["type"].as_str().unwrap()));
    }
    found.sort_unstable();
    let expected = [
        ("at", "OS::Cinder::VolumeAttachment"),
        ("disk", "OS::Cinder::Volume"),
        ("pört", "OS::Neutron::Port"),
        ("sg", "OS::Nova::ServerGroup"),
        ("two", "OS::Nova::ServerGroup"),
    ];
    assert_eq!(found, expected);
    // An update says it, too.
    let mut body = plan("stack", json!({}));
    body["resources_update"] = json!({"s3": server("s3", 1)});
    let answer = tenant.put("/v1/plans/stack", body).await.expect(201);
    let again: Value = serde_json::from_str(answer.header("berth-ignored")).unwrap();
    assert_eq!(again, named);
    finish(&site, &before).await;
    // The list is bounded, and a plan that is made of everything has none.
    let many: serde_json::Map<String, Value> =
        (0..1000).map(|nth| (format!("{nth}"), json!({"type": "OS::Cinder::Volume"}))).collect();
    let answer = tenant.post("/v1/plans", plan("stack", json!(many))).await.expect(201);
    let text = answer.header("berth-ignored");
    let list: Value = serde_json::from_str(text).unwrap();
    let (more, shown) = list.as_array().unwrap().split_last().unwrap();
    assert_eq!(more["more"].as_u64().unwrap(), 1000 - u64::try_from(shown.len()).unwrap());
    assert!(text.len() <= 4096, "{}", text.len());
    finish(&site, &before).await;
    let answer = tenant.post("/v1/plans", plan("stack", bound(1, "affinity"))).await.expect(201);
    assert_eq!(answer.header("berth-ignored"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_server_groups_and_hints_are_refused() {
    let site = site(1).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let two = json!(["affinity", "anti-affinity"]);
    let two = with(server_group("affinity"), "policies", two);
    for (resources, why) in [
        (json!({"sg": server_group("near")}), "resource 'sg': policy 'near' is invalid"),
        (json!({"sg": two}), "resource 'sg': has more than one policy"),
        (json!({"a": member("a", &json!("x"))}), "resource 'a': scheduler_hints: group 'x' is not"),
    ] {
        let answer = tenant.post("/v1/plans", plan("stack", resources.clone())).await;
        let found = answer.explanation(400);
        assert!(found.contains(why), "{found}");
    }
    create(&tenant, "stack", bound(1, "affinity")).await;
    let mut body = plan("stack", json!({}));
    body["resources_update"] = json!({"a": member("a", &json!("x"))});
    let found = tenant.put("/v1/plans/stack", body).await.explanation(400);
    assert!(found.contains("resource 'a'"), "{found}");
    finish(&site, &before).await;
}

/// A version that did not read server groups may have stored anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_stored_plan_with_a_malformed_hint_is_still_served() {
    let site = site(3).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "stack", bound(2, "anti-affinity")).await;
    site.execute(
        r#"update plans set document = replace(document, '{"get_resource":"sg"}', '"elsewhere"')"#,
    )
    .await;
    assert_eq!(show(&tenant, "stack").await, made);
    let again = tenant.post("/v1/plans", plan("stack", bound(2, "anti-affinity"))).await;
    assert!(again.explanation(409).contains("change it with PUT"), "{}", again.text());
    // The next set of resources is read as that of any request.
    let body = json!({"action": "update", "resources": bound(3, "anti-affinity")});
    let changed = tenant.put("/v1/plans/stack", body).await.expect(201).json();
    let used: BTreeSet<String> = hosts(&changed).into_values().collect();
    assert_eq!(used.len(), 3, "{changed}");
    finish(&site, &before).await;
}
