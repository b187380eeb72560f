//! Fills an empty database of OpenStack Placement with the contents of Berth's.

use std::collections::HashSet;

use futures_util::TryStreamExt;
use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe, PgConnection, Row};

use super::collation;
use super::error::Error;
use super::listed::first;
use super::reference::Database;
use super::reference_url::Dialect;
use super::report::{Finding, FindingRow, TableRows};
use super::tables::{Column, Kind, TABLES, Table};
use crate::moving::progress::Progress;

/// Rows per statement. `SQLite` allows the fewest parameters: 32,766.
const ROWS: usize = 500;

/// Prefix of custom names.
const CUSTOM: &str = "CUSTOM_";
/// Tables that may have rows, because the service fills them when it starts.
const MAY_HAVE_ROWS: [&str; 2] = ["resource_classes", "traits"];

/// Refuses a database that is not empty, except for standard names, and custom names that Berth has too. These are
/// deleted: Berth's own follow, and the service adds its names when it starts.
pub(super) async fn check_empty(from: &mut PgConnection, into: &mut Database) -> Result<(), Error> {
    for table in TABLES.iter().filter(|table| into.has(table)).collect::<Vec<_>>() {
        let rows = into.count(table).await?;
        let name = table.name;
        if rows > 0 && !MAY_HAVE_ROWS.contains(&name) {
            return Err(Error::Refused(format!(
                "the database of OpenStack Placement is not empty: {name} has {rows} rows. Export into a \
                 new one, made by `placement-manage db sync`"
            )));
        }
    }
    for table in TABLES.iter().filter(|table| MAY_HAVE_ROWS.contains(&table.name)) {
        check_names(from, into, table).await?;
        let delete = format!("delete from {}", table.name);
        execute(&mut into.conn, sqlx::query(AssertSqlSafe(delete))).await?;
    }
    Ok(())
}

/// Refuses custom names that Berth does not have: they would be lost.
async fn check_names(
    from: &mut PgConnection,
    into: &mut Database,
    table: &'static Table,
) -> Result<(), Error> {
    let name = table.name;
    let own: HashSet<String> =
        sqlx::query_scalar(AssertSqlSafe(format!("select name from {name}")))
            .fetch_all(from)
            .await?
            .into_iter()
            .collect();
    let mut lost = Vec::new();
    let mut rows = into.rows(table);
    while let Some(row) = rows.try_next().await? {
        // The first column is the key.
        if let Some(Some(found)) = row.into_iter().nth(1)
            && found.starts_with(CUSTOM)
            && !own.contains(&found)
        {
            lost.push(found);
        }
    }
    if lost.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the database of OpenStack Placement is not empty: {name} has {} custom names that Berth does not \
         have ({}). Create them in Berth, delete them there, or export into a new database, made by \
         `placement-manage db sync`",
        lost.len(),
        first(&lost)
    )))
}

/// Creates temporary tables with the rows to write, in the form of the reference's tables.
pub(super) async fn prepare(from: &mut PgConnection, into: &mut Database) -> Result<(), Error> {
    let ignores_case = collation::ignores_case(into, "placement_aggregates", "uuid").await?;
    let make = include_str!("export.sql").replace("IGNORES_CASE", &ignores_case.to_string());
    sqlx::raw_sql(AssertSqlSafe(make)).execute(from).await?;
    Ok(())
}

/// Rows that are written differently from how Berth stores them.
pub(super) async fn findings(from: &mut PgConnection) -> Result<Vec<Finding>, Error> {
    let changed = sqlx::query_as(
        "select 'aggregates that are written in another spelling' as kind,
                format('aggregate %s of provider %s', s.spelling, p.uuid) as \"row\",
                format('written as %s', s.spelled) as done, null::text as about
         from target_spellings s join target_resource_providers p on p.own_id = s.provider_id
         where s.spelling <> s.spelled order by s.spelling, p.id",
    );
    let changed: Vec<FindingRow> = changed.fetch_all(from).await?;
    changed.into_iter().map(Finding::new).collect()
}

/// A note about the consumer types that are lost, for a schema without them.
pub(super) async fn lost_types(from: &mut PgConnection) -> Result<Option<String>, Error> {
    let count = "select count(*) from target_consumers where consumer_type_id is not null";
    let count: i64 = sqlx::query_scalar(count).fetch_one(from).await?;
    Ok((count > 0).then(|| {
        format!("the schema has no types of consumers: those of {count} consumers were left out")
    }))
}

/// Writes all rows. Returns the number of rows of each table.
pub(super) async fn copy(
    from: &mut PgConnection,
    into: &mut Database,
    progress: &Progress,
) -> Result<Vec<TableRows>, Error> {
    let mut written = Vec::new();
    for table in TABLES.iter().filter(|table| into.has(table)).collect::<Vec<_>>() {
        let count = format!("select count(*) from target_{}", table.name);
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&mut *from).await?;
        let rows = u64::try_from(count)
            .map_err(|_| Error::Refused(format!("{} has {count} rows", table.name)))?;
        let bar = progress.of(table.name, rows);
        copy_table(from, into, table, &|count| bar.inc(count)).await?;
        bar.finish();
        written.push(TableRows { table: table.name.to_owned(), rows });
    }
    if into.dialect == Dialect::Postgres {
        set_sequences(&mut into.conn).await?;
    }
    Ok(written)
}

/// A row: its columns as text.
type Values = Vec<Option<String>>;

async fn copy_table(
    from: &mut PgConnection,
    into: &mut Database,
    table: &'static Table,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    let columns: Vec<&Column> =
        table.columns.iter().filter(|column| into.has_column(column)).collect();
    let text: Vec<String> = columns.iter().map(|column| format!("{}::text", column.name)).collect();
    // Foreign keys are checked per row or statement, so parents come before their children.
    let key = if table.name == "resource_providers" {
        "depth, id".to_owned()
    } else {
        table.key.join(", ")
    };
    let name = table.name;
    let select = format!("select {} from target_{name} order by {key}", text.join(", "));
    let mut rows = sqlx::query(AssertSqlSafe(select)).fetch(from);
    let mut batch: Vec<Values> = Vec::with_capacity(ROWS);
    loop {
        let row = rows.try_next().await?;
        let is_last = row.is_none();
        if let Some(row) = row {
            let values: Result<Values, _> =
                (0..columns.len()).map(|nth| row.try_get(nth)).collect();
            batch.push(values?);
        }
        if batch.len() == ROWS || (is_last && !batch.is_empty()) {
            insert(into, table, &columns, &batch).await?;
            tell(batch.len() as u64);
            batch.clear();
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Writes some rows in one statement.
async fn insert(
    into: &mut Database,
    table: &Table,
    columns: &[&Column],
    rows: &[Values],
) -> Result<(), Error> {
    let mut number = 0;
    let mut row = |_| {
        let value = |column: &&Column| {
            number += 1;
            column.parameter(into.dialect, number)
        };
        format!("({})", columns.iter().map(value).collect::<Vec<_>>().join(", "))
    };
    let values: Vec<String> = (0..rows.len()).map(&mut row).collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let statement =
        format!("insert into {} ({}) values {}", table.name, names.join(", "), values.join(", "));
    let mut query = sqlx::query(AssertSqlSafe(statement));
    for row in rows {
        for (value, column) in row.iter().zip(columns) {
            query = bind(query, value.as_deref(), column)?;
        }
    }
    execute(&mut into.conn, query).await
}

type AnyQuery<'q> = Query<'q, Any, AnyArguments>;

fn bind<'q>(
    query: AnyQuery<'q>,
    value: Option<&str>,
    column: &Column,
) -> Result<AnyQuery<'q>, Error> {
    let wrong = |value: &str| Error::Refused(format!("{} is not a number: {value:?}", column.name));
    Ok(match (column.kind, value) {
        (Kind::Text, value) => query.bind(value.map(ToOwned::to_owned)),
        (Kind::Float, Some(value)) => query.bind(value.parse::<f64>().map_err(|_| wrong(value))?),
        (Kind::Float, None) => query.bind(None::<f64>),
        (_, Some(value)) => query.bind(value.parse::<i64>().map_err(|_| wrong(value))?),
        (_, None) => query.bind(None::<i64>),
    })
}

/// Moves the sequences behind the keys that were written.
async fn set_sequences(conn: &mut AnyConnection) -> Result<(), Error> {
    for table in TABLES.iter().filter(|table| table.key == ["id"]) {
        let name = table.name;
        let set = format!(
            "select setval(pg_get_serial_sequence('{name}', 'id'), coalesce(max(id), 1), \
             max(id) is not null)::text from {name} having pg_get_serial_sequence('{name}', 'id') is not null"
        );
        execute(conn, sqlx::query(AssertSqlSafe(set))).await?;
    }
    Ok(())
}

async fn execute(conn: &mut AnyConnection, query: AnyQuery<'_>) -> Result<(), Error> {
    query.execute(conn).await.map_err(Error::Reference)?;
    Ok(())
}
