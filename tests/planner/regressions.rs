//! Errors of the first engine, each as it was observed: its plans failed where there was a placement,
//! booked twice, lost bookings, and violated groups.

use serde_json::{Value, json};

use crate::site::{Asker, Host, Site, SiteResponse};

const HOST: [i64; 3] = [16, 16_000, 1_000];

/// Returns a server with this number of VCPU, with further properties.
fn server(name: &str, vcpu: i64, properties: &Value) -> Value {
    let mut server = json!({
        "type": "OS::Nova::Server",
        "name": name,
        "properties": {"resources": {"VCPU": vcpu, "MEMORY_MB": vcpu * 1000, "DISK_GB": vcpu * 10}},
    });
    for (key, value) in properties.as_object().unwrap() {
        server["properties"][key] = value.clone();
    }
    server
}

fn assignment(kind: &str, level: &str, members: &[&str]) -> Value {
    let properties = json!({"group_type": kind, "level": level, "resources": members});
    json!({"type": "ATT::Valet::GroupAssignment", "properties": properties})
}

async fn create(asker: &Asker, stack: &str, resources: Value) -> SiteResponse {
    let body = json!({"plan_name": stack, "stack_id": stack, "resources": resources});
    asker.post("/v1/plans", body).await
}

fn location(plan: &Value, server: &str) -> String {
    plan["placements"][server]["location"].as_str().unwrap().to_owned()
}

async fn usages(site: &Site) -> Value {
    site.placement().get("/usages?project_id=admin").await.expect(200).json()["usages"].clone()
}

/// The bigger server, placed first, took the only place that the smaller one can have.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_end_is_left_again() {
    let site = Site::new().await;
    let small = [4, 4_000, 1_000];
    site.hosts(&[
        Host { name: "x", size: small, traits: &["CUSTOM_AZ_NARROW", "CUSTOM_AZ_WIDE"] },
        Host { name: "y", size: HOST, traits: &["CUSTOM_AZ_WIDE"] },
    ])
    .await;
    let resources = json!({
        "big": server("big", 4, &json!({"availability_zone": "wide"})),
        "small": server("small", 1, &json!({"availability_zone": "narrow:pinned"})),
    });
    let plan = create(&site.admin(), "s", resources).await.expect(201).json();
    assert_eq!((location(&plan, "big"), location(&plan, "small")), ("y".into(), "x".into()));
}

/// A replan that failed gave back the capacity of the whole stack.
#[tokio::test(flavor = "multi_thread")]
async fn a_replan_that_fails_changes_nothing() {
    let site = Site::new().await;
    site.racks(1, 2, HOST).await;
    let admin = site.admin();
    let resources = json!({
        "a": server("a", 2, &json!({})),
        "b": server("b", 2, &json!({})),
        "g": assignment("diversity", "host", &["a", "b"]),
    });
    let before = create(&admin, "s", resources).await.expect(201).json();
    let (used, placements) = (usages(&site).await, admin.get("/v1/placements").await.json());
    let taken = location(&before, "b");
    admin.post("/v1/placements/b", json!({"locations": [taken]})).await.expect(201);
    let reserved = admin.get("/v1/placements").await.json();
    for locations in [json!([taken]), json!(["nowhere"]), json!([])] {
        let answer = admin.post("/v1/placements/a", json!({"locations": locations})).await;
        let why = answer.explanation(409);
        assert!(why.starts_with("Ostro error: "), "{why}");
        assert_eq!(usages(&site).await, used);
        assert_eq!(admin.get("/v1/placements").await.json(), reserved);
    }
    assert_ne!(placements, reserved);
    site.assert_consistent().await;
}

/// A repeated create made a second plan, and booked twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_one_plan() {
    let site = Site::new().await;
    site.racks(1, 2, HOST).await;
    let admin = site.admin();
    let resources = || json!({"a": server("a", 2, &json!({})), "b": server("b", 2, &json!({}))});
    let first = create(&admin, "s", resources()).await.expect(201).json();
    let used = usages(&site).await;
    let second = create(&admin, "s", resources()).await.expect(201).json();
    assert_eq!(first, second);
    assert_eq!(usages(&site).await, used);
    assert_eq!(admin.get("/v1/plans").await.json(), json!(["s"]));
    let other = create(&admin, "s", json!({"c": server("c", 1, &json!({}))})).await;
    assert!(other.explanation(409).contains("PUT"));
}

/// With every host excluded, a migration succeeded, on the present host.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_has_nowhere_to_go_fails() {
    let site = Site::new().await;
    site.racks(1, 2, HOST).await;
    let admin = site.admin();
    create(&admin, "s", json!({"a": server("a", 2, &json!({}))})).await.expect(201);
    let before = admin.get("/v1/placements").await.json();
    let body = json!({
        "action": "migrate", "resources": ["a"], "excluded_hosts": ["r01h01", "r01h02"],
    });
    let why = admin.put("/v1/plans/s", body).await.explanation(409);
    assert!(why.starts_with("Ostro error: server a fits on none of 2 hosts"), "{why}");
    assert_eq!(admin.get("/v1/placements").await.json(), before);
}

/// A pair that is to be together moved, the server beside it stayed: this was right.
#[tokio::test(flavor = "multi_thread")]
async fn an_affinity_group_migrates_together() {
    let site = Site::new().await;
    site.racks(1, 2, HOST).await;
    let admin = site.admin();
    let resources = json!({
        "a": server("a", 2, &json!({})),
        "b": server("b", 2, &json!({})),
        "c": server("c", 2, &json!({})),
        "g": assignment("affinity", "host", &["a", "b"]),
    });
    let before = create(&admin, "s", resources).await.expect(201).json();
    let body = json!({"action": "migrate", "resources": ["a"]});
    let after = admin.put("/v1/plans/s", body).await.expect(201).json();
    assert_ne!(location(&before, "a"), location(&after, "a"));
    assert_eq!(location(&after, "a"), location(&after, "b"));
    assert_eq!(location(&before, "c"), location(&after, "c"));
}

/// Replanning one of a pair failed when its partner was reserved elsewhere; an unreserved partner moves with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_partner_comes_along_unless_it_is_reserved() {
    let site = Site::new().await;
    site.racks(1, 2, HOST).await;
    let admin = site.admin();
    let resources = json!({
        "a": server("a", 2, &json!({})),
        "b": server("b", 2, &json!({})),
        "g": assignment("affinity", "host", &["a", "b"]),
    });
    let plan = create(&admin, "s", resources).await.expect(201).json();
    let (here, there) = match location(&plan, "a").as_str() {
        "r01h01" => ("r01h01", "r01h02"),
        _ => ("r01h02", "r01h01"),
    };
    admin.post("/v1/placements/a", json!({"locations": [there]})).await.expect(201);
    let plan = admin.get("/v1/plans/s").await.json();
    assert_eq!((location(&plan, "a").as_str(), location(&plan, "b").as_str()), (there, there));
    let why = admin.post("/v1/placements/b", json!({"locations": [here]})).await.explanation(409);
    assert!(why.contains("affinity group g"), "{why}");
}

/// A contradiction ended in "no available hosts".
#[tokio::test(flavor = "multi_thread")]
async fn a_contradiction_is_named() {
    let site = Site::new().await;
    site.racks(2, 2, HOST).await;
    let resources = json!({
        "a": server("a", 2, &json!({})),
        "b": server("b", 2, &json!({})),
        "c": server("c", 2, &json!({})),
        "near": assignment("affinity", "host", &["a", "b"]),
        "far": assignment("diversity", "host", &["a", "b"]),
    });
    let answer = create(&site.admin(), "s", resources).await;
    let why = answer.explanation(409);
    assert!(why.contains("affinity group near") && why.contains("diversity group far"), "{why}");
    let detail = answer.json()["detail"].clone();
    let constraints: Vec<&Value> =
        detail.as_array().unwrap().iter().map(|it| &it["constraint"]).collect();
    assert_eq!(constraints, ["affinity", "diversity", "server"]);
    for demand in detail.as_array().unwrap() {
        assert_eq!(demand["servers"], json!(["a", "b"]), "{demand}");
        assert_eq!(demand["level"], "host");
    }
}

/// The explanation has the counts, and the hosts of unknown racks.
#[tokio::test(flavor = "multi_thread")]
async fn missing_amounts_are_counted() {
    let site = Site::new().await;
    site.racks(2, 1, HOST).await;
    site.hosts(&[Host { name: "lost", size: HOST, traits: &[] }]).await;
    let servers = ["a", "b", "c"].map(|name| (name.to_owned(), server(name, 2, &json!({}))));
    let mut resources: serde_json::Map<String, Value> = servers.into_iter().collect();
    resources.insert("web".to_owned(), assignment("diversity", "rack", &["a", "b", "c"]));
    let answer = create(&site.admin(), "s", Value::Object(resources)).await;
    assert_eq!(
        answer.explanation(409),
        "Ostro error: diversity group web needs 3 racks for a, b, c; they fit in 2 racks: r01, r02; \
         hosts without a known rack: lost"
    );
    let demand = &answer.json()["detail"][0];
    assert_eq!((&demand["needed"], &demand["available"]), (&json!(3), &json!(2)));
    assert_eq!(demand["units"], json!(["r01", "r02"]));
    let big = json!({"a": server("a", 99, &json!({}))});
    let why = create(&site.admin(), "t", big).await.explanation(409);
    assert_eq!(
        why,
        "Ostro error: server a fits on none of 3 hosts: \
         MEMORY_MB is short on 3 (99000 needed, at most 16000 of 16000 free, on lost)"
    );
    let zone = json!({"a": server("a", 1, &json!({"availability_zone": "east"}))});
    let why = create(&site.admin(), "t", zone).await.explanation(409);
    assert_eq!(
        why,
        "Ostro error: server a fits on none of 3 hosts: 3 are not in availability zone east"
    );
}

/// Other resources of templates are accepted, and ignored: pipes crashed the first engine,
/// attachments of volumes made it fail.
#[tokio::test(flavor = "multi_thread")]
async fn other_resources_are_accepted() {
    let site = Site::new().await;
    site.racks(1, 1, HOST).await;
    let resources = json!({
        "a": server("a", 2, &json!({"image": "a", "networks": [{"port": {"get_resource": "port"}}]})),
        "b": server("b", 2, &json!({})),
        "volume": {"Type": "OS::Cinder::Volume", "Properties": {"size": 10}, "name": "disk"},
        "at": {
            "type": "OS::Cinder::VolumeAttachment",
            "properties": {"instance_uuid": "a", "volume_id": "volume"},
        },
        "pipe": {
            "type": "ATT::Valet::Pipe",
            "properties": {"resources": ["a", "b"], "bandwidth": {"min": 10, "units": "Mbps"}},
        },
        "port": {"type": "OS::Neutron::Port", "properties": {"network": "net"}},
        "net": {"type": "OS::Neutron::Net"},
        "g": assignment("affinity", "host", &["a", "disk", "volume"]),
    });
    let plan = create(&site.admin(), "s", resources).await.expect(201).json();
    let placements = plan["placements"].as_object().unwrap();
    assert_eq!(placements.keys().collect::<Vec<_>>(), ["a", "b"]);
}

/// Changes by orchestrators to stacks without groups: every update is accepted, and servers that it does not
/// concern stay where they are.
#[tokio::test(flavor = "multi_thread")]
async fn updates_never_stand_in_the_way() {
    let site = Site::new().await;
    site.racks(2, 2, HOST).await;
    let admin = site.admin();
    let server_of = |name: &str, flavor: &str| json!({"type": "OS::Nova::Server", "name": name, "properties": {"flavor": flavor}});
    let with = |server: &str, key: &str, value: Value| {
        let mut it = server_of(server, "m1.small");
        it["properties"][key] = value;
        it
    };
    let policy = |policy: &str| json!({"type": "OS::Nova::ServerGroup", "properties": {"policies": [policy]}});
    let hint = || json!({"group": {"get_resource": "sg"}});
    let base = || json!({"a": server_of("a", "m1.small"), "b": server_of("b", "m1.small")});
    let and = |more: &[(&str, Value)]| {
        let mut resources = base();
        for (id, it) in more {
            resources[id] = it.clone();
        }
        resources
    };
    let updates = [
        base(),
        and(&[("a", with("a", "user_data", json!("#!/bin/sh")))]),
        and(&[("a", server_of("renamed", "m1.small"))]),
        and(&[("a", server_of("a", "m1.medium"))]),
        and(&[("a", server_of("a", "m1.tiny"))]),
        and(&[("c", server_of("c", "m1.large"))]),
        and(&[("c", server_of("c", "m1.large")), ("d", server_of("d", "m1.large"))]),
        json!({"b": server_of("b", "m1.small")}),
        base(),
        and(&[("sg", policy("affinity")), ("a", with("a", "scheduler_hints", hint()))]),
        and(&[("sg", policy("anti-affinity")), ("a", with("a", "scheduler_hints", hint()))]),
        and(&[("sg", policy("anti-affinity")), ("b", with("b", "scheduler_hints", hint()))]),
        base(),
        and(&[("port", json!({"type": "OS::Neutron::Port", "properties": {"network": "n"}}))]),
        and(&[("net", json!({"type": "OS::Neutron::Net"}))]),
        and(&[("nested", json!({"type": "nested.yaml", "properties": {"count": 2}}))]),
        and(&[("nested", json!({"type": "nested.yaml", "properties": {"count": 3}}))]),
        and(&[("many", json!({"type": "OS::Heat::ResourceGroup", "properties": {"count": 3}}))]),
        and(&[("a", with("a", "metadata", json!({"role": "web"})))]),
        and(&[("a", with("a", "image", json!("other")))]),
        json!({"x": server_of("x", "m1.small"), "y": server_of("y", "m1.small")}),
        json!({}),
        base(),
    ];
    create(&admin, "s", base()).await.expect(201);
    for (nth, resources) in updates.into_iter().enumerate() {
        let before = admin.get("/v1/plans/s").await.expect(200).json();
        let body = json!({
            "action": "update", "plan_name": "s", "resources": resources,
            "original_resources": base(),
        });
        let after = admin.put("/v1/plans/s", body).await.expect(201).json();
        for (id, placement) in before["placements"].as_object().unwrap() {
            let now = &after["placements"][id];
            assert!(
                now.is_null() || now["location"] == placement["location"],
                "update {nth}: {before} {after}"
            );
        }
        assert_eq!(admin.get("/v1/plans/s").await.json(), after, "update {nth}");
        site.assert_consistent().await;
    }
    admin.delete("/v1/plans/s").await.expect(204);
    assert_eq!(usages(&site).await, json!({}));
}

/// A server whose instance is gone hinders no other: it gets another place when it is reserved itself, and not
/// before.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_server_is_no_obstacle() {
    let site = Site::new().await;
    let host = site.racks(1, 1, HOST).await[0];
    let (admin, placement) = (site.admin(), site.placement());
    let resources = json!({"a": server("a", 6, &json!({})), "b": server("b", 2, &json!({}))});
    create(&admin, "s", resources).await.expect(201);
    let instance = uuid::Uuid::new_v4();
    admin.post("/v1/placements/a", json!({"resource_id": instance})).await.expect(201);
    let claim = |vcpu: i64| {
        json!({
            "allocations": {host.to_string(): {"resources": {"VCPU": vcpu}}},
            "project_id": "admin", "user_id": "u", "consumer_generation": null,
            "consumer_type": "INSTANCE",
        })
    };
    placement.put(&format!("/allocations/{instance}"), claim(6)).await.expect(204);
    placement.delete(&format!("/allocations/{instance}")).await.expect(204);
    assert_eq!(admin.get("/v1/placements/a").await.json()["location"], Value::Null);
    let stranger = format!("/allocations/{}", uuid::Uuid::new_v4());
    placement.put(&stranger, claim(12)).await.expect(204);
    let b = admin.post("/v1/placements/b", json!({})).await.expect(201).json();
    assert_eq!(b["location"], "r01h01");
    assert_eq!(admin.get("/v1/placements/a").await.json()["location"], Value::Null);
    admin.delete("/v1/placements/b").await.expect(204);
    admin.post("/v1/placements/a", json!({})).await.expect(409);
    placement.delete(&stranger).await.expect(204);
    let a = admin.post("/v1/placements/a", json!({})).await.expect(201).json();
    assert_eq!(a["location"], "r01h01");
    site.assert_consistent().await;
}

/// An instance that existed before its plan is not counted twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_there_already_takes_its_place() {
    let site = Site::new().await;
    let host = site.racks(1, 1, HOST).await[0];
    let instance = uuid::Uuid::new_v4();
    let body = json!({
        "allocations": {host.to_string(): {"resources": {"VCPU": 2, "MEMORY_MB": 2000, "DISK_GB": 20}}},
        "project_id": "admin", "user_id": "u", "consumer_generation": null,
        "consumer_type": "INSTANCE",
    });
    site.placement().put(&format!("/allocations/{instance}"), body).await.expect(204);
    let mut known = server("a", 2, &json!({}));
    known["resource_id"] = json!(instance);
    create(&site.admin(), "s", json!({"a": known})).await.expect(201);
    let used = usages(&site).await;
    assert_eq!(used["INSTANCE"]["VCPU"], 2);
    assert_eq!(used.get("VALET_PLAN"), None, "{used}");
    let view = site.admin().get("/v1/placements/a").await.json();
    assert_eq!(view["location"], "r01h01");
    assert_eq!(view["resource_id"], json!(instance));
    site.assert_consistent().await;
}

/// Operations other than plans have no dry run.
#[tokio::test(flavor = "multi_thread")]
async fn only_plans_are_tried_out() {
    let site = Site::new().await;
    site.racks(1, 1, HOST).await;
    let admin = site.admin();
    create(&admin, "s", json!({"a": server("a", 2, &json!({}))})).await.expect(201);
    admin.delete("/v1/plans/s?dry_run=true").await.expect(400);
    admin.delete("/v1/placements/a?dry_run=true").await.expect(400);
    admin.post("/v1/placements/a?dry_run=true", json!({})).await.expect(400);
    admin.delete("/v1/plans/s?dry_run=false").await.expect(204);
}
