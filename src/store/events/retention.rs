//! Removes old events, in small pieces with pauses between.
//!
//! First their batches are removed, which hides the events from readers; then the rows.

use std::time::Duration;

use sqlx::PgConnection;
use tokio::time::sleep;

use crate::store::error::Result;
use crate::store::options::Pruning;
use crate::store::sessions::bounded;

/// Removes events older than this number of hours.
///
/// # Errors
/// The database is unavailable.
pub(in crate::store) async fn remove_old(
    conn: &mut PgConnection,
    hours: u16,
    pruning: Pruning,
) -> Result<()> {
    bounded(forget(conn, hours)).await?;
    let limit = i64::from(pruning.piece);
    while bounded(remove_piece(conn, limit)).await? == u64::from(pruning.piece) {
        sleep(pruning.pause.max(Duration::from_millis(1))).await;
    }
    Ok(())
}

/// Removes old batches, but keeps the last one with its snapshot: events begin after it.
async fn forget(conn: &mut PgConnection, hours: u16) -> Result<()> {
    sqlx::query!(
        "with turn as materialized (
             select from event_log for update
         ), old as materialized (
             select max(number) as number from event_batches
             where exists (select from turn) and made_at < now() - make_interval(hours => $1)
         ), gone as (
             delete from event_batches where number < (select number from old)
         )
         update event_batches set count = 0
         where number = (select number from old) and count > 0",
        i32::from(hours)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes some rows that are visible in the snapshot of the first batch, which has no events. Returns their number.
async fn remove_piece(conn: &mut PgConnection, limit: i64) -> Result<u64> {
    let removed = sqlx::query!(
        "with first as materialized (
             select snapshot from event_batches order by number limit 1
         ), piece as materialized (
             select ctid as place from events
             where xid < (select pg_snapshot_xmax(snapshot) from first)
               and pg_visible_in_snapshot(xid, (select snapshot from first))
             order by xid limit $1 for update skip locked
         )
         delete from events where ctid = any(array(select place from piece))",
        limit
    );
    Ok(removed.execute(conn).await?.rows_affected())
}
