//! `/-/v1/refused`: requests that were refused or found nothing are kept, with the reasons of then.

use std::process::Command;
use std::time::Duration;

use axum::http::Method;
use berth::http::{Options, RefusedSettings};
use serde_json::{Value, json};

use crate::support::app::{ApiResponse, Berth};
use crate::support::cluster::until;
use crate::support::postgres;
use crate::support::process::Server;

const GLOBAL: &str = "req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901";
const NOTHING: &str = "/allocation_candidates?resources=VCPU:9";

async fn keeping(refused: RefusedSettings) -> Berth {
    let options = Options { refused, ..Options::default() };
    Berth::with(&postgres::database().await, options).await
}

fn id(answer: &ApiResponse) -> String {
    answer.headers["x-openstack-request-id"].to_str().unwrap().to_owned()
}

/// Returns the kept facts about a request, when its conditions have been counted.
async fn kept(berth: &Berth, id: &str) -> Value {
    let mut found = Value::Null;
    until("its conditions are counted", async || {
        found = berth.get(&format!("/-/v1/refused/{id}")).await.expect(200).json();
        found["requests"][0]["left_out"] != "pending"
    })
    .await;
    found
}

async fn listed(berth: &Berth, query: &str) -> Vec<String> {
    let list = berth.get(&format!("/-/v1/refused{query}")).await.expect(200).json();
    let requests = list["requests"].as_array().unwrap().iter();
    requests.map(|it| it["path"].as_str().unwrap().to_owned()).collect()
}

fn claim(host: &str, cores: i64, generation: Option<i64>) -> Value {
    json!({
        "allocations": {host: {"resources": {"VCPU": cores}}},
        "project_id": "p", "user_id": "u", "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    })
}

#[tokio::test]
async fn a_query_that_found_nothing_is_found_by_both_of_its_ids_with_the_counts_of_then() {
    let berth = Berth::new().await;
    let host = berth.host("cn1", &[("VCPU", 4)]).await;
    let nothing = berth.header("x-openstack-request-id", GLOBAL).get(NOTHING).await.expect(200);
    let found = kept(&berth, &id(&nothing)).await;
    assert_eq!(found, kept(&berth, GLOBAL).await);
    let request = &found["requests"][0];
    for (name, expected) in [
        ("request_id", json!(id(&nothing))),
        ("global_request_id", json!(GLOBAL)),
        ("kind", json!("candidates")),
        ("method", json!("GET")),
        ("path", json!(NOTHING)),
        ("microversion", json!("1.39")),
        ("project_id", json!("admin")),
        ("user_id", json!("admin")),
        ("status", json!(200)),
        ("error", Value::Null),
        ("left_out", Value::Null),
    ] {
        assert_eq!(request[name], expected, "{name}");
    }
    assert_eq!(found["count"], 1);
    let then = berth.get("/-/v1/explain?resources=VCPU:9").await.expect(200).json();
    assert_eq!(request["explanation"], then);
    // The counts are those of then, whatever happens later.
    let inventories = json!({
        "resource_provider_generation": 1, "inventories": {"VCPU": {"total": 16}},
    });
    let path = format!("/resource_providers/{}/inventories", host.0);
    berth.put(&path, inventories).await.expect(200);
    let now = berth.get("/-/v1/explain?resources=VCPU:9").await.expect(200).json();
    assert_eq!((&now["fitting"], &then["fitting"]), (&json!(1), &json!(0)));
    assert_eq!(kept(&berth, GLOBAL).await, found);
    // A query with results is not kept.
    let some = berth.get(NOTHING).await.expect(200);
    berth.get(&format!("/-/v1/refused/{}", id(&some))).await.expect(404);
}

#[tokio::test]
async fn a_refused_claim_is_kept_with_all_its_faults_and_its_body() {
    let berth = Berth::new().await;
    let host = berth.host("cn1", &[("VCPU", 4), ("DISK_GB", 10)]).await.0.to_string();
    let (one, two) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2));
    berth.put(&format!("/allocations/{one}"), claim(&host, 3, None)).await.expect(204);
    let body = claim(&host, 2, Some(7));
    let refused = berth
        .header("x-openstack-request-id", GLOBAL)
        .put(&format!("/allocations/{two}"), body.clone())
        .await
        .expect(409);
    let found = kept(&berth, &id(&refused)).await;
    let request = &found["requests"][0];
    assert_eq!((&request["kind"], &request["status"]), (&json!("claim"), &json!(409)));
    assert_eq!(
        (&request["body"], &request["path"]),
        (&body, &json!(format!("/allocations/{two}")))
    );
    assert_eq!(request["body_bytes"], body.to_string().len());
    assert!(refused.detail().contains(request["error"].as_str().unwrap()), "{request}");
    assert_eq!(
        request["faults"],
        json!({"count": 2, "faults": [
            {
                "kind": "consumer_generation", "consumer": two.to_string(), "given": 7,
                "actual": null,
            },
            {
                "kind": "capacity", "provider": host, "name": "cn1", "resource_class": "VCPU",
                "wanted": 2, "given_back": 0, "used": 3, "capacity": 4, "total": 4, "reserved": 0,
                "allocation_ratio": 1.0, "missing": 1,
            },
        ]})
    );
    // The same by POST, for several consumers, and by the reshaper.
    let many =
        json!({one.to_string(): claim(&host, 3, Some(1)), two.to_string(): claim(&host, 9, None)});
    let many = berth.post("/allocations", many).await.expect(409);
    let faults = kept(&berth, &id(&many)).await["requests"][0]["faults"].clone();
    assert_eq!((&faults["count"], &faults["faults"][0]["missing"]), (&json!(1), &json!(8)));
    let reshape = json!({
        "inventories": {&host: {"resource_provider_generation": 0, "inventories": {}}},
        "allocations": {},
    });
    let reshape = berth.header("x-roles", "service").post("/reshaper", reshape).await.expect(409);
    let found = kept(&berth, &id(&reshape)).await["requests"][0].clone();
    assert_eq!(found["kind"], "reshape");
    assert_eq!(
        found["faults"]["faults"],
        json!([{"kind": "provider_generation", "provider": host, "given": 0, "actual": 2}])
    );
    // A malformed request was never judged, and is not kept.
    let malformed = berth.put(&format!("/allocations/{two}"), json!({})).await.expect(400);
    berth.get(&format!("/-/v1/refused/{}", id(&malformed))).await.expect(404);
    assert_eq!(listed(&berth, "?kind=claim").await.len(), 2);
}

/// A write that is refused because of stored data: method, path, body; the kind and the status with which it is
/// kept, and its faults, unless the sentence of the response has them all.
type RefusedWrite = (&'static str, String, Value, &'static str, u16, Value);

/// Writes under an old generation, of what is in use, and of what does not exist.
fn refused_writes(host: &str, parent: &str, nobody: &str) -> Vec<RefusedWrite> {
    let path = format!("/resource_providers/{host}");
    let old = |mut body: Value| {
        body["resource_provider_generation"] = json!(0);
        body
    };
    let generation =
        json!([{"kind": "provider_generation", "provider": host, "given": 0, "actual": 2}]);
    let disk = json!({"DISK_GB": {"total": 1}});
    let disk = json!({"resource_provider_generation": 2, "inventories": disk});
    let removed = json!([{
        "kind": "inventory_in_use", "provider": host, "name": "cn1", "resource_classes": "VCPU",
        "used": {"VCPU": 3},
    }]);
    let in_use =
        json!([{"kind": "provider_in_use", "provider": host, "name": "cn1", "used": {"VCPU": 3}}]);
    let children = json!([{
        "kind": "provider_has_children", "provider": parent, "name": "cn2", "children": ["numa0"],
    }]);
    let exists = json!([{
        "kind": "inventory_exists", "provider": host, "name": "cn1", "resource_class": "VCPU",
    }]);
    let trait_in_use =
        json!([{"kind": "trait_in_use", "trait": "CUSTOM_USED", "providers": ["cn2"]}]);
    let class_in_use =
        json!([{"kind": "class_in_use", "resource_class": "CUSTOM_USED", "providers": ["cn2"]}]);
    let missing = json!([{"kind": "unknown_provider", "provider": nobody}]);
    let (none, traits) = (Value::Null, json!({"traits": []}));
    let (all, one) = (format!("{path}/inventories"), format!("{path}/inventories/VCPU"));
    let vcpu = json!({"resource_class": "VCPU", "total": 8});
    let (parent, unknown) =
        (format!("/resource_providers/{parent}"), format!("/resource_providers/{nobody}"));
    let cn1 = json!({"name": "cn1"});
    let used = |kind: &str| format!("/{kind}/CUSTOM_USED");
    let aggregates = json!({"aggregates": []});
    let empty = json!({"inventories": {}});
    vec![
        ("PUT", format!("{path}/traits"), old(traits.clone()), "traits", 409, generation.clone()),
        ("PUT", all.clone(), old(empty), "inventories", 409, generation.clone()),
        ("PUT", one.clone(), old(json!({"total": 8})), "inventories", 409, generation.clone()),
        ("PUT", format!("{path}/aggregates"), old(aggregates), "aggregates", 409, generation),
        ("PUT", all.clone(), disk, "inventories", 409, removed.clone()),
        ("DELETE", all.clone(), none.clone(), "inventories", 409, removed.clone()),
        ("DELETE", one, none.clone(), "inventories", 409, removed),
        ("POST", all, vcpu, "inventories", 409, exists),
        ("DELETE", path, none.clone(), "provider", 409, in_use),
        ("DELETE", parent, none.clone(), "provider", 409, children),
        ("DELETE", used("traits"), none.clone(), "traits", 409, trait_in_use),
        ("DELETE", used("resource_classes"), none.clone(), "resource_classes", 409, class_in_use),
        ("DELETE", unknown.clone(), none.clone(), "provider", 404, missing.clone()),
        ("PUT", format!("{unknown}/traits"), old(traits), "traits", 404, missing),
        ("POST", "/resource_providers".to_owned(), cn1, "provider", 409, none.clone()),
        ("DELETE", format!("/allocations/{nobody}"), none.clone(), "claim", 404, none),
    ]
}

#[tokio::test]
async fn every_refused_write_is_kept_with_what_was_sent_and_what_was_there() {
    let berth = Berth::new().await;
    let host = berth.host("cn1", &[("VCPU", 4), ("DISK_GB", 10)]).await.0.to_string();
    let consumer = "/allocations/00000000-0000-0000-0000-000000000001";
    berth.put(consumer, claim(&host, 3, None)).await.expect(204);
    berth.put("/traits/CUSTOM_USED", json!({})).await.expect(201);
    berth.put("/resource_classes/CUSTOM_USED", json!({})).await.expect(201);
    let parent = berth.host("cn2", &[("CUSTOM_USED", 1)]).await.0.to_string();
    let traits = json!({"resource_provider_generation": 1, "traits": ["CUSTOM_USED"]});
    berth.put(&format!("/resource_providers/{parent}/traits"), traits).await.expect(200);
    let child = json!({"name": "numa0", "parent_provider_uuid": parent});
    berth.post("/resource_providers", child).await.expect(200);
    let nobody = uuid::Uuid::from_u128(9).to_string();
    for (method, path, sent, kind, status, faults) in refused_writes(&host, &parent, &nobody) {
        let bytes = (!sent.is_null()).then(|| sent.to_string().into_bytes());
        let refused = berth.ask(method.parse().unwrap(), &path, bytes).await.expect(status);
        let found = kept(&berth, &id(&refused)).await;
        let request = &found["requests"][0];
        assert_eq!((&found["count"], &request["kind"]), (&json!(1), &json!(kind)), "{path}");
        assert_eq!((&request["status"], &request["path"]), (&json!(status), &json!(path)));
        assert_eq!(request["body"], sent, "{path}");
        let left_out = if faults.is_null() { json!("in_error") } else { Value::Null };
        assert_eq!(request["left_out"], left_out, "{path}");
        assert_eq!(request["faults"]["faults"], faults, "{path}");
    }
    // A write that is carried out, one that is malformed, and one that the policy denies.
    let path = format!("/resource_providers/{host}");
    let written = berth.put("/traits/CUSTOM_NEW", json!({})).await.expect(201);
    let malformed = berth.put(&format!("{path}/traits"), json!({})).await.expect(400);
    let denied = berth.header("x-auth-token", "someone").delete(&path).await.expect(403);
    for answer in [written, malformed, denied] {
        berth.get(&format!("/-/v1/refused/{}", id(&answer))).await.expect(404);
    }
}

#[tokio::test]
async fn a_query_for_what_does_not_exist_is_kept_with_the_sentence() {
    let berth = Berth::new().await;
    let refused = berth.get("/allocation_candidates?resources=NOTHING:1").await.expect(400);
    let found = kept(&berth, &id(&refused)).await["requests"][0].clone();
    assert_eq!((&found["status"], &found["left_out"]), (&json!(400), &json!("not_counted")));
    assert!(found["error"].as_str().unwrap().contains("No such resource class NOTHING"), "{found}");
    let refused = berth.get("/allocation_candidates?password=hunter2").await.expect(400);
    berth.get(&format!("/-/v1/refused/{}", id(&refused))).await.expect(404);
}

#[tokio::test]
async fn the_last_ones_are_listed_newest_first_by_kind_caller_and_age() {
    let berth = Berth::new().await;
    let host = berth.host("cn1", &[("VCPU", 4)]).await.0.to_string();
    let consumer = "/allocations/00000000-0000-0000-0000-000000000001";
    berth.get(NOTHING).await.expect(200);
    berth.put(consumer, claim(&host, 9, None)).await.expect(409);
    let other = berth.header("x-auth-token", "admin:other");
    other.get("/allocation_candidates?resources=VCPU:10").await.expect(200);
    let (nine, ten) = (NOTHING, "/allocation_candidates?resources=VCPU:10");
    assert_eq!(listed(&berth, "").await, [ten, consumer, nine]);
    assert_eq!(listed(&berth, "?limit=2").await, [ten, consumer]);
    assert_eq!(listed(&berth, "?kind=candidates").await, [ten, nine]);
    assert_eq!(listed(&berth, "?kind=claim&seconds=100").await, [consumer]);
    assert_eq!(listed(&berth, "?project=other").await, [ten]);
    assert_eq!(listed(&berth, "?project=other&user=nobody").await, [""; 0]);
    for (query, expected) in [
        (
            "kind=plan",
            "kind must be one of candidates, claim, reshape, provider, inventories, traits, \
             aggregates, resource_classes, not plan",
        ),
        ("limit=0", "limit must be 1 to 1000, not 0"),
        ("seconds=-1", "seconds must be a number, not -1"),
        ("since=1", "since is not one of kind"),
    ] {
        let refused = berth.get(&format!("/-/v1/refused?{query}")).await.expect(400);
        assert!(refused.detail().contains(expected), "{query}: {}", refused.detail());
    }
}

#[tokio::test]
async fn no_more_is_kept_than_may_be() {
    let few = RefusedSettings { requests: 3, ..RefusedSettings::default() };
    let berth = keeping(few).await;
    berth.host("cn1", &[("VCPU", 4)]).await;
    let query = |nth: usize| format!("/allocation_candidates?resources=VCPU:{}", nth + 10);
    let first = berth.get(&query(0)).await.expect(200);
    for nth in 1..5 {
        berth.get(&query(nth)).await.expect(200);
    }
    assert_eq!(listed(&berth, "").await, [query(4), query(3), query(2)]);
    let gone = berth.get(&format!("/-/v1/refused/{}", id(&first))).await.expect(404);
    assert!(gone.detail().contains("up to 3 of them, for 3600 seconds"), "{}", gone.detail());
    assert!(gone.detail().contains("with several replicas, ask each"), "{}", gone.detail());
    let list = berth.get("/-/v1/refused").await.expect(200).json();
    assert_eq!(
        (&list["kept"]["requests"], &list["kept"]["gone_by_requests"]),
        (&json!(3), &json!(2))
    );

    let berth = keeping(RefusedSettings { bytes: 6000, ..RefusedSettings::default() }).await;
    berth.host("cn1", &[("VCPU", 4)]).await;
    for nth in 0..10 {
        kept(&berth, &id(&berth.get(&query(nth)).await.expect(200))).await;
    }
    let list = berth.get("/-/v1/refused").await.expect(200).json();
    let kept = &list["kept"];
    assert!(
        kept["bytes"].as_u64().unwrap() <= 6000 && kept["requests"].as_u64().unwrap() >= 2,
        "{kept}"
    );
    assert!(kept["gone_by_bytes"].as_u64().unwrap() > 0, "{kept}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_left_out_but_its_faults_are_not() {
    let berth = Berth::new().await;
    let host = berth.host("cn1", &[("VCPU", 4)]).await.0.to_string();
    let consumers =
        (1..400_u128).map(|nth| (uuid::Uuid::from_u128(nth).to_string(), claim(&host, 5, None)));
    let body: serde_json::Map<String, Value> = consumers.collect();
    let refused = berth.post("/allocations", Value::from(body)).await.expect(409);
    let found = kept(&berth, &id(&refused)).await["requests"][0].clone();
    assert_eq!((&found["body"], &found["faults"]["count"]), (&Value::Null, &json!(1)));
    assert!(found["body_bytes"].as_u64().unwrap() > 64 * 1024);
    assert_eq!(found["faults"]["faults"][0]["wanted"], 5 * 399);
}

/// More queries find nothing than are counted: their answers do not wait, and they are kept without counts.
#[tokio::test]
async fn a_body_that_is_no_json_is_left_out() {
    let berth = Berth::new().await;
    let path = "/resource_providers/a5500000-0000-4000-8000-000000000001/inventories/VCPU";
    let refused = berth.ask(Method::PUT, path, Some(b"no JSON".to_vec())).await.expect(404);
    let found = kept(&berth, &id(&refused)).await;
    let request = &found["requests"][0];
    assert_eq!((&request["body"], &request["body_bytes"]), (&Value::Null, &json!(7)));
}

#[tokio::test]
async fn many_queries_that_find_nothing_are_kept_but_not_all_are_counted() {
    let berth = Berth::new().await;
    berth.host("cn1", &[("VCPU", 4)]).await;
    // Nothing is counted between these requests: the test has one thread, and they do not wait.
    let all: Vec<_> = (0..64).map(|_| berth.get(NOTHING)).collect();
    let answers = futures_util::future::join_all(all).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    let (mut counted, mut busy) = (0, 0);
    for answer in &answers {
        let found = kept(&berth, &id(answer)).await["requests"][0].clone();
        match found["left_out"].as_str() {
            None => counted += 1,
            Some("busy") => busy += 1,
            Some(other) => panic!("{other}"),
        }
    }
    let list = berth.get("/-/v1/refused").await.expect(200).json();
    assert_eq!(list["kept"]["not_counted"], busy);
    assert!(counted >= 8 && busy > 0 && counted + busy == 64, "{counted} {busy}");
}

#[tokio::test]
async fn no_refusals_are_kept_if_this_is_off() {
    for off in [
        RefusedSettings { requests: 0, ..RefusedSettings::default() },
        RefusedSettings { bytes: 0, ..RefusedSettings::default() },
        RefusedSettings { age: Duration::ZERO, ..RefusedSettings::default() },
    ] {
        let berth = keeping(off).await;
        let nothing = berth.get(NOTHING).await.expect(200);
        for path in ["/-/v1/refused".to_owned(), format!("/-/v1/refused/{}", id(&nothing))] {
            let refused = berth.get(&path).await.expect(404);
            assert!(refused.detail().contains("keeps no refused requests"), "{}", refused.detail());
        }
    }
}

#[tokio::test]
async fn only_administrators_and_services_see_them_and_no_token_is_in_them() {
    let berth = Berth::new().await;
    let secret = "admin:hunter2-secret";
    let nothing = berth.header("x-service-token", secret).get(NOTHING).await.expect(200);
    let shown = berth.get(&format!("/-/v1/refused/{}", id(&nothing))).await.expect(200);
    assert!(!shown.text().contains("hunter2"), "{}", shown.text());
    for path in ["/-/v1/refused", "/-/v1/refused/x"] {
        let denied = berth.header("x-auth-token", "someone").get(path).await.expect(403);
        assert!(denied.detail().contains("berth:refused:show"), "{}", denied.detail());
        berth.without("x-auth-token").get(path).await.expect(401);
    }
}

/// The ring belongs to one process.
#[tokio::test]
async fn another_replica_does_not_know_them() {
    let berth = Berth::new().await;
    let nothing = berth.get(NOTHING).await.expect(200);
    let replica = berth.replica().await;
    let unknown = replica.get(&format!("/-/v1/refused/{}", id(&nothing))).await.expect(404);
    assert!(
        unknown.detail().contains("only those that it has answered itself"),
        "{}",
        unknown.detail()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_says_why_by_the_id_in_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let url = format!("http://{}", server.address);
    let why = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["why", "--url", &url]).args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let message = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(message).unwrap())
    };
    let (code, message) = why(&[]).await;
    assert!(code == Some(0) && message.starts_with("No request was refused"), "{message}");
    let client = reqwest::Client::new();
    let nothing = client
        .get(format!("{url}/allocation_candidates?resources=VCPU:9"))
        .header("x-auth-token", "admin")
        .header("x-openstack-request-id", GLOBAL)
        .header("openstack-api-version", "placement 1.36")
        .send()
        .await
        .unwrap();
    assert_eq!(nothing.status(), 200);
    let line = format!("INFO nova.scheduler.manager [None {GLOBAL} admin admin] Got no candidates");
    let message = loop {
        let (code, message) = why(&[&line]).await;
        assert_eq!(code, Some(0), "{message}");
        if !message.contains("being counted") {
            break message;
        }
    };
    for words in [
        &format!("on behalf of {GLOBAL}"),
        "GET /allocation_candidates?resources=VCPU:9\nat microversion 1.36, answered with 200",
        "\nTHEN\n0 of 0 hosts fit",
        "\nNOW\n0 of 0 hosts fit",
    ] {
        assert!(message.contains(words), "{message}");
    }
    let (code, message) = why(&[GLOBAL, "--then", "--json"]).await;
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!((code, &message[0]["now"]), (Some(0), &Value::Null));
    assert_eq!(message[0]["then"]["global_request_id"], GLOBAL);
    let (code, message) = why(&["--kind", "candidates", "--project", "admin"]).await;
    assert!(code == Some(0) && message.contains(GLOBAL), "{message}");
    let (code, message) = why(&["req-5c0bfa84-6b1c-4bbd-9d2f-000000000000"]).await;
    assert!(code == Some(1) && message.contains("This process knows no request"), "{message}");
}

/// Each process keeps what it has answered itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_asks_one_replica_after_the_other() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let ignorant = Server::start(directories[0].path()).await;
    let knowing = Server::start(directories[1].path()).await;
    let urls = [&ignorant, &knowing].map(|it| format!("http://{}/", it.address));
    let nothing = reqwest::Client::new()
        .get(format!("{}allocation_candidates?resources=VCPU:9", urls[1]))
        .header("x-auth-token", "admin")
        .header("x-openstack-request-id", GLOBAL)
        .header("openstack-api-version", "placement 1.36");
    assert_eq!(nothing.send().await.unwrap().status(), 200);
    let why = async |arguments: &[&str], environment: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.arg("why").args(arguments).env("BERTH_PLACEMENT_URL", environment);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let message = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(message).unwrap())
    };
    let both = ["--url", &urls[0], "--url", &urls[1], GLOBAL];
    for (succeeds, message) in [why(&both, "").await, why(&[GLOBAL], &urls.join(" ")).await] {
        let first = format!("recorded by {}\n", urls[1]);
        assert!(
            succeeds && message.starts_with(&first) && message.contains("\nTHEN\n"),
            "{message}"
        );
    }
    let (_, message) = why(&[GLOBAL, "--json"], &urls.join(" ")).await;
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!(message[0]["replica"], urls[1]);
    let (succeeds, message) = why(&both[..4], "").await;
    let lists = [format!("{}\nNo request", urls[0]), format!("{}\nTIME", urls[1])];
    assert!(succeeds && lists.iter().all(|it| message.contains(it)), "{message}");
    let twice = ["--url", &urls[0], "--url", &urls[0], GLOBAL];
    let (succeeds, message) = why(&twice, "").await;
    assert!(!succeeds && message.matches("knows no request").count() == 2, "{message}");
}
