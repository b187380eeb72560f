//! Numbers events, batch by batch; see the [module above](super).
//!
//! The log restarts where it has a gap: a transaction with a row in the change log and none in the log of events (of
//! a replica without `--events`, or of the previous version), a change log that was pruned beyond the last batch,
//! or a database that was restored. Clients with an earlier number get an error.

use sqlx::{Connection, PgConnection, Postgres, Transaction};

use crate::store::error::{Error, Result};

/// The state before numbers are given.
#[derive(Debug)]
pub(super) struct LogState {
    /// The number of the last batch, if there is one.
    last: Option<i64>,
    /// Number of new events.
    count: i64,
    /// The snapshot in which they are visible.
    snapshot: String,
    /// Whether this database wrote the log.
    is_ours: bool,
    /// Whether it has a gap.
    has_gap: bool,
    /// The time in microseconds since 1970.
    now: i64,
}

/// The decision about what to store.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Nothing: this is the last number.
    Same(i64),
    /// A batch with `count` events.
    Batch { number: i64, count: i64 },
    /// Restart the log; the rows of another database are deleted.
    Begin { number: i64, is_foreign: bool },
}

fn decide(look: &LogState) -> Decision {
    let first = look.now.max(look.last.map_or(0, |last| last.saturating_add(1)));
    match look.last {
        Some(last) if look.is_ours && !look.has_gap => match look.count {
            0 => Decision::Same(last),
            count => Decision::Batch { number: first.saturating_add(count - 1), count },
        },
        _ => Decision::Begin { number: first, is_foreign: !look.is_ours },
    }
}

/// Numbers new events, if there are any, and returns the last number.
///
/// # Errors
/// The database is unavailable.
pub(in crate::store) async fn keep_up(conn: &mut PgConnection) -> Result<i64> {
    // Nothing is written or locked while nothing changes.
    if let Decision::Same(last) = decide(&look(conn, None).await?) {
        return Ok(last);
    }
    let mut tx = lock(conn).await?;
    let number = number(&mut tx, None).await?;
    tx.commit().await?;
    Ok(number)
}

/// Numbers new events, and extends the last batch to the present even if there are none. Pruning of the change log
/// calls this first: it must not remove rows that are later than the last batch.
///
/// # Errors
/// The database is unavailable.
pub(in crate::store) async fn reach_now(conn: &mut PgConnection) -> Result<()> {
    // While nothing changes there is nothing to prune.
    let may_prune = sqlx::query_scalar!(r#"select exists (select from change_log) as "any!""#);
    if !may_prune.fetch_one(&mut *conn).await? {
        return Ok(());
    }
    let mut tx = lock(conn).await?;
    let look = look(&mut tx, None).await?;
    match decide(&look) {
        // No event is between the two snapshots, so the batch has the same events as before.
        Decision::Same(last) => {
            sqlx::query!(
                "update event_batches set snapshot = $2::text::pg_snapshot where number = $1",
                last,
                look.snapshot
            )
            .execute(&mut *tx)
            .await?;
        }
        decision @ (Decision::Batch { .. } | Decision::Begin { .. }) => {
            store(&mut tx, decision, &look).await?;
        }
    }
    tx.commit().await?;
    Ok(())
}

/// Begins a transaction that may number events. Others wait until it ends.
pub(super) async fn lock(conn: &mut PgConnection) -> Result<Transaction<'_, Postgres>> {
    let mut tx = conn.begin().await?;
    // A published number must not get lost.
    sqlx::raw_sql("set local synchronous_commit = on").execute(&mut *tx).await?;
    sqlx::query!("select from event_log for update").execute(&mut *tx).await?;
    Ok(tx)
}

/// Numbers all events that are visible in a snapshot, or now, and returns the last number. The snapshot must have
/// been taken since the [`lock`].
pub(super) async fn number(conn: &mut PgConnection, snapshot: Option<&str>) -> Result<i64> {
    let look = look(conn, snapshot).await?;
    store(conn, decide(&look), &look).await
}

/// Stores the decision, and returns the last number.
async fn store(conn: &mut PgConnection, decision: Decision, look: &LogState) -> Result<i64> {
    let (number, count) = match decision {
        Decision::Same(last) => return Ok(last),
        Decision::Batch { number, count } => (number, count),
        Decision::Begin { number, is_foreign } => {
            tracing::info!(number, "the log of events begins");
            metrics::counter!("berth_event_log_starts_total").increment(1);
            if is_foreign {
                sqlx::query!("delete from events").execute(&mut *conn).await?;
                sqlx::query!("delete from event_batches").execute(&mut *conn).await?;
            }
            sqlx::query!("update event_log set begun = $1, xid = pg_current_xact_id()", number)
                .execute(&mut *conn)
                .await?;
            (number, 0)
        }
    };
    sqlx::query!(
        "insert into event_batches (number, count, snapshot)
         values ($1, $2, $3::text::pg_snapshot)",
        number,
        count,
        look.snapshot
    )
    .execute(conn)
    .await?;
    Ok(number)
}

/// Reads the change log as a refresh does (`world_delta`), and compares the two logs by transaction.
async fn look(conn: &mut PgConnection, snapshot: Option<&str>) -> Result<LogState> {
    let look = sqlx::query_as!(
        LogState,
        r#"with last as materialized (
               select number, snapshot from event_batches order by number desc limit 1
           ), now as materialized (
               select coalesce($1::text::pg_snapshot, pg_current_snapshot()) as snapshot
           ), unseen as materialized (
               select xid, count from events
               where xid = any(array(select pg_snapshot_xip(snapshot) from last))
                 and pg_visible_in_snapshot(xid, (select snapshot from now))
               union all
               select xid, count from events
               where xid >= (select pg_snapshot_xmax(snapshot) from last)
                 and xid < (select pg_snapshot_xmax(snapshot) from now)
                 and pg_visible_in_snapshot(xid, (select snapshot from now))
           ), logged as materialized (
               select xid from change_log
               where xid = any(array(select pg_snapshot_xip(snapshot) from last))
                 and pg_visible_in_snapshot(xid, (select snapshot from now))
               union all
               select xid from change_log
               where xid >= (select pg_snapshot_xmax(snapshot) from last)
                 and xid < (select pg_snapshot_xmax(snapshot) from now)
                 and pg_visible_in_snapshot(xid, (select snapshot from now))
           )
           select last.number as "last?", now.snapshot::text as "snapshot!",
                  (select coalesce(sum(count), 0)::bigint from unseen) as "count!",
                  mod(log.xid::text::numeric, 4294967296)::text = log.xmin::text as "is_ours!",
                  coalesce(
                      exists (select xid from logged except select xid from unseen)
                      or pg_snapshot_xmax(h.cut) > pg_snapshot_xmax(last.snapshot)
                      or exists (select from pg_snapshot_xip(last.snapshot) as open
                                 where pg_visible_in_snapshot(open, h.cut))
                      or h.xid > pg_snapshot_xmax(h.cut)
                         and h.xid > pg_snapshot_xmin(last.snapshot)
                      or pg_snapshot_xmax(now.snapshot) < pg_snapshot_xmax(last.snapshot),
                      true) as "has_gap!",
                  (extract(epoch from clock_timestamp()) * 1000000)::bigint as "now!"
           from event_log log cross join change_log_horizon h cross join now
           left join last on true"#,
        snapshot
    );
    let missing = || Error::inconsistent("event_log", "one", "the row is missing");
    look.fetch_optional(conn).await?.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::{Decision, LogState, decide};

    fn look(last: Option<i64>, count: i64) -> LogState {
        let snapshot = String::new();
        LogState { last, count, snapshot, is_ours: true, has_gap: false, now: 1000 }
    }

    #[test]
    fn numbers_follow_the_clock_and_never_go_back() {
        assert_eq!(decide(&look(Some(10), 0)), Decision::Same(10));
        assert_eq!(decide(&look(Some(10), 3)), Decision::Batch { number: 1002, count: 3 });
        assert_eq!(decide(&look(Some(5000), 3)), Decision::Batch { number: 5003, count: 3 });
    }

    #[test]
    fn an_incomplete_log_restarts() {
        assert_eq!(decide(&look(None, 0)), Decision::Begin { number: 1000, is_foreign: false });
        let gap = LogState { has_gap: true, ..look(Some(5000), 7) };
        assert_eq!(decide(&gap), Decision::Begin { number: 5001, is_foreign: false });
        let foreign = LogState { is_ours: false, ..look(Some(10), 0) };
        assert_eq!(decide(&foreign), Decision::Begin { number: 1000, is_foreign: true });
    }
}
