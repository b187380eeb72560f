//! The report of misplaced servers.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Host, Site};
use crate::stack::{
    arrive, claim, create, group, host, reserve, server, store_group, stored, with,
};

/// Returns the report for an administrator.
async fn report(site: &Site) -> Value {
    site.admin().get("/v1/resources").await.expect(200).json()["resources"].clone()
}

/// Status and message of one server.
#[track_caller]
fn finding(report: &Value, instance: Uuid) -> (&str, &str) {
    let finding = &report[instance.to_string()];
    assert_eq!(finding["type"], "OS::Nova::Server", "{report}");
    (finding["status"].as_str().unwrap(), finding["message"].as_str().unwrap())
}

/// Moves an instance of the project `p`, without the planner.
async fn relocate(site: &Site, instance: Uuid, provider: Uuid, vcpu: i64) {
    let path = format!("/allocations/{instance}");
    let held = site.placement().get(&path).await.expect(200).json();
    let mut body = claim(provider, vcpu);
    body["consumer_generation"] = held["consumer_generation"].clone();
    site.placement().put(&path, body).await.expect(204);
}

/// Reserves the server of a plan for a new instance on its host, to which the instance comes.
async fn build(site: &Site, plan: &Value, server: &str, ids: &[(String, Uuid)]) -> Uuid {
    let instance = Uuid::new_v4();
    let host = host(plan, server);
    let body = json!({"resource_id": instance, "locations": [host]});
    site.admin().post(&format!("/v1/placements/{server}"), body).await.expect(201);
    let id = ids.iter().find(|(name, _)| *name == host).unwrap().1;
    arrive(site, instance, id, 1).await;
    instance
}

async fn hosts(site: &Site) -> Vec<(String, Uuid)> {
    let ids = site.racks(2, 2, [8, 999, 99]).await;
    let names = ["r01h01", "r01h02", "r02h01", "r02h02"].map(str::to_owned);
    names.into_iter().zip(ids).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r52_servers_that_break_the_rules_of_their_plan() {
    let site = Site::new().await;
    let ids = hosts(&site).await;
    let tenant = site.tenant("p");
    let resources = json!({
        "a": server("a", 1), "b": server("b", 1), "c": server("c", 1),
        "apart": group("diversity", "host", &["a", "b"]),
        "close": group("affinity", "rack", &["a", "b", "c"]),
    });
    let made = create(&tenant, "s", resources).await;
    let mut built = Vec::new();
    for name in ["a", "b", "c"] {
        built.push(build(&site, &made, name, &ids).await);
    }
    assert_eq!(report(&site).await, json!({}));
    // One of them goes to the host of another: the rack is the same.
    let of_a = ids.iter().find(|(name, _)| *name == host(&made, "a")).unwrap().1;
    relocate(&site, built[1], of_a, 1).await;
    let found = report(&site).await;
    let (status, message) = finding(&found, built[1]);
    assert_eq!((found.as_object().unwrap().len(), status), (1, "error"), "{found}");
    let at = host(&made, "a");
    let expected = format!(
        "is on {at}, and was planned on {}; diversity group 'apart': another of its servers is in \
         host {at}",
        host(&made, "b")
    );
    assert_eq!(message, expected);
    // To another rack: it is not with the others.
    let other = if at.starts_with("r01") { "r02h02" } else { "r01h02" };
    let id = ids.iter().find(|(name, _)| name == other).unwrap().1;
    relocate(&site, built[1], id, 1).await;
    let found = report(&site).await;
    let (_, message) = finding(&found, built[1]);
    let rack = &other[..3];
    assert!(
        message.ends_with(&format!(
            "affinity group 'close': most of its servers are not in rack {rack}"
        )),
        "{message}"
    );
    // A migration to where it is makes the plan follow.
    tenant.delete("/v1/plans/s").await.expect(204);
    assert_eq!(report(&site).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn r52_a_server_that_is_elsewhere_and_breaks_no_rule() {
    let site = Site::new().await;
    let ids = hosts(&site).await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "s", json!({"a": server("a", 1)})).await;
    let planned = host(&made, "a");
    let instance = Uuid::new_v4();
    let body = json!({"resource_id": instance, "locations": [planned]});
    tenant.post("/v1/placements/a", body).await.expect(201);
    let (other, id) = ids.iter().find(|(name, _)| *name != planned).unwrap();
    // The scheduler takes another host than it was given.
    arrive(&site, instance, *id, 1).await;
    let found = report(&site).await;
    let message = format!("is on {other}, and was planned on {planned}");
    assert_eq!(finding(&found, instance), ("warning", message.as_str()));
    assert_eq!(
        site.admin().get("/compat/v1/resources/").await.expect(200).json()["resources"],
        found
    );
    // Planned again, it must move; after the move, the report is empty.
    let body = json!({"action": "migrate", "resources": [instance], "excluded_hosts": []});
    let moved = site.admin().put("/v1/plans/s", body).await.expect(201).json();
    assert_eq!(report(&site).await, json!({}));
    reserve(&tenant, "a", &[&host(&moved, "a")]).await;
    let id = ids.iter().find(|(name, _)| *name == host(&moved, "a")).unwrap().1;
    relocate(&site, instance, id, 1).await;
    assert_eq!(report(&site).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn r52_servers_that_break_the_rules_of_stored_groups() {
    let site = Site::new().await;
    let ids = hosts(&site).await;
    store_group(&site, "apart", "diversity", "rack", &[]).await;
    let tenant = site.tenant("p");
    let mut built = Vec::new();
    for stack in ["s", "t"] {
        let server_id = format!("{stack}-a");
        let resources = json!({
            server_id.as_str(): with(server("a", 1), "metadata", json!({"valet": {"groups": ["apart"]}})),
        });
        let made = create(&tenant, stack, resources).await;
        built.push(build(&site, &made, &server_id, &ids).await);
    }
    assert_eq!(report(&site).await, json!({}));
    relocate(&site, built[0], ids[0].1, 1).await;
    relocate(&site, built[1], ids[1].1, 1).await;
    let found = report(&site).await;
    let broken: Vec<&Value> = found
        .as_object()
        .unwrap()
        .values()
        .filter(|finding| finding["status"] == "error")
        .collect();
    assert_eq!(broken.len(), 1, "{found}");
    let message = broken[0]["message"].as_str().unwrap();
    let expected = "diversity group 'apart': another of its servers is in rack r01";
    assert!(message.contains(expected), "{message}");
    // The group is given to another project.
    let member = json!({"members": [Uuid::new_v4()]});
    site.admin().put("/v1/groups/apart/members", member).await.expect(201);
    let found = report(&site).await;
    for instance in built {
        let (_, message) = finding(&found, instance);
        assert!(message.contains("diversity group 'apart' is not for project p"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r81_servers_in_no_plan_on_hosts_of_a_group() {
    let site = Site::reporting().await;
    let ids = hosts(&site).await;
    let project = Uuid::new_v4().to_string();
    store_group(&site, "vault", "exclusivity", "host", &[&project]).await;
    let owner = site.tenant(&project);
    let resources = json!({"a": server("a", 1), "g": stored("vault", &["a"])});
    let made = create(&owner, "s", resources).await;
    let taken = host(&made, "a");
    let id = ids.iter().find(|(name, _)| *name == taken).unwrap().1;
    assert_eq!(report(&site).await, json!({}));
    let stranger = Uuid::new_v4();
    arrive(&site, stranger, id, 1).await;
    let found = report(&site).await;
    let message = format!("host {taken} is kept for exclusivity group 'vault'");
    assert_eq!(finding(&found, stranger), ("error", message.as_str()));
    assert_eq!(found.as_object().unwrap().len(), 1, "{found}");
    site.placement().delete(&format!("/allocations/{stranger}")).await.expect(204);
    assert_eq!(report(&site).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn r52_servers_outside_their_zone_and_who_may_know() {
    let site = Site::new().await;
    let amounts = [8, 999, 99];
    let ids = site
        .hosts(&[
            Host { name: "in", size: amounts, traits: &["CUSTOM_AZ_EAST"] },
            Host { name: "out", size: amounts, traits: &["CUSTOM_AZ_WEST"] },
        ])
        .await;
    let tenant = site.tenant("p");
    let resources = json!({"a": with(server("a", 1), "availability_zone", json!("East"))});
    let made = create(&tenant, "s", resources).await;
    let names = [("in".to_owned(), ids[0]), ("out".to_owned(), ids[1])];
    let instance = build(&site, &made, "a", &names).await;
    assert_eq!(report(&site).await, json!({}));
    relocate(&site, instance, ids[1], 1).await;
    let found = report(&site).await;
    let (status, message) = finding(&found, instance);
    assert_eq!(status, "error");
    assert!(message.ends_with("host out is not in availability zone 'East'"), "{message}");
    // It is for operators.
    tenant.get("/v1/resources").await.expect(401);
    tenant.header("x-roles", "reader").get("/v1/resources").await.expect(401);
    site.admin().post("/v1/resources", json!({})).await.expect(405);
}
