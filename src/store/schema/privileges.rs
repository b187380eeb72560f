//! The privileges in the database that a role needs to serve when it does not own the tables: their list, the script
//! that grants them, and the check for missing ones.

use sqlx::PgConnection;

use super::super::error::Result;
use super::expected::OURS;

/// The list, with one line for each object: `table NAME: select, insert`.
const REQUIRED: &str = include_str!("privileges.txt");

/// A privilege on an object of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// `table`, `view` or `sequence`.
    pub kind: &'static str,
    /// The object.
    pub object: &'static str,
    /// `select`, `insert`, `update`, `delete` or `usage`.
    pub privilege: &'static str,
}

/// Returns all privileges that a role needs in order to serve.
pub fn required() -> impl Iterator<Item = Privilege> {
    lines().flat_map(|(kind, object, privileges)| {
        privileges.split(", ").map(move |privilege| Privilege { kind, object, privilege })
    })
}

/// Returns kind, name and privileges of each object.
pub(super) fn lines() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    REQUIRED.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (object, privileges) = line.split_once(": ")?;
        let (kind, name) = object.split_once(' ')?;
        Some((kind, name, privileges))
    })
}

/// Returns the privileges that the connection's own role lacks, such as `insert on allocations`. Empty for the owner
/// of the tables. Missing objects are not named.
///
/// # Errors
/// The database is unavailable.
pub async fn missing(conn: &mut PgConnection) -> Result<Vec<String>> {
    let (objects, privileges): (Vec<&str>, Vec<&str>) =
        required().map(|needed| (needed.object, needed.privilege)).unzip();
    let missing = sqlx::query_scalar(
        "select format('%s on %s', privilege, relname)
         from unnest($1::text[], $2::text[]) with ordinality as needed (object, privilege, nth)
         join pg_class on pg_class.oid = to_regclass(object)
         where not case relkind when 'S' then has_sequence_privilege(pg_class.oid, privilege)
                                else has_table_privilege(pg_class.oid, privilege) end
         order by nth",
    );
    Ok(missing.bind(objects).bind(privileges).fetch_all(conn).await?)
}

/// Returns the schema with Berth's tables if the connection's role may not use it: the role then sees no tables.
///
/// # Errors
/// The database is unavailable.
pub(super) async fn closed_schema(conn: &mut PgConnection) -> Result<Option<String>> {
    let schema = sqlx::query_scalar(
        "select quote_ident(nspname) from pg_class join pg_namespace n on n.oid = relnamespace
         where relname = $1 and relkind = 'r' and not has_schema_privilege(n.oid, 'usage')
         limit 1",
    );
    Ok(schema.bind(OURS).fetch_optional(conn).await?)
}

/// Returns the role of the connection.
///
/// # Errors
/// The database is unavailable.
pub(super) async fn role(conn: &mut PgConnection) -> Result<String> {
    Ok(sqlx::query_scalar("select current_user::text").fetch_one(conn).await?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::expected::EXPECTED;
    use super::{lines, required};

    #[test]
    fn every_table_and_view_is_listed_once() {
        let of_schema = |line: &&str| line.starts_with("table ") || line.starts_with("view ");
        let mut expected: BTreeSet<&str> = EXPECTED.lines().filter(of_schema).collect();
        expected.insert("table _sqlx_migrations");
        let listed: Vec<String> = lines()
            .filter(|(kind, ..)| *kind != "sequence")
            .map(|(kind, object, _)| format!("{kind} {object}"))
            .collect();
        assert_eq!(listed.len(), expected.len());
        assert_eq!(listed.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    }

    #[test]
    fn each_line_is_read() {
        assert!(required().count() > 80);
        for needed in required() {
            let known = ["select", "insert", "update", "delete", "usage"];
            assert!(known.contains(&needed.privilege), "{needed:?}");
        }
    }
}
