//! Maintenance: operators have ordered that all replicas refuse writes.

use std::sync::{Arc, Mutex, PoisonError};

use sqlx::PgConnection;

use super::error::{Error, Result};

/// A maintenance, during which all replicas refuse writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// The reason, which clients see.
    pub reason: String,
    /// Its beginning, as RFC 3339.
    pub since: String,
}

/// The maintenance that this replica knows of. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownMaintenance(Arc<Mutex<Option<String>>>);

impl KnownMaintenance {
    /// Refuses a write.
    ///
    /// # Errors
    /// There is a maintenance.
    pub(super) fn check(&self) -> Result<()> {
        let reason = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        reason.map_or(Ok(()), |reason| Err(Error::Maintenance(reason)))
    }

    /// Replaces the reason.
    pub(super) fn set(&self, reason: Option<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, &reason) {
            (None, Some(reason)) => tracing::warn!(reason, "writes are refused for maintenance"),
            (Some(_), None) => tracing::info!("the maintenance has ended: writes are accepted"),
            _ => {}
        }
        *known = reason;
    }
}

/// Returns the maintenance, if there is one.
///
/// # Errors
/// The database is unavailable.
pub async fn current(conn: &mut PgConnection) -> Result<Option<Maintenance>> {
    let maintenance = sqlx::query_as!(
        Maintenance,
        r#"select reason,
                  to_char(since at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as "since!"
           from maintenance"#
    );
    Ok(maintenance.fetch_optional(conn).await?)
}

/// Begins a maintenance with a reason, or gives the present one another reason.
///
/// # Errors
/// The database is unavailable.
pub async fn begin(conn: &mut PgConnection, reason: &str) -> Result<()> {
    sqlx::query!(
        "insert into maintenance (reason) values ($1)
         on conflict (one) do update set reason = excluded.reason",
        reason
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends the maintenance.
///
/// # Errors
/// The database is unavailable.
pub async fn end(conn: &mut PgConnection) -> Result<()> {
    sqlx::query!("delete from maintenance").execute(conn).await?;
    Ok(())
}
