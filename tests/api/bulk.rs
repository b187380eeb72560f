//! `/-/v1/providers`, `/-/v1/consumers` and `/-/v1/allocations/get`: a whole cloud at once, as of one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use berth::http::Options;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::Host;
use crate::support::cluster::until;
use crate::support::postgres;

const EVERYTHING: &str = "include=inventories,usages,traits,aggregates,allocations";

/// Three hosts, one with a child, and two consumers.
async fn cloud() -> (Berth, Vec<Host>, Vec<Uuid>) {
    let berth = Berth::new().await;
    let mut hosts = Vec::new();
    for (name, cores) in [("cn1", 8), ("cn2", 4), ("cn3", 2)] {
        hosts.push(berth.host(name, &[("VCPU", cores), ("DISK_GB", 100)]).await);
    }
    hosts.push(berth.child("cn1 \"numa\"", Some(hosts[0]), &[("MEMORY_MB", 1024)]).await);
    let traits = json!({"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX"]});
    berth.put(&format!("/resource_providers/{}/traits", hosts[0].0), traits).await.expect(200);
    let aggregates =
        json!({"resource_provider_generation": 1, "aggregates": [Uuid::new_v4(), Uuid::new_v4()]});
    let path = format!("/resource_providers/{}/aggregates", hosts[1].0);
    berth.put(&path, aggregates).await.expect(200);
    let mut consumers = vec![Uuid::new_v4(), Uuid::new_v4()];
    consumers.sort();
    let wants = [(hosts[0], "VCPU", 2), (hosts[0], "DISK_GB", 5), (hosts[3], "MEMORY_MB", 7)];
    berth.claim(consumers[0], None, &wants).await.expect(204);
    let wants = [(hosts[1], "VCPU", 1), (hosts[0], "DISK_GB", 1)];
    let mut body = crate::support::cloud::claim_body(None, &wants);
    for (name, value) in
        [("project_id", "other"), ("user_id", "\"u\""), ("consumer_type", "VOLUME")]
    {
        body[name] = value.into();
    }
    berth.put(&format!("/allocations/{}", consumers[1]), body).await.expect(204);
    (berth, hosts, consumers)
}

/// Reads a provider by the published API, with a request for each part.
async fn one_by_one(berth: &Berth, uuid: &str) -> Value {
    let path = format!("/resource_providers/{uuid}");
    let mut provider = berth.get(&path).await.expect(200).json();
    let members = provider.as_object_mut().unwrap();
    members.remove("links");
    for part in ["inventories", "usages", "traits", "aggregates", "allocations"] {
        let body = berth.get(&format!("{path}/{part}")).await.expect(200).json();
        members.insert(part.to_owned(), body[part].clone());
    }
    for (consumer, held) in members["allocations"].as_object_mut().unwrap() {
        let body = berth.get(&format!("/allocations/{consumer}")).await.expect(200).json();
        for name in ["project_id", "user_id", "consumer_type", "consumer_generation"] {
            held[name] = body[name].clone();
        }
    }
    provider
}

async fn listed(berth: &Berth, query: &str) -> Vec<Value> {
    let mut body = berth.get(&format!("/-/v1/providers?{query}")).await.expect(200).json();
    let Value::Array(providers) = body["providers"].take() else { panic!("no list: {body}") };
    assert_eq!(body["count"], providers.len());
    providers
}

#[tokio::test]
async fn a_listing_has_all_fields_of_the_published_api() {
    let (berth, hosts, _) = cloud().await;
    let providers = listed(&berth, EVERYTHING).await;
    assert_eq!(providers.len(), hosts.len());
    for (provider, host) in providers.iter().zip(&hosts) {
        assert_eq!(*provider, one_by_one(&berth, &host.0.to_string()).await);
    }
    let answer = berth.header("accept", "application/x-ndjson");
    let answer = answer.get(&format!("/-/v1/providers?{EVERYTHING}")).await.expect(200);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let lines: Vec<Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["count"], 4);
    assert_eq!(lines[1..], providers[..]);
}

#[tokio::test]
async fn only_requested_fields_are_listed() {
    let (berth, hosts, _) = cloud().await;
    let plain = listed(&berth, "").await;
    let names: Vec<&String> = plain[0].as_object().unwrap().keys().collect();
    let expected = ["uuid", "name", "generation", "parent_provider_uuid", "root_provider_uuid"];
    assert_eq!(names, expected);
    let uuids = |providers: Vec<Value>| -> Vec<Value> {
        providers.into_iter().map(|mut it| it["uuid"].take()).collect()
    };
    let (cn1, numa) = (hosts[0].0, hosts[3].0);
    for (query, expected) in [
        ("required=HW_CPU_X86_AVX", json!([cn1])),
        ("name=cn1&include=traits", json!([cn1])),
        ("resources=VCPU:4", json!([cn1])),
        (&format!("tree={numa}"), json!([cn1, numa])),
        (&format!("in_tree={cn1}&include=allocations"), json!([cn1, numa])),
        ("name=nobody&include=allocations", json!([])),
    ] {
        assert_eq!(Value::from(uuids(listed(&berth, query).await)), expected, "{query}");
    }
    assert_eq!(
        berth.get("/-/v1/providers?name=nobody").await.text(),
        r#"{"number":null,"count":0,"providers":[]}"#
    );
}

#[tokio::test]
async fn faults_of_a_query_are_named() {
    let (berth, ..) = cloud().await;
    for (path, expected) in [
        ("providers?include=nothing", "include can name inventories, usages"),
        ("providers?resources=NOTHING:1", "No such resource class NOTHING"),
        ("providers?tree=nothing", "in_tree"),
        ("providers?nonsense=1", "nonsense"),
        ("consumers?nonsense=1", "nonsense is not one of the parameters"),
        ("consumers?limit=0", "limit must be a number from 1 to 5000, not 0"),
        ("consumers?limit=5001", "limit must be a number from 1 to 5000, not 5001"),
        ("consumers?marker=here", "marker must be a UUID, not here"),
        ("consumers?provider=cn1", "provider must be a UUID, not cn1"),
    ] {
        let refused = berth.get(&format!("/-/v1/{path}")).await.expect(400);
        assert!(refused.detail().contains(expected), "{path}: {}", refused.detail());
    }
    let many: Vec<Uuid> = (0..1001).map(|_| Uuid::new_v4()).collect();
    for (body, expected) in [
        (json!({}), "missing field `consumers`"),
        (json!({"consumers": ["x"]}), "\"x\" is not the UUID of a consumer"),
        (json!({"consumers": [], "more": 1}), "unknown field `more`"),
        (json!({"consumers": many}), "at most 1000 consumers can be named, not 1001"),
    ] {
        let refused = berth.post("/-/v1/allocations/get", body).await.expect(400);
        assert!(refused.detail().contains(expected), "{}", refused.detail());
    }
    let refused = berth.header("accept", "text/html").get("/-/v1/providers").await;
    refused.expect(406);
}

#[tokio::test]
async fn only_administrators_and_services_read_the_cloud() {
    let (berth, ..) = cloud().await;
    let someone = berth.header("x-auth-token", "someone");
    for (path, rule) in
        [("providers", "berth:providers:list"), ("consumers", "berth:consumers:list")]
    {
        let denied = someone.get(&format!("/-/v1/{path}")).await.expect(403);
        assert!(denied.detail().contains(rule), "{}", denied.detail());
        berth.without("x-auth-token").get(&format!("/-/v1/{path}")).await.expect(401);
    }
    let body = json!({"consumers": []});
    someone.post("/-/v1/allocations/get", body).await.expect(403);
}

/// Returns each consumer as in `GET /allocations`.
async fn consumer(berth: &Berth, uuid: Uuid) -> Value {
    let mut body = berth.get(&format!("/allocations/{uuid}")).await.expect(200).json();
    body["uuid"] = json!(uuid);
    body
}

#[tokio::test]
async fn consumers_are_listed_by_what_they_are() {
    let (berth, hosts, uuids) = cloud().await;
    let mut output = Vec::new();
    for uuid in &uuids {
        output.push(consumer(&berth, *uuid).await);
    }
    let both = json!(output);
    let provider = |host: Host| format!("provider={}", host.0);
    for (query, expected) in [
        (String::new(), &both),
        ("project=other".to_owned(), &json!([output[1]])),
        ("user=user&project=project".to_owned(), &json!([output[0]])),
        ("project=nobody".to_owned(), &json!([])),
        ("type=VOLUME".to_owned(), &json!([output[1]])),
        ("type=NOTHING".to_owned(), &json!([])),
        ("type=unknown".to_owned(), &json!([])),
        (provider(hosts[0]), &both),
        (provider(hosts[3]), &json!([output[0]])),
        (provider(hosts[2]), &json!([])),
        (format!("marker={}", uuids[0]), &json!([output[1]])),
        (format!("marker={}", uuids[1]), &json!([])),
    ] {
        let answer = berth.get(&format!("/-/v1/consumers?{query}")).await.expect(200).json();
        assert_eq!(answer, json!({"consumers": expected, "next_marker": null}), "{query}");
    }
    let page = berth.get("/-/v1/consumers?limit=1").await.expect(200).json();
    assert_eq!(page, json!({"consumers": [output[0]], "next_marker": uuids[0]}));
    // Before 1.38, consumers have no type.
    let untyped = Uuid::new_v4();
    let body = json!({"project_id": "p", "user_id": "u", "consumer_generation": null,
                      "allocations": {hosts[2].0.to_string(): {"resources": {"VCPU": 1}}}});
    berth.at("1.37").put(&format!("/allocations/{untyped}"), body).await.expect(204);
    let page = berth.get("/-/v1/consumers?type=unknown").await.expect(200).json();
    assert_eq!(page["consumers"], json!([consumer(&berth, untyped).await]));
    let body = json!({"consumers": [uuids[1], Uuid::nil(), untyped, uuids[1]]});
    let answer = berth.post("/-/v1/allocations/get", body).await.expect(200).json();
    let mut expected = vec![output[1].clone(), consumer(&berth, untyped).await];
    expected.sort_by_key(|it| it["uuid"].as_str().unwrap().to_owned());
    assert_eq!(answer, json!({"consumers": expected}));
}

#[tokio::test]
async fn pages_of_consumers_have_each_of_them_once() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 1000)]).await;
    let mut expected: Vec<String> = Vec::new();
    for _ in 0..25 {
        let uuid = Uuid::new_v4();
        berth.claim(uuid, None, &[(host, "VCPU", 1)]).await.expect(204);
        expected.push(uuid.to_string());
    }
    expected.sort();
    let (mut found, mut marker) = (Vec::new(), String::new());
    loop {
        let path = format!("/-/v1/consumers?project=project&limit=10{marker}");
        let page = berth.get(&path).await.expect(200).json();
        let page_of = page["consumers"].as_array().unwrap();
        found.extend(page_of.iter().map(|it| it["uuid"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_marker"].as_str() else { break };
        marker = format!("&marker={next}");
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_page_of_consumers_ends_before_it_is_too_large() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 1000)]).await;
    let mut uuids = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()];
    uuids.sort();
    for uuid in uuids {
        berth.claim(uuid, None, &[(host, "VCPU", 1)]).await.expect(204);
    }
    sqlx::query(
        "with many as (
             insert into providers (uuid, name, root_id)
             select gen_random_uuid(), 'many-' || n, 1 from generate_series(1, 30000) n
             returning id)
         insert into allocation_sets (consumer_id, provider_id, class_ids, used)
         select c.id, m.id, '{0}', '{1}' from many m, consumers c where c.uuid = any($1)",
    )
    .bind(uuids.get(..2))
    .execute(&mut berth.session().await)
    .await
    .unwrap();
    // Without statistics, the reads may take as long as a statement may.
    let analyze = sqlx::query("analyze providers, allocation_sets");
    analyze.execute(&mut berth.session().await).await.unwrap();
    let page = berth.get("/-/v1/consumers").await.expect(200).json();
    assert_eq!(page["next_marker"], json!(uuids[0]));
    assert_eq!(page["consumers"][0]["allocations"].as_object().unwrap().len(), 30_001);
    let path = format!("/-/v1/consumers?marker={}", uuids[0]);
    let page = berth.get(&path).await.expect(200).json();
    let listed = page["consumers"].as_array().unwrap().iter().map(|it| it["uuid"].clone());
    assert_eq!(listed.collect::<Vec<_>>(), [json!(uuids[1]), json!(uuids[2])]);
    assert_eq!(page["next_marker"], Value::Null);
    let get = async |body: Value| berth.post("/-/v1/allocations/get", body).await;
    get(json!({"consumers": uuids[1..]})).await.expect(200);
    let refused = get(json!({"consumers": uuids})).await.expect(400);
    assert!(refused.detail().contains("too many allocations"), "{}", refused.detail());
}

/// Two replicas move consumers between hosts while a third reads: what is held on a provider is what is used
/// of it, and each consumer is in one place.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_of_one_moment() {
    let berth = Berth::new().await;
    let mut hosts = Vec::new();
    for nth in 0..12 {
        hosts.push(berth.host(&format!("host-{nth}"), &[("VCPU", 1000)]).await);
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut movers = Vec::new();
    for replica in [berth.replica().await, berth.replica().await] {
        for lane in 0..3_usize {
            let (replica, over, hosts) = (replica.clone(), Arc::clone(&over), hosts.clone());
            movers.push(tokio::spawn(async move {
                let (consumer, mut generation) = (Uuid::new_v4(), None);
                for nth in lane.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let (one, two) = (hosts[nth % 12], hosts[(nth * 5 + 1) % 12]);
                    let mut wants = vec![(one, "VCPU", 2)];
                    if two.0 != one.0 {
                        wants.push((two, "VCPU", 1));
                    }
                    replica.claim(consumer, generation, &wants).await.expect(204);
                    generation = Some(generation.map_or(1, |last| last + 1));
                }
            }));
        }
    }
    let mut seen = 0;
    for _ in 0..60 {
        let providers = listed(&berth, "include=usages,allocations").await;
        let mut amounts: Map<String, Value> = Map::new();
        for provider in providers {
            let mut used = 0;
            for (consumer, held) in provider["allocations"].as_object().unwrap() {
                let amount = held["resources"]["VCPU"].as_i64().unwrap();
                used += amount;
                let generation = &held["consumer_generation"];
                let known = amounts.entry(consumer.clone()).or_insert(json!([0, generation]));
                assert_eq!(known[1], *generation, "a consumer at two generations");
                known[0] = json!(known[0].as_i64().unwrap() + amount);
            }
            assert_eq!(provider["usages"]["VCPU"], used);
        }
        for (_, known) in &amounts {
            assert!(matches!(known[0].as_i64(), Some(2 | 3)), "{known}");
        }
        seen = seen.max(amounts.len());
    }
    over.store(true, Ordering::Relaxed);
    for mover in movers {
        mover.await.unwrap();
    }
    assert_eq!(seen, 6);
    berth.assert_consistent().await;
}

/// The number of sessions within a transaction.
async fn busy(berth: &Berth) -> i64 {
    sqlx::query_scalar(
        "select count(*) from pg_stat_activity where datname = current_database()
         and pid <> pg_backend_pid() and (state = 'active' or state like 'idle in transaction%')",
    )
    .fetch_one(&mut berth.session().await)
    .await
    .unwrap()
}

async fn until_idle(berth: &Berth) {
    until("no session is within a transaction", async || busy(berth).await == 0).await;
}

/// A cloud whose answer is larger than what is made ahead of the client.
async fn large(options: Options) -> Berth {
    let database = postgres::database().await;
    postgres::add_providers(&database, 6000).await;
    Berth::with(&database, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_ends_when_the_client_goes() {
    let berth = large(Options::default()).await;
    for path in ["/-/v1/providers?include=allocations", "/-/v1/providers"] {
        // More than may be read at once.
        for _ in 0..8 {
            let request = Request::get(path)
                .header("host", "localhost")
                .header("x-auth-token", "admin")
                .body(Body::empty());
            let answer = berth.answer(request.unwrap()).await;
            assert_eq!(answer.status(), 200);
            drop(answer);
        }
        until_idle(&berth).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_too_long_is_cut_off() {
    let mut stream_timeout = Duration::from_millis(300);
    let (berth, answer) = loop {
        let berth = large(Options { stream_timeout, ..Options::default() }).await;
        let request = Request::get("/-/v1/providers?include=allocations")
            .header("host", "localhost")
            .header("x-auth-token", "admin")
            .body(Body::empty());
        let answer = berth.answer(request.unwrap()).await;
        if answer.status() == 200 {
            break (berth, answer);
        }
        // A busy machine takes longer for the first part.
        stream_timeout *= 2;
    };
    until_idle(&berth).await;
    let cut = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
    assert!(cut.is_err(), "an answer that is cut off must not look whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_snapshots_are_read_at_once() {
    let options = Options { stream_wait: Duration::from_millis(100), ..Options::default() };
    let berth = large(options).await;
    let mut answers = Vec::new();
    let mut refused = 0;
    for _ in 0..6 {
        let request = Request::get("/-/v1/providers?include=allocations")
            .header("host", "localhost")
            .header("x-auth-token", "admin")
            .body(Body::empty());
        let answer = berth.answer(request.unwrap()).await;
        refused += usize::from(answer.status() == 503);
        answers.push(answer);
    }
    // One place is left for other projects.
    assert_eq!(refused, 3);
}
