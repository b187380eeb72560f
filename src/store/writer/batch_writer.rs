//! Writes batches of claims over one connection, one transaction at a time.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use super::batch_parts::BatchParts;
use super::job::{Job, scope_of};
use super::locked_rows::LockedRows;
use super::outcome::Written;
use crate::model::claim::{Consumer, LockedState, Request, faults, judge};
use crate::observe::request_context::RequestScope;
use crate::observe::spans::{Phase, Spans};
use crate::store::change::{ATTEMPTS_MAX, Change, pause, transact};
use crate::store::claims::GenerationSteps;
use crate::store::claims::locked::Needs;
use crate::store::effects::{ConsumerChange, PlaceNames, Recorder};
use crate::store::error::{Error, Result};
use crate::store::feed::Reloads;
use crate::store::options::Timeouts;
use crate::store::owners::{AddedOwners, NewOwners, OwnerNames, Owners};
use crate::store::planner::Handover;
use crate::store::primary::{Primary, Term};
use crate::store::sessions::waiting;
use crate::store::statement_plans::{self, StatementPlans};
use crate::store::tx::{Observers, Tx};
use crate::store::{claims, locks, recording};

/// Timeout for one transaction, after which its jobs get a response. Shorter than a caller waits, so that later
/// jobs can be written in time.
const ATTEMPT_MAX: Duration = Duration::from_secs(8);
/// Timeout for a check for locked rows, including connecting.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Maximum number of transactions without an outcome, each with a connection, beside the current one. More would
/// only add sessions to a server that does not respond.
const UNSETTLED_MAX: usize = 2;

/// The requests of one transaction.
struct Batch {
    requests: Vec<Request>,
    /// The recorder of the effects of each request.
    recorders: Vec<Recorder>,
    new_owners: NewOwners,
    /// Names for the log of events; empty if it is off.
    owner_names: OwnerNames,
}

impl Change for Batch {
    type Outcome = (Vec<Result<()>>, AddedOwners);

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let mut locked = claims::lock(tx, &Needs::of(&self.requests)).await?;
        let claims = self.requests.iter().flat_map(|request| match request {
            Request::Replace(claims) => claims.as_slice(),
            Request::Release(_) => &[],
        });
        let mut handover = Handover::find(tx, &mut locked, claims, &self.new_owners).await?;
        let writing = tx.spans.begin(Phase::Write);
        let before = GenerationSteps::before(&locked.state);
        let is_recorded = tx.has_history || tx.noted.is_some();
        let is_any_recorded = is_recorded || self.recorders.iter().any(Recorder::is_on);
        let names = is_any_recorded.then(|| PlaceNames::of(&locked.state));
        let mut verdicts = Vec::with_capacity(self.requests.len());
        for (request, recorder) in self.requests.iter().zip(&self.recorders) {
            let judged = match request {
                Request::Replace(claims) if !handover.is_empty() => {
                    Cow::Owned(Request::Replace(handover.with_holds(claims)))
                }
                Request::Replace(_) | Request::Release(_) => Cow::Borrowed(request),
            };
            // The effects of a request are the differences of its consumers before and after it.
            let names = names.as_ref().filter(|_| is_recorded || recorder.is_on());
            let found = names.map(|names| (names, consumers(&locked.state, &judged)));
            let verdict = judge(&mut locked.state, &judged).map_err(|refusal| match &*judged {
                Request::Replace(claims) => {
                    Error::Refused(refusal, Box::new(faults(&locked.state, claims)))
                }
                Request::Release(_) => refusal.into(),
            });
            if let (Request::Replace(claims), Cow::Owned(_), Ok(())) = (request, &judged, &verdict)
            {
                handover.note(claims);
            }
            verdicts.push(verdict);
            let Some((names, found)) = found else { continue };
            let now = consumers(&locked.state, &judged);
            for ((uuid, found), (_, now)) in found.into_iter().zip(now) {
                let (found, now) = (found.as_ref(), now.as_ref());
                let change = ConsumerChange { uuid, before: found, now };
                tx.note_consumer(change, names, &locked.state, recorder);
            }
        }
        if let Some(noted) = &mut tx.noted {
            noted.owner_names = self.owner_names.clone();
        }
        let added = self.new_owners.settle(tx.conn, &mut locked.state).await?;
        let moved = before.since(&locked.state);
        claims::write(tx, &locked, &moved).await?;
        handover.settle(tx, &locked).await?;
        drop(writing);
        Ok((verdicts, added))
    }
}

/// Returns the consumers that a request names, as judged so far.
fn consumers(state: &LockedState, request: &Request) -> Vec<(Uuid, Option<Consumer>)> {
    let named: Vec<Uuid> = match request {
        Request::Replace(claims) => claims.iter().map(|claim| claim.consumer).collect(),
        Request::Release(consumer) => vec![*consumer],
    };
    let now = |uuid: &Uuid| state.consumers.get(uuid).and_then(|consumer| consumer.now.clone());
    named.into_iter().map(|uuid| (uuid, now(&uuid))).collect()
}

/// A connection with its caches.
pub(super) struct BatchWriter {
    primary: Primary,
    conn: Option<(PgConnection, Arc<Term>)>,
    /// Transactions that were given up, and continue until their outcome is known.
    unsettled: JoinSet<()>,
    plans: StatementPlans,
    owners: Owners,
    reloads: Reloads,
    /// Number of complete reads when the first of `owners` was cached.
    reloads_before: u64,
}

impl BatchWriter {
    /// Makes a writer that connects when it has something to write.
    pub(super) fn new(primary: Primary, reloads: Reloads) -> Self {
        Self {
            primary,
            conn: None,
            unsettled: JoinSet::new(),
            plans: StatementPlans::new(),
            owners: Owners::default(),
            reloads_before: reloads.count(),
            reloads,
        }
    }

    /// Returns the timeouts of requests.
    pub(super) fn timeouts(&self) -> &Timeouts {
        self.primary.timeouts()
    }

    /// Gives the connection back.
    pub(super) fn rest(&mut self) {
        self.conn = None;
    }

    /// Writes the jobs together. If that fails for a reason that may concern only one job, they are split; jobs
    /// that need a row which another transaction has locked are not written.
    ///
    /// Jobs of one consumer keep their order: one that comes after a locked one counts as locked as well.
    pub(super) async fn write(&mut self, jobs: &[&Job]) -> Written {
        let mut parts = BatchParts::new(jobs);
        while let Some(part) = parts.next() {
            let together: Vec<&Job> =
                part.iter().filter_map(|nth| jobs.get(*nth)).copied().collect();
            let scope = scope_of(&together);
            scope.during(self.write_part(&mut parts, part, &together)).await;
        }
        parts.written()
    }

    async fn write_part(&mut self, parts: &mut BatchParts<'_>, part: Vec<usize>, jobs: &[&Job]) {
        match self.settle(jobs).await {
            Ok(verdicts) => parts.note(&part, verdicts),
            Err(Error::Locked(why)) => match self.locked(jobs).await {
                Ok(locked) => parts.defer_blocked(part, locked, &why),
                // A table is locked, so nothing can be written.
                Err(Error::Locked(_)) => parts.defer_all(part, true),
                Err(error) => parts.fail(&part, &error.settled()),
            },
            Err(error) if error.is_ours() && part.len() > 1 => {
                tracing::warn!(%error, jobs = part.len(), "writing claims one by one");
                parts.separate(part);
            }
            Err(error) => parts.fail(&part, &error),
        }
    }

    /// Returns the rows needed by the jobs that others have locked.
    pub(super) async fn locked(&mut self, jobs: &[&Job]) -> Result<LockedRows> {
        self.look(async |conn| LockedRows::find(conn, jobs).await).await
    }

    /// Adds to the known locked rows those consumers of the jobs that use locked providers.
    pub(super) async fn add_consumers_of_locked(
        &mut self,
        locked: &mut LockedRows,
        jobs: &[&Job],
    ) -> Result<()> {
        // Without locked providers there is no such consumer, and a query might have to connect.
        if locked.providers.is_empty() {
            return Ok(());
        }
        self.look(async |conn| locked.add_consumers_of_locked(conn, jobs).await).await
    }

    /// Checks for locked rows. A connection on which that has failed is not used again.
    async fn look<T>(
        &mut self,
        ask: impl AsyncFnOnce(&mut PgConnection) -> Result<T>,
    ) -> Result<T> {
        let found = timeout(LOOK_MAX, async { ask(self.conn().await?).await }).await;
        let late = || Error::Unavailable(format!("no outcome within {LOOK_MAX:?}"));
        let response = found.unwrap_or_else(|_| Err(late()));
        if response.is_err() {
            self.conn = None;
        }
        response
    }

    /// Runs one transaction for all jobs, again while that may help.
    async fn settle(&mut self, jobs: &[&Job]) -> Result<Vec<Result<()>>> {
        let mut attempt = 1;
        loop {
            match self.try_settle(jobs).await {
                Ok(verdicts) => return Ok(verdicts),
                Err(Error::Locked(why)) => return Err(Error::Locked(why)),
                Err(Error::Again(why)) if attempt < ATTEMPTS_MAX => {
                    recording::claims_conflict();
                    tracing::debug!(attempt, why, "trying a batch of claims again");
                    self.conn = None;
                    pause(attempt).await;
                    attempt += 1;
                }
                Err(error) => {
                    self.conn = None;
                    return Err(error.settled());
                }
            }
        }
    }

    async fn try_settle(&mut self, jobs: &[&Job]) -> Result<Vec<Result<()>>> {
        let prepared = AssertUnwindSafe(timeout(ATTEMPT_MAX, self.prepare(jobs))).catch_unwind();
        let batch = prepared.await.map_err(|_panic| panicked())?.unwrap_or_else(|_| Err(late()))?;
        let Some((mut conn, term)) = self.conn.take() else {
            return Err(Error::bug("the claim writer has no connection"));
        };
        let options = self.primary.options();
        let report_only = options.report_only;
        let spans = Spans::of(jobs.iter().map(|job| job.origin().scope.clone()));
        let observers = Observers::new(options, Recorder::none(), spans);
        let mut attempt = Box::pin(async move {
            let written = transact(&mut conn, &batch, report_only, observers);
            let settled = AssertUnwindSafe(term.make(written)).catch_unwind().await;
            ((conn, term), settled.unwrap_or_else(|_panic| Err(panicked())))
        });
        let Ok((connected, settled)) = timeout(ATTEMPT_MAX, &mut attempt).await else {
            // It may have been committed nevertheless. The server would keep the session of a commit that
            // hangs, so the connection is kept as well, and counts.
            self.unsettled
                .spawn(RequestScope::current().during(async move { drop(attempt.await) }));
            self.primary.suspect();
            return Err(late());
        };
        // A transaction that failed otherwise ends with its connection.
        if matches!(settled, Ok(_) | Err(Error::Locked(_) | Error::Refused(..))) {
            self.conn = Some(connected);
        }
        let (verdicts, added) = settled?;
        self.owners.remember(added);
        Ok(verdicts)
    }

    /// Connects, and looks up the names in the jobs.
    async fn prepare(&mut self, jobs: &[&Job]) -> Result<Batch> {
        self.conn().await?;
        let reloads = self.reloads.count();
        if reloads != self.reloads_before {
            // A dump may have been restored, over the same connection as well.
            self.owners = Owners::default();
            self.reloads_before = reloads;
        }
        let Self { conn: Some((conn, term)), plans, owners, .. } = self else {
            return Err(Error::bug("the claim writer has no connection"));
        };
        let prepared = async {
            plans.renew(conn).await?;
            owners.look_up(conn, jobs.iter().flat_map(|job| job.claims())).await
        };
        term.during(prepared).await?;
        let mut new_owners = NewOwners::default();
        let mut requests = Vec::with_capacity(jobs.len());
        let mut owner_names = OwnerNames::default();
        let keeps_events = self.primary.options().events_hours.is_some();
        for job in jobs {
            requests.push(match job {
                Job::Replace(claims, _) => {
                    let resolved = owners.resolve(claims, &mut new_owners)?;
                    if keeps_events {
                        owner_names.add(claims, &resolved);
                    }
                    Request::Replace(resolved)
                }
                Job::Release(consumer, _) => Request::Release(*consumer),
            });
        }
        let recorders = jobs.iter().map(|job| job.origin().recorder.clone()).collect();
        Ok(Batch { requests, recorders, new_owners, owner_names })
    }

    async fn conn(&mut self) -> Result<&mut PgConnection> {
        if self.conn.as_ref().is_none_or(|(_, term)| term.is_over()) {
            while self.unsettled.try_join_next().is_some() {}
            if self.unsettled.len() >= UNSETTLED_MAX {
                let why = "the outcome of earlier transactions is unknown";
                return Err(Error::Unavailable(why.to_owned()));
            }
            // A new connection may lead to a database that was restored to an earlier state.
            self.owners = Owners::default();
            self.conn = Some(self.primary.connect(settings).await?);
        }
        let conn = self.conn.as_mut().map(|(conn, _)| conn);
        conn.ok_or_else(|| Error::bug("the claim writer has no connection"))
    }
}

fn settings(options: PgConnectOptions) -> PgConnectOptions {
    waiting(statement_plans::settings(options), locks::WRITER_WAIT_MAX)
}

fn panicked() -> Error {
    Error::bug("writing claims panicked")
}

fn late() -> Error {
    Error::Unavailable(format!("no outcome within {ATTEMPT_MAX:?}"))
}
