//! Scenarios of the clients and test suites of the first implementation, one after the other.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{
    bare, create, finish, flavored, group, host, hosts, named, placement, plan, server, show,
    store_group, stored, usages, with,
};

const PROJECT: &str = "b7d0e9b175294b649464caa3411adb3f";

#[tokio::test(flavor = "multi_thread")]
async fn rest_groups_of_its_suite() {
    let site = Site::new().await;
    let admin = site.admin();
    let mut ids = Vec::new();
    for nth in 0..3 {
        let body = json!({"name": format!("g{nth}"), "description": "d", "type": "exclusivity",
                          "level": "host"});
        let group = admin.post("/v1/groups", body.clone()).await.expect(201).json();
        for key in ["name", "description", "type"] {
            assert_eq!(group[key], body[key]);
        }
        ids.push(group["id"].as_str().unwrap().to_owned());
    }
    let list = admin.get("/v1/groups").await.expect(200).json();
    let listed = list["groups"].as_array().unwrap();
    assert!(ids.iter().all(|id| listed.iter().any(|group| group["id"] == **id)));
    let path = format!("/v1/groups/{}", ids[0]);
    assert_eq!(admin.get(&path).await.expect(200).json()["group"]["members"], json!([]));
    let updated = admin.put(&path, json!({"description": "new"})).await.expect(201).json();
    assert_eq!(updated["description"], "new");
    let members = format!("{path}/members");
    let four: Vec<String> = (0..4).map(|_| Uuid::new_v4().simple().to_string()).collect();
    for more in [&four[..1], &four[..]] {
        let group = admin.put(&members, json!({"members": more})).await.expect(201).json();
        assert_eq!(group["members"], json!(more));
        assert_eq!(group["id"], json!(ids[0]));
    }
    admin.get(&format!("{members}/{}", four[3])).await.expect(204);
    admin.delete(&format!("{members}/{}", four[3])).await.expect(204);
    admin.get(&format!("{members}/{}", four[3])).await.explanation(404);
    admin.delete(&members).await.expect(204);
    admin.delete(&path).await.expect(204);
    admin.get(&path).await.explanation(404);
    let left = admin.get("/v1/groups").await.expect(200).json();
    assert_eq!(left["groups"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn rest_a_plan_of_its_suite() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 8192, 80]).await;
    let before = usages(&site).await;
    let admin = site.admin();
    let stack = Uuid::new_v4().to_string();
    let instance = Uuid::new_v4().to_string();
    let resource = with(flavored("instance", "m1.tiny"), "image", json!("cirros"));
    let body = json!({"plan_name": stack, "stack_id": stack, "timeout": "60 sec",
                      "resources": {instance.as_str(): resource}});
    let made = admin.post("/v1/plans/", body).await.expect(201).json();
    assert_eq!((&made["stack_id"], &made["name"]), (&json!(stack), &json!(stack)));
    let home = host(&made, &instance);
    let body = json!({"plan_name": stack, "action": "migrate", "resources": [instance],
                      "excluded_hosts": [home], "timeout": "60 sec"});
    let path = format!("/v1/plans/{}", made["id"].as_str().unwrap());
    let moved = admin.put(&path, body).await.expect(201).json();
    assert_eq!(moved["id"], made["id"]);
    assert_ne!(host(&moved, &instance), home);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rest_plans_from_none_to_many() {
    let site = Site::new().await;
    site.racks(1, 1, [99, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let names = async || tenant.get("/v1/plans").await.expect(200).json();
    assert_eq!(names().await, json!([]));
    let mut made = Vec::new();
    for nth in 0..20 {
        let stack = Uuid::new_v4().to_string();
        let empty = create(&tenant, &stack, json!({})).await;
        let expected = json!({"id": empty["id"], "name": stack, "stack_id": stack,
                              "placements": {}});
        assert_eq!(show(&tenant, &stack).await, expected);
        made.push(stack);
        assert_eq!(names().await, json!(made), "{nth}");
    }
    let missing = Uuid::new_v4();
    tenant.get(&format!("/v1/plans/{missing}")).await.explanation(404);
    let two = create(&tenant, "two", json!({"a": server("x", 1), "b": server("y", 1)})).await;
    let expected = json!({"a": {"name": "x", "location": "r01h01"},
                          "b": {"name": "y", "location": "r01h01"}});
    assert_eq!(bare(&two)["placements"], expected);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rest_groups_by_assignment_and_by_metadata() {
    let site = Site::new().await;
    site.racks(1, 3, [4, 1, 1]).await;
    let before = usages(&site).await;
    for kind in ["affinity", "diversity", "exclusivity"] {
        store_group(&site, kind, kind, "host", &[PROJECT]).await;
        let path = format!("/v1/groups/{kind}");
        let id = site.admin().get(&path).await.expect(200).json()["group"]["id"].clone();
        let marked = json!({"valet": {"groups": [id]}});
        let marked = |name| with(server(name, 1), "metadata", marked.clone());
        let two = |assignment| json!({"a": server("a", 1), "b": server("b", 1), "g": assignment});
        for resources in [
            two(stored(kind, &["a", "b"])),
            two(named(kind, kind, &["a", "b"])),
            json!({"a": marked("a"), "b": marked("b")}),
        ] {
            let made = create(&site.tenant(PROJECT), "stack", resources.clone()).await;
            let same = host(&made, "a") == host(&made, "b");
            assert_eq!(same, kind != "diversity", "{kind}: {made}");
            let another = site.tenant("q").post("/v1/plans", plan("other", resources)).await;
            let why = another.explanation(409);
            assert!(why.contains(&format!("not a member of {kind} group")), "{why}");
            finish(&site, &before).await;
        }
    }
}

/// Sixteen servers with volumes of their own on hosts of their own, in two rings over all racks, and
/// pipes between them.
#[tokio::test(flavor = "multi_thread")]
async fn rest_a_large_plan_with_volumes_and_pipes() {
    let site = Site::new().await;
    site.racks(8, 3, [4, 8192, 80]).await;
    let before = usages(&site).await;
    let admin = site.admin();
    let mut resources = Map::new();
    let mut rings: [Vec<String>; 2] = Default::default();
    for nth in 0..16 {
        let (name, volume) = (format!("ceph{nth}"), format!("volume{nth}"));
        let pair = format!("pair{nth}");
        resources.insert(name.clone(), flavored(&name, "m1.small"));
        let disk = json!({"type": "OS::Cinder::Volume", "name": volume, "properties": {"size": 9}});
        resources.insert(volume.clone(), disk);
        let attached = json!({"instance_uuid": name, "volume_id": volume});
        let attached = json!({"type": "OS::Cinder::VolumeAttachment", "properties": attached});
        resources.insert(format!("attachment{nth}"), attached);
        let together = group("affinity", "host", &[&name, &volume]);
        resources.insert(pair.clone(), together);
        rings[nth % 2].push(pair);
    }
    for (nth, ring) in rings.iter().enumerate() {
        let pairs: Vec<&str> = ring.iter().map(String::as_str).collect();
        resources.insert(format!("ring{nth}"), group("diversity", "rack", &pairs));
    }
    for nth in 0..97 {
        let ends = [format!("ceph{}", nth % 16), format!("ceph{}", (nth * 7 + 1) % 16)];
        let pipe = json!({"type": "ATT::CloudQoS::Pipe", "properties": {
            "resources": ends, "bandwidth": {"min": 100, "units": "Mbps"}}});
        resources.insert(format!("pipe{nth}"), pipe);
    }
    let made = create(&admin, "ceph", Value::Object(resources.clone())).await;
    let there = hosts(&made);
    assert_eq!(there.len(), 16);
    for ring in 0..2 {
        let racks = (0..16).filter(|nth| nth % 2 == ring);
        let racks: std::collections::BTreeSet<&str> =
            racks.map(|nth| &there[&format!("ceph{nth}")][..3]).collect();
        assert_eq!(racks.len(), 8, "{there:?}");
    }
    // One has to leave its host, but not its rack, as all others are taken by its ring.
    let body = json!({"action": "migrate", "plan_name": "ceph", "resources": ["ceph3"],
                      "excluded_hosts": []});
    let moved = hosts(&admin.put("/v1/plans/ceph", body).await.expect(201).json());
    assert_ne!(moved["ceph3"], there["ceph3"]);
    assert_eq!(moved["ceph3"][..3], there["ceph3"][..3]);
    // One more, of no ring; no server moves for it.
    resources.insert("more".to_owned(), flavored("more", "m1.medium"));
    let body = json!({"action": "update", "plan_name": "ceph", "resources": resources});
    let mut updated = hosts(&admin.put("/v1/plans/ceph", body).await.expect(201).json());
    assert!(updated.remove("more").is_some());
    assert_eq!(updated, moved);
    finish(&site, &before).await;
}

/// A stack as the orchestrator's and the scheduler's plugins live through it.
#[tokio::test(flavor = "multi_thread")]
async fn rest_a_stack_from_its_beginning_to_its_end() {
    let site = Site::new().await;
    let providers = site.racks(2, 2, [8, 16_384, 160]).await;
    let before = usages(&site).await;
    let tenant = site.tenant(PROJECT);
    let stack = Uuid::new_v4().to_string();
    let (one, two) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let path = format!("/v1/plans/{stack}");
    let hints = |name: &str| json!({"heat_stack_id": stack, "heat_resource_name": name});
    let resource = |name: &str| {
        let mut it = with(flavored(name, "m1.small"), "image", json!("cirros"));
        it["metadata"] = hints(name);
        it
    };
    let resources = json!({
        one.as_str(): resource("one"), two.as_str(): resource("two"),
        "apart": group("diversity", "rack", &["one", "two"]),
    });
    // An update of a stack that is not known is a 404, upon which it is made.
    let body = json!({"action": "update", "original_resources": {}, "resources": resources});
    tenant.put(&path, body.clone()).await.explanation(404);
    let made = create(&tenant, &stack, resources.clone()).await;
    assert_ne!(host(&made, &one)[..3], host(&made, &two)[..3]);
    assert_eq!(tenant.put(&path, body).await.expect(201).json(), made);
    // Each server is built: the scheduler finds its placement and reserves it with the remaining hosts.
    let all = ["r01h01", "r01h02", "r02h01", "r02h02"];
    let mut instances = Vec::new();
    for (id, name) in [(&one, "one"), (&two, "two")] {
        let query = format!("heat_stack_id={stack}&heat_resource_name={name}");
        let found = tenant.get(&format!("/v1/placements?{query}")).await.expect(200).json();
        assert_eq!(found.as_array().unwrap().len(), 1);
        let instance = Uuid::new_v4();
        let body = json!({"action": "reserve", "resource_id": instance, "locations": all});
        let key = found[0]["id"].as_str().unwrap();
        let reserved = tenant.post(&format!("/v1/placements/{key}"), body).await.expect(201);
        let there = reserved.json()["location"].as_str().unwrap().to_owned();
        assert_eq!(there, host(&made, id));
        let nth = all.iter().position(|host| *host == there).unwrap();
        let mut claim = crate::stack::claim_of(PROJECT, providers[nth], 1);
        let resources = json!({"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20});
        claim["allocations"][providers[nth].to_string()]["resources"] = resources;
        site.placement().put(&format!("/allocations/{instance}"), claim).await.expect(204);
        instances.push(instance);
    }
    let booked = usages(&site).await;
    assert_eq!(booked.values().map(|it| it["VCPU"].as_i64().unwrap()).sum::<i64>(), 2);
    // An update adds one, and no other server moves.
    let mut more = resources;
    more["three"] = resource("three");
    let body = json!({"action": "update", "original_resources": {}, "resources": more});
    let updated = tenant.put(&path, body).await.expect(201).json();
    for id in [&one, &two] {
        assert_eq!(updated["placements"][id], made["placements"][id]);
        assert_eq!(placement(&tenant, id).await["reserved"], true);
    }
    // The orchestrator gives the plan up before its servers.
    tenant.delete(&path).await.expect(204);
    tenant.delete(&path).await.explanation(404);
    assert_eq!(usages(&site).await, booked);
    for instance in instances {
        site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    }
    finish(&site, &before).await;
}

/// It checks its responses, and takes away what it made.
#[tokio::test(flavor = "multi_thread")]
async fn the_walk_through_of_the_guide_succeeds() {
    let site = Site::new().await;
    for _ in 0..2 {
        let walk = site.walk_through().await;
        let words = String::from_utf8_lossy(&walk.stdout);
        assert!(walk.status.success() && words.contains("The walk is complete."), "{words}");
    }
    site.assert_empty().await;
}
