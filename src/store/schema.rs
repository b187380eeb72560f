//! The schema's version: bringing it up to date, and refusing one this program does not know.

use std::collections::BTreeSet;

use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};

use super::error::{Error, Result};
use super::standard;

static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// How the schema in the database relates to the one this program knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is the same.
    Current,
    /// These versions have not been applied; all of them: the database is empty.
    Behind(Vec<i64>),
    /// The database has versions this program does not know: a newer one has migrated it.
    Ahead(Vec<i64>),
}

/// What there is to say about the schema.
///
/// # Errors
/// The database cannot be asked.
pub async fn status(conn: &mut PgConnection) -> Result<Status> {
    let applied: BTreeSet<i64> = if is_empty(conn).await? {
        BTreeSet::new()
    } else {
        sqlx::query_scalar("select version from _sqlx_migrations where success")
            .fetch_all(&mut *conn)
            .await?
            .into_iter()
            .collect()
    };
    let known: BTreeSet<i64> = MIGRATOR.iter().map(|migration| migration.version).collect();
    let ahead: Vec<i64> = applied.difference(&known).copied().collect();
    let behind: Vec<i64> = known.difference(&applied).copied().collect();
    Ok(if !ahead.is_empty() {
        Status::Ahead(ahead)
    } else if !behind.is_empty() {
        Status::Behind(behind)
    } else {
        Status::Current
    })
}

async fn is_empty(conn: &mut PgConnection) -> Result<bool> {
    let is_empty = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is null");
    Ok(is_empty.fetch_one(conn).await?)
}

/// Applies what is missing, each migration in a transaction, and adds standard names that the
/// lists of this version have. Several at once take turns.
///
/// # Errors
/// The database cannot be asked, or is ahead of this program.
pub async fn migrate(conn: &mut PgConnection) -> Result<()> {
    if let Status::Ahead(versions) = status(conn).await? {
        return Err(Error::bug(format!(
            "the schema has versions this program does not know: {versions:?}"
        )));
    }
    MIGRATOR.run(&mut *conn).await.map_err(|error| Error::bug(error.to_string()))?;
    let mut transaction = conn.begin().await?;
    standard::sync(&mut transaction).await?;
    transaction.commit().await?;
    Ok(())
}
