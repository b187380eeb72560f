//! Changes: each is one short transaction, which is retried after a conflict with another one, and runs to
//! its end in its own task even if the caller goes away.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use sqlx::{Acquire, PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::error::{Error, Result};
use super::events::event::NotedChanges;
use super::tx::{Observers, Tx};
use super::{events, history, log_entry};
use crate::observe::spans::Phase;

/// Maximum number of attempts at a transaction before the request fails with 503.
pub(super) const ATTEMPTS_MAX: u32 = 10;

/// Maximum pause between two attempts.
const PAUSE_MS_MAX: u64 = 50;

/// A change of the database. It is written entirely or not at all, and may be tried more than once.
pub trait Change: Send + Sync + 'static {
    /// The result of the change.
    type Outcome: Send + 'static;
    /// Whether it is tried again when another transaction keeps a row locked for long.
    const PATIENT: bool = true;
    /// The row that it locks first. Changes of the same row take turns before they take a connection.
    fn row(&self) -> Option<Uuid> {
        None
    }
    /// Makes the change within a transaction, and marks every provider whose visible state it changes.
    fn apply(&self, tx: &mut Tx<'_>) -> impl Future<Output = Result<Self::Outcome>> + Send;
}

/// Runs one transaction on a connection: begin, apply, log what changed, add to the history, commit, record the
/// effects.
///
/// After an error of the commit itself it is unknown whether the change was made, so that error is never
/// [`Error::Again`].
pub(super) async fn transact<C: Change>(
    conn: &mut PgConnection,
    change: &C,
    report_only: bool,
    Observers { recorder, has_history, has_events, spans }: Observers,
) -> Result<C::Outcome> {
    let mut transaction = conn.begin().await?;
    let mut tx = Tx {
        conn: &mut transaction,
        report_only,
        recorder: recorder.clone(),
        has_history,
        effects: Vec::new(),
        noted: has_events.then(NotedChanges::default),
        spans,
        touched: BTreeSet::new(),
        logged: Vec::new(),
    };
    let outcome = match change.apply(&mut tx).await {
        Ok(outcome) => outcome,
        Err(error) => {
            // A failed rollback means a dead connection, which ends the transaction as well.
            drop(transaction.rollback().await);
            return Err(error);
        }
    };
    let (effects, noted, spans) = (tx.effects, tx.noted, tx.spans);
    let touched: Vec<i64> = tx.touched.into_iter().collect();
    let entries = log_entry::lists(&tx.logged)?;
    let events = match noted {
        Some(noted) => events::entries(&mut transaction, &recorder, noted).await?,
        None => None,
    };
    let history = if has_history { history::rows(&effects)? } else { Vec::new() };
    log(&mut transaction, &touched, &entries, events, &history).await?;
    let committing = spans.begin(Phase::Commit);
    transaction.commit().await.map_err(|error| Error::from(error).settled())?;
    drop(committing);
    for (recorder, effect) in effects {
        recorder.record(effect);
    }
    Ok(outcome)
}

/// Writes the log of a transaction in one statement: the changed providers, the entries of claims, the events, and the
/// entries of the history.
async fn log(
    conn: &mut PgConnection,
    touched: &[i64],
    entries: &[String],
    events: Option<events::Entries>,
    history: &[String],
) -> Result<()> {
    if events.is_none() && history.is_empty() {
        if !(touched.is_empty() && entries.is_empty()) {
            let logged = sqlx::query!(
                "insert into change_log (providers, entries)
                 select case nth when 1 then $1::bigint[] else '{}' end, entries
                 from unnest(coalesce(nullif($2::text[], '{}'), '{null}')) with ordinality
                     as listed (entries, nth)",
                touched,
                entries
            );
            logged.execute(conn).await?;
        }
        return Ok(());
    }
    let (count, events) = events.map(|events| (events.count, events.text)).unzip();
    sqlx::query!(
        "with recorded as (
             insert into history (entries) select unnest($2::text[])
         ), noted as (
             insert into events (count, entries) select $3::integer, $4::text where $4 is not null
         )
         insert into change_log (providers, entries)
         select case nth when 1 then $1::bigint[] else '{}' end, entries
         from unnest(coalesce(nullif($5::text[], '{}'), '{null}')) with ordinality as listed (entries, nth)
         where cardinality($1::bigint[]) > 0 or entries is not null",
        touched,
        history,
        count,
        events,
        entries
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Begins a transaction that probes for locked rows. It must write nothing, and be rolled back: a commit would
/// wait until the log is on disk, and keep the locks meanwhile.
pub(super) async fn look(conn: &mut PgConnection) -> Result<Transaction<'_, Postgres>> {
    Ok(conn.begin().await?)
}

/// Begins a transaction that reads in one snapshot. The caller rolls it back.
pub(super) async fn look_in_snapshot(conn: &mut PgConnection) -> Result<Transaction<'_, Postgres>> {
    let mut transaction = conn.begin().await?;
    sqlx::raw_sql("set transaction isolation level repeatable read, read only")
        .execute(&mut *transaction)
        .await?;
    Ok(transaction)
}

/// Pauses for a short random time before attempt number `attempt` (the first is 1).
pub(super) async fn pause(attempt: u32) {
    let spread = Uuid::new_v4().as_u128() % u128::from(PAUSE_MS_MAX);
    let pause = u64::try_from(spread).unwrap_or(PAUSE_MS_MAX).min(u64::from(attempt) * 10);
    tokio::time::sleep(Duration::from_millis(pause)).await;
}
