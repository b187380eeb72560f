//! The state of a database's schema.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use sqlx::migrate::Migration;

use super::expected::{EXPECTED, MIGRATOR, OBJECTS, OURS};
use super::privileges;
use crate::store::error::Result;

/// Maximum number of objects that are named.
const NAMED_MAX: usize = 10;
const REFERENCE: &str = "resource_providers";
/// The privilege that a role lacks if it cannot read the applied migrations.
const MIGRATIONS_UNREADABLE: &str = "select on _sqlx_migrations";
/// The table with the programs that a schema serves.
const COMPATIBILITY: &str = "table schema_compatibility";
/// The table in which programs built on `SQLAlchemy` record their migrations.
const ALEMBIC: &str = "alembic_version";

/// The state of a database's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The schema is the one that this program knows.
    Current,
    /// A newer program has applied these versions, and the schema serves this program as well.
    Newer(Vec<i64>),
    /// These versions have not been applied; all of them: the database has nothing of Berth's.
    Behind(Vec<i64>),
    /// The database has versions that this program does not know: a newer one has migrated it.
    Ahead(Vec<i64>),
    /// By its versions it is current, but these objects are missing.
    Incomplete(Vec<String>),
    /// The text of these versions differs from this program's.
    Altered(Vec<i64>),
    /// The database is openstack-placement's.
    Reference,
    /// The database is another program's, for this reason.
    Foreign(String),
    /// The encoding is this one, and not UTF-8.
    Encoding(String),
    /// The role lacks privileges.
    Forbidden {
        /// The role of the connection.
        role: String,
        /// The missing privileges, such as `insert on allocations`.
        missing: Vec<String>,
    },
}

impl Status {
    /// Returns the reason why `berth serve` cannot use the database, with advice; `None` if it can.
    pub fn hindrance(&self) -> Option<String> {
        Some(match self {
            Self::Current | Self::Newer(_) => return None,
            Self::Behind(versions) => format!(
                "the schema is behind this program; missing: {versions:?}; run `berth db migrate` \
                 with the same --database-url"
            ),
            Self::Ahead(versions) => format!(
                "the schema is ahead of this program; unknown: {versions:?}; run the version of \
                 berth that migrated it, or a newer one"
            ),
            Self::Incomplete(missing) => format!(
                "the schema is incomplete: there is no {}; \
                 restore the whole database from a backup",
                named(missing)
            ),
            Self::Altered(versions) => format!(
                "the migrations {versions:?} were applied from other text than this program has: \
                 by a build of berth that was never released; use that build, or restore a backup"
            ),
            Self::Reference => format!(
                "this is the database of openstack-placement (it has the table {REFERENCE}). Berth \
                 has changed nothing in it, and cannot use its tables; create a database for Berth \
                 alone and name it in --database-url, and copy the data with `berth import \
                 --from-database`"
            ),
            Self::Foreign(why) => format!(
                "this is a database of another program: {why}; create a database for Berth alone \
                 and name it in --database-url"
            ),
            Self::Encoding(encoding) => format!(
                "the database encodes text in {encoding}, and Berth needs UTF-8; create another one \
                 with `createdb -E UTF8 -T template0 NAME` and name it in --database-url"
            ),
            Self::Forbidden { role, missing } => format!(
                "the role {role} lacks privileges: {}; run the output of `berth db grants --role \
                 {role}` as the owner of Berth's tables",
                named(missing)
            ),
        })
    }
}

/// An applied migration.
#[derive(sqlx::FromRow)]
struct Applied {
    version: i64,
    description: String,
    checksum: Vec<u8>,
}

/// Returns the state of the schema of a database.
///
/// # Errors
/// The database is unavailable.
pub async fn status(conn: &mut PgConnection) -> Result<Status> {
    let encoding: String = sqlx::query_scalar("show server_encoding").fetch_one(&mut *conn).await?;
    if encoding != "UTF8" {
        return Ok(Status::Encoding(encoding));
    }
    let missing = privileges::missing(conn).await?;
    if missing.iter().any(|it| it == MIGRATIONS_UNREADABLE) {
        return forbidden(conn, missing).await;
    }
    let mut applied = applied(conn).await?;
    if applied.is_empty() {
        if let Some(schema) = privileges::closed_schema(conn).await? {
            return forbidden(conn, vec![format!("usage on the schema {schema}")]).await;
        }
        let found = objects(conn).await?;
        // Another program may have begun to migrate it meanwhile.
        applied = self::applied(conn).await?;
        if applied.is_empty() {
            return Ok(unmigrated(&found));
        }
    }
    // Read after the versions: during a migration, there are at least the objects of these versions.
    let found = objects(conn).await?;
    let mut status = migrated(&MIGRATOR.migrations, &applied, &found);
    if let Status::Ahead(unknown) = &status
        && serves(conn, &found).await?
    {
        status = complete(Status::Newer(unknown.clone()), &found);
    }
    if matches!(status, Status::Current | Status::Newer(_)) && !missing.is_empty() {
        return forbidden(conn, missing).await;
    }
    Ok(status)
}

/// Returns whether a newer schema declares that it serves this program.
pub(in crate::store) async fn serves(
    conn: &mut PgConnection,
    found: &BTreeSet<String>,
) -> Result<bool> {
    if !found.contains(COMPATIBILITY) {
        return Ok(false);
    }
    let oldest: Option<i64> = sqlx::query_scalar("select oldest_program from schema_compatibility")
        .fetch_optional(conn)
        .await?;
    let newest_known = MIGRATOR.iter().map(|migration| migration.version).max();
    Ok(oldest.is_some() && oldest <= newest_known)
}

pub(in crate::store) async fn forbidden(
    conn: &mut PgConnection,
    missing: Vec<String>,
) -> Result<Status> {
    Ok(Status::Forbidden { role: privileges::role(conn).await?, missing })
}

/// Reads the applied migrations. A failed attempt may have left the table without a row.
async fn applied(conn: &mut PgConnection) -> Result<Vec<Applied>> {
    let is_there: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(&mut *conn)
        .await?;
    if !is_there {
        return Ok(Vec::new());
    }
    let applied = sqlx::query_as(
        "select version, description, checksum from _sqlx_migrations where success
         order by version",
    );
    Ok(applied.fetch_all(conn).await?)
}

async fn objects(conn: &mut PgConnection) -> Result<BTreeSet<String>> {
    Ok(sqlx::query_scalar(OBJECTS).fetch_all(conn).await?.into_iter().collect())
}

/// Returns the status of a database without recorded migrations.
fn unmigrated(found: &BTreeSet<String>) -> Status {
    let has = |table: &str| found.contains(&format!("table {table}"));
    if has(REFERENCE) {
        return Status::Reference;
    }
    if has(OURS) {
        return Status::Incomplete(vec!["table _sqlx_migrations".to_owned()]);
    }
    let in_the_way = |object: &&str| object.starts_with("table ") && found.contains(*object);
    let in_the_way: Vec<String> = EXPECTED.lines().filter(in_the_way).map(str::to_owned).collect();
    if has(ALEMBIC) {
        Status::Foreign(format!("it has the table {ALEMBIC}"))
    } else if !in_the_way.is_empty() {
        Status::Foreign(format!("it has the {} already", named(&in_the_way)))
    } else {
        Status::Behind(MIGRATOR.iter().map(|migration| migration.version).collect())
    }
}

/// Returns the status of a database with these migrations, for a program with the migrations `ours`.
fn migrated(ours: &[Migration], applied: &[Applied], found: &BTreeSet<String>) -> Status {
    let versions: BTreeSet<i64> = applied.iter().map(|it| it.version).collect();
    let known: BTreeSet<i64> = ours.iter().map(|migration| migration.version).collect();
    let mut altered = Vec::new();
    for ours in ours {
        let Some(theirs) = applied.iter().find(|it| it.version == ours.version) else { continue };
        if theirs.description != ours.description {
            return Status::Foreign(format!(
                "its migration {} is called {:?}, and Berth's {:?}",
                ours.version, theirs.description, ours.description
            ));
        }
        if theirs.checksum != *ours.checksum {
            altered.push(ours.version);
        }
    }
    let ahead: Vec<i64> = versions.difference(&known).copied().collect();
    let behind: Vec<i64> = known.difference(&versions).copied().collect();
    if let (Some(theirs), true) = (ahead.first(), versions.is_disjoint(&known)) {
        return Status::Foreign(format!("its first migration is {theirs}"));
    }
    if !altered.is_empty() {
        Status::Altered(altered)
    } else if !ahead.is_empty() {
        Status::Ahead(ahead)
    } else if !behind.is_empty() {
        Status::Behind(behind)
    } else {
        complete(Status::Current, found)
    }
}

/// Returns the status, unless an object is missing that this program needs.
fn complete(status: Status, found: &BTreeSet<String>) -> Status {
    match missing(found) {
        missing if missing.is_empty() => status,
        missing => Status::Incomplete(missing),
    }
}

/// Returns the missing objects of a current schema. Of a missing table, no further objects are named.
fn missing(found: &BTreeSet<String>) -> Vec<String> {
    let is_missing = |object: &&str| !found.contains(*object);
    let of_a_missing_table = |object: &str| {
        let table = object.rsplit_once(" of ").map(|(_, table)| format!("table {table}"));
        table.is_some_and(|table| !found.contains(&table))
    };
    let missing = EXPECTED.lines().filter(is_missing);
    missing.filter(|object| !of_a_missing_table(object)).map(str::to_owned).collect()
}

/// Lists the first of these objects, and the number of others.
fn named(objects: &[String]) -> String {
    let (first, more) = objects.split_at(objects.len().min(NAMED_MAX));
    let named = first.join(", ");
    if more.is_empty() { named } else { format!("{named} and {} more", more.len()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sqlx::migrate::Migration;

    use super::{Applied, MIGRATOR, Status, migrated};

    /// The initial migration and two that follow.
    fn three() -> Vec<Migration> {
        let initial = MIGRATOR.iter().next().unwrap();
        let later = |version| Migration { version, description: "later".into(), ..initial.clone() };
        vec![initial.clone(), later(2), later(3)]
    }

    /// Returns the status of a database with these migrations, for a program with the first `known`.
    fn status(known: usize, applied: &[Migration]) -> Status {
        let applied: Vec<Applied> = applied
            .iter()
            .map(|it| Applied {
                version: it.version,
                description: it.description.to_string(),
                checksum: it.checksum.to_vec(),
            })
            .collect();
        migrated(&three()[..known], &applied, &BTreeSet::new())
    }

    #[test]
    fn a_schema_is_behind_or_ahead_by_the_migrations_that_one_side_lacks() {
        assert_eq!(status(3, &three()[..1]), Status::Behind(vec![2, 3]));
        assert_eq!(status(1, &three()), Status::Ahead(vec![2, 3]));
        // Its versions are current, but it has no tables.
        assert!(matches!(status(2, &three()[..2]), Status::Incomplete(_)));
        let mut other = three();
        other[1].checksum = vec![0].into();
        assert_eq!(status(3, &other), Status::Altered(vec![2]));
    }
}
