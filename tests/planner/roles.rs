//! Authorization, and the visibility of plans.

use serde_json::{Value, json};

use crate::site::Site;
use crate::stack::{
    create, finish, host, hosts, placement, placements, plan, reserve, server, show, usages,
};

const PLAIN: &str = "Authentication required";

#[tokio::test(flavor = "multi_thread")]
async fn r07_a_project_sees_its_own_plans_only() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let (owner, other, admin) = (site.tenant("p"), site.tenant("q"), site.admin());
    let made = create(&owner, "s1", json!({"a": server("a", 1)})).await;
    let id = made["id"].as_str().unwrap();
    let mine = placement(&owner, "a").await;
    let own = mine["id"].as_str().unwrap();
    assert_eq!(other.get("/v1/plans").await.expect(200).json(), json!([]));
    assert_eq!(placements(&other).await, json!([]));
    let update = json!({"action": "update", "resources": {}});
    for key in ["s1", id] {
        let path = format!("/v1/plans/{key}");
        for (method, body) in [
            ("GET", None),
            ("OPTIONS", None),
            ("DELETE", None),
            ("PUT", Some(update.to_string().into_bytes())),
        ] {
            let why = other.ask(method, &path, body).await.explanation(404);
            assert_eq!(why, "Plan not found", "{method}");
        }
    }
    for key in ["a", own] {
        let path = format!("/v1/placements/{key}");
        for (method, body) in
            [("GET", None), ("OPTIONS", None), ("DELETE", None), ("POST", Some(b"{}".to_vec()))]
        {
            let why = other.ask(method, &path, body).await.explanation(404);
            assert_eq!(why, "Placement not found", "{method}");
        }
        other.post("/v1/placements", json!({"resource_id": key})).await.explanation(404);
    }
    assert_eq!((show(&owner, "s1").await, placement(&owner, "a").await), (made, mine));
    // Administrators see all.
    create(&other, "s2", json!({"b": server("b", 1)})).await;
    assert_eq!(admin.get("/v1/plans").await.expect(200).json(), json!(["s1", "s2"]));
    assert_eq!(placements(&admin).await.as_array().unwrap().len(), 2);
    show(&admin, "s1").await;
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_projects_may_call_their_servers_the_same() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let (one, two) = (site.tenant("p"), site.tenant("q"));
    create(&one, "s1", json!({"a": server("x", 3)})).await;
    create(&two, "s2", json!({"a": server("y", 3)})).await;
    assert_eq!(placement(&one, "a").await["name"], "x");
    assert_eq!(placement(&two, "a").await["name"], "y");
    one.delete("/v1/placements/a").await.expect(204);
    assert_eq!(hosts(&show(&two, "s2").await).len(), 1);
    // And their stacks.
    two.post("/v1/plans", plan("s1", json!({}))).await.expect(201);
    assert_eq!(hosts(&show(&two, "s1").await).len(), 0);
    two.delete("/v1/plans/s1").await.expect(204);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_plans_are_for_every_project_and_migrations_for_administrators() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "stack", json!({"a": server("a", 1)})).await;
    reserve(&tenant, "a", &[&host(&made, "a")]).await;
    let body = json!({"action": "migrate", "resources": ["a"]});
    for path in ["/v1/plans/stack", "/v1/plans/no"] {
        let answer = tenant.put(path, body.clone()).await.expect(401);
        assert_eq!(answer.text(), PLAIN);
        assert_eq!(answer.header("content-type"), "text/plain; charset=UTF-8");
    }
    assert_eq!(show(&tenant, "stack").await, made);
    // The plan stays in its project, even if another one changes it.
    let admin = site.admin_of("other");
    let moved = admin.put("/v1/plans/stack", body).await.expect(201).json();
    assert_eq!(show(&tenant, "stack").await, moved);
    let consumer = placement(&tenant, "a").await["id"].as_str().unwrap().to_owned();
    let held = site.placement().get(&format!("/allocations/{consumer}")).await.expect(200).json();
    assert_eq!(held["project_id"], "p");
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_without_a_token_nothing_is_learnt_of_plans() {
    let site = Site::new().await;
    site.racks(1, 1, [4, 1, 1]).await;
    create(&site.tenant("p"), "stack", json!({"a": server("a", 1)})).await;
    let strangers = [
        site.stranger(),
        site.stranger().header("x-auth-token", ""),
        site.stranger().header("x-auth-token", ":"),
    ];
    for stranger in strangers {
        for (method, path) in [
            ("GET", "/v1/plans"),
            ("POST", "/v1/plans"),
            ("GET", "/v1/plans/stack"),
            ("GET", "/v1/plans/no"),
            ("PUT", "/v1/plans/stack"),
            ("DELETE", "/v1/plans/stack"),
            ("OPTIONS", "/v1/plans/stack"),
            ("COPY", "/v1/plans/stack"),
            ("GET", "/v1/placements"),
            ("POST", "/v1/placements"),
            ("GET", "/v1/placements/a"),
            ("POST", "/v1/placements/a"),
            ("DELETE", "/v1/placements/a"),
        ] {
            let answer = stranger.ask(method, path, Some(b"{".to_vec())).await.expect(401);
            assert_eq!(answer.text(), PLAIN, "{method} {path}");
        }
    }
    let left: Value = show(&site.tenant("p"), "stack").await;
    assert_eq!(hosts(&left).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn r03_r04_methods_of_plans_and_placements() {
    let site = Site::new().await;
    site.racks(1, 1, [4, 1, 1]).await;
    let tenant = site.tenant("p");
    create(&tenant, "stack", json!({"a": server("a", 1)})).await;
    for (path, allow) in [
        ("/v1/plans", "GET,POST"),
        ("/v1/plans/stack", "GET,PUT,DELETE"),
        ("/v1/placements", "GET,POST"),
        ("/v1/placements/a", "GET,POST,DELETE"),
    ] {
        for slash in ["", "/"] {
            let answer = tenant.ask("OPTIONS", &format!("{path}{slash}"), None).await.expect(204);
            assert_eq!((answer.header("allow"), answer.body.len()), (allow, 0), "{path}");
        }
        for method in ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "COPY"] {
            if allow.split(',').any(|known| known == method) {
                continue;
            }
            let answer = tenant.ask(method, path, None).await;
            assert_eq!((answer.status, answer.header("allow")), (405, allow), "{method} {path}");
            if method != "HEAD" {
                let output = answer.explanation(405);
                assert_eq!(output, format!("The {method} method is not allowed."));
            }
        }
    }
    for missing in ["/v1/plans/no", "/v1/placements/no", "/v1/servers"] {
        tenant.ask("OPTIONS", missing, None).await.explanation(404);
    }
}
