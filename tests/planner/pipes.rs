//! Pipes: bandwidth between servers.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{create, finish, host, plan, server, usages};
use crate::trees::{provider, used};

const CLASSES: [&str; 2] = ["NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"];

fn pipe(ends: &[&str], min: i64, units: &str) -> Value {
    json!({"type": "ATT::Valet::Pipe", "properties": {
        "resources": ends, "bandwidth": {"min": min, "max": min * 2, "units": units}}})
}

/// Gives each host a network card with this number of kilobits in each direction.
async fn cards(site: &Site, hosts: &[Uuid], kilobits: i64) {
    for (nth, host) in hosts.iter().enumerate() {
        let card = Uuid::new_v4();
        let body =
            json!({"name": format!("card{nth}"), "uuid": card, "parent_provider_uuid": host});
        site.placement().post("/resource_providers", body).await.expect(200);
        let inventories: Value =
            CLASSES.iter().map(|class| ((*class).to_owned(), json!({"total": kilobits}))).collect();
        let body = json!({"resource_provider_generation": 0, "inventories": inventories});
        let path = format!("/resource_providers/{card}/inventories");
        site.placement().put(&path, body).await.expect(200);
    }
}

fn ignored(answer: &crate::site::SiteResponse) -> Value {
    serde_json::from_str(answer.header("berth-ignored")).unwrap_or_default()
}

/// Returns the warning about a pipe whose servers hold its bandwidth.
fn not_followed(pipe: &str) -> Value {
    json!([{"resource": pipe, "type": "ATT::Valet::Pipe", "why": "ignored properties: max"}])
}

#[tokio::test(flavor = "multi_thread")]
async fn r75_servers_of_pipes_hold_bandwidth() {
    let site = Site::new().await;
    let ids = site.racks(1, 3, [8, 99, 99]).await;
    cards(&site, &ids, 10_000_000).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    // Two pipes of six gigabits do not go through one card of ten.
    let resources = json!({
        "a": server("a", 1), "b": server("b", 1), "c": server("c", 1),
        "ab": pipe(&["a", "b"], 6, "Gbps"),
    });
    let answer = tenant.post("/v1/plans", plan("s", resources.clone())).await.expect(201);
    let made = answer.json();
    assert_eq!(ignored(&answer), not_followed("ab"));
    assert_ne!(host(&made, "a"), host(&made, "b"));
    let used: i64 = usages(&site).await.values().filter_map(|it| it[CLASSES[0]].as_i64()).sum();
    assert_eq!(used, 12_000_000);
    assert_eq!(create(&tenant, "s", resources.clone()).await, made);
    // A wider pipe is another request, and an update widens it.
    let mut wider = resources;
    wider["ab"] = pipe(&["a", "b"], 7000, "Mbps");
    let why = tenant.post("/v1/plans", plan("s", wider.clone())).await.explanation(409);
    assert!(why.contains("has pipes of kbps 6000000"), "{why}");
    let update = json!({"action": "update", "resources": wider});
    tenant.put("/v1/plans/s", update).await.expect(201);
    // A server has the bandwidth of all its pipes.
    let many = json!({
        "a": server("a", 1), "b": server("b", 1), "c": server("c", 1),
        "ab": pipe(&["a", "b"], 6, "Gbps"), "ac": pipe(&["a", "c"], 6, "Gbps"),
    });
    tenant.post("/v1/plans", plan("t", many)).await.explanation(409);
    finish(&site, &before).await;
}

/// Each pipe goes through one card, in both directions, and two pipes may go through two.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_is_one_cards_in_both_directions() {
    let site = Site::new().await;
    let ids = site.racks(1, 3, [8, 99, 99]).await;
    let inventories = |kilobits: [i64; 2]| {
        let pairs = CLASSES.iter().zip(kilobits).filter(|(_, total)| *total > 0);
        pairs.map(|(class, total)| ((*class).to_owned(), json!({"total": total}))).collect()
    };
    // The first host has cards for one direction, too.
    let mut cards = Vec::new();
    for (host, kilobits) in [
        (0, [20_000_000, 0]),
        (0, [10_000_000; 2]),
        (0, [0, 20_000_000]),
        (0, [10_000_000; 2]),
        (1, [20_000_000, 0]),
        (1, [10_000_000; 2]),
        (2, [10_000_000; 2]),
    ] {
        let name = format!("card{}", cards.len());
        let card = provider(&site, &name, Some(ids[host]), inventories(kilobits), &[]).await;
        cards.push(card);
    }
    let before = usages(&site).await;
    let resources = json!({
        "a": server("a", 1), "b": server("b", 1), "c": server("c", 1),
        "ab": pipe(&["a", "b"], 6, "Gbps"), "ac": pipe(&["a", "c"], 6, "Gbps"),
    });
    let made = create(&site.tenant("p"), "s", resources).await;
    assert_eq!(host(&made, "a"), "r01h01");
    for (card, used_by) in cards.into_iter().zip([0, 1, 0, 1, 0, 1, 1]) {
        for class in CLASSES {
            assert_eq!(used(&site, card, class).await, used_by * 6_000_000);
        }
    }
    finish(&site, &before).await;
    let many: Vec<String> = (0..33).map(|nth| format!("pipe{nth}")).collect();
    let mut resources = json!({"a": server("a", 1)});
    for name in &many {
        resources[name] = pipe(&["a"], 1, "kbps");
    }
    let refused = site.tenant("p").post("/v1/plans", plan("s", resources)).await;
    assert!(refused.explanation(400).contains("each of its pipes is one"), "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn r75_pipes_that_cannot_be_planned_are_named() {
    let site = Site::new().await;
    let ids = site.racks(1, 2, [8, 99, 99]).await;
    let tenant = site.tenant("p");
    let resources = json!({"a": server("a", 1), "b": server("b", 1),
                           "ab": pipe(&["a", "b"], 6, "Gbps")});
    let answer = tenant.post("/v1/plans", plan("s", resources.clone())).await.expect(201);
    assert_eq!(ignored(&answer)[0]["resource"], "ab");
    let made = answer.json();
    cards(&site, &ids, 10_000_000).await;
    // The plan stays as it is until it is updated.
    assert_eq!(create(&tenant, "s", resources.clone()).await, made);
    let update = json!({"action": "update", "resources": resources});
    let answer = tenant.put("/v1/plans/s", update).await.expect(201);
    assert_eq!(ignored(&answer), not_followed("ab"));
    assert_ne!(host(&answer.json(), "a"), host(&answer.json(), "b"));
    let odd = json!({"a": server("a", 1), "p": pipe(&["a"], 1, "furlongs"),
                     "q": {"type": "ATT::QoS::Pipe", "properties": {"resources": ["a"]}}});
    let answer = tenant.post("/v1/plans", plan("t", odd)).await.expect(201);
    let why: Vec<String> = ignored(&answer)
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["why"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(why, ["its units are not kbps, Mbps, Gbps or Tbps", "it has no bandwidth"]);
}
