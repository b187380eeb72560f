//! Fills the staging of an import in pieces that are committed, so that an interrupted import continues where it
//! stopped.
//!
//! A later run reads another snapshot of the source. A chunk with the same fingerprint in that snapshot is kept; all
//! others are read again. In the end, the staging equals the snapshot of the last run.

use futures_util::stream::BoxStream;
use sqlx::PgConnection;

use super::chunks::{Changed, Chunks, Keys, runs};
use super::error::Error;
use super::kept;
use super::reference::{self, Database, Values};
use super::report::TableRows;
use super::staging::Writer;
use super::tables::{TABLES, Table};
use crate::moving::progress::Progress;

/// Approximate number of rows in one commit.
const PIECE: u64 = 50_000;

/// Outcome of filling the staging.
#[derive(Debug, Default)]
pub(super) struct FillOutcome {
    /// The rows of each table.
    pub(super) read: Vec<TableRows>,
    /// Number of them that an earlier run had read.
    pub(super) kept: u64,
    /// Keys per chunk, for each table.
    pub(super) widths: Vec<(&'static Table, i64)>,
}

/// Brings the staging up to the source's present state.
pub(super) async fn fill(
    source: &mut Database,
    conn: &mut PgConnection,
    progress: &Progress,
) -> Result<FillOutcome, Error> {
    let mut filled = FillOutcome::default();
    for table in &TABLES {
        if !source.has(table) {
            filled.widths.push((table, 1));
            continue;
        }
        let width = if let Some(width) = kept::width(conn, table).await? {
            width
        } else {
            let width = source.width(table).await?;
            kept::set_width(conn, table, width).await?;
            width
        };
        let found = source.chunks(table, width).await?;
        let recorded = kept::chunks(conn, table).await?;
        let changed = Changed::between(&recorded, &found);
        if !changed.stale.is_empty() {
            execute(conn, "begin").await?;
            kept::forget(conn, table, width, &changed).await?;
            execute(conn, "commit").await?;
        }
        let rows = rows_of(&found);
        let wanted: u64 =
            changed.wanted.iter().filter_map(|number| found.get(number)).map(|it| it.rows).sum();
        let bar = progress.of(table.name, rows);
        let kept = rows - wanted;
        bar.set_position(kept);
        bar.reset_eta();
        let mut piece = Piece { table, width, found: &found, read: kept };
        for keys in runs(&found, &changed.wanted, width) {
            piece.read_keys(source, conn, keys, &|count| bar.set_position(count)).await?;
        }
        bar.finish();
        if piece.read != rows {
            return Err(Error::Changing(format!(
                "{} had {rows} rows, and then {}: the database does not give one snapshot. Stop the services that \
                 write to it",
                table.name, piece.read
            )));
        }
        filled.read.push(TableRows { table: table.name.to_owned(), rows });
        filled.kept += kept;
        filled.widths.push((table, width));
    }
    Ok(filled)
}

/// Total number of rows in these chunks.
pub(super) fn rows_of(chunks: &Chunks) -> u64 {
    chunks.values().map(|chunk| chunk.rows).sum()
}

/// The rows of the source that are not written yet.
struct UnwrittenRows<'r> {
    next: Option<Values>,
    further: BoxStream<'r, Result<Values, Error>>,
}

impl<'r> UnwrittenRows<'r> {
    async fn start(mut further: BoxStream<'r, Result<Values, Error>>) -> Result<Self, Error> {
        Ok(Self { next: reference::next(&mut further).await?, further })
    }

    async fn advance(&mut self) -> Result<(), Error> {
        self.next = reference::next(&mut self.further).await?;
        Ok(())
    }
}

/// Reads chunks of a table, and checks the row count of each.
struct Piece<'f> {
    table: &'static Table,
    width: i64,
    found: &'f Chunks,
    read: u64,
}

impl Piece<'_> {
    async fn read_keys(
        &mut self,
        source: &mut Database,
        conn: &mut PgConnection,
        keys: Keys,
        tell: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        let mut rows = UnwrittenRows::start(source.rows_with(self.table, &[keys])).await?;
        while rows.next.is_some() {
            execute(conn, "begin").await?;
            if let Err(error) = self.write_piece(&mut rows, conn, tell).await {
                execute(conn, "rollback").await?;
                return Err(error);
            }
            execute(conn, "commit").await?;
        }
        Ok(())
    }

    /// Writes and records rows up to the end of the chunk that completes a piece.
    async fn write_piece(
        &mut self,
        rows: &mut UnwrittenRows<'_>,
        conn: &mut PgConnection,
        tell: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        let into = format!("source_{}", self.table.name);
        let mut writer = Writer::begin(&mut *conn, &into, self.table).await?;
        match self.write_rows(rows, &mut writer, tell).await {
            Ok(written) => {
                self.read += writer.finish().await?;
                kept::record(conn, self.table, &[], self.found, &written).await
            }
            Err(error) => {
                writer.abort().await?;
                Err(error)
            }
        }
    }

    /// Writes the rows of a piece. Returns the numbers of their chunks.
    async fn write_rows(
        &self,
        rows: &mut UnwrittenRows<'_>,
        writer: &mut Writer<'_>,
        tell: &(dyn Fn(u64) + Sync),
    ) -> Result<Vec<i64>, Error> {
        let mut written = Vec::new();
        while let Some(values) = &rows.next {
            if writer.rows() >= PIECE {
                break;
            }
            let number = chunk_of(values, self.table, self.width)?;
            let mut count = 0;
            while let Some(values) = &rows.next {
                if chunk_of(values, self.table, self.width)? != number {
                    break;
                }
                if writer.write(values).await? {
                    tell(self.read + writer.rows());
                }
                count += 1;
                rows.advance().await?;
            }
            check_count(self.table, self.found, number, count)?;
            written.push(number);
        }
        Ok(written)
    }
}

/// The number of the chunk that contains a row.
pub(super) fn chunk_of(values: &Values, table: &Table, width: i64) -> Result<i64, Error> {
    let at = table.columns.iter().position(|column| column.name == table.chunked_by());
    let key = at.and_then(|at| values.get(at)).and_then(Option::as_deref);
    let number = key.and_then(|key| key.parse::<i64>().ok());
    number.map(|key| key / width).ok_or_else(|| {
        Error::Refused(format!("{} has a row whose key is not a number: {key:?}", table.name))
    })
}

/// Refuses a chunk whose row count differs from the one in the same transaction.
pub(super) fn check_count(
    table: &Table,
    found: &Chunks,
    number: i64,
    read: u64,
) -> Result<(), Error> {
    let counted = found.get(&number).map_or(0, |chunk| chunk.rows);
    if counted == read {
        return Ok(());
    }
    // The snapshot is not consistent: the table's storage engine has no transactions.
    let name = table.name;
    Err(Error::Changing(format!(
        "a part of {name} had {counted} rows, and then {read}: the database does not give one snapshot. Stop the \
         services that write to it"
    )))
}

/// Begins or commits a piece.
async fn execute(conn: &mut PgConnection, statement: &'static str) -> Result<(), Error> {
    sqlx::raw_sql(statement).execute(conn).await?;
    Ok(())
}
