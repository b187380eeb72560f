//! Counts of database statements: reads share one refresh and need no other statement, a batch of claims takes
//! as many statements as a single one, and one commit, and a plan of many servers as many as a small one.
//!
//! Each test runs on one thread with everything Berth does, and counts the statements that the
//! database driver reports on it; the `begin` of a transaction is not among them.

use std::cell::RefCell;
use std::sync::Once;
use std::time::{Duration, Instant};

use berth::fairness::watch::Watch;
use berth::http::app::Options;
use berth::store::StoreOptions;
use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, Executor, PgConnection};
use tracing::field::{Field, Visit};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use uuid::Uuid;

use crate::support::app::{Berth, NO_PRUNING, store_at};
use crate::support::cluster::until;
use crate::support::postgres;

/// Occur only in the statements of a refresh: whether the snapshot is the last one, and if not, what has changed.
const REFRESH: [&str; 2] = ["pg_current_snapshot()::text = $1", "with unseen as materialized"];
/// Occur only in statements that a replica runs periodically: settling the epoch, discarding plans, identifying a
/// server, and checking its schema.
const HOUSEKEEPING: [&str; 8] = [
    "from epoch",
    "discard plans",
    "pg_walfile_name",
    "show server_encoding",
    "needed (object, privilege, nth)",
    "_sqlx_migrations",
    "What a schema consists of",
    "oldest_program",
];
/// Occurs only in the statement for other replicas.
const NOTE: &str = "insert into change_log";
/// Occurs only where the history of changes gets a row.
const HISTORY: &str = "insert into history ";
const COMMIT: &str = "COMMIT";

thread_local! {
    /// The statements run on this thread, in their order, since they were last taken.
    static STATEMENTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes each statement for the thread it is run on.
struct Listener;

impl<S: tracing::Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let statement = text.full.unwrap_or(text.summary);
        STATEMENTS.with_borrow_mut(|statements| statements.push(statement));
    }
}

/// A replica with a database of its own, and its statements are noted from now on.
async fn observed() -> Berth {
    loaded(Berth::opened(opening().await, Options::default()).await).await
}

/// The same with a history of changes.
async fn observed_with_history() -> Berth {
    let opening = StoreOptions { history_days: Some(1), ..opening().await };
    loaded(Berth::opened(opening, Options { history: true, ..Options::default() }).await).await
}

/// Options for a replica with a database of its own. Statements are noted from now on.
async fn opening() -> StoreOptions {
    listen();
    // Pruning takes statements, at times that depend on the machine.
    StoreOptions { pruning: NO_PRUNING, ..store_at(&postgres::database().await) }
}

/// Waits until the consumers are in memory, because reading them takes statements.
async fn loaded(berth: Berth) -> Berth {
    let store = &berth.app().store;
    until("the consumers are in memory", async || store.consumers_in_memory().is_some()).await;
    berth
}

fn listen() {
    static LISTENING: Once = Once::new();
    // One listener for all threads: with one for each thread, the interest of a callsite could be determined on a
    // thread without one, and is cached for all.
    LISTENING.call_once(|| {
        let statements = Targets::new().with_target("sqlx::query", LevelFilter::DEBUG);
        let listening = tracing_subscriber::registry().with(Listener.with_filter(statements));
        tracing::subscriber::set_global_default(listening).unwrap();
        // Another thread may have cached the interest in between.
        tracing::callsite::rebuild_interest_cache();
    });
}

/// The statements since the last call.
fn statements() -> Vec<String> {
    STATEMENTS.take()
}

/// The text of a statement: its first words, and all of it if it has more.
#[derive(Default)]
struct Text {
    summary: String,
    full: Option<String>,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "summary" => value.clone_into(&mut self.summary),
            "db.statement" if !value.is_empty() => self.full = Some(value.trim().to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

fn count(statements: &[String], text: &str) -> usize {
    statements.iter().filter(|statement| statement.contains(text)).count()
}

/// The refreshes and, but for housekeeping, everything else. A refresh is one statement or both of [`REFRESH`].
fn apart(mut statements: Vec<String>) -> (usize, Vec<String>) {
    let nth = |statement: &String| REFRESH.iter().position(|words| statement.contains(words));
    let of_refreshes: Vec<usize> = statements.iter().filter_map(nth).collect();
    let both = of_refreshes.windows(2).filter(|pair| *pair == [0, 1]).count();
    statements
        .retain(|it| nth(it).is_none() && !HOUSEKEEPING.iter().any(|words| it.contains(words)));
    (of_refreshes.len() - both, statements)
}

/// Returns the maximum number of refreshes that a replica has made on its own if it made one after `since`: it
/// does so when no request has caused one for a second.
fn unasked(since: Instant) -> usize {
    usize::try_from(since.elapsed().as_secs()).unwrap()
}

/// Returns the statements of one request: whether it had a refresh, and the others.
async fn statements_of(berth: &Berth, path: &str) -> (bool, Vec<String>) {
    let since = Instant::now();
    // This makes a refresh for sure.
    berth.get("/resource_providers").await.expect(200);
    statements();
    let answer = berth.get(path).await;
    assert!(answer.status < 300, "{path}: {}", answer.text());
    let (refreshes, others) = apart(statements());
    assert!(refreshes <= 1 + unasked(since), "{path}: {refreshes} refreshes");
    (refreshes > 0, others)
}

/// A session of the test's own, whose statements are not counted.
async fn session(berth: &Berth) -> PgConnection {
    let options = berth.database.clone().disable_statement_logging();
    PgConnection::connect_with(&options).await.unwrap()
}

/// Makes statements for other replicas wait while there is a row in `gate`. A lock would not do, because sessions
/// have a lock timeout.
async fn build_gate(session: &mut PgConnection) {
    let gate = "create table gate (closed boolean);
        create function pass() returns trigger language plpgsql as $$
        begin
            while exists (select from gate) loop perform pg_sleep(0.005); end loop;
            return null;
        end $$;
        create trigger pass before insert on change_log for each statement execute function pass()";
    sqlx::raw_sql(gate).execute(session).await.unwrap();
}

/// Waits until a session of Berth is held up by a lock or at the gate.
async fn until_held_up(observer: &mut PgConnection) {
    let held_up =
        "select exists (select from pg_stat_activity where application_name like 'berth@%'
                   and datname = current_database()
                   and (wait_event_type = 'Lock' or wait_event = 'PgSleep'))";
    until("a session is held up", async || {
        sqlx::query_scalar::<_, bool>(held_up).fetch_one(&mut *observer).await.unwrap()
    })
    .await;
}

/// Lets everybody go on until all wait for the database: nothing else takes another thread.
async fn until_all_wait() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_read_of_providers_is_one_refresh() {
    let berth = observed().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let of_host = ["", "/inventories", "/inventories/VCPU", "/usages", "/traits", "/aggregates"];
    let of_host = of_host.map(|path| format!("/resource_providers/{}{path}", host.0));
    let others = [
        "/resource_providers",
        "/resource_providers?resources=VCPU:1",
        "/allocation_candidates?resources=VCPU:1",
        "/resource_classes",
        "/resource_classes/VCPU",
        "/traits",
        "/traits/HW_CPU_X86_AVX2",
    ];
    for path in of_host.iter().map(String::as_str).chain(others) {
        let (refreshed, others) = statements_of(&berth, path).await;
        assert!(refreshed, "{path}");
        assert_eq!(others, [""; 0], "{path}");
    }
}

#[tokio::test]
async fn a_read_of_allocations_in_memory_is_one_refresh() {
    let berth = observed().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    let of_host = format!("/resource_providers/{}/allocations", host.0);
    for path in [format!("/allocations/{consumer}"), of_host] {
        let (refreshed, others) = statements_of(&berth, &path).await;
        assert!(refreshed && others.is_empty(), "{path}: {others:?}");
    }
}

/// Only writes of the replica, and the refreshes that it makes on its own, ask the database.
#[tokio::test]
async fn reads_within_the_maximum_staleness_take_no_statement() {
    let max_staleness = Duration::from_hours(1);
    let opening = StoreOptions { max_staleness, ..opening().await };
    let berth = loaded(Berth::opened(opening, Options::default()).await).await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    // The names of owners are read once.
    berth.held(consumer).await;
    statements();
    let since = Instant::now();
    for _ in 0..100 {
        assert_eq!(berth.usages(host).await, json!({"VCPU": 1}));
        assert!(berth.held(consumer).await.is_object());
    }
    let (refreshes, others) = apart(statements());
    assert!(refreshes <= 1 + unasked(since) && others.is_empty(), "{refreshes}, {others:?}");
}

#[tokio::test]
async fn a_read_of_consumers_is_one_query() {
    let opening = StoreOptions { consumers_memory_max: None, ..opening().await };
    let berth = Berth::opened(opening, Options::default()).await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    let of_host = format!("/resource_providers/{}/allocations", host.0);
    let of_consumer = format!("/allocations/{consumer}");
    for path in [&of_consumer, "/usages?project_id=project", &of_host] {
        let (_, others) = statements_of(&berth, path).await;
        assert_eq!(others.len(), 1, "{path}: {others:?}");
    }
}

#[tokio::test]
async fn reads_that_wait_share_a_refresh() {
    let berth = observed().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let [mut blocker, mut observer] = [session(&berth).await, session(&berth).await];
    let paths = [
        "/allocation_candidates?resources=VCPU:1".to_owned(),
        format!("/resource_providers/{}/inventories", host.0),
    ];
    let read = |nth: usize| {
        let (berth, path) = (berth.clone(), paths[nth % 2].clone());
        tokio::spawn(async move { berth.get(&path).await.status })
    };
    let since = Instant::now();
    berth.get("/resource_providers").await.expect(200);
    statements();

    // A refresh is under way and does not get on while 100 more requests arrive.
    let mut locked = blocker.begin().await.unwrap();
    locked
        .execute("lock table change_log, database_identity in access exclusive mode")
        .await
        .unwrap();
    let first = read(0);
    until_held_up(&mut observer).await;
    let others: Vec<_> = (0..100).map(read).collect();
    until_all_wait().await;
    locked.commit().await.unwrap();

    assert_eq!(first.await.unwrap(), 200);
    for status in join_all(others).await {
        assert_eq!(status.unwrap(), 200);
    }
    let (refreshes, others) = apart(statements());
    assert!((2..=2 + unasked(since)).contains(&refreshes), "{refreshes} refreshes");
    assert_eq!(others, [""; 0]);
}

#[tokio::test]
async fn a_batch_of_claims_takes_as_many_statements_as_one_and_one_commit() {
    let one = statements_of_batches(&observed().await).await;
    assert_eq!((one.len(), count(&one, HISTORY)), (6, 0), "{one:#?}");
}

#[tokio::test]
async fn the_history_takes_no_statement_more_for_a_batch_of_claims() {
    let one = statements_of_batches(&observed_with_history().await).await;
    assert_eq!((one.len(), count(&one, HISTORY)), (6, 1), "{one:#?}");
}

/// The statements of a batch of claims, which are the same for each size.
async fn statements_of_batches(berth: &Berth) -> Vec<String> {
    let mut hosts = Vec::new();
    for nth in 0..8 {
        hosts.push(berth.host(&format!("host-{nth}"), &[("VCPU", 1000)]).await);
    }
    let claim = |nth: usize| {
        let (berth, host) = (berth.clone(), hosts[nth % 8]);
        tokio::spawn(async move { berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await })
    };
    // The first one makes project and user known, and a refresh reads their names once.
    claim(0).await.unwrap().expect(204);
    berth.get("/resource_providers").await.expect(200);
    statements();
    claim(0).await.unwrap().expect(204);
    let (_, one) = apart(statements());
    assert_eq!((count(&one, COMMIT), count(&one, NOTE)), (1, 1), "{one:#?}");

    let [mut keeper, mut observer] = [session(berth).await, session(berth).await];
    build_gate(&mut keeper).await;
    for size in [1, 8, 64] {
        // A claim is under way and does not get on while the others arrive.
        keeper.execute("insert into gate values (true)").await.unwrap();
        let first = claim(0);
        until_held_up(&mut observer).await;
        let others: Vec<_> = (0..size).map(claim).collect();
        until_all_wait().await;
        keeper.execute("delete from gate").await.unwrap();

        first.await.unwrap().expect(204);
        for answer in join_all(others).await {
            answer.unwrap().expect(204);
        }
        let (_, both) = apart(statements());
        assert_eq!(both, [one.clone(), one.clone()].concat(), "{size} claims");
    }
    one
}

#[tokio::test]
async fn a_plan_of_many_servers_takes_as_many_statements_as_one_of_two() {
    let began = Instant::now();
    // The clock of plans runs slowly, so that they have the same result on a busy machine.
    let slow = Watch::of(move || began + began.elapsed() / 20);
    let berth = observed().await.with_watch(slow);
    berth.host("host", &[("VCPU", 10_000)]).await;
    let planner = berth.planner();
    let resources = |count: usize, group: Uuid, name: &str| -> Value {
        let properties =
            json!({"resources": {"VCPU": 1}, "metadata": {"valet": {"groups": [group]}}});
        let server = json!({"type": "OS::Nova::Server", "name": name, "properties": properties});
        (0..count).map(|nth| (format!("server-{nth}"), server.clone())).collect()
    };
    let group = json!({"name": "g", "type": "affinity", "level": "host"});
    let group = planner.post("/v1/groups", group).await.expect(201).json();
    let group: Uuid = group["id"].as_str().unwrap().parse().unwrap();
    let mut taken = Vec::new();
    // The first one makes project and user known.
    for (nth, count) in [2, 2, 100].into_iter().enumerate() {
        let name = format!("stack-{nth}");
        let body = json!({"plan_name": name, "stack_id": name, "resources": resources(count, group, "old")});
        statements();
        let plan = planner.post("/v1/plans", body).await.expect(201).json();
        let (_, created) = apart(statements());
        assert_eq!(plan["placements"].as_object().unwrap().len(), count);

        // Half of the servers go, and the others get another name.
        let body = json!({"action": "update", "resources": resources(count / 2, group, "new")});
        let path = format!("/v1/plans/{}", plan["id"].as_str().unwrap());
        planner.put(&path, body).await.expect(201);
        let (_, changed) = apart(statements());
        taken.push((created, changed));
    }
    assert_eq!(taken[1].0.len(), taken[2].0.len(), "{:#?}", taken[1].0);
    assert_eq!(taken[1], taken[2]);
}
