//! The epoch: shows whether transaction ids are still those of the same history.
//!
//! Its table is unlogged, so PostgreSQL empties it whenever it recovers: after a crash, on promotion,
//! and when a backup is restored that was taken while the server ran. After these, transaction ids may be
//! used twice. The view `database_identity` detects other restores.

use sqlx::{Connection, PgConnection};

use super::error::Result;

/// Makes sure that there is an epoch of this cluster: it is missing after recovery, and foreign after a
/// restore into another cluster. With a new epoch the horizon of the change log is reset, because its
/// transaction ids may lie ahead of this cluster's. So may those of log rows; refreshes do not read these, and
/// pruning removes them.
///
/// Writes nothing if all is well.
pub(super) async fn settle(conn: &mut PgConnection) -> Result<()> {
    let is_settled = sqlx::query_scalar!(
        r#"select exists (select from epoch, pg_control_system() as control
                          where epoch.system_identifier = control.system_identifier) as "settled!""#
    )
    .fetch_one(&mut *conn)
    .await?;
    if is_settled {
        return Ok(());
    }
    let mut tx = conn.begin().await?;
    // Reads wait for this, so it must not wait for a synchronous standby. This is safe: a crash or a fail-over
    // that loses this commit empties the epoch as well, and it is settled again.
    sqlx::raw_sql("set local synchronous_commit = off").execute(&mut *tx).await?;
    let new = sqlx::query_scalar!(
        "insert into epoch (id, system_identifier)
         select gen_random_uuid(), system_identifier from pg_control_system()
         on conflict (one) do update
             set id = excluded.id, system_identifier = excluded.system_identifier
             where epoch.system_identifier <> excluded.system_identifier
         returning id"
    )
    .fetch_optional(&mut *tx)
    .await?;
    if new.is_some() {
        // In the order in which pruning locks them.
        sqlx::query!("update change_log_pruning set removed = '1:1:', reached = '0'")
            .execute(&mut *tx)
            .await?;
        sqlx::query!("update change_log_horizon set xid = '0', cut = '1:1:'")
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(())
}
