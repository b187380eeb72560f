//! Changes: each is one short transaction, which is retried after a conflict with another one, and runs to
//! its end in its own task even if the caller goes away.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{Acquire, PgConnection, Postgres, Transaction};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument as _;
use uuid::Uuid;

use super::effects::{Effect, Recorder};
use super::error::{Error, Result};
use super::events::{self, EventLog, NotedChanges};
use super::found_faults::FoundFaults;
use super::history::History;
use super::locks::HELD_MAX;
use super::primary::ACQUIRE_MAX;
use super::{Store, WRITE_MAX, feed, recording};
use crate::model::ProviderId;
use crate::observe::spans::{Phase, Spans, span};

/// Maximum number of attempts at a transaction before the request fails with 503.
pub(super) const ATTEMPTS_MAX: u32 = 10;
/// Timeout for closing a connection.
const CLOSE_MAX: Duration = Duration::from_secs(1);
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

/// A write transaction, and the providers and names that it has changed so far.
#[derive(Debug)]
pub struct Tx<'c> {
    pub(super) conn: &'c mut PgConnection,
    /// Allows claims in units that other groups have exclusively, and reports them.
    pub(super) report_only: bool,
    /// The recorder of effects.
    pub(super) recorder: Recorder,
    /// Takes the faults if the change is refused.
    pub(super) found: FoundFaults,
    /// Settings of the history of changes; `None`: it is off.
    pub(super) history: Option<History>,
    /// Effects to record after the commit, each with its recorder.
    pub(super) effects: Vec<(Recorder, Effect)>,
    /// Changes for the log of events; `None`: it is off.
    pub(super) noted: Option<NotedChanges>,
    /// The spans of the requests behind it.
    pub(super) spans: Spans,
    touched: BTreeSet<i64>,
}

/// The observers of a transaction.
#[derive(Debug)]
pub(super) struct Observers {
    /// The recorder of effects.
    pub(super) recorder: Recorder,
    /// Takes the faults if the change is refused.
    pub(super) found: FoundFaults,
    /// Settings of the history of changes; `None`: it is off.
    pub(super) history: Option<History>,
    /// Settings of the log of events; `None`: it is off.
    pub(super) events: Option<EventLog>,
    /// The spans of the requests behind it.
    pub(super) spans: Spans,
}

impl<'c> Tx<'c> {
    /// Makes a transaction for reads that changes use as well.
    pub(super) fn reading(conn: &'c mut PgConnection, report_only: bool) -> Self {
        Tx {
            conn,
            report_only,
            recorder: Recorder::none(),
            found: FoundFaults::ignoring(),
            history: None,
            effects: Vec::new(),
            noted: None,
            spans: Spans::current(),
            touched: BTreeSet::new(),
        }
    }
}

impl Tx<'_> {
    /// Marks a provider as visibly changed.
    pub(super) fn touch(&mut self, provider: ProviderId) {
        self.touched.insert(provider.0);
        if let Some(noted) = &mut self.noted {
            noted.providers.insert(provider.0);
        }
    }

    /// Marks a provider of which only use and generation change, by consumers that are recorded separately.
    pub(super) fn touch_use(&mut self, provider: ProviderId) {
        self.touched.insert(provider.0);
    }

    /// Marks the names of classes or traits as changed.
    pub(super) fn touch_catalogue(&mut self) {
        self.touched.insert(feed::CATALOGUE);
    }
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
    Observers { recorder, found, history, events, spans }: Observers,
) -> Result<C::Outcome> {
    let mut transaction = conn.begin().await?;
    let mut tx = Tx {
        conn: &mut transaction,
        report_only,
        recorder: recorder.clone(),
        found,
        history,
        effects: Vec::new(),
        noted: events.map(|_| NotedChanges::default()),
        spans,
        touched: BTreeSet::new(),
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
    match events.zip(noted) {
        Some((log, noted)) => log.write(&mut transaction, &touched, &recorder, noted).await?,
        None => events::log(&mut transaction, &touched).await?,
    }
    if let Some(history) = history {
        history.write(&mut transaction, &effects).await?;
    }
    let committing = spans.begin(Phase::Commit);
    transaction.commit().await.map_err(|error| Error::from(error).settled())?;
    drop(committing);
    for (recorder, effect) in effects {
        recorder.record(effect);
    }
    Ok(outcome)
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

impl Store {
    /// Makes a change, entirely or not at all, and to its end even if the caller goes away.
    ///
    /// If another transaction keeps a row locked for long, the change gives its connection back and is tried
    /// again, until [`WRITE_MAX`] has passed.
    ///
    /// # Errors
    /// A refusal, or the database is unavailable.
    pub async fn commit<C: Change>(&self, change: C) -> Result<C::Outcome> {
        let (store, recorder, found) = (self.clone(), Recorder::current(), FoundFaults::current());
        // Boxed, here and below, so that the runtime's part of a task is not compiled for each change.
        let work: BoxFuture<'static, Result<C::Outcome>> = Box::pin(async move {
            let name = recording::change_name::<C>();
            let deadline = Instant::now() + WRITE_MAX;
            let _turn = match change.row() {
                Some(row) => {
                    let turn = store.write_limits.row(row, deadline).instrument(span!("queue"));
                    Some(turn.await.map_err(Error::settled)?)
                }
                None => None,
            };
            let change = Arc::new(change);
            let (mut attempt, mut again) = (1, false);
            loop {
                match store.attempt(&change, (&recorder, &found), (again, deadline)).await {
                    Err(Error::Again(why)) if attempt < ATTEMPTS_MAX => {
                        recording::conflict(name);
                        tracing::debug!(change = name, attempt, why, "trying a change again");
                        pause(attempt).await;
                        attempt += 1;
                    }
                    Err(Error::Locked(why)) if C::PATIENT && Instant::now() < deadline => {
                        recording::locked(name);
                        tracing::debug!(change = name, why, "a change waits for a lock");
                        again = true;
                        pause(ATTEMPTS_MAX).await;
                    }
                    settled => return settled.map_err(Error::settled),
                }
            }
        });
        let (name, began) = (recording::change_name::<C>(), Instant::now());
        let work = work.instrument(span!("change", berth.change = name)).in_current_span();
        let ended = tokio::spawn(work).await;
        let result =
            ended.unwrap_or_else(|panic| Err(Error::bug(format!("{name} did not end: {panic}"))));
        recording::change(name, &result, began.elapsed());
        result.inspect_err(Error::note)
    }

    /// Runs one transaction on a connection of the pool. If it has no outcome in time, it continues in the
    /// background and keeps its connection: the server would keep the session of a commit that hangs.
    async fn attempt<C: Change>(
        &self,
        change: &Arc<C>,
        (recorder, found): (&Recorder, &FoundFaults),
        (again, deadline): (bool, Instant),
    ) -> Result<C::Outcome> {
        let patience = if again { HELD_MAX } else { ACQUIRE_MAX };
        let permits = self.write_limits.connection(again, patience);
        let permits = permits.instrument(span!("queue")).await?;
        let term = self.primary().term()?;
        let began = Instant::now();
        let acquired = term.during(async { Ok(term.pool().acquire().await?) });
        let acquired = acquired.instrument(span!("connection", db.system.name = "postgresql"));
        let mut conn = acquired.await.inspect_err(|_| self.primary().suspect())?;
        recording::pool_wait(began.elapsed());
        let (change, report_only) = (Arc::clone(change), self.report_only());
        let observers = Observers {
            recorder: recorder.clone(),
            found: found.clone(),
            history: self.primary().options().history,
            events: self.primary().options().events,
            spans: Spans::current(),
        };
        let mut work: BoxFuture<'static, Result<C::Outcome>> = Box::pin(async move {
            let _permits = permits;
            let transaction = transact(&mut conn, change.as_ref(), report_only, observers);
            let settled = term.make(transaction).await;
            if !matches!(settled, Ok(_) | Err(Error::Refused(_) | Error::Locked(_))) {
                // The session may be dead or in doubt, so it is never used again.
                drop(timeout(CLOSE_MAX, conn.close()).await);
            }
            settled
        });
        if let Ok(settled) = timeout_at(deadline, &mut work).await {
            return settled;
        }
        let rest: BoxFuture<'static, ()> = Box::pin(async move { drop(work.await) });
        tokio::spawn(rest.in_current_span());
        self.primary().suspect();
        // It may have been committed nevertheless.
        Err(Error::Unavailable(format!("no outcome within {WRITE_MAX:?}")))
    }
}
