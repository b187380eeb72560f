//! Placements: listing, finding, showing and deleting them, and requesting a better place.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{
    allocations, arrive, create, finish, group, having, host, placement, placements, reserve,
    server, show, usages, vcpus,
};

/// The names of the placements that a query finds, in their order.
async fn found(site: &Site, query: &str) -> Vec<String> {
    let path = format!("/v1/placements?{query}");
    let list = site.tenant("p").get(&path).await.expect(200).json();
    let names = list.as_array().unwrap().iter();
    names.map(|placement| placement["name"].as_str().unwrap().to_owned()).collect()
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_list_placements() {
    let site = Site::new().await;
    site.racks(1, 1, [9, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    assert_eq!(placements(&tenant).await, json!([]));
    let first = create(&tenant, "s1", json!({"b": server("x", 1), "a": server("y", 1)})).await;
    let second = create(&tenant, "s2", json!({"c": server("z", 1)})).await;
    let list = placements(&tenant).await;
    let list = list.as_array().unwrap();
    let seen: Vec<_> = list.iter().map(|it| (&it["plan_id"], &it["name"])).collect();
    let (x, y, z) = (json!("x"), json!("y"), json!("z"));
    assert_eq!(seen, [(&first["id"], &x), (&first["id"], &y), (&second["id"], &z)]);
    for placement in list {
        let named = ["plan_id", "name", "orchestration_id", "location", "reserved", "id"];
        assert_eq!(keys(placement), BTreeSet::from(named));
        assert_eq!(placement["location"], "r01h01");
        assert_eq!(placement["reserved"], Value::Null);
        assert!(Uuid::parse_str(placement["id"].as_str().unwrap()).is_ok());
    }
    assert_eq!(tenant.get("/v1/placements/").await.expect(200).json(), json!(list));
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_find_placements_by_field() {
    let site = Site::new().await;
    site.racks(1, 3, [3, 1, 1]).await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "s1", json!({"o1": server("x", 2), "o2": server("y", 2)})).await;
    create(&tenant, "s2", json!({"o3": server("x", 2)})).await;
    let instance = Uuid::new_v4();
    let body = json!({"resource_id": instance});
    tenant.post("/v1/placements/o2", body).await.expect(201);
    let id = placement(&tenant, "o1").await["id"].as_str().unwrap().to_owned();
    let plan = made["id"].as_str().unwrap();
    for (query, names) in [
        (String::new(), vec!["x", "y", "x"]),
        (format!("id={id}"), vec!["x"]),
        (format!("id={}", id.to_uppercase()), vec!["x"]),
        ("orchestration_id=o3".to_owned(), vec!["x"]),
        (format!("plan_id={plan}"), vec!["x", "y"]),
        (format!("resource_id={instance}"), vec!["y"]),
        (format!("resource_id={}", instance.simple()), vec!["y"]),
        ("resource_id=null".to_owned(), vec!["x", "x"]),
        ("name=x".to_owned(), vec!["x", "x"]),
        ("name=%22x%22".to_owned(), vec!["x", "x"]),
        (format!("location={}", host(&made, "o2")), vec!["y"]),
        ("reserved=true".to_owned(), vec!["y"]),
        ("reserved=null".to_owned(), vec!["x", "x"]),
        ("reserved=false".to_owned(), vec![]),
        (format!("name=x&plan_id={plan}"), vec!["x"]),
        ("name=x&reserved=true".to_owned(), vec![]),
        // A repeated parameter matches nothing.
        ("name=x&name=x".to_owned(), vec![]),
        ("name=".to_owned(), vec![]),
        ("something=else".to_owned(), vec![]),
    ] {
        assert_eq!(found(&site, &query).await, names, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_find_placements_by_metadata() {
    let site = Site::new().await;
    site.racks(1, 1, [9, 1, 1]).await;
    let tenant = site.tenant("p");
    let path = json!([["outer", "inner"], "x"]);
    let hints = json!({
        "heat_root_stack_id": "1e47ad57",
        "heat_path_in_stack": path,
        "heat_resource_name": "x",
        "count": 2,
        "text": "2",
        "nothing": null,
    });
    let resources = json!({
        "a": having(server("a", 1), "metadata", hints),
        "b": having(server("b", 1), "metadata", json!({"heat_resource_name": "y"})),
        "c": server("c", 1),
    });
    create(&tenant, "stack", resources).await;
    for (query, names) in [
        ("heat_resource_name=x", vec!["a"]),
        ("heat_resource_name=y", vec!["b"]),
        ("heat_path_in_stack=[[%22outer%22,%22inner%22],+%22x%22]", vec!["a"]),
        ("heat_path_in_stack=[[%22outer%22]]", vec![]),
        ("heat_path_in_stack=outer", vec![]),
        ("heat_root_stack_id=1e47ad57&heat_resource_name=x&name=a", vec!["a"]),
        ("heat_root_stack_id=1e47ad57&heat_resource_name=y", vec![]),
        ("count=2", vec!["a"]),
        ("text=2", vec!["a"]),
        ("text=%222%22", vec!["a"]),
        ("nothing=null", vec!["a"]),
    ] {
        assert_eq!(found(&site, query).await, names, "{query}");
    }
    // Search keys are not shown.
    assert_eq!(placement(&tenant, "a").await.get("metadata"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn r31_show_a_placement_without_reserving_it() {
    let site = Site::new().await;
    site.racks(1, 1, [9, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let orchestration = Uuid::new_v4().to_string();
    let made = create(&tenant, "stack", json!({orchestration.as_str(): server("x", 1)})).await;
    let shown = placement(&tenant, &orchestration).await;
    let expected = json!({
        "plan_id": made["id"],
        "name": "x",
        "orchestration_id": orchestration,
        "location": "r01h01",
        "reserved": null,
        "id": shown["id"],
    });
    assert_eq!(shown, expected);
    let id = shown["id"].as_str().unwrap();
    for key in [id, &id.to_uppercase(), &orchestration.replace('-', ""), &format!("{id}/")] {
        assert_eq!(placement(&tenant, key).await, shown);
    }
    for missing in [made["id"].as_str().unwrap(), "x", "stack"] {
        let why = tenant.get(&format!("/v1/placements/{missing}")).await.explanation(404);
        assert_eq!(why, "Placement not found");
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r32_recommend_another_place_for_what_is_there() {
    let site = Site::new().await;
    site.racks(1, 3, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    // As in the seed, whose id of a resource is no UUID.
    let instance = "68f61b2-26f3-cbc1-7981-5f52c937c0cd";
    let made = create(&tenant, "stack", json!({"a": server("a", 3), "b": server("b", 3)})).await;
    tenant.post("/v1/placements/a", json!({"resource_id": instance})).await.expect(201);
    let (all, booked) = (placements(&tenant).await, usages(&site).await);
    let (home, taken) = (host(&made, "a"), host(&made, "b"));
    let id = placement(&tenant, "a").await["id"].clone();
    for key in [json!(instance), json!("a"), id] {
        let body = json!({"resource_id": key});
        let shown = tenant.post("/v1/placements", body).await.expect(200).json();
        let there = shown["location"].as_str().unwrap().to_owned();
        assert!(there != home && there != taken, "{shown}");
        let mut expected = placement(&tenant, "a").await;
        expected["current_location"] = json!(home);
        expected["location"] = json!(there);
        assert_eq!(shown, expected);
        // With that one excluded nothing is left, as the others stay where they are.
        let body = json!({"resource_id": key, "excluded_hosts": [there]});
        let why = tenant.post("/v1/placements", body).await.explanation(409);
        assert!(why.starts_with("Ostro error: "), "{why}");
        let body = json!({"resource_id": key, "locations": [home, taken]});
        tenant.post("/v1/placements", body).await.explanation(409);
    }
    assert_eq!((placements(&tenant).await, usages(&site).await), (all, booked));
    for missing in [json!("no"), json!(Uuid::new_v4())] {
        tenant.post("/v1/placements", json!({"resource_id": missing})).await.explanation(404);
    }
    for bad in [json!({}), json!({"resource_id": 1}), json!({"locations": []}), json!({"x": "a"})] {
        tenant.post("/v1/placements", bad).await.explanation(400);
    }
    let string = json!({"resource_id": "a", "locations": "r01h01"});
    tenant.post("/v1/placements", string).await.explanation(400);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r32_recommend_a_place_for_an_instance_of_no_plan() {
    let site = Site::new().await;
    let providers = site.racks(1, 2, [4, 1, 1]).await;
    let instance = Uuid::new_v4();
    arrive(&site, instance, providers[0], 3).await;
    let before = usages(&site).await;
    let body = json!({"resource_id": instance});
    let shown = site.tenant("p").post("/v1/placements", body.clone()).await.expect(200).json();
    let expected = (&json!("r01h02"), &json!("r01h01"));
    assert_eq!((&shown["location"], &shown["current_location"]), expected);
    assert_eq!(shown["resource_id"], json!(instance));
    // It is nothing to other projects.
    site.tenant("q").post("/v1/placements", body.clone()).await.explanation(404);
    site.admin().post("/v1/placements", body.clone()).await.expect(200);
    // Its host has no effect elsewhere.
    create(&site.tenant("p"), "stack", json!({"a": server("a", 2)})).await;
    site.tenant("p").post("/v1/placements", body).await.explanation(409);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r32_what_is_recommended_keeps_to_the_groups() {
    let site = Site::new().await;
    site.racks(1, 4, [4, 1, 1]).await;
    let tenant = site.tenant("p");
    let resources = json!({
        "a": server("a", 1), "b": server("b", 1), "c": server("c", 1),
        "g": group("diversity", "host", &["a", "b", "c"]),
    });
    let made = create(&tenant, "stack", resources).await;
    let body = tenant.post("/v1/placements", json!({"resource_id": "a"})).await.expect(200).json();
    let there = body["location"].as_str().unwrap();
    assert!(["a", "b", "c"].iter().all(|server| host(&made, server) != there), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r38_delete_a_placement() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let resources = json!({
        "a": server("a", 3), "b": server("b", 3),
        "g": group("diversity", "host", &["a", "b"]),
    });
    let made = create(&tenant, "stack", resources).await;
    let id = placement(&tenant, "a").await["id"].as_str().unwrap().to_owned();
    let gone = tenant.delete(&format!("/v1/placements/{id}")).await.expect(204);
    assert!(gone.body.is_empty());
    assert_eq!(vcpus(&site).await, [(host(&made, "b"), 3)].into());
    assert_eq!(allocations(&site, &id).await, json!({}));
    for key in [id.as_str(), "a"] {
        let why = tenant.delete(&format!("/v1/placements/{key}")).await.explanation(404);
        assert_eq!(why, "Placement not found");
    }
    let left = show(&tenant, "stack").await;
    assert_eq!(keys(&left["placements"]), BTreeSet::from(["b"]));
    // Reserved or not.
    reserve(&tenant, "b", &[&host(&made, "b")]).await;
    tenant.delete("/v1/placements/b").await.expect(204);
    assert_eq!(usages(&site).await, before);
    assert_eq!(show(&tenant, "stack").await["placements"], json!({}));
    finish(&site, &before).await;
}
