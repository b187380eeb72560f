//! `/-/v1/moves`: proposals for making room for a request, for authorized callers. Nothing is moved.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Instant;

use berth::fairness::watch::Watch;
use berth::model::ProviderId;
use berth::store::holders::{Holders, HoldersMax};
use serde_json::{Value, json};
use sqlx::Executor;
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::{Host, claim_body};
use crate::support::process::Server;

const SMALL: Uuid = Uuid::from_u128(2);

/// Two hosts of 8 VCPU, of which 2 are free, as 4 and 2 of one project; one of the consumers is small.
async fn cloud() -> (Berth, [Host; 2]) {
    let berth = Berth::new().await;
    let one = berth.host("cn1", &[("VCPU", 8), ("MEMORY_MB", 4096)]).await;
    let two = berth.host("cn2", &[("VCPU", 8), ("MEMORY_MB", 4096)]).await;
    for (consumer, host, amount) in [(1, one, 4), (3, two, 3), (4, two, 3)] {
        let claim = berth.claim(Uuid::from_u128(consumer), None, &[(host, "VCPU", amount)]);
        claim.await.expect(204);
    }
    berth.claim(SMALL, None, &[(one, "VCPU", 2), (one, "MEMORY_MB", 512)]).await.expect(204);
    (berth, [one, two])
}

async fn moves(berth: &Berth, query: &str) -> Value {
    berth.get(&format!("/-/v1/moves?{query}")).await.expect(200).json()
}

#[tokio::test]
async fn the_fewest_moves_are_proposed_and_can_be_sent() {
    let (berth, [one, two]) = cloud().await;
    let query = "make-room-for=resources%3DVCPU:4";
    let found = moves(&berth, query).await;
    let body = json!({
        SMALL.to_string(): {
            "allocations": {two.0.to_string(): {"resources": {"VCPU": 2, "MEMORY_MB": 512}}},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": 1,
        },
    });
    assert_eq!(
        found,
        json!({
            "request": "resources=VCPU:4",
            "is_flavor": false,
            "fits_on": null,
            "target": {"host": "cn1", "uuid": one.0.to_string()},
            "steps": [{
                "consumer": SMALL.to_string(),
                "project_id": "project",
                "consumer_type": "INSTANCE",
                "leaves": {"VCPU": 2, "MEMORY_MB": 512},
                "to": {"host": "cn2", "uuid": two.0.to_string()},
                "microversion": "1.28",
                "body": body,
            }],
            "proven": true,
            "examined": {"hosts": 2, "of_hosts": 2, "consumers": 4},
        })
    );
    // Asking has changed nothing.
    assert_eq!(berth.usages(one).await, json!({"VCPU": 6, "MEMORY_MB": 512}));
    assert_eq!(moves(&berth, query).await, found);
    berth.at("1.28").post("/allocations", body.clone()).await.expect(204);
    let candidates = berth.get("/allocation_candidates?resources=VCPU:4").await.expect(200);
    assert_eq!(candidates.json()["allocation_requests"].as_array().unwrap().len(), 1);
    let held = berth.get(&format!("/allocations/{SMALL}")).await.expect(200).json();
    assert_eq!(held["consumer_type"], "INSTANCE", "it keeps its type");
    let done = moves(&berth, query).await;
    assert_eq!((&done["fits_on"]["host"], &done["steps"]), (&json!("cn1"), &json!([])));
    // A second time is refused: the consumer has changed.
    berth.at("1.28").post("/allocations", body).await.expect(409);
}

#[tokio::test]
async fn a_body_is_refused_if_its_consumer_has_changed() {
    let (berth, [one, _]) = cloud().await;
    let found = moves(&berth, "make-room-for=resources%3DVCPU:4").await;
    let changed = claim_body(Some(1), &[(one, "VCPU", 1)]);
    berth.put(&format!("/allocations/{SMALL}"), changed).await.expect(204);
    berth.at("1.28").post("/allocations", found["steps"][0]["body"].clone()).await.expect(409);
}

#[tokio::test]
async fn consumers_of_plans_are_not_moved() {
    let (berth, [one, _]) = cloud().await;
    let mut session = berth.session().await;
    let insert = "insert into plans (id, name, stack_id, stack_key, project, user_id, document) \
                  values ('00000000-0000-0000-0000-0000000000aa', 'p', 's', 's', 'project', 'u', '{}')";
    session.execute(insert).await.unwrap();
    let insert = "insert into placements (id, plan_id, position, orchestration_id, \
                  orchestration_key, name, consumer, project) \
                  values ('00000000-0000-0000-0000-0000000000bb', \
                  '00000000-0000-0000-0000-0000000000aa', 0, 'o', 'o', 'n', \
                  '00000000-0000-0000-0000-000000000002', 'project')";
    session.execute(insert).await.unwrap();
    let found = moves(&berth, "make-room-for=resources%3DVCPU:4").await;
    assert_eq!((&found["target"], &found["examined"]["consumers"]), (&Value::Null, &json!(3)));
    // Its two allocations count where these are limited, although no consumer is left.
    berth.delete(&format!("/allocations/{}", Uuid::from_u128(1))).await.expect(204);
    let store = berth.app().store;
    let one = store.world().await.unwrap().provider(one.0).unwrap().id();
    for (allocations, are_all) in [(2, true), (1, false)] {
        let most = HoldersMax { consumers: 5, allocations };
        let holders = store.holders(&[one], most).await.unwrap();
        assert_eq!(holders, Holders { consumers: Vec::new(), are_all });
    }
}

#[tokio::test]
async fn holders_are_all_only_if_all_allocations_were_read() {
    let (berth, [one, two]) = cloud().await;
    let store = berth.app().store;
    let world = store.world().await.unwrap();
    let [one, two] = [one, two].map(|host| world.provider(host.0).unwrap().id());
    let of = async |providers: &[ProviderId], consumers, allocations| {
        let most = HoldersMax { consumers, allocations };
        let holders = store.holders(providers, most).await.unwrap();
        (holders.consumers.len(), holders.are_all)
    };
    // One consumer holds two classes, so there are three allocations.
    assert_eq!(of(&[one], 2, 3).await, (2, true));
    assert!(!of(&[one], 2, 2).await.1);
    assert_eq!(of(&[one], 1, 3).await, (1, false));
    assert_eq!(of(&[one, two], 5, 5).await, (4, true));
    assert_eq!(of(&[], 5, 5).await, (0, true));
}

#[tokio::test]
async fn time_counts_from_when_there_is_a_turn() {
    let (berth, _) = cloud().await;
    let looks = Arc::new(Mutex::new(Vec::new()));
    let watch = {
        let looks = Arc::clone(&looks);
        Watch::of(move || {
            looks.lock().unwrap().push(thread::current().id());
            Instant::now()
        })
    };
    let berth = berth.with_watch(watch);
    berth.get("/-/v1/moves?make-room-for=resources%3DVCPU:4").await.expect(200);
    let looks = std::mem::take(&mut *looks.lock().unwrap());
    // A turn is waited for on this thread, and the work is done on another.
    let is_elsewhere = |it: &ThreadId| *it != thread::current().id();
    assert!(looks.len() > 1 && looks.iter().all(is_elsewhere), "{looks:?}");
}

#[tokio::test]
async fn victims_are_named_by_priority() {
    let (berth, [one, _]) = cloud().await;
    let spare = Uuid::from_u128(9);
    let mut body = claim_body(None, &[(one, "VCPU", 1)]);
    body["project_id"] = json!("batch");
    body["consumer_type"] = json!("SPOT");
    berth.put(&format!("/allocations/{spare}"), body).await.expect(204);
    let of = async |query: &str| {
        let found = moves(&berth, &format!("make-room-for=resources%3DVCPU:4&{query}")).await;
        let steps = found["steps"].as_array().unwrap().clone();
        let consumers = steps.iter().map(|step| step["consumer"].as_str().unwrap().to_owned());
        (consumers.collect::<Vec<_>>(), steps)
    };
    assert_eq!(of("victim=project:batch").await.0, Vec::<String>::new());
    let (consumers, steps) = of("victim=type:SPOT&victim=project:project").await;
    assert_eq!(consumers.len(), 1);
    assert_eq!(steps[0]["to"], Value::Null);
    let body = steps[0]["body"].clone();
    assert_eq!(body[&consumers[0]]["allocations"], json!({}));
    berth.at("1.28").post("/allocations", body).await.expect(204);
    let found = moves(&berth, "make-room-for=resources%3DVCPU:4").await;
    assert!(found["fits_on"]["host"].is_string(), "{found}");
}

#[tokio::test]
async fn faults_of_a_query_are_named() {
    let (berth, _) = cloud().await;
    let room = "make-room-for=resources%3DVCPU:4";
    let query = |rest: &str| format!("{room}&{rest}");
    for (query, expected) in [
        (String::new(), "at least one resources"),
        ("make-room-for=resources%3DNO_SUCH:1".to_owned(), "No such resource class NO_SUCH"),
        (query(room), "only one request is allowed"),
        (query("query=resources%3DVCPU:4"), "the query must be the value of make-room-for"),
        (query("resources=VCPU:4"), "resources must be part of the value of"),
        (query("keep=all"), "keep must be traits, aggregates"),
        (query("keep=traits,nothing"), "keep must be traits, aggregates"),
        (query("victim=everybody"), "victim must be project:ID or type:NAME"),
        (query(&vec!["victim=type:X"; 101].join("&")), "victim can be given at most 100 times"),
    ] {
        let refused = berth.get(&format!("/-/v1/moves?{query}")).await.expect(400);
        assert!(refused.detail().contains(expected), "{query}: {}", refused.detail());
    }
}

#[tokio::test]
async fn only_administrators_and_services_see_consumers() {
    let (berth, _) = cloud().await;
    let path = "/-/v1/moves?make-room-for=resources%3DVCPU:4";
    let denied = berth.header("x-auth-token", "someone").get(path).await.expect(403);
    assert!(denied.detail().contains("berth:moves:show"), "{}", denied.detail());
    berth.without("x-auth-token").get(path).await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_asks_a_running_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let url = format!("http://{}", server.address);
    let ask = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["moves", "--url", &url]).args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let message = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(message).unwrap())
    };
    let (code, message) = ask(&["GET /allocation_candidates?resources=VCPU:1 200"]).await;
    assert_eq!(code, Some(0), "{message}");
    assert!(
        message.starts_with("No way was found to make room for resources=VCPU:1."),
        "{message}"
    );
    let (code, message) = ask(&["resources=VCPU:1", "--format", "json"]).await;
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!((code, &message["proven"]), (Some(0), &json!(true)));
    let (code, message) = ask(&["--flavor", "none"]).await;
    assert_eq!(code, Some(1));
    assert!(message.contains("there is no flavor none"), "{message}");
}
