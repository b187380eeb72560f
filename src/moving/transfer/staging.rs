//! The staging: the rows of the source as they are, in a schema of Berth's database.
//!
//! Whatever the source is, it makes the tables `source_*` with [`create`], and fills them with
//! [`copy`] or a [`Writer`]: a row is the text of the columns that [`TABLES`] names, in their order. Everything
//! after that is SQL: see [`super::load`].

use std::fmt::Write as _;

use futures_util::stream::BoxStream;
use sqlx::postgres::PgCopyIn;
use sqlx::{AssertSqlSafe, PgConnection};

use super::Error;
use super::reference::{self, Values};
use super::tables::{Kind, TABLES, Table};

/// The schema of an import that keeps what it has read until all of it is written.
pub(super) const KEPT: &str = "berth_import";
/// The schema of one that is made and dropped in the same transaction.
pub(super) const ONCE: &str = "berth_import_once";

/// How much is sent at once, in bytes.
const CHUNK: usize = 1 << 20;

/// A character that Unicode keeps for uses within a program. Texts are staged with this and `0` instead of a NUL, which
/// PostgreSQL cannot store, and with this and `1` instead of the character itself, so that no two texts become one.
const ESCAPE: char = '\u{fdd0}';
/// What stands for a NUL in what Berth stores and shows.
const INSTEAD_OF_NUL: &str = "\u{fffd}";

/// A staged text as Berth stores it: [`shown`] does the same.
const AS_TEXT: &str = "
    create function SCHEMA.as_text(staged text) returns text language sql immutable strict parallel safe as $$
        select replace(replace(staged, chr(64976) || '0', chr(65533)), chr(64976) || '1', chr(64976))
    $$;";

/// A UUID in any spelling that OpenStack's clients may have used; null if it is none. Nearly all have the first
/// form, for which no digits need to be picked out.
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

/// Makes the schema with its tables, and looks for tables there that no other schema has.
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

/// Lets statements of this connection find the tables of the staging by their names alone. Temporary tables of the
/// same names come first.
pub(super) async fn enter(conn: &mut PgConnection, schema: &str) -> Result<(), Error> {
    let path: String = sqlx::query_scalar("show search_path").fetch_one(&mut *conn).await?;
    if !path.ends_with(schema) {
        // Statements over all rows may take long. Compiling the largest would take longer than running them.
        let set = format!(
            "set search_path = {path}, {schema}; set statement_timeout = 0; \
             set jit = off; set client_min_messages = warning"
        );
        sqlx::raw_sql(AssertSqlSafe(set)).execute(conn).await?;
    }
    Ok(())
}

/// Copies rows into the table of the staging. Returns how many.
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

/// Writes rows into a table with the columns of one of the source's.
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

    /// The rows that were written so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes a row. Returns whether that was the moment to send what had been collected.
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

    /// Ends without the rows. A writer that is dropped instead leaves the connection out of step with the server.
    pub(super) async fn abort(self) -> Result<(), Error> {
        self.into.abort("the rows cannot be brought over").await?;
        Ok(())
    }

    /// Ends. Returns how many rows were written.
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
                check_number(value, column.kind).map_err(|wrong| {
                    let key = values.first().and_then(Option::as_deref).map_or("?", |key| key);
                    let (table, column) = (table.name, column.name);
                    Error::Refused(format!(
                        "{table}, row {key}: {column} is {wrong}, but {value:?}"
                    ))
                })?;
                into.push_str(value);
            }
        }
    }
    into.push('\n');
    Ok(())
}

/// What a value is not, if it is no number of this kind.
fn check_number(value: &str, kind: Kind) -> Result<(), &'static str> {
    let is_number = value.parse::<f64>().is_ok();
    match kind {
        _ if !is_number => Err("no number"),
        Kind::Integer | Kind::Changed if value.parse::<i64>().is_err() => {
            Err("no integer of 64 bits")
        }
        Kind::Amount if value.parse::<i32>().is_err() => Err("no integer of 32 bits"),
        Kind::Integer | Kind::Changed | Kind::Amount | Kind::Float | Kind::Text => Ok(()),
    }
}

/// A staged text, or a sentence with staged texts in it, as Berth shows it.
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
        assert_eq!(why, "traits, row seven: id is no number, but \"seven\"");
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
            let expected =
                format!("inventories, row 5: total is no integer of 32 bits, but {wrong:?}");
            assert_eq!(why, expected);
        }
        assert_eq!(check_number("5000000000", Kind::Integer), Ok(()));
        assert_eq!(check_number("1.5", Kind::Integer), Err("no integer of 64 bits"));
        assert_eq!(check_number("1.5", Kind::Float), Ok(()));
    }
}
