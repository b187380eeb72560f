//! Checks that a database belongs to OpenStack Placement, is complete, and is readable by the role of the connection.
//!
//! Catalogs cannot answer this: `MySQL` hides tables from roles that have no rights on them, so a table without
//! rights looks like a missing one. Access is tested with a query that reads no row.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, Row};

use super::error::Error;
use super::reference::{Database, SCHEMAS, connect, has_types};
use super::reference_url::{Access, Dialect, ReferenceUrl};
use super::tables::{Kind, TABLES, Table};

/// The table that holds the version of the schema.
const VERSION: &str = "alembic_version";

/// Result of testing access to a table or its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableAccess {
    /// It is readable.
    Readable,
    /// It does not exist.
    Missing,
    /// It exists (or the role may not know that it does not), and access is denied.
    Denied,
}

/// Tables, and columns in the form `table.column`.
#[derive(Debug, Default)]
struct SchemaGaps {
    tables: Vec<String>,
    columns: Vec<String>,
    denied: Vec<String>,
}

impl Database {
    /// Connects, begins a transaction, and checks the schema.
    pub(super) async fn open(url: &ReferenceUrl, access: Access) -> Result<Self, Error> {
        let conn = connect(url, access).await.map_err(Error::Reference)?;
        let mut database = Self { conn, dialect: url.dialect, schema: String::new() };
        database.schema = version(&mut database, access).await?;
        Ok(database)
    }
}

/// Returns the version of the schema. Refuses databases that do not belong to OpenStack Placement, or that cannot be
/// read.
async fn version(database: &mut Database, access: Access) -> Result<String, Error> {
    let tables = tables(database).await?;
    let has = |name: &str| tables.iter().any(|table| table == name);
    if has("cell_mappings") || has("instances") {
        return Err(Error::Refused(
            "this is a nova database, not one of Placement. Before Stein, nova's API database \
             held Placement's tables; what is left of them there is out of date"
                .to_owned(),
        ));
    }
    if has("change_log") && has("providers") {
        return Err(Error::Refused("this is a database of Berth's already".to_owned()));
    }
    if database.dialect == Dialect::Postgres {
        // In PostgreSQL, an error aborts the transaction up to the savepoint.
        execute(database, "savepoint looking").await?;
    }
    let version = match look(database, "version_num", VERSION).await? {
        TableAccess::Readable => recorded(database).await?,
        TableAccess::Denied => {
            let named = TABLES.iter().map(|table| table.name).filter(|name| has(name));
            let denied: Vec<String> =
                std::iter::once(VERSION).chain(named).map(str::to_owned).collect();
            return Err(Error::Refused(denial(database, access, &denied).await?));
        }
        TableAccess::Missing if !has("resource_providers") => {
            return Err(foreign(database, access).await?);
        }
        TableAccess::Missing => return Err(without_version()),
    };
    if !SCHEMAS.contains(&version.as_str()) {
        let known = SCHEMAS.join(", ");
        return Err(Error::Refused(format!(
            "the schema has version {version}, which Berth does not know (it knows {known})"
        )));
    }
    let mut lacks = SchemaGaps::default();
    let needed =
        TABLES.iter().filter(|table| has_types(&version) || table.name != "consumer_types");
    for table in needed {
        look_at(database, table, has_types(&version), &mut lacks).await?;
    }
    refuse(database, access, &version, &lacks).await?;
    if database.dialect == Dialect::Postgres {
        execute(database, "release savepoint looking").await?;
    }
    Ok(version)
}

/// Reads the recorded version.
async fn recorded(database: &mut Database) -> Result<String, Error> {
    let mut versions = database.texts("select version_num from alembic_version order by 1").await?;
    match (versions.pop(), versions.len()) {
        (None, _) => Err(without_version()),
        (Some(version), 0) => Ok(version),
        (Some(last), more) => Err(Error::Refused(format!(
            "the table alembic_version has {} rows ({}, {last}), but only one is the version of the schema. Find out which \
             with the release of openstack-placement that uses the database (`placement-manage db version`, \
             or its migrations), and delete the others",
            more + 1,
            versions.join(", ")
        ))),
    }
}

fn without_version() -> Error {
    Error::Refused(
        "the schema has no version (table alembic_version), so it may be incomplete. Run \
         `placement-manage db sync` of the release that uses the database"
            .to_owned(),
    )
}

/// Lists the tables in the catalog.
async fn tables(database: &mut Database) -> Result<Vec<String>, Error> {
    let tables = match database.dialect {
        Dialect::MySql => {
            "select cast(table_name as char) from information_schema.tables \
             where table_schema = database()"
        }
        // Including those without rights.
        Dialect::Postgres => {
            "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = any (current_schemas(false)) and c.relkind in ('r', 'p', 'v', 'm', 'f')"
        }
        Dialect::Sqlite => "select name from sqlite_master where type in ('table', 'view')",
    };
    database.texts(tables).await
}

/// Tests whether the columns of a table are readable, and records those that are not.
async fn look_at(
    database: &mut Database,
    table: &Table,
    has_types: bool,
    lacks: &mut SchemaGaps,
) -> Result<(), Error> {
    let mut columns = Vec::new();
    for column in table.columns.iter().filter(|it| has_types || it.name != "consumer_type_id") {
        columns.push(column.name);
        if column.kind == Kind::Changed {
            columns.push("created_at");
        }
    }
    if look(database, &columns.join(", "), table.name).await? == TableAccess::Readable {
        return Ok(());
    }
    match look(database, "1", table.name).await? {
        TableAccess::Missing => lacks.tables.push(table.name.to_owned()),
        TableAccess::Denied => lacks.denied.push(table.name.to_owned()),
        TableAccess::Readable => {
            for column in columns {
                let named = format!("{}.{column}", table.name);
                match look(database, column, table.name).await? {
                    TableAccess::Readable => {}
                    TableAccess::Missing => lacks.columns.push(named),
                    TableAccess::Denied => lacks.denied.push(named),
                }
            }
        }
    }
    Ok(())
}

/// Tests whether columns of a table are readable.
async fn look(database: &mut Database, columns: &str, table: &str) -> Result<TableAccess, Error> {
    // The subquery hides the columns from the client, which does not know all types.
    let query = format!("select 1 from (select {columns} from {table} where 1 = 0) as looked");
    let looked = sqlx::query(AssertSqlSafe(query)).fetch_optional(&mut database.conn).await;
    let Err(error) = looked else { return Ok(TableAccess::Readable) };
    let Some(look) = of_error(&error) else { return Err(Error::Reference(error)) };
    if database.dialect == Dialect::Postgres {
        execute(database, "rollback to savepoint looking").await?;
    }
    Ok(look)
}

/// Interprets an error of the test; `None` for unrelated errors.
fn of_error(error: &sqlx::Error) -> Option<TableAccess> {
    let sqlx::Error::Database(error) = error else { return None };
    if let Some(error) = error.try_downcast_ref::<sqlx_mysql::MySqlDatabaseError>() {
        return match error.number() {
            // ER_BAD_FIELD_ERROR, ER_NO_SUCH_TABLE
            1054 | 1146 => Some(TableAccess::Missing),
            // ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR
            1142 | 1143 => Some(TableAccess::Denied),
            _ => None,
        };
    }
    match error.code().as_deref() {
        Some("42P01" | "42703") => Some(TableAccess::Missing),
        Some("42501") => Some(TableAccess::Denied),
        // SQLite has one code for all errors in statements.
        Some("1") if error.message().starts_with("no such") => Some(TableAccess::Missing),
        _ => None,
    }
}

/// Refuses a schema that is incomplete or not readable.
async fn refuse(
    database: &mut Database,
    access: Access,
    version: &str,
    lacks: &SchemaGaps,
) -> Result<(), Error> {
    if !lacks.denied.is_empty() {
        return Err(Error::Refused(denial(database, access, &lacks.denied).await?));
    }
    let mut missing = Vec::new();
    if !lacks.tables.is_empty() {
        missing.push(format!("no table {}", lacks.tables.join(", ")));
    }
    if !lacks.columns.is_empty() {
        missing.push(format!("no column {}", lacks.columns.join(", ")));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the schema is not complete: it has {}, which version {version} has. A migration may have been interrupted: run \
         `placement-manage db sync` of the release that uses the database",
        missing.join(" and ")
    )))
}

/// Describes why a database without a table of OpenStack Placement is refused.
async fn foreign(database: &mut Database, access: Access) -> Result<Error, Error> {
    if database.dialect == Dialect::Postgres {
        // Tables in a schema that the role may not use are not found by name.
        let closed = database
            .texts(
                "select quote_ident(n.nspname) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                 where c.relname = 'resource_providers' and not has_schema_privilege(n.oid, 'usage') limit 1",
            )
            .await?;
        if let Some(schema) = closed.first() {
            let (role, grant) = (role(database).await?, grant(access, schema));
            return Ok(Error::Refused(format!(
                "the role {role} may not use the schema {schema}, in which the table resource_providers is. Let its \
                 owner run `grant usage on schema {schema} to {role}` and `{}`",
                grant.replace("ROLE", &role)
            )));
        }
    }
    Ok(Error::Refused(
        "this is not a database of OpenStack Placement: it has no table resource_providers"
            .to_owned(),
    ))
}

/// Describes the tables and columns that the role may not read, and the grant that helps.
async fn denial(
    database: &mut Database,
    access: Access,
    denied: &[String],
) -> Result<String, Error> {
    let role = role(database).await?;
    let schema = match database.dialect {
        Dialect::MySql => {
            "select if(database() regexp '^[A-Za-z0-9_]+$', database(), \
             concat('`', replace(database(), '`', '``'), '`'))"
        }
        Dialect::Postgres => "select coalesce(quote_ident(current_schema()), 'public')",
        Dialect::Sqlite => "select 'main'",
    };
    let schema = one(database, schema).await?;
    let mut message = format!("the role {role} may not read {}", denied.join(", "));
    if database.dialect == Dialect::MySql {
        message.push_str(" (or they do not exist: the server does not say)");
    }
    let grant = match database.dialect {
        Dialect::MySql => format!("grant {} on {schema}.* to ROLE", rights(access)),
        Dialect::Postgres | Dialect::Sqlite => grant(access, &schema),
    };
    // Writing to a String cannot fail.
    let _ = write!(message, ". Let an administrator run `{}`", grant.replace("ROLE", &role));
    Ok(message)
}

/// Privileges that a role needs on each table.
fn rights(access: Access) -> &'static str {
    match access {
        Access::Read => "select",
        Access::Write => "select, insert, delete",
    }
}

/// The grant on a schema's tables in PostgreSQL, with `ROLE` for the name of the role.
fn grant(access: Access, schema: &str) -> String {
    let tables = format!("grant {} on all tables in schema {schema} to ROLE", rights(access));
    match access {
        Access::Read => tables,
        Access::Write => {
            format!("{tables}; grant usage, update on all sequences in schema {schema} to ROLE")
        }
    }
}

/// The role of the connection, in the spelling of a grant.
async fn role(database: &mut Database) -> Result<String, Error> {
    let role = match database.dialect {
        // From `user@host`; the host cannot contain `@`.
        Dialect::MySql => {
            "select concat('''', substring(current_user(), 1, length(current_user()) - 1 \
             - length(substring_index(current_user(), '@', -1))), '''@''', \
             substring_index(current_user(), '@', -1), '''')"
        }
        Dialect::Postgres => "select quote_ident(current_user)",
        Dialect::Sqlite => "select 'of this process'",
    };
    one(database, role).await
}

/// Runs a query that returns one text.
async fn one(database: &mut Database, query: &'static str) -> Result<String, Error> {
    let row = sqlx::query(query).fetch_one(&mut database.conn).await.map_err(Error::Reference)?;
    row.try_get(0).map_err(Error::Reference)
}

async fn execute(database: &mut Database, statement: &'static str) -> Result<(), Error> {
    sqlx::raw_sql(statement).execute(&mut database.conn).await.map_err(Error::Reference)?;
    Ok(())
}
