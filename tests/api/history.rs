//! The history of changes: who has changed what, read back from the database, and how it is kept.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use berth::http::app::Options;
use berth::store::history::entry::HistoryEntry;
use berth::store::history::reading::{HistoryQuery, HistoryResult, read};
use berth::store::{Pruning, StoreOptions};
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use uuid::Uuid;

use crate::support::app::{Berth, store_at};
use crate::support::cloud::claim_body;
use crate::support::cluster::until;
use crate::support::postgres;
use crate::support::process::{Server, signal};
use crate::support::served::PATIENCE;

const KEPT_DAYS: u16 = 30;

/// Options of a store that keeps the history.
fn keeping(database: &PgConnectOptions) -> StoreOptions {
    StoreOptions { history_days: Some(KEPT_DAYS), ..store_at(database) }
}

async fn berth_with(opening: StoreOptions) -> Berth {
    let berth = Berth::opened(opening, Options { history: true, ..Options::default() }).await;
    berth.header("x-auth-token", "admin:team")
}

/// A replica that keeps the history.
async fn berth() -> Berth {
    berth_with(keeping(&postgres::database().await)).await
}

/// A replica that keeps the history and has the console.
async fn berth_with_console() -> Berth {
    let options = Options { history: true, console: true, ..Options::default() };
    let berth = Berth::opened(keeping(&postgres::database().await), options).await;
    berth.header("x-auth-token", "admin:team")
}

async fn ask(database: &PgConnectOptions, question: HistoryQuery) -> HistoryResult {
    let mut conn = PgConnection::connect_with(database).await.unwrap();
    read(&mut conn, &question).await.unwrap()
}

async fn found(berth: &Berth, object: impl ToString) -> HistoryResult {
    let question = HistoryQuery { object: object.to_string(), since: None, limit: 1000 };
    ask(&berth.database, question).await
}

/// The entries about an object, the oldest first.
async fn entries(berth: &Berth, object: impl ToString) -> Vec<HistoryEntry> {
    found(berth, object).await.entries.into_iter().rev().collect()
}

/// Kind, generation, before and after.
fn contents(entry: &HistoryEntry) -> (&str, Option<i64>, Value, Value) {
    let state = |state: &Option<Value>| state.clone().unwrap_or_default();
    (&entry.kind, entry.generation, state(&entry.before), state(&entry.after))
}

async fn count(berth: &Berth, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(&mut berth.session().await).await.unwrap()
}

/// `berth history` with these arguments: whether it succeeds, and what it prints.
async fn command(database: &PgConnectOptions, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    let url = database.to_url_lossy().to_string();
    command.arg("history").args(arguments).args(["--config", "/dev/null", "--database-url", &url]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let printed = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(printed).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_provider_are_there_with_who_has_made_them() {
    let berth = berth().await;
    let global = format!("req-{}", Uuid::new_v4());
    let named = berth.header("x-openstack-request-id", &global);
    let provider = Uuid::new_v4();
    let path = |rest: &str| format!("/resource_providers/{provider}{rest}");
    let body = json!({"name": "a", "uuid": provider});
    let made = named.post("/resource_providers", body).await.expect(200);
    let inventory = |total| json!({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": total}}});
    berth.put(&path("/inventories"), inventory(8)).await.expect(200);
    let body = json!({"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX"]});
    berth.put(&path("/traits"), body).await.expect(200);
    let aggregate = Uuid::new_v4();
    let body = json!({"resource_provider_generation": 2, "aggregates": [aggregate]});
    berth.put(&path("/aggregates"), body).await.expect(200);
    // A refused request has changed nothing.
    berth.put(&path("/inventories"), inventory(9)).await.expect(409);
    berth.put(&path(""), json!({"name": "b"})).await.expect(200);
    berth.delete(&path("")).await.expect(204);

    let all = entries(&berth, provider).await;
    let kinds: Vec<&str> = all.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "resource_provider",
            "inventories",
            "traits",
            "aggregates",
            "resource_provider",
            "resource_provider"
        ]
    );
    let first = &all[0];
    let request = made.headers["x-openstack-request-id"].to_str().unwrap();
    assert_eq!(first.request_id.as_deref(), Some(request));
    assert_eq!(first.global_request_id.as_deref(), Some(global.as_str()));
    assert_eq!((first.user.as_deref(), first.project.as_deref()), (Some("admin"), Some("team")));
    let named = |generation, name| json!({"generation": generation, "name": name, "parent": null});
    assert_eq!(contents(first), ("resource_provider", Some(0), Value::Null, named(0, "a")));
    let (_, generation, before, after) = contents(&all[2]);
    assert_eq!(generation, Some(2));
    assert_eq!(before, json!({"generation": 1, "traits": []}));
    assert_eq!(after, json!({"generation": 2, "traits": ["HW_CPU_X86_AVX"]}));
    assert_eq!(contents(&all[4]), ("resource_provider", Some(3), named(3, "a"), named(3, "b")));
    assert_eq!(contents(&all[5]), ("resource_provider", Some(3), named(3, "b"), Value::Null));
    // It is gone, and its names still lead to it.
    for name in ["a", "b"] {
        let found = found(&berth, name).await;
        assert_eq!((found.objects, found.entries.len()), (vec![provider], 6), "{name}");
    }
    assert!(found(&berth, "c").await.objects.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_claim_of_a_batch_has_its_own_entry_and_a_refused_one_has_none() {
    let berth = berth().await;
    let host = berth.host("host", &[("VCPU", 20)]).await;
    let consumers: Vec<Uuid> = (0..40).map(|_| Uuid::new_v4()).collect();
    let requested =
        consumers.iter().map(|consumer| berth.claim(*consumer, None, &[(host, "VCPU", 1)]));
    let answers = futures_util::future::join_all(requested).await;
    let mut written = 0;
    let mut last = None;
    for (consumer, answer) in consumers.iter().zip(answers) {
        let entries = entries(&berth, consumer).await;
        if answer.status != 204 {
            assert_eq!(entries, [], "{}", answer.text());
            continue;
        }
        written += 1;
        last = Some(*consumer);
        let after = json!({"generation": 1, "allocations": {host.0.to_string(): {"VCPU": 1}}});
        assert_eq!(entries.len(), 1);
        assert_eq!(contents(&entries[0]), ("allocations", Some(1), Value::Null, after));
        let request = answer.headers["x-openstack-request-id"].to_str().unwrap();
        assert_eq!(entries[0].request_id.as_deref(), Some(request));
    }
    assert_eq!(written, 20);
    // The provider's history has them, too, in the order in which they were written.
    let of_host = entries(&berth, "host").await;
    assert_eq!(of_host.iter().filter(|entry| entry.kind == "allocations").count(), 20);
    assert!(of_host.is_sorted_by_key(|entry| entry.id));
    let last = last.unwrap();
    berth.claim(last, Some(1), &[(host, "VCPU", 1)]).await.expect(204);
    berth.delete(&format!("/allocations/{last}")).await.expect(204);
    let entries = entries(&berth, last).await;
    assert_eq!(entries.len(), 3);
    assert_eq!((entries[2].generation, &entries[2].after), (Some(2), &None));
    assert_eq!(entries[2].subjects.len(), 2);
    berth.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reshaping_is_one_entry() {
    let berth = berth().await;
    let host = berth.host("host", &[("VCPU", 8), ("VGPU", 4)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 2), (host, "VGPU", 1)]).await.expect(204);
    let child = berth.child("gpu", Some(host), &[]).await;
    let generation = berth.generation(host).await;
    let body = json!({
        "inventories": {
            host.0.to_string(): {"resource_provider_generation": generation,
                                 "inventories": {"VCPU": {"total": 8}}},
            child.0.to_string(): {"resource_provider_generation": 0,
                                  "inventories": {"VGPU": {"total": 4}}}},
        "allocations": {consumer.to_string(): {
            "allocations": {host.0.to_string(): {"resources": {"VCPU": 2}},
                            child.0.to_string(): {"resources": {"VGPU": 1}}},
            "project_id": "project", "user_id": "user", "consumer_generation": 1,
            "consumer_type": "INSTANCE"}},
    });
    berth.header("x-roles", "service").post("/reshaper", body).await.expect(204);
    let request = entries(&berth, consumer).await[1].request_id.clone();
    let of_child = entries(&berth, child.0).await;
    let of_request: Vec<&str> = of_child
        .iter()
        .filter(|entry| entry.request_id == request)
        .map(|entry| entry.kind.as_str())
        .collect();
    assert_eq!(of_request, ["allocations", "inventories"]);
    let moved = &entries(&berth, consumer).await[1];
    let (_, _, before, after) = contents(moved);
    assert_eq!(before["allocations"], json!({host.0.to_string(): {"VGPU": 1}}));
    assert_eq!(after["allocations"], json!({child.0.to_string(): {"VGPU": 1}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_it_and_says_how_far_it_reaches() {
    let database = postgres::database().await;
    let before = Berth::over(&database).await;
    before.host("early", &[("VCPU", 1)]).await;
    let (succeeds, words) = command(&database, &["early"]).await;
    assert!(!succeeds && words.contains("there is no history"), "{words}");

    let berth = berth_with(keeping(&database)).await;
    let (_, words) = command(&database, &["early", "--since", "2000-01-01"]).await;
    assert!(words.starts_with("No change of early is recorded.\n"), "{words}");
    assert!(words.contains("The history does not reach that far back. Changes are known since 20"));
    let (_, words) = command(&database, &["no such host"]).await;
    assert!(words.starts_with("No provider is or was named \"no such host\""), "{words}");

    let host = berth.host("host", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 2)]).await.expect(204);
    berth.claim(consumer, Some(1), &[(host, "VCPU", 4)]).await.expect(204);
    let (_, words) = command(&database, &["host"]).await;
    let lines: Vec<&str> = words.lines().collect();
    assert_eq!(lines.len(), 6, "{words}");
    assert!(lines[0].starts_with("time"), "{words}");
    assert!(
        lines[1].contains("VCPU@host 2 -> 4") && lines[1].contains("admin  team     req-"),
        "{words}"
    );
    assert!(lines[2].contains("created: +VCPU@host=2"), "{words}");
    assert!(lines[4].contains("created: +name=host"), "{words}");
    assert!(lines[5].starts_with("Changes are known since 20"), "{words}");
    let (_, words) = command(&database, &["host", "--limit", "2", "--since", "1h"]).await;
    assert!(words.contains("There are older changes: see --limit."), "{words}");

    let consumer = consumer.to_string();
    let (_, words) = command(&database, &[&consumer, "--json"]).await;
    let document: Value = serde_json::from_str(&words).unwrap();
    assert_eq!(document["objects"], json!([consumer]));
    assert_eq!(document["changes"].as_array().unwrap().len(), 2);
    let newest = &document["changes"][0];
    assert_eq!((&newest["type"], &newest["generation"]), (&json!("allocations"), &json!(2)));
    assert_eq!(newest["before"]["allocations"][host.0.to_string()]["VCPU"], 2);
    assert_eq!(document["recorded"][0]["to"], Value::Null);

    // A replica without the option: its changes are not recorded, and the command says so.
    let without = Berth::over(&database).await;
    without.claim(consumer.parse().unwrap(), Some(2), &[(host, "VCPU", 1)]).await.expect(204);
    let (_, words) = command(&database, &[&consumer]).await;
    assert!(words.contains("changes are not recorded: there were servers with --history 0"));
    assert!(!words.contains("4 -> 1"), "{words}");
    drop(berth_with(keeping(&database)).await);
    let (_, words) = command(&database, &[&consumer]).await;
    assert!(words.contains("changes were not recorded"), "{words}");

    let (succeeds, words) = command(&database, &["host", "--since", "soon"]).await;
    assert!(!succeeds && words.contains("or an age"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_option_nothing_is_written() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 2)]).await.expect(204);
    let stored = "select (select count(*) from history) + (select count(*) from history_periods)";
    assert_eq!(count(&berth, stored).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_entries_are_removed_piece_by_piece_and_what_is_left_is_measured() {
    berth::observe::metrics::collect();
    let database = postgres::database().await;
    let pruning =
        Pruning { period: Duration::from_millis(300), piece: 3, pause: Duration::from_millis(1) };
    let berth = berth_with(StoreOptions { pruning, ..keeping(&database) }).await;
    let host = berth.host("host", &[("VCPU", 100)]).await;
    for _ in 0..20 {
        berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
    }
    let age = "update history_periods set began = began - interval '40 days';
               update history set at = at - interval '29 days';
               update history set at = at - interval '10 days'
               where id < (select min(id) + 15 from history)";
    let before = entries(&berth, host.0).await;
    assert_eq!(before.len(), 22);
    // A change while old entries are removed.
    sqlx::raw_sql(age).execute(&mut berth.session().await).await.unwrap();
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
    let began = Instant::now();
    while count(&berth, "select count(*) from history").await > 8 {
        assert!(began.elapsed() < PATIENCE, "old entries stay");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = entries(&berth, host.0).await;
    assert_eq!(left.len(), 8);
    assert_eq!(left[0].id, before[15].id);
    let (_, words) = command(&database, &["host", "--since", "35d"]).await;
    assert!(words.contains("The history does not reach that far back."), "{words}");
    let (_, words) = command(&database, &["host", "--since", "29d"]).await;
    assert!(!words.contains("not reach"), "{words}");

    // More rows than are kept: further ones go before they are old.
    let newer = "insert into history (id, entries) values (nextval('history_id') + 5000005, '[]')";
    sqlx::raw_sql(newer).execute(&mut berth.session().await).await.unwrap();
    until("only the newest rows are left", async || {
        count(&berth, "select count(*) from history").await == 2
    })
    .await;

    let began = Instant::now();
    while !["berth_history_bytes ", "berth_history_rows ", "berth_change_log_rows "]
        .iter()
        .all(|name| berth::observe::metrics::render().unwrap().contains(&format!("\n{name}")))
    {
        assert!(began.elapsed() < PATIENCE, "{}", berth::observe::metrics::render().unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Claims and releases until it is stopped.
async fn claim_until(server: &Server, stop: &AtomicBool, seed: u128) {
    let mut nth = seed;
    while !stop.load(Ordering::Relaxed) {
        nth += 1;
        let consumer = Uuid::new_v4();
        let host = crate::support::cloud::Host(Uuid::from_u128(0xb000 + nth % 3));
        let body = claim_body(None, &[(host, "VCPU", 1)]);
        let path = format!("/allocations/{consumer}");
        let claimed = server.ask("PUT", &path, Some(&body)).await;
        if matches!(claimed, Ok((204, _))) && nth.is_multiple_of(2) {
            drop(server.ask("DELETE", &path, None).await);
        }
        if claimed.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Consumers whose last entry and whose rows differ, in generation or in what they hold; the same for the terms of
/// inventories is checked by the generation of providers.
const DIFFERENT: &str = "
    with change as (
        select id, nth, entry->>'kind' as kind, entry->>'object' as object, entry->'after' as after
        from history, jsonb_array_elements(entries::jsonb) with ordinality as e (entry, nth)
    ), recorded as (
        select distinct on (object) object, after from change where kind = 'allocations'
        order by object, id desc, nth desc
    ), held as (
        select c.uuid::text as object, c.generation, jsonb_object_agg(a.provider, a.amounts) as holds
        from consumers c
        join (select consumer_id, p.uuid as provider, jsonb_object_agg(r.name, used) as amounts
              from allocations
              join providers p on p.id = provider_id join resource_classes r on r.id = class_id
              group by consumer_id, p.uuid) a on a.consumer_id = c.id
        group by c.uuid, c.generation
    )
    select count(*) from (select * from recorded where after is not null) t
    full join held h on h.object = t.object
    where h.holds is distinct from t.after -> 'allocations'
       or h.generation is distinct from (t.after ->> 'generation')::bigint";

const ENTRIES: &str = "
    select count(*) from history, jsonb_array_elements(entries::jsonb) as entry
    where entry->>'kind' = 'allocations'";

/// After kills of Berth and PostgreSQL, exactly the stored changes are in the history.
#[tokio::test(flavor = "multi_thread")]
async fn history_and_data_agree_after_kills() {
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let options = ["--history", "7"];
    let mut server = Arc::new(Server::start_with(directory.path(), &options).await);
    for nth in 0..3_u128 {
        let uuid = Uuid::from_u128(0xb000 + nth);
        let body = json!({"name": format!("host-{nth}"), "uuid": uuid});
        assert_eq!(server.ask("POST", "/resource_providers", Some(&body)).await.unwrap().0, 200);
        let body = json!({"resource_provider_generation": 0,
                          "inventories": {"VCPU": {"total": 100_000}}});
        let path = format!("/resource_providers/{uuid}/inventories");
        assert_eq!(server.ask("PUT", &path, Some(&body)).await.unwrap().0, 200);
    }
    for round in 0..4 {
        let stop = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..8)
            .map(|seed| {
                let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
                tokio::spawn(async move { claim_until(&server, &stop, seed).await })
            })
            .collect();
        let mut conn = server.session().await;
        until("allocations are in the history", async || {
            sqlx::query_scalar::<_, i64>(ENTRIES).fetch_one(&mut conn).await.unwrap()
                > 25 * (round + 1)
        })
        .await;
        let killed = if round % 2 == 0 { server.pid() } else { server.postgres() };
        signal("KILL", &killed);
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
        drop(server);
        server = Arc::new(Server::start_with(directory.path(), &options).await);
        let mut conn = server.session().await;
        let different: i64 = sqlx::query_scalar(DIFFERENT).fetch_one(&mut conn).await.unwrap();
        assert_eq!(different, 0, "round {round}");
    }
    assert_eq!(Arc::into_inner(server).unwrap().faults(), "0 faults\n");
}

/// As root, the private PostgreSQL runs as another user, who must be able to get there.
fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_changes_of_an_object_and_the_latest_of_all() {
    let berth = berth_with_console().await;
    let host = berth.host("cn<1>", &[("VCPU", 8)]).await;
    let other = berth.host("other", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    let path = format!("/allocations/{consumer}");
    berth.put(&path, claim_body(None, &[(host, "VCPU", 2)])).await.expect(204);
    berth.delete(&path).await.expect(204);
    let page = async |path: &str| berth.get(path).await.expect(200).text();
    let taken = "+VCPU@cn&#60;1&#62;=2";
    let of_host = page(&format!("/ui/providers/{}", host.0)).await;
    for part in [taken, "VCPU.total=8", ">admin</td>", &format!("/ui/consumers/{consumer}")] {
        assert!(of_host.contains(part), "{part}: {of_host}");
    }
    assert!(!page(&format!("/ui/providers/{}", other.0)).await.contains(taken));
    let of_consumer = page(&format!("/ui/consumers/{consumer}")).await;
    assert!(of_consumer.contains("It has no allocations."), "{of_consumer}");
    assert!(of_consumer.contains(taken), "{of_consumer}");
    let of_all = page("/ui/now").await;
    assert!(of_all.contains(taken) && of_all.contains(">other</a>"), "{of_all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_searches_a_part_of_the_history_and_links_to_the_rest() {
    let berth = berth_with_console().await;
    let host = berth.host("cn", &[("VCPU", 8)]).await;
    let later = "insert into history (entries) select '[]' from generate_series(1, 30000)";
    sqlx::query(later).execute(&mut berth.session().await).await.unwrap();
    let path = format!("/ui/providers/{}", host.0);
    let text = berth.get(&path).await.expect(200).text();
    assert!(text.contains("No change in the transactions that were searched."), "{text}");
    let older = text.split("<a href=\"?before=").nth(1).unwrap().split('#').next().unwrap();
    let text = berth.get(&format!("{path}?before={older}")).await.expect(200).text();
    assert!(text.contains("VCPU.total=8") && !text.contains("?before="), "{text}");
    berth.get(&format!("{path}?before=0")).await.expect(400);
    // Whether a consumer has ever been there is known when all has been searched.
    let path = format!("/ui/consumers/{}", Uuid::new_v4());
    let text = berth.get(&path).await.expect(200).text();
    assert!(text.contains("It has no allocations."), "{text}");
    let text = berth.get(&format!("{path}?before={older}")).await.expect(200).text();
    assert!(text.contains("No older change.") && text.contains("Latest changes"), "{text}");
}
