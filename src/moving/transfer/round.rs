//! A round of following: brings Berth's tables from one consistent state of the source to a later one.
//!
//! A round reads one snapshot of the source. It compares the fingerprints of all chunks with the recorded ones, and
//! reads the chunks that differ, to find the removed and added rows. One transaction on Berth's database applies
//! these to the staging, and updates the providers and consumers that they affect. A failure leaves the state of the
//! previous round.

use std::time::Instant;

use sqlx::{AssertSqlSafe, PgConnection};

use super::chunks::{Changed, Chunks, runs};
use super::error::Error;
use super::fill::{check_count, chunk_of, rows_of};
use super::kept;
use super::load::{self, TargetContents};
use super::reference::{self, Database, KEYS_MAX};
use super::report::TableRows;
use super::staging::Writer;
use super::tables::{TABLES, Table};
use crate::moving::progress::Progress;

/// The rows of the source that a round reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Chunks whose fingerprint has changed.
    Changed,
    /// All rows.
    Everything,
}

/// Outcome of a round.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Number of changed rows by table; unchanged tables are omitted.
    pub(super) changed: Vec<TableRows>,
    /// Number of rows that the source counted.
    pub(super) compared: u64,
    /// Number of rows read from the source.
    pub(super) read: u64,
    /// Number of Berth's providers that changed, including their usage.
    pub(super) providers: u64,
}

/// The changed chunks of a table.
struct Difference {
    table: &'static Table,
    width: i64,
    found: Chunks,
    changed: Changed,
}

/// Runs a round in the transaction of the caller, who locks and commits. `began` is the time of the source's
/// snapshot.
pub(super) async fn make(
    source: &mut Database,
    conn: &mut PgConnection,
    began: Instant,
    depth: Depth,
) -> Result<Round, Error> {
    let mut round = Round::default();
    let mut differences = Vec::new();
    for table in &TABLES {
        if !source.has(table) {
            continue;
        }
        let Some(width) = kept::width(conn, table).await? else {
            let name = table.name;
            return Err(Error::Refused(format!(
                "nothing is recorded of {name}: the schema of the old database has changed. Begin again, with \
                 `berth import --discard` and then `berth import --replace`"
            )));
        };
        let found = source.chunks(table, width).await?;
        let recorded = kept::chunks(conn, table).await?;
        round.compared += rows_of(&found);
        let changed = match depth {
            Depth::Changed => Changed::between(&recorded, &found),
            Depth::Everything => Changed::all(&recorded, &found),
        };
        if !changed.is_empty() {
            differences.push(Difference { table, width, found, changed });
        }
    }
    kept::refuse_foreign_writes(conn).await?;
    if differences.is_empty() {
        return Ok(round);
    }
    for table in &TABLES {
        prepare(conn, table).await?;
    }
    for difference in &differences {
        round.read += difference.read(source, conn).await?;
        let rows = difference.take(conn).await?;
        if rows > 0 {
            round.changed.push(TableRows { table: difference.table.name.to_owned(), rows });
        }
    }
    if !round.changed.is_empty() || depth == Depth::Everything {
        load::lock(conn).await?;
        // Checked again, because other clients can no longer write from here on.
        kept::refuse_foreign_writes(conn).await?;
        if depth == Depth::Changed {
            sqlx::raw_sql(include_str!("round.sql")).execute(&mut *conn).await?;
        }
        let progress = Progress::hidden();
        load::settle(conn, &progress).await?;
        load::write(conn, TargetContents::Something, &progress).await?;
        round.providers = load::announce_touched(conn).await?;
    }
    kept::set_as_of(conn, began.elapsed().as_secs_f64()).await?;
    Ok(round)
}

/// Returns whether the chunks of the source still equal the recorded ones.
pub(super) async fn is_unchanged(
    source: &mut Database,
    conn: &mut PgConnection,
) -> Result<bool, Error> {
    for table in &TABLES {
        let width = if source.has(table) { kept::width(conn, table).await? } else { None };
        let Some(width) = width else { continue };
        if source.chunks(table, width).await? != kept::chunks(conn, table).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates the tables for the rows of changed chunks, and for removed and added rows.
async fn prepare(conn: &mut PgConnection, table: &Table) -> Result<(), Error> {
    let name = table.name;
    let make = format!(
        "create temporary table new_{name} (like source_{name} including generated) on commit drop;
         create temporary table gone_{name} (like source_{name}) on commit drop;
         create temporary table come_{name} (like source_{name}) on commit drop"
    );
    sqlx::raw_sql(AssertSqlSafe(make)).execute(conn).await?;
    Ok(())
}

impl Difference {
    /// Reads the changed chunks. Returns their number of rows.
    async fn read(&self, source: &mut Database, conn: &mut PgConnection) -> Result<u64, Error> {
        let into = format!("new_{}", self.table.name);
        let mut writer = Writer::begin(conn, &into, self.table).await?;
        let mut counts = std::collections::BTreeMap::new();
        for keys in runs(&self.found, &self.changed.wanted, self.width).chunks(KEYS_MAX) {
            let mut rows = source.rows_with(self.table, keys);
            while let Some(values) = reference::next(&mut rows).await? {
                writer.write(&values).await?;
                *counts.entry(chunk_of(&values, self.table, self.width)?).or_insert(0) += 1;
            }
        }
        for number in &self.changed.wanted {
            let read = counts.get(number).map_or(0, |count| *count);
            check_count(self.table, &self.found, *number, read)?;
        }
        writer.finish().await
    }

    /// Finds removed and added rows, and applies them to the staging. Returns the number of rows that differ.
    async fn take(&self, conn: &mut PgConnection) -> Result<u64, Error> {
        let (table, changed, width) = (self.table.name, &self.changed, self.width);
        let (key, columns) = (self.table.chunked_by(), self.table.names().join(", "));
        let same = |one: &str, other: &str| {
            let same = |column: &&str| format!("{one}.{column} = {other}.{column}");
            self.table.key.iter().map(same).collect::<Vec<_>>().join(" and ")
        };
        let keys = self.table.key.join(", ");
        let gone = format!(
            "insert into gone_{table}
             select * from source_{table} where {key} / {width} = any($1)
             except all select * from new_{table}"
        );
        sqlx::query(AssertSqlSafe(gone)).bind(&changed.stale).execute(&mut *conn).await?;
        let come = format!(
            "insert into come_{table}
             select * from new_{table}
             except all select * from source_{table} where {key} / {width} = any($1)"
        );
        sqlx::query(AssertSqlSafe(come)).bind(&changed.stale).execute(&mut *conn).await?;
        let take = format!(
            "analyze gone_{table}, come_{table};
             delete from source_{table} s using gone_{table} g where {};
             insert into source_{table} ({columns}) select {columns} from come_{table}",
            same("s", "g")
        );
        sqlx::raw_sql(AssertSqlSafe(take)).execute(&mut *conn).await?;
        kept::record(conn, self.table, &changed.stale, &self.found, &changed.wanted).await?;
        let count = format!(
            "select count(*) from (select {keys} from gone_{table} union select {keys} from come_{table}) as each"
        );
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(conn).await?;
        u64::try_from(count).map_err(|_| Error::Refused(format!("{count} rows of {table} differ")))
    }
}
