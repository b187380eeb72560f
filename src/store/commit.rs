//! Commits changes: attempts, their time limit, and the connection that each takes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use super::access::Store;
use super::change::{ATTEMPTS_MAX, Change, pause, transact};
use super::consumer_claim::ConsumerClaim;
use super::effects::Recorder;
use super::error::{Error, Result};
use super::recording;
use super::tx::Observers;
use super::writer::{Job, JobOrigin};
use crate::observe::request_context::RequestScope;
use crate::observe::spans::{Spans, Timed, span};

/// Timeout for closing a connection.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// Makes the changes of one request, whose recorder gets their effects. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Changes {
    store: Store,
    recorder: Recorder,
}

impl Store {
    /// Returns access for the changes of a request.
    pub fn changes(&self, recorder: Recorder) -> Changes {
        Changes { store: self.clone(), recorder }
    }
}

impl Changes {
    /// Makes a change, entirely or not at all, and to its end even if the caller goes away.
    ///
    /// If another transaction keeps a row locked for long, the change gives its connection back and is tried
    /// again, until [`Timeouts::write`](super::options::Timeouts) has passed.
    ///
    /// # Errors
    /// A refusal, or the database is unavailable.
    pub async fn commit<C: Change>(&self, change: C) -> Result<C::Outcome> {
        self.store.maintenance.check()?;
        let Self { store, recorder } = self.clone();
        // Boxed, here and below, so that the runtime's part of a task is not compiled for each change.
        let work: BoxFuture<'static, Result<C::Outcome>> = Box::pin(async move {
            let name = recording::change_name::<C>();
            let deadline = Instant::now() + store.primary().timeouts().write;
            let _turn = match change.row() {
                Some(row) => {
                    let turn = store.write_limits.row(row, deadline).timed(span!("queue"));
                    Some(turn.await.map_err(Error::settled)?)
                }
                None => None,
            };
            let change = Arc::new(change);
            let (mut attempt, mut again) = (1, false);
            loop {
                match store.attempt(&change, &recorder, again, deadline).await {
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
                    settled => {
                        if is_blocked(&settled, again) {
                            store.lock_report.start();
                        }
                        return settled.map_err(Error::settled);
                    }
                }
            }
        });
        let (name, began) = (recording::change_name::<C>(), Instant::now());
        let work = work.timed(span!("change", berth.change = name));
        let work = RequestScope::current().during(work);
        let ended = tokio::spawn(work).await;
        let result =
            ended.unwrap_or_else(|panic| Err(Error::bug(format!("{name} did not end: {panic}"))));
        self.store.feed.written();
        self.store.write_health.record(&result);
        recording::change(name, &result, began.elapsed());
        result
    }

    /// Replaces the allocations of consumers, for `PUT /allocations/{consumer}` and `POST /allocations`; no consumer
    /// twice. All or nothing, judged together with the other claims that wait at this replica. A refusal has all
    /// their faults.
    ///
    /// # Errors
    /// `ConsumerGeneration`, `AllocationProviderNotFound`, `ClassNotFound`, `InvalidInventory`,
    /// `CapacityExceeded`, `ConstraintsViolated`; or the database is unavailable.
    pub async fn replace_allocations(&self, claims: Vec<ConsumerClaim>) -> Result<()> {
        self.store.maintenance.check()?;
        self.submit(|origin| Job::Replace(claims, origin)).await
    }

    /// Deletes the allocations of a consumer, for `DELETE /allocations/{consumer}`: no generation is compared, and
    /// none moves.
    ///
    /// # Errors
    /// `NoAllocations`, or the database is unavailable.
    pub async fn delete_allocations(&self, consumer: Uuid) -> Result<()> {
        self.store.maintenance.check()?;
        self.submit(|origin| Job::Release(consumer, origin)).await
    }

    async fn submit(&self, job: impl FnOnce(JobOrigin) -> Job) -> Result<()> {
        let result = self.store.writer().submit(&self.recorder, job).await;
        self.store.feed.written();
        result
    }
}

/// Returns whether a change was refused because a row stayed locked. `again`: it has met the lock before.
fn is_blocked<T>(settled: &Result<T>, again: bool) -> bool {
    match settled {
        Err(Error::Locked(_)) => true,
        // The time was up in an attempt after one that met a lock.
        Err(Error::Unavailable(_)) => again,
        Ok(_)
        | Err(
            Error::Refused(..)
            | Error::Maintenance(_)
            | Error::Again(_)
            | Error::Inconsistent { .. }
            | Error::Bug(_),
        ) => false,
    }
}

impl Store {
    /// Runs one transaction on a connection of the pool. If it has no outcome in time, it continues in the
    /// background and keeps its connection: the server would keep the session of a commit that hangs.
    async fn attempt<C: Change>(
        &self,
        change: &Arc<C>,
        recorder: &Recorder,
        again: bool,
        deadline: Instant,
    ) -> Result<C::Outcome> {
        let timeouts = *self.primary().timeouts();
        let patience = if again { timeouts.locked() } else { timeouts.acquire };
        let permits = self.write_limits.connection(again, patience);
        let permits = permits.timed(span!("queue")).await?;
        let term = self.primary().term()?;
        let began = Instant::now();
        let acquired = term.during(async { Ok(term.pool().acquire().await?) });
        let acquired = acquired.timed(span!("connection", db.system.name = "postgresql"));
        let mut conn = acquired.await.inspect_err(|_| self.primary().suspect())?;
        recording::pool_wait(began.elapsed());
        let (change, report_only) = (Arc::clone(change), self.report_only());
        let options = self.primary().options();
        let observers = Observers::new(options, recorder.clone(), Spans::current());
        let mut work: BoxFuture<'static, Result<C::Outcome>> = Box::pin(async move {
            let _permits = permits;
            let transaction = transact(&mut conn, change.as_ref(), report_only, observers);
            let settled = term.make(transaction).await;
            if !matches!(settled, Ok(_) | Err(Error::Refused(..) | Error::Locked(_))) {
                // The session may be dead or in doubt, so it is never used again.
                drop(timeout(CLOSE_MAX, conn.close()).await);
            }
            settled
        });
        if let Ok(settled) = timeout_at(deadline, &mut work).await {
            return settled;
        }
        let rest: BoxFuture<'static, ()> = Box::pin(async move { drop(work.await) });
        tokio::spawn(RequestScope::current().during(rest));
        self.primary().suspect();
        // It may have been committed nevertheless.
        Err(Error::Unavailable(format!("no outcome within {:?}", timeouts.write)))
    }
}
