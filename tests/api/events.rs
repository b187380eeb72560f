//! `/-/v1/events`: every committed change, once and in order.

use std::process::Stdio;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use berth::http::Options;
use berth::http::app::EventSettings;
use berth::store::{Pruning, StoreOptions};
use futures_util::StreamExt;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use uuid::Uuid;

use crate::support::app::{Berth, store_at};
use crate::support::cloud::claim_body;
use crate::support::cluster::until;
use crate::support::postgres;
use crate::support::process::{Server, free_port, signal};
use crate::support::served::{PATIENCE, Served, get, rest, wide};

fn keeping(database: &PgConnectOptions) -> StoreOptions {
    StoreOptions { events_hours: Some(1), ..store_at(database) }
}

/// Starts a replica that records events and authenticates callers.
pub(crate) async fn replica(database: &PgConnectOptions) -> Berth {
    with(database, EventSettings::default()).await
}

pub(crate) async fn with(database: &PgConnectOptions, events: EventSettings) -> Berth {
    let options = Options { history: true, events, ..Options::default() };
    Berth::opened(keeping(database), options).await
}

/// A streaming response.
pub(crate) struct Following {
    body: BodyDataStream,
    read: Vec<u8>,
}

impl Following {
    /// Waits for a place: that of a client that has gone is free a moment later.
    pub(crate) async fn new(berth: &Berth, query: &str) -> Self {
        let ask = async || {
            let request = Request::get(format!("/-/v1/events{query}"))
                .header("host", "localhost")
                .header("x-auth-token", "admin")
                .header("accept-encoding", "gzip")
                .body(Body::empty());
            berth.answer(request.unwrap()).await
        };
        let mut answer = ask().await;
        until("there is a place", async || {
            if answer.status() == 503 {
                answer = ask().await;
            }
            answer.status() != 503
        })
        .await;
        assert_eq!(answer.status(), 200);
        assert!(!answer.headers().contains_key("content-encoding"));
        Self { body: answer.into_body().into_data_stream(), read: Vec::new() }
    }

    /// The next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
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
async fn each_change_has_the_new_state() {
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

/// One request changes both sides: each has its event.
#[tokio::test(flavor = "multi_thread")]
async fn a_reshape_tells_of_the_provider_and_of_the_consumer() {
    let berth = replica(&postgres::database().await).await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let mut following = Following::new(&berth, "").await;
    assert_eq!(following.next().await.unwrap()["kind"], "position");
    let consumer = Uuid::new_v4();
    let body = json!({
        "inventories": {host.0.to_string(): {
            "resource_provider_generation": 1, "inventories": {"VCPU": {"total": 9}},
        }},
        "allocations": {consumer.to_string(): claim_body(None, &[(host, "VCPU", 3)])},
    });
    berth.header("x-roles", "admin,service").post("/reshaper", body).await.expect(204);
    let claimed = following.change().await;
    let reshaped = following.change().await;
    assert_eq!(claimed["uuid"], json!(consumer));
    assert_eq!(reshaped["uuid"], json!(host.0));
    assert_eq!(reshaped["provider"]["inventories"]["VCPU"]["total"], 9);
    let path = format!("/resource_providers/{}", host.0);
    let generation = berth.get(&path).await.json()["generation"].clone();
    assert_eq!(reshaped["provider"]["generation"], generation);
    assert_eq!(claimed["allocations"][host.0.to_string()]["generation"], generation);
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
async fn faults_of_a_request_are_named() {
    let berth = replica(&postgres::database().await).await;
    for (query, expected) in [
        ("?since=x", "since must be the number of an event, not x"),
        ("?since=-1", "since must be the number of an event, not -1"),
        ("?nonsense=1", "nonsense is not one of the parameters since"),
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
async fn a_gap_is_reported() {
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
    // Changes of a replica without the log are missing in it, and followers get an error.
    let mut following = Following::new(&berth, &format!("?since={before}")).await;
    assert_eq!(following.change().await["provider"]["name"], "one");
    let since = number(&berth).await;
    let other = Berth::over(&database).await;
    other.host("two", &[]).await;
    let output = following.change().await;
    assert_eq!(output["kind"], "gap");
    assert_eq!(following.next().await, None, "the answer ends");
    gap(since).await;
    // From there on the log is whole again.
    let since = number(&berth).await;
    let mut following = Following::new(&berth, &format!("?since={since}")).await;
    berth.host("three", &[]).await;
    assert_eq!(following.change().await["provider"]["name"], "three");
    // Events older than the retention time are removed, and others stay.
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
    until("what is old is gone", async || {
        sqlx::query_scalar::<_, i64>(rows).fetch_one(&mut session).await.unwrap() <= 1
    })
    .await;
    let mut following = Following::new(&berth, &format!("?since={since}")).await;
    assert_eq!(following.change().await["provider"]["name"], "four");
    gap(since - 1).await;
}

/// That nothing changes for some time is no gap, although the change log is pruned meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_which_nothing_changes_has_no_gap() {
    let database = postgres::database().await;
    let period = Duration::from_millis(50);
    let pruning = Pruning { period, ..Pruning::default() };
    let berth = Berth::opened(
        StoreOptions { pruning, ..keeping(&database) },
        Options { history: true, ..Options::default() },
    )
    .await;
    let mut following = Following::new(&berth, "").await;
    let mut session = berth.session().await;
    for name in ["one", "two", "three"] {
        berth.host(name, &[]).await;
        assert_eq!(following.change().await["provider"]["name"], name);
        // The rows go in the second round after the change, at the latest.
        let rows = "select count(*) from change_log";
        until("the change log is empty", async || {
            sqlx::query_scalar::<_, i64>(rows).fetch_one(&mut session).await.unwrap() == 0
        })
        .await;
        tokio::time::sleep(4 * period).await;
    }
    let begun = "select count(*) from event_batches where count = 0";
    let begun: i64 = sqlx::query_scalar(begun).fetch_one(&mut session).await.unwrap();
    assert_eq!(begun, 1, "the log begins once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_elsewhere_begins_a_log_of_its_own() {
    let berth = replica(&postgres::database().await).await;
    let since = number(&berth).await;
    berth.host("one", &[]).await;
    assert!(number(&berth).await > since);
    // A dump writes the row again.
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
async fn followers_get_a_keepalive() {
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
    let patience = Duration::from_secs(1);
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
    drop(Following::new(&berth, "").await);
    let mut last = Value::Null;
    while let Some(event) = following.next().await {
        last = event;
    }
    assert_eq!(last["kind"], "end");
    assert_eq!(last["detail"], "the client has read nothing for too long");
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
    let served = Served::new(&berth, wide()).await;
    let mut stream = served.connect().await;
    stream.write_all(get("/-/v1/events").as_bytes()).await.unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let following = tokio::spawn(async move { rest(&mut stream).await });
    served.stop().await;
    let output = following.await.unwrap();
    assert!(output.contains("the server is stopping"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_client_goes_its_place_is_free() {
    let settings = EventSettings { followers: 2, ..EventSettings::default() };
    let berth = with(&postgres::database().await, settings).await;
    for _ in 0..5 {
        let mut following = Following::new(&berth, "").await;
        following.next().await.unwrap();
        drop(following);
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
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let lines = async |arguments: &[&str], count| {
        let mut command = watch(arguments);
        let mut output = BufReader::new(command.stdout.take().unwrap()).lines();
        let mut found = Vec::new();
        while found.len() < count {
            found.push(line(&mut output).await);
        }
        found
    };
    let output = lines(&["--since", &since.to_string()], 2).await;
    assert!(
        output[0].contains("provider two at generation 0: nothing  (admin, req-"),
        "{output:?}"
    );
    assert!(output[1].contains("provider three"), "{output:?}");
    let of_three = ["three", "--since", &since.to_string(), "--format", "json"];
    let output: Value = serde_json::from_str(&lines(&of_three, 1).await[0]).unwrap();
    assert_eq!(output["provider"]["name"], "three");
}

/// The server is killed and comes back: changes made meanwhile are reported, each once.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_goes_on_from_the_last_event_when_its_server_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let (first, address) = (directory.path(), format!("127.0.0.1:{}", free_port()));
    let start = async |address: &str| {
        let server = Server::spawn_at(address, first, &["--events", "1"]);
        server.ready().await;
        server
    };
    let create = async |server: &Server, name: &str| {
        let body = json!({"name": name});
        server.ask("POST", "/resource_providers", Some(&body)).await.unwrap()
    };
    let mut server = start(&address).await;
    let (_, all) = server.ask("GET", "/-/v1/providers", None).await.unwrap();
    let since = serde_json::from_str::<Value>(&all).unwrap()["number"].to_string();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["watch", "--since", &since, "--url", &format!("http://{address}")]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = command.kill_on_drop(true).spawn().unwrap();
    let mut output = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut notices = BufReader::new(watch.stderr.take().unwrap()).lines();
    create(&server, "one").await;
    assert!(line(&mut output).await.contains("provider one"));
    signal("KILL", &server.pid());
    server.wait();
    assert!(line(&mut notices).await.contains("continuing from the last event"));
    // While the command hears nothing, another replica changes something.
    create(&start(&format!("127.0.0.1:{}", free_port())).await, "two").await;
    let server = start(&address).await;
    create(&server, "three").await;
    assert!(line(&mut output).await.contains("provider two"));
    assert!(line(&mut output).await.contains("provider three"));
}

/// The response of a server without events is explained.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_says_that_a_server_keeps_no_events() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["watch", "--url", &format!("http://{}", server.address)]);
    let ended = command.output().await.unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let words = String::from_utf8_lossy(&ended.stderr);
    assert!(words.contains("only Berth with --events"), "{words}");
}

/// The next line of a program's output.
async fn line<R: AsyncBufRead + Unpin>(lines: &mut Lines<R>) -> String {
    tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap()
}
