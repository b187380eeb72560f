//! Volumes of a stack, on storage backends.

use serde_json::{Value, json};

use crate::site::{Asker, Host, Site};
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

fn ignored(answer: &crate::site::SiteResponse) -> Value {
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
    assert_eq!(ignored(&answer).as_array().unwrap().len(), 1, "the attachment");
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
