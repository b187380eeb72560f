//! Changes of the planner in the history of changes.

use berth::http::app::{App, Options};
use berth::store::history::entry::HistoryEntry;
use berth::store::history::reading::{HistoryQuery, read};
use berth::store::{Store, StoreOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{arrive, create, placement, server};
use crate::support::app::store_at;
use crate::support::postgres;

async fn site() -> Site {
    let database = postgres::database().await;
    let history_days = Some(1);
    let opening = StoreOptions { history_days, ..store_at(&database) };
    let options = Options { history: true, ..Options::default() };
    Site::serving(App::new(Store::open(opening).await.unwrap(), options), &database).await
}

/// The entries about an object, the oldest first.
async fn entries(site: &Site, object: &str) -> Vec<HistoryEntry> {
    let question = HistoryQuery { object: object.to_owned(), since: None, limit: 100 };
    let mut found = read(&mut site.session().await, &question).await.unwrap().entries;
    found.reverse();
    found
}

fn kinds(entries: &[HistoryEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.kind.as_str()).collect()
}

fn after(entry: &HistoryEntry) -> Value {
    entry.after.clone().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_holds_and_handovers_are_recorded() {
    let site = site().await;
    let hosts = site.racks(1, 1, [8, 1, 1]).await;
    let host = hosts[0].to_string();
    let tenant = site.tenant("p");
    let plan = create(&tenant, "s", json!({"a": server("a", 2), "b": server("b", 1)})).await;
    let plan = plan["id"].as_str().unwrap().to_owned();
    let ids =
        [placement(&tenant, "a").await["id"].clone(), placement(&tenant, "b").await["id"].clone()];
    let [a, b] = ids.map(|id| id.as_str().unwrap().to_owned());

    // The hold of a placement is allocations of the consumer with its id.
    let made = entries(&site, &a).await;
    assert_eq!(kinds(&made), ["placement", "allocations"]);
    assert_eq!(after(&made[1])["allocations"], json!({host.clone(): {"VCPU": 2}}));
    let of_plan = entries(&site, &plan).await;
    assert_eq!(kinds(&of_plan), ["plan"]);
    let who = |entry: &HistoryEntry| (entry.user.clone().unwrap(), entry.project.clone().unwrap());
    assert_eq!(who(&of_plan[0]), ("user".to_owned(), "p".to_owned()));
    assert_eq!(of_plan[0].request_id, made[1].request_id);

    // The instance takes the hold over: one request, two consumers.
    let instance = Uuid::new_v4();
    tenant.post(&format!("/v1/placements/{a}"), json!({"resource_id": instance})).await.expect(201);
    arrive(&site, instance, hosts[0], 2).await;
    let come = entries(&site, &instance.to_string()).await;
    assert_eq!(kinds(&come), ["placement", "allocations"]);
    let held = entries(&site, &a).await;
    let last = held.last().unwrap();
    assert_eq!((last.kind.as_str(), after(last)), ("allocations", Value::Null));
    assert_eq!(last.request_id, come[1].request_id);

    // A hold that expires: there is no request behind it.
    assert_eq!(site.app().store.expire_holds(0).await.unwrap().len(), 1);
    let expired = entries(&site, &b).await;
    let last = expired.last().unwrap();
    assert_eq!((last.kind.as_str(), after(last)), ("allocations", Value::Null));
    assert_eq!((&last.request_id, &last.user), (&None, &None));

    tenant.delete("/v1/plans/s").await.expect(204);
    let of_plan = entries(&site, &plan).await;
    assert_eq!(kinds(&of_plan), ["plan", "plan", "plan"], "made, reserved and deleted");
    assert_eq!(after(&of_plan[2]), Value::Null);
    // The host's history has all that was held on it.
    let of_host = entries(&site, "r01h01").await;
    let claims = of_host.iter().filter(|entry| entry.kind == "allocations").count();
    assert_eq!(
        claims, 6,
        "two holds, one of which is written again, an arrival, two ends: {of_host:#?}"
    );
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_a_command_has_no_user() {
    let site = site().await;
    let made = site.command("group", &["create", "g", "--type", "affinity"]).await.unwrap();
    let made: Value = serde_json::from_str(&made).unwrap();
    let output = entries(&site, made["id"].as_str().unwrap()).await;
    assert_eq!(kinds(&output), ["group"]);
    assert_eq!((&output[0].request_id, &output[0].user), (&None, &None));
}
