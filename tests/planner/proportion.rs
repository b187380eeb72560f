//! The work of each query and body at the largest accepted size, counted in allocations on the
//! thread that serves requests instead of time.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::site::{Asker, Site, SiteResponse};
use crate::stack::{create, group, having, plan, server, with};

/// A request of some size.
struct Load {
    name: &'static str,
    /// Number of its repeated parts, for about the largest accepted length.
    size: usize,
    make: fn(usize) -> (&'static str, String, Option<Value>),
    statuses: &'static [u16],
}

fn load(
    name: &'static str,
    size: usize,
    statuses: &'static [u16],
    make: fn(usize) -> (&'static str, String, Option<Value>),
) -> Load {
    Load { name, size, make, statuses }
}

fn numbered(count: usize, value: impl Fn(usize) -> Value, from: &str) -> Value {
    (0..count).map(|nth| (format!("{from}{nth:05}"), value(nth))).collect::<Map<_, _>>().into()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|nth| format!("host-{nth:05}")).collect()
}

fn volumes(count: usize, from: &str) -> Value {
    numbered(count, |_| json!({"type": "OS::Cinder::Volume"}), from)
}

fn flavored(count: usize) -> Value {
    let it = |_| json!({"type": "OS::Nova::Server", "properties": {"flavor": "none"}});
    numbered(count, it, "s")
}

fn pairs(count: usize, pair: impl Fn(usize) -> String) -> String {
    (0..count).map(pair).collect::<Vec<_>>().join("&")
}

/// A request that adds resources to the plan `v`, or changes some of them.
fn adding(resources: &Value, update: &Value) -> (&'static str, String, Option<Value>) {
    let mut body = json!({"plan_name": "v", "stack_id": "v"});
    body["resources"] = resources.clone();
    body["resources_update"] = update.clone();
    ("PUT", "/v1/plans/v?dry_run=true".to_owned(), Some(body))
}

fn tried(stack: &str, resources: Value) -> (&'static str, String, Option<Value>) {
    ("POST", "/v1/plans?dry_run=true".to_owned(), Some(plan(stack, resources)))
}

fn one_server(server: Value) -> Value {
    Map::from_iter([("s".to_owned(), server)]).into()
}

/// Queries.
fn queries() -> Vec<Load> {
    vec![
        load("filters", 4_000, &[200], |n| {
            let query = pairs(n, |nth| format!("k{nth:05}=v"));
            ("GET", format!("/v1/placements?{query}"), None)
        }),
        load("the same filter", 8_000, &[200], |n| {
            ("GET", format!("/v1/placements?{}", pairs(n, |_| "k=v".to_owned())), None)
        }),
        load("a long filter", 60_000, &[200], |n| {
            ("GET", format!("/v1/placements?name={}", "x".repeat(n)), None)
        }),
        load("flags", 3_000, &[400], |n| {
            let query = pairs(n, |_| "dry_run=false".to_owned());
            ("POST", format!("/v1/plans?{query}&dry_run=x"), Some(plan("w", json!({}))))
        }),
        load("names of nothing", 8_000, &[200], |n| {
            ("GET", format!("/v1/plans?{}", pairs(n, |nth| format!("{nth:06}"))), None)
        }),
        load("a long path", 60_000, &[404], |n| {
            ("GET", "/v1/plans/".to_owned() + &"/".repeat(n), None)
        }),
        load("a long name", 60_000, &[404], |n| {
            ("GET", format!("/v1/plans/{}", "x".repeat(n)), None)
        }),
    ]
}

/// Bodies for groups.
fn bodies_for_groups() -> Vec<Load> {
    vec![
        load("members", 1_000, &[201], |n| {
            let members: Vec<Uuid> = (0..n).map(|nth| Uuid::from_u128(nth as u128)).collect();
            ("PUT", "/v1/groups/g/members".to_owned(), Some(json!({"members": members})))
        }),
        load("too many members", 25_000, &[400], |n| {
            let members: Vec<Uuid> = (0..n).map(|nth| Uuid::from_u128(nth as u128)).collect();
            ("PUT", "/v1/groups/g/members".to_owned(), Some(json!({"members": members})))
        }),
        load("unknown keys", 50_000, &[400], |n| {
            ("POST", "/v1/groups".to_owned(), Some(numbered(n, |_| json!(1), "k")))
        }),
        load("a description", 1_000_000, &[201, 400], |n| {
            ("PUT", "/v1/groups/g".to_owned(), Some(json!({"description": "é".repeat(n / 2)})))
        }),
    ]
}

/// Bodies for plans: of resources that are not placed, and of servers.
fn bodies_of_resources() -> Vec<Load> {
    vec![
        load("resources that are not placed", 10_000, &[200], |n| tried("w", volumes(n, "w"))),
        load("resources that are there", 4_500, &[200], |n| adding(&volumes(n, "v"), &json!({}))),
        load("resources that are changed", 4_500, &[200], |n| adding(&json!({}), &volumes(n, "v"))),
        load("resources beside those there", 5_000, &[200], |n| {
            adding(&volumes(n / 2, "u"), &volumes(n / 2, "w"))
        }),
        load("servers of no flavor", 9_000, &[400], |n| tried("w", flavored(n))),
        load("servers of one flavor", 9_000, &[409, 503], |n| {
            let it = |_| json!({"type": "OS::Nova::Server", "properties": {"flavor": "m1.tiny"}});
            tried("w", numbered(n, it, "s"))
        }),
    ]
}

/// Bodies for plans: of groups and their members.
fn bodies_of_groups() -> Vec<Load> {
    vec![
        load("groups", 1_000, &[200], |n| {
            tried("w", numbered(n, |_| group("affinity", "host", &[]), "g"))
        }),
        load("too many groups", 8_000, &[200, 400], |n| {
            tried("w", numbered(n, |_| group("affinity", "host", &[]), "g"))
        }),
        load("references to nothing", 60_000, &[400], |n| {
            let members = names(n);
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            tried("w", json!({"g": group("affinity", "host", &members)}))
        }),
        load("the same reference", 60_000, &[409], |n| {
            let members = vec!["s"; n];
            tried("w", json!({"g": group("affinity", "host", &members), "s": server("s", 1)}))
        }),
        load("groups in one group", 900, &[200], |n| {
            let mut resources = numbered(n, |_| group("affinity", "host", &[]), "g");
            let members: Vec<String> = (0..n).map(|nth| format!("g{nth:05}")).collect();
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            resources["all"] = group("diversity", "host", &members);
            tried("w", resources)
        }),
        load("servers in one stored group", 5_000, &[409, 503], |n| {
            let groups = json!({"valet": {"groups": ["g"]}});
            let it = |_| with(server("s", 1), "metadata", groups.clone());
            tried("w", numbered(n, it, "s"))
        }),
        load("stored groups of one server", 60_000, &[409], |n| {
            let groups = json!({"valet": {"groups": vec!["g"; n]}});
            tried("w", one_server(with(server("s", 1), "metadata", groups)))
        }),
    ]
}

/// Bodies of plans with one server that has very many properties.
fn bodies_of_one_server() -> Vec<Load> {
    vec![
        load("required traits", 40_000, &[400], |n| {
            tried("w", one_server(with(server("s", 1), "required", json!(names(n)))))
        }),
        load("required and forbidden traits", 30_000, &[400], |n| {
            let some = with(server("s", 1), "required", json!(names(n / 2)));
            let others: Vec<String> = (0..n / 2).map(|nth| format!("other-{nth}")).collect();
            tried("w", one_server(with(some, "forbidden", json!(others))))
        }),
        load("resource classes", 40_000, &[400], |n| {
            let needs = numbered(n, |_| json!(1), "CUSTOM_");
            tried("w", one_server(with(server("s", 1), "resources", needs)))
        }),
        load("metadata", 40_000, &[409], |n| {
            let metadata = numbered(n, |_| json!("v"), "k");
            tried("w", one_server(having(server("s", 1), "metadata", metadata)))
        }),
        load("properties that mean nothing", 40_000, &[409], |n| {
            tried("w", one_server(with(server("s", 1), "other", numbered(n, |_| json!(1), "k"))))
        }),
    ]
}

/// Bodies for plans and placements that name many hosts.
fn bodies_of_hosts() -> Vec<Load> {
    vec![
        load("locations of many servers", 4_000, &[409, 503], |n| {
            let (method, path, body) = tried("w", numbered(n, |_| server("s", 1), "s"));
            (method, path, body.map(|body| having(body, "locations", json!(names(n)))))
        }),
        load("locations of the plan that is there", 60_000, &[200], |n| {
            let body = having(plan("v", volumes(0, "v")), "locations", json!(names(n)));
            ("POST", "/v1/plans?dry_run=true".to_owned(), Some(body))
        }),
        load("a migration of no server", 60_000, &[400], |n| {
            let body = json!({"action": "migrate", "resources": ["s"], "excluded_hosts": names(n)});
            ("PUT", "/v1/plans/v?dry_run=true".to_owned(), Some(body))
        }),
        load("a reservation elsewhere", 60_000, &[409], |n| {
            let body = json!({"locations": names(n), "action": "replan"});
            ("POST", "/v1/placements/held".to_owned(), Some(body))
        }),
        load("a recommendation", 60_000, &[409], |n| {
            let body = json!({"resource_id": "held", "excluded_hosts": names(n)});
            ("POST", "/v1/placements".to_owned(), Some(body))
        }),
        load("nothing that is understood", 1_000_000, &[400], |n| {
            ("POST", "/v1/plans".to_owned(), Some(json!({"plan_name": ["x".repeat(n)]})))
        }),
    ]
}

/// Allocations while a request is sent, served and answered on this thread.
fn effort(
    runtime: &tokio::runtime::Runtime,
    asker: &Asker,
    load: &Load,
    size: usize,
) -> Result<(u64, u64), String> {
    let (method, path, body) = (load.make)(size);
    let body = body.map(|body| body.to_string().into_bytes());
    assert!(body.as_ref().is_none_or(|body| body.len() <= 1 << 20), "{}", load.name);
    let mut answer: Option<SiteResponse> = None;
    let counted = allocation_counter::measure(|| {
        answer = Some(runtime.block_on(asker.ask(method, &path, body)));
    });
    let answer = answer.unwrap();
    let text = answer.text().chars().take(300).collect::<String>();
    if load.statuses.contains(&answer.status) {
        Ok((counted.count_total, counted.bytes_total))
    } else {
        Err(format!("{}: {} {text}", load.name, answer.status))
    }
}

/// # Errors
/// A request of twice the size takes significantly more than twice as many allocations or bytes.
fn excess(runtime: &tokio::runtime::Runtime, asker: &Asker, load: &Load) -> Result<(), String> {
    // Work done once, such as preparing a statement, is not counted.
    effort(runtime, asker, load, load.size / 8)?;
    let half = effort(runtime, asker, load, load.size / 2)?;
    let whole = effort(runtime, asker, load, load.size)?;
    let (times, bytes) = (2 * half.0 + half.0 / 4 + 1_000, 2 * half.1 + half.1 / 2 + 1_000_000);
    let fits = whole.0 <= times && whole.1 <= bytes;
    let name = load.name;
    let words = || format!("{name}: {half:?} allocations and bytes for half, {whole:?} for all");
    if fits { Ok(()) } else { Err(words()) }
}

/// Prepares the data: a group, a plan of 4,500 resources that are not placed, and one with a server of much
/// metadata.
async fn prepared(site: &Site) {
    let admin = site.admin();
    site.racks(1, 1, [1, 9, 9]).await;
    admin.post("/v1/groups", json!({"name": "g", "type": "affinity", "level": "host"})).await;
    create(&admin, "v", volumes(4_500, "v")).await;
    let metadata = numbered(4_000, |_| json!("v"), "k");
    let held = having(server("held", 1), "metadata", metadata);
    create(&admin, "held", json!({"held": held})).await;
}

#[test]
fn no_request_is_more_work_than_it_is_long() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let site = runtime.block_on(Site::new());
    runtime.block_on(prepared(&site));
    let mut loads = queries();
    loads.extend(bodies_of_resources());
    loads.extend(bodies_of_groups());
    loads.extend(bodies_of_one_server());
    loads.extend(bodies_of_hosts());
    // Members of a group stay, so the requests that add some come last.
    loads.extend(bodies_for_groups());
    let admin = site.admin();
    let found: Vec<String> =
        loads.iter().filter_map(|load| excess(&runtime, &admin, load).err()).collect();
    assert!(found.is_empty(), "{found:#?}");
    drop(site);
}
