//! The rows of the source, as they are, in temporary tables of Berth's database.

use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, PgConnection};

use super::Error;
use super::progress::Progress;
use super::reference::Database;
use super::report::TableRows;
use super::tables::{Kind, TABLES, Table};

/// How much is sent at once, in bytes.
const CHUNK: usize = 1 << 20;

/// What stands for a NUL, which PostgreSQL cannot store.
const INSTEAD_OF_NUL: char = '\u{fffd}';

/// Makes the temporary tables. They go with the transaction.
pub(super) async fn create(conn: &mut PgConnection) -> Result<(), Error> {
    for table in &TABLES {
        let column =
            |column: &super::tables::Column| format!("{} {}", column.name, column.sql_type());
        let columns: Vec<String> = table.columns.iter().map(column).collect();
        let (name, columns) = (table.name, columns.join(", "));
        let create = format!("create temporary table source_{name} ({columns}) on commit drop");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Copies all rows of all tables. Returns how many each table has.
pub(super) async fn copy(
    source: &mut Database,
    conn: &mut PgConnection,
    progress: &Progress,
) -> Result<Vec<TableRows>, Error> {
    let mut read = Vec::new();
    for table in TABLES.iter().filter(|table| source.has(table)).collect::<Vec<_>>() {
        let rows = source.count(table).await?;
        let bar = progress.of(table.name, rows);
        let copied = copy_table(source, conn, table, &|count| bar.set_position(count)).await?;
        bar.finish();
        if copied != rows {
            // The snapshot does not hold what it promises: the table's engine is none with transactions.
            let name = table.name;
            return Err(Error::Refused(format!(
                "{name} had {rows} rows, and then {copied}: the database does not give one snapshot. \
                 Stop the services that write to it"
            )));
        }
        read.push(TableRows { table: table.name.to_owned(), rows });
    }
    Ok(read)
}

async fn copy_table(
    source: &mut Database,
    conn: &mut PgConnection,
    table: &'static Table,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<u64, Error> {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let copy = format!("copy source_{} ({}) from stdin", table.name, names.join(", "));
    let mut into = conn.copy_in_raw(&copy).await?;
    let mut chunk = String::with_capacity(CHUNK + CHUNK / 4);
    let mut count = 0;
    let mut rows = source.rows(table);
    while let Some(values) = rows.try_next().await? {
        write_row(&values, table, &mut chunk)?;
        count += 1;
        if chunk.len() >= CHUNK {
            into.send(chunk.as_bytes()).await?;
            chunk.clear();
            tell(count);
        }
    }
    into.send(chunk.as_bytes()).await?;
    into.finish().await?;
    Ok(count)
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
            Some(value) if value.parse::<f64>().is_ok() => into.push_str(value),
            Some(value) => {
                let key = values.first().and_then(Option::as_deref).map_or("?", |key| key);
                let (table, column) = (table.name, column.name);
                return Err(Error::Refused(format!(
                    "{table}, row {key}: {column} is no number, but {value:?}"
                )));
            }
        }
    }
    into.push('\n');
    Ok(())
}

fn escape(value: &str, into: &mut String) {
    for each in value.chars() {
        match each {
            '\\' => into.push_str("\\\\"),
            '\t' => into.push_str("\\t"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\0' => into.push(INSTEAD_OF_NUL),
            _ => into.push(each),
        }
    }
}

/// Computes what the searches for odd rows and the load have in common: identifiers in one spelling, the
/// names' keys in Berth's tables, and the trees.
pub(super) async fn settle(conn: &mut PgConnection) -> Result<(), Error> {
    sqlx::raw_sql(include_str!("settle.sql")).execute(&mut *conn).await?;
    let loops: Option<String> =
        sqlx::query_scalar("select string_agg(uuid, ', ' order by id) from unreached_providers")
            .fetch_one(conn)
            .await?;
    match loops {
        None => Ok(()),
        Some(providers) => Err(Error::Refused(format!(
            "these providers are their own ancestors, or below such providers: {providers}. Set the \
             parent_provider_id of one of them right in the source first"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{TABLES, write_row};

    #[test]
    fn a_row_is_written_for_copy() {
        let table = TABLES.iter().find(|table| table.name == "traits").unwrap();
        let values = [Some("7".to_owned()), Some("a\tb\\c\nd\0".to_owned()), None];
        let mut text = String::new();
        write_row(&values, table, &mut text).unwrap();
        assert_eq!(text, "7\ta\\tb\\\\c\\nd\u{fffd}\t\\N\n");
        let wrong = [Some("seven".to_owned()), None, None];
        let why = write_row(&wrong, table, &mut text).unwrap_err().to_string();
        assert_eq!(why, "traits, row seven: id is no number, but \"seven\"");
    }
}
