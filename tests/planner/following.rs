//! Changes by the Placement API count for plans as well: instances that arrive, go elsewhere, move
//! and end, hosts that change, and units that are closed to strangers.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Asker, Host, Site};
use crate::stack::{
    Usages, allocations, arrive, arrive_of, bare, claim, create, finish, host, named, placement,
    plan, server, show, store_group, usages, vcpus,
};

/// Two hosts of 4 `VCPU` with nothing on them, `r01h01` and `r01h02`, and their providers.
async fn two_hosts() -> (Site, Vec<Uuid>, Usages) {
    let site = Site::new().await;
    let providers = site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    (site, providers, before)
}

/// A plan of one server `a` of 3 `VCPU` on the first host, which is reserved for an instance.
async fn ticket(site: &Site, asker: &Asker) -> Uuid {
    let mut body = plan("stack", json!({"a": server("a", 3)}));
    body["locations"] = json!(["r01h01"]);
    asker.post("/v1/plans", body).await.expect(201);
    let instance = Uuid::new_v4();
    let body = json!({"resource_id": instance, "locations": ["r01h01", "r01h02"]});
    let reserved = asker.post("/v1/placements/a", body).await.expect(201).json();
    assert_eq!(reserved["location"], "r01h01");
    assert_eq!(vcpus(site).await, [("r01h01".to_owned(), 3)].into());
    instance
}

fn on(host: &str, vcpu: i64) -> std::collections::BTreeMap<String, i64> {
    [(host.to_owned(), vcpu)].into()
}

/// Takes an instance away.
async fn end(site: &Site, instance: Uuid) {
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn r78_a_hold_is_handed_over_when_its_instance_arrives() {
    let (site, providers, before) = two_hosts().await;
    let tenant = site.tenant("p");
    for many in [false, true] {
        let instance = ticket(&site, &tenant).await;
        let reserved = placement(&tenant, "a").await;
        let hold = reserved["id"].as_str().unwrap();
        // A host full of the hold has room for its instance only.
        let path = format!("/allocations/{}", Uuid::new_v4());
        site.placement().put(&path, claim(providers[0], 2)).await.expect(409);
        if many {
            let body = json!({instance.to_string(): claim(providers[0], 3)});
            site.placement().post("/allocations", body).await.expect(204);
        } else {
            arrive(&site, instance, providers[0], 3).await;
        }
        assert_eq!(vcpus(&site).await, on("r01h01", 3));
        assert_eq!(allocations(&site, hold).await, json!({}));
        assert_eq!(placement(&tenant, "a").await, reserved);
        // It can be reserved again, any number of times.
        let body = json!({"resource_id": instance, "locations": ["r01h01"]});
        let again = tenant.post("/v1/placements/a", body).await.expect(201).json();
        assert_eq!((again, vcpus(&site).await), (reserved, on("r01h01", 3)));
        // The allocations of the instance stay when the plan ends.
        tenant.delete("/v1/plans/stack").await.expect(204);
        assert_eq!(vcpus(&site).await, on("r01h01", 3));
        end(&site, instance).await;
        finish(&site, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r78_an_instance_that_is_there_before_it_is_reserved_for_counts_once() {
    let (site, providers, before) = two_hosts().await;
    let tenant = site.tenant("p");
    let mut body = plan("stack", json!({"a": server("a", 2)}));
    body["locations"] = json!(["r01h01"]);
    tenant.post("/v1/plans", body).await.expect(201);
    let instance = Uuid::new_v4();
    arrive(&site, instance, providers[0], 2).await;
    assert_eq!(vcpus(&site).await, on("r01h01", 4));
    let body = json!({"resource_id": instance, "locations": ["r01h01"]});
    tenant.post("/v1/placements/a", body).await.expect(201);
    assert_eq!(vcpus(&site).await, on("r01h01", 2));
    end(&site, instance).await;
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r78_a_placement_ends_with_its_instance() {
    let (site, providers, before) = two_hosts().await;
    let tenant = site.tenant("p");
    let instance = ticket(&site, &tenant).await;
    arrive(&site, instance, providers[0], 3).await;
    end(&site, instance).await;
    assert_eq!(usages(&site).await, before);
    assert_eq!(placement(&tenant, "a").await["location"], Value::Null);
    let shown = show(&tenant, "stack").await;
    assert_eq!(bare(&shown)["placements"], json!({"a": {"name": "a", "location": null}}));
    // A new instance gets a place for it again.
    let body = json!({"locations": ["r01h02"], "resource_id": Uuid::new_v4()});
    let anew = tenant.post("/v1/placements/a", body).await.expect(201).json();
    assert_eq!((&anew["location"], &anew["reserved"]), (&json!("r01h02"), &json!(true)));
    assert_eq!(vcpus(&site).await, on("r01h02", 3));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r78_a_server_that_is_built_as_another_instance_gets_a_place_of_its_own() {
    let (site, providers, before) = two_hosts().await;
    let tenant = site.tenant("p");
    for action in ["reserve", "replan"] {
        let first = ticket(&site, &tenant).await;
        arrive(&site, first, providers[0], 3).await;
        let second = Uuid::new_v4();
        let body = json!({"action": action, "resource_id": second,
                          "locations": ["r01h01", "r01h02"]});
        let anew = tenant.post("/v1/placements/a", body).await.expect(201).json();
        assert_eq!((&anew["location"], &anew["resource_id"]), (&json!("r01h02"), &json!(second)));
        let both = [("r01h01".to_owned(), 3), ("r01h02".to_owned(), 3)].into();
        assert_eq!(vcpus(&site).await, both);
        arrive(&site, second, providers[1], 3).await;
        assert_eq!(vcpus(&site).await, both);
        // The first is nothing to the plan any more.
        end(&site, first).await;
        assert_eq!(placement(&tenant, "a").await, anew);
        assert_eq!(vcpus(&site).await, on("r01h02", 3));
        end(&site, second).await;
        finish(&site, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r78_a_deleted_hold_is_planned_again() {
    let (site, _, before) = two_hosts().await;
    let tenant = site.tenant("p");
    create(&tenant, "stack", json!({"a": server("a", 3)})).await;
    let hold = placement(&tenant, "a").await["id"].as_str().unwrap().to_owned();
    site.placement().delete(&format!("/allocations/{hold}")).await.expect(204);
    assert_eq!(placement(&tenant, "a").await["location"], Value::Null);
    let body = json!({"locations": ["r01h01", "r01h02"]});
    let anew = tenant.post("/v1/placements/a", body).await.expect(201).json();
    let there = anew["location"].as_str().unwrap().to_owned();
    assert_eq!(vcpus(&site).await, on(&there, 3));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r79_a_placement_follows_an_instance_that_comes_elsewhere() {
    let (site, providers, before) = two_hosts().await;
    let tenant = site.tenant("p");
    let instance = ticket(&site, &tenant).await;
    let hold = placement(&tenant, "a").await["id"].as_str().unwrap().to_owned();
    arrive(&site, instance, providers[1], 3).await;
    assert_eq!(vcpus(&site).await, on("r01h02", 3));
    assert_eq!(allocations(&site, &hold).await, json!({}));
    let follows = placement(&tenant, "a").await;
    assert_eq!((&follows["location"], &follows["reserved"]), (&json!("r01h02"), &json!(true)));
    assert_eq!(host(&show(&tenant, "stack").await, "a"), "r01h02");
    // The place it was planned for is free, and the plan may go on.
    let body = json!({"action": "update", "resources": {
        "a": server("a", 3), "b": server("b", 4),
    }});
    let updated = tenant.put("/v1/plans/stack", body).await.expect(201).json();
    assert_eq!((host(&updated, "a"), host(&updated, "b")), ("r01h02".into(), "r01h01".into()));
    end(&site, instance).await;
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r79_a_placement_follows_an_instance_that_nova_moves() {
    let (site, providers, before) = two_hosts().await;
    let tenant = site.tenant("p");
    let instance = ticket(&site, &tenant).await;
    arrive(&site, instance, providers[0], 3).await;
    let held = site.placement().get(&format!("/allocations/{instance}")).await.expect(200).json();
    let migration = Uuid::new_v4();
    let mut moved = claim(providers[1], 3);
    moved["consumer_generation"] = held["consumer_generation"].clone();
    let body = json!({migration.to_string(): claim(providers[0], 3), instance.to_string(): moved});
    site.placement().post("/allocations", body).await.expect(204);
    assert_eq!(placement(&tenant, "a").await["location"], "r01h02");
    end(&site, migration).await;
    assert_eq!(placement(&tenant, "a").await["location"], "r01h02");
    assert_eq!(vcpus(&site).await, on("r01h02", 3));
    end(&site, instance).await;
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r77_hosts_come_go_and_change() {
    let (site, providers, _) = two_hosts().await;
    let (tenant, placement) = (site.tenant("p"), site.placement());
    let fits = async |stack: &str, vcpu: i64| {
        let body = plan(stack, json!({stack: server("x", vcpu)}));
        let answer = tenant.post("/v1/plans", body).await;
        assert!([201, 409].contains(&answer.status), "{}", answer.text());
        (answer.status == 201).then(|| host(&answer.json(), stack))
    };
    let set = async |provider: Uuid, part: &str, key: &str, value: Value| {
        let path = format!("/resource_providers/{provider}/{part}");
        let mut body = placement.get(&path).await.expect(200).json();
        body[key] = value;
        placement.put(&path, body).await.expect(200);
    };
    assert_eq!(fits("s1", 5).await, None);
    // A new host.
    let large = Host { name: "large", size: [8, 1, 1], traits: &[] };
    site.hosts(&[large]).await;
    assert_eq!(fits("s1", 5).await.as_deref(), Some("large"));
    // One that is down gets nothing new, and keeps what it has.
    for provider in &providers {
        set(*provider, "traits", "traits", json!(["COMPUTE_STATUS_DISABLED"])).await;
    }
    assert_eq!(fits("s2", 4).await, None);
    assert_eq!(fits("s3", 3).await.as_deref(), Some("large"));
    set(providers[0], "traits", "traits", json!([])).await;
    assert_eq!(fits("s2", 4).await.as_deref(), Some("r01h01"));
    set(providers[0], "traits", "traits", json!(["COMPUTE_STATUS_DISABLED"])).await;
    assert_eq!(host(&show(&tenant, "s2").await, "s2"), "r01h01");
    // One that becomes larger, and smaller.
    set(providers[1], "traits", "traits", json!([])).await;
    set(providers[1], "inventories", "inventories", json!({"VCPU": {"total": 6}})).await;
    assert_eq!(fits("s4", 5).await.as_deref(), Some("r01h02"));
    set(providers[1], "inventories", "inventories", json!({"VCPU": {"total": 5}})).await;
    assert_eq!(fits("s5", 1).await, None);
    assert_eq!(host(&show(&tenant, "s4").await, "s4"), "r01h02");
    // One on which something is held cannot go; one that is empty can.
    let path = |provider: Uuid| format!("/resource_providers/{provider}");
    placement.delete(&path(providers[1])).await.expect(409);
    tenant.delete("/v1/plans/s4").await.expect(204);
    placement.delete(&path(providers[1])).await.expect(204);
    assert_eq!(fits("s4", 5).await, None);
    for stack in ["s1", "s2", "s3"] {
        tenant.delete(&format!("/v1/plans/{stack}")).await.expect(204);
    }
    assert_eq!(vcpus(&site).await, std::collections::BTreeMap::new());
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r67_r68_the_placement_api_keeps_strangers_out_of_exclusive_hosts() {
    let (site, providers, before) = two_hosts().await;
    let tenant = site.tenant("p");
    store_group(&site, "own", "exclusivity", "host", &["b7d0e9b175294b649464caa3411adb3f"]).await;
    let member = site.tenant("b7d0e9b175294b649464caa3411adb3f");
    let resources = json!({"a": server("a", 1), "g": named("exclusivity", "own", &["a"])});
    let made = create(&member, "stack", resources).await;
    let kept = usize::from(host(&made, "a") == "r01h02");
    let candidates = async |query: &str| {
        let path = format!("/allocation_candidates?resources=VCPU:1{query}");
        let found = site.placement().get(&path).await.expect(200).json();
        let summaries = found["provider_summaries"].as_object().unwrap();
        summaries.keys().map(|it| it.parse::<Uuid>().unwrap()).collect::<Vec<_>>()
    };
    // They carry a trait, and are candidates only for queries that require it.
    let path = format!("/resource_providers/{}/traits", providers[kept]);
    let traits = site.placement().get(&path).await.expect(200).json();
    assert!(traits["traits"].as_array().unwrap().contains(&json!("CUSTOM_VALET_EXCLUSIVE")));
    assert_eq!(candidates("").await, [providers[1 - kept]]);
    assert_eq!(candidates("&required=CUSTOM_VALET_EXCLUSIVE").await, [providers[kept]]);
    // Strangers are refused, also as one of several.
    let stranger = Uuid::new_v4();
    let path = format!("/allocations/{stranger}");
    let output = site.placement().put(&path, claim(providers[kept], 1)).await.expect(409).text();
    assert!(output.contains("own"), "{output}");
    let both = json!({
        stranger.to_string(): claim(providers[kept], 1),
        Uuid::new_v4().to_string(): claim(providers[1 - kept], 1),
    });
    site.placement().post("/allocations", both).await.expect(409);
    assert_eq!(vcpus(&site).await.values().sum::<i64>(), 1);
    // The instance of the reservation is admitted.
    let instance = Uuid::new_v4();
    let body = json!({"resource_id": instance, "locations": [host(&made, "a")]});
    member.post("/v1/placements/a", body).await.expect(201);
    arrive_of(&site, "b7d0e9b175294b649464caa3411adb3f", instance, providers[kept], 1).await;
    assert_eq!(candidates("").await, [providers[1 - kept]]);
    // It is everybody's again when the last of them has gone.
    member.delete("/v1/plans/stack").await.expect(204);
    end(&site, instance).await;
    assert_eq!(candidates("").await.len(), 2);
    arrive(&site, stranger, providers[kept], 1).await;
    end(&site, stranger).await;
    let after = create(&tenant, "other", json!({"b": server("b", 4), "c": server("c", 4)})).await;
    assert_ne!(host(&after, "b"), host(&after, "c"));
    finish(&site, &before).await;
}
