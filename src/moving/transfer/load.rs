//! Brings Berth's tables to what the staging has.
//!
//! There is one way for all: names are added, `settle.sql` computes what Berth is to store (`found_*`), and the
//! differences between that and Berth's tables are removed, added and changed. Into empty tables, only the middle
//! step does something. A round of following looks at the providers and consumers of which rows have changed
//! (`scope_*`); everything else looks at all.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection};

use super::Error;
use super::findings;
use super::report::TableRows;
use super::staging::shown;
use crate::moving::progress::Progress;

/// Locks what is to be filled: replicas that run wait with writing, and see all of it or nothing.
const LOCK: &str = "
    set local statement_timeout = 0;
    set local lock_timeout = '30s';
    lock table providers, inventories, provider_traits, provider_aggregates, projects, users,
        consumer_types, consumers, allocations, resource_classes, traits in exclusive mode;
    set local berth.import = 'on'";

/// Lets a transaction that is rolled back leave the sequences of Berth's tables where they are: what `nextval` and
/// `setval` do is never rolled back, but a restart is, and they act on what it has made.
const RESTART_SEQUENCES: &str = "
    do $$
    declare
        sequence regclass;
        value bigint;
        is_used boolean;
    begin
        for sequence in
            select objid from pg_depend
            where classid = 'pg_class'::regclass and refclassid = 'pg_class'::regclass and deptype in ('a', 'i')
              and objid in (select oid from pg_class where relkind = 'S')
              and refobjid = any (array['resource_classes', 'traits', 'projects', 'users', 'consumer_types',
                                        'providers', 'consumers']::regclass[])
            order by objid
        loop
            execute format('select last_value, is_called from %s', sequence) into value, is_used;
            execute format('alter sequence %s restart', sequence);
            perform setval(sequence, value, is_used);
        end loop;
    end $$";

/// How often a progress bar is drawn again during a long statement.
const TICK: Duration = Duration::from_secs(1);

/// The tables that are filled.
const TABLES: [&str; 11] = [
    "resource_classes",
    "traits",
    "projects",
    "users",
    "consumer_types",
    "providers",
    "provider_traits",
    "provider_aggregates",
    "inventories",
    "consumers",
    "allocations",
];

/// What Berth's tables hold before an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// No providers and no consumers.
    Nothing,
    /// Something that is to be what the source has, from now on.
    Something,
}

/// Locks Berth's tables until the end of the transaction.
pub(super) async fn lock(conn: &mut PgConnection) -> Result<(), Error> {
    sqlx::raw_sql(LOCK).execute(&mut *conn).await?;
    sqlx::raw_sql(RESTART_SEQUENCES).execute(conn).await?;
    Ok(())
}

/// What Berth's tables hold. Refuses what may not be replaced.
pub(super) async fn before(conn: &mut PgConnection, replace: bool) -> Result<Before, Error> {
    let held = "select (select count(*) from providers), (select count(*) from consumers),
                       (select count(distinct plan_id) from placements),
                       (select count(*) from exclusive_units) + (select count(*) from exclusive_tenants)";
    let (providers, consumers, plans, exclusive): (i64, i64, i64, i64) =
        sqlx::query_as(held).fetch_one(conn).await?;
    if providers == 0 && consumers == 0 {
        return Ok(Before::Nothing);
    }
    if !replace {
        return Err(Error::Refused(format!(
            "Berth's database is not empty: it has {providers} providers and {consumers} consumers. Import \
             into a new one, or replace what is there with --replace"
        )));
    }
    if plans > 0 || exclusive > 0 {
        return Err(Error::Refused(format!(
            "{plans} plans have servers that hold capacity of Berth's providers, and {exclusive} hosts, racks or \
             clusters are exclusive to groups. Replacing the providers would take it from them: delete these plans \
             first, or import into a new database"
        )));
    }
    Ok(Before::Something)
}

/// Runs statements. Each part after a line such as `--- writing inventories: found_inventories` has a progress bar: of
/// the rows of the table that is named there.
async fn run(
    conn: &mut PgConnection,
    statements: &'static str,
    progress: &Progress,
) -> Result<(), Error> {
    let mut parts = statements.split("\n--- ");
    if let Some(first) = parts.next() {
        sqlx::raw_sql(first).execute(&mut *conn).await?;
    }
    for part in parts {
        let Some(((what, table), statements)) =
            part.split_once('\n').and_then(|(line, rest)| Some((line.split_once(": ")?, rest)))
        else {
            return Err(Error::Refused(format!("a part of the statements has no name: {part}")));
        };
        let rows = AssertSqlSafe(format!("select count(*) from {table}"));
        let rows: i64 = sqlx::query_scalar(rows).fetch_one(&mut *conn).await?;
        let bar = progress.of(what, count(table, rows)?);
        bar.enable_steady_tick(TICK);
        sqlx::raw_sql(statements).execute(&mut *conn).await?;
        bar.set_position(count(table, rows)?);
        bar.finish();
    }
    Ok(())
}

/// Computes what Berth is to store of the staging.
pub(super) async fn settle(conn: &mut PgConnection, progress: &Progress) -> Result<(), Error> {
    sqlx::raw_sql(include_str!("names.sql")).execute(&mut *conn).await?;
    run(conn, include_str!("settle.sql"), progress).await?;
    let loops: Option<String> =
        sqlx::query_scalar("select string_agg(uuid, ', ' order by id) from unreached_providers")
            .fetch_one(&mut *conn)
            .await?;
    if let Some(providers) = loops {
        return Err(Error::Refused(format!(
            "these providers are their own ancestors, or below such providers: {}. Set the \
             parent_provider_id of one of them right in the source first",
            shown(&providers)
        )));
    }
    findings::refuse_fatal(conn).await
}

/// Writes what has been computed.
pub(super) async fn write(
    conn: &mut PgConnection,
    before: Before,
    progress: &Progress,
) -> Result<(), Error> {
    sqlx::raw_sql(include_str!("scope.sql")).execute(&mut *conn).await?;
    if before == Before::Something {
        sqlx::raw_sql(include_str!("remove.sql")).execute(&mut *conn).await?;
    }
    run(conn, include_str!("load.sql"), progress).await?;
    if before == Before::Something {
        sqlx::raw_sql(include_str!("change.sql")).execute(conn).await?;
    }
    Ok(())
}

/// Lets replicas that run read everything anew: they do when the epoch is another.
pub(super) async fn announce_all(conn: &mut PgConnection) -> Result<(), Error> {
    sqlx::raw_sql("update epoch set id = gen_random_uuid()").execute(conn).await?;
    Ok(())
}

/// Lets replicas that run read what has changed. Returns how many providers that is.
pub(super) async fn announce_touched(conn: &mut PgConnection) -> Result<u64, Error> {
    let touched: Option<i64> = sqlx::query_scalar(
        "insert into change_log (providers)
         select array_agg(distinct provider_id) from touched having count(*) > 0
         returning cardinality(array_remove(providers, 0))::bigint",
    )
    .fetch_optional(conn)
    .await?;
    count("change_log", touched.map_or(0, |touched| touched))
}

/// How many rows each table has.
pub(super) async fn written(conn: &mut PgConnection) -> Result<Vec<TableRows>, Error> {
    let mut written = Vec::new();
    for table in TABLES {
        let query = AssertSqlSafe(format!("select count(*) from {table}"));
        let rows: i64 = sqlx::query_scalar(query).fetch_one(&mut *conn).await?;
        written.push(TableRows { table: table.to_owned(), rows: count(table, rows)? });
    }
    Ok(written)
}

fn count(table: &str, rows: i64) -> Result<u64, Error> {
    u64::try_from(rows).map_err(|_| Error::Refused(format!("{table} has {rows} rows")))
}

/// Lets PostgreSQL know how large the tables are, so that the first requests get good plans.
pub(super) async fn analyze(conn: &mut PgConnection) -> Result<(), Error> {
    let analyze = format!("analyze {}", TABLES.join(", "));
    sqlx::raw_sql(AssertSqlSafe(analyze)).execute(conn).await?;
    Ok(())
}
