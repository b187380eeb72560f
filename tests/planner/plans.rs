//! Plans: making, showing, listing and deleting them.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Host, Site};
use crate::stack::{
    allocations, bare, create, finish, flavored, group, having, host, hosts, placement, placements,
    plan, reserve, server, show, store_group, usages, vcpus,
};

const STACK: &str = "e624474b-fc80-4053-ab5f-45cc1030e692";
const INSTANCE: &str = "b71bedad-dd57-4942-a7bd-ab074b72d652";

/// The seed's request.
pub fn sample() -> Value {
    json!({
        "plan_name": STACK,
        "resources": {
            INSTANCE: {
                "properties": {
                    "flavor": "m1.small",
                    "image": "ubuntu12_04",
                    "key_name": "demo",
                    "networks": [{"network": "demo-net"}],
                },
                "type": "OS::Nova::Server",
                "name": "my_instance",
            },
        },
        "stack_id": STACK,
        "timeout": "60 sec",
    })
}

/// A site of which the seed's server fits on `qos103` only.
pub async fn sample_site() -> Site {
    let site = Site::new().await;
    let host = |name, size| Host { name, size, traits: &[] };
    site.hosts(&[
        host("qos101", [1, 1024, 20]),
        host("qos102", [1, 2048, 19]),
        host("qos103", [2, 4096, 40]),
    ])
    .await;
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn r39_create_a_plan_as_the_seed_does() {
    let site = sample_site().await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let mut made = tenant.post("/v1/plans", sample()).await.expect(201).json();
    let shown = show(&tenant, STACK).await;
    assert_eq!(shown, made);
    let id = made["id"].take();
    assert!(Uuid::parse_str(id.as_str().unwrap()).is_ok_and(|id| id.get_version_num() == 4));
    let expected = json!({
        "stack_id": STACK,
        "id": null,
        "placements": {INSTANCE: {"location": "qos103", "name": "my_instance"}},
        "name": STACK,
    });
    let drawn = &made["placements"][INSTANCE]["allocations"].as_object().unwrap();
    let (provider, amounts) = drawn.iter().next().unwrap();
    let found = site.placement().get(&format!("/resource_providers/{provider}")).await.json();
    assert_eq!(found["name"], "qos103");
    assert_eq!(amounts["resources"], json!({"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20}));
    let placement = placement(&tenant, made["placements"][INSTANCE]["id"].as_str().unwrap()).await;
    assert_eq!(placement["orchestration_id"], INSTANCE);
    assert_eq!(bare(&made), expected);
    assert_eq!(tenant.get("/v1/plans").await.expect(200).json(), json!([STACK]));
    let used = json!({"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20});
    assert_eq!(usages(&site).await["qos103"], used);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r39_a_hold_is_an_allocation_of_the_placement() {
    let site = Site::new().await;
    let provider = site.racks(1, 1, [4, 1, 1]).await[0].to_string();
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    create(&tenant, "stack", json!({"a": server("a", 3)})).await;
    let consumer = placement(&tenant, "a").await["id"].as_str().unwrap().to_owned();
    let held = site.placement().get(&format!("/allocations/{consumer}")).await.expect(200).json();
    assert_eq!(held["allocations"][&provider]["resources"], json!({"VCPU": 3}));
    assert_eq!((&held["project_id"], &held["consumer_type"]), (&json!("p"), &json!("VALET_PLAN")));
    finish(&site, &before).await;
    assert_eq!(allocations(&site, &consumer).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn r39_ids_of_callers_need_not_be_uuids() {
    let site = Site::new().await;
    site.racks(1, 1, [9, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let odd = "68f61b2-26f3-cbc1-7981-5f52c937c0cd";
    let resources = json!({odd: server("a", 1), "ä 1/%": server("b", 1), "A": server("c", 1)});
    let made = create(&tenant, "stack 1/ä", resources).await;
    assert_eq!(hosts(&made).len(), 3);
    assert_eq!(show(&tenant, "stack%201%2F%C3%A4").await, made);
    assert_eq!(placement(&tenant, "%C3%A4%201%2F%25").await["name"], "b");
    assert_eq!(placement(&tenant, odd).await["orchestration_id"], odd);
    // Whatever is no UUID is compared as it is.
    tenant.get("/v1/placements/a").await.explanation(404);
    tenant.delete("/v1/plans/stack%201%2F%C3%A4").await.expect(204);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r39_a_uuid_in_another_spelling_is_the_same_id() {
    let site = sample_site().await;
    let tenant = site.tenant("p");
    let made = tenant.post("/v1/plans", sample()).await.expect(201).json();
    let spellings = |id: &str| [id.to_uppercase(), id.replace('-', ""), format!("%7B{id}%7D")];
    for stack in spellings(STACK).iter().chain(&spellings(made["id"].as_str().unwrap())) {
        assert_eq!(show(&tenant, stack).await, made);
    }
    for instance in spellings(INSTANCE) {
        assert_eq!(placement(&tenant, &instance).await["orchestration_id"], INSTANCE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r39_what_does_not_fit_is_explained_and_not_stored() {
    let site = Site::new().await;
    site.racks(2, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let large = json!({"a": server("a", 1), "b": server("b", 5)});
    let answer = tenant.post("/v1/plans", plan("stack", large)).await;
    let why = answer.explanation(409);
    assert!(why.starts_with("Ostro error: ") && why.contains('b'), "{why}");
    let detail = &answer.json()["detail"][0];
    assert_eq!(detail["constraint"], "capacity");
    assert_eq!(detail["servers"], json!(["b"]));
    assert_eq!(tenant.get("/v1/plans").await.expect(200).json(), json!([]));
    tenant.get("/v1/plans/stack").await.explanation(404);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r39_a_flavor_is_known_by_name_or_id() {
    let site = Site::new().await;
    site.racks(1, 1, [9, 90_000, 900]).await;
    let tenant = site.tenant("p");
    for (nth, (flavor, vcpus)) in
        [(json!("m1.medium"), 2), (json!("4"), 4), (json!(1), 1)].into_iter().enumerate()
    {
        let stack = format!("stack{nth}");
        let mut resource = flavored("a", "");
        resource["properties"]["flavor"] = flavor;
        create(&tenant, &stack, json!({stack.as_str(): resource})).await;
        assert_eq!(usages(&site).await["r01h01"]["VCPU"], vcpus);
        tenant.delete(&format!("/v1/plans/{stack}")).await.expect(204);
    }
    let body = plan("stack", json!({"a": flavored("a", "m1.mighty")}));
    let why = tenant.post("/v1/plans", body).await.explanation(400);
    assert_eq!(why, "Valet error: flavor 'm1.mighty' not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn r40_locations_of_a_plan_and_of_a_resource() {
    let site = Site::new().await;
    site.racks(1, 4, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let within = |list: Value, resources: Value| {
        let mut body = plan("stack", resources);
        body["locations"] = list;
        body
    };
    let free = json!({"a": server("a", 1), "b": server("b", 1)});
    let made = tenant.post("/v1/plans", within(json!(["r01h03"]), free.clone())).await.expect(201);
    assert_eq!(vcpus(&site).await, [("r01h03".to_owned(), 2)].into());
    assert_eq!(host(&made.json(), "a"), "r01h03");
    finish(&site, &before).await;
    // One of its own counts beside that of the plan.
    let own = json!({
        "a": having(server("a", 1), "locations", json!(["r01h02", "r01h04"])),
        "b": server("b", 4),
    });
    let list = json!(["r01h03", "r01h04"]);
    let made = tenant.post("/v1/plans", within(list, own)).await.expect(201).json();
    assert_eq!((host(&made, "a"), host(&made, "b")), ("r01h04".to_owned(), "r01h03".to_owned()));
    finish(&site, &before).await;
    for list in [json!([]), json!(["elsewhere"])] {
        let why = tenant.post("/v1/plans", within(list, free.clone())).await.explanation(409);
        assert!(why.starts_with("Ostro error: "), "{why}");
    }
    // The key takes a list of names, not a part of a name.
    tenant.post("/v1/plans", within(json!("r01h03"), free)).await.explanation(400);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r41_timeouts() {
    let site = Site::new().await;
    site.racks(1, 1, [99, 1, 1]).await;
    let tenant = site.tenant("p");
    let body = |nth: usize, timeout: &Value| {
        let id = format!("s{nth}");
        let mut body = plan(&id, json!({id.as_str(): server("a", 1)}));
        body["timeout"] = timeout.clone();
        body
    };
    for (nth, good) in ["60 sec", "60", "60s", "1 min", " 5 sec ", "9999 min"].iter().enumerate() {
        tenant.post("/v1/plans", body(nth, &json!(good))).await.expect(201);
    }
    for bad in [json!(60), json!(""), json!("soon"), json!("-1 sec"), json!("1 hour"), json!(null)]
    {
        let why = tenant.post("/v1/plans", body(99, &bad)).await.explanation(400);
        assert!(why.starts_with("-> timeout -> "), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r42_list_plans_by_their_names() {
    let site = Site::new().await;
    site.racks(1, 1, [99, 1, 1]).await;
    let tenant = site.tenant("p");
    let list = async || tenant.get("/v1/plans").await.expect(200).json();
    assert_eq!(list().await, json!([]));
    let mut names = Vec::new();
    for nth in 0..20 {
        let mut body = plan(&format!("stack{nth}"), json!({"a": server("a", 1)}));
        body["plan_name"] = json!(format!("plan{}", 20 - nth));
        names.push(body["plan_name"].clone());
        tenant.post("/v1/plans", body).await.expect(201);
        assert_eq!(list().await, json!(names));
    }
    // A plan is found by the id of its stack; its name is only a label.
    tenant.get("/v1/plans/plan20").await.explanation(404);
    assert_eq!(show(&tenant, "stack0").await["name"], "plan20");
}

#[tokio::test(flavor = "multi_thread")]
async fn r43_show_a_plan_by_its_id_or_that_of_its_stack() {
    let site = Site::new().await;
    site.racks(1, 2, [2, 1, 1]).await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "stack", json!({"a": server("x", 2), "b": server("y", 2)})).await;
    for path in ["/v1/plans/stack", "/v1/plans/stack/"] {
        assert_eq!(tenant.get(path).await.expect(200).json(), made);
    }
    assert_eq!(show(&tenant, made["id"].as_str().unwrap()).await, made);
    assert_eq!(made["placements"]["a"]["name"], "x");
    assert_ne!(host(&made, "a"), host(&made, "b"));
    for missing in [Uuid::new_v4().to_string(), "Stack".to_owned()] {
        let why = tenant.get(&format!("/v1/plans/{missing}")).await.explanation(404);
        assert_eq!(why, "Plan not found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r48_delete_a_plan() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let resources = json!({"a": server("a", 3), "b": server("b", 3)});
    let made = create(&tenant, "stack", resources.clone()).await;
    let path = format!("/v1/plans/{}", made["id"].as_str().unwrap());
    let gone = tenant.delete(&path).await.expect(204);
    assert!(gone.body.is_empty() && gone.headers.get("content-type").is_none());
    assert_eq!(usages(&site).await, before);
    assert_eq!(placements(&tenant).await, json!([]));
    for path in [path.as_str(), "/v1/plans/stack"] {
        assert_eq!(tenant.delete(path).await.explanation(404), "Plan not found");
        assert_eq!(tenant.get(path).await.explanation(404), "Plan not found");
    }
    // The stack is free for a new plan.
    let anew = create(&tenant, "stack", resources).await;
    assert_ne!(anew["id"], made["id"]);
    tenant.delete("/v1/plans/stack/").await.expect(204);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r49_a_plan_with_nothing_to_place() {
    let site = Site::new().await;
    site.racks(1, 1, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let network = json!({"net": {"type": "OS::Neutron::Net", "properties": {"name": "n"}}});
    for (stack, resources) in [("s0", json!({})), ("s1", network)] {
        let made = create(&tenant, stack, resources.clone()).await;
        assert_eq!(made["placements"], json!({}));
        assert_eq!(show(&tenant, stack).await, made);
        assert_eq!(create(&tenant, stack, resources).await, made);
        let body = json!({"action": "update", "resources": {stack: server("a", 1)}});
        let path = format!("/v1/plans/{stack}");
        let updated = tenant.put(&path, body).await.expect(201).json();
        assert_eq!(host(&updated, stack), "r01h01");
    }
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r50_a_plan_for_one_instance() {
    let site = Site::new().await;
    site.racks(1, 3, [4, 9999, 99]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let instance = Uuid::new_v4().to_string();
    let body = |locations: &[&str]| {
        json!({
            "plan_name": instance,
            "stack_id": instance,
            "locations": locations,
            "timeout": "60 sec",
            "resources": {instance.as_str(): {
                "type": "OS::Nova::Server",
                "name": "ad_hoc_instance",
                "properties": {"flavor": "m1.small", "availability_zone": null},
            }},
        })
    };
    let made = tenant.post("/v1/plans", body(&["r01h02", "r01h03"])).await.expect(201).json();
    assert!(["r01h02", "r01h03"].contains(&host(&made, &instance).as_str()));
    // A scheduler that tries again, with other hosts left, gets one of those.
    let again = tenant.post("/v1/plans", body(&["r01h01"])).await.expect(201).json();
    assert_eq!((&again["id"], host(&again, &instance).as_str()), (&made["id"], "r01h01"));
    assert_eq!(vcpus(&site).await, [("r01h01".to_owned(), 1)].into());
    tenant.post("/v1/plans", body(&["elsewhere"])).await.explanation(409);
    assert_eq!(show(&tenant, &instance).await, again);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r86_a_repeated_plan_is_the_same() {
    let site = Site::new().await;
    site.racks(1, 3, [4, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let resources = json!({"a": server("a", 3), "b": server("b", 3)});
    let made = create(&tenant, "stack", resources.clone()).await;
    let booked = usages(&site).await;
    for _ in 0..3 {
        assert_eq!(create(&tenant, "stack", resources.clone()).await, made);
    }
    assert_eq!(usages(&site).await, booked);
    for other in [
        json!({"a": server("a", 3)}),
        json!({"a": server("a", 3), "b": server("b", 3), "c": server("c", 1)}),
        json!({"a": server("a", 3), "c": server("c", 3)}),
        json!({}),
    ] {
        let why = tenant.post("/v1/plans", plan("stack", other)).await.explanation(409);
        assert!(why.contains("PUT /v1/plans/"), "{why}");
    }
    // To another project the plan does not exist.
    let why = site.tenant("q").post("/v1/plans", plan("stack", resources)).await.explanation(409);
    assert!(!why.contains(made["id"].as_str().unwrap()), "{why}");
    assert_eq!((usages(&site).await, show(&tenant, "stack").await), (booked, made));
    finish(&site, &before).await;
}

/// A request that differs from the plan of its stack is refused, and the sentence says where it differs.
#[tokio::test(flavor = "multi_thread")]
async fn r86_a_repeated_plan_with_other_contents_is_refused() {
    let site = Site::new().await;
    site.racks(1, 3, [9, 1, 1]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    store_group(&site, "close", "affinity", "host", &[]).await;
    let resources = json!({
        "a": server("a", 4),
        "b": server("b", 1),
        "m": flavored("m", "tiny"),
        "g": group("diversity", "host", &["a", "b"]),
    });
    site.execute(
        "insert into flavors (name, flavor_id, vcpus, ram_mb, extra_specs) values
         ('tiny', 't', 1, 1, '{\"resources:MEMORY_MB\": \"0\"}'),
         ('wide', 'w', 2, 1, '{\"resources:MEMORY_MB\": \"0\"}')",
    )
    .await;
    let made = create(&tenant, "stack", resources.clone()).await;
    let id = made["id"].as_str().unwrap();
    let booked = usages(&site).await;
    let changed = |server: &str, property: &str, value: Value| {
        let mut other = resources.clone();
        other[server]["properties"][property] = value;
        other
    };
    let mut elsewhere = resources.clone();
    elsewhere["a"]["locations"] = json!(["r01h03"]);
    let mut more = resources.clone();
    more["c"] = server("c", 1);
    let valet = |groups: &[&str]| json!({"valet": {"groups": groups}});
    for (other, what) in [
        (
            changed("a", "resources", json!({"VCPU": 8})),
            format!("server 'a' is of VCPU 4 in plan {id} and of VCPU 8 in the request"),
        ),
        (
            changed("m", "flavor", json!("wide")),
            format!(
                "server 'm' is of flavor 'tiny' in plan {id} and of flavor 'wide' in the request"
            ),
        ),
        (
            changed("b", "required", json!(["HW_CPU_X86_AVX2"])),
            format!("server 'b' requires HW_CPU_X86_AVX2 in the request and not in plan {id}"),
        ),
        (
            changed("b", "metadata", valet(&["close"])),
            format!("server 'b' is in group close in the request and not in plan {id}"),
        ),
        (
            changed("g", "resources", json!(["a"])),
            format!("server 'b' is in group 'g' in plan {id} and not in the request"),
        ),
        (elsewhere, format!("server 'a' has locations in the request and not in plan {id}")),
        (more, format!("server 'c' is in the request and not in plan {id}")),
    ] {
        let why = tenant.post("/v1/plans", plan("stack", other)).await.explanation(409);
        let expected = format!(
            "Valet error: There is a plan for stack 'stack' already, and {what}; \
             change it with PUT /v1/plans/{id}"
        );
        assert_eq!(why, expected);
    }
    assert_eq!(create(&tenant, "stack", resources).await, made);
    assert_eq!((usages(&site).await, show(&tenant, "stack").await), (booked, made));
    finish(&site, &before).await;
}

/// A reserved server does not leave its host for locations that exclude it, so the request is refused.
#[tokio::test(flavor = "multi_thread")]
async fn r86_locations_that_exclude_a_reserved_server_are_refused() {
    let site = Site::new().await;
    site.racks(1, 2, [9, 1, 1]).await;
    let tenant = site.tenant("p");
    let resources = json!({"a": server("a", 4)});
    let made = create(&tenant, "stack", resources.clone()).await;
    let at = host(&made, "a");
    reserve(&tenant, "a", &[&at]).await;
    let other = if at == "r01h01" { "r01h02" } else { "r01h01" };
    let mut limited = plan("stack", resources);
    limited["locations"] = json!([other]);
    let why = tenant.post("/v1/plans", limited).await.explanation(409);
    let what = format!("server 'a' is reserved on {at}, which is not among the locations");
    assert!(why.contains(&what), "{why}");
    assert_eq!(show(&tenant, "stack").await, made);
}

#[tokio::test(flavor = "multi_thread")]
async fn r86_a_repeated_plan_in_another_spelling_is_the_same() {
    let site = sample_site().await;
    let tenant = site.tenant("p");
    let made = tenant.post("/v1/plans", sample()).await.expect(201).json();
    let mut again = sample();
    again["stack_id"] = json!(STACK.to_uppercase());
    again["resources"] = json!({INSTANCE.replace('-', ""): again["resources"][INSTANCE]});
    assert_eq!(tenant.post("/v1/plans", again).await.expect(201).json(), made);
}

#[tokio::test(flavor = "multi_thread")]
async fn r86_concurrent_repeats_make_one_plan() {
    let site = Site::new().await;
    site.racks(1, 3, [9, 1, 1]).await;
    let before = usages(&site).await;
    let request = (0..10).map(|_| {
        let tenant = site.tenant("p");
        let resources = json!({"a": server("a", 2), "b": server("b", 1)});
        tokio::spawn(async move { create(&tenant, "stack", resources).await })
    });
    let mut plans = Vec::new();
    for made in request.collect::<Vec<_>>() {
        plans.push(made.await.unwrap());
    }
    assert!(plans.iter().all(|plan| *plan == plans[0]), "{plans:?}");
    assert_eq!(vcpus(&site).await.values().sum::<i64>(), 3);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r91_plans_outlive_the_server() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 1, 1]).await;
    let before = usages(&site).await;
    let made = create(&site.tenant("p"), "stack", json!({"a": server("a", 3)})).await;
    let shown = placements(&site.tenant("p")).await;
    let database = site.database.clone();
    drop(site);
    let site = Site::over(&database, berth::http::app::Options::default()).await;
    let tenant = site.tenant("p");
    assert_eq!(show(&tenant, "stack").await, made);
    assert_eq!(placements(&tenant).await, shown);
    let body = json!({"action": "update", "resources": {
        "a": server("a", 3), "b": server("b", 3),
    }});
    let updated = tenant.put("/v1/plans/stack", body).await.expect(201).json();
    assert_eq!(host(&updated, "a"), host(&made, "a"));
    finish(&site, &before).await;
}
