//! Reservations: a place is taken for good, on one of the hosts that are left, and if need be another
//! is found.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Asker, Site};
use crate::stack::{
    Usages, create, finish, group, having, host, placement, placements, reserve, server, show,
    usages, vcpus,
};

/// Three hosts of 4 `VCPU`, `r01h01` to `r01h03`.
async fn three_hosts() -> (Site, Usages) {
    let site = Site::new().await;
    site.racks(1, 3, [4, 1, 1]).await;
    let before = usages(&site).await;
    (site, before)
}

/// The hosts that these are not.
fn others<'h>(taken: &[&str]) -> Vec<&'h str> {
    let all = ["r01h01", "r01h02", "r01h03"].into_iter();
    all.filter(|host| !taken.contains(host)).collect()
}

/// The state that a failed reservation leaves unchanged.
async fn all(site: &Site, asker: &Asker) -> (Value, Value, Usages) {
    (placements(asker).await, show(asker, "stack").await, usages(site).await)
}

async fn refused(asker: &Asker, id: &str, body: Value, status: u16) -> String {
    asker.post(&format!("/v1/placements/{id}"), body).await.explanation(status)
}

#[tokio::test(flavor = "multi_thread")]
async fn r33_reserve_the_planned_host() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "stack", json!({"a": server("a", 3), "b": server("b", 3)})).await;
    let booked = usages(&site).await;
    let mut expected = placement(&tenant, "a").await;
    expected["reserved"] = json!(true);
    let home = host(&made, "a");
    let list = ["qos101", "r01h01", "r01h02", "r01h03"];
    // By the id of the orchestrator or by its own, and as often as one likes.
    for key in ["a", expected["id"].as_str().unwrap()] {
        assert_eq!(reserve(&tenant, key, &list).await, expected);
        assert_eq!(reserve(&tenant, key, &[&home]).await, expected);
        let path = format!("/v1/placements/{key}/");
        for body in [json!({}), json!({"action": "reserve"}), json!({"resource_id": null})] {
            assert_eq!(tenant.post(&path, body).await.expect(201).json(), expected);
        }
    }
    assert_eq!(placement(&tenant, "a").await, expected);
    assert_eq!(placement(&tenant, "b").await["reserved"], Value::Null);
    assert_eq!((show(&tenant, "stack").await, usages(&site).await), (made, booked));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r33_what_a_reservation_must_not_say() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    create(&tenant, "stack", json!({"a": server("a", 3)})).await;
    let as_it_was = all(&site, &tenant).await;
    let why = refused(&tenant, "a", json!({"action": "grab"}), 400).await;
    assert_eq!(why, "Invalid action: grab. Must be one of (reserve, replan)");
    for bad in [
        json!({"locations": "r01h01,r01h02,r01h03"}),
        json!({"locations": {"r01h01": 1}}),
        json!({"locations": ["r01h01", 1]}),
        json!({"locations": [null]}),
        json!({"locations": null}),
        json!({"locations": ["x".repeat(256)]}),
        json!({"action": 1}),
        json!({"action": null}),
        json!({"resource_id": 1}),
        json!({"resource_id": ["r"]}),
        json!({"resource_id": "x".repeat(256)}),
        json!({"resource_id": "a\u{0}"}),
        json!({"other": 1}),
    ] {
        refused(&tenant, "a", bad, 400).await;
    }
    let why = refused(&tenant, "a", json!({"locations": []}), 409).await;
    assert!(why.starts_with("Ostro error: "), "{why}");
    let why = refused(&tenant, "no", json!({"locations": ["r01h01"]}), 404).await;
    assert_eq!(why, "Placement not found");
    assert_eq!(all(&site, &tenant).await, as_it_was);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r34_another_host_is_found_if_the_planned_one_is_not_among_the_locations() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "stack", json!({"a": server("a", 3), "b": server("b", 3)})).await;
    let (home, other) = (host(&made, "a"), host(&made, "b"));
    let free = others(&[&home, &other])[0];
    let reserved = reserve(&tenant, "a", &[free]).await;
    assert_eq!((&reserved["location"], &reserved["reserved"]), (&json!(free), &json!(true)));
    // A server without need to move stays.
    assert_eq!(host(&show(&tenant, "stack").await, "b"), other);
    assert_eq!(vcpus(&site).await, [(free.to_owned(), 3), (other, 3)].into());
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r34_who_is_not_reserved_gives_way_to_who_is() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "stack", json!({"a": server("a", 3), "b": server("b", 3)})).await;
    let (home, other) = (host(&made, "a"), host(&made, "b"));
    let reserved = reserve(&tenant, "a", &[&other]).await;
    assert_eq!(reserved["location"], json!(other));
    let moved = placement(&tenant, "b").await;
    assert!(moved["location"].is_string() && moved["location"] != json!(other), "{moved}");
    // It was never reserved, so there is nothing to be taken back.
    assert_eq!(moved["reserved"], Value::Null);
    assert_eq!(vcpus(&site).await.values().sum::<i64>(), 6);
    // Now it is reserved and stays, whatever the other requests.
    let there = moved["location"].as_str().unwrap();
    reserve(&tenant, "b", &[there]).await;
    let as_it_was = all(&site, &tenant).await;
    let why = refused(&tenant, "a", json!({"locations": [there]}), 409).await;
    assert!(why.starts_with("Ostro error: "), "{why}");
    assert_eq!(all(&site, &tenant).await, as_it_was);
    // A reserved server finds another place if it has to.
    let third = others(&[&other, there])[0];
    assert_eq!(reserve(&tenant, "a", &[third, there]).await["location"], third);
    assert_ne!(home, other);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r34_what_is_together_moves_together_or_not_at_all() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    let resources = json!({
        "a": server("a", 1), "b": server("b", 1), "c": server("c", 4),
        "g": group("affinity", "host", &["a", "b"]),
    });
    let made = create(&tenant, "stack", resources).await;
    let free = others(&[&host(&made, "a"), &host(&made, "c")])[0];
    reserve(&tenant, "a", &[free]).await;
    let shown = show(&tenant, "stack").await;
    assert_eq!((host(&shown, "a").as_str(), host(&shown, "b").as_str()), (free, free));
    assert_eq!(host(&shown, "c"), host(&made, "c"));
    // Its mate is reserved, so the other must stay with it.
    let as_it_was = all(&site, &tenant).await;
    let elsewhere = others(&[free]);
    refused(&tenant, "b", json!({"locations": elsewhere}), 409).await;
    assert_eq!(all(&site, &tenant).await, as_it_was);
    assert_eq!(reserve(&tenant, "b", &[free]).await["location"], free);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r34_a_reservation_that_is_impossible_changes_nothing() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    let resources = json!({"a": server("a", 3), "b": server("b", 3), "c": server("c", 3)});
    create(&tenant, "stack", resources).await;
    create(&site.tenant("q"), "other", json!({"d": server("d", 1)})).await;
    let full = {
        let d = placement(&site.tenant("q"), "d").await;
        d["location"].as_str().unwrap().to_owned()
    };
    reserve(&tenant, "b", &["r01h01", "r01h02", "r01h03"]).await;
    let as_it_was = all(&site, &tenant).await;
    for locations in [json!([]), json!(["elsewhere"]), json!([as_it_was.0[1]["location"]])] {
        for action in ["reserve", "replan"] {
            let body = json!({"locations": locations, "action": action, "resource_id": "r"});
            let why = refused(&tenant, "a", body, 409).await;
            assert!(why.starts_with("Ostro error: "), "{why}");
            assert_eq!(all(&site, &tenant).await, as_it_was);
        }
    }
    assert!(full.starts_with("r01h"));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r35_a_new_host_is_chosen_although_the_planned_one_fits() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "stack", json!({"a": server("a", 3), "b": server("b", 3)})).await;
    let replan = async |locations: &[&str]| {
        let body = json!({"action": "replan", "locations": locations, "resource_id": "r1"});
        tenant.post("/v1/placements/a", body).await.expect(201).json()
    };
    for locations in [others(&[]), others(&[&host(&made, "a")]), vec!["r01h02"], vec!["r01h01"]] {
        let planned = replan(&locations).await;
        assert!(locations.contains(&planned["location"].as_str().unwrap()), "{planned}");
        assert_eq!((&planned["reserved"], &planned["resource_id"]), (&json!(true), &json!("r1")));
        assert_eq!(vcpus(&site).await.values().sum::<i64>(), 6);
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r36_the_instance_is_known_once_it_is_reserved_for() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    create(&tenant, "stack", json!({"a": server("a", 1), "b": server("b", 1)})).await;
    let reserve = async |server: &str, resource: &str| {
        let body = json!({"locations": others(&[]), "resource_id": resource});
        tenant.post(&format!("/v1/placements/{server}"), body).await
    };
    let (one, two) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let reserved = reserve("a", &one).await.expect(201).json();
    assert_eq!(reserved["resource_id"], json!(one));
    assert_eq!(reserve("a", &one).await.expect(201).json(), reserved);
    assert_eq!(placement(&tenant, "a").await, reserved);
    assert_eq!(placement(&tenant, "b").await.get("resource_id"), None);
    // Without one, it is still the same.
    let body = json!({"locations": others(&[])});
    assert_eq!(tenant.post("/v1/placements/a", body).await.expect(201).json(), reserved);
    // The server is rebuilt as another instance.
    assert_eq!(reserve("a", &two).await.expect(201).json()["resource_id"], json!(two));
    // No instance is two servers.
    let as_it_was = all(&site, &tenant).await;
    for taken in [two.clone(), two.to_uppercase(), two.replace('-', "")] {
        let why = reserve("b", &taken).await.explanation(409);
        assert!(why.starts_with("Valet error: "), "{why}");
    }
    assert_eq!(all(&site, &tenant).await, as_it_was);
    reserve("b", &one).await.expect(201);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r36_an_instance_whose_id_is_no_uuid_is_one_server_too() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    create(&tenant, "stack", json!({"a": server("a", 1), "b": server("b", 1)})).await;
    create(&site.tenant("q"), "other", json!({"c": server("c", 1)})).await;
    let taken = json!({"resource_id": "68f61b2-26f3-cbc1-7981-5f52c937c0cd"});
    tenant.post("/v1/placements/a", taken.clone()).await.expect(201);
    let as_it_was = all(&site, &tenant).await;
    refused(&tenant, "b", taken.clone(), 409).await;
    assert_eq!(all(&site, &tenant).await, as_it_was);
    // Such a name is its plan's own; others may use the same.
    site.tenant("q").post("/v1/placements/c", taken.clone()).await.expect(201);
    // Once the server is gone, so is the claim to its name.
    tenant.delete("/v1/placements/a").await.expect(204);
    tenant.post("/v1/placements/b", taken).await.expect(201);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r36_the_instance_that_was_reserved_for_last_counts() {
    let (site, before) = three_hosts().await;
    let tenant = site.tenant("p");
    let known = having(server("a", 1), "resource_id", json!("r1"));
    let made = create(&tenant, "stack", json!({"a": known, "b": server("b", 1)})).await;
    assert_eq!(placement(&tenant, "a").await["resource_id"], "r1");
    tenant.post("/v1/placements/a", json!({"resource_id": "r2"})).await.expect(201);
    // The plan's own document is older.
    reserve(&tenant, "b", &[&host(&made, "b")]).await;
    assert_eq!(placement(&tenant, "a").await["resource_id"], "r2");
    let other = having(server("a", 1), "resource_id", json!("r3"));
    let body = json!({"action": "update", "resources": {"a": other, "b": server("b", 1)}});
    tenant.put("/v1/plans/stack", body).await.expect(201);
    assert_eq!(placement(&tenant, "a").await["resource_id"], "r3");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r37_reserved_is_null_true_or_false() {
    let (site, before) = three_hosts().await;
    let admin = site.admin();
    let made = create(&admin, "stack", json!({"a": server("a", 1), "b": server("b", 1)})).await;
    let is_reserved = async |id: &str| placement(&admin, id).await["reserved"].clone();
    assert_eq!(is_reserved("a").await, Value::Null);
    let home = host(&made, "a");
    reserve(&admin, "a", &[&home]).await;
    assert_eq!(is_reserved("a").await, json!(true));
    let body = json!({"action": "migrate", "resources": ["a"]});
    let moved = admin.put("/v1/plans/stack", body).await.expect(201).json();
    assert_ne!(host(&moved, "a"), home);
    assert_eq!(is_reserved("a").await, json!(false));
    assert_eq!(is_reserved("b").await, Value::Null);
    reserve(&admin, "a", &[&host(&moved, "a")]).await;
    assert_eq!(is_reserved("a").await, json!(true));
    finish(&site, &before).await;
}

/// The terms of an inventory may change below what is held, as when a compute host loses processors.
/// There is no other place to choose then, so the answer comes at once and is final.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_the_terms_of_its_host_forbid_by_now_is_not_tried_for_ever() {
    let site = Site::new().await;
    let host = site.racks(1, 1, [8, 1, 1]).await[0];
    let tenant = site.tenant("p");
    create(&tenant, "stack", json!({"a": server("a", 8)})).await;
    let path = format!("/resource_providers/{host}/inventories");
    let mut inventories = site.placement().get(&path).await.expect(200).json();
    inventories["inventories"]["VCPU"]["max_unit"] = json!(4);
    site.placement().put(&path, inventories).await.expect(200);
    let before = all(&site, &tenant).await;
    let why = refused(&tenant, "a", json!({"resource_id": Uuid::new_v4()}), 409).await;
    assert!(why.contains("VCPU"), "{why}");
    assert_eq!(all(&site, &tenant).await, before);
}
