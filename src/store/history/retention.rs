//! Removes old entries of the history, in small pieces with pauses between, and measures the history.
//!
//! Entries are removed in the order of their ids, which is that of their times except for transactions that
//! overlap. A replica remembers its progress, so that it does not read the index entries of removed rows again
//! while vacuum is delayed. One replica removes at a time.

use metrics::{counter, gauge};
use sqlx::PgConnection;
use tokio::time::sleep;

use crate::store::error::Result;
use crate::store::options::Pruning;
use crate::store::sessions::bounded;

/// Maximum number of rows of the history. Further ones are removed before they are old.
const ROWS_MAX: i64 = 5_000_000;

/// The removal of old entries by one replica.
#[derive(Debug, Default)]
pub(in crate::store) struct Retention {
    /// The highest id that this replica has removed.
    reached: i64,
}

impl Retention {
    /// Removes entries older than this number of days, and those of more than [`ROWS_MAX`] rows.
    ///
    /// # Errors
    /// The database is unavailable.
    pub(in crate::store) async fn remove_old(
        &mut self,
        conn: &mut PgConnection,
        days: u16,
        pruning: Pruning,
    ) -> Result<()> {
        let due = bounded(due(conn, self.reached, days)).await?;
        let Some(before) = due else { return Ok(()) };
        // Before the removal, so that a reader that misses entries finds the shorter period.
        bounded(shorten(conn, before)).await?;
        let limit = i64::from(pruning.piece);
        loop {
            let removed = bounded(remove_piece(conn, self.reached, before, limit)).await?;
            counter!("berth_history_rows_removed_total").increment(removed.count.unsigned_abs());
            self.reached = self.reached.max(removed.last);
            if removed.count < limit {
                return Ok(());
            }
            sleep(pruning.pause).await;
        }
    }
}

/// Returns the time, in seconds since 1970, before which entries are removed; `None` if there are no such entries.
async fn due(conn: &mut PgConnection, reached: i64, days: u16) -> Result<Option<f64>> {
    let due = sqlx::query_scalar!(
        r#"with bound (time) as (
             select greatest(now() - make_interval(days => $2), (
                 select at from history where id <= (select max(id) from history) - $3
                 order by id desc limit 1))
         )
         select extract(epoch from bound.time)::double precision as "due!"
         from (select at from history where id > $1 order by id limit 1) as oldest, bound
         where oldest.at < bound.time"#,
        reached,
        i32::from(days),
        ROWS_MAX
    );
    Ok(due.fetch_optional(conn).await?)
}

/// Stores that entries before a time are removed.
async fn shorten(conn: &mut PgConnection, before: f64) -> Result<()> {
    sqlx::query!(
        "with gone as (delete from history_periods where ended < to_timestamp($1))
         update history_periods set began = to_timestamp($1)
         where began < to_timestamp($1) and (ended is null or ended >= to_timestamp($1))",
        before
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The entries removed at once.
struct Removed {
    count: i64,
    /// The highest id.
    last: i64,
}

/// Removes the next entries; none if another replica is removing entries.
async fn remove_piece(
    conn: &mut PgConnection,
    reached: i64,
    before: f64,
    limit: i64,
) -> Result<Removed> {
    let removed = sqlx::query_as!(
        Removed,
        r#"with turn as materialized (
             select where pg_try_advisory_xact_lock(hashtext('berth.history'))
         ), piece as materialized (
             select id, at from history where id > $1 and exists (select from turn)
             order by id limit $3
         ), gone as (
             delete from history where id in (select id from piece where at < to_timestamp($2))
             returning id
         )
         select count(*) as "count!", coalesce(max(id), 0) as "last!" from gone"#,
        reached,
        before,
        limit
    );
    Ok(removed.fetch_one(conn).await?)
}

/// Records the size of the history as metrics.
///
/// # Errors
/// The database is unavailable.
#[expect(clippy::cast_precision_loss, reason = "there are less than 2 to the 52nd")]
pub(in crate::store) async fn measure(conn: &mut PgConnection) -> Result<()> {
    // Ids are used up in order, so their range is about the number of rows, which counting would have to read.
    let size = sqlx::query!(
        r#"select coalesce((select max(id) from history) - (select min(id) from history) + 1, 0)
                      as "rows!",
                  pg_total_relation_size('history') as "bytes!",
                  (select extract(epoch from min(began))::double precision from history_periods)
                      as began"#
    );
    let size = size.fetch_one(conn).await?;
    gauge!("berth_history_rows").set(size.rows as f64);
    gauge!("berth_history_bytes").set(size.bytes as f64);
    if let Some(began) = size.began {
        gauge!("berth_history_begin_timestamp_seconds").set(began);
    }
    Ok(())
}
