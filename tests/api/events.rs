//! `/-/v1/events`: every committed change, once and in order; and the copy of a cloud that is kept by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use berth::http::Options;
use berth::http::app::EventSettings;
use berth::operator_api::events::written;
use berth::store::{EventLog, Pruning, StoreOptions};
use futures_util::StreamExt;
use serde_json::{Value, json};
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::{Host, claim_body};
use crate::support::postgres;
use crate::support::process::{Server, signal};

/// How long anything may take that is bound to happen.
const PATIENCE: Duration = Duration::from_secs(30);

fn keeping(database: &PgConnectOptions) -> StoreOptions {
    let events = Some(EventLog { hours: 1, write: written });
    StoreOptions { events, ..StoreOptions::at(database.clone(), 5) }
}

/// A replica that keeps events and knows who asks.
async fn replica(database: &PgConnectOptions) -> Berth {
    with(database, EventSettings::default()).await
}

async fn with(database: &PgConnectOptions, events: EventSettings) -> Berth {
    let options = Options { history: true, events, ..Options::default() };
    Berth::opened(keeping(database), options).await
}

/// An answer that goes on.
struct Following {
    body: BodyDataStream,
    read: Vec<u8>,
}

impl Following {
    async fn new(berth: &Berth, query: &str) -> Self {
        let request = Request::get(format!("/-/v1/events{query}"))
            .header("host", "localhost")
            .header("x-auth-token", "admin")
            .header("accept-encoding", "gzip")
            .body(Body::empty());
        let answer = berth.answer(request.unwrap()).await;
        assert_eq!(answer.status(), 200);
        assert!(!answer.headers().contains_key("content-encoding"));
        Self { body: answer.into_body().into_data_stream(), read: Vec::new() }
    }

    /// The next line; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let part = tokio::time::timeout(PATIENCE, self.body.next()).await;
            self.read.extend(part.unwrap()?.unwrap());
        }
    }

    /// The next line that is a change.
    async fn change(&mut self) -> Value {
        loop {
            let event = self.next().await.unwrap();
            if event["kind"] != "position" {
                return event;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_is_told_with_what_it_left() {
    let berth = replica(&postgres::database().await).await;
    let mut following = Following::new(&berth, "").await;
    let first = following.next().await.unwrap();
    assert_eq!(first["kind"], "position");
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let created = following.change().await;
    assert_eq!(created["kind"], "provider");
    assert_eq!(
        created["provider"],
        json!({"uuid": host.0, "name": "host", "generation": 0, "parent_provider_uuid": null,
               "root_provider_uuid": host.0, "inventories": {}, "traits": [], "aggregates": []})
    );
    assert!(created["request_id"].as_str().unwrap().starts_with("req-"));
    assert_eq!(created["caller"]["user_id"], "admin");
    let stocked = following.change().await;
    assert_eq!(stocked["provider"]["generation"], 1);
    assert_eq!(stocked["provider"]["inventories"]["VCPU"]["total"], 8);
    let consumer = Uuid::new_v4();
    let global = "req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901";
    let asking = berth.header("x-openstack-request-id", global);
    asking.claim(consumer, None, &[(host, "VCPU", 3)]).await.expect(204);
    let claimed = following.change().await;
    assert_eq!(claimed["global_request_id"], global);
    for (name, expected) in [
        ("kind", json!("consumer")),
        ("uuid", json!(consumer)),
        ("project_id", json!("project")),
        ("user_id", json!("user")),
        ("consumer_type", json!("INSTANCE")),
        ("consumer_generation", json!(1)),
        ("allocations", json!({host.0.to_string(): {"generation": 2, "resources": {"VCPU": 3}}})),
        ("left", json!({})),
    ] {
        assert_eq!(claimed[name], expected, "{name}");
    }
    berth.delete(&format!("/allocations/{consumer}")).await.expect(204);
    let released = following.change().await;
    for (name, expected) in [
        ("consumer_generation", Value::Null),
        ("project_id", json!("project")),
        ("allocations", json!({})),
        ("left", json!({host.0.to_string(): 2})),
    ] {
        assert_eq!(released[name], expected, "{name}");
    }
    berth.put("/traits/CUSTOM_X", json!({})).await.expect(201);
    let named = following.change().await;
    assert_eq!((&named["kind"], &named["after"]), (&json!("trait"), &json!("CUSTOM_X")));
    berth.put("/resource_classes/CUSTOM_Y", json!({})).await.expect(201);
    assert_eq!(following.change().await["kind"], "resource_class");
    berth.delete(&format!("/resource_providers/{}", host.0)).await.expect(204);
    let deleted = following.change().await;
    assert_eq!((&deleted["uuid"], &deleted["provider"]), (&json!(host.0), &Value::Null));
    // Refused requests are no changes, and numbers rise.
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 3)]).await.expect(400);
    let number = |event: &Value| event["number"].as_i64().unwrap();
    assert!(number(&claimed) < number(&released) && number(&released) < number(&deleted));
    // From any number, the rest comes, the same and once.
    let since = number(&claimed);
    let other = replica(&berth.database).await;
    let mut again = Following::new(&other, &format!("?since={since}")).await;
    assert_eq!(again.change().await, released);
    assert_eq!(again.change().await, named);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_sent_events_go_on_from_the_last_id() {
    let berth = replica(&postgres::database().await).await;
    let number = number(&berth).await;
    berth.host("host", &[]).await;
    let request = Request::get("/-/v1/events")
        .header("host", "localhost")
        .header("x-auth-token", "admin")
        .header("accept", "text/event-stream")
        .header("last-event-id", number.to_string())
        .body(Body::empty());
    let answer = berth.answer(request.unwrap()).await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut body = answer.into_body().into_data_stream();
    let mut text = String::new();
    while !text.contains("event: provider\n") {
        let part = tokio::time::timeout(PATIENCE, body.next()).await.unwrap();
        text += std::str::from_utf8(&part.unwrap().unwrap()).unwrap();
    }
    assert!(text.starts_with(&format!("id: {number}\nevent: position\ndata: {{")), "{text}");
    assert!(text.ends_with("}\n\n"), "{text}");
}

/// The number of the last event.
async fn number(berth: &Berth) -> i64 {
    berth.get("/-/v1/providers?name=nobody").await.expect(200).json()["number"].as_i64().unwrap()
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said() {
    let berth = replica(&postgres::database().await).await;
    for (query, expected) in [
        ("?since=x", "since must be the number of an event, not x"),
        ("?since=-1", "since must be the number of an event, not -1"),
        ("?nonsense=1", "the only parameter is since, not nonsense"),
    ] {
        let refused = berth.get(&format!("/-/v1/events{query}")).await.expect(400);
        assert!(refused.detail().contains(expected), "{}", refused.detail());
    }
    berth.header("accept", "text/html").get("/-/v1/events").await.expect(406);
    let denied = berth.header("x-auth-token", "someone").get("/-/v1/events").await.expect(403);
    assert!(denied.detail().contains("berth:events:show"), "{}", denied.detail());
    let without = Berth::new().await;
    let refused = without.get("/-/v1/events").await.expect(404);
    assert!(refused.detail().contains("--events"), "{}", refused.detail());
    assert_eq!(without.get("/-/v1/providers").await.json()["number"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_is_said() {
    let database = postgres::database().await;
    let berth = replica(&database).await;
    let before = number(&berth).await;
    berth.host("one", &[]).await;
    let gap = async |since: i64| {
        let refused = berth.get(&format!("/-/v1/events?since={since}")).await.expect(410);
        assert!(refused.detail().contains("read everything again"), "{}", refused.detail());
    };
    // Numbers that there never were, and the number of a database that was restored since.
    gap(0).await;
    gap(number(&berth).await + 1000).await;
    // What a replica without the log changes is missing in it, and those who listen are told.
    let mut following = Following::new(&berth, &format!("?since={before}")).await;
    assert_eq!(following.change().await["provider"]["name"], "one");
    let since = number(&berth).await;
    let other = Berth::over(&database).await;
    other.host("two", &[]).await;
    let told = following.change().await;
    assert_eq!(told["kind"], "gap");
    assert_eq!(following.next().await, None, "the answer ends");
    gap(since).await;
    // From there on the log is whole again.
    let since = number(&berth).await;
    let mut following = Following::new(&berth, &format!("?since={since}")).await;
    berth.host("three", &[]).await;
    assert_eq!(following.change().await["provider"]["name"], "three");
    // What is older than the log is kept goes, and what is not stays.
    let since = number(&berth).await;
    berth.host("four", &[]).await;
    number(&berth).await;
    let mut session = berth.session().await;
    let age = "update event_batches set made_at = made_at - interval '2 hours' where number <= $1";
    sqlx::query(age).bind(since).execute(&mut session).await.unwrap();
    let pruning = Pruning { period: Duration::from_millis(50), ..Pruning::default() };
    let pruner = StoreOptions { pruning, ..keeping(&database) };
    let _pruner = Berth::opened(pruner, Options::default()).await;
    let rows = "select count(*) from events";
    while sqlx::query_scalar::<_, i64>(rows).fetch_one(&mut session).await.unwrap() > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut following = Following::new(&berth, &format!("?since={since}")).await;
    assert_eq!(following.change().await["provider"]["name"], "four");
    gap(since - 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_elsewhere_begins_a_log_of_its_own() {
    let berth = replica(&postgres::database().await).await;
    let since = number(&berth).await;
    berth.host("one", &[]).await;
    assert!(number(&berth).await > since);
    // A dump writes the row anew.
    let mut session = berth.session().await;
    sqlx::raw_sql("update event_log set begun = begun").execute(&mut session).await.unwrap();
    berth.host("two", &[]).await;
    let begun = number(&berth).await;
    berth.get(&format!("/-/v1/events?since={since}")).await.expect(410);
    let mut following = Following::new(&berth, &format!("?since={begun}")).await;
    berth.host("three", &[]).await;
    assert_eq!(following.change().await["provider"]["name"], "three");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_hears_that_nothing_has_changed() {
    let settings =
        EventSettings { heartbeat: Duration::from_millis(50), ..EventSettings::default() };
    let berth = with(&postgres::database().await, settings).await;
    let mut following = Following::new(&berth, "").await;
    let first = following.next().await.unwrap();
    for _ in 0..3 {
        assert_eq!(following.next().await.unwrap(), first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_is_cut_off_with_a_word() {
    let patience = Duration::from_millis(200);
    let settings = EventSettings {
        heartbeat: Duration::from_millis(20),
        patience,
        followers: 2,
        ..EventSettings::default()
    };
    let berth = with(&postgres::database().await, settings).await;
    let mut following = Following::new(&berth, "").await;
    // One place is left for other projects.
    berth.get("/-/v1/events").await.expect(503);
    tokio::time::sleep(patience * 5).await;
    let mut last = Value::Null;
    while let Some(event) = following.next().await {
        last = event;
    }
    assert_eq!(last["kind"], "end");
    assert_eq!(last["detail"], "the client has taken nothing in for too long");
    // It can go on from there, and has a place again.
    let since = last["number"].as_i64().unwrap();
    berth.host("host", &[]).await;
    let mut following = Following::new(&berth, &format!("?since={since}")).await;
    assert_eq!(following.change().await["provider"]["name"], "host");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_lasts_for_so_long_and_ends_with_the_server() {
    let lifetime = Duration::from_millis(300);
    let settings = EventSettings { lifetime, ..EventSettings::default() };
    let berth = with(&postgres::database().await, settings).await;
    let mut following = Following::new(&berth, "").await;
    assert_eq!(following.next().await.unwrap()["kind"], "position");
    assert_eq!(following.change().await["kind"], "end");
    assert_eq!(following.next().await, None);
    let berth = replica(&berth.database).await;
    let wide = crate::support::served::wide();
    let served = crate::support::served::Served::new(&berth, wide).await;
    let address = served.address();
    let request = crate::support::served::get("/-/v1/events");
    let following = tokio::spawn(async move {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        crate::support::served::converse(stream, request.as_bytes()).await
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    served.stop().await;
    let told = following.await.unwrap();
    assert!(told.contains("the server stops"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_client_goes_its_place_is_free() {
    let settings = EventSettings { followers: 2, ..EventSettings::default() };
    let berth = with(&postgres::database().await, settings).await;
    for _ in 0..5 {
        let mut following = Following::new(&berth, "").await;
        following.next().await.unwrap();
        drop(following);
        // The task ends a moment later.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_changes_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_with(directory.path(), &["--events", "1"]).await;
    let url = format!("http://{}", server.address);
    let create = async |name: &str| {
        let body = json!({"name": name});
        server.ask("POST", "/resource_providers", Some(&body)).await.unwrap()
    };
    create("one").await;
    let (_, all) = server.ask("GET", "/-/v1/providers", None).await.unwrap();
    let all: Value = serde_json::from_str(&all).unwrap();
    let since = all["number"].as_i64().unwrap();
    create("two").await;
    create("three").await;
    let watch = |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["watch", "--url", &url]).args(arguments).kill_on_drop(true);
        command.stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let lines = async |arguments: &[&str], count| {
        let mut command = watch(arguments);
        let stdout = command.stdout.take().unwrap();
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(stdout));
        let mut found = Vec::new();
        while found.len() < count {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap();
            found.push(line.unwrap().unwrap());
        }
        found
    };
    let told = lines(&["--since", &since.to_string()], 2).await;
    assert!(told[0].contains("provider two at generation 0: nothing  (admin, req-"), "{told:?}");
    assert!(told[1].contains("provider three"), "{told:?}");
    let of_three = ["three", "--since", &since.to_string(), "--format", "json"];
    let told: Value = serde_json::from_str(&lines(&of_three, 1).await[0]).unwrap();
    assert_eq!(told["provider"]["name"], "three");
}

/// A copy of a cloud: what a client knows from one bulk read and the events since.
#[derive(Default)]
struct Copy {
    number: i64,
    /// Providers as a bulk read tells of them, without usages and allocations.
    providers: BTreeMap<String, Value>,
    /// Consumers by UUID: owner, generation, allocations.
    consumers: BTreeMap<String, Value>,
}

const PARTS: &str = "include=inventories,usages,traits,aggregates,allocations";

impl Copy {
    async fn read(berth: &Berth) -> Self {
        let all = berth.get(&format!("/-/v1/providers?{PARTS}")).await.expect(200).json();
        let mut copy = Self { number: all["number"].as_i64().unwrap(), ..Self::default() };
        for provider in all["providers"].as_array().unwrap() {
            let mut provider = provider.clone();
            let uuid = provider["uuid"].as_str().unwrap().to_owned();
            let members = provider.as_object_mut().unwrap();
            let usages = members.remove("usages").unwrap();
            let mut used: BTreeMap<String, i64> = BTreeMap::new();
            for (consumer, held) in members.remove("allocations").unwrap().as_object().unwrap() {
                for (class, amount) in held["resources"].as_object().unwrap() {
                    *used.entry(class.clone()).or_default() += amount.as_i64().unwrap();
                }
                let known = copy.consumers.entry(consumer.clone()).or_insert_with(|| {
                    json!({
                        "project_id": held["project_id"], "user_id": held["user_id"],
                        "consumer_type": held["consumer_type"],
                        "consumer_generation": held["consumer_generation"], "allocations": {},
                    })
                });
                known["allocations"][&uuid] = held["resources"].clone();
            }
            // The answer agrees with itself.
            for (class, amount) in usages.as_object().unwrap() {
                assert_eq!(used.remove(class).unwrap_or_default(), *amount, "{uuid} {class}");
            }
            assert_eq!(used, BTreeMap::new());
            copy.providers.insert(uuid, provider);
        }
        copy
    }

    fn apply(&mut self, event: &Value) {
        let number = event["number"].as_i64().unwrap();
        if event["kind"] == "position" {
            assert_eq!(number, self.number);
            return;
        }
        assert!(number > self.number, "{number} comes after {}", self.number);
        self.number = number;
        let uuid = event["uuid"].as_str().unwrap_or_default().to_owned();
        match event["kind"].as_str().unwrap() {
            "provider" if event["provider"].is_null() => {
                assert!(self.providers.remove(&uuid).is_some());
            }
            "provider" => drop(self.providers.insert(uuid, event["provider"].clone())),
            "consumer" => {
                let mut allocations = json!({});
                let held = event["allocations"].as_object().unwrap();
                for (provider, held) in held {
                    allocations[provider] = held["resources"].clone();
                    self.providers.get_mut(provider).unwrap()["generation"] =
                        held["generation"].clone();
                }
                for (provider, generation) in event["left"].as_object().unwrap() {
                    self.providers.get_mut(provider).unwrap()["generation"] = generation.clone();
                }
                if event["consumer_generation"].is_null() {
                    assert!(self.consumers.remove(&uuid).is_some());
                    return;
                }
                let mut consumer = json!({"allocations": allocations});
                for name in ["project_id", "user_id", "consumer_type", "consumer_generation"] {
                    consumer[name] = event[name].clone();
                }
                self.consumers.insert(uuid, consumer);
            }
            "trait" | "resource_class" => {}
            other => panic!("{other}: {event}"),
        }
    }

    /// Goes on until the number is reached.
    async fn follow(&mut self, berth: &Berth, until: i64) {
        let mut following = Following::new(berth, &format!("?since={}", self.number)).await;
        while self.number < until {
            let event = following.next().await.unwrap();
            self.apply(&event);
        }
    }

    fn assert_equals(&self, other: &Self) {
        assert_eq!(self.number, other.number);
        let keys = |copy: &Self| -> Vec<String> { copy.providers.keys().cloned().collect() };
        assert_eq!(keys(self), keys(other));
        for (uuid, provider) in &self.providers {
            assert_eq!(provider, &other.providers[uuid]);
        }
        assert_eq!(self.consumers, other.consumers);
    }
}

/// Writes at random, as several clients do, until told to stop. Requests may be refused.
async fn write(berth: Berth, seed: u64, over: Arc<AtomicBool>) {
    let mut state = seed;
    let mut dice = move |sides: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % sides
    };
    let consumers: Vec<Uuid> = (0..20).map(|nth| Uuid::from_u128(nth + 1)).collect();
    let hosts: Vec<Host> = (0..8).map(|nth| Host(Uuid::from_u128(100 + nth))).collect();
    while !over.load(Ordering::Relaxed) {
        let host = hosts[usize::try_from(dice(8)).unwrap()];
        let other = hosts[usize::try_from(dice(8)).unwrap()];
        let consumer = consumers[usize::try_from(dice(20)).unwrap()];
        let path = format!("/resource_providers/{}", host.0);
        let found = berth.get(&path).await;
        let generation = found.json()["generation"].as_i64();
        match dice(14) {
            0 => {
                let parent = (dice(3) == 0 && other.0 != host.0).then_some(other.0);
                let name = format!("host-{}-{}", host.0.as_u128(), dice(3));
                let body = json!({"name": name, "parent_provider_uuid": parent});
                if generation.is_some() {
                    berth.put(&path, body).await;
                } else {
                    let mut body = body;
                    body["uuid"] = json!(host.0);
                    berth.post("/resource_providers", body).await;
                }
            }
            1 if dice(4) == 0 => drop(berth.delete(&path).await),
            2 | 3 => {
                let total = i64::try_from(dice(30)).unwrap() + 1;
                let generation = generation.unwrap_or_default();
                berth.stock(host, generation, &[("VCPU", total), ("DISK_GB", 50)]).await;
            }
            4 => {
                let mut traits = vec!["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"];
                traits.truncate(1 + usize::try_from(dice(2)).unwrap());
                let traits = json!({"resource_provider_generation": generation, "traits": traits});
                berth.put(&format!("{path}/traits"), traits).await;
            }
            5 => {
                let aggregates = json!({"resource_provider_generation": generation,
                                        "aggregates": [Uuid::from_u128(u128::from(dice(3)))]});
                berth.put(&format!("{path}/aggregates"), aggregates).await;
            }
            6 | 7 => drop(berth.delete(&format!("/allocations/{consumer}")).await),
            8 => {
                // Two at once, one of which gives everything up.
                let held = berth.get(&format!("/allocations/{consumer}")).await.json();
                let generation = held["consumer_generation"].as_i64();
                let mut moved = claim_body(None, &[(host, "DISK_GB", 1)]);
                moved["user_id"] = json!(format!("user-{}", dice(3)));
                let mut left = claim_body(generation, &[]);
                left["allocations"] = json!({});
                let body = json!({Uuid::new_v4().to_string(): moved, consumer.to_string(): left});
                berth.post("/allocations", body).await;
            }
            _ => {
                let amounts = [dice(4), dice(3), dice(3)];
                claim(&berth, consumer, (host, other), amounts).await;
            }
        }
    }
}

/// Replaces what a consumer holds: amount, project and type are as the dice fell.
async fn claim(berth: &Berth, consumer: Uuid, (host, other): (Host, Host), dice: [u64; 3]) {
    let held = berth.get(&format!("/allocations/{consumer}")).await.json();
    let generation = held["consumer_generation"].as_i64();
    let mut wants = vec![(host, "VCPU", i64::try_from(dice[0]).unwrap() + 1)];
    if other.0 != host.0 {
        wants.push((other, "DISK_GB", 1));
    }
    let mut body = claim_body(generation, &wants);
    body["project_id"] = json!(format!("project-{}", dice[1]));
    if dice[2] == 0 {
        body["consumer_type"] = json!("VOLUME");
    }
    berth.put(&format!("/allocations/{consumer}"), body).await;
}

/// A replica in a process of its own, which claims until it is killed.
async fn killed(database: &PgConnectOptions) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let url = database.to_url_lossy().to_string();
    let options = ["--events", "1", "--database-url", &url];
    let server = Arc::new(Server::start_with(directory.path(), &options).await);
    let host = Host(Uuid::from_u128(200));
    let body = json!({"name": "killed", "uuid": host.0});
    assert_eq!(server.ask("POST", "/resource_providers", Some(&body)).await.unwrap().0, 200);
    let body = json!({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 9999}}});
    let path = format!("/resource_providers/{}/inventories", host.0);
    assert_eq!(server.ask("PUT", &path, Some(&body)).await.unwrap().0, 200);
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                let body = claim_body(None, &[(host, "VCPU", 1)]);
                for count in 0.. {
                    let path = format!("/allocations/{}", Uuid::new_v4());
                    match server.ask("PUT", &path, Some(&body)).await {
                        Ok((204, _)) => {}
                        Ok((503, _)) | Err(_) => return count,
                        Ok(other) => panic!("{other:?}"),
                    }
                }
                0
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    signal("KILL", &server.pid());
    let mut count = 0;
    for client in clients {
        count += client.await.unwrap();
    }
    count
}

/// A copy that is kept by events is the cloud: after a storm of writes by four replicas, one of which is killed,
/// and at any moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_kept_by_events_is_the_cloud() {
    let database = postgres::database().await;
    let berth = replica(&database).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut first = Copy::read(&berth).await;
    let mut writers = Vec::new();
    for number in 0..3_u64 {
        let writer = replica(&database).await;
        for lane in 0..3 {
            let seed = number * 10 + lane + 1;
            writers.push(tokio::spawn(write(writer.clone(), seed, Arc::clone(&over))));
        }
    }
    let killed = tokio::spawn({
        let database = database.clone();
        async move { killed(&database).await }
    });
    let mut copies = Vec::new();
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let now = Copy::read(&berth).await;
        first.follow(&berth, now.number).await;
        first.assert_equals(&now);
        copies.push(now);
    }
    let claimed = killed.await.unwrap();
    over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let end = Copy::read(&berth).await;
    assert!(end.consumers.len() > claimed && claimed > 20 && end.providers.len() > 3);
    let other = replica(&database).await;
    for mut copy in copies {
        copy.follow(&other, end.number).await;
        copy.assert_equals(&end);
    }
    berth.audit().await;
}
