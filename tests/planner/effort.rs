//! Plans that would be much work: nested groups, groups with very many members, and plans that grow with each
//! update. They are refused or made, and delay no other request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Map, Value, json};

use crate::site::Site;
use crate::stack::{create, group, plan, server};

/// Resources as an update names them.
fn update(resources: &Value) -> Value {
    json!({"action": "update", "resources": resources})
}

/// Returns `count` layers of two groups each; both have both groups of the layer below.
fn layers(count: usize) -> Value {
    let mut resources =
        Map::from_iter([("a".to_owned(), server("a", 1)), ("b".to_owned(), server("b", 1))]);
    for layer in 0..count {
        let below = match layer.checked_sub(1) {
            None => ["a".to_owned(), "b".to_owned()],
            Some(below) => [format!("g{below}l"), format!("g{below}r")],
        };
        let members = below.each_ref().map(String::as_str);
        for side in ["l", "r"] {
            resources.insert(format!("g{layer}{side}"), group("affinity", "host", &members));
        }
    }
    resources.into()
}

/// Returns `count` groups, each inside of the next; the first has a server.
fn chain(count: usize) -> Value {
    let mut resources = Map::from_iter([("a".to_owned(), server("a", 1))]);
    for nth in 0..count {
        let member = nth.checked_sub(1).map_or("a".to_owned(), |below| format!("g{below}"));
        let properties = json!({"group_type": "diversity", "resources": [member]});
        let group = json!({"type": "ATT::QoS::ResourceGroup", "properties": properties});
        resources.insert(format!("g{nth}"), group);
    }
    resources.into()
}

/// Requests the versions of both APIs until it is stopped, and counts the responses.
fn watch(site: &Site) -> (Arc<AtomicBool>, Arc<AtomicUsize>, tokio::task::JoinHandle<()>) {
    let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (placement, planner) = (site.placement(), site.stranger());
    let (until, counted) = (Arc::clone(&stop), Arc::clone(&answers));
    let watching = tokio::spawn(async move {
        while !until.load(Ordering::Relaxed) {
            placement.get("/").await.expect(200);
            planner.get("/").await.expect(200);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (stop, answers, watching)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_groups_delay_no_other_request() {
    let site = Site::new().await;
    site.racks(1, 1, [9, 9, 9]).await;
    let admin = site.admin();
    let (stop, answers, watching) = watch(&site);
    let made = create(&admin, "deep", layers(40)).await;
    assert_eq!(made["placements"]["a"]["location"], made["placements"]["b"]["location"]);
    create(&admin, "x", json!({"a": server("a", 1)})).await;
    admin.put("/v1/plans/x", update(&layers(40))).await.expect(201);
    for (count, words) in [
        (65, "is nested too deeply: the maximum depth is 64"),
        (900, "is nested too deeply: the maximum depth is 64"),
        (9_900, "exceeds the limit: a plan has at most 1000 groups"),
    ] {
        let resources = chain(count);
        let why = admin.put("/v1/plans/x", update(&resources)).await.explanation(400);
        assert!(why.starts_with("Valet error: group 'g") && why.ends_with(words), "{why}");
        let why = admin.post("/v1/plans", plan("y", resources)).await.explanation(400);
        assert!(why.starts_with("Valet error: group 'g") && why.ends_with(words), "{why}");
    }
    // A refused plan has left nothing behind.
    admin.get("/v1/plans/y").await.expect(404);
    stop.store(true, Ordering::Relaxed);
    watching.await.unwrap();
    assert!(answers.load(Ordering::Relaxed) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_with_too_many_members_are_refused() {
    let site = Site::new().await;
    site.racks(1, 1, [9, 9, 9]).await;
    let admin = site.admin();
    // Each of 300 groups has all of 400 servers, by way of the first.
    let mut resources = Map::new();
    let names: Vec<String> = (0..400).map(|nth| format!("s{nth}")).collect();
    for name in &names {
        resources.insert(name.clone(), server(name, 1));
    }
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    resources.insert("g".to_owned(), group("affinity", "host", &members));
    for nth in 0..300 {
        resources.insert(format!("g{nth}"), group("affinity", "host", &["g"]));
    }
    let why = admin.post("/v1/plans", plan("s", resources.into())).await.explanation(400);
    let words = "is too large: all groups of a plan together have at most 100000 members";
    assert!(why.contains("group 'g249'") && why.contains(words), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_keeps_so_much_and_no_more() {
    let site = Site::new().await;
    let admin = site.admin();
    create(&admin, "s", json!({})).await;
    let long = "x".repeat(1_000_000);
    let add = |nth: usize| {
        let more =
            json!({format!("v{nth}"): {"type": "OS::Cinder::Volume", "properties": {"x": long}}});
        json!({"plan_name": "s", "stack_id": "s", "resources": {}, "resources_update": more})
    };
    for nth in 0..4 {
        admin.put("/v1/plans/s", add(nth)).await.expect(201);
    }
    let why = admin.put("/v1/plans/s", add(4)).await.explanation(400);
    assert!(why.contains("the plan is too large") && why.contains("4194304 bytes"), "{why}");
    // It can still be made smaller, and go.
    admin.put("/v1/plans/s", update(&json!({}))).await.expect(201);
    admin.delete("/v1/plans/s").await.expect(204);
}
