//! Volumes of a stack, on storage backends.

use berth::http::app::{Options, PlannerSettings};
use berth::model::{Goal, PlacementPolicy};
use serde_json::{Value, json};

use crate::site::{Asker, Host, Site, SiteResponse};
use crate::stack::{
    Usages, create, finish, group, host, hosts, plan, server, show, store_group, stored, usages,
    with,
};

const STORAGE: &str = "CUSTOM_STORAGE_BACKEND";

fn volume(name: &str, size: i64) -> Value {
    json!({"type": "OS::Cinder::Volume", "name": name, "properties": {"size": size}})
}

/// Two racks, each with a host without much disk and a storage backend; the second is of type gold.
async fn site() -> (Site, Usages) {
    let site = Site::new().await;
    let amounts = |vcpu, disk| [vcpu, 99, disk];
    site.hosts(&[
        Host { name: "h1", size: amounts(8, 5), traits: &["CUSTOM_RACK_R1"] },
        Host { name: "h2", size: amounts(8, 5), traits: &["CUSTOM_RACK_R2"] },
        Host { name: "c@lvm#1", size: amounts(1, 100), traits: &["CUSTOM_RACK_R1", STORAGE] },
        Host {
            name: "c@lvm#2",
            size: amounts(1, 100),
            traits: &["CUSTOM_RACK_R2", STORAGE, "CUSTOM_VOLUME_TYPE_GOLD_1"],
        },
    ])
    .await;
    let before = usages(&site).await;
    (site, before)
}

fn ignored(answer: &SiteResponse) -> Value {
    serde_json::from_str(answer.header("berth-ignored")).unwrap_or_default()
}

async fn refused(asker: &Asker, resources: Value) -> String {
    asker.post("/v1/plans", plan("refused", resources)).await.explanation(409)
}

/// A server that boots from a volume holds no root disk on its host, as in Nova.
#[tokio::test(flavor = "multi_thread")]
async fn a_root_disk_on_a_volume_is_not_on_the_host() {
    let (site, before) = site().await;
    let flavor = [
        "set",
        "big",
        "--vcpus",
        "2",
        "--ram",
        "1",
        "--disk",
        "20",
        "--ephemeral",
        "2",
        "--swap",
        "512",
    ];
    site.command("flavor", &flavor).await.unwrap();
    let of = |devices: Value| {
        let properties = json!({"flavor": "big", "block_device_mapping_v2": devices});
        json!({"a": {"type": "OS::Nova::Server", "properties": properties}})
    };
    let tenant = site.tenant("p");
    refused(&tenant, of(json!([{"boot_index": -1, "volume_id": "v"}]))).await;
    let api = json!([{"boot_index": 0, "source_type": "image", "destination_type": "volume"}]);
    for devices in [api, json!([{"image": "i", "volume_size": 20}])] {
        let response = tenant.post("/v1/plans", plan("s", of(devices))).await.expect(201);
        assert_eq!(ignored(&response), json!(null));
        let held: i64 = usages(&site).await.values().filter_map(|it| it["DISK_GB"].as_i64()).sum();
        assert_eq!(held, 3, "ephemeral disk and swap");
        let why = tenant.post("/v1/plans", plan("s", of(json!([])))).await.explanation(409);
        assert!(why.contains("of flavor 'big' with its root disk on a volume in plan"), "{why}");
        tenant.delete("/v1/plans/s").await.expect(204);
    }
    let wrong = tenant.post("/v1/plans", plan("s", of(json!(["v"])))).await.explanation(400);
    assert!(
        wrong.contains("'a': block_device_mapping_v2: not an array of dictionaries"),
        "{wrong}"
    );
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r74_volumes_get_places_on_storage_backends() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    let gold = with(volume("gold", 10), "volume_type", json!("gold.1"));
    let resources = json!({
        "a": server("a", 2), "disk": volume("disk", 60), "more": volume("more", 60), "gold": gold,
        "at": {"type": "OS::Cinder::VolumeAttachment",
               "properties": {"instance_uuid": "a", "volume_id": "disk"}},
    });
    let answer = tenant.post("/v1/plans", plan("s", resources.clone())).await.expect(201);
    let made = answer.json();
    assert_eq!(ignored(&answer), json!(null), "backends without a reach serve all servers");
    assert_eq!(host(&made, "gold"), "c@lvm#2");
    assert_ne!(host(&made, "disk"), host(&made, "more"));
    for id in ["disk", "more"] {
        assert!(host(&made, id).starts_with("c@lvm#"), "{made}");
    }
    assert!(host(&made, "a").starts_with('h'), "{made}");
    let used: i64 = usages(&site).await.values().filter_map(|used| used["DISK_GB"].as_i64()).sum();
    assert_eq!(used, 130);
    // The same request is the same plan, and one with another size is not.
    assert_eq!(create(&tenant, "s", resources.clone()).await, made);
    let mut other = resources;
    other["disk"] = volume("disk", 61);
    let why = tenant.post("/v1/plans", plan("s", other)).await.explanation(409);
    assert!(why.contains("'disk'"), "{why}");
    // A volume is found, reserved and deleted as a placement.
    let path = "/v1/placements/disk";
    let at = tenant.get(path).await.expect(200).json()["location"].clone();
    let body = json!({"locations": [at], "resource_id": "7a1"});
    assert_eq!(tenant.post(path, body).await.expect(201).json()["location"], at);
    tenant.delete("/v1/placements/more").await.expect(204);
    // A volume that grows may have to move; here it is alone on its backend.
    let resources = json!({"a": server("a", 2), "disk": volume("disk", 90)});
    let update = json!({"action": "update", "resources": resources});
    let updated = tenant.put("/v1/plans/s", update).await.expect(201).json();
    assert_eq!(updated["placements"].as_object().unwrap().len(), 2);
    let why = refused(&tenant, json!({"v": volume("v", 101)})).await;
    assert!(why.starts_with("Ostro error: "), "{why}");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r74_groups_bind_servers_and_volumes() {
    let (site, before) = site().await;
    store_group(&site, "near", "affinity", "rack", &[]).await;
    let tenant = site.tenant("p");
    let resources = json!({
        "a": server("a", 2), "b": server("b", 2),
        "va": volume("va", 10), "vb": volume("vb", 10),
        "one": group("affinity", "rack", &["a", "va"]),
        "two": group("affinity", "rack", &["b", "vb"]),
        "apart": group("diversity", "rack", &["one", "two"]),
    });
    let made = create(&tenant, "s", resources).await;
    let rack = |id: &str| host(&made, id).chars().last().unwrap();
    assert_eq!((rack("a"), rack("b")), (rack("va"), rack("vb")));
    assert_ne!(rack("a"), rack("b"));
    // A stored group holds between plans, and for a volume that names it in its metadata.
    let near = json!({"valet": {"groups": ["near"]}});
    let first = json!({"v": with(volume("v", 1), "metadata", near)});
    let first = create(&tenant, "t", first).await;
    let second = json!({"a": server("a", 2), "g": stored("near", &["a"])});
    let second = create(&tenant, "u", second).await;
    assert_eq!(host(&first, "v").chars().last(), host(&second, "a").chars().last());
    let hard = json!({"a": server("a", 1), "v": volume("v", 1),
                      "g": group("affinity", "host", &["a", "v"])});
    // A server of one CPU fits on a backend of this site, and two do not.
    create(&tenant, "w", hard).await;
    let hard = json!({"a": server("a", 2), "v": volume("v", 1),
                      "g": group("affinity", "host", &["a", "v"])});
    refused(&tenant, hard).await;
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r74_locations_of_a_plan_are_for_its_servers() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    let mut body = plan("s", json!({"a": server("a", 2), "v": volume("v", 1)}));
    body["locations"] = json!(["h2"]);
    let made = tenant.post("/v1/plans", body.clone()).await.expect(201).json();
    assert_eq!(host(&made, "a"), "h2");
    assert!(host(&made, "v").starts_with("c@lvm#"));
    assert_eq!(tenant.post("/v1/plans", body.clone()).await.expect(201).json(), made);
    body["locations"] = json!(["h1"]);
    let moved = tenant.post("/v1/plans", body).await.expect(201).json();
    assert_eq!((host(&moved, "a"), host(&moved, "v")), ("h1".to_owned(), host(&made, "v")));
    let mut own = volume("v", 1);
    own["locations"] = json!(["c@lvm#2"]);
    let made = create(&tenant, "t", json!({"v": own})).await;
    assert_eq!(host(&made, "v"), "c@lvm#2");
    let why = tenant
        .post(
            "/v1/plans",
            plan("u", json!({"v": with(volume("v", 1), "volume_type", json!("tin"))})),
        )
        .await
        .explanation(400);
    assert!(why.contains("CUSTOM_VOLUME_TYPE_TIN"), "{why}");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r74_without_storage_volumes_are_ignored() {
    let site = Site::new().await;
    site.racks(1, 1, [8, 99, 99]).await;
    let tenant = site.tenant("p");
    let resources = json!({"a": server("a", 1), "v": volume("v", 10),
                           "g": group("affinity", "host", &["a", "v"])});
    let answer = tenant.post("/v1/plans", plan("s", resources.clone())).await.expect(201);
    assert_eq!(ignored(&answer)[0]["resource"], "v");
    let made = answer.json();
    assert_eq!(hosts(&made).len(), 1);
    // Storage comes later: the plan stays as it is until it is updated.
    site.hosts(&[Host { name: "store", size: [1, 1, 50], traits: &[STORAGE] }]).await;
    let answer = tenant.post("/v1/plans", plan("s", resources)).await.expect(201);
    assert_eq!(answer.json(), made);
    assert_eq!(ignored(&answer)[0]["resource"], "v");
    let resources = json!({"a": server("a", 1), "v": volume("v", 10),
                           "odd": {"type": "OS::Cinder::Volume", "properties": {"size": "big"}}});
    let update = json!({"action": "update", "resources": resources});
    let answer = tenant.put("/v1/plans/s", update).await.expect(201);
    assert_eq!(host(&answer.json(), "v"), "store");
    let why = ignored(&answer)[0]["why"].as_str().unwrap().to_owned();
    assert_eq!(why, "its size is not an integer number of GiB");
    assert_eq!(host(&show(&tenant, "s").await, "v"), "store");
}

fn quality(answer: &SiteResponse) -> Value {
    serde_json::from_str(answer.header("berth-plan")).unwrap()
}

/// Two equal hosts, and storage backends of 100, 100 and 900 GB.
async fn pools(goal: Goal) -> Site {
    let volume_policy = PlacementPolicy::of_hosts(goal);
    let planner = PlannerSettings { volume_policy, ..PlannerSettings::default() };
    let site = Site::with(Options { planner, ..Options::default() }).await;
    let host = |name| Host { name, size: [8, 99, 5], traits: &["CUSTOM_RACK_R1"] };
    let pool = |name, disk| Host { name, size: [1, 1, disk], traits: &["CUSTOM_RACK_R1", STORAGE] };
    site.hosts(&[host("h1"), host("h2"), pool("p1", 100), pool("p2", 100), pool("p3", 900)]).await;
    site
}

/// The policy of a plan is for its servers. Storage backends have one of their own, and are not counted among hosts.
#[tokio::test(flavor = "multi_thread")]
async fn volumes_have_a_policy_of_their_own() {
    let mut resources = json!({"a": server("a", 2), "b": server("b", 2)});
    for name in ["v1", "v2", "v3", "v4"] {
        resources[name] = volume(name, 10);
    }
    for (goal, expected) in
        [(Goal::Spread, [0, 1, 1, 2]), (Goal::Balance, [0, 0, 0, 4]), (Goal::Pack, [0, 0, 4, 0])]
    {
        let site = pools(goal).await;
        let tenant = site.tenant("p");
        let answer = tenant.post("/v1/plans", plan("s", resources.clone())).await.expect(201);
        let made = answer.json();
        let mut of_pool = [0; 4];
        for name in ["v1", "v2", "v3", "v4"] {
            let pool = host(&made, name).strip_prefix('p').unwrap().parse::<usize>().unwrap();
            of_pool[pool] += 1;
        }
        // Of the two small pools, either may be chosen.
        of_pool[1..3].sort_unstable();
        assert_eq!(of_pool, expected, "{goal:?}");
        let quality = quality(&answer);
        assert_eq!(quality["cost"]["new_hosts"], 1, "{quality}");
        assert_eq!((&quality["optimal"], &quality["stopped"]), (&json!(true), &json!("proven")));
        // The same stack over hosts as evenly as possible, its volumes as before.
        let mut spread = plan("t", resources.clone());
        spread["policy"] = json!("spread");
        let answer = tenant.post("/v1/plans", spread).await.expect(201);
        assert_ne!(host(&answer.json(), "a"), host(&answer.json(), "b"));
        assert_eq!(self::quality(&answer)["cost"]["servers_per_host"], json!([[1, 2]]));
    }
}

/// A server goes where its rule with a volume has room, although its policy prefers another host.
#[tokio::test(flavor = "multi_thread")]
async fn servers_make_way_for_their_volumes() {
    let (site, _) = site().await;
    let tenant = site.tenant("p");
    create(
        &tenant,
        "first",
        json!({"x": with(server("x", 2), "required", json!(["CUSTOM_RACK_R1"]))}),
    )
    .await;
    let near = |gold: Value| json!({"a": server("a", 2), "v": gold, "g": group("affinity", "rack", &["a", "v"])});
    let gold = with(volume("v", 10), "volume_type", json!("gold.1"));
    let answer = tenant.post("/v1/plans", plan("s", near(gold))).await.expect(201);
    let made = answer.json();
    assert_eq!((host(&made, "a"), host(&made, "v")), ("h2".to_owned(), "c@lvm#2".to_owned()));
    let quality = quality(&answer);
    assert_eq!(
        (&quality["cost"]["new_hosts"], &quality["bound"]["new_hosts"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(quality["stopped"], "no_improvement");
    let made = create(&tenant, "t", near(volume("v", 10))).await;
    assert_eq!(host(&made, "a"), "h1");
}

/// Backends that serve servers of their own rack only.
#[tokio::test(flavor = "multi_thread")]
async fn attached_volumes_are_within_reach_of_their_servers() {
    let site = Site::new().await;
    let reach = "CUSTOM_STORAGE_REACH_RACK";
    site.hosts(&[
        Host { name: "h1", size: [8, 99, 5], traits: &["CUSTOM_RACK_R1"] },
        Host { name: "h2", size: [8, 99, 5], traits: &["CUSTOM_RACK_R2"] },
        Host { name: "p1", size: [1, 1, 50], traits: &["CUSTOM_RACK_R1", STORAGE, reach] },
        Host { name: "p2", size: [1, 1, 100], traits: &["CUSTOM_RACK_R2", STORAGE, reach] },
    ])
    .await;
    let tenant = site.tenant("p");
    let attachment = |server: &str, volume: Value| {
        json!({"type": "OS::Cinder::VolumeAttachment",
               "properties": {"instance_uuid": {"get_resource": server}, "volume_id": volume}})
    };
    let mut pinned = server("a", 2);
    pinned["locations"] = json!(["h1"]);
    let of = |size: i64| json!({"a": pinned, "v": volume("v", size), "at": attachment("a", json!({"get_resource": "v"}))});
    let answer = tenant.post("/v1/plans", plan("s", of(20))).await.expect(201);
    assert_eq!(ignored(&answer), json!(null));
    assert_eq!(host(&answer.json(), "v"), "p1", "p2 has more room");
    let why = refused(&tenant, of(60)).await;
    assert!(why.contains("affinity group attachments of a"), "{why}");
    // Without an attachment, any backend will do.
    let free = json!({"a": pinned, "v": volume("v", 60)});
    assert_eq!(host(&create(&tenant, "free", free).await, "v"), "p2");
    for stack in ["s", "free"] {
        tenant.delete(&format!("/v1/plans/{stack}")).await.expect(204);
    }
    // The block devices of a server attach volumes, too, in Heat's form and in Nova's.
    for (name, device) in [
        ("heat", json!({"volume_id": {"get_resource": "v"}, "boot_index": -1})),
        ("nova", json!({"source_type": "volume", "uuid": "v", "boot_index": -1})),
    ] {
        let mut booted = pinned.clone();
        booted["properties"]["block_device_mapping_v2"] = json!([device]);
        let made = create(&tenant, name, json!({"a": booted, "v": volume("v", 5)})).await;
        assert_eq!(host(&made, "v"), "p1", "{name}");
        tenant.delete(&format!("/v1/plans/{name}")).await.expect(204);
    }
    // An attachment of anything else binds nothing.
    let outside = json!({"a": pinned, "at": attachment("a", json!("5dd0"))});
    let answer = tenant.post("/v1/plans", plan("outside", outside)).await.expect(201);
    let why = "instance_uuid and volume_id are not a server and a volume of the request";
    assert_eq!(ignored(&answer)[0]["why"], why);
    // The same request is the same plan.
    let made = create(&tenant, "s", of(20)).await;
    assert_eq!(create(&tenant, "s", of(20)).await, made);
}
