//! Nova's server groups in stacks, and what answers say of all that a plan is made without.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::site::{Asker, Site};
use crate::stack::{create, finish, host, hosts, plan, server, show, usages, with};

fn server_group(policy: &str) -> Value {
    json!({"type": "OS::Nova::ServerGroup", "properties": {"policies": [policy]}})
}

/// Returns `count` servers of 1 `VCPU`, `s1`, ..., that name a server group `sg` of this policy.
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

/// Makes a site of one rack with this number of hosts of 4 `VCPU`.
async fn site(hosts: usize) -> Site {
    let site = Site::new().await;
    site.racks(1, hosts, [4, 1, 1]).await;
    site
}

/// Returns the ignored properties that the response with a new plan names.
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
    assert!(why.contains("server group sg needs 3 hosts"), "{why}");
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
    assert!(why.contains("server group sg"), "{why}");
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
    assert!(why.contains("server group sg"), "{why}");
    // One goes, and the fourth takes its host.
    let mut resources = bound(4, "anti-affinity");
    resources.as_object_mut().unwrap().remove("s1");
    let body = json!({"action": "update", "resources": resources});
    let changed = tenant.put("/v1/plans/stack", body).await.expect(201).json();
    assert_eq!(host(&changed, "s4"), host(&made, "s1"));
    finish(&site, &before).await;
}

/// Returns the numbers of servers on the hosts, descending.
fn counts(plan: &Value) -> Vec<usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for host in hosts(plan).into_values() {
        *counts.entry(host).or_insert(0) += 1;
    }
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn soft_policies_are_followed_as_far_as_possible() {
    let site = site(3).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    for (count, policy, expected, violations) in [
        (3, "soft-anti-affinity", vec![1, 1, 1], 0),
        // Two pairs share a host.
        (5, "soft-anti-affinity", vec![2, 2, 1], 2),
        (4, "soft-affinity", vec![4], 0),
        // Each of two is on another host than each of four.
        (6, "soft-affinity", vec![4, 2], 8),
    ] {
        let answer = tenant.post("/v1/plans", plan("stack", bound(count, policy))).await;
        let answer = answer.expect(201);
        assert_eq!(answer.header("berth-ignored"), "");
        assert_eq!(counts(&answer.json()), expected, "{policy}");
        let quality: Value = serde_json::from_str(answer.header("berth-plan")).unwrap();
        assert_eq!(quality["cost"]["violations"], json!(violations), "{quality}");
        assert_eq!(quality["optimal"], json!(true), "{quality}");
        finish(&site, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_host_has_more_servers_of_a_group_than_it_allows() {
    let site = site(3).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let two = |count: usize| {
        let mut resources = bound(count, "anti-affinity");
        resources["sg"]["properties"]["rules"] = json!({"max_server_per_host": 2});
        resources
    };
    let made = create(&tenant, "stack", two(5)).await;
    assert_eq!(counts(&made), [2, 2, 1]);
    let seven = tenant.post("/v1/plans", plan("other", two(7))).await;
    let why = seven.explanation(409);
    assert!(why.contains("server group sg needs 4 hosts"), "{why}");
    // A sixth finds the place that is left, and a seventh none.
    let update = |id: &str| {
        let mut body = plan("stack", json!({}));
        body["resources_update"] = json!({id: member(id, &json!("sg"))});
        body
    };
    let changed = tenant.put("/v1/plans/stack", update("s6")).await.expect(201).json();
    assert_eq!(counts(&changed), [2, 2, 2]);
    let why = tenant.put("/v1/plans/stack", update("s7")).await.explanation(409);
    assert!(why.contains("server group sg"), "{why}");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_resources_of_a_plan_are_named() {
    let site = site(3).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let mut resources = bound(2, "anti-affinity");
    resources["disk"] = json!({"type": "OS::Cinder::Volume", "properties": {"size": 1}});
    resources["at"] = json!({"type": "OS::Cinder::VolumeAttachment"});
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
