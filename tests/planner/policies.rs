//! The permissions of roles in the planner.

use std::sync::Arc;

use berth::auth::policy::{Policy, Source};
use serde_json::json;

use crate::site::{Asker, Site};
use crate::stack::{create, plan, server};

/// The default permissions: method, path, body, and the roles.
const READERS: &str = "reader member admin service";
const MEMBERS: &str = "member admin service";
const OPERATORS: &str = "admin service";
const DEFAULTS: [(&str, &str, &str); 23] = [
    ("GET", "/v1/plans", READERS),
    ("POST", "/v1/plans", MEMBERS),
    ("GET", "/v1/plans/stack", READERS),
    ("OPTIONS", "/v1/plans/stack", READERS),
    ("PATCH", "/v1/plans/stack", READERS),
    ("PUT", "/v1/plans/stack", MEMBERS),
    ("DELETE", "/v1/plans/no", MEMBERS),
    ("GET", "/v1/placements", READERS),
    ("POST", "/v1/placements", MEMBERS),
    ("GET", "/v1/placements/a", READERS),
    ("POST", "/v1/placements/a", MEMBERS),
    ("DELETE", "/v1/placements/no", MEMBERS),
    ("GET", "/v1/status", READERS),
    ("HEAD", "/v1/status", READERS),
    ("GET", "/v1/groups", OPERATORS),
    ("OPTIONS", "/v1/groups", OPERATORS),
    ("POST", "/v1/groups", OPERATORS),
    ("GET", "/v1/groups/no", OPERATORS),
    ("PUT", "/v1/groups/no", OPERATORS),
    ("DELETE", "/v1/groups/no", OPERATORS),
    ("PUT", "/v1/groups/no/members", OPERATORS),
    ("DELETE", "/v1/groups/no/members", OPERATORS),
    ("GET", "/v1/groups/no/members/no", OPERATORS),
];

fn with(asker: &Asker, roles: &str) -> Asker {
    asker.clone().header("x-roles", roles)
}

async fn site() -> Site {
    let site = Site::new().await;
    site.racks(1, 2, [8, 1, 1]).await;
    create(&site.tenant("p"), "stack", json!({"a": server("a", 1)})).await;
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_may_do_what_it_is_for() {
    let site = site().await;
    for (method, path, roles) in DEFAULTS {
        for role in ["reader", "member", "admin", "service", "other", "", "MEMBER"] {
            // The body is malformed, so authorized callers get another error than 401.
            let asker = with(&site.tenant("p"), role);
            let status = asker.ask(method, path, Some(b"[".to_vec())).await.status;
            let may = roles.split(' ').any(|it| it == role.to_lowercase());
            assert_eq!(status != 401, may, "{method} {path} as {role:?}: {status}");
        }
    }
    // Of the two changes to a plan, one is for operators.
    let migration = json!({"action": "migrate", "resources": ["a"]});
    let update = json!({"action": "update", "resources": {"a": server("a", 1)}});
    for (role, expected) in [("member", [401, 201]), ("reader", [401, 401]), ("service", [201; 2])]
    {
        let asker = with(&site.tenant("p"), role);
        for (body, expected) in [&migration, &update].into_iter().zip(expected) {
            asker.put("/v1/plans/stack", body.clone()).await.expect(expected);
        }
    }
    // Operators see what others have; tokens that are not for a project see nothing.
    for role in ["admin", "service"] {
        let seen = with(&site.tenant("q"), role).get("/v1/plans").await.expect(200).json();
        assert_eq!(seen, json!(["stack"]));
    }
    for role in ["reader", "member"] {
        let seen = with(&site.tenant("q"), role).get("/v1/plans").await.expect(200).json();
        assert_eq!(seen, json!([]));
        with(&site.tenant("q"), role).get("/v1/plans/stack").await.explanation(404);
    }
    for scope in ["openstack-system-scope", "x-domain-id"] {
        site.admin().header(scope, "all").get("/v1/plans").await.expect(401);
    }
}

/// Callers who are believed are members, unless they say otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn an_unauthenticated_caller_without_roles_is_a_member() {
    let site = site().await;
    site.tenant("p").get("/v1/plans").await.expect(200);
    site.tenant("p").post("/v1/plans", plan("other", json!({}))).await.expect(201);
    site.tenant("p").get("/v1/groups").await.expect(401);
    with(&site.tenant("p"), "").get("/v1/plans").await.expect(401);
    with(&site.admin(), "reader").post("/v1/plans", plan("x", json!({}))).await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_says_who_may() {
    let site = site().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let rules = "planner:plans:create: role:reader\n\
                 planner:plans:show: role:member\n\
                 planner:groups:list: role:planner\n\
                 planner:all_projects:read: role:auditor\n\
                 planner:nothing: \"@\"\n";
    std::fs::write(&file, rules).unwrap();
    let source = Source { file: Some(file), ..Source::defaults(true) };
    let (policy, warnings) = Policy::load(source).unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("planner:nothing"), "{warnings:?}");
    let app = site.app().clone().with_policy(Arc::new(policy));
    let policed = Site::serving(app, &site.database).await;
    let (p, q) = (policed.tenant("p"), policed.tenant("q"));
    with(&p, "reader").post("/v1/plans", plan("r", json!({}))).await.expect(201);
    with(&p, "member").post("/v1/plans", plan("m", json!({}))).await.expect(401);
    with(&p, "reader").get("/v1/plans/stack").await.expect(401);
    // A rule that does not name the project opens no other project.
    with(&q, "member").get("/v1/plans/stack").await.explanation(404);
    with(&q, "member,auditor").get("/v1/plans/stack").await.expect(200);
    with(&q, "member,auditor").delete("/v1/plans/stack").await.explanation(404);
    with(&q, "planner").get("/v1/groups").await.expect(200);
    with(&q, "admin").get("/v1/groups").await.expect(401);
    with(&q, "admin").get("/v1/placements/a").await.explanation(404);
}
