//! The staging: the unchanged rows of the source, in a schema of Berth's database.
//!
//! Every source creates the tables `source_*` with [`create`], and fills them with [`copy`] or a [`Writer`]: a row is
//! the text of the columns in [`TABLES`], in their order. All later steps are SQL: see [`super::load`].

use std::fmt::Write as _;

use futures_util::stream::BoxStream;
use sqlx::postgres::PgCopyIn;
use sqlx::{AssertSqlSafe, PgConnection};

use super::error::Error;
use super::reference::{self, Values};
use super::tables::{Kind, TABLES, Table};

/// Schema of an import that keeps the staging until it is done.
pub(super) const KEPT: &str = "berth_import";
/// Schema that is created and dropped in one transaction.
pub(super) const ONCE: &str = "berth_import_once";

/// Size of a COPY message, in bytes.
const CHUNK: usize = 1 << 20;

/// A noncharacter of Unicode. In the staging, a NUL, which PostgreSQL cannot store, is this and `0`; the character
/// itself is this and `1`, so that distinct texts stay distinct.
const ESCAPE: char = '\u{fdd0}';
/// Replacement for a NUL in texts that Berth stores and shows.
const INSTEAD_OF_NUL: &str = "\u{fffd}";

/// Converts a staged text to the form that Berth stores, as [`shown`] does.
const AS_TEXT: &str = "
    create function SCHEMA.as_text(staged text) returns text language sql immutable strict parallel safe as $$
        select replace(replace(staged, chr(64976) || '0', chr(65533)), chr(64976) || '1', chr(64976))
    $$;";

/// Parses a UUID in any spelling accepted from OpenStack clients; null if invalid. Nearly all have the first form,
/// which needs no picking of digits.
const AS_UUID: &str = "
    create function SCHEMA.as_uuid_of_digits(digits text) returns uuid language sql immutable strict as $$
        select case when digits ~ '^[0-9a-f]{32}$' then digits::uuid end
    $$;
    create function SCHEMA.as_uuid(spelled text) returns uuid language plpgsql immutable strict parallel safe
    as $$
    begin
        if spelled ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
            return spelled::uuid;
        end if;
        return SCHEMA.as_uuid_of_digits(lower(regexp_replace(
            regexp_replace(spelled, '^(urn:)?(uuid:)?', '', 'i'), '[{}-]', '', 'g')));
    end
    $$";

/// Creates the schema with its tables, and searches it for tables that exist in no other schema.
pub(super) async fn create(conn: &mut PgConnection, schema: &str) -> Result<(), Error> {
    let created =
        sqlx::raw_sql(AssertSqlSafe(format!("create schema {schema}"))).execute(&mut *conn);
    if let Err(error) = created.await {
        let denied =
            matches!(&error, sqlx::Error::Database(it) if it.code().as_deref() == Some("42501"));
        if denied {
            return Err(Error::Refused(
                "the role may not create a schema in Berth's database, for the rows that are read: connect as \
                 the owner of the database, or let the owner run `grant create on database NAME to ROLE`"
                    .to_owned(),
            ));
        }
        return Err(error.into());
    }
    let mut make = [AS_TEXT, AS_UUID].concat().replace("SCHEMA", schema);
    for table in &TABLES {
        let column =
            |column: &super::tables::Column| format!("{} {}", column.name, column.sql_type());
        let mut columns: Vec<String> = table.columns.iter().map(column).collect();
        if !table.computed.is_empty() {
            columns.push(table.computed.replace("SCHEMA", schema));
        }
        let columns = columns.join(", ");
        // Writing to a String cannot fail.
        let _ = write!(make, ";create unlogged table {schema}.source_{} ({columns})", table.name);
    }
    sqlx::raw_sql(AssertSqlSafe(make)).execute(&mut *conn).await?;
    enter(conn, schema).await
}

/// Adds the staging to this connection's search path. Temporary tables of the same names come first.
pub(super) async fn enter(conn: &mut PgConnection, schema: &str) -> Result<(), Error> {
    let path: String = sqlx::query_scalar("show search_path").fetch_one(&mut *conn).await?;
    if !path.ends_with(schema) {
        // Statements over all rows may take long. Compiling the largest would take longer than running it.
        let set = format!(
            "set search_path = {path}, {schema}; set statement_timeout = 0; \
             set jit = off; set client_min_messages = warning"
        );
        sqlx::raw_sql(AssertSqlSafe(set)).execute(conn).await?;
    }
    Ok(())
}

/// Copies rows into the staging table. Returns their number.
pub(super) async fn copy(
    conn: &mut PgConnection,
    table: &'static Table,
    mut rows: BoxStream<'_, Result<Values, Error>>,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<u64, Error> {
    let mut writer = Writer::begin(conn, &format!("source_{}", table.name), table).await?;
    match write_all(&mut writer, &mut rows, tell).await {
        Ok(()) => writer.finish().await,
        Err(error) => {
            writer.abort().await?;
            Err(error)
        }
    }
}

async fn write_all(
    writer: &mut Writer<'_>,
    rows: &mut BoxStream<'_, Result<Values, Error>>,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    while let Some(values) = reference::next(rows).await? {
        if writer.write(&values).await? {
            tell(writer.rows());
        }
    }
    Ok(())
}

/// Writes rows into a table with the columns of a source table.
pub(super) struct Writer<'c> {
    into: PgCopyIn<&'c mut PgConnection>,
    table: &'static Table,
    chunk: String,
    rows: u64,
}

impl<'c> Writer<'c> {
    pub(super) async fn begin(
        conn: &'c mut PgConnection,
        into: &str,
        table: &'static Table,
    ) -> Result<Self, Error> {
        let copy = format!("copy {into} ({}) from stdin", table.names().join(", "));
        let into = conn.copy_in_raw(&copy).await?;
        Ok(Self { into, table, chunk: String::with_capacity(CHUNK + CHUNK / 4), rows: 0 })
    }

    /// Number of rows written so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes a row. Returns whether the buffer was sent.
    pub(super) async fn write(&mut self, values: &Values) -> Result<bool, Error> {
        write_row(values, self.table, &mut self.chunk)?;
        self.rows += 1;
        let is_full = self.chunk.len() >= CHUNK;
        if is_full {
            self.into.send(self.chunk.as_bytes()).await?;
            self.chunk.clear();
        }
        Ok(is_full)
    }

    /// Cancels the copy. Dropping a writer instead leaves the connection out of step with the server.
    pub(super) async fn abort(self) -> Result<(), Error> {
        self.into.abort("the rows cannot be imported").await?;
        Ok(())
    }

    /// Completes the copy. Returns the number of rows written.
    pub(super) async fn finish(mut self) -> Result<u64, Error> {
        self.into.send(self.chunk.as_bytes()).await?;
        self.into.finish().await?;
        Ok(self.rows)
    }
}

/// Writes a row in the text format of COPY.
fn write_row(values: &[Option<String>], table: &Table, into: &mut String) -> Result<(), Error> {
    for (nth, (value, column)) in values.iter().zip(table.columns).enumerate() {
        if nth > 0 {
            into.push('\t');
        }
        match value {
            None => into.push_str("\\N"),
            Some(value) if column.kind == Kind::Text => escape(value, into),
            Some(value) => {
                check_number(value, column.kind).map_err(|kind| {
                    let key = values.first().and_then(Option::as_deref).map_or("?", |key| key);
                    let (table, column) = (table.name, column.name);
                    Error::Refused(format!("{table}, row {key}: {column} is not {kind}: {value:?}"))
                })?;
                into.push_str(value);
            }
        }
    }
    into.push('\n');
    Ok(())
}

/// Checks that a value is a number of this kind; the error names what it should be.
fn check_number(value: &str, kind: Kind) -> Result<(), &'static str> {
    let is_number = value.parse::<f64>().is_ok();
    match kind {
        _ if !is_number => Err("a number"),
        Kind::Integer | Kind::Changed if value.parse::<i64>().is_err() => Err("a 64-bit integer"),
        Kind::Amount if value.parse::<i32>().is_err() => Err("a 32-bit integer"),
        Kind::Integer | Kind::Changed | Kind::Amount | Kind::Float | Kind::Text => Ok(()),
    }
}

/// Converts a staged text, or a message containing staged texts, to its shown form.
pub(super) fn shown(staged: &str) -> String {
    staged.replace("\u{fdd0}0", INSTEAD_OF_NUL).replace("\u{fdd0}1", "\u{fdd0}")
}

fn escape(value: &str, into: &mut String) {
    for each in value.chars() {
        match each {
            '\\' => into.push_str("\\\\"),
            '\t' => into.push_str("\\t"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\0' => into.extend([ESCAPE, '0']),
            ESCAPE => into.extend([ESCAPE, '1']),
            _ => into.push(each),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, TABLES, check_number, escape, shown, write_row};

    #[test]
    fn texts_that_differ_in_a_nul_are_staged_apart() {
        let staged = |text: &str| {
            let mut staged = String::new();
            escape(text, &mut staged);
            staged
        };
        let texts = ["a\0", "a\u{fffd}", "a\u{fdd0}0", "a\u{fdd0}\0", "a\u{fdd0}1", "a0"];
        for (nth, text) in texts.iter().enumerate() {
            assert_eq!(shown(&staged(text)), text.replace('\0', "\u{fffd}"));
            assert!(texts.iter().skip(nth + 1).all(|other| staged(other) != staged(text)));
        }
    }

    #[test]
    fn a_row_is_written_for_copy() {
        let table = TABLES.iter().find(|table| table.name == "traits").unwrap();
        let values = [Some("7".to_owned()), Some("a\tb\\c\nd\0".to_owned()), None];
        let mut text = String::new();
        write_row(&values, table, &mut text).unwrap();
        assert_eq!(text, "7\ta\\tb\\\\c\\nd\u{fdd0}0\t\\N\n");
        let wrong = [Some("seven".to_owned()), None, None];
        let why = write_row(&wrong, table, &mut text).unwrap_err().to_string();
        assert_eq!(why, "traits, row seven: id is not a number: \"seven\"");
    }

    #[test]
    fn numbers_that_berth_cannot_store_are_named() {
        let row = |total: &str| {
            let table = TABLES.iter().find(|table| table.name == "inventories").unwrap();
            let values = ["5", "1", "1", total, "0", "1", "1", "1", "1.5", "0"];
            let values: Vec<_> = values.iter().map(|it| Some((*it).to_owned())).collect();
            write_row(&values, table, &mut String::new()).map_err(|error| error.to_string())
        };
        assert_eq!(row("2147483647"), Ok(()));
        for wrong in ["5000000000", "1.5"] {
            let why = row(wrong).unwrap_err();
            let expected = format!("inventories, row 5: total is not a 32-bit integer: {wrong:?}");
            assert_eq!(why, expected);
        }
        assert_eq!(check_number("5000000000", Kind::Integer), Ok(()));
        assert_eq!(check_number("1.5", Kind::Integer), Err("a 64-bit integer"));
        assert_eq!(check_number("1.5", Kind::Float), Ok(()));
    }
}
