//! Prunes the change log and the history: a task with its own connection, so that no read waits for it.
//!
//! The log is pruned up to a snapshot: once that snapshot is older than the last refresh of every live
//! replica, it is committed as the horizon, and then the log rows that are visible in it are removed, in small
//! pieces with pauses between them. A snapshot says exactly which transactions it has seen, so a transaction
//! that is left open for long, anywhere in the cluster, delays the removal of its own row only.
//!
//! All replicas prune, one at a time. The progress is stored in `change_log_pruning`, so the next replica
//! continues from there, and index entries of removed rows are not read again while vacuum is delayed. A
//! replica that finds the progress changed leaves the round to the other one. No lock is held between two
//! statements, so a replica that freezes or ends delays no other.

use std::sync::Arc;

use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::error::Result;
use super::history::{self, Retention};
use super::options::Pruning;
use super::primary::{Primary, Term};
use super::sessions::{FEED_WAIT_MAX, bounded, waiting};
use super::{condition, events, recording, statement_plans};
use crate::observe::metrics;

/// Settings that make these statements read the index in its order: a sort or a bitmap would read the rest of the
/// log for each piece. No commit waits for the disk: if one is lost, the rows are removed again.
const SETTINGS: [(&str, &str); 3] =
    [("synchronous_commit", "off"), ("enable_bitmapscan", "off"), ("enable_sort", "off")];

/// The pruning task. It ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct Pruner {
    _task: Arc<JoinSet<()>>,
}

impl Pruner {
    /// Starts the task. It connects when it first has something to do.
    pub(super) fn start(primary: Primary, pruning: Pruning) -> Self {
        let retention = Retention::default();
        let work = Work { primary, pruning, conn: None, cut: None, retention };
        Self { _task: Arc::new(JoinSet::from_iter([work.run()])) }
    }
}

/// The progress of the removal, with snapshots and transaction ids in PostgreSQL's notation.
#[derive(Debug)]
struct Progress {
    /// The present snapshot.
    now: String,
    removed: String,
    cut: String,
    reached: String,
    /// Whether a round is in progress.
    under_way: bool,
    /// Whether there are rows that only another cluster can have written.
    foreign: bool,
}

struct Work {
    primary: Primary,
    pruning: Pruning,
    conn: Option<(PgConnection, Arc<Term>)>,
    /// A snapshot of the session, up to which the log is pruned when it is old enough.
    cut: Option<String>,
    retention: Retention,
}

impl Work {
    async fn run(mut self) {
        loop {
            sleep(self.pruning.period).await;
            if let Err(error) = self.prune().await {
                tracing::warn!(%error, "pruning the change log failed");
            }
            if let Err(error) = self.prune_events().await {
                tracing::warn!(%error, "removing old events failed");
            }
            if let Err(error) = self.prune_history().await {
                tracing::warn!(%error, "removing old entries of the history failed");
            }
            if metrics::are_collected()
                && let Err(error) = self.measure().await
            {
                tracing::warn!(%error, "measuring the change log failed");
            }
        }
    }

    async fn prune(&mut self) -> Result<()> {
        let (mut conn, term) = self.connection().await?;
        let cut = self.cut.take();
        if self.primary.options().events_hours.is_some() {
            // The log of events is compared with the rows to be removed.
            term.during(bounded(events::reach_now(&mut conn))).await?;
        }
        let now = term.during(round(&mut conn, self.pruning, cut.as_deref())).await?;
        self.cut = Some(now);
        self.conn = Some((conn, term));
        Ok(())
    }

    async fn prune_events(&mut self) -> Result<()> {
        let Some(hours) = self.primary.options().events_hours else { return Ok(()) };
        let (mut conn, term) = self.connection().await?;
        term.during(events::remove_old(&mut conn, hours, self.pruning)).await?;
        self.conn = Some((conn, term));
        Ok(())
    }

    async fn prune_history(&mut self) -> Result<()> {
        let Some(days) = self.primary.options().history_days else { return Ok(()) };
        let (mut conn, term) = self.connection().await?;
        term.during(self.retention.remove_old(&mut conn, days, self.pruning)).await?;
        self.conn = Some((conn, term));
        Ok(())
    }

    /// Records the sizes of the log and of the history as metrics.
    async fn measure(&mut self) -> Result<()> {
        let has_history = self.primary.options().history_days.is_some();
        let (mut conn, term) = self.connection().await?;
        let measured = async {
            recording::change_log(bounded(condition::change_log(&mut conn)).await?);
            if has_history {
                bounded(history::measure(&mut conn)).await?;
            }
            Ok(())
        };
        term.during(measured).await?;
        self.conn = Some((conn, term));
        Ok(())
    }

    /// Takes the open connection, or makes one. The caller gives it back if all is well.
    async fn connection(&mut self) -> Result<(PgConnection, Arc<Term>)> {
        if let Some(connected) = self.conn.take().filter(|(_, term)| !term.is_over()) {
            return Ok(connected);
        }
        // Snapshots and ids of another session may be of another server.
        self.cut = None;
        self.retention = Retention::default();
        self.primary.connect(settings).await
    }
}

fn settings(options: PgConnectOptions) -> PgConnectOptions {
    waiting(statement_plans::settings(options), FEED_WAIT_MAX).options(SETTINGS)
}

/// Finishes the round in progress, or begins and finishes one up to the snapshot, unless another replica does.
/// Returns the present snapshot.
async fn round(conn: &mut PgConnection, pruning: Pruning, cut: Option<&str>) -> Result<String> {
    let limit = i64::from(pruning.piece);
    let mut progress = bounded(read(conn)).await?;
    while progress.foreign
        && bounded(remove_foreign(conn, limit)).await? == u64::from(pruning.piece)
    {
        sleep(pruning.pause).await;
    }
    if let Some(cut) = cut.filter(|_| !progress.under_way) {
        bounded(begin(conn, cut)).await?;
        progress = bounded(read(conn)).await?;
    }
    if progress.under_way {
        while bounded(remove_late(conn, &progress, limit)).await? == u64::from(pruning.piece) {
            sleep(pruning.pause).await;
        }
    }
    while progress.under_way {
        match bounded(remove_piece(conn, &progress, limit)).await? {
            Some((reached, under_way)) => progress = Progress { reached, under_way, ..progress },
            // Another replica is pruning.
            None => break,
        }
        sleep(pruning.pause).await;
    }
    Ok(progress.now)
}

async fn read(conn: &mut PgConnection) -> Result<Progress> {
    let progress = sqlx::query_as!(
        Progress,
        r#"select pg_current_snapshot()::text as "now!", removed::text as "removed!",
                  cut::text as "cut!", reached::text as "reached!",
                  reached < pg_snapshot_xmax(cut) as "under_way!",
                  exists (select from change_log
                          where xid >= pg_snapshot_xmax(pg_current_snapshot())) as "foreign!"
           from change_log_pruning, change_log_horizon"#
    );
    Ok(progress.fetch_one(conn).await?)
}

/// Removes rows of transactions that this cluster has not begun, which a restore has brought. Returns their
/// number.
async fn remove_foreign(conn: &mut PgConnection, limit: i64) -> Result<u64> {
    let removed = sqlx::query!(
        "with turn as materialized (
             select from change_log_pruning for update skip locked
         ), piece as materialized (
             select ctid as place from change_log
             where exists (select from turn) and xid >= pg_snapshot_xmax(pg_current_snapshot())
             limit $1 for update skip locked
         )
         delete from change_log where ctid = any(array(select place from piece))",
        limit
    );
    Ok(removed.execute(conn).await?.rows_affected())
}

/// Moves the horizon to this snapshot, if the previous round has ended and there is something to remove: rows that are
/// later than it, or rows of transactions that were in progress in its snapshot and have ended since.
/// It is committed separately, so that a reader that misses rows finds the horizon moved.
async fn begin(conn: &mut PgConnection, cut: &str) -> Result<()> {
    sqlx::query!(
        "with turn as materialized (
             select p.reached, h.cut from change_log_pruning p, change_log_horizon h
             where p.reached >= pg_snapshot_xmax(h.cut)
               and pg_snapshot_xmax(h.cut) < pg_snapshot_xmax($1::text::pg_snapshot)
               and (exists (select from change_log l where l.xid >= p.reached
                            and pg_visible_in_snapshot(l.xid, $1::text::pg_snapshot))
                    or exists (select from change_log l
                               where l.xid = any(array(select pg_snapshot_xip(h.cut)))
                               and pg_visible_in_snapshot(l.xid, $1::text::pg_snapshot)))
             for update skip locked
         ), next as (
             update change_log_pruning p
             set removed = turn.cut, reached = greatest(p.reached, pg_snapshot_xmax(turn.cut))
             from turn
         )
         update change_log_horizon h
         set cut = $1::text::pg_snapshot,
             xid = greatest(h.xid, pg_snapshot_xmax($1::text::pg_snapshot))
         from turn",
        cut
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes rows below the progress of transactions that were in progress in the snapshot of the previous round
/// and have ended since. Returns their number.
async fn remove_late(conn: &mut PgConnection, progress: &Progress, limit: i64) -> Result<u64> {
    let removed = sqlx::query!(
        "with turn as materialized (
             select from change_log_pruning p, change_log_horizon h
             where p.reached = $1::text::xid8 and p.removed::text = $2 and h.cut::text = $3
             for update of p skip locked
         ), piece as materialized (
             select ctid as place from change_log
             where exists (select from turn)
               and xid = any(array(select pg_snapshot_xip($2::text::pg_snapshot)))
               and pg_visible_in_snapshot(xid, $3::text::pg_snapshot)
             limit $4 for update skip locked
         )
         delete from change_log where ctid = any(array(select place from piece))",
        progress.reached,
        progress.removed,
        progress.cut,
        limit
    );
    Ok(removed.execute(conn).await?.rows_affected())
}

/// Removes the next rows of the round. Returns the progress and whether there are more rows; `None` if
/// another replica has moved the progress.
async fn remove_piece(
    conn: &mut PgConnection,
    progress: &Progress,
    limit: i64,
) -> Result<Option<(String, bool)>> {
    let moved = sqlx::query!(
        r#"with turn as materialized (
             select from change_log_pruning p, change_log_horizon h
             where p.reached = $1::text::xid8 and p.removed::text = $2 and h.cut::text = $3
             for update of p skip locked
         ), piece as materialized (
             select ctid as place, xid from change_log
             where exists (select from turn) and xid >= $1::text::xid8
               and xid < pg_snapshot_xmax($3::text::pg_snapshot)
               and pg_visible_in_snapshot(xid, $3::text::pg_snapshot)
             order by xid limit $4 for update skip locked
         ), gone as (
             delete from change_log where ctid = any(array(select place from piece))
         )
         update change_log_pruning
         set reached = case when (select count(*) from piece) < $4
                            then pg_snapshot_xmax($3::text::pg_snapshot)
                            else (select (array_agg(xid))[$4] from piece) end
         where exists (select from turn)
         returning reached::text as "reached!",
                   reached < pg_snapshot_xmax($3::text::pg_snapshot) as "under_way!""#,
        progress.reached,
        progress.removed,
        progress.cut,
        limit
    )
    .fetch_optional(conn)
    .await?;
    Ok(moved.map(|moved| (moved.reached, moved.under_way)))
}
