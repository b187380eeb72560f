//! The second mount: the answers of Valet's later versions, by the same handlers.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Asker, Site};
use crate::stack::{arrive, bare, finish, host, server, stored, usages, with};

/// The answer to a request that goes well.
async fn ask(asker: &Asker, method: &str, path: &str, body: Option<Value>, status: u16) -> Value {
    let body = body.map(|body| body.to_string().into_bytes());
    asker.ask(method, &format!("/compat/v1{path}"), body).await.expect(status).json()
}

fn body(stack: &str) -> Value {
    let a = with(server("a", 1), "metadata", json!({"valet": {"groups": []}}));
    json!({"plan_name": format!("name of {stack}"), "stack_id": stack, "resources": {"a": a}})
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_plans_and_placements_have_keys_around_them() {
    let site = Site::new().await;
    let ids = site.racks(1, 2, [4, 999, 99]).await;
    let before = usages(&site).await;
    let (tenant, other) = (site.tenant("p"), site.tenant("q"));
    assert_eq!(ask(&tenant, "GET", "/plans", None, 200).await, json!({"plans": []}));
    assert_eq!(ask(&tenant, "GET", "/placements", None, 200).await, json!({"placements": []}));

    let tried = ask(&tenant, "POST", "/plans?dry_run=true", Some(body("s")), 200).await;
    assert_eq!(tried["plan"]["placements"]["a"]["location"], "r01h01");
    let made = ask(&tenant, "POST", "/plans/", Some(body("s")), 201).await;
    assert_eq!(made.as_object().unwrap().len(), 1);
    assert_eq!(host(&made["plan"], "a"), "r01h01");
    assert_eq!(ask(&tenant, "GET", "/plans/s/", None, 200).await, made);
    // The other mount has the same plan, bare, and a list of names.
    assert_eq!(bare(&tenant.get("/v1/plans/s").await.expect(200).json()), made["plan"]);
    assert_eq!(tenant.get("/v1/plans").await.expect(200).json(), json!(["name of s"]));
    ask(&other, "POST", "/plans", Some(body("t")), 201).await;
    let listed = ask(&tenant, "GET", "/plans", None, 200).await;
    assert_eq!(listed, json!({"plans": [made["plan"]]}));
    let all = ask(&site.admin(), "GET", "/plans", None, 200).await;
    assert_eq!(all["plans"].as_array().unwrap().len(), 2);
    other.delete("/compat/v1/plans/t").await.expect(204);

    let update =
        json!({"action": "update", "resources": {"a": server("a", 1), "b": server("b", 1)}});
    let updated = ask(&tenant, "PUT", "/plans/s", Some(update), 201).await;
    assert_eq!(updated["plan"]["placements"].as_object().unwrap().len(), 2);

    // Fields of later versions exist from the beginning.
    let planned = ask(&tenant, "GET", "/placements/a", None, 200).await;
    let fields = &planned["placement"];
    assert_eq!((&fields["resource_id"], &fields["reserved"]), (&Value::Null, &json!(false)));
    assert_eq!(fields["metadata"], json!({}));
    let bare = tenant.get("/v1/placements/a").await.expect(200).json();
    assert_eq!((&bare["id"], &bare["reserved"]), (&fields["id"], &Value::Null));
    assert!(bare.get("metadata").is_none() && bare.get("resource_id").is_none());
    let path = "/placements?reserved=false&name=a";
    let found = ask(&tenant, "GET", path, None, 200).await;
    assert_eq!(found, json!({"placements": [fields]}));

    let instance = Uuid::new_v4();
    let reserve = json!({"resource_id": instance, "locations": ["r01h01"], "action": "reserve"});
    let reserved = ask(&tenant, "POST", "/placements/a", Some(reserve), 201).await;
    assert_eq!(reserved["placement"]["resource_id"], json!(instance));
    assert_eq!(reserved["placement"]["reserved"], true);
    arrive(&site, instance, ids[0], 1).await;
    let wanted = json!({"resource_id": instance});
    let recommended = ask(&tenant, "POST", "/placements", Some(wanted), 200).await;
    let recommended = &recommended["placement"];
    assert_eq!(recommended["location"], "r01h02");
    assert_eq!(
        (&recommended["current_location"], &recommended["metadata"]),
        (&json!("r01h01"), &json!({}))
    );
    let migrate = json!({"action": "migrate", "resources": [instance], "excluded_hosts": []});
    let migrated = ask(&site.admin(), "PUT", "/plans/s", Some(migrate), 201).await;
    assert_eq!(host(&migrated["plan"], "a"), "r01h02");

    tenant.delete("/compat/v1/placements/b").await.expect(204);
    assert!(tenant.delete("/compat/v1/plans/s").await.expect(204).body.is_empty());
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_metadata_is_shown_as_it_was_sent() {
    let site = Site::new().await;
    site.racks(1, 1, [4, 999, 99]).await;
    let tenant = site.tenant("p");
    let mut body = body("s");
    let metadata = json!({"heat_path_in_stack": ["x", "y"], "heat_resource_name": "a"});
    body["resources"]["a"]["metadata"] = metadata.clone();
    ask(&tenant, "POST", "/plans", Some(body), 201).await;
    for path in
        ["/placements?heat_resource_name=a", "/placements?heat_path_in_stack=%5B%22x%22,%22y%22%5D"]
    {
        let found = ask(&tenant, "GET", path, None, 200).await;
        assert_eq!(found["placements"][0]["metadata"], metadata, "{path}");
    }
    let none = ask(&tenant, "GET", "/placements?heat_resource_name=b", None, 200).await;
    assert_eq!(none, json!({"placements": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_groups_have_a_level_and_a_description() {
    let site = Site::new().await;
    let admin = site.admin();
    let group = json!({"name": "g", "type": "exclusivity"});
    let made = ask(&admin, "POST", "/groups", Some(group), 201).await;
    assert_eq!((&made["level"], &made["description"]), (&json!("host"), &json!("")));
    assert_eq!(ask(&admin, "GET", "/groups", None, 200).await, json!({"groups": [made]}));
    let shown = ask(&admin, "GET", "/groups/g", None, 200).await;
    assert_eq!(shown, json!({"group": made}));
    let bare = admin.get("/v1/groups/g").await.expect(200).json();
    assert!(bare["group"].get("level").is_none() && bare["group"]["description"].is_null());
    let described = ask(&admin, "PUT", "/groups/g", Some(json!({"description": "d"})), 201).await;
    assert_eq!(described["description"], "d");
    let project = Uuid::new_v4().to_string();
    let members = json!({"members": [project]});
    let joined = ask(&admin, "PUT", "/groups/g/members", Some(members), 201).await;
    assert_eq!((&joined["members"], &joined["level"]), (&json!([project]), &json!("host")));
    admin.get(&format!("/compat/v1/groups/g/members/{project}")).await.expect(204);
    admin.delete("/compat/v1/groups/g/members").await.expect(204);
    admin.delete("/compat/v1/groups/g").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_a_group_that_does_not_exist_is_not_found() {
    let site = Site::new().await;
    site.racks(1, 1, [4, 999, 99]).await;
    let tenant = site.tenant("p");
    ask(&tenant, "POST", "/plans", Some(body("s")), 201).await;
    let named = json!({"type": "ATT::Valet::GroupAssignment", "properties": {
        "group_type": "exclusivity", "group_name": "gone", "resources": ["a"]}});
    for group in [stored("gone", &["a"]), named] {
        let resources = json!({"a": server("a", 1), "g": group});
        let create = json!({"plan_name": "t", "stack_id": "t", "resources": resources});
        let update = json!({"action": "update", "resources": resources});
        for (mount, status) in [("/compat", 404), ("", 409)] {
            let path = format!("{mount}/v1/plans");
            let why = tenant.post(&path, create.clone()).await.explanation(status);
            assert!(why.starts_with("Valet error: ") && why.contains("'gone' not found"), "{why}");
            let why = tenant.put(&format!("{path}/s"), update.clone()).await.explanation(status);
            assert!(why.contains("'gone' not found"), "{why}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_everything_else_is_the_same_on_both_mounts() {
    let site = Site::new().await;
    let (stranger, tenant) = (site.stranger().header("host", "ostro:8090"), site.tenant("p"));
    for path in ["/compat", "/compat/"] {
        let versions = stranger.get(path).await.expect(200).json();
        let href = &versions["versions"][0]["links"][0]["href"];
        assert_eq!(href, "http://ostro:8090/compat/v1/");
    }
    let parts = tenant.header("host", "ostro:8090").get("/compat/v1").await.expect(200).json();
    let href = &parts["versions"][0]["links"][0]["href"];
    assert_eq!(href, "http://ostro:8090/compat/v1/groups/");
    let tenant = site.tenant("p");
    assert_eq!(
        stranger.get("/compat/v1/plans").await.expect(401).text(),
        "Authentication required"
    );
    // The policy of an operation holds for every path to it.
    tenant.get("/compat/v1/groups").await.expect(401);
    tenant.put("/compat/v1/plans/s", json!({"action": "migrate"})).await.expect(401);
    let answer = tenant.ask("OPTIONS", "/compat/v1/plans", None).await.expect(204);
    assert_eq!(answer.header("allow"), "GET,POST");
    let answer = tenant.ask("PATCH", "/compat/v1/plans", None).await;
    assert_eq!((answer.status, answer.header("allow")), (405, "GET,POST"));
    assert_eq!(tenant.get("/compat/v1/plans/s").await.explanation(404), "Plan not found");
    tenant.get("/compat/v1/nothing").await.explanation(404);
    tenant.get("/compat/compat/v1/plans").await.explanation(404);
    tenant.get("/compatible/v1/plans").await.explanation(404);
    tenant.post("/compat/v1/plans", json!({"plan_name": "x"})).await.explanation(400);
    tenant.ask("HEAD", "/compat/v1/status", None).await.expect(204);
    let status = tenant.get("/compat/v1/status/").await.expect(200).json();
    assert_eq!(status["status"]["ostro"]["status"]["type"], "ok");
}
