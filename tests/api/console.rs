//! The console: pages below `/ui`.

use axum::body::Body;
use axum::http::{Method, Request};
use berth::auth::policy::{Policy, Source};
use berth::http::app::Options;
use http_body_util::BodyExt;
use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::support::app::{ApiResponse, Berth};
use crate::support::cloud::{Host, claim_body};
use crate::support::postgres;

/// The name of a provider that would end its element if a page did not escape it.
const HOSTILE: &str = "</a><script>alert('&\"')</script>";
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

async fn with_console() -> Berth {
    over(&postgres::database().await).await
}

async fn over(database: &PgConnectOptions) -> Berth {
    Berth::with(database, Options { console: true, ..Options::default() }).await
}

/// Two hosts in a rack, one of them full, and one with a hostile name and a device elsewhere.
async fn cloud() -> (Berth, [Host; 3], Uuid) {
    let berth = with_console().await;
    berth.put("/traits/CUSTOM_RACK_R1", json!({})).await.expect(201);
    let full = berth.host("cn-full", &[("VCPU", 8), ("MEMORY_MB", 4096)]).await;
    let free = berth.host("cn-free", &[("VCPU", 16), ("MEMORY_MB", 8192)]).await;
    let hostile = berth.host(HOSTILE, &[("DISK_GB", 1000)]).await;
    berth.child("device", Some(hostile), &[("VGPU", 4)]).await;
    for host in [full, free] {
        let traits = json!({"resource_provider_generation": 1, "traits": ["CUSTOM_RACK_R1"]});
        berth.put(&format!("/resource_providers/{}/traits", host.0), traits).await.expect(200);
    }
    let consumer = Uuid::new_v4();
    let claim = claim_body(None, &[(full, "VCPU", 8), (full, "MEMORY_MB", 1024)]);
    berth.put(&format!("/allocations/{consumer}"), claim).await.expect(204);
    (berth, [full, free, hostile], consumer)
}

async fn page(berth: &Berth, path: &str) -> String {
    let response = berth.get(path).await.expect(200);
    assert_eq!(response.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(response.headers["content-security-policy"], POLICY);
    assert_eq!(response.headers["cache-control"], "no-store");
    let text = response.text();
    assert!(!text.contains("<script") && !text.contains(" style=") && !text.contains(" onclick="));
    text
}

/// Sends a request with these headers and no others.
async fn send(
    berth: &Berth,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    form: &str,
) -> ApiResponse {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = berth.answer(request.body(Body::from(form.to_owned())).unwrap()).await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    ApiResponse { status: parts.status.as_u16(), headers: parts.headers, body }
}

#[tokio::test]
async fn without_the_option_there_is_no_console() {
    let berth = Berth::new().await;
    berth.get("/ui").await.expect(404);
    berth.get("/ui/style.css").await.expect(404);
}

#[tokio::test]
async fn the_cloud_shows_hosts_in_their_areas_with_sums() {
    let (berth, [full, ..], _) = cloud().await;
    let text = page(&berth, "/ui").await;
    assert!(text.contains("<b>3</b> hosts, with <b>4</b> resource providers."), "{text}");
    assert!(text.contains(">rack r1</a> <small>2 hosts</small>"), "{text}");
    assert!(text.contains(">in no known rack</a> <small>1 host</small>"), "{text}");
    let cell = format!("<a class=\"full\" href=\"/ui/providers/{}\">cn-full <small>100 %", full.0);
    assert!(text.contains(&cell), "{text}");
    assert!(text.contains("&#60;/a&#62;&#60;script&#62;"), "{text}");
    // The sums of VCPU: used, capacity and free.
    assert!(text.contains("<td class=\"n\">8</td><td class=\"n\">24</td><td class=\"n\">16</td>"));
    // The free memory beside a class that is full.
    assert!(text.contains("<td class=\"n\">11,264</td><td class=\"n\">3,072</td>"), "{text}");
    let pool = berth.host("pool", &[("DISK_GB", 1000)]).await;
    let shares =
        json!({"resource_provider_generation": 1, "traits": ["MISC_SHARES_VIA_AGGREGATE"]});
    berth.put(&format!("/resource_providers/{}/traits", pool.0), shares).await.expect(200);
    let text = page(&berth, "/ui").await;
    assert!(text.contains("<b>3</b> hosts and <b>1</b> shared pool, with <b>5</b>"), "{text}");
}

#[tokio::test]
async fn hosts_are_found_by_name_uuid_trait_aggregate_and_class() {
    let (berth, [full, free, _], consumer) = cloud().await;
    let aggregate = "0a660000-0000-4000-8000-000000000001";
    let body = json!({"resource_provider_generation": 2, "aggregates": [aggregate]});
    berth.put(&format!("/resource_providers/{}/aggregates", free.0), body).await.expect(200);
    let uuid = full.0.to_string();
    for (find, hosts) in [
        ("CN-", 2),
        (uuid.as_str(), 1),
        ("CUSTOM_RACK_R1", 2),
        ("custom_rack_r1", 2),
        (aggregate, 1),
        ("VGPU", 1),
        ("%3Cscript", 1),
        ("nothing+has+this", 0),
    ] {
        let text = page(&berth, &format!("/ui?find={find}")).await;
        assert!(text.contains(&format!("<b>{hosts}</b> host")), "{find}: {text}");
    }
    let text = page(&berth, "/ui?find=some-project").await;
    assert!(text.contains("/ui/projects/some-project"), "{text}");
    let found = berth.get(&format!("/ui?find={consumer}")).await.expect(303);
    assert_eq!(found.headers["location"], format!("/ui/consumers/{consumer}"));
    let text = page(&berth, "/ui?by=rack&area=r1&order=fullest").await;
    assert!(text.contains("<h1>Hosts in r1</h1>"), "{text}");
    assert!(text.find("cn-full").unwrap() < text.find("cn-free").unwrap());
    let text = page(&berth, "/ui?by=rack&area=r1&order=emptiest").await;
    assert!(text.find("cn-free").unwrap() < text.find("cn-full").unwrap());
    let wrong = berth.get("/ui?class=NO_SUCH").await.expect(400).text();
    assert!(wrong.contains("There is no resource class NO_SUCH."), "{wrong}");
}

#[tokio::test]
async fn a_provider_shows_its_tree_and_its_consumers() {
    let (berth, [full, _, hostile], consumer) = cloud().await;
    let text = page(&berth, &format!("/ui/providers/{}", full.0)).await;
    assert!(text.contains(&format!("/ui/consumers/{consumer}")), "{text}");
    assert!(text.contains("8 VCPU, 1,024 MEMORY_MB"), "{text}");
    assert!(text.contains("/ui?find=CUSTOM_RACK_R1"), "{text}");
    let device = berth.child("more", Some(hostile), &[("VGPU", 4)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(device, "VGPU", 1)]).await.expect(204);
    // The consumers of providers below it as well.
    let text = page(&berth, &format!("/ui/providers/{}", hostile.0)).await;
    assert!(text.contains(">device</a> <small>generation 1</small>"), "{text}");
    assert!(text.contains(&format!("/ui/consumers/{consumer}")), "{text}");
    assert!(text.contains("1 VGPU of"), "{text}");
    let unknown = Uuid::new_v4();
    let text = berth.get(&format!("/ui/providers/{unknown}")).await.expect(404).text();
    assert!(text.contains(&format!("There is no resource provider {unknown}.")), "{text}");
    berth.get("/ui/providers/%3Cscript%3E").await.expect(404);
    berth.get("/ui/nothing").await.expect(404);
}

#[tokio::test]
async fn long_lists_are_cut_off() {
    let berth = with_console().await;
    let host = berth.host("cn", &[("VCPU", 8)]).await;
    let traits: Vec<String> = (0..62).map(|nth| format!("CUSTOM_{nth}")).collect();
    for name in &traits {
        berth.put(&format!("/traits/{name}"), json!({})).await.expect(201);
    }
    let body = json!({"resource_provider_generation": 1, "traits": traits});
    berth.put(&format!("/resource_providers/{}/traits", host.0), body).await.expect(200);
    let text = page(&berth, &format!("/ui/providers/{}", host.0)).await;
    assert_eq!(text.matches("/ui?find=CUSTOM_").count(), 60, "{text}");
    assert!(text.contains("<li>and 2 more</li>"), "{text}");
}

#[tokio::test]
async fn a_consumer_and_its_project_show_their_allocations() {
    let (berth, [full, ..], consumer) = cloud().await;
    let text = page(&berth, &format!("/ui/consumers/{consumer}")).await;
    assert!(text.contains(&format!("/ui/providers/{}\">cn-full</a>", full.0)), "{text}");
    let project = text.split("/ui/projects/").nth(1).unwrap().split('"').next().unwrap();
    let text = page(&berth, &format!("/ui/projects/{project}")).await;
    assert!(text.contains(&consumer.to_string()), "{text}");
    assert!(text.contains("8 VCPU, 1,024 MEMORY_MB"), "{text}");
    berth.get(&format!("/ui/consumers/{}", Uuid::new_v4())).await.expect(404);
    let text = page(&berth, "/ui/projects/none%2F%22").await;
    assert!(text.contains("No consumer of this project has allocations."), "{text}");
}

#[tokio::test]
async fn a_query_shows_its_candidates_and_its_explanation() {
    let (berth, ..) = cloud().await;
    assert!(page(&berth, "/ui/why").await.contains("<option value=\"VGPU\">"));
    let text = page(&berth, "/ui/why?amount0=4").await;
    assert!(text.contains("<b>1</b> of 3 hosts fit."), "{text}");
    assert!(
        text.contains(">cn-free</a></h3>") && text.contains("takes 4 VCPU of 16 free"),
        "{text}"
    );
    assert!(text.contains("/allocation_candidates?resources=VCPU%3A4"), "{text}");
    let nothing = "/ui/why?query=resources%3DVCPU:17%26required%3DCUSTOM_RACK_R1";
    let text = page(&berth, nothing).await;
    assert!(text.contains("<b>0</b> of 3 hosts fit."), "{text}");
    assert!(text.contains("at most 16 in a provider of cn-free (0 of 16 used)"), "{text}");
    let wrong = berth.get("/ui/why?query=resources%3DNO_SUCH:1").await.expect(400).text();
    assert!(
        wrong.contains("NO_SUCH") && wrong.contains("resources=NO_SUCH:1</textarea>"),
        "{wrong}"
    );
    let wrong = berth.get("/ui/why?query=No+valid+host+was+found").await.expect(400).text();
    assert!(wrong.contains("This has no amounts of resources."), "{wrong}");
    berth.get("/ui/why?class0=VGPU&amount0=").await.expect(400);
}

#[tokio::test]
async fn a_query_that_found_nothing_is_shown_by_its_id() {
    let (berth, ..) = cloud().await;
    let found = berth.get("/allocation_candidates?resources=VCPU:17").await.expect(200);
    let id = found.headers["x-openstack-request-id"].to_str().unwrap().to_owned();
    let path = format!("/ui/why?query={id}");
    // The reasons are counted beside the response.
    let text = loop {
        let text = page(&berth, &path).await;
        if !text.contains("pending") {
            break text;
        }
        tokio::task::yield_now().await;
    };
    assert!(text.contains("/allocation_candidates?resources=VCPU:17"), "{text}");
    assert!(text.contains("<b>0</b> of 3 hosts fit."), "{text}");
    berth.get("/ui/why?query=req-unknown").await.expect(404);
    berth.get("/ui/why?query=req-unknown&path=req-other?").await.expect(404);
    let elsewhere = "/ui/why?query=req-unknown&path=/allocation_candidates?resources%3DVCPU:17";
    let text = page(&berth, elsewhere).await;
    assert!(text.contains("This replica has not kept the request"), "{text}");
    assert!(text.contains("<b>0</b> of 3 hosts fit."), "{text}");
}

#[tokio::test]
async fn a_browser_signs_in_with_a_token_and_out_again() {
    let (berth, ..) = cloud().await;
    let host = ("host", "cloud.example");
    let get = async |path, headers: &[_]| send(&berth, (Method::GET, path), headers, "").await;
    let text = get("/ui/why?amount0=1", &[host]).await.expect(401).text();
    assert!(text.contains("name=\"next\" value=\"/ui/why?amount0=1\""), "{text}");
    let form = "token=admin&next=%2Fui%2Fwhy%3Famount0%3D1";
    let post = async |path, headers: &[_]| send(&berth, (Method::POST, path), headers, form).await;
    let signed_in = post("/ui/sign-in", &[host]).await.expect(303);
    assert_eq!(signed_in.headers["location"], "/ui/why?amount0=1");
    let cookie = "berth_token=admin; Path=/ui; HttpOnly; SameSite=Lax";
    assert_eq!(signed_in.headers["set-cookie"], cookie);
    let cookie = ("cookie", "berth_token=admin");
    get("/ui", &[host, cookie]).await.expect(200);
    // The API itself knows no cookie.
    get("/resource_providers", &[host, cookie]).await.expect(401);
    let out = post("/ui/sign-out", &[host, cookie]).await.expect(303);
    let deleted = "berth_token=; Path=/ui; HttpOnly; SameSite=Lax; Max-Age=0";
    assert_eq!(out.headers["set-cookie"], deleted);
    post("/ui/sign-in", &[host, ("sec-fetch-site", "cross-site")]).await.expect(403);
    let long = format!("token={}", "x".repeat(16 * 1024));
    send(&berth, (Method::POST, "/ui/sign-in"), &[host], &long).await.expect(413);
}

#[tokio::test]
async fn callers_of_this_machine_need_no_sign_in_without_authentication() {
    let (berth, ..) = cloud().await;
    let get = async |host| send(&berth, (Method::GET, "/ui"), &[("host", host)], "").await;
    for host in ["localhost:8778", "127.0.0.1:8778", "[::1]:8778"] {
        get(host).await.expect(200);
    }
    // A name that another site has pointed here.
    get("rebound.example").await.expect(401);
}

#[tokio::test]
async fn the_policy_decides_who_sees_what() {
    let (berth, [full, ..], _) = cloud().await;
    let reader = berth.header("x-auth-token", "reader:p").header("x-roles", "reader");
    let text = reader.get("/ui").await.expect(403).text();
    assert!(text.contains("<h1>Forbidden</h1>"), "{text}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.yaml");
    std::fs::write(&file, "'berth:providers:list': 'role:reader'\n").unwrap();
    let source = Source { file: Some(file), ..Source::defaults(true) };
    let (policy, _) = Policy::load(source).unwrap();
    let reader = reader.with_policy(policy);
    let text = page(&reader, &format!("/ui/providers/{}", full.0)).await;
    assert!(text.contains("The policy does not let you see consumers."), "{text}");
    reader.get("/ui/projects/p").await.expect(403);
}

#[tokio::test]
async fn the_present_is_shown_with_the_latest_refusals() {
    let (berth, ..) = cloud().await;
    let found = berth.get("/allocation_candidates?resources=VCPU:17").await.expect(200);
    let id = found.headers["x-openstack-request-id"].to_str().unwrap();
    let text = berth.get("/ui/now").await.expect(200).text();
    assert!(text.contains(&format!("/ui/why?query={id}")), "{text}");
    assert!(text.contains("<script type=\"module\" src=\"/ui/live.js\"></script>"), "{text}");
    let script = berth.get("/ui/live.js").await.expect(200);
    assert_eq!(script.headers["content-type"], "text/javascript; charset=utf-8");
}

#[tokio::test]
async fn pages_of_a_large_cloud_are_small() {
    let database = postgres::database().await;
    postgres::add_providers(&database, 3000).await;
    let berth = over(&database).await;
    for path in
        ["/ui", "/ui?page=2", "/ui?view=list", "/ui?view=list&page=60", "/ui?order=emptiest"]
    {
        let text = page(&berth, path).await;
        assert!(text.contains("<b>3,000</b> hosts"), "{path}: {text}");
        assert!(text.len() < 200_000, "{path}: {}", text.len());
    }
    assert!(page(&berth, "/ui?view=list&page=61").await.contains("Page 61 of 60"));
}

#[tokio::test]
async fn each_operation_of_the_api_has_a_page() {
    let berth = with_console().await;
    let list = page(&berth, "/ui/api").await;
    let paths = berth::http::openapi::document()["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|item| item.as_object().unwrap().values());
    for name in operations.filter_map(|it| it["operationId"].as_str()) {
        assert!(list.contains(&format!("/ui/api/{name}\"")), "{name}");
        let text = page(&berth, &format!("/ui/api/{name}")).await;
        assert!(text.len() < 200_000, "{name}: {}", text.len());
    }
    let text = page(&berth, "/ui/api/allocations_replace").await;
    for part in
        ["allocations_replace_body_1.38 · from 1.38", "allocations_replace_body · until 1.7"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    berth.get("/ui/api/nonsense").await.expect(404);
}

/// The resources of a stack: servers of two processors, and a group of them.
fn stack(servers: &[&str], level: &str) -> serde_json::Value {
    let server = json!({"type": "OS::Nova::Server", "properties": {"resources": {"VCPU": 2}}});
    let mut resources: serde_json::Map<_, _> =
        servers.iter().map(|name| ((*name).to_owned(), server.clone())).collect();
    let group = json!({"group_type": "diversity", "level": level, "resources": servers});
    let group = json!({"type": "ATT::Valet::GroupAssignment", "properties": group});
    resources.insert("apart".to_owned(), group);
    resources.into()
}

/// Sends the form for a dry run.
async fn dry_run(berth: &Berth, stack: &str) -> ApiResponse {
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("stack", stack)
        .append_pair("goal", "spread")
        .finish();
    berth.ask(Method::POST, "/ui/plans", Some(form.into_bytes())).await
}

#[tokio::test]
async fn a_plan_is_drawn_on_racks_and_hosts_with_its_groups() {
    let (berth, ..) = cloud().await;
    berth.host("cn-more", &[("VCPU", 16)]).await;
    assert!(page(&berth, "/ui/plans").await.contains("There are no plans yet"));
    let body =
        json!({"plan_name": HOSTILE, "stack_id": "s", "resources": stack(&["one", "two"], "host")});
    let planned = berth.planner().post("/v1/plans", body).await.expect(201).json();
    let list = page(&berth, "/ui/plans").await;
    let path = format!("/ui/plans/{}", planned["id"].as_str().unwrap());
    assert!(list.contains(&path) && !list.contains(HOSTILE), "{list}");
    let text = page(&berth, &path).await;
    for part in [
        "Rack r1",
        "cn-free",
        "No rack",
        "cn-more",
        "<b>one</b>",
        "<b>two</b>",
        "diversity of hosts",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    berth.header("x-auth-token", "other:other").get(&path).await.expect(403);
    berth.get("/ui/plans/nonsense").await.expect(404);
}

#[tokio::test]
async fn a_dry_run_shows_hosts_or_what_contradicts_and_writes_nothing() {
    let (berth, ..) = cloud().await;
    berth.host("cn-more", &[("VCPU", 16)]).await;
    let found =
        dry_run(&berth, &stack(&["one", "two"], "host").to_string()).await.expect(200).text();
    assert!(found.contains("There are hosts for the stack, and no placement is better"), "{found}");
    assert!(found.contains("cn-more") && found.contains("cn-free"), "{found}");
    let body = json!({"plan_name": "p", "resources": stack(&["one", "two"], "rack")});
    let refused = dry_run(&berth, &body.to_string()).await.expect(200).text();
    assert!(refused.contains("diversity group apart needs 2 racks for one, two"), "{refused}");
    for (wrong, why) in [("{", "EOF while parsing"), ("[]", "it is no JSON object")] {
        let text = dry_run(&berth, wrong).await.expect(400).text();
        assert!(text.contains(why) && text.contains("<textarea name=\"stack\""), "{text}");
    }
    let other_site = berth.header("sec-fetch-site", "cross-site");
    dry_run(&other_site, "{}").await.expect(403);
    assert!(page(&berth, "/ui/plans").await.contains("There are no plans yet"));
}

#[tokio::test]
async fn hosts_whose_free_capacity_nothing_can_use_are_counted_and_listed_first() {
    let (berth, [full, ..], _) = cloud().await;
    let before = page(&berth, "/ui").await;
    assert!(before.contains("<b>1</b> host</a> a class is full while another is free"), "{before}");
    let list = page(&berth, "/ui?view=list&order=stranded").await;
    let first = list.split("<tr><th scope=\"row\"><a href=\"/ui/providers/").nth(1).unwrap();
    assert!(first.starts_with(&full.0.to_string()), "{list}");
}
