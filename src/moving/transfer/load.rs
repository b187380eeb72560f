//! Brings Berth's tables in line with the staging.
//!
//! All imports take the same steps: names are added, `settle.sql` computes the rows that Berth should have
//! (`found_*`), and the differences between these and Berth's tables are removed, added and changed. If the tables
//! are empty, rows are only added. A round of following covers the providers and consumers of changed rows
//! (`scope_*`); other imports cover all.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection};

use super::error::Error;
use super::findings;
use super::report::TableRows;
use super::staging::shown;
use crate::moving::progress::Progress;

/// Locks the tables to fill: running replicas wait before they write, and see all changes or none.
const LOCK: &str = "
    set local statement_timeout = 0;
    set local lock_timeout = '30s';
    lock table providers, inventories, provider_traits, provider_aggregates, projects, users,
        consumer_types, consumers, allocations, resource_classes, traits in exclusive mode;
    set local berth.import = 'on'";

/// Restores the sequences of Berth's tables when a transaction rolls back: the effects of `nextval` and `setval` are
/// never rolled back, but those of a restart are, and later calls act on the restarted sequence.
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

/// Maximum number of consumers whose changes replicas read one by one.
const ANNOUNCED_MAX: i64 = 10_000;

/// Redraw interval of progress bars during a long statement.
const TICK: Duration = Duration::from_secs(1);

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
    "allocation_sets",
];

/// The contents of Berth's tables before an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetContents {
    /// No providers and no consumers.
    Nothing,
    /// Rows to replace with those of the source.
    Something,
}

/// Locks Berth's tables until the end of the transaction.
pub(super) async fn lock(conn: &mut PgConnection) -> Result<(), Error> {
    sqlx::raw_sql(LOCK).execute(&mut *conn).await?;
    sqlx::raw_sql(RESTART_SEQUENCES).execute(conn).await?;
    Ok(())
}

/// Reads the contents of Berth's tables. Refuses contents that may not be replaced.
pub(super) async fn before(
    conn: &mut PgConnection,
    replace: bool,
) -> Result<TargetContents, Error> {
    let held = "select (select count(*) from providers), (select count(*) from consumers),
                       (select count(distinct plan_id) from placements),
                       (select count(*) from exclusive_units) + (select count(*) from exclusive_tenants)";
    let (providers, consumers, plans, exclusive): (i64, i64, i64, i64) =
        sqlx::query_as(held).fetch_one(conn).await?;
    if providers == 0 && consumers == 0 {
        return Ok(TargetContents::Nothing);
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
    Ok(TargetContents::Something)
}

/// Runs statements. Each part after a line such as `--- writing inventories: found_inventories` has a progress bar
/// over the rows of the named table.
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

/// Computes the rows that Berth should have from the staging.
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

/// Writes the computed rows.
pub(super) async fn write(
    conn: &mut PgConnection,
    before: TargetContents,
    progress: &Progress,
) -> Result<(), Error> {
    sqlx::raw_sql(include_str!("scope.sql")).execute(&mut *conn).await?;
    if before == TargetContents::Something {
        sqlx::raw_sql(include_str!("remove.sql")).execute(&mut *conn).await?;
    }
    run(conn, include_str!("load.sql"), progress).await?;
    if before == TargetContents::Something {
        sqlx::raw_sql(include_str!("change.sql")).execute(conn).await?;
    }
    Ok(())
}

/// Makes running replicas reload everything, by changing the epoch.
pub(super) async fn announce_all(conn: &mut PgConnection) -> Result<(), Error> {
    sqlx::raw_sql("update epoch set id = gen_random_uuid()").execute(conn).await?;
    Ok(())
}

/// Makes running replicas read the changes. Returns the number of changed providers.
pub(super) async fn announce_touched(conn: &mut PgConnection) -> Result<u64, Error> {
    let consumers: i64 =
        sqlx::query_scalar("select count(*) from scope_consumers").fetch_one(&mut *conn).await?;
    if consumers > ANNOUNCED_MAX {
        announce_all(conn).await?;
    } else {
        sqlx::raw_sql(include_str!("announce.sql")).execute(&mut *conn).await?;
    }
    let touched: Option<i64> = sqlx::query_scalar(
        "insert into change_log (providers)
         select array_agg(distinct provider_id) from touched having count(*) > 0
         returning cardinality(array_remove(providers, 0))::bigint",
    )
    .fetch_optional(conn)
    .await?;
    count("change_log", touched.map_or(0, |touched| touched))
}

/// Number of rows of each table.
pub(super) async fn written(conn: &mut PgConnection) -> Result<Vec<TableRows>, Error> {
    let mut written = Vec::new();
    for table in TABLES {
        // A set has an allocation for each of its classes.
        let table = if table == "allocation_sets" { "allocations" } else { table };
        let query = AssertSqlSafe(format!("select count(*) from {table}"));
        let rows: i64 = sqlx::query_scalar(query).fetch_one(&mut *conn).await?;
        written.push(TableRows { table: table.to_owned(), rows: count(table, rows)? });
    }
    Ok(written)
}

fn count(table: &str, rows: i64) -> Result<u64, Error> {
    u64::try_from(rows).map_err(|_| Error::Refused(format!("{table} has {rows} rows")))
}

/// Updates the planner statistics of the tables, so that the first requests get good plans.
pub(super) async fn analyze(conn: &mut PgConnection) -> Result<(), Error> {
    let analyze = format!("analyze {}", TABLES.join(", "));
    sqlx::raw_sql(AssertSqlSafe(analyze)).execute(conn).await?;
    Ok(())
}
