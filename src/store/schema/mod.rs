//! The schema: applies migrations, and explains why a database cannot be used.

mod expected;
pub mod grants;
pub mod privileges;
mod replacing;
pub(super) mod status;

use std::time::Instant;

use sqlx::migrate::MigrateError;
use sqlx::{Connection, PgConnection};

use self::expected::MIGRATOR;
pub use self::replacing::{check_script, drop_script};
pub use self::status::{Status, status};
use super::error::{self, Error, Result};
use super::standard;
use crate::observe::spans::milliseconds;

/// Returns whether these are all migrations: the database has nothing of Berth's.
pub fn is_all(versions: &[i64]) -> bool {
    MIGRATOR.iter().map(|migration| migration.version).eq(versions.iter().copied())
}

/// Applies missing migrations, each in a transaction, and adds the standard names of this version's lists.
/// Concurrent calls take turns.
///
/// # Errors
/// The database is unavailable, or must not be migrated; then nothing is changed.
pub async fn migrate(conn: &mut PgConnection) -> Result<()> {
    let status = status(conn).await?;
    if !matches!(status, Status::Behind(_))
        && let Some(why) = status.hindrance()
    {
        return Err(Error::bug(why));
    }
    if let Status::Behind(versions) = status {
        // Before each migration, sqlx creates its table, and PostgreSQL reports that it exists.
        sqlx::query("set client_min_messages = warning").execute(&mut *conn).await?;
        for migration in MIGRATOR.iter().filter(|it| versions.contains(&it.version)) {
            let (version, began) = (migration.version, Instant::now());
            MIGRATOR.run_to(version, &mut *conn).await.map_err(failed)?;
            let took_ms = milliseconds(began.elapsed());
            tracing::info!(version, took_ms, "applied: {}", migration.description);
        }
    }
    sqlx::query("reset client_min_messages").execute(&mut *conn).await?;
    let mut transaction = conn.begin().await?;
    standard::sync(&mut transaction).await?;
    transaction.commit().await?;
    Ok(())
}

/// Returns the error of a failed migration. sqlx's own text would end with a line of PostgreSQL's source.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds describe themselves")]
fn failed(why: MigrateError) -> Error {
    match why {
        MigrateError::ExecuteMigration(why, version) => {
            Error::bug(format!("migration {version}: {}", error::described(&why)))
        }
        MigrateError::Execute(why) => why.into(),
        other => Error::bug(other.to_string()),
    }
}
