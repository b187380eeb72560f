//! Caps of a project in the planner, on concurrent work and on stored rows.

use berth::http::app::{Options, PlannerSettings};
use berth::store::planner::caps::Caps;
use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::Connection;

use crate::site::Site;
use crate::stack::{create, plan, server, show};
use crate::support::cluster::until;

async fn site(settings: PlannerSettings) -> Site {
    let site = Site::with(Options { planner: settings, ..Options::default() }).await;
    site.racks(1, 2, [64, 1, 1]).await;
    site
}

async fn capped(caps: Caps) -> Site {
    site(PlannerSettings { caps, ..PlannerSettings::default() }).await
}

/// Returns `count` servers whose ids begin with this prefix.
fn servers(prefix: &str, count: usize) -> Value {
    (0..count).map(|nth| format!("{prefix}{nth}")).map(|id| (id.clone(), server(&id, 1))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_may_have_so_many_plans() {
    let site = capped(Caps { plans: 2, ..Caps::default() }).await;
    let tenant = site.tenant("p");
    for stack in ["s0", "s1"] {
        create(&tenant, stack, servers(stack, 1)).await;
    }
    let words = "The project may have at most 2 plans (--planner-project-plans)";
    for path in ["/v1/plans", "/v1/plans?dry_run=true"] {
        let why = tenant.post(path, plan("s2", servers("c", 1))).await.explanation(409);
        assert!(why.contains(words), "{why}");
    }
    // Existing plans can be read and changed; other projects have their own caps.
    create(&tenant, "s1", servers("s1", 1)).await;
    let body = json!({"action": "update", "resources": servers("s1", 3)});
    tenant.put("/v1/plans/s1", body).await.expect(201);
    create(&site.tenant("q"), "s0", servers("a", 1)).await;
    tenant.delete("/v1/plans/s0").await.expect(204);
    create(&tenant, "s2", servers("c", 1)).await;
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_holds_however_many_ask_at_once() {
    let options = || {
        let caps = Caps { plans: 5, ..Caps::default() };
        let planner = PlannerSettings { caps, at_once: 20, ..PlannerSettings::default() };
        Options { planner, ..Options::default() }
    };
    let site = Site::with(options()).await;
    site.racks(1, 2, [64, 1, 1]).await;
    let other = Site::over(&site.database, options()).await;
    let request = (0..24).map(|nth| {
        let asker = if nth % 2 == 0 { site.tenant("p") } else { other.tenant("p") };
        let stack = format!("s{nth}");
        async move { asker.post("/v1/plans", plan(&stack, servers(&stack, 1))).await.status }
    });
    let statuses = join_all(request).await;
    let count = |status| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((count(201), count(409)), (5, 19), "{statuses:?}");
    assert_eq!(site.tenant("p").get("/v1/plans").await.json().as_array().unwrap().len(), 5);
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_may_have_so_many_placements_and_bytes() {
    let site = capped(Caps { placements: 4, bytes: 2000, ..Caps::default() }).await;
    let tenant = site.tenant("p");
    create(&tenant, "s0", servers("a", 3)).await;
    let placements = "The project may have at most 4 placements (--planner-project-placements)";
    let why = tenant.post("/v1/plans", plan("s1", servers("b", 2))).await.explanation(409);
    assert!(why.contains(placements), "{why}");
    let as_it_was = show(&tenant, "s0").await;
    let body = json!({"action": "update", "resources": servers("a", 5)});
    let why = tenant.put("/v1/plans/s0", body).await.explanation(409);
    assert!(why.contains(placements), "{why}");
    // One that is left out makes room for another.
    let body = json!({"action": "update", "resources": servers("b", 3)});
    tenant.put("/v1/plans/s0", body).await.expect(201);
    let mut long = servers("b", 3);
    long["b0"]["metadata"] = json!({"why": "x".repeat(2000)});
    let body = json!({"action": "update", "resources": long});
    let why = tenant.put("/v1/plans/s0", body).await.explanation(409);
    assert!(why.contains("may have at most 2000 bytes of plans"));
    assert_ne!(show(&tenant, "s0").await, as_it_was);
    // Under lower caps, existing plans can shrink and be used, but not grow.
    let caps = Caps { plans: 1, placements: 1, bytes: 1, ..Caps::default() };
    let planner = PlannerSettings { caps, ..PlannerSettings::default() };
    let lower = Site::over(&site.database, Options { planner, ..Options::default() }).await;
    let tenant = lower.tenant("p");
    tenant.post("/v1/placements/b0", json!({})).await.expect(201);
    let body = json!({"action": "update", "resources": servers("b", 2)});
    tenant.put("/v1/plans/s0", body).await.expect(201);
    let body = json!({"action": "update", "resources": servers("b", 3)});
    tenant.put("/v1/plans/s0", body).await.explanation(409);
    tenant.delete("/v1/plans/s0").await.expect(204);
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_may_make_so_many_groups() {
    let site = capped(Caps { groups: 1, ..Caps::default() }).await;
    let body = |name: &str| json!({"name": name, "type": "exclusivity"});
    site.admin().post("/v1/groups", body("g0")).await.expect(201);
    let why = site.admin().post("/v1/groups", body("g1")).await.explanation(409);
    assert!(why.contains("may have at most 1 groups"), "{why}");
    site.admin_of("q").post("/v1/groups", body("g1")).await.expect(201);
    site.admin().delete("/v1/groups/g0").await.expect(204);
    site.admin().post("/v1/groups", body("g0")).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_waits_only_for_itself() {
    let site = site(PlannerSettings { at_once: 1, waiting: 1, ..PlannerSettings::default() }).await;
    // The first request meets a row that another transaction has not committed.
    let mut session = site.session().await;
    let mut transaction = session.begin().await.unwrap();
    sqlx::raw_sql(
        "insert into plans (id, name, stack_id, stack_key, project, user_id, document)
         values (gen_random_uuid(), 'n', 's0', 's0', 'p', 'u', '{}')",
    )
    .execute(&mut *transaction)
    .await
    .unwrap();
    let tenant = site.tenant("p");
    let ask = |stack: &'static str| {
        let tenant = tenant.clone();
        tokio::spawn(async move { tenant.post("/v1/plans", plan(stack, servers(stack, 1))).await })
    };
    let first = ask("s0");
    let mut observer = site.session().await;
    let waits = "select exists(select from pg_stat_activity where wait_event_type = 'Lock'
                 and query like 'insert into plans%' and datname = current_database())";
    until("the first one waits", async || {
        sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut observer).await.unwrap()
    })
    .await;
    // One of these two waits, and the other gets 429.
    let (second, third) = (ask("s1"), ask("s2"));
    let done = || [&second, &third].map(tokio::task::JoinHandle::is_finished);
    until("one of them has a response", async || done().contains(&true)).await;
    assert_ne!(done(), [true, true]);
    // Reads are served, and so are all other projects.
    tenant.get("/v1/plans").await.expect(200);
    create(&site.tenant("q"), "s0", servers("q", 1)).await;
    transaction.rollback().await.unwrap();
    first.await.unwrap().expect(201);
    let answers = [second.await.unwrap(), third.await.unwrap()];
    let refused = answers.iter().find(|it| it.status == 429).unwrap();
    assert_eq!(refused.header("retry-after"), "1");
    let body = refused.json();
    assert_eq!(
        (&body["title"], &body["error"]["type"]),
        (&json!("Too Many Requests"), &json!("HTTPTooManyRequests"))
    );
    let why = body["explanation"].as_str().unwrap();
    assert_eq!(
        why,
        "1 requests of the project are in progress (--planner-project-requests), and 1 wait."
    );
    assert!(answers.iter().any(|it| it.status == 201));
    create(&tenant, "s3", servers("s3", 1)).await;
}
