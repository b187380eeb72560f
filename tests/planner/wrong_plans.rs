//! Invalid plans and placements: each is refused with an explanation, and leaves nothing behind.

use serde_json::{Value, json};

use crate::site::{Asker, Site, SiteResponse};
use crate::stack::{
    Usages, create, finish, group, having, placements, plan, server, show, usages, with,
};

/// Values of every kind, and some that are hard to bear.
fn values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5e300),
        json!(u64::MAX),
        json!(""),
        json!("x".repeat(70_000)),
        json!("a\u{0}b"),
        json!("\u{202e}\u{feff}"),
        json!([]),
        json!([[[[]]]]),
        json!([null]),
        json!([{"a": 1}]),
        json!({}),
        json!({"a": {"b": [1, {"c": null}]}}),
        json!({"a\u{0}": 1}),
    ]
}

async fn site() -> (Site, Usages) {
    let site = Site::new().await;
    site.racks(1, 2, [9, 9_000, 90]).await;
    let before = usages(&site).await;
    (site, before)
}

/// Fails unless an answer is a good one, or an error in words.
#[track_caller]
fn check_response(answer: &SiteResponse, request: &str) {
    let request = request.chars().take(300).collect::<String>();
    assert!([200, 201, 400, 409].contains(&answer.status), "{request}: {}", answer.text());
    if answer.status >= 400 {
        let why = answer.explanation(answer.status);
        assert!(!why.is_empty() && why.len() < 4000, "{request}: {why}");
    }
    if request.contains("\\u0000") {
        assert_eq!(answer.status, 400, "{request}");
    }
}

/// A plan that uses all there is, from which single values are replaced.
fn whole() -> Value {
    let mut body = plan(
        "stack",
        json!({
            "a": {
                "type": "OS::Nova::Server",
                "name": "a",
                "properties": {
                    "resources": {"VCPU": 1},
                    "required": [],
                    "forbidden": [],
                    "availability_zone": null,
                    "metadata": {"valet": {"groups": []}},
                },
                "metadata": {"k": "v"},
                "locations": ["r01h01", "r01h02"],
                "resource_id": null,
            },
            "g": with(group("affinity", "host", &["a"]), "group_name", json!(null)),
        }),
    );
    body["locations"] = json!(["r01h01", "r01h02"]);
    body["policy"] = json!({"name": "spread", "level": "rack"});
    body["timeout"] = json!("60 sec");
    body
}

/// Asks for it, and if it was granted takes it back.
async fn try_plan(tenant: &Asker, body: &Value) -> u16 {
    let text = body.to_string();
    let answer = tenant.ask("POST", "/v1/plans", Some(text.clone().into_bytes())).await;
    check_response(&answer, &text);
    if answer.status == 201 {
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        tenant.delete(&format!("/v1/plans/{id}")).await.expect(204);
    }
    answer.status
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_a_plan_is_checked() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    assert_eq!(try_plan(&tenant, &whole()).await, 201);
    for value in values() {
        for key in [
            "plan_name",
            "stack_id",
            "resources",
            "timeout",
            "locations",
            "policy",
            "spread",
            "other",
        ] {
            let mut body = whole();
            if key == "spread" {
                body.as_object_mut().unwrap().remove("policy");
            }
            body[key] = value.clone();
            let status = try_plan(&tenant, &body).await;
            assert!(key != "other" || status == 400, "{key}: {value}");
        }
        for path in [
            "/resources/a",
            "/resources/other",
            "/resources/a/type",
            "/resources/a/name",
            "/resources/a/properties",
            "/resources/a/metadata",
            "/resources/a/locations",
            "/resources/a/resource_id",
            "/resources/a/other",
            "/resources/a/properties/resources",
            "/resources/a/properties/resources/VCPU",
            "/resources/a/properties/resources/OTHER",
            "/resources/a/properties/flavor",
            "/resources/a/properties/required",
            "/resources/a/properties/forbidden",
            "/resources/a/properties/availability_zone",
            "/resources/a/properties/metadata",
            "/resources/a/properties/metadata/valet",
            "/resources/a/properties/metadata/valet/groups",
            "/resources/g/properties",
            "/resources/g/properties/group_type",
            "/resources/g/properties/level",
            "/resources/g/properties/group_name",
            "/resources/g/properties/group",
            "/resources/g/properties/resources",
            "/resources/g/properties/resources/0",
        ] {
            let mut body = whole();
            let (outer, key) = path.rsplit_once('/').unwrap();
            let outer = body.pointer_mut(outer).unwrap();
            match outer.as_array_mut() {
                Some(items) => items[0] = value.clone(),
                None => outer[key] = value.clone(),
            }
            try_plan(&tenant, &body).await;
        }
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_an_update_and_of_a_placement_is_checked() {
    let (site, _) = site().await;
    let admin = site.admin();
    let made = create(&admin, "stack", json!({"a": server("a", 1)})).await;
    let list = placements(&admin).await;
    let booked = usages(&site).await;
    let update = json!({"action": "update", "resources": {"a": server("a", 1)},
                        "original_resources": {}, "excluded_hosts": [], "timeout": "1 min"});
    let migrate = json!({"action": "migrate", "resources": ["a"], "excluded_hosts": ["h"]});
    let add = json!({"plan_name": "stack", "stack_id": "stack", "resources": {},
                     "resources_update": {}, "timeout": "1 min"});
    let recommend = json!({"resource_id": "a", "locations": ["r01h01"], "excluded_hosts": []});
    let reserve = json!({"action": "reserve", "locations": ["no"], "resource_id": "r"});
    for value in values() {
        // Nothing of this is granted, lest it be found on the next turn.
        for (method, path, body) in [
            ("PUT", "/v1/plans/stack?dry_run=true", &update),
            ("PUT", "/v1/plans/stack?dry_run=true", &migrate),
            ("PUT", "/v1/plans/stack?dry_run=true", &add),
            ("POST", "/v1/placements", &recommend),
            ("POST", "/v1/placements/a", &reserve),
        ] {
            let keys = body.as_object().unwrap().keys().map(String::as_str);
            for key in keys.chain(["other"]).filter(|key| path.len() > 16 || *key != "locations") {
                let mut body = body.clone();
                body[key] = value.clone();
                let text = body.to_string();
                let answer = admin.ask(method, path, Some(text.clone().into_bytes())).await;
                if answer.status == 404 {
                    answer.explanation(404);
                    continue;
                }
                check_response(&answer, &text);
                assert!(key != "other" || answer.status == 400, "{path}: {text}");
            }
        }
    }
    assert_eq!((show(&admin, "stack").await, placements(&admin).await), (made, list));
    assert_eq!(usages(&site).await, booked);
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn meaningless_requests_get_the_reason() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    let a = || server("a", 1);
    let sized = |amounts: Value| with(a(), "resources", amounts);
    let with_group = |members: &[&str]| json!({"a": a(), "g": group("affinity", "host", members)});
    let id = "b71bedad-dd57-4942-a7bd-ab074b72d652";
    for (resources, status, words) in [
        (
            json!({"a": with(json!({"type": "OS::Nova::Server"}), "flavor", json!("no"))}),
            400,
            "flavor 'no' not found",
        ),
        (json!({"a": {"type": "OS::Nova::Server"}}), 400, "neither flavor nor resources"),
        (json!({"a": {"name": "a"}}), 400, "has no type"),
        (json!({"a": with(a(), "availability_zone", json!("mars"))}), 409, "Ostro error: "),
        (json!({"a": with(a(), "required", json!(["CUSTOM_NO"]))}), 400, "CUSTOM_NO"),
        (json!({"a": with(a(), "forbidden", json!(["CUSTOM_NO"]))}), 400, "CUSTOM_NO"),
        (
            json!({"a": with(with(a(), "required", json!(["HW_CPU_X86_AVX"])), "forbidden",
            json!(["HW_CPU_X86_AVX"]))}),
            400,
            "requires and forbids HW_CPU_X86_AVX",
        ),
        (json!({"a": sized(json!({"CUSTOM_NO": 1}))}), 400, "CUSTOM_NO"),
        (json!({"a": sized(json!({"VCPU": 0}))}), 400, "not an amount"),
        (json!({"a": sized(json!({"VCPU": -1}))}), 400, "not an amount"),
        (json!({"a": sized(json!({"VCPU": 1.5}))}), 400, "not an amount"),
        (json!({"a": sized(json!({"VCPU": "1"}))}), 400, "not an amount"),
        (json!({"a": sized(json!({"VCPU": 2_147_483_648_u64}))}), 400, "not an amount"),
        (json!({"a": sized(json!({"VCPU": 2_147_483_647}))}), 409, "Ostro error: "),
        (json!({"a": sized(json!({"FPGA": 1}))}), 409, "Ostro error: "),
        (with_group(&["a", "b"]), 400, "invalid resource = b"),
        (with_group(&["a", ""]), 400, "invalid resource = "),
        (
            json!({"a": a(), "g": with(group("affinity", "host", &[]), "resources", json!("a"))}),
            400,
            "not of type array",
        ),
        (with_group(&["a", &"x".repeat(256)]), 400, "must be ids or names of resources"),
        (json!({"a": sized(json!({"X".repeat(256): 1}))}), 400, "name of a class is too long"),
        (json!({"": a()}), 400, "the id of a resource"),
        (json!({"x".repeat(256): a()}), 400, "the id of a resource"),
        (json!({"a": having(a(), "name", json!("x".repeat(256)))}), 400, "longer than 255"),
        (json!({"a": having(a(), "resource_id", json!("x".repeat(256)))}), 400, "longer than 255"),
        (json!({id: a(), id.to_uppercase(): a()}), 400, "is duplicated"),
        (json!({"a": having(a(), "locations", json!("r01h01"))}), 400, "not of type array"),
    ] {
        let body = plan("stack", resources);
        let answer = tenant.post("/v1/plans", body.clone()).await;
        let why = answer.explanation(status);
        assert!(why.contains(words), "{body}: {why}");
        assert_eq!(tenant.get("/v1/plans").await.expect(200).json(), json!([]));
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_may_be_there_twice_and_ids_may_be_long() {
    let (site, before) = site().await;
    let tenant = site.tenant("p");
    let long = "x".repeat(255);
    let twice = json!({"a": server(&long, 1), "b": server(&long, 1), long.as_str(): server("", 1)});
    let made = create(&tenant, &long, twice).await;
    assert_eq!(made["placements"].as_object().unwrap().len(), 3);
    assert_eq!(show(&tenant, &long).await, made);
    // A server without a name is called as its id is.
    assert_eq!(made["placements"][&long]["name"], json!(long));
    finish(&site, &before).await;
    for key in ["plan_name", "stack_id"] {
        let mut body = plan("stack", json!({}));
        body[key] = json!("x".repeat(256));
        tenant.post("/v1/plans", body).await.explanation(400);
    }
    let missing = "x".repeat(300);
    tenant.get(&format!("/v1/plans/{missing}")).await.explanation(404);
    tenant.get(&format!("/v1/placements/{missing}")).await.explanation(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_plans_and_placements_are_json_objects() {
    let (site, before) = site().await;
    let admin = site.admin();
    create(&admin, "stack", json!({"a": server("a", 1)})).await;
    let deep = format!("{{\"resources\": {}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let inside = format!(
        "{{\"plan_name\": \"x\", \"stack_id\": \"x\", \"resources\": {{\"a\": {}1{}}}}}",
        "{\"a\":".repeat(120),
        "}".repeat(120)
    );
    for (method, path) in [
        ("POST", "/v1/plans"),
        ("PUT", "/v1/plans/stack"),
        ("POST", "/v1/placements"),
        ("POST", "/v1/placements/a"),
    ] {
        for empty in ["", " ", "\n"] {
            let why = admin.ask(method, path, Some(empty.into())).await.explanation(400);
            assert_eq!(why, "No JSON object could be decoded");
        }
        for bad in [
            b"{".to_vec(),
            b"[]".to_vec(),
            b"null".to_vec(),
            b"\"stack\"".to_vec(),
            b"{\"stack_id\": 1e999}".to_vec(),
            b"{\"stack_id\": \"\\ud800\"}".to_vec(),
            b"{\"stack_id\": \"\xff\"}".to_vec(),
            deep.clone().into_bytes(),
            inside.clone().into_bytes(),
        ] {
            admin.ask(method, path, Some(bad)).await.explanation(400);
        }
        // The content type does not matter.
        let odd = admin.clone().header("content-type", "text/html").header("accept", "image/png");
        odd.ask(method, path, Some(b"{\"x\": 1}".to_vec())).await.explanation(400);
    }
    for path in ["/v1/plans/%00", "/v1/placements/%ff", "/v1/placements?a=%00", "/v1/plans?%ff"] {
        admin.get(path).await.explanation(400);
    }
    finish(&site, &before).await;
}
