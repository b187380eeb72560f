//! A database of OpenStack Placement: its schema, and its rows in one snapshot.

use std::sync::Once;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use sqlx::any::{AnyConnectOptions, AnyRow};
use sqlx::error::DatabaseError;
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions, Connection, Row};
use sqlx_core::any::driver::AnyDriver;
use tokio::time::timeout;

use super::chunks::{self, Chunk, Chunks, Keys};
use super::error::Error;
use super::reference_url::{Access, Dialect, ReferenceUrl};
use super::tables::{CONSUMER_TYPES, Column, Kind, Table};

/// Versions of the schema, named by migration, from Stein (the first separate release) on.
pub(super) const SCHEMAS: [&str; 5] =
    ["b4ed3a175331", "b5c396305c25", "611cd6dffd7b", CONSUMER_TYPES, "a082b8bb98d0"];

/// The versions that have consumer types.
const WITH_TYPES: [&str; 2] = [CONSUMER_TYPES, "a082b8bb98d0"];

/// Returns whether a version of the schema has consumer types.
pub(super) fn has_types(version: &str) -> bool {
    WITH_TYPES.contains(&version)
}

/// Timeout for connecting.
const CONNECT_MAX: Duration = Duration::from_secs(30);
/// Timeout for fingerprints of a table, and for the next row.
const ANSWER_MAX: Duration = Duration::from_mins(5);
/// Maximum number of key ranges in one statement.
pub(super) const KEYS_MAX: usize = 100;

/// A row of a table: its columns as text.
pub(super) type Values = Vec<Option<String>>;

/// An OpenStack Placement database, within a transaction.
pub(super) struct Database {
    pub(super) conn: AnyConnection,
    pub(super) dialect: Dialect,
    pub(super) schema: String,
}

impl Database {
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns whether the schema has consumer types.
    pub(super) fn has_types(&self) -> bool {
        has_types(&self.schema)
    }

    /// Returns whether the schema has the table.
    pub(super) fn has(&self, table: &Table) -> bool {
        self.has_types() || table.name != "consumer_types"
    }

    /// Returns whether the schema has the column.
    pub(super) fn has_column(&self, column: &Column) -> bool {
        self.has_types() || column.name != "consumer_type_id"
    }

    pub(super) async fn commit(mut self) -> Result<(), Error> {
        sqlx::raw_sql("commit").execute(&mut self.conn).await.map_err(Error::Reference)?;
        self.close().await;
        Ok(())
    }

    /// Counts the rows of a table.
    pub(super) async fn count(&mut self, table: &Table) -> Result<u64, Error> {
        let count = format!("select count(*) from {}", table.name);
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(count))
            .fetch_one(&mut self.conn)
            .await
            .map_err(Error::Reference)?;
        u64::try_from(count).map_err(|_| Error::Refused(format!("{} has {count} rows", table.name)))
    }

    pub(super) fn rows(&mut self, table: &'static Table) -> BoxStream<'_, Result<Values, Error>> {
        self.rows_with(table, &[])
    }

    /// The rows of a table with these keys (at most [`KEYS_MAX`] ranges), in the order of the keys; all rows if
    /// `keys` is empty.
    pub(super) fn rows_with(
        &mut self,
        table: &'static Table,
        keys: &[Keys],
    ) -> BoxStream<'_, Result<Values, Error>> {
        let select = table.select(self.dialect, self.has_types(), keys);
        let rows = sqlx::query(AssertSqlSafe(select)).fetch(&mut self.conn);
        let mut before = None;
        let row = move |row: Result<AnyRow, sqlx::Error>| {
            let row = row.map_err(|error| failure(error, table, before.as_deref()))?;
            let values = values(&row, table)?;
            before = values.first().cloned().flatten();
            Ok(values)
        };
        rows.map(row).boxed()
    }

    /// Chooses the number of keys per chunk of a table from its current rows.
    pub(super) async fn width(&mut self, table: &'static Table) -> Result<i64, Error> {
        let extent = table.extent(self.dialect);
        let response = sqlx::query(AssertSqlSafe(extent)).fetch_one(&mut self.conn);
        let row = within(ANSWER_MAX, response).await?.map_err(Error::Reference)?;
        let number = |nth: usize| {
            let text: String = row.try_get(nth).map_err(Error::Reference)?;
            text.parse::<i64>().map_err(|_| {
                Error::Refused(format!("{} has a key that is not a number: {text:?}", table.name))
            })
        };
        Ok(chunks::width(number(0)?, number(1)?, number(2)?))
    }

    /// The chunks of a table, each of `width` keys.
    pub(super) async fn chunks(
        &mut self,
        table: &'static Table,
        width: i64,
    ) -> Result<Chunks, Error> {
        let query = table.fingerprints(self.dialect, self.has_types(), width);
        let response = sqlx::query(AssertSqlSafe(query)).fetch_all(&mut self.conn);
        let rows = within(ANSWER_MAX, response).await?.map_err(Error::Reference)?;
        let is_of_bytes = self.dialect == Dialect::Sqlite;
        let chunks = rows.iter().map(|row| chunk(row, is_of_bytes));
        chunks.collect::<Result<Chunks, sqlx::Error>>().map_err(Error::Reference)
    }

    /// Ends the snapshot, ignoring errors.
    pub(super) async fn close(self) {
        drop(self.conn.close().await);
    }

    pub(super) async fn texts(&mut self, query: &'static str) -> Result<Vec<String>, Error> {
        sqlx::query_scalar(query).fetch_all(&mut self.conn).await.map_err(Error::Reference)
    }
}

/// Reads the number and contents of a chunk. The fingerprint is text, or bytes that need not be UTF-8.
fn chunk(row: &AnyRow, is_of_bytes: bool) -> Result<(i64, Chunk), sqlx::Error> {
    let number =
        |text: String| text.parse::<i64>().map_err(|error| sqlx::Error::Decode(Box::new(error)));
    let rows = u64::try_from(number(row.try_get(1)?)?)
        .map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    // In some versions, `group_concat` stops at a NUL, and may then return null.
    let fingerprint = if is_of_bytes {
        let bytes: Option<Vec<u8>> = row.try_get(2)?;
        bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    } else {
        row.try_get(2)?
    };
    let fingerprint = fingerprint.unwrap_or_else(|| "null".to_owned());
    Ok((number(row.try_get(0)?)?, Chunk::new(rows, fingerprint)))
}

/// Awaits a response, with a timeout.
async fn within<T>(bound: Duration, answer: impl Future<Output = T>) -> Result<T, Error> {
    timeout(bound, answer).await.map_err(|_| Error::Reference(timed_out(bound)))
}

fn timed_out(bound: Duration) -> sqlx::Error {
    let why = format!("no response within {} s", bound.as_secs());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, why))
}

/// The next row, with a timeout.
pub(super) async fn next(
    rows: &mut BoxStream<'_, Result<Values, Error>>,
) -> Result<Option<Values>, Error> {
    within(ANSWER_MAX, rows.try_next()).await?
}

/// Connects to a database and begins a transaction; for reading, one with a single snapshot.
pub(crate) async fn connect(
    url: &ReferenceUrl,
    access: Access,
) -> Result<AnyConnection, sqlx::Error> {
    install_drivers();
    let options = AnyConnectOptions::from_url(&url.to(access))?;
    let options = options.disable_statement_logging();
    let connecting = timeout(CONNECT_MAX, AnyConnection::connect_with(&options)).await;
    let mut conn = connecting.map_err(|_| timed_out(CONNECT_MAX))??;
    let begin: &[&str] = match (url.dialect, access) {
        (Dialect::MySql, Access::Read) => &[
            "set time_zone = '+00:00'",
            "set session transaction isolation level repeatable read",
            "start transaction with consistent snapshot, read only",
        ],
        (Dialect::MySql, Access::Write) => &["set time_zone = '+00:00'", "start transaction"],
        (Dialect::Postgres, Access::Read) => {
            &["begin isolation level repeatable read, read only", "set local statement_timeout = 0"]
        }
        (Dialect::Postgres, Access::Write) => &["begin", "set local statement_timeout = 0"],
        (Dialect::Sqlite, Access::Read) => &["begin"],
        (Dialect::Sqlite, Access::Write) => &["begin immediate"],
    };
    for statement in begin {
        sqlx::raw_sql(AssertSqlSafe(*statement)).execute(&mut conn).await?;
    }
    Ok(conn)
}

/// Describes a failure to read the next row. If a text is not UTF-8, the message names the row before it, since the
/// row itself was not received.
fn failure(error: sqlx::Error, table: &Table, before: Option<&str>) -> Error {
    // If PostgreSQL stores bytes of an unknown encoding, it checks them when it sends them.
    let is_refused = |error: &dyn DatabaseError| error.code().as_deref() == Some("22021");
    let is_encoding = matches!(&error, sqlx::Error::Decode(_))
        || matches!(&error, sqlx::Error::Database(error) if is_refused(error.as_ref()));
    if !is_encoding {
        return Error::Reference(error);
    }
    let (name, key) = (table.name, table.chunked_by());
    let texts = table.columns.iter().filter(|column| column.kind == Kind::Text);
    let texts: Vec<&str> = texts.map(|column| column.name).collect();
    let row = before.map_or_else(
        || format!("the row with the lowest {key} of those that are read"),
        |before| format!("the next row after the one with {key} {before}"),
    );
    Error::Refused(format!(
        "{name}, {row}: {} is not UTF-8 ({error}). Correct it in the source first",
        texts.join(" or ")
    ))
}

/// The columns of a row.
fn values(row: &AnyRow, table: &Table) -> Result<Vec<Option<String>>, Error> {
    let value = |(nth, column): (usize, &Column)| {
        row.try_get(nth).map_err(|error| {
            let key: Result<Option<String>, _> = row.try_get(0);
            let key = key.ok().flatten().unwrap_or_else(|| "?".to_owned());
            let (table, column) = (table.name, column.name);
            Error::Refused(format!("{table}, row {key}: {column} cannot be read: {error}"))
        })
    };
    table.columns.iter().enumerate().map(value).collect()
}

/// Registers the drivers, once per process.
fn install_drivers() {
    static DRIVERS: [AnyDriver; 3] =
        [sqlx_mysql::any::DRIVER, sqlx::postgres::any::DRIVER, sqlx_sqlite::any::DRIVER];
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| drop(sqlx::any::install_drivers(&DRIVERS)));
}
