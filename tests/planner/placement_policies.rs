//! The policy of a plan: which of several places its servers get, what the answer says of it, and that
//! the plan keeps it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Asker, Host, Site, SiteResponse};
use crate::stack::{arrive, counts, finish, hosts, plan, server, usages};

/// Returns `count` servers of 1 `VCPU`.
fn servers(count: usize) -> Value {
    let mut resources = json!({});
    for nth in 0..count {
        resources[format!("s{nth:02}")] = server(&format!("s{nth:02}"), 1);
    }
    resources
}

/// Makes a plan of `count` servers under a policy.
async fn make(asker: &Asker, stack: &str, count: usize, policy: &Value) -> SiteResponse {
    let mut body = plan(stack, servers(count));
    body["policy"] = policy.clone();
    asker.post("/v1/plans", body).await
}

/// The counts of servers, descending and without names.
fn sorted(counts: &BTreeMap<String, usize>) -> Vec<usize> {
    let mut counts: Vec<usize> = counts.values().copied().collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    counts
}

fn quality(answer: &SiteResponse) -> Value {
    serde_json::from_str(answer.header("berth-plan")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_spread_evenly() {
    let site = Site::new().await;
    site.racks(1, 3, [18, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    for policy in [json!("spread"), json!({"name": "spread"})] {
        let answer = make(&tenant, "stack", 20, &policy).await.expect(201);
        assert_eq!(sorted(&counts(&answer.json(), 6)), [7, 7, 6]);
        let quality = quality(&answer);
        assert_eq!(quality["optimal"], json!(true), "{quality}");
        assert_eq!(quality["policy"], json!({"name": "spread", "level": "host"}));
        assert_eq!(quality["cost"]["servers_per_host"], json!([[7, 2], [6, 1]]));
        finish(&site, &before).await;
    }
    let mut body = plan("stack", servers(20));
    body["spread"] = json!(true);
    let answer = tenant.post("/v1/plans", body).await.expect(201);
    assert_eq!(sorted(&counts(&answer.json(), 6)), [7, 7, 6]);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_spread_over_racks_and_over_the_hosts_in_them() {
    let site = Site::new().await;
    site.racks(2, 3, [18, 1, 1]).await;
    let policy = json!({"name": "spread", "level": "rack"});
    let answer = make(&site.tenant("p"), "stack", 14, &policy).await.expect(201);
    assert_eq!(sorted(&counts(&answer.json(), 3)), [7, 7]);
    assert_eq!(sorted(&counts(&answer.json(), 6)), [3, 3, 2, 2, 2, 2]);
    let cost = quality(&answer)["cost"].clone();
    assert_eq!(cost["servers_per_rack"], json!([[7, 2]]));
    assert_eq!(cost["servers_per_host"], json!([[3, 2], [2, 4]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_keeps_its_policy_and_counts_the_servers_that_it_has() {
    let site = Site::new().await;
    site.racks(1, 3, [18, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let made = make(&tenant, "stack", 4, &json!("spread")).await.expect(201).json();
    let mut body = plan("stack", json!({}));
    body["resources_update"] = servers(9);
    let updated = tenant.put("/v1/plans/stack", body).await.expect(201);
    assert_eq!(sorted(&counts(&updated.json(), 6)), [3, 3, 3]);
    assert_eq!(quality(&updated)["policy"], json!({"name": "spread", "level": "host"}));
    for (server, host) in hosts(&made) {
        assert_eq!(hosts(&updated.json())[&server], host);
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_another_policy_is_another_request() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let tenant = site.tenant("p");
    let policy = json!({"name": "spread", "level": "rack"});
    let made = make(&tenant, "stack", 2, &policy).await.expect(201).json();
    assert_eq!(make(&tenant, "stack", 2, &policy).await.expect(201).json()["id"], made["id"]);
    let other = make(&tenant, "stack", 2, &json!("spread")).await.explanation(409);
    assert!(other.contains("its policy is spread at level rack in plan"), "{other}");
    assert!(other.contains("spread at level host in the request"), "{other}");
    let none = tenant.post("/v1/plans", plan("stack", servers(2))).await.explanation(409);
    assert!(none.contains("pack at level host in the request"), "{none}");
    // The default may be named or not.
    let made = tenant.post("/v1/plans", plan("other", servers(1))).await.expect(201).json();
    let again = make(&tenant, "other", 1, &json!("pack")).await.expect(201).json();
    assert_eq!(again["id"], made["id"]);
}

/// A plan gets another policy by an update. The servers that it has stay, and others follow the policy.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_changes_the_policy() {
    let site = Site::new().await;
    site.racks(1, 2, [8, 1, 1]).await;
    let tenant = site.tenant("p");
    let made = make(&tenant, "stack", 2, &json!("pack")).await.expect(201).json();
    let refused = make(&tenant, "stack", 2, &json!("spread")).await.explanation(409);
    assert!(refused.contains("change it with PUT /v1/plans/"), "{refused}");
    let mut body = json!({"action": "update", "resources": servers(2), "policy": "spread"});
    let updated = tenant.put("/v1/plans/stack", body.clone()).await.expect(201).json();
    assert_eq!(hosts(&updated), hosts(&made));
    let again = make(&tenant, "stack", 2, &json!("spread")).await.expect(201).json();
    assert_eq!(again["id"], made["id"]);
    let mut add = plan("stack", json!({}));
    (add["resources_update"], add["spread"]) = (servers(4), json!(true));
    let added = tenant.put("/v1/plans/stack", add).await.expect(201);
    assert_eq!(sorted(&counts(&added.json(), 6)), [2, 2]);
    assert_eq!(quality(&added)["policy"], json!({"name": "spread", "level": "host"}));
    // An update that names none keeps it.
    body["resources"] = servers(5);
    body.as_object_mut().unwrap().remove("policy");
    let kept = tenant.put("/v1/plans/stack", body).await.expect(201);
    assert_eq!(quality(&kept)["policy"]["name"], "spread");
    let migrates = json!({"action": "migrate", "resources": ["s00"], "policy": "pack"});
    let refused = site.admin().put("/v1/plans/stack", migrates).await.explanation(400);
    assert!(refused.contains("a migration cannot change the policy"), "{refused}");
}

/// The first rack has a host in use with little room, the second has two empty ones.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_packed_or_racks() {
    let site = Site::new().await;
    let ids = site.racks(2, 2, [4, 1, 1]).await;
    for (host, vcpu) in [(ids[0], 3), (ids[1], 4)] {
        arrive(&site, Uuid::new_v4(), host, vcpu).await;
    }
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let by_host = tenant.post("/v1/plans", plan("stack", servers(5))).await.expect(201);
    assert_eq!(sorted(&counts(&by_host.json(), 6)), [4, 1]);
    let cost = quality(&by_host)["cost"].clone();
    assert_eq!((&cost["new_hosts"], cost.get("racks")), (&json!(1), None), "{cost}");
    finish(&site, &before).await;
    let policy = json!({"name": "pack", "level": "rack"});
    let by_rack = make(&tenant, "stack", 5, &policy).await.expect(201);
    assert_eq!(sorted(&counts(&by_rack.json(), 3)), [5]);
    let cost = quality(&by_rack)["cost"].clone();
    assert_eq!((&cost["new_hosts"], &cost["racks"]), (&json!(2), &json!(1)), "{cost}");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_go_where_most_is_free_in_relation_to_capacity() {
    let site = Site::new().await;
    for (name, vcpu, used) in [("h1", 8, 2), ("h2", 8, 0), ("h3", 16, 8)] {
        let host = Host { name, size: [vcpu, 1, 1], traits: &[] };
        let id = site.hosts(&[host]).await[0];
        if used > 0 {
            arrive(&site, Uuid::new_v4(), id, used).await;
        }
    }
    let answer = make(&site.tenant("p"), "stack", 6, &json!("balance")).await.expect(201);
    // Half of each host is used then.
    let counts = counts(&answer.json(), 2);
    assert_eq!(counts, [("h1".to_owned(), 2), ("h2".to_owned(), 4)].into());
    let quality = quality(&answer);
    assert!(quality["cost"]["host_load"].as_u64().unwrap() > 0, "{quality}");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_policies_are_refused() {
    let site = Site::new().await;
    site.racks(1, 1, [4, 1, 1]).await;
    let tenant = site.tenant("p");
    for (policy, why) in [
        (json!("even"), "name: must be pack, spread or balance"),
        (json!({"name": "pack", "level": "row"}), "level: must be host, rack or cluster"),
        (json!({"level": "rack"}), "has no name"),
        (json!({"name": "pack", "by": "x"}), "must have no keys but name and level (got 'by')"),
        (json!(["pack"]), "not of type string or dictionary"),
        (json!(null), "not of type string or dictionary"),
    ] {
        let found = make(&tenant, "stack", 1, &policy).await.explanation(400);
        assert!(found.contains("-> policy -> ") && found.contains(why), "{found}");
    }
    let mut body = plan("stack", servers(1));
    (body["policy"], body["spread"]) = (json!("pack"), json!(false));
    let found = tenant.post("/v1/plans", body).await.explanation(400);
    assert!(found.contains("policy and spread cannot both be given"), "{found}");
}

/// The hosts in a placement as they are compared: how many servers each has.
fn shape(placement: &Value) -> Vec<(String, usize)> {
    counts(placement, 6).into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_names_other_placements() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let body = plan("stack", servers(3));
    let path = "/v1/plans?dry_run=true&alternatives=10";
    let answer = tenant.post(path, body.clone()).await.expect(200);
    let answer = answer.json();
    // Equal servers are interchangeable: three on one host, or two and one.
    let others = answer["alternatives"].as_array().unwrap();
    let mut shapes = vec![shape(&answer)];
    shapes.extend(others.iter().map(shape));
    assert_eq!(shapes.len(), 4, "{answer}");
    let new: Vec<u64> = others.iter().map(|it| it["cost"]["new_hosts"].as_u64().unwrap()).collect();
    assert_eq!(new, [1, 2, 2]);
    assert!(others.iter().all(|it| it["optimal"] == json!(true)), "{answer}");
    shapes.sort_unstable();
    shapes.dedup();
    assert_eq!(shapes.len(), 4);
    let one = tenant.post("/v1/plans?dry_run=true&alternatives=1", body.clone()).await.expect(200);
    assert_eq!(one.json()["alternatives"].as_array().unwrap().len(), 1);
    // An update can request them, too, and they do not come unrequested.
    let made = tenant.post("/v1/plans", body.clone()).await.expect(201).json();
    assert_eq!(made.get("alternatives"), None);
    let mut update = plan("stack", json!({}));
    update["resources_update"] = json!({"more": server("more", 1)});
    let path = "/v1/plans/stack?dry_run=true&alternatives=5";
    let updated = tenant.put(path, update).await.expect(200).json();
    assert_eq!(updated["alternatives"].as_array().unwrap().len(), 1);
    let again = tenant.post("/v1/plans?dry_run=true&alternatives=2", body).await.expect(200).json();
    assert_eq!(again["alternatives"], json!([]));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn alternatives_are_for_dry_runs_and_bounded() {
    let site = Site::new().await;
    site.racks(1, 1, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    for (query, why) in [
        ("alternatives=3", "alternatives are for dry runs only"),
        ("alternatives=3&dry_run=false", "alternatives are for dry runs only"),
        ("dry_run=true&alternatives=0", "must be a number from 1 to 10, not 0"),
        ("dry_run=true&alternatives=11", "must be a number from 1 to 10, not 11"),
        ("dry_run=true&alternatives=some", "must be a number from 1 to 10, not some"),
        ("dry_run=true&alternatives=", "must be a number from 1 to 10, not "),
    ] {
        let path = format!("/v1/plans?{query}");
        let found = tenant.post(&path, plan("stack", servers(1))).await.explanation(400);
        assert!(found.contains(why), "{query}: {found}");
    }
    finish(&site, &before).await;
}
