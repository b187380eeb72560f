//! A plan that does not fit is refused with what is in the way: all of it, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::dice::Dice;
use crate::site::{Asker, Host, Site, SiteResponse};
use crate::stack::{flavored, group, having, plan, server, store_group, stored, with};
use crate::trees::provider;

const HOST: [i64; 3] = [8, 16_384, 200];
const PROJECT: &str = "3a17c0de000040008000000000000001";

async fn refused(asker: &Asker, resources: Value) -> (String, Value) {
    let answer = asker.post("/v1/plans?dry_run=true", plan("s", resources)).await;
    let why = answer.explanation(409);
    let why = why.strip_prefix("Ostro error: ").unwrap().to_owned();
    (why, answer.json())
}

async fn why(asker: &Asker, resources: Value) -> String {
    refused(asker, resources).await.0
}

/// The counts of the conditions that rule out hosts for the first servers: constraint, name, hosts, and those
/// that lack only this.
fn counts(body: &Value) -> Vec<(String, String, i64, i64)> {
    let conditions = body["hosts"][0]["conditions"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let count = |it: &Value| it.as_i64().unwrap();
    conditions
        .map(|it| {
            (text(&it["constraint"]), text(&it["name"]), count(&it["hosts"]), count(&it["only"]))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_condition_is_counted_over_all_hosts() {
    let site = Site::new().await;
    let (small, east) = ([2, 16_384, 200], "CUSTOM_AZ_EAST");
    site.hosts(&[
        Host { name: "h1", size: small, traits: &["HW_CPU_X86_AVX2", east] },
        Host { name: "h2", size: [3, 1024, 200], traits: &["HW_CPU_X86_AVX2", east] },
        Host { name: "h3", size: small, traits: &["HW_CPU_X86_AVX2", east] },
        Host { name: "h4", size: HOST, traits: &[east] },
    ])
    .await;
    let admin = site.admin();
    let big = json!({"VCPU": 4, "MEMORY_MB": 2048});
    let a = with(server("a", 4), "resources", big);
    let a = with(a, "required", json!(["HW_CPU_X86_AVX2"]));
    let (why, body) = refused(&admin, json!({"a": a})).await;
    assert_eq!(
        why,
        "server a fits on none of 4 hosts: VCPU is short on 3 (4 needed, at most 3 of 3 free, on h2), \
         trait HW_CPU_X86_AVX2 is missing on 1"
    );
    let named = |constraint: &str, name: &str, hosts, only| {
        (constraint.to_owned(), name.to_owned(), hosts, only)
    };
    assert_eq!(
        counts(&body),
        [
            named("capacity", "MEMORY_MB", 1, 0),
            named("capacity", "VCPU", 3, 2),
            named("required-trait", "HW_CPU_X86_AVX2", 1, 1),
        ]
    );
    let hosts = &body["hosts"][0];
    assert_eq!((&hosts["hosts"], &hosts["fitting"]), (&json!(4), &json!(0)));
    assert_eq!(hosts["near_miss_count"], 3);
    assert_eq!(
        hosts["near_misses"][0],
        json!({"host": "h1", "constraint": "capacity", "name": "VCPU", "group": null, "missing": 2})
    );
    let most = &hosts["conditions"][1]["most"];
    assert_eq!(
        most,
        &json!({
            "host": "h2", "available": 3, "capacity": 3, "used": 0, "total": 3, "reserved": 0,
            "limit": "free", "value": 3,
        })
    );
    let constraints: Vec<&Value> =
        body["detail"].as_array().unwrap().iter().map(|it| &it["constraint"]).collect();
    assert_eq!(constraints, ["required-trait", "capacity", "server"]);
    // Conditions that rule out hosts, but are not part of the contradiction, are counted and not named.
    let west = json!({"a": with(server("a", 4), "availability_zone", json!("west"))});
    let (why, body) = refused(&admin, west).await;
    assert_eq!(why, "server a fits on none of 4 hosts: 4 are not in availability zone west");
    assert_eq!(counts(&body).len(), 2);
    let nowhere = having(server("a", 1), "locations", json!(["h9"]));
    let why = why_of(&admin, nowhere).await;
    assert_eq!(why, "server a fits on none of 4 hosts: 4 are not among the locations");
}

async fn why_of(asker: &Asker, server: Value) -> String {
    why(asker, json!({"a": server})).await
}

/// The stranger on the only host of an exclusivity group is named.
#[tokio::test(flavor = "multi_thread")]
async fn servers_outside_a_group_are_named() {
    let site = Site::new().await;
    site.racks(1, 1, HOST).await;
    store_group(&site, "vault", "exclusivity", "host", &[PROJECT]).await;
    let resources = json!({
        "a": server("a", 1), "b": server("b", 1),
        "g": stored("vault", &["a"]),
    });
    let (why, body) = refused(&site.tenant(PROJECT), resources).await;
    assert_eq!(
        why,
        "exclusivity group vault allows no others in the host of a; \
         a fits on 1 host: r01h01; b fits on 1 host: r01h01"
    );
    let detail = body["detail"].as_array().unwrap();
    let servers: Vec<&Value> = detail.iter().map(|it| &it["servers"]).collect();
    assert_eq!(servers, [&json!(["a"]), &json!(["a"]), &json!(["b"])]);
}

/// A group with a host is named to the servers that it excludes, and so is a group whose servers are elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn stored_groups_are_named() {
    let site = Site::new().await;
    site.racks(1, 2, HOST).await;
    let tenant = site.tenant(PROJECT);
    store_group(&site, "vault", "exclusivity", "host", &[PROJECT]).await;
    store_group(&site, "near", "affinity", "host", &[]).await;
    let first = json!({
        "a": having(server("a", 1), "locations", json!(["r01h01"])), "g": stored("vault", &["a"]),
        "b": having(server("b", 8), "locations", json!(["r01h02"])), "n": stored("near", &["b"]),
    });
    tenant.post("/v1/plans", plan("first", first)).await.expect(201);
    let next = json!({"c": server("c", 8), "n": stored("near", &["c"])});
    let (output, body) = refused(&tenant, next).await;
    assert_eq!(
        output,
        "server c fits on none of 2 hosts: VCPU is short on 2 (8 needed, at most 7 of 8 free, on r01h01)"
    );
    assert_eq!(counts(&body).len(), 3, "{body}");
    let output = why_of(&tenant, server("c", 1)).await;
    assert_eq!(
        output,
        "server c fits on none of 2 hosts: 1 is kept for exclusivity group vault, \
         VCPU is short on 1 (1 needed, at most 0 of 8 free, on r01h02)"
    );
}

/// Returns whether there is a placement, by a dry run.
pub async fn fits(asker: &Asker, resources: Value) -> bool {
    let answer: SiteResponse = asker.post("/v1/plans?dry_run=true", plan("s", resources)).await;
    assert!([200, 409].contains(&answer.status), "{}", answer.text());
    answer.status == 200
}

/// The resources of a request with the demands that are named only.
fn only(resources: &Map<String, Value>, demands: &[&Value]) -> Value {
    let named = |constraint: &str, key: &str| -> BTreeSet<String> {
        let found = demands.iter().filter(|it| it["constraint"] == constraint);
        found.filter_map(|it| it[key].as_str().map(str::to_owned)).collect()
    };
    let has = |constraint: &str| demands.iter().any(|it| it["constraint"] == constraint);
    let groups: BTreeSet<String> = ["affinity", "diversity", "exclusivity"]
        .iter()
        .flat_map(|constraint| named(constraint, "group"))
        .collect();
    let servers: BTreeSet<&str> = demands
        .iter()
        .filter(|it| it["constraint"] == "server")
        .flat_map(|it| it["servers"].as_array().unwrap())
        .map(|it| it.as_str().unwrap())
        .collect();
    let (classes, traits) = (named("capacity", "name"), named("required-trait", "name"));
    let mut kept = Map::new();
    for (id, resource) in resources {
        let mut resource = resource.clone();
        let properties = resource["properties"].as_object_mut().unwrap();
        if let Some(members) = properties.get_mut("resources").and_then(Value::as_array_mut) {
            members.retain(|it| servers.contains(it.as_str().unwrap()));
            let is_empty = members.is_empty();
            let name = properties.get("group").map_or(id.as_str(), |it| it.as_str().unwrap());
            if groups.contains(name) && !is_empty {
                kept.insert(id.clone(), resource);
            }
            continue;
        }
        if properties.contains_key("policies") {
            if groups.contains(id) {
                kept.insert(id.clone(), resource);
            }
            continue;
        }
        if !servers.contains(id.as_str()) {
            continue;
        }
        // A server needs an amount, of which every host has far more.
        let amounts = properties["resources"].as_object_mut().unwrap();
        amounts.retain(|class, _| classes.contains(class));
        amounts.entry("DISK_GB").or_insert(json!(1));
        if !classes.contains("VCPU") {
            properties.remove("numbered_groups");
        }
        if !properties["scheduler_hints"]["group"].as_str().is_some_and(|it| groups.contains(it)) {
            properties.remove("scheduler_hints");
        }
        let required = properties["required"].as_array_mut().unwrap();
        required.retain(|it| traits.contains(it.as_str().unwrap()));
        if !has("availability-zone") {
            properties.remove("availability_zone");
        }
        if !has("locations") {
            resource.as_object_mut().unwrap().remove("locations");
        }
        kept.insert(id.clone(), resource);
    }
    Value::Object(kept)
}

/// The demands of an answer, one for each thing that can be left out: servers one by one.
fn things(body: &Value) -> Vec<Value> {
    let mut things = Vec::new();
    for demand in body["detail"].as_array().unwrap() {
        if demand["constraint"] != "server" {
            things.push(demand.clone());
            continue;
        }
        for server in demand["servers"].as_array().unwrap() {
            let mut one = demand.clone();
            one["servers"] = json!([server]);
            things.push(one);
        }
    }
    things
}

/// A random stack over two racks of two hosts.
fn random_stack(dice: &mut Dice) -> Map<String, Value> {
    let mut resources = Map::new();
    let count = 1 + dice.below(5);
    let ids: Vec<String> = (0..count).map(|nth| format!("s{nth}")).collect();
    for id in &ids {
        let vcpu = 1 + dice.below(9);
        let mut amounts = json!({"MEMORY_MB": (1 + dice.below(9)) * 1024, "DISK_GB": 1});
        let mut it = server(id, 1);
        if dice.happens(20) {
            it = with(it, "numbered_groups", json!({"_N": {"resources": {"VCPU": vcpu}}}));
        } else {
            amounts["VCPU"] = json!(vcpu);
        }
        it = with(it, "resources", amounts);
        it = with(it, "scheduler_hints", json!({}));
        let required = if dice.happens(20) { json!(["HW_CPU_X86_AVX2"]) } else { json!([]) };
        it = with(it, "required", required);
        if dice.happens(20) {
            it = with(it, "availability_zone", json!("east"));
        }
        if dice.happens(20) {
            it = having(it, "locations", json!(["h1", "h2", "h3"]));
        }
        resources.insert(id.clone(), it);
    }
    for nth in 0..dice.below(3) {
        let members: Vec<&str> =
            ids.iter().filter(|_| dice.happens(60)).map(String::as_str).collect();
        add_group(&format!("g{nth}"), &members, &mut resources, dice);
    }
    resources
}

/// Adds a random group of these servers: one of the request, one that counts its servers, a stored one, or a
/// server group.
fn add_group(id: &str, members: &[&str], resources: &mut Map<String, Value>, dice: &mut Dice) {
    let kind = dice.pick(&["affinity", "diversity"]).unwrap();
    let level = dice.pick(&["host", "rack"]).unwrap();
    let most = json!(1 + dice.below(2));
    let entry = match dice.below(8) {
        0..3 => group(kind, level, members),
        3 => with(group("diversity", level, members), "max_per_unit", most),
        4 => with(group("diversity", level, members), "max_skew", most),
        5 => stored("vault", members),
        6 => stored("apart", members),
        _ => {
            let is_taken = |it: &Value| it["properties"].get("policies").is_some();
            if resources.values().any(is_taken) {
                return;
            }
            for member in members {
                resources[*member]["properties"]["scheduler_hints"] = json!({"group": id});
            }
            let properties = json!({"policies": ["anti-affinity"],
                                    "rules": {"max_server_per_host": most}});
            json!({"type": "OS::Nova::ServerGroup", "properties": properties})
        }
    };
    // Two assignments to one stored group would be one group.
    let name = &entry["properties"]["group"];
    let is_same = |it: &Value| name.is_string() && it["properties"]["group"] == *name;
    if !resources.values().any(is_same) {
        resources.insert(id.to_owned(), entry);
    }
}

/// Servers of even distributions that are named: where they can be says which domains there are.
fn evenly(resources: &Map<String, Value>, things: &[Value]) -> BTreeSet<String> {
    let groups = things.iter().filter_map(|it| resources.get(it["group"].as_str()?));
    let groups = groups.filter(|it| it["properties"].get("max_skew").is_some());
    let members = groups.flat_map(|it| it["properties"]["resources"].as_array().unwrap());
    members.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// The named conditions have no placement together, and have one without any single one of them.
#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_names_exactly_the_obstacles() {
    let site = Site::new().await;
    site.hosts(&[
        Host { name: "h1", size: HOST, traits: &["CUSTOM_RACK_A", "HW_CPU_X86_AVX2"] },
        Host { name: "h2", size: HOST, traits: &["CUSTOM_RACK_A", "CUSTOM_AZ_EAST"] },
        Host { name: "h3", size: [4, 8192, 200], traits: &["CUSTOM_RACK_B", "CUSTOM_AZ_EAST"] },
        Host { name: "h4", size: [4, 16_384, 200], traits: &["HW_CPU_X86_AVX2"] },
    ])
    .await;
    let whole = json!({"MEMORY_MB": {"total": 16_384}, "DISK_GB": {"total": 200}});
    let tree = provider(&site, "h5", None, whole, &["CUSTOM_RACK_B"]).await;
    for node in ["h5-node1", "h5-node2"] {
        provider(&site, node, Some(tree), json!({"VCPU": {"total": 4}}), &[]).await;
    }
    store_group(&site, "vault", "exclusivity", "host", &[PROJECT]).await;
    store_group(&site, "apart", "diversity", "host", &[]).await;
    let admin = site.tenant(PROJECT);
    let mut dice = Dice(14);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut refusals = 0;
    while refusals < 200 {
        let resources = random_stack(&mut dice);
        let answer =
            admin.post("/v1/plans?dry_run=true", plan("s", Value::Object(resources.clone()))).await;
        if answer.status == 200 {
            continue;
        }
        refusals += 1;
        let message = answer.explanation(409);
        let things = things(&answer.json());
        let all: Vec<&Value> = things.iter().collect();
        assert!(!fits(&admin, only(&resources, &all)).await, "{message}\n{resources:?}");
        let evenly = evenly(&resources, &things);
        for (nth, thing) in things.iter().enumerate() {
            *seen.entry(thing["constraint"].as_str().unwrap().to_owned()).or_insert(0) += 1;
            if thing["constraint"] == "server"
                && evenly.contains(thing["servers"][0].as_str().unwrap())
            {
                continue;
            }
            let rest: Vec<&Value> = things
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != nth)
                .map(|(_, it)| it)
                .collect();
            let rest = only(&resources, &rest);
            let is_empty = rest.as_object().unwrap().is_empty();
            assert!(
                is_empty || fits(&admin, rest).await,
                "without {thing}: {message}\n{resources:?}"
            );
        }
    }
    for constraint in [
        "server",
        "capacity",
        "affinity",
        "diversity",
        "exclusivity",
        "required-trait",
        "availability-zone",
        "locations",
    ] {
        assert!(seen.contains_key(constraint), "{seen:?}");
    }
}

/// All servers of an even distribution define its domains, so all are named.
#[tokio::test(flavor = "multi_thread")]
async fn groups_that_count_say_what_they_ask_and_how_many_are_where() {
    let site = Site::new().await;
    site.racks(1, 3, HOST).await;
    let admin = site.admin();
    let at = |id: &str, hosts: &[&str]| having(server(id, 1), "locations", json!(hosts));
    let pinned = |id: &str| at(id, &["r01h01"]);
    let even = with(group("diversity", "host", &["s0", "s1", "t"]), "max_skew", json!(1));
    let mut resources = json!({"s0": pinned("s0"), "s1": pinned("s1"), "g": even});
    resources["t"] = at("t", &["r01h02", "r01h03"]);
    let (why, body) = refused(&admin, resources.clone()).await;
    assert_eq!(
        why,
        "diversity group g needs s0, s1, t distributed evenly, with at most 1 more on one host than \
         on another (max_skew 1), on 3 hosts: r01h01, r01h02, r01h03; s0, s1 fit on 1 host: r01h01; \
         t fits on 2 hosts: r01h02, r01h03; of 3 hosts, 2 are not among the locations (for s0, s1)"
    );
    let detail = body["detail"].as_array().unwrap();
    let constraints: Vec<&Value> = detail.iter().map(|it| &it["constraint"]).collect();
    assert_eq!(constraints, ["diversity", "locations", "server", "server"]);
    resources["t"] = pinned("t");
    resources["g"] = with(group("diversity", "host", &["s0", "s1", "t"]), "max_per_unit", json!(2));
    assert_eq!(
        refused(&admin, resources.clone()).await.0,
        "diversity group g needs 2 hosts for s0, s1, t (max_per_unit 2); they fit on 1 host: r01h01; \
         of 3 hosts, 2 are not among the locations"
    );
    let rules = json!({"policies": ["anti-affinity"], "rules": {"max_server_per_host": 2}});
    resources["g"] = json!({"type": "OS::Nova::ServerGroup", "properties": rules});
    for id in ["s0", "s1", "t"] {
        resources[id]["properties"]["scheduler_hints"] = json!({"group": "g"});
    }
    let why = refused(&admin, resources).await.0;
    let expected = "server group g needs 2 hosts for s0, s1, t (max_server_per_host 2); ";
    assert!(why.starts_with(expected), "{why}");
}

/// A host without a rack is not counted as used by others.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_without_a_unit_are_distinguished() {
    let site = Site::new().await;
    site.hosts(&[
        Host { name: "h1", size: HOST, traits: &["CUSTOM_RACK_A"] },
        Host { name: "h2", size: HOST, traits: &[] },
    ])
    .await;
    store_group(&site, "vr", "exclusivity", "rack", &[PROJECT]).await;
    let tenant = site.tenant(PROJECT);
    let a = having(server("a", 1), "locations", json!(["h2"]));
    let (why, _) = refused(&tenant, json!({"a": a, "g": stored("vr", &["a"])})).await;
    assert!(why.contains("the rack of 1, which exclusivity group vr needs, is not known"), "{why}");
    assert!(!why.contains("used by others"), "{why}");
}

/// A client chooses how many servers and groups there are; the sentence stays short.
#[tokio::test(flavor = "multi_thread")]
async fn a_sentence_about_many_is_short() {
    let site = Site::new().await;
    site.racks(2, 5, HOST).await;
    let mut resources = Map::new();
    let ids: Vec<String> = (0..60).map(|nth| format!("server-{nth}")).collect();
    for id in &ids {
        resources.insert(id.clone(), flavored(id, "m1.medium"));
    }
    let why = why(&site.admin(), Value::Object(resources)).await;
    assert!(why.starts_with("41 servers (server-0, server-1, "), "{why}");
    assert!(why.contains(" and 36 more) do not fit together on the 10 hosts"), "{why}");
    assert!(why.contains("MEMORY_MB: 167936 needed, 163840 free there"), "{why}");
    assert!(why.len() < 500, "{why}");
}
