//! The change log: what a refresh reads of it, and how it is cut off, whatever others do in the
//! cluster.

use std::time::{Duration, Instant};

use berth::store::Pruning;
use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, Executor, PgConnection};
use uuid::Uuid;

use crate::support::app::{Berth, NO_PRUNING};
use crate::support::cloud::Host;
use crate::support::cluster::Cluster;
use crate::support::postgres;
use crate::support::served::PATIENCE;

const PIECE: u16 = 1000;
/// The log is cut off as soon as may be.
const SOON: Pruning =
    Pruning { period: Duration::from_millis(300), piece: PIECE, pause: Duration::from_millis(1) };

/// Prunes later than idle replicas refresh.
const IN_TIME: Pruning = Pruning { period: Duration::from_secs(6), ..SOON };

async fn connect(database: &PgConnectOptions) -> PgConnection {
    PgConnection::connect_with(database).await.unwrap()
}

/// Rows of the log, each from a transaction of its own, that all name a provider that does not exist.
async fn log_changes(session: &mut PgConnection, count: i64) {
    let insert = format!(
        "do $$ begin
             for nth in 1..{count} loop
                 insert into change_log (providers) values ('{{1000000}}');
                 commit;
             end loop;
         end $$"
    );
    session.execute("set synchronous_commit = off").await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(insert)).execute(session).await.unwrap();
}

/// A transaction that has written something and is left open.
async fn begin_stranger(stranger: &mut PgConnection) {
    stranger.execute("begin; select pg_current_xact_id()").await.unwrap();
}

/// Returns the rows and index entries of the log that all sessions have read, as far as they have reported it.
async fn rows_read(session: &mut PgConnection) -> i64 {
    let read = "select (select idx_tup_read from pg_stat_user_indexes
                        where indexrelname = 'change_log_xid')
                     + (select seq_tup_read from pg_stat_user_tables where relname = 'change_log')";
    sqlx::query_scalar(read).fetch_one(session).await.unwrap()
}

/// Returns the number of log rows read by twenty refreshes, and by those that a replica makes on its own.
async fn read_by_refreshes(berth: &Berth, observer: &mut PgConnection) -> i64 {
    // Sessions tell what they have read about once a second, when they have done something.
    let output = Duration::from_millis(3500);
    tokio::time::sleep(output).await;
    let before = rows_read(observer).await;
    for _ in 0..20 {
        berth.get("/resource_providers").await.expect(200);
    }
    tokio::time::sleep(output).await;
    rows_read(observer).await - before
}

async fn name(berth: &Berth, host: Host) -> String {
    let shown = berth.get(&format!("/resource_providers/{}", host.0)).await.expect(200);
    shown.json()["name"].as_str().unwrap().to_owned()
}

/// Waits until a query gives true.
async fn until(session: &mut PgConnection, query: &'static str) {
    let began = Instant::now();
    while !sqlx::query_scalar::<_, bool>(query).fetch_one(&mut *session).await.unwrap() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {query}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A rename that a replica does not learn of unless it reads everything again.
const RENAME_UNTOLD: &str = "update providers set name = 'read again'";

/// The cost of a refresh depends on new rows only, even if a transaction is open for long, or ends.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_of_a_stranger_costs_refreshes_nothing() {
    let berth = Berth::pruning(&postgres::database().await, NO_PRUNING).await;
    let host = berth.host("host", &[]).await;
    let mut observer = berth.session().await;
    for end in ["commit", "rollback"] {
        let mut stranger = berth.session().await;
        begin_stranger(&mut stranger).await;
        log_changes(&mut observer, 300_000).await;
        name(&berth, host).await;
        let read = read_by_refreshes(&berth, &mut observer).await;
        assert!(read < 1000, "{read} rows while it is open");

        // It writes down a change itself, with a number below all of those that have been read.
        let late = format!(
            "with renamed as (update providers set name = '{end}' returning id)
             insert into change_log (providers) select array[id] from renamed; {end}"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(late)).execute(&mut stranger).await.unwrap();
        let expected = if end == "commit" { end } else { "commit" };
        assert_eq!(name(&berth, host).await, expected);
        let read = read_by_refreshes(&berth, &mut observer).await;
        assert!(read < 1000, "{read} rows after its {end}");
        assert_eq!(name(&berth, host).await, expected);
    }
}

/// Notes how many rows each statement removes, and whether two have been at it at once.
const WATCH_PIECES: &str = "
    create table pieces (count bigint, alone boolean);
    create function note_piece() returns trigger language plpgsql as $$
    begin
        if exists (select from gone) then
            insert into pieces select count(*), pg_try_advisory_xact_lock(4711) from gone;
            perform pg_sleep(0.005);
        end if;
        return null;
    end $$;
    create trigger note_piece after delete on change_log referencing old table as gone
        for each statement execute function note_piece()";

/// The log is pruned beside an open transaction: in pieces, by one replica at a time, none of which has to read
/// everything again; and no row is read again and again, although vacuum can remove nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_cut_off_in_pieces_beside_an_open_transaction() {
    const COUNT: i64 = 60_000;
    let database = postgres::database().await;
    let mut observer = connect(&database).await;
    observer.execute("delete from change_log").await.unwrap();
    observer.execute(WATCH_PIECES).await.unwrap();
    let mut stranger = connect(&database).await;
    begin_stranger(&mut stranger).await;
    log_changes(&mut observer, COUNT).await;
    let before = rows_read(&mut observer).await;

    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Berth::pruning(&database, IN_TIME).await);
    }
    let host = replicas[0].host("host", &[]).await;
    for replica in &replicas {
        assert_eq!(name(replica, host).await, "host");
    }
    observer.execute(RENAME_UNTOLD).await.unwrap();
    until(&mut observer, "select not exists (select from change_log)").await;
    let (greatest, all, alone): (i64, i64, bool) = sqlx::query_as(
        "select max(count)::bigint, sum(count)::bigint, bool_and(alone) from pieces",
    )
    .fetch_one(&mut observer)
    .await
    .unwrap();
    assert_eq!(greatest, i64::from(PIECE));
    assert_eq!(all, COUNT + 1, "each row once");
    assert!(alone, "two replicas have pruned at once");
    for replica in &replicas {
        assert_eq!(name(replica, host).await, "host", "it has read everything again");
    }
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let read = rows_read(&mut observer).await - before;
    assert!(read < 4 * COUNT, "{read} rows were looked at to remove {COUNT}");

    // Its own row is removed after its end, although no later row is.
    stranger
        .execute("insert into change_log (providers) values ('{1000000}'); commit")
        .await
        .unwrap();
    until(&mut observer, "select not exists (select from change_log)").await;
}

/// A replica that is killed or frozen in the middle of a round does not keep others from ending it.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_was_left_is_ended_by_another() {
    let database = postgres::database().await;
    let mut session = connect(&database).await;
    log_changes(&mut session, 3000).await;
    session
        .execute(
            "update change_log_horizon set cut = pg_current_snapshot();
             delete from change_log where xid in (select xid from change_log order by xid limit 1000);
             update change_log_pruning
             set reached = (select xid from change_log order by xid limit 1)",
        )
        .await
        .unwrap();
    let _berth = Berth::pruning(&database, SOON).await;
    until(&mut session, "select not exists (select from change_log)").await;
}

/// The snapshot of a transaction that ends with this, and those that end sooner.
const CUT_HERE: &str = "
    update change_log_horizon set cut = format('%s:%s:', x, x)::pg_snapshot
    from (select pg_current_xact_id()::text::bigint + 1 as x) as next";

/// Only a replica that has not seen all rows that may be gone reads everything again.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_behind_the_horizon_reads_everything_again() {
    // The transaction that is cut off began before the replica's snapshot, or after it.
    for began_before in [true, false] {
        let berth = Berth::pruning(&postgres::database().await, NO_PRUNING).await;
        let host = berth.host("host", &[]).await;
        let mut cutter = berth.session().await;
        let mut session = berth.session().await;
        if began_before {
            begin_stranger(&mut cutter).await;
            log_changes(&mut session, 3).await;
            assert_eq!(name(&berth, host).await, "host");
        } else {
            cutter.execute("begin").await.unwrap();
        }
        cutter.execute(RENAME_UNTOLD).await.unwrap();
        cutter.execute(CUT_HERE).await.unwrap();
        cutter.execute("commit").await.unwrap();
        assert_eq!(name(&berth, host).await, "read again", "began before: {began_before}");
    }
}

/// A horizon above transactions that are still open makes no replica reload.
#[tokio::test(flavor = "multi_thread")]
async fn a_horizon_above_an_open_transaction_costs_nothing() {
    let berth = Berth::pruning(&postgres::database().await, NO_PRUNING).await;
    let host = berth.host("host", &[]).await;
    let [mut stranger, mut session] = [berth.session().await, berth.session().await];
    begin_stranger(&mut stranger).await;
    log_changes(&mut session, 3).await;
    // Other tests write in the same cluster: what ends before this the replica has seen, too.
    let cut: String = sqlx::query_scalar("select pg_current_snapshot()::text")
        .fetch_one(&mut session)
        .await
        .unwrap();
    assert_eq!(name(&berth, host).await, "host");
    sqlx::query(
        "update change_log_horizon set cut = $1::pg_snapshot, xid = pg_snapshot_xmax($1::pg_snapshot)",
    )
    .bind(cut)
    .execute(&mut session)
    .await
    .unwrap();
    session.execute(RENAME_UNTOLD).await.unwrap();
    for _ in 0..3 {
        assert_eq!(name(&berth, host).await, "host", "it has read everything again");
    }
}

/// Reads go on while no commit is acknowledged, because a synchronous standby is away: also when the
/// log is cut off, and when the server has come back from a crash.
#[tokio::test(flavor = "multi_thread")]
async fn reads_do_not_wait_for_a_synchronous_standby() {
    let cluster = Cluster::new(&[]).await;
    let berth = Berth::pruning(&cluster.options(), SOON).await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let mut session = cluster.session().await;
    log_changes(&mut session, 3000).await;
    session.execute("alter system set synchronous_standby_names = 'away'").await.unwrap();
    session.execute("select pg_reload_conf()").await.unwrap();
    let mut hanging = cluster.session().await;
    // Each session reloads the configuration sooner or later.
    until(&mut hanging, "select current_setting('synchronous_standby_names') = 'away'").await;
    let writing = tokio::spawn(async move {
        hanging.execute("insert into change_log (providers) values ('{1000000}')").await
    });
    until(
        &mut session,
        "select exists (select from pg_stat_activity where wait_event = 'SyncRep')",
    )
    .await;
    let until_pruned = async {
        let began = Instant::now();
        loop {
            let berth_waits: bool = sqlx::query_scalar(
                "select exists (select from pg_stat_activity
                                where wait_event = 'SyncRep' and application_name like 'berth@%')",
            )
            .fetch_one(&mut session)
            .await
            .unwrap();
            assert!(!berth_waits, "a session of Berth waits for the standby");
            let left: i64 = sqlx::query_scalar("select count(*) from change_log")
                .fetch_one(&mut session)
                .await
                .unwrap();
            assert_eq!(berth.usages(host).await, json!({"VCPU": 0}));
            if left == 0 && began.elapsed() > 10 * SOON.period {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{left} rows are left");
        }
    };
    until_pruned.await;

    // As after a crash; what is written is an unlogged table and needs no acknowledgement.
    session.execute("delete from epoch").await.unwrap();
    assert_eq!(berth.usages(host).await, json!({"VCPU": 0}));
    let fresh = Berth::pruning(&cluster.options(), SOON).await;
    assert_eq!(fresh.usages(host).await, json!({"VCPU": 0}));
    assert!(!writing.is_finished(), "commits have not been held up");

    session.execute("alter system reset synchronous_standby_names").await.unwrap();
    session.execute("select pg_reload_conf()").await.unwrap();
    writing.await.unwrap().unwrap();
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
    assert_eq!(fresh.usages(host).await, json!({"VCPU": 1}));
}
