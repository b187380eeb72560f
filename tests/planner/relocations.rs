//! Draining and rebalancing: plans and consumers outside of them move together, step by step.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Host, Site};
use crate::stack::{
    arrive, claim_of, create, finish, group, host, hosts, placement, plan, server, show, usages,
    vcpus, with,
};
use crate::trees::{join, provider};

/// Sends the request of a step.
async fn send(site: &Site, step: &Value) {
    let (path, body) = (step["path"].as_str().unwrap(), step["body"].clone());
    if step["api"] == "placement" {
        let version = format!("placement {}", step["microversion"].as_str().unwrap());
        let client = site.placement().header("openstack-api-version", &version);
        assert_eq!(step["method"], "POST");
        client.post(path, body).await.expect(204);
    } else {
        assert_eq!(step["method"], "PUT");
        site.admin().put(path, body).await.expect(201);
    }
}

async fn ask(site: &Site, operation: &str, body: Value) -> Value {
    site.placement().post(&format!("/-/v1/{operation}"), body).await.expect(200).json()
}

/// A reason why nothing can be moved, or a fault in the request.
async fn refused(site: &Site, operation: &str, body: Value, status: u16) -> String {
    let path = format!("/-/v1/{operation}");
    let refused = site.placement().post(&path, body).await.expect(status).json();
    refused["errors"][0]["detail"].as_str().unwrap().to_owned()
}

/// A rack is emptied of a plan with affinity, of one with diversity, and of two consumers. Every step is possible when it
/// is sent, and the rules hold after each.
#[tokio::test(flavor = "multi_thread")]
async fn a_rack_is_drained_by_the_requests_of_the_dry_run() {
    let site = Site::new().await;
    let ids = site.racks(2, 2, [8, 1, 1]).await;
    let before = usages(&site).await;
    let admin = site.admin();
    let together = group("affinity", "host", &["a", "b"]);
    let resources = json!({"a": server("a", 2), "b": server("b", 2), "g": together});
    let mut body = plan("together", resources);
    body["locations"] = json!(["r01h01"]);
    admin.post("/v1/plans", body).await.expect(201);
    let apart = group("diversity", "host", &["c", "d"]);
    let resources = json!({"c": server("c", 1), "d": server("d", 1), "g": apart});
    let mut body = plan("apart", resources);
    body["locations"] = json!(["r01h02", "r02h01"]);
    admin.post("/v1/plans", body).await.expect(201);
    let (one, two) = (Uuid::new_v4(), Uuid::new_v4());
    arrive(&site, one, ids[0], 3).await;
    arrive(&site, two, ids[1], 4).await;
    // The locations of a plan still apply, so its server cannot leave the rack.
    let why = refused(&site, "drain", json!({"racks": ["R01"]}), 409).await;
    assert!(why.contains("r01h01") || why.contains("fit"), "{why}");
    admin.delete("/v1/plans/together").await.expect(204);
    admin.delete("/v1/plans/apart").await.expect(204);
    let together = group("affinity", "host", &["a", "b"]);
    let resources = json!({"a": server("a", 2), "b": server("b", 2), "g": together});
    create(&admin, "together", resources).await;
    let apart = group("diversity", "host", &["c", "d"]);
    create(&admin, "apart", json!({"c": server("c", 1), "d": server("d", 1), "g": apart})).await;
    let dry = ask(&site, "drain", json!({"racks": ["R01"]})).await;
    assert_eq!((&dry["proven"], &dry["carried_out"]), (&json!(true), &Value::Null), "{dry}");
    for step in dry["steps"].as_array().unwrap() {
        send(&site, step).await;
        let (together, apart) = (show(&admin, "together").await, show(&admin, "apart").await);
        assert_eq!(host(&together, "a"), host(&together, "b"));
        assert_ne!(host(&apart, "c"), host(&apart, "d"));
    }
    assert!(vcpus(&site).await.keys().all(|name| name.starts_with("r02")), "{dry}");
    let again = ask(&site, "drain", json!({"racks": ["R01"]})).await;
    assert_eq!((&again["moves"], &again["proven"]), (&json!(0), &json!(true)));
    for consumer in [one, two] {
        site.placement().delete(&format!("/allocations/{consumer}")).await.expect(204);
    }
    finish(&site, &before).await;
}

/// A server whose instance runs gets a hold on its new host. The instance leaves the old one when Nova has moved it.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_of_a_plan_gets_a_hold_on_another_host() {
    let site = Site::new().await;
    let ids = site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let admin = site.admin();
    let made = create(&admin, "stack", json!({"a": server("a", 2)})).await;
    let from = host(&made, "a");
    let [home, other] = if from == "r01h01" { [0, 1] } else { [1, 0] };
    let instance = Uuid::new_v4();
    let body = json!({"resource_id": instance, "locations": [from]});
    admin.post("/v1/placements/a", body).await.expect(201);
    arrive_as(&site, instance, claim_of("admin", ids[home], 2)).await;
    let body = json!({"hosts": [ids[home]], "dry_run": false});
    let drained = ask(&site, "drain", body.clone()).await;
    assert_eq!((&drained["moves"], &drained["carried_out"]), (&json!(1), &json!(1)), "{drained}");
    assert_eq!(drained["steps"][0]["moves"][0]["consumer"], json!(instance));
    assert_ne!(host(&show(&admin, "stack").await, "a"), from);
    assert_eq!(vcpus(&site).await.len(), 2);
    let mut moved = claim_of("admin", ids[other], 2);
    moved["consumer_generation"] = json!(1);
    arrive_as(&site, instance, moved).await;
    assert_eq!(vcpus(&site).await.len(), 1);
    let again = ask(&site, "drain", body).await;
    assert_eq!((&again["moves"], &again["carried_out"]), (&json!(0), &json!(0)));
    admin.delete("/v1/plans/stack").await.expect(204);
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    finish(&site, &before).await;
}

async fn arrive_as(site: &Site, instance: Uuid, body: Value) {
    site.placement().put(&format!("/allocations/{instance}"), body).await.expect(204);
}

/// Free capacity in pieces becomes of use by the fewest moves, unless a rule forbids them.
#[tokio::test(flavor = "multi_thread")]
async fn room_is_made_by_the_fewest_moves() {
    let site = Site::new().await;
    let ids = site.racks(1, 3, [4, 1, 1]).await;
    let before = usages(&site).await;
    let admin = site.admin();
    let apart = group("diversity", "host", &["a", "b"]);
    let resources = json!({"a": server("a", 2), "b": server("b", 2), "g": apart});
    create(&admin, "stack", resources.clone()).await;
    let taken: Vec<String> = vcpus(&site).await.into_keys().collect();
    let names = ["r01h01", "r01h02", "r01h03"];
    let free = names.iter().position(|name| !taken.contains(&(*name).to_owned())).unwrap();
    let consumer = Uuid::new_v4();
    arrive(&site, consumer, ids[free], 2).await;
    let body = json!({"resources": {"VCPU": 4}, "fragmentation": 0});
    let found = ask(&site, "rebalance", body.clone()).await;
    assert_eq!((&found["moves"], &found["proven"]), (&json!(1), &json!(true)), "{found}");
    assert_eq!(found["steps"][0]["moves"][0]["consumer"], json!(consumer));
    assert_eq!(found["room"], json!({names[free]: 1}));
    // On a host of the plan, its server has to leave, and both could only be together elsewhere.
    let on_taken = json!({"resources": {"VCPU": 4}, "count": 1, "hosts": [taken[0]]});
    let found = ask(&site, "rebalance", on_taken).await;
    assert_eq!(found["moves"], 1, "{found}");
    assert_eq!(found["steps"][0]["moves"][0]["to"], names[free]);
    let refusal = json!({"resources": {"VCPU": 4}, "count": 2});
    let why = refused(&site, "rebalance", refusal, 409).await;
    assert!(why.contains("room-0"), "{why}");
    let mut carried_out = body.clone();
    carried_out["dry_run"] = json!(false);
    let done = ask(&site, "rebalance", carried_out).await;
    assert_eq!((&done["carried_out"], &done["stopped_by"]), (&json!(1), &Value::Null), "{done}");
    assert_eq!(ask(&site, "rebalance", body).await["moves"], 0);
    site.placement().delete(&format!("/allocations/{consumer}")).await.expect(204);
    finish(&site, &before).await;
}

/// Servers of several plans that share a stored group keep its rule when they move at once.
#[tokio::test(flavor = "multi_thread")]
async fn plans_of_one_stored_group_move_together() {
    let site = Site::new().await;
    let admin = site.admin();
    let names = ["h1", "h2", "h3", "h4"];
    let small = |name| Host { name, size: [2, 1, 1], traits: &[] };
    site.hosts(&names.map(small)).await;
    let before = usages(&site).await;
    let body = json!({"name": "apart", "type": "diversity", "level": "host"});
    admin.post("/v1/groups", body).await.expect(201);
    let member = |name| with(server(name, 1), "metadata", json!({"valet": {"groups": ["apart"]}}));
    let one = create(&admin, "one", json!({"a": member("a")})).await;
    let two = create(&admin, "two", json!({"b": member("b")})).await;
    let from = json!([host(&one, "a"), host(&two, "b")]);
    let drained = ask(&site, "drain", json!({"hosts": from, "dry_run": false})).await;
    assert_eq!((&drained["moves"], &drained["carried_out"]), (&json!(2), &json!(2)), "{drained}");
    let (one, two) = (show(&admin, "one").await, show(&admin, "two").await);
    let now = [host(&one, "a"), host(&two, "b")];
    assert_ne!(now[0], now[1]);
    assert!(now.iter().all(|host| !from.as_array().unwrap().contains(&json!(host))));
    // With one host left, both cannot be elsewhere.
    let other = hosts(&one).into_values().next().unwrap();
    let all_but_one: Vec<&str> = names.into_iter().filter(|name| *name != other).collect();
    refused(&site, "drain", json!({"hosts": all_but_one}), 409).await;
    finish(&site, &before).await;
}

/// Allocations at a pool that hosts share stay there. A host whose own capacity others use cannot be drained, and what it
/// shares is no place for those who leave it.
#[tokio::test(flavor = "multi_thread")]
async fn shared_capacity_stays_where_it_is() {
    let site = Site::new().await;
    let vcpu = json!({"VCPU": {"total": 4}});
    let sharing = ["MISC_SHARES_VIA_AGGREGATE"];
    let pool = provider(&site, "pool", None, json!({"DISK_GB": {"total": 100}}), &sharing).await;
    let [h1, h2] = ["h1", "h2"].map(|name| provider(&site, name, None, vcpu.clone(), &[]));
    let [h1, h2] = [h1.await, h2.await];
    let disk = json!({"VCPU": {"total": 4}, "DISK_GB": {"total": 10}});
    provider(&site, "h3", None, disk, &[]).await;
    let aggregate = Uuid::new_v4();
    for id in [pool, h1, h2] {
        join(&site, id, aggregate).await;
    }
    let consumer = Uuid::new_v4();
    let mut body = claim_of("p", h1, 2);
    body["allocations"][pool.to_string()] = json!({"resources": {"DISK_GB": 10}});
    arrive_as(&site, consumer, body).await;
    let found = ask(&site, "drain", json!({"hosts": ["h1"]})).await;
    let expected = json!({h2.to_string(): {"VCPU": 2}, pool.to_string(): {"DISK_GB": 10}});
    assert_eq!(found["steps"][0]["moves"][0]["allocations"], expected, "{found}");
    send(&site, &found["steps"][0]).await;
    let why = refused(&site, "drain", json!({"hosts": ["pool"]}), 409).await;
    assert!(why.contains("is on h2 and uses capacity that pool shares"), "{why}");
    // h3 has a disk of its own, but what is in the pool stays there.
    let why = refused(&site, "drain", json!({"hosts": ["h1", "h2"]}), 409).await;
    assert!(why.contains(&consumer.to_string()), "{why}");
    site.placement().delete(&format!("/allocations/{consumer}")).await.expect(204);
    assert_eq!(vcpus(&site).await, [].into());
}

/// Consumers on NUMA nodes and cards keep the pieces that they have, and their traits.
#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_trees_move_as_pieces() {
    let site = Site::new().await;
    site.placement().put("/traits/CUSTOM_FAST", json!({})).await.expect(201);
    let mut nodes = Vec::new();
    for (host, free) in [("h1", 4), ("h2", 3), ("h3", 4)] {
        let root = provider(&site, host, None, json!({"DISK_GB": {"total": 10}}), &[]).await;
        for (nth, traits) in [&["CUSTOM_FAST"][..], &[]].into_iter().enumerate() {
            let name = format!("{host}-{nth}");
            let node = json!({"VCPU": {"total": free}});
            nodes.push(provider(&site, &name, Some(root), node, traits).await);
        }
    }
    let consumer = Uuid::new_v4();
    arrive(&site, consumer, nodes[0], 4).await;
    // On h2 both nodes have fewer; on h3 one of them has the trait.
    let found = ask(&site, "drain", json!({"hosts": ["h1"]})).await;
    let expected = json!({nodes[4].to_string(): {"VCPU": 4}});
    assert_eq!(found["steps"][0]["moves"][0]["allocations"], expected, "{found}");
    let blocker = Uuid::new_v4();
    arrive(&site, blocker, nodes[4], 1).await;
    // It has no trait to keep on the other node, so it makes way.
    let found = ask(&site, "drain", json!({"hosts": ["h1"], "keep": "nothing"})).await;
    let expected = json!({nodes[5].to_string(): {"VCPU": 4}});
    assert_eq!(found["steps"][0]["moves"][0]["allocations"], expected, "{found}");
    let found = ask(&site, "drain", json!({"hosts": ["h1"]})).await;
    assert_eq!((&found["moves"], &found["proven"]), (&json!(2), &json!(true)), "{found}");
    assert_eq!(found["steps"][0]["moves"][0]["to"], "h2");
    for step in found["steps"].as_array().unwrap() {
        send(&site, step).await;
    }
    for id in [consumer, blocker] {
        site.placement().delete(&format!("/allocations/{id}")).await.expect(204);
    }
}

/// A migration can name the host of each server. Those in affinity groups with them stay then.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_to_named_hosts() {
    let site = Site::new().await;
    site.racks(1, 4, [4, 1, 1]).await;
    let before = usages(&site).await;
    let admin = site.admin();
    let apart = group("diversity", "host", &["a", "b"]);
    let resources = json!({"a": server("a", 1), "b": server("b", 1), "g": apart});
    let made = create(&admin, "stack", resources).await;
    let (a, b) = (host(&made, "a"), host(&made, "b"));
    let body = |resources: Value| json!({"action": "migrate", "resources": resources});
    let moved = admin.put("/v1/plans/stack", body(json!({"a": b, "b": a}))).await.expect(201);
    let moved = moved.json();
    assert_eq!((host(&moved, "a"), host(&moved, "b")), (b.clone(), a.clone()));
    admin.put("/v1/plans/stack", body(json!({"a": a}))).await.expect(409);
    admin.put("/v1/plans/stack", body(json!({"a": "nowhere"}))).await.expect(409);
    for wrong in [json!({}), json!({"a": 1}), json!({"a": null}), json!("a")] {
        admin.put("/v1/plans/stack", body(wrong)).await.expect(400);
    }
    assert_eq!(show(&admin, "stack").await, moved);
    assert_eq!(placement(&admin, "a").await["location"], json!(b));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_requests_are_named() {
    let site = Site::new().await;
    site.racks(1, 1, [4, 1, 1]).await;
    let resources = json!({"VCPU": 1});
    for (operation, body, expected) in [
        ("drain", json!({}), "hosts or racks"),
        ("drain", json!({"hosts": ["nobody"]}), "there is no host nobody"),
        ("drain", json!({"racks": ["r7"]}), "no host in a rack r7"),
        ("drain", json!({"hosts": ["r01h01"], "count": 1}), "are for /-/v1/rebalance"),
        ("drain", json!({"hosts": ["r01h01"], "kep": "traits"}), "unknown field `kep`"),
        ("drain", json!({"hosts": ["r01h01"], "keep": "all"}), "keep must be"),
        ("drain", json!({"hosts": ["r01h01"], "timeout": -1}), "timeout must be"),
        ("rebalance", json!({"count": 1}), "either flavor or resources"),
        ("rebalance", json!({"resources": resources}), "either count or fragmentation"),
        ("rebalance", json!({"resources": {"VCPU": 0}, "count": 1}), "must be at least 1"),
        ("rebalance", json!({"resources": {}, "count": 1}), "must have an amount"),
        ("rebalance", json!({"resources": {"X": 1}, "count": 1}), "No such resource class X"),
        ("rebalance", json!({"resources": {"X": 1}, "fragmentation": 0}), "X"),
        ("rebalance", json!({"flavor": "f", "count": 1}), "there is no flavor f"),
        ("rebalance", json!({"resources": resources, "count": 1001}), "at most 1000"),
        ("rebalance", json!({"resources": resources, "fragmentation": 2}), "from 0 to 1"),
        (
            "rebalance",
            json!({"resources": resources, "fragmentation": 0, "hosts": ["r01h01"]}),
            "use count",
        ),
    ] {
        let why = refused(&site, operation, body.clone(), 400).await;
        assert!(why.contains(expected), "{body}: {why}");
    }
    let user = site.placement().header("x-auth-token", "user:p");
    user.post("/-/v1/drain", json!({"hosts": ["r01h01"]})).await.expect(403);
}
