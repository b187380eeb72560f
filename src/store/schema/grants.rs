//! The script that grants the privileges.

use sqlx::PgConnection;

use super::expected::OURS;
use super::privileges::lines;
use super::status::{Status, status};
use crate::store::error::Result;

/// Returns an SQL script that grants a role these privileges, for the database and the schema of this connection. The
/// owner of the tables runs it, again after each migration.
///
/// `Ok(Err(_))`: the role or Berth's tables do not exist.
///
/// # Errors
/// The database is unavailable.
pub async fn script(
    conn: &mut PgConnection,
    role: &str,
) -> Result<std::result::Result<String, String>> {
    let names: Option<(String, String, Option<String>)> = sqlx::query_as(
        "select quote_ident(current_database()), quote_ident(nspname),
                (select quote_ident(rolname) from pg_roles where rolname = $2)
         from pg_class join pg_namespace n on n.oid = relnamespace
         where pg_class.oid = to_regclass($1)",
    )
    .bind(OURS)
    .bind(role)
    .fetch_optional(&mut *conn)
    .await?;
    let Some((database, schema, role_found)) = names else {
        // The tables of another program are no reason to migrate.
        let other = status(conn).await?;
        return Ok(Err(match other.hindrance() {
            Some(why) if !matches!(other, Status::Behind(_)) => why,
            Some(_) | None => {
                "the database has no tables of Berth; run `berth db migrate` first".to_owned()
            }
        }));
    };
    let Some(role) = role_found else {
        return Ok(Err(format!(
            "the database has no role {role:?}; create it first: create role NAME login password \
             '...'"
        )));
    };
    let mut script = format!(
        "-- What the role {role} needs for `berth serve`. Run this as the owner of Berth's tables,\n\
         -- and again after each `berth db migrate`.\n\
         begin;\n\
         grant connect on database {database} to {role};\n\
         grant usage on schema {schema} to {role};\n"
    );
    for (kind, object, privileges) in lines() {
        // In SQL, privileges on views are granted as on tables.
        let kind = if kind == "sequence" { "sequence" } else { "table" };
        let line = format!("grant {privileges} on {kind} {schema}.{object} to {role};\n");
        script.push_str(&line);
    }
    script += "commit;\n";
    Ok(Ok(script))
}
