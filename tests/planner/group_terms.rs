//! Groups of one plan with further rules: soft ones with weights, limits for each unit,
//! and even distributions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::site::{Asker, Site, SiteResponse};
use crate::stack::{counts, create, finish, group, having, host, plan, server, usages, with};
use crate::trees::provider;

/// Returns `count` servers of 1 `VCPU`, `s0`, ..., in a group with these properties.
fn bound(count: usize, kind: &str, level: &str, properties: &Value) -> Value {
    let names: Vec<String> = (0..count).map(|nth| format!("s{nth}")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut resources = json!({"g": of_terms(group(kind, level, &members), properties)});
    for name in &names {
        resources[name] = server(name, 1);
    }
    resources
}

fn of_terms(mut group: Value, properties: &Value) -> Value {
    for (key, value) in properties.as_object().unwrap() {
        group = with(group, key, value.clone());
    }
    group
}

fn sorted(counts: &BTreeMap<String, usize>) -> Vec<usize> {
    let mut counts: Vec<usize> = counts.values().copied().collect();
    counts.sort_unstable();
    counts
}

async fn make(asker: &Asker, resources: Value) -> SiteResponse {
    asker.post("/v1/plans", plan("stack", resources)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_has_at_most_so_many_servers_of_a_group() {
    let site = Site::new().await;
    site.racks(2, 2, [8, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let three = json!({"max_per_unit": 3});
    let made = make(&tenant, bound(6, "diversity", "rack", &three)).await.expect(201).json();
    assert_eq!(sorted(&counts(&made, 3)), [3, 3]);
    finish(&site, &before).await;
    let found = make(&tenant, bound(7, "diversity", "rack", &three)).await.explanation(409);
    assert!(found.contains("diversity group g needs 3 racks"), "{found}");
    // Servers count by themselves, also those of a nested group.
    let mut nested = bound(3, "diversity", "host", &json!({"max_per_unit": 2}));
    nested["close"] = group("affinity", "host", &["s0", "s1", "s2"]);
    nested["g"]["properties"]["resources"] = json!(["close"]);
    let found = make(&tenant, nested).await.explanation(409);
    assert!(
        found.contains("affinity group close") && found.contains("diversity group g"),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_distributed_as_evenly_as_a_group_asks() {
    let site = Site::new().await;
    site.racks(3, 1, [8, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    for (count, most, expected) in [(7, 1, vec![2, 2, 3]), (7, 8, vec![7]), (3, 1, vec![1, 1, 1])] {
        let even = bound(count, "diversity", "rack", &json!({"max_skew": most}));
        let made = make(&tenant, even).await.expect(201).json();
        assert_eq!(sorted(&counts(&made, 3)), expected, "{count} {most}");
        finish(&site, &before).await;
    }
    // A rack that the group cannot use is no domain; neither is one that others have filled.
    let mut two = bound(6, "diversity", "rack", &json!({"max_skew": 1}));
    for nth in 0..6 {
        let locations = json!(["r01h01", "r03h01"]);
        let name = format!("s{nth}");
        two[&name] = having(two[&name].clone(), "locations", locations);
    }
    let made = make(&tenant, two).await.expect(201).json();
    assert_eq!(sorted(&counts(&made, 3)), [3, 3]);
    finish(&site, &before).await;
    create(&tenant, "full", json!({"f": having(server("f", 8), "locations", json!(["r02h01"]))}))
        .await;
    let even = bound(6, "diversity", "rack", &json!({"max_skew": 1}));
    let made = make(&tenant, even).await.expect(201).json();
    assert_eq!(sorted(&counts(&made, 3)), [3, 3]);
    finish(&site, &before).await;
    // In a rack with less room than the others, the others wait for it.
    create(&tenant, "full", json!({"f": having(server("f", 7), "locations", json!(["r02h01"]))}))
        .await;
    let five = bound(5, "diversity", "rack", &json!({"max_skew": 1}));
    let made = make(&tenant, five).await.expect(201).json();
    assert_eq!(sorted(&counts(&made, 3)), [1, 2, 2]);
    tenant.delete("/v1/plans/stack").await.expect(204);
    let six = bound(6, "diversity", "rack", &json!({"max_skew": 1}));
    let found = make(&tenant, six).await.explanation(409);
    assert!(found.contains("max_skew 1), in 3 racks: r01, r02, r03"), "{found}");
    finish(&site, &before).await;
}

/// A plan whose servers are where no even distribution would have them can still grow.
#[tokio::test(flavor = "multi_thread")]
async fn added_servers_go_where_fewest_members_are() {
    let site = Site::new().await;
    site.racks(2, 1, [8, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let even = |count: usize| bound(count, "diversity", "rack", &json!({"max_skew": 1}));
    // As long as the other rack is full, it is no domain.
    let locations = json!(["r02h01"]);
    create(&tenant, "full", json!({"f": having(server("f", 8), "locations", locations)})).await;
    let made = make(&tenant, even(3)).await.expect(201).json();
    assert_eq!(sorted(&counts(&made, 3)), [3]);
    tenant.delete("/v1/plans/full").await.expect(204);
    // Existing servers stay, and the rule does not count for those that break it now: the response names them.
    let broken = r#"[{"resource":"s2","type":"diversity","level":"rack","group":"g"}]"#;
    for (count, broken) in [(4, broken), (5, "")] {
        let mut body = plan("stack", json!({}));
        let (resources, new) = (even(count), format!("s{}", count - 1));
        body["resources_update"] = json!({"g": resources["g"], &new: resources[&new]});
        let response = tenant.put("/v1/plans/stack", body).await.expect(201);
        assert_eq!(response.header("berth-broken"), broken);
        let grown = response.json();
        for nth in 0..count {
            let expected = if nth < 3 { "r01h01" } else { "r02h01" };
            assert_eq!(host(&grown, &format!("s{nth}")), expected);
        }
    }
    finish(&site, &before).await;
}

/// A rack is a domain if a whole server fits there, not if each of its parts does.
#[tokio::test(flavor = "multi_thread")]
async fn domains_of_trees_are_where_a_whole_server_fits() {
    let site = Site::new().await;
    for (name, nodes, rack) in [("large", 4, "CUSTOM_RACK_R01"), ("small", 1, "CUSTOM_RACK_R02")] {
        site.placement().put(&format!("/traits/{rack}"), json!({})).await.expect(201);
        let memory = json!({"MEMORY_MB": {"total": 64}});
        let root = provider(&site, name, None, memory, &[rack]).await;
        for node in 0..nodes {
            let cpus = json!({"VCPU": {"total": 2}});
            provider(&site, &format!("{name}-node-{node}"), Some(root), cpus, &[]).await;
        }
    }
    let two = || json!({"resources": {"VCPU": 2}});
    let properties = json!({"numbered_groups": {"1": two(), "2": two()}, "group_policy": "none"});
    let server = json!({"type": "OS::Nova::Server", "properties": properties});
    let even = of_terms(group("diversity", "rack", &["s0", "s1"]), &json!({"max_skew": 1}));
    let made = make(&site.admin(), json!({"s0": server, "s1": server, "g": even})).await;
    assert_eq!(counts(&made.expect(201).json(), 5), [("large".to_owned(), 2)].into());
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_soft_groups_the_one_that_weighs_more_is_followed() {
    let site = Site::new().await;
    site.racks(1, 2, [8, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    for (apart, close, expected, violations) in [(3, 2, 2, 2), (2, 3, 1, 2), (3, 1000, 1, 3)] {
        let mut resources = bound(2, "diversity", "host", &json!({"soft": true, "weight": apart}));
        let near = group("affinity", "host", &["s0", "s1"]);
        resources["near"] = of_terms(near, &json!({"soft": true, "weight": close}));
        let answer = make(&tenant, resources).await.expect(201);
        assert_eq!(counts(&answer.json(), 6).len(), expected);
        let quality: Value = serde_json::from_str(answer.header("berth-plan")).unwrap();
        assert_eq!(quality["cost"]["violations"], json!(violations), "{quality}");
        finish(&site, &before).await;
    }
    // A hard group leaves a soft one no choice, and a soft one comes before the policy.
    let mut resources = bound(2, "diversity", "host", &json!({"soft": true}));
    resources["near"] = group("affinity", "host", &["s0", "s1"]);
    let made = make(&tenant, resources).await.expect(201).json();
    assert_eq!(host(&made, "s0"), host(&made, "s1"));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_other_terms_is_another_request() {
    let site = Site::new().await;
    site.racks(1, 3, [8, 1, 1]).await;
    let tenant = site.tenant("p");
    let of = |terms: Value| bound(2, "diversity", "host", &terms);
    make(&tenant, of(json!({"max_per_unit": 1}))).await.expect(201);
    make(&tenant, of(json!({"max_per_unit": 1}))).await.expect(201);
    for terms in [json!({}), json!({"max_per_unit": 2}), json!({"soft": true})] {
        let found = make(&tenant, of(terms)).await.explanation(409);
        assert!(found.contains("group 'g' is of another type, level or strictness"), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn terms_that_make_no_sense_are_refused() {
    let site = Site::new().await;
    site.racks(1, 1, [8, 1, 1]).await;
    let tenant = site.tenant("p");
    for (kind, terms, why) in [
        ("diversity", json!({"weight": 3}), "weight is for soft groups only"),
        ("affinity", json!({"max_per_unit": 3}), "are for the group type diversity only"),
        ("diversity", json!({"max_skew": -1}), "max_skew: not an integer from 1"),
        ("affinity", json!({"soft": true, "weight": 0}), "weight: not an integer from 1 to 1000"),
        ("diversity", json!({"soft": true, "max_skew": 1}), "a soft group has neither"),
        ("diversity", json!({"soft": true, "group_name": "x"}), "soft is for groups of one plan"),
    ] {
        let answer = make(&tenant, bound(2, kind, "host", &terms)).await;
        // A stored group that is not there is found first.
        let status = if terms.get("group_name").is_some() { answer.status } else { 400 };
        let found = answer.explanation(status);
        assert!(found.contains(why), "{found}");
    }
}
