//! Fills Berth's tables from the temporary ones.

use sqlx::PgConnection;

use super::Error;
use super::report::TableRows;

/// Locks what is to be filled: replicas that run wait, and see all of it or nothing.
const BEGIN: &str = "
    set local statement_timeout = 0;
    set local lock_timeout = '30s';
    lock table providers, inventories, provider_traits, provider_aggregates, projects, users,
        consumer_types, consumers, allocations, resource_classes, traits in exclusive mode";

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

/// Begins to load, if Berth's tables are empty.
pub(super) async fn begin(conn: &mut PgConnection) -> Result<(), Error> {
    sqlx::raw_sql(BEGIN).execute(&mut *conn).await?;
    let held = "select (select count(*) from providers), (select count(*) from consumers)";
    let (providers, consumers): (i64, i64) = sqlx::query_as(held).fetch_one(conn).await?;
    if providers == 0 && consumers == 0 {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "Berth's database is not empty: it has {providers} providers and {consumers} consumers. Import \
         into a new one"
    )))
}

/// Loads everything. Returns how many rows each table has.
pub(super) async fn load(conn: &mut PgConnection) -> Result<Vec<TableRows>, Error> {
    sqlx::raw_sql(include_str!("load.sql")).execute(&mut *conn).await?;
    let mut written = Vec::new();
    for table in TABLES {
        let count = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
        let count: i64 = sqlx::query_scalar(count).fetch_one(&mut *conn).await?;
        let rows = u64::try_from(count)
            .map_err(|_| Error::Refused(format!("{table} has {count} rows")))?;
        written.push(TableRows { table: table.to_owned(), rows });
    }
    Ok(written)
}

/// Lets PostgreSQL know how large the tables are, so that the first requests get good plans.
pub(super) async fn analyze(conn: &mut PgConnection) -> Result<(), Error> {
    let analyze = format!("analyze {}", TABLES.join(", "));
    sqlx::raw_sql(sqlx::AssertSqlSafe(analyze)).execute(conn).await?;
    Ok(())
}
