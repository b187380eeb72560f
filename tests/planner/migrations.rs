//! Migrations: a server has to leave its host, and those go along that must be with it.

use serde_json::{Value, json};

use crate::site::{Asker, Site};
use crate::stack::{
    Usages, arrive_of, create, finish, group, host, placement, placements, reserve, server, show,
    usages, vcpus,
};

/// Four hosts of 4 `VCPU`, `r01h01`, ...
async fn four_hosts() -> (Site, Usages) {
    let site = Site::new().await;
    site.racks(1, 4, [4, 1, 1]).await;
    let before = usages(&site).await;
    (site, before)
}

fn migration(server: &str, excluded: &[&str]) -> Value {
    json!({
        "action": "migrate",
        "plan_name": "stack",
        "resources": [server],
        "excluded_hosts": excluded,
        "timeout": "60 sec",
    })
}

async fn migrate(admin: &Asker, server: &str, excluded: &[&str]) -> Value {
    admin.put("/v1/plans/stack", migration(server, excluded)).await.expect(201).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn r46_migrate_a_server_to_another_host() {
    let (site, before) = four_hosts().await;
    let admin = site.admin();
    let made = create(&admin, "stack", json!({"a": server("a", 3), "b": server("b", 3)})).await;
    let body = json!({"resource_id": "r1", "locations": [host(&made, "a")]});
    admin.post("/v1/placements/a", body).await.expect(201);
    reserve(&admin, "b", &[&host(&made, "b")]).await;
    // By the id of its instance, or else by that of the orchestrator.
    let mut home = host(&made, "a");
    for key in ["r1", "a"] {
        let moved = migrate(&admin, key, &[]).await;
        assert_eq!(show(&admin, "stack").await, moved);
        assert_ne!(host(&moved, "a"), home);
        assert_eq!(moved["placements"]["b"], made["placements"]["b"]);
        home = host(&moved, "a");
        assert_eq!(placement(&admin, "a").await["reserved"], json!(false));
        assert_eq!(placement(&admin, "b").await["reserved"], json!(true));
        assert_eq!(vcpus(&site).await, [(home.clone(), 3), (host(&made, "b"), 3)].into());
    }
    finish(&site, &before).await;
}

/// Several servers of a plan move in one request: each leaves its host, and the rules between them hold. Either all
/// move or none.
#[tokio::test(flavor = "multi_thread")]
async fn several_servers_migrate_at_once() {
    let (site, before) = four_hosts().await;
    let admin = site.admin();
    let apart = group("diversity", "host", &["a", "b"]);
    let resources =
        json!({"a": server("a", 3), "b": server("b", 3), "c": server("c", 1), "g": apart});
    let made = create(&admin, "stack", resources).await;
    let (a, b) = (host(&made, "a"), host(&made, "b"));
    let mut body = migration("a", &[&a, &b]);
    body["resources"] = json!(["a", "b", "a"]);
    let moved = admin.put("/v1/plans/stack", body.clone()).await.expect(201).json();
    let (new_a, new_b) = (host(&moved, "a"), host(&moved, "b"));
    assert!(![&a, &b].contains(&&new_a) && ![&a, &b].contains(&&new_b), "{moved}");
    assert_ne!(new_a, new_b);
    assert_eq!(moved["placements"]["c"], made["placements"]["c"]);
    // With two hosts left for it, one of them is its own.
    body["resources"] = json!(["a", "b"]);
    body["excluded_hosts"] = json!([a, b, new_a]);
    admin.put("/v1/plans/stack", body.clone()).await.expect(409);
    assert_eq!(show(&admin, "stack").await, moved);
    body["resources"] = json!(["a", "nobody"]);
    let why = admin.put("/v1/plans/stack", body).await.explanation(400);
    assert!(why.contains("Unknown resource or orchestration id: nobody"), "{why}");
    assert_eq!(show(&admin, "stack").await, moved);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r46_those_who_must_be_together_go_along() {
    let (site, before) = four_hosts().await;
    let admin = site.admin();
    let resources = json!({
        "a": server("a", 1), "b": server("b", 1), "c": server("c", 1), "d": server("d", 1),
        "g": group("affinity", "host", &["a", "b"]),
        "h": group("affinity", "host", &["b", "c"]),
    });
    let made = create(&admin, "stack", resources).await;
    for id in ["a", "b", "c", "d"] {
        reserve(&admin, id, &[&host(&made, id)]).await;
    }
    let moved = migrate(&admin, "a", &[]).await;
    assert_ne!(host(&moved, "a"), host(&made, "a"));
    for mate in ["b", "c"] {
        assert_eq!(host(&moved, mate), host(&moved, "a"));
        assert_eq!(placement(&admin, mate).await["reserved"], json!(false));
    }
    assert_eq!(moved["placements"]["d"], made["placements"]["d"]);
    assert_eq!(placement(&admin, "d").await["reserved"], json!(true));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r47_a_server_migrates_to_none_of_the_excluded_hosts() {
    let (site, before) = four_hosts().await;
    let admin = site.admin();
    let resources = json!({
        "a": server("a", 1), "b": server("b", 1), "c": server("c", 4),
        "g": group("affinity", "host", &["a", "b"]),
    });
    let made = create(&admin, "stack", resources).await;
    reserve(&admin, "a", &[&host(&made, "a")]).await;
    let taken = [host(&made, "a"), host(&made, "c")];
    let all = ["r01h01", "r01h02", "r01h03", "r01h04"];
    let free: Vec<&str> = all.into_iter().filter(|it| !taken.contains(&(*it).to_owned())).collect();
    // With every host excluded, or all those with room, nothing happens.
    let as_it_was = (placements(&admin).await, usages(&site).await);
    for excluded in [&all[..], &free[..]] {
        let answer = admin.put("/v1/plans/stack", migration("a", excluded)).await;
        let why = answer.explanation(409);
        assert!(why.starts_with("Ostro error: "), "{why}");
        assert_eq!((placements(&admin).await, usages(&site).await), as_it_was);
    }
    let moved = migrate(&admin, "a", &free[..1]).await;
    assert_eq!((host(&moved, "a").as_str(), host(&moved, "b").as_str()), (free[1], free[1]));
    assert_eq!(host(&moved, "c"), taken[1]);
    // A host that there is not does not matter.
    let moved = migrate(&admin, "b", &["elsewhere"]).await;
    assert_ne!(host(&moved, "b"), free[1]);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r46_an_instance_that_migrates_has_a_hold_where_it_goes() {
    let site = Site::new().await;
    let providers = site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let admin = site.admin();
    let made = create(&admin, "stack", json!({"a": server("a", 3)})).await;
    let instance = uuid::Uuid::new_v4();
    let home = host(&made, "a");
    let body = json!({"resource_id": instance, "locations": [home]});
    admin.post("/v1/placements/a", body.clone()).await.expect(201);
    let there = usize::from(home == "r01h02");
    arrive_of(&site, "admin", instance, providers[there], 3).await;
    let moved = migrate(&admin, &instance.to_string(), &[]).await;
    let away = host(&moved, "a");
    assert_ne!(away, home);
    // The allocations of the instance stay until it has moved.
    assert_eq!(vcpus(&site).await, [(home.clone(), 3), (away.clone(), 3)].into());
    assert_eq!(placement(&admin, "a").await["reserved"], json!(false));
    let body = json!({"resource_id": instance, "locations": [away]});
    admin.post("/v1/placements/a", body).await.expect(201);
    // Nova leaves the old host to a consumer of its own, and gives it back when all is done.
    let migration = uuid::Uuid::new_v4();
    let held = site.placement().get(&format!("/allocations/{instance}")).await.expect(200).json();
    let mut old = crate::stack::claim_of("admin", providers[there], 3);
    let mut new = crate::stack::claim_of("admin", providers[1 - there], 3);
    new["consumer_generation"] = held["consumer_generation"].clone();
    old["consumer_type"] = json!("MIGRATION");
    let both = json!({migration.to_string(): old, instance.to_string(): new});
    site.placement().post("/allocations", both).await.expect(204);
    assert_eq!(vcpus(&site).await, [(home, 3), (away.clone(), 3)].into());
    site.placement().delete(&format!("/allocations/{migration}")).await.expect(204);
    assert_eq!(vcpus(&site).await, [(away.clone(), 3)].into());
    assert_eq!(placement(&admin, "a").await["location"], json!(away));
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    finish(&site, &before).await;
}
