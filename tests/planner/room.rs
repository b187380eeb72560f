//! Allocation and release of capacity: the largest that fit, few hosts, holds that expire.

use berth::store::maintenance;
use berth::store::replicas::Heartbeat;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::requests::{self, PROJECT, claim_on};
use crate::site::{Host, Site};
use crate::stack::{create, group, host, server, usages};

#[tokio::test(flavor = "multi_thread")]
async fn r59_the_former_names_of_types_and_properties() {
    let site = Site::new().await;
    site.racks(2, 1, [8, 1, 1]).await;
    for kind in ["ATT::CloudQoS::ResourceGroup", "ATT::QoS::ResourceGroup"] {
        let properties =
            json!({"relationship": "diversity", "level": "rack", "resources": ["a", "b"]});
        let resources = json!({
            "a": server("a", 1), "b": server("b", 1),
            "g": {"type": kind, "properties": properties},
        });
        let made = create(&site.admin(), "s", resources).await;
        assert_ne!(host(&made, "a"), host(&made, "b"));
        site.admin().delete("/v1/plans/s").await.expect(204);
    }
    // Where a group has a name, it is that of a stored one.
    let properties = json!({"relationship": "exclusivity", "name": "x", "resources": ["a"]});
    let resources = json!({
        "a": server("a", 1), "g": {"type": "ATT::QoS::ResourceGroup", "properties": properties},
    });
    let body = json!({"plan_name": "s", "stack_id": "s", "resources": resources});
    let why = site.admin().post("/v1/plans", body).await.explanation(409);
    assert_eq!(why, "Valet error: Exclusivity group 'x' not found");
}

/// No server is larger than its host, however much the host is overcommitted.
#[tokio::test(flavor = "multi_thread")]
async fn r73_no_server_is_larger_than_its_host() {
    let site = Site::new().await;
    let id = site.hosts(&[Host { name: "h", size: [4, 1, 1], traits: &[] }]).await[0];
    let inventory = json!({"VCPU": {"total": 4, "max_unit": 4, "allocation_ratio": 16.0}});
    let body = json!({"resource_provider_generation": 1, "inventories": inventory});
    let path = format!("/resource_providers/{id}/inventories");
    site.placement().put(&path, body).await.expect(200);
    let body = |vcpu| {
        let resources = json!({"a": server("a", vcpu), "b": server("b", vcpu)});
        json!({"plan_name": "s", "stack_id": "s", "resources": resources})
    };
    site.admin().post("/v1/plans", body(5)).await.expect(409);
    site.admin().post("/v1/plans", body(4)).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn r80_holds_expire() {
    let site = Site::new().await;
    site.racks(1, 2, [8, 1, 1]).await;
    let admin = site.admin();
    let servers = || json!({"a": server("a", 1), "b": server("b", 1)});
    let made =
        admin.post("/v1/plans", json!({"plan_name": "s", "stack_id": "s", "resources": servers()}));
    let made = made.await.expect(201);
    let quality: Value = serde_json::from_str(made.header("berth-plan")).unwrap();
    assert_eq!(quality["hold_seconds"], json!(86_400));
    admin.post("/v1/placements/b", json!({})).await.expect(201);
    let expire = |ttl| site.app().store.expire_holds(ttl);
    assert!(expire(3600).await.unwrap().is_empty());
    let of = |server: &str| format!("/v1/placements/{server}");
    let a = admin.get(&of("a")).await.json();
    let expired: Vec<String> = expire(0).await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(json!(expired), json!([a["id"]]));
    assert!(expire(0).await.unwrap().is_empty());
    // It can be seen, what is reserved stays, and nothing else is held.
    assert_eq!(admin.get(&of("a")).await.json()["location"], Value::Null);
    assert_eq!(admin.get(&of("b")).await.json()["location"], "r01h01");
    let counts = admin.get("/v1/status").await.json()["status"]["ostro"]["resources"].clone();
    assert_eq!(counts, json!({"plans": 1, "placements": 2, "expired_holds": 1}));
    assert_eq!(usages(&site).await["r01h01"]["VCPU"], 1);
    // A repeated request gets a place again.
    let made = create(&admin, "s", servers()).await;
    assert_eq!(host(&made, "a"), "r01h01");
    let counts = admin.get("/v1/status").await.json()["status"]["ostro"]["resources"].clone();
    assert_eq!(counts["expired_holds"], 0);
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_do_not_expire_during_a_maintenance() {
    let site = Site::new().await;
    site.racks(1, 1, [8, 1, 1]).await;
    create(&site.admin(), "s", json!({"a": server("a", 1)})).await;
    let store = site.app().store.clone();
    let heartbeat = Heartbeat {
        id: Uuid::new_v4(),
        name: "here".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        version: "0".to_owned(),
        readiness: "ready".to_owned(),
        refresh_ms: 0,
        connections: 0,
    };
    let mut conn = PgConnection::connect_with(&site.database).await.unwrap();
    maintenance::begin(&mut conn, "the rack moves").await.unwrap();
    store.report(&heartbeat).await.unwrap();
    assert!(store.expire_holds(0).await.unwrap().is_empty());
    maintenance::end(&mut conn).await.unwrap();
    store.report(&heartbeat).await.unwrap();
    assert_eq!(store.expire_holds(0).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn r80_a_hold_expires_whose_instance_does_not_arrive() {
    let site = Site::new().await;
    let hosts = site.racks(1, 1, [8, 8192, 1000]).await;
    let admin = site.admin_of(PROJECT);
    create(&admin, "s", json!({"a": requests::server(8)})).await;
    let (instance, stranger) = (Uuid::new_v4(), Uuid::new_v4());
    let placement = site.placement_of("a").await;
    admin.post("/v1/placements/a", json!({"resource_id": instance})).await.expect(201);
    let expire = |ttl| site.app().store.expire_holds(ttl);
    assert!(expire(3600).await.unwrap().is_empty());
    assert_eq!(json!(expire(0).await.unwrap()), json!([placement["id"]]));
    assert!(expire(0).await.unwrap().is_empty());
    // Another server has the room by now: the refusal is explained with the end of the hold.
    site.claims(stranger, claim_on(hosts[0], 8)).await.expect(204);
    site.claims(instance, claim_on(hosts[0], 8)).await.expect(409);
    let path = format!("/-/v1/explain?consumer={instance}");
    let explained = site.placement().post(&path, claim_on(hosts[0], 8)).await.expect(200).json();
    let ended = &explained["ended_holds"][0];
    assert_eq!((&ended["placement"], &ended["consumer"]), (&placement["id"], &json!(instance)));
    assert_eq!(explained["ended_holds"].as_array().unwrap().len(), 1);
    // It may still arrive.
    site.placement().delete(&format!("/allocations/{stranger}")).await.expect(204);
    site.claims(instance, claim_on(hosts[0], 8)).await.expect(204);
    assert_eq!(site.placement_of("a").await["location"], "r01h01");
    let counts = admin.get("/v1/status").await.json()["status"]["ostro"]["resources"].clone();
    assert_eq!(counts["expired_holds"], 0);
    site.assert_consistent().await;
}

/// Hosts that are in use come first, and of those the one with the least room; `spread` turns it
/// round.
#[tokio::test(flavor = "multi_thread")]
async fn r83_few_hosts_and_the_best_fit() {
    let site = Site::new().await;
    let with = |vcpu| [vcpu, 1, 1];
    site.hosts(&[
        Host { name: "empty", size: with(4), traits: &[] },
        Host { name: "large", size: with(16), traits: &[] },
        Host { name: "small", size: with(8), traits: &[] },
    ])
    .await;
    let admin = site.admin();
    for (stack, place) in [("used-1", "large"), ("used-2", "small")] {
        let mut server = server("u", 1);
        server["locations"] = json!([place]);
        create(&admin, stack, json!({"u": server})).await;
    }
    let three = || json!({"a": server("a", 2), "b": server("b", 2), "c": server("c", 2)});
    let made = create(&admin, "packed", three()).await;
    for server in ["a", "b", "c"] {
        assert_eq!(host(&made, server), "small");
    }
    let more = create(&admin, "more", json!({"d": server("d", 2)})).await;
    assert_eq!(host(&more, "d"), "large", "the small one is full, and the empty one stays empty");
    let mut resources = three();
    resources["g"] = group("diversity", "host", &["a", "b"]);
    admin.delete("/v1/plans/packed").await.expect(204);
    let body = json!({
        "plan_name": "s", "stack_id": "s", "resources": resources, "spread": true,
    });
    let spread = admin.post("/v1/plans", body).await.expect(201).json();
    let mut hosts = ["a", "b", "c"].map(|server| host(&spread, server));
    hosts.sort_unstable();
    assert_eq!(hosts, ["empty", "large", "small"]);
}

/// The root document needs neither a token nor a database.
#[tokio::test(flavor = "multi_thread")]
async fn r87_health_of_the_service() {
    let site = Site::new().await;
    site.stranger().get("/").await.expect(200);
    site.tenant("p").ask("HEAD", "/v1/status", None).await.expect(204);
    site.execute("alter table plans rename to elsewhere").await;
    site.tenant("p").ask("HEAD", "/v1/status", None).await.expect(500);
    site.stranger().get("/").await.expect(200);
}
