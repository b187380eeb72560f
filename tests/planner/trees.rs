//! Hosts that are trees, and hosts that share: servers are put there as allocation candidates would
//! have it.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{create, host, named, plan, server, store_group, with};

/// Creates a provider, with or without a parent, with inventories and traits.
pub async fn provider(
    site: &Site,
    name: &str,
    parent: Option<Uuid>,
    inventories: Value,
    traits: &[&str],
) -> Uuid {
    let (placement, id) = (site.placement(), Uuid::new_v4());
    let mut body = json!({"name": name, "uuid": id});
    if let Some(parent) = parent {
        body["parent_provider_uuid"] = json!(parent);
    }
    placement.post("/resource_providers", body).await.expect(200);
    let body = json!({"resource_provider_generation": 0, "inventories": inventories});
    placement.put(&format!("/resource_providers/{id}/inventories"), body).await.expect(200);
    if !traits.is_empty() {
        let body = json!({"resource_provider_generation": 1, "traits": traits});
        placement.put(&format!("/resource_providers/{id}/traits"), body).await.expect(200);
    }
    id
}

/// Puts a provider into an aggregate.
pub async fn join(site: &Site, id: Uuid, aggregate: Uuid) {
    let path = format!("/resource_providers/{id}");
    let generation = site.placement().get(&path).await.json()["generation"].clone();
    let body = json!({"aggregates": [aggregate], "resource_provider_generation": generation});
    site.placement().put(&format!("{path}/aggregates"), body).await.expect(200);
}

/// Returns the use of a class of a provider.
pub async fn used(site: &Site, id: Uuid, class: &str) -> i64 {
    let usages = site.placement().get(&format!("/resource_providers/{id}/usages")).await;
    usages.expect(200).json()["usages"][class].as_i64().unwrap_or(0)
}

/// Processors of one server come from one node, however much the nodes have together.
#[tokio::test(flavor = "multi_thread")]
async fn servers_are_packed_into_the_nodes_of_a_host() {
    let site = Site::new().await;
    let memory = json!({"MEMORY_MB": {"total": 64}});
    let root = provider(&site, "host", None, memory, &[]).await;
    let cpus = || json!({"VCPU": {"total": 4}});
    let one = provider(&site, "host-node-1", Some(root), cpus(), &[]).await;
    let two = provider(&site, "host-node-2", Some(root), cpus(), &["HW_CPU_X86_AVX2"]).await;
    let admin = site.admin();
    // The one that fits both nodes leaves the node to the one that fits one only.
    let mut picky = server("b", 3);
    picky["properties"]["required"] = json!(["HW_CPU_X86_AVX2"]);
    let made = create(&admin, "s", json!({"a": server("a", 3), "b": picky})).await;
    assert_eq!((host(&made, "a").as_str(), host(&made, "b").as_str()), ("host", "host"));
    assert_eq!((used(&site, one, "VCPU").await, used(&site, two, "VCPU").await), (3, 3));
    // Two are free altogether, and no node has both.
    let answer = admin.post("/v1/plans", plan("t", json!({"c": server("c", 2)}))).await;
    assert!(answer.explanation(409).starts_with("Ostro error: server c fits on none of 1 host"));
    create(&admin, "t", json!({"c": server("c", 1), "d": server("d", 1)})).await;
    site.assert_consistent().await;
}

/// Creates a host with one provider of processors for each of some amounts, and devices of one unit.
async fn host_of_devices(site: &Site, name: &str, cpus: &[i64], devices: usize) -> Uuid {
    let root = provider(site, name, None, json!({"MEMORY_MB": {"total": 1024}}), &[]).await;
    for (nth, total) in cpus.iter().enumerate() {
        let node = format!("{name}-node-{nth}");
        provider(site, &node, Some(root), json!({"VCPU": {"total": total}}), &[]).await;
    }
    for nth in 0..devices {
        let device = format!("{name}-device-{nth}");
        provider(site, &device, Some(root), json!({"CUSTOM_PCI": {"total": 1}}), &[]).await;
    }
    root
}

fn with_devices(name: &str, needs: Value) -> Value {
    with(server(name, 1), "resources", needs)
}

/// However many ways there are to choose devices, none of them is overlooked.
#[tokio::test(flavor = "multi_thread")]
async fn devices_are_counted_and_not_enumerated() {
    let site = Site::new().await;
    site.placement().put("/resource_classes/CUSTOM_PCI", Value::Null).await;
    host_of_devices(&site, "host", &[8, 8], 16).await;
    let admin = site.admin();
    let both = || json!({"VCPU": 8, "CUSTOM_PCI": 1});
    let pair = json!({"a": with_devices("a", both()), "b": with_devices("b", both())});
    create(&admin, "pair", pair).await;
    let one: Value = (0..15)
        .map(|nth| (format!("s{nth}"), with_devices("s", json!({"CUSTOM_PCI": 1}))))
        .collect();
    let answer = admin.post("/v1/plans", plan("more", one.clone())).await;
    assert!(answer.explanation(409).starts_with("Ostro error: "), "{}", answer.text());
    admin.delete("/v1/plans/pair").await.expect(204);
    create(&admin, "more", one).await;
    site.assert_consistent().await;
}

/// Seventeen of 24 single devices are found, and a 25th is refused and not given up on.
#[tokio::test(flavor = "multi_thread")]
async fn as_many_servers_as_devices_fit_and_no_more() {
    let site = Site::new().await;
    site.placement().put("/resource_classes/CUSTOM_PCI", Value::Null).await;
    host_of_devices(&site, "host", &[], 24).await;
    let admin = site.admin();
    let servers = |count: usize| -> Value {
        let server = |nth| (format!("s{nth}"), with_devices("s", json!({"CUSTOM_PCI": 1})));
        (0..count).map(server).collect()
    };
    create(&admin, "seventeen", servers(17)).await;
    admin.post("/v1/plans", plan("eight", servers(8))).await.expect(409);
    admin.delete("/v1/plans/seventeen").await.expect(204);
    admin.post("/v1/plans", plan("all", servers(25))).await.expect(409);
    create(&admin, "all", servers(24)).await;
    site.assert_consistent().await;
}

/// NUMA nodes of different sizes: what fits is a matter of which server goes to which node.
#[tokio::test(flavor = "multi_thread")]
async fn servers_of_several_sizes_are_packed_into_nodes_of_several_sizes() {
    let site = Site::new().await;
    host_of_devices(&site, "host", &[10, 10, 10, 7, 5], 0).await;
    let admin = site.admin();
    let servers = |sizes: &[i64]| -> Value {
        let server = |(nth, vcpu): (usize, &i64)| (format!("s{nth}"), server("s", *vcpu));
        sizes.iter().enumerate().map(server).collect()
    };
    // 42 in all, in exactly one way: 6 + 4, 6 + 4, 7 + 3, 5 + 2, 3 + 2.
    let all = servers(&[6, 6, 7, 5, 4, 4, 3, 3, 2, 2]);
    create(&admin, "all", all).await;
    admin.delete("/v1/plans/all").await.expect(204);
    let too_many = servers(&[6, 6, 6, 6, 4, 4, 4, 3, 3]);
    admin.post("/v1/plans", plan("many", too_many)).await.expect(409);
    site.assert_consistent().await;
}

/// Hosts that share a disk have it together, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_share_what_they_draw_on() {
    let site = Site::new().await;
    let aggregate = Uuid::new_v4();
    let disk = json!({"DISK_GB": {"total": 30}});
    let sharing = ["MISC_SHARES_VIA_AGGREGATE"];
    let storage = provider(&site, "storage", None, disk, &sharing).await;
    join(&site, storage, aggregate).await;
    for name in ["x", "y"] {
        let id = provider(&site, name, None, json!({"VCPU": {"total": 8}}), &[]).await;
        join(&site, id, aggregate).await;
    }
    let sized = |name: &str| {
        let mut it = server(name, 1);
        it["properties"]["resources"] = json!({"VCPU": 1, "DISK_GB": 10});
        it
    };
    let servers = |names: &[&str]| -> Value {
        names.iter().map(|name| ((*name).to_owned(), sized(name))).collect()
    };
    let admin = site.admin();
    let answer = admin.post("/v1/plans", plan("s", servers(&["a", "b", "c", "d"]))).await;
    assert!(answer.explanation(409).contains("do not fit together"), "{}", answer.text());
    let made = create(&admin, "s", servers(&["a", "b", "c"])).await;
    assert!(["x", "y"].contains(&host(&made, "a").as_str()), "storage is no host: {made}");
    assert_eq!(used(&site, storage, "DISK_GB").await, 30);
    site.assert_consistent().await;
}

/// The operator's switch: strangers are admitted, and the hosts stay among the candidates.
#[tokio::test(flavor = "multi_thread")]
async fn r68_strangers_are_only_reported_if_that_is_wanted() {
    let site = Site::reporting().await;
    let ids = site.racks(1, 1, [8, 1, 1]).await;
    let project = "5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901";
    store_group(&site, "own", "exclusivity", "host", &[project]).await;
    let resources = json!({"a": server("a", 1), "g": named("exclusivity", "own", &["a"])});
    create(&site.admin_of(project), "s", resources).await;
    let placement = site.placement();
    let candidates = placement.get("/allocation_candidates?resources=VCPU:1").await.json();
    assert_eq!(candidates["allocation_requests"].as_array().unwrap().len(), 1);
    let claim = json!({
        "allocations": {ids[0].to_string(): {"resources": {"VCPU": 1}}},
        "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE",
    });
    placement.put(&format!("/allocations/{}", Uuid::new_v4()), claim).await.expect(204);
    // Plans keep to the units of groups all the same.
    let other = plan("t", json!({"b": server("b", 1)}));
    site.admin().post("/v1/plans", other).await.expect(409);
}
