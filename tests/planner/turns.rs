//! Turns at making plans: whatever one project requests, the others get their responses meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use berth::fairness::turns::{Requester, Turn};
use berth::fairness::watch::Watch;
use berth::http::app::{App, Options, PlannerSettings};
use berth::store::Store;
use serde_json::{Value, json};

use crate::site::Site;
use crate::support::app::store_at;
use crate::support::postgres;

fn plan(stack: &str) -> Value {
    json!({"plan_name": stack, "stack_id": stack, "resources": {
        stack: {"name": "a", "type": "OS::Nova::Server", "properties": {"resources": {"VCPU": 1}}},
    }})
}

/// As many turns as one project may have.
fn busy(app: &App, project: &str) -> Vec<Turn> {
    let turn = || app.plan_turns.turn_now(Requester::named(project));
    std::iter::from_fn(turn).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plans_of_one_project_leave_turns_to_the_others() {
    let site = Site::new().await;
    site.racks(1, 1, [99, 1, 1]).await;
    let held = busy(site.app(), "busy");
    let tenant = site.tenant("busy");
    let waits = tokio::spawn(async move { tenant.post("/v1/plans", plan("late")).await });
    let turns = &site.app().plan_turns;
    while turns.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    site.tenant("other").post("/v1/plans", plan("first")).await.expect(201);
    site.tenant("busy").get("/v1/plans").await.expect(200);
    site.placement().get("/allocation_candidates?resources=VCPU:1").await.expect(200);
    assert_eq!((turns.held(), turns.waiting()), (held.len(), 1));
    drop(held);
    waits.await.unwrap().expect(201);
    assert_eq!((turns.held(), turns.waiting()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_without_a_turn_gets_503() {
    let turn_wait = Duration::from_millis(1);
    let planner = PlannerSettings { turn_wait, ..PlannerSettings::default() };
    let site = Site::with(Options { planner, ..Options::default() }).await;
    site.racks(1, 1, [99, 1, 1]).await;
    let held = busy(site.app(), "busy");
    let answer = site.tenant("busy").post("/v1/plans", plan("late")).await;
    assert!(answer.headers.contains_key("retry-after"));
    let why = answer.explanation(503);
    assert!(why.starts_with("Ostro error: the plan did not get a turn"), "{why}");
    drop(held);
    site.tenant("busy").get("/v1/plans/late").await.explanation(404);
}

/// The time of this plan is up as soon as it is looked at, which the search for places of 49 sizes does:
/// then nothing is known.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_whose_time_is_up_is_not_called_impossible() {
    let database = postgres::database().await;
    let store = Store::open(store_at(&database)).await.unwrap();
    let (began, looks) = (Instant::now(), AtomicU32::new(0));
    let hour = Duration::from_hours(1);
    let watch = Watch::of(move || began + hour * looks.fetch_add(1, Ordering::Relaxed));
    let app = App::new(store, Options::default()).with_watch(watch);
    let site = Site::serving(app, &database).await;
    site.racks(1, 1, [99, 1, 1]).await;
    let one = |nth: i64| {
        let resources = json!({"resources": {"VCPU": 1, "MEMORY_MB": nth}});
        (format!("s{nth}"), json!({"type": "OS::Nova::Server", "properties": resources}))
    };
    let mut body = plan("s");
    body["resources"] = Value::Object((1..50).map(one).collect());
    let answer = site.tenant("p").post("/v1/plans", body).await;
    assert!(answer.headers.contains_key("retry-after"));
    let why = answer.explanation(503);
    assert!(why.contains("it is unknown whether there is one"), "{why}");
}

/// Fifty servers of three sizes; ten of them are apart.
fn stack_of_fifty(stack: &str) -> Value {
    let server = |nth: usize| {
        let vcpu = [1, 2, 4][nth % 3];
        let needs = json!({"VCPU": vcpu, "MEMORY_MB": vcpu * 1024, "DISK_GB": 10});
        let server = json!({"type": "OS::Nova::Server", "properties": {"resources": needs}});
        (format!("{stack}-{nth}"), server)
    };
    let mut resources: serde_json::Map<String, Value> = (0..50).map(server).collect();
    let apart: Vec<String> = (0..10).map(|nth| format!("{stack}-{nth}")).collect();
    let apart = json!({"group_type": "diversity", "level": "host", "resources": apart});
    resources.insert(
        "apart".to_owned(),
        json!({"type": "ATT::Valet::GroupAssignment", "properties": apart}),
    );
    json!({"plan_name": stack, "stack_id": stack, "resources": resources})
}

/// Five clients of two projects make four plans each, on hosts with room for all of them. Two plans are made
/// at once, and overtake each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_planner_makes_every_plan_that_fits() {
    make_many_plans(1).await;
}

/// The same when a plan uses the threads of the others while they do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_planner_of_many_threads_makes_every_plan_that_fits() {
    make_many_plans(6).await;
}

async fn make_many_plans(threads: usize) {
    // A slow machine must not decide about turns, or about how far a search comes.
    let turn_wait = Duration::from_mins(10);
    let planner = PlannerSettings { turn_wait, threads, ..PlannerSettings::default() };
    let database = postgres::database().await;
    let store = Store::open(store_at(&database)).await.unwrap();
    let (began, looks) = (Instant::now(), AtomicU32::new(0));
    let moment = Duration::from_millis(1);
    let watch = Watch::of(move || began + moment * looks.fetch_add(1, Ordering::Relaxed));
    let app = App::new(store, Options { planner, ..Options::default() }).with_watch(watch);
    let site = Arc::new(Site::serving(app, &database).await);
    site.racks(10, 10, [32, 65_536, 1_000]).await;
    let client = |client: usize| {
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            for nth in 0..4 {
                let body = stack_of_fifty(&format!("c{client}-{nth}"));
                let project = if client < 3 { "busy" } else { "other" };
                site.tenant(project).post("/v1/plans", body).await.expect(201);
            }
        })
    };
    for client in (0..5).map(client).collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let placements = site.admin().get("/v1/placements").await.expect(200).json();
    assert_eq!(placements.as_array().unwrap().len(), 20 * 50);
    site.assert_consistent().await;
}

/// A plan of many servers waits before one of few; the small one comes first.
#[tokio::test(flavor = "multi_thread")]
async fn the_small_plan_of_a_project_comes_first() {
    let site = Arc::new(Site::new().await);
    site.racks(2, 10, [32, 65_536, 1_000]).await;
    let mut held = busy(site.app(), "busy");
    let (order, mut orders) = tokio::sync::mpsc::unbounded_channel();
    let mut clients = Vec::new();
    let bodies = [("large", stack_of_fifty("large")), ("small", plan("small"))];
    for (waiting, (name, body)) in bodies.into_iter().enumerate() {
        let (site, order) = (Arc::clone(&site), order.clone());
        let turns = site.app().plan_turns.clone();
        clients.push(tokio::spawn(async move {
            site.tenant("busy").post("/v1/plans", body).await.expect(201);
            order.send(name).unwrap();
        }));
        while turns.waiting() <= waiting {
            tokio::task::yield_now().await;
        }
    }
    // One turn is free; the project keeps the others.
    held.pop();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!((orders.recv().await, orders.recv().await), (Some("small"), Some("large")));
}
