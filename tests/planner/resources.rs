//! Properties of resources and their effects: all spellings there ever were, zones, traits, room, and ignored
//! properties.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Host, Site};
use crate::stack::{
    create, finish, flavored, group, host, hosts, plan, server, show, usages, vcpus, with,
};

/// Replaces the inventories of a provider.
async fn inventories(site: &Site, provider: Uuid, inventories: Value) {
    let path = format!("/resource_providers/{provider}/inventories");
    let mut body = site.placement().get(&path).await.expect(200).json();
    body["inventories"] = inventories;
    site.placement().put(&path, body).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn r53_keys_in_capitals() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let amounts = json!({"resources": {"VCPU": 1}});
    let members = json!({"group_type": "diversity", "level": "host", "resources": ["x", "y"]});
    let resources = json!({
        "a": {"Type": "OS::Nova::Server", "Properties": amounts, "name": "x"},
        "b": {"TYPE": "OS::Nova::Server", "PROPERTIES": amounts, "Name": "y"},
        "g": {"Type": "ATT::Valet::GroupAssignment", "Properties": members},
    });
    let made = create(&tenant, "stack", resources).await;
    assert_eq!(made["placements"]["b"]["name"], "y");
    assert_ne!(host(&made, "a"), host(&made, "b"));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r54_groups_name_their_members_by_name_or_id() {
    let site = Site::new().await;
    site.racks(1, 3, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let id = "b71bedad-dd57-4942-a7bd-ab074b72d652";
    let dashless = id.replace('-', "").to_uppercase();
    for (nth, members) in [
        json!([id, "b"]),
        json!(["x", "y"]),
        json!([dashless, "y"]),
        json!([{"get_resource": "x"}, {"get_resource": "b"}]),
        json!(["x", "b", "y", "volume"]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut apart = group("diversity", "host", &[]);
        apart["properties"]["resources"] = members;
        let resources = json!({
            id: server("x", 1), "b": server("y", 1), "g": apart,
            "v": {"type": "OS::Cinder::Volume", "name": "volume", "properties": {"size": 1}},
        });
        let made = create(&tenant, &format!("stack{nth}"), resources).await;
        assert_ne!(host(&made, id), host(&made, "b"), "{nth}");
        finish(&site, &before).await;
    }
    // Only references count: an image may have the name of a server.
    let image = with(server("x", 1), "image", json!("y"));
    create(&tenant, "stack", json!({"a": image, "b": server("y", 1)})).await;
    let unknown = json!({"a": server("x", 1), "g": group("affinity", "host", &["a", "z"])});
    let why = tenant.post("/v1/plans", plan("other", unknown)).await.explanation(400);
    assert_eq!(why, "Valet error: resource 'g': invalid resource = z");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r69_availability_zones() {
    let site = Site::new().await;
    let host_in = |name, traits| Host { name, size: [4, 1, 1], traits };
    site.hosts(&[
        host_in("h1", &["CUSTOM_AZ_NOVA"]),
        host_in("h2", &["CUSTOM_AZ_EAST_1", "CUSTOM_AZ_NOVA"]),
        host_in("h3", &[]),
    ])
    .await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    for (zone, size, there) in [
        ("nova", 4, &["h1", "h2"][..]),
        ("east-1", 1, &["h2"]),
        ("East.1", 1, &["h2"]),
        // A host that an orchestrator would pin is the planner's to decide.
        ("nova:h3", 4, &["h1", "h2"]),
        ("", 4, &["h1", "h2", "h3"]),
    ] {
        let resource = with(server("a", size), "availability_zone", json!(zone));
        let made = create(&tenant, "stack", json!({"a": resource})).await;
        assert!(there.contains(&host(&made, "a").as_str()), "{zone}: {made}");
        finish(&site, &before).await;
    }
    let lost = json!({"a": with(server("a", 1), "availability_zone", json!("mars"))});
    let why = tenant.post("/v1/plans", plan("stack", lost)).await.explanation(409);
    assert!(why.starts_with("Ostro error: "), "{why}");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r70_traits_that_are_required_and_forbidden() {
    let site = Site::new().await;
    let host_with = |name, traits| Host { name, size: [4, 1, 1], traits };
    site.hosts(&[host_with("h1", &["CUSTOM_FAST", "HW_CPU_X86_AVX"]), host_with("h2", &[])]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    for (property, traits, there) in [
        ("required", json!(["CUSTOM_FAST"]), "h1"),
        ("required", json!(["HW_CPU_X86_AVX", "CUSTOM_FAST"]), "h1"),
        ("forbidden", json!(["CUSTOM_FAST"]), "h2"),
    ] {
        let resources = json!({"a": with(server("a", 1), property, traits)});
        assert_eq!(host(&create(&tenant, "stack", resources).await, "a"), there);
        finish(&site, &before).await;
    }
    let missing = json!({"a": with(server("a", 1), "required", json!(["HW_CPU_X86_AVX2"]))});
    tenant.post("/v1/plans", plan("stack", missing)).await.explanation(409);
    let unknown = json!({"a": with(server("a", 1), "required", json!(["CUSTOM_NO"]))});
    tenant.post("/v1/plans", plan("stack", unknown)).await.explanation(400);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r71_r73_room_is_what_the_inventory_says() {
    let site = Site::new().await;
    let provider = site.racks(1, 1, [1, 1, 1]).await[0];
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    for (vcpu, size, count, fits) in [
        (json!({"total": 4, "allocation_ratio": 2.0}), 2, 4, true),
        (json!({"total": 4, "allocation_ratio": 2.0}), 3, 3, false),
        (json!({"total": 4, "reserved": 1}), 1, 3, true),
        (json!({"total": 4, "reserved": 1}), 1, 4, false),
        // No server is larger than the host is.
        (json!({"total": 4, "allocation_ratio": 16.0, "max_unit": 4}), 4, 16, true),
        (json!({"total": 4, "allocation_ratio": 16.0, "max_unit": 4}), 5, 1, false),
        (json!({"total": 9, "min_unit": 2}), 1, 1, false),
        (json!({"total": 9, "step_size": 3}), 3, 3, true),
        (json!({"total": 9, "step_size": 3}), 4, 1, false),
    ] {
        inventories(&site, provider, json!({"VCPU": vcpu})).await;
        let servers = (0..count).map(|nth| (format!("s{nth}"), server("a", size)));
        let resources: serde_json::Map<String, Value> = servers.collect();
        let answer = tenant.post("/v1/plans", plan("stack", json!(resources))).await;
        if fits {
            assert_eq!(hosts(&answer.expect(201).json()).len(), count, "{vcpu}");
            let used = usize::try_from(vcpus(&site).await["r01h01"]).unwrap();
            assert_eq!(used, count * usize::try_from(size).unwrap());
            tenant.delete("/v1/plans/stack").await.expect(204);
        } else {
            answer.explanation(409);
        }
    }
    inventories(
        &site,
        provider,
        json!({"VCPU": {"total": 1}, "MEMORY_MB": {"total": 1},
                                        "DISK_GB": {"total": 1}}),
    )
    .await;
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r74_volumes_and_all_else_are_accepted_and_mean_nothing() {
    let site = Site::new().await;
    site.racks(1, 1, [4, 4096, 40]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let resources = json!({
        "a": flavored("a", "m1.small"),
        "v": {"type": "OS::Cinder::Volume", "name": "volume",
              "properties": {"size": 9999, "metadata": {"tier": "ceph"}}},
        "at": {"type": "OS::Cinder::VolumeAttachment", "name": "attachment",
               "properties": {"instance_uuid": "a", "volume_id": "volume"}},
        "pipe": {"type": "ATT::CloudQoS::Pipe", "properties": {
            "resources": ["a", "at"], "bandwidth": {"min": 1, "max": 2, "units": "Gbps"}}},
        "net": {"type": "OS::Neutron::Net"},
        "port": {"type": "OS::Neutron::Port", "properties": null, "DependsOn": "net"},
        "odd": {"type": "Some::Thing", "properties": {"flavor": 1, "resources": "x"}},
        "g": group("affinity", "host", &["a", "volume", "port"]),
    });
    let made = create(&tenant, "stack", resources).await;
    assert_eq!(hosts(&made).keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(show(&tenant, "stack").await, made);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r82_all_servers_are_placed_at_once() {
    let site = Site::new().await;
    // The only host for the small server has one slot, which the large one finds inviting, too.
    let host_with = |name, size, traits| Host { name, size, traits };
    site.hosts(&[
        host_with("h1", [2, 1, 1], &["CUSTOM_SPECIAL"]),
        host_with("h2", [3, 1, 1], &[]),
        host_with("h3", [9, 1, 1], &[]),
    ])
    .await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let special = with(server("a", 1), "required", json!(["CUSTOM_SPECIAL"]));
    let resources = json!({
        "large": server("large", 2), "small": special, "larger": server("larger", 3),
        "largest": server("largest", 9),
    });
    tenant.post("/v1/plans", plan("stack", resources.clone())).await.explanation(409);
    let mut fewer = resources;
    fewer["largest"] = server("largest", 7);
    let made = create(&tenant, "stack", fewer).await;
    let expected = [("large", "h3"), ("larger", "h2"), ("largest", "h3"), ("small", "h1")];
    let expected = expected.map(|(server, host)| (server.to_owned(), host.to_owned()));
    assert_eq!(hosts(&made), expected.into());
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_may_be_tried_without_anything_being_booked() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let resources = json!({"a": server("a", 3), "b": server("b", 3)});
    let path = "/v1/plans?dry_run=true";
    let tried = tenant.post(path, plan("stack", resources.clone())).await.expect(200);
    assert!(!tried.header("berth-plan").is_empty());
    assert_eq!(hosts(&tried.json()).len(), 2);
    assert_eq!(tenant.get("/v1/plans").await.expect(200).json(), json!([]));
    assert_eq!(usages(&site).await, before);
    let large = plan("stack", json!({"a": server("a", 5)}));
    tenant.post(path, large).await.explanation(409);
    let made = create(&tenant, "stack", resources.clone()).await;
    let booked = usages(&site).await;
    assert_eq!(tenant.post(path, plan("stack", resources)).await.expect(200).json(), made);
    let body = json!({"action": "update", "plan_name": "other", "resources": {
        "a": server("a", 3), "c": server("c", 2),
    }});
    let path = "/v1/plans/stack?dry_run=1";
    let tried = tenant.put(path, body).await.expect(200).json();
    assert_eq!(hosts(&tried).keys().collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!((show(&tenant, "stack").await, usages(&site).await), (made, booked));
    tenant.put("/v1/plans/stack?dry_run=perhaps", json!({})).await.explanation(400);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_packed_or_spread() {
    let site = Site::new().await;
    site.racks(1, 4, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let resources = json!({
        "a": server("a", 1), "b": server("b", 1), "c": server("c", 1), "d": server("d", 1),
    });
    for (spread, count) in [(json!(false), 1), (json!(true), 4)] {
        let mut body = plan("stack", resources.clone());
        body["spread"] = spread;
        let answer = tenant.post("/v1/plans", body).await.expect(201);
        assert_eq!(vcpus(&site).await.len(), count);
        let quality: Value = serde_json::from_str(answer.header("berth-plan")).unwrap();
        assert_eq!((&quality["optimal"], &quality["cost"]), (&json!(true), &quality["bound"]));
        assert!(quality["cost"]["room"].is_u64(), "{quality}");
        finish(&site, &before).await;
    }
}
