//! Effects of groups on their servers: groups of one request, stored ones, all ways to name them, and their
//! effects on others.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::site::{Host, Site};
use crate::stack::{
    Usages, create, finish, group, host, hosts, named, plan, reserve, server, store_group, stored,
    usages, with,
};

const PROJECT: &str = "b7d0e9b175294b649464caa3411adb3f";

/// Two clusters of two racks of two hosts of 4 `VCPU`: `c1r1h1`, ...
async fn site() -> (Site, Usages) {
    let site = Site::new().await;
    for nth in 0..8 {
        let (cluster, rack, host) = (nth / 4 + 1, nth / 2 % 2 + 1, nth % 2 + 1);
        let traits =
            [format!("CUSTOM_CLUSTER_C{cluster}"), format!("CUSTOM_RACK_C{cluster}R{rack}")];
        let traits = [traits[0].as_str(), traits[1].as_str()];
        let name = format!("c{cluster}r{rack}h{host}");
        site.hosts(&[Host { name: &name, size: [4, 1, 1], traits: &traits }]).await;
    }
    let before = usages(&site).await;
    (site, before)
}

/// The units of servers of a plan at a level.
fn units(plan: &Value, level: &str, servers: &[&str]) -> BTreeSet<String> {
    let end = match level {
        "cluster" => 2,
        "rack" => 4,
        _ => 6,
    };
    servers.iter().map(|server| host(plan, server)[..end].to_owned()).collect()
}

fn servers(count: usize, vcpu: i64) -> Value {
    let servers = (1..=count).map(|nth| (format!("s{nth}"), server(&format!("s{nth}"), vcpu)));
    json!(servers.collect::<serde_json::Map<_, _>>())
}

fn and(mut resources: Value, id: &str, resource: Value) -> Value {
    resources[id] = resource;
    resources
}

#[tokio::test(flavor = "multi_thread")]
async fn r60_affinity_within_a_host_a_rack_and_a_cluster() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    for (level, most) in [("host", 2), ("rack", 4), ("cluster", 8)] {
        let all: Vec<String> = (1..=most).map(|nth| format!("s{nth}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let together = and(servers(most, 2), "g", group("affinity", level, &all));
        let made = create(&tenant, "stack", together).await;
        assert_eq!(units(&made, level, &all).len(), 1, "{level}: {made}");
        finish(&site, &before).await;
        let more = [&all[..], &["more"]].concat();
        let more = and(servers(most, 2), "g", group("affinity", level, &more));
        let more = plan("stack", and(more, "more", server("more", 2)));
        let answer = tenant.post("/v1/plans", more).await;
        let why = answer.explanation(409);
        assert!(why.contains("affinity group g") && why.contains(level), "{why}");
        let detail = &answer.json()["detail"][0];
        assert_eq!((&detail["constraint"], &detail["level"]), (&json!("affinity"), &json!(level)));
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r61_diversity_of_hosts_racks_and_clusters() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    for (level, most) in [("host", 8), ("rack", 4), ("cluster", 2)] {
        let all: Vec<String> = (1..=most).map(|nth| format!("s{nth}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let apart = and(servers(most, 1), "g", group("diversity", level, &all));
        let made = create(&tenant, "stack", apart).await;
        assert_eq!(units(&made, level, &all).len(), most, "{level}: {made}");
        finish(&site, &before).await;
        let more = [&all[..], &["more"]].concat();
        let more = and(servers(most, 1), "g", group("diversity", level, &more));
        let more = plan("stack", and(more, "more", server("more", 1)));
        let why = tenant.post("/v1/plans", more).await.explanation(409);
        assert!(why.contains("diversity group g"), "{why}");
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r62_exclusivity_of_hosts_racks_and_clusters() {
    let (site, before) = site().await;
    let tenant = site.tenant(PROJECT);
    for (level, free) in [("host", 7), ("rack", 3), ("cluster", 1)] {
        let name = format!("own-{level}");
        store_group(&site, &name, "exclusivity", level, &[PROJECT]).await;
        let own = named("exclusivity", &name, &["s1", "s2"]);
        let made = create(&tenant, "own", and(servers(2, 1), "g", own)).await;
        let taken = units(&made, level, &["s1", "s2"]);
        assert_eq!(taken.len(), 1, "{level}");
        // Ordinary servers find all other units and none of this one.
        let all: Vec<String> = (1..=free).map(|nth| format!("s{nth}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let apart = group("diversity", level, &all);
        let others = create(&tenant, "others", and(servers(free, 1), "g", apart)).await;
        assert!(units(&others, level, &all).is_disjoint(&taken), "{level}: {others}");
        // No other group finds an empty unit now.
        let second = format!("second-{level}");
        store_group(&site, &second, "exclusivity", level, &[PROJECT]).await;
        let own = and(servers(1, 1), "g", named("exclusivity", &second, &["s1"]));
        let why = tenant.post("/v1/plans", plan("second", own)).await.explanation(409);
        assert!(why.contains("exclusivity"), "{why}");
        // Another server of the same group gets the same unit.
        let own = named("exclusivity", &name, &["s1"]);
        let again = create(&tenant, "again", and(servers(1, 1), "g", own)).await;
        assert_eq!(units(&again, level, &["s1"]), taken);
        finish(&site, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r63_groups_inside_of_groups() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    let pairs = |outer: Value| {
        let inner = and(servers(4, 1), "one", group("affinity", "host", &["s1", "s2"]));
        and(and(inner, "two", group("affinity", "host", &["s3", "s4"])), "outer", outer)
    };
    let apart = group("diversity", "rack", &["one", "two"]);
    let made = create(&tenant, "stack", pairs(apart)).await;
    for pair in [["s1", "s2"], ["s3", "s4"]] {
        assert_eq!(units(&made, "host", &pair).len(), 1);
    }
    assert_eq!(units(&made, "rack", &["s1", "s3"]).len(), 2);
    finish(&site, &before).await;
    // Different hosts of one rack; a third there is not.
    let nested = |count: usize| {
        let all: Vec<String> = (1..=count).map(|nth| format!("s{nth}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let apart = and(servers(count, 1), "in", group("diversity", "host", &all));
        and(apart, "out", group("affinity", "rack", &["in"]))
    };
    let made = create(&tenant, "stack", nested(2)).await;
    assert_eq!(units(&made, "host", &["s1", "s2"]).len(), 2);
    assert_eq!(units(&made, "rack", &["s1", "s2"]).len(), 1);
    tenant.post("/v1/plans", plan("more", nested(3))).await.explanation(409);
    for (one, other, message) in [
        (group("affinity", "rack", &["s1"]), group("affinity", "host", &["one"]), "grouping scope"),
        (
            group("affinity", "host", &["two"]),
            group("affinity", "host", &["one"]),
            "contains itself",
        ),
    ] {
        let senseless = and(and(servers(1, 1), "one", one), "two", other);
        let why = tenant.post("/v1/plans", plan("more", senseless)).await.explanation(400);
        assert!(why.starts_with("Valet error: ") && why.contains(message), "{why}");
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r64_affinities_that_overlap_are_one() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    let overlapping = |vcpu| {
        let one = and(servers(3, vcpu), "one", group("affinity", "host", &["s1", "s2"]));
        and(one, "two", group("affinity", "host", &["s2", "s3"]))
    };
    let made = create(&tenant, "stack", overlapping(1)).await;
    assert_eq!(units(&made, "host", &["s1", "s2", "s3"]).len(), 1);
    tenant.post("/v1/plans", plan("large", overlapping(2))).await.explanation(409);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r65_affinity_holds_beyond_a_plan() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    store_group(&site, "near", "affinity", "host", &[]).await;
    let near = |vcpu| and(servers(1, vcpu), "g", named("affinity", "near", &["s1"]));
    let first = create(&tenant, "first", near(2)).await;
    create(&tenant, "between", servers(1, 1)).await;
    let second = create(&tenant, "second", near(1)).await;
    assert_eq!(host(&second, "s1"), host(&first, "s1"));
    let why = tenant.post("/v1/plans", plan("third", near(3))).await.explanation(409);
    assert!(why.contains("7 are not where affinity group near is"), "{why}");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r66_diversity_holds_beyond_a_plan() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    store_group(&site, "far", "diversity", "rack", &[]).await;
    let mut racks = BTreeSet::new();
    for nth in 0..4 {
        let far = and(servers(1, 1), "g", stored("far", &["s1"]));
        let made = create(&tenant, &format!("stack{nth}"), far).await;
        racks.extend(units(&made, "rack", &["s1"]));
    }
    assert_eq!(racks.len(), 4);
    let far = and(servers(1, 1), "g", stored("far", &["s1"]));
    tenant.post("/v1/plans", plan("stack", far)).await.explanation(409);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r67_exclusivity_is_closed_to_those_who_are_no_members() {
    let (site, before) = site().await;
    let tenant = site.tenant(PROJECT);
    let own = |name: &str| and(servers(1, 1), "g", named("exclusivity", name, &["s1"]));
    // Word for word as the seed says.
    let answer = tenant.post("/v1/plans", plan("stack", own("foosball"))).await;
    assert_eq!(answer.status, 409);
    let expected = json!({
        "title": "Conflict",
        "explanation": "Valet error: Exclusivity group 'foosball' not found",
        "code": 409,
        "error": {
            "message": "There was a conflict when trying to complete your request.",
            "traceback": null,
            "type": "HTTPConflict",
        },
    });
    assert_eq!(answer.json(), expected);
    // At first, there are no members.
    store_group(&site, "own", "exclusivity", "host", &[]).await;
    for body in
        [plan("stack", own("own")), plan("stack", and(servers(1, 1), "g", stored("own", &["s1"])))]
    {
        let why = tenant.post("/v1/plans", body).await.explanation(409);
        let output =
            format!("Valet error: Tenant ID {PROJECT} not a member of exclusivity group 'own'");
        assert!(why.starts_with(&output), "{why}");
    }
    let members = json!({"members": [PROJECT.to_uppercase()]});
    site.admin().put("/v1/groups/own/members", members).await.expect(201);
    create(&tenant, "stack", own("own")).await;
    site.tenant("q").post("/v1/plans", plan("other", own("own"))).await.explanation(409);
    // A project with servers in it stays a member.
    let path = format!("/v1/groups/own/members/{PROJECT}");
    site.admin().delete(&path).await.explanation(409);
    site.admin().delete("/v1/groups/own").await.explanation(409);
    finish(&site, &before).await;
    site.admin().delete(&path).await.expect(204);
    site.admin().delete("/v1/groups/own").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn r68_ordinary_servers_stay_out_of_exclusive_units() {
    let (site, before) = site().await;
    let tenant = site.tenant(PROJECT);
    store_group(&site, "own", "exclusivity", "host", &[PROJECT]).await;
    let own = and(servers(1, 1), "g", named("exclusivity", "own", &["s1"]));
    let made = create(&tenant, "own", own).await;
    let kept = host(&made, "s1");
    let all = create(&tenant, "all", servers(14, 2)).await;
    assert!(hosts(&all).values().all(|host| *host != kept), "{all}");
    let why = tenant.post("/v1/plans", plan("more", servers(1, 1))).await.explanation(409);
    assert!(why.contains("1 is kept for exclusivity group own"), "{why}");
    // Neither by name does it let anybody in.
    let mut body = plan("more", servers(1, 1));
    body["locations"] = json!([kept]);
    tenant.post("/v1/plans", body).await.explanation(409);
    tenant.delete("/v1/plans/own").await.expect(204);
    let more = create(&tenant, "more", servers(1, 1)).await;
    assert_eq!(host(&more, "s1"), kept);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r55_r57_stored_groups_by_id_or_name_and_by_metadata_of_servers() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    store_group(&site, "far", "diversity", "host", &[]).await;
    store_group(&site, "near", "affinity", "rack", &[]).await;
    let far = site.admin().get("/v1/groups/far").await.expect(200).json()["group"]["id"].clone();
    let id = far.as_str().unwrap();
    let marked =
        |groups: Value| with(server("s", 1), "metadata", json!({"valet": {"groups": groups}}));
    let by_metadata = |groups: Value| json!({"s1": marked(groups.clone()), "s2": marked(groups)});
    let both = ["s1", "s2"];
    for resources in [
        and(servers(2, 1), "g", stored("far", &both)),
        and(servers(2, 1), "g", stored(id, &both)),
        and(servers(2, 1), "g", stored(&id.replace('-', "").to_uppercase(), &both)),
        and(and(servers(2, 1), "g", stored("far", &["s1"])), "h", stored(id, &["s2"])),
        by_metadata(json!(["far"])),
        by_metadata(json!([id])),
        by_metadata(json!("[\"far\", \"near\"]")),
        by_metadata(json!("far, near")),
    ] {
        let made = create(&tenant, "stack", resources.clone()).await;
        assert_eq!(units(&made, "host", &both).len(), 2, "{resources}");
        if resources.to_string().contains("near") {
            assert_eq!(units(&made, "rack", &both).len(), 1, "{resources}");
        }
        finish(&site, &before).await;
    }
    for unknown in [by_metadata(json!(["no"])), and(servers(2, 1), "g", stored("no", &both))] {
        let why = tenant.post("/v1/plans", plan("stack", unknown)).await.explanation(409);
        assert_eq!(why, "Valet error: Group 'no' not found");
    }
    // A group that has members is for these.
    let members = json!({"members": [PROJECT]});
    site.admin().put("/v1/groups/far/members", members).await.expect(201);
    let body = plan("stack", by_metadata(json!(["far"])));
    tenant.post("/v1/plans", body.clone()).await.explanation(409);
    site.tenant(PROJECT).post("/v1/plans", body).await.expect(201);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r58_r59_groups_of_a_request_in_every_spelling_there_was() {
    let (site, before) = site().await;
    let tenant = site.tenant(PROJECT);
    store_group(&site, "own", "exclusivity", "host", &[PROJECT]).await;
    let both = json!(["s1", "s2"]);
    for (kind, properties, apart) in [
        ("ATT::Valet::GroupAssignment", json!({"group_type": "diversity"}), 2),
        ("ATT::Valet::GroupAssignment", json!({"group_type": "affinity", "level": "host"}), 1),
        ("OS::Valet::GroupAssignment", json!({"group_type": "diversity", "level": "rack"}), 2),
        ("ATT::CloudQoS::ResourceGroup", json!({"relationship": "diversity"}), 2),
        ("ATT::QoS::ResourceGroup", json!({"relationship": "affinity", "name": null}), 1),
        ("ATT::CloudQoS::ResourceGroup", json!({"relationship": "exclusivity", "name": "own"}), 1),
    ] {
        let mut assignment = json!({"type": kind, "properties": properties});
        assignment["properties"]["resources"] = both.clone();
        let made = create(&tenant, "stack", and(servers(2, 1), "g", assignment)).await;
        assert_eq!(units(&made, "host", &["s1", "s2"]).len(), apart, "{kind}: {properties}");
        finish(&site, &before).await;
    }
    for (properties, status, message) in [
        (json!({"group_type": "exclusivity"}), 400, "group_name must be used"),
        (json!({"group_type": "proximity"}), 400, "group_type 'proximity' is invalid."),
        (json!({"level": "host"}), 400, "Property 'group_type' must be specified."),
        (json!({"group_type": "affinity", "level": "any"}), 400, "level 'any' is invalid"),
        (json!({"group_type": "affinity", "group_name": "no"}), 409, "Affinity group 'no' not"),
        (json!({"group_type": "affinity", "group_name": "own"}), 409, "Affinity group 'own' not"),
    ] {
        let mut assignment = json!({"type": "ATT::Valet::GroupAssignment"});
        assignment["properties"] = properties;
        assignment["properties"]["resources"] = both.clone();
        let body = plan("stack", and(servers(2, 1), "g", assignment));
        let why = tenant.post("/v1/plans", body).await.explanation(status);
        assert!(why.starts_with("Valet error: ") && why.contains(message), "{why}");
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_a_group_that_comes_with_an_update_binds_who_is_there() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    let update = async |resources: Value| {
        let mut body = json!({"action": "update"});
        body["resources"] = resources;
        tenant.put("/v1/plans/stack", body).await
    };
    let all = ["s1", "s2", "s3"];
    let made = create(&tenant, "stack", servers(3, 1)).await;
    assert_eq!(units(&made, "host", &all).len(), 1);
    let apart = and(servers(3, 1), "g", group("diversity", "rack", &all));
    let updated = update(apart.clone()).await.expect(201).json();
    assert_eq!(units(&updated, "rack", &all).len(), 3);
    // In the same groups no server moves.
    assert_eq!(update(apart).await.expect(201).json(), updated);
    // Out of them no server has to.
    assert_eq!(update(servers(3, 1)).await.expect(201).json(), updated);
    let together = and(servers(3, 1), "g", group("affinity", "host", &all));
    // Reserved servers stay, and the others join them.
    reserve(&tenant, "s2", &[&host(&updated, "s2")]).await;
    let joined = update(together).await.expect(201).json();
    assert_eq!(units(&joined, "host", &all), units(&updated, "host", &["s2"]));
    tenant.delete("/v1/placements/s2").await.expect(204);
    let many = ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];
    let more = and(servers(9, 1), "g", group("diversity", "host", &many));
    let why = update(more).await.explanation(409);
    assert!(why.starts_with("Ostro error: diversity group g"), "{why}");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r57_who_joins_and_leaves_a_stored_group_with_an_update_is_known() {
    let (site, before) = site().await;
    let tenant = site.tenant(PROJECT);
    store_group(&site, "far", "diversity", "cluster", &[]).await;
    store_group(&site, "own", "exclusivity", "cluster", &[PROJECT]).await;
    let update = async |resources: Value| {
        let mut body = json!({"action": "update"});
        body["resources"] = resources;
        tenant.put("/v1/plans/stack", body).await.expect(201).json()
    };
    let other = |nth: usize| {
        let far = and(json!({}), "x", server("x", 1));
        plan(&format!("other{nth}"), and(far, "g", stored("far", &["x"])))
    };
    let made = create(&tenant, "stack", servers(1, 1)).await;
    // With one of the group in either cluster, there is no cluster for a third.
    update(and(servers(1, 1), "g", stored("far", &["s1"]))).await;
    let second = tenant.post("/v1/plans", other(1)).await.expect(201).json();
    assert_ne!(units(&second, "cluster", &["x"]), units(&made, "cluster", &["s1"]));
    tenant.post("/v1/plans", other(2)).await.explanation(409);
    update(servers(1, 1)).await;
    tenant.post("/v1/plans", other(2)).await.expect(201);
    for nth in [1, 2] {
        tenant.delete(&format!("/v1/plans/other{nth}")).await.expect(204);
    }
    // The cluster is exclusive, as long as it is in the group.
    let ordinary = |stack| plan(stack, and(json!({}), "y", server("y", 4)));
    let made = update(and(servers(1, 1), "g", stored("own", &["s1"]))).await;
    let kept = units(&made, "cluster", &["s1"]);
    let beside = tenant.post("/v1/plans", ordinary("one")).await.expect(201).json();
    assert!(units(&beside, "cluster", &["y"]).is_disjoint(&kept));
    update(servers(1, 1)).await;
    let mut within = plan("two", json!({"z": server("z", 1)}));
    within["locations"] = json!([host(&made, "s1")]);
    tenant.post("/v1/plans", within).await.expect(201);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r76_racks_by_the_names_of_hosts() {
    let mut options = berth::http::app::Options::default();
    options.planner.host_names = true;
    let site = Site::with(options).await;
    let plain = |name| Host { name, size: [4, 1, 1], traits: &[] };
    let names = ["pdk15r05c001", "pdk15r05c002", "pdk15r06c001", "qos101"];
    site.hosts(&names.map(plain)).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let apart = |count: usize, members: &[&str]| {
        and(servers(count, 1), "g", group("diversity", "rack", members))
    };
    let made = create(&tenant, "stack", apart(2, &["s1", "s2"])).await;
    let racks: BTreeSet<String> = hosts(&made).values().map(|it| it[..8].to_owned()).collect();
    assert_eq!(racks, ["pdk15r05", "pdk15r06"].map(str::to_owned).into());
    // A host whose rack is not known is in none.
    let answer = tenant.post("/v1/plans", plan("more", apart(3, &["s1", "s2", "s3"]))).await;
    let why = answer.explanation(409);
    assert!(why.contains("qos101"), "{why}");
    finish(&site, &before).await;
}
