//! The claim writer: one task per replica that takes whatever claims have queued up while its last
//! batch was in flight, and makes them one transaction.
//!
//! There is no timer: an idle writer begins at once. Each claim is judged on its own, in the order
//! of arrival, and answered when the transaction has committed; one claim's refusal does not touch
//! its neighbours.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use uuid::Uuid;

use super::allocations::ConsumerClaim;
use super::change::{ATTEMPT_MAX, ATTEMPTS_MAX, Change, Tx, pause, transact};
use super::claims::{self, Moves, Needs};
use super::error::{Error, Result};
use super::owners::Owners;
use super::planner::Arrivals;
use super::plans::Plans;
use crate::model::Refusal;
use crate::model::claim::{Request, judge};

/// Requests in one transaction.
const BATCH_MAX: usize = 64;
/// Requests that may wait for the writer; more are told to come back.
const WAITING_MAX: usize = 4096;
/// How long a caller waits. The write itself goes on.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// What a caller wants written.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// See [`Request::Replace`].
    Replace(Vec<ConsumerClaim>),
    /// See [`Request::Release`].
    Release(Uuid),
}

type Waiting = (Job, oneshot::Sender<Result<()>>);

/// The way to the writer.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Waiting>,
}

impl Writer {
    /// Starts the task.
    pub(super) fn start(options: PgConnectOptions, report_only: bool) -> Self {
        let (jobs, queue) = mpsc::channel(WAITING_MAX);
        let (plans, owners) = (Plans::new(), Owners::default());
        let desk = Desk { options, report_only, conn: None, plans, owners };
        tokio::spawn(desk.run(queue));
        Self { jobs }
    }

    /// Queues a job and waits for its outcome.
    pub(super) async fn submit(&self, job: Job) -> Result<()> {
        let (answer, done) = oneshot::channel();
        self.jobs.try_send((job, answer)).map_err(|error| match error {
            TrySendError::Full(_) => {
                Error::Unavailable("too many claims wait to be written".to_owned())
            }
            TrySendError::Closed(_) => Error::Bug("the claim writer has ended".to_owned()),
        })?;
        match timeout(WAIT_MAX, done).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::Bug("the claim writer has ended".to_owned())),
            Err(_) => Err(Error::Unavailable(format!("the claim took longer than {WAIT_MAX:?}"))),
        }
    }
}

/// What one transaction is made of.
struct Batch {
    requests: Vec<Request>,
}

impl Change for Batch {
    const NAME: &'static str = "claims";
    type Outcome = Vec<std::result::Result<(), Refusal>>;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let mut locked = claims::lock(tx, &Needs::of(&self.requests)).await?;
        let mut arrivals = Arrivals::find(tx, &mut locked).await?;
        let before = Moves::before(&locked.books);
        let judged = |request: &Request| match request {
            Request::Replace(claims) if !arrivals.is_empty() => {
                let with_holds = Request::Replace(arrivals.with_holds(claims));
                let verdict = judge(&mut locked.books, &with_holds);
                if verdict.is_ok() {
                    arrivals.note(claims);
                }
                verdict
            }
            Request::Replace(_) | Request::Release(_) => judge(&mut locked.books, request),
        };
        let verdicts = self.requests.iter().map(judged).collect();
        let moved = before.since(&locked.books);
        claims::write(tx, &locked, &moved).await?;
        arrivals.settle(tx, &locked).await?;
        Ok(verdicts)
    }
}

/// Where the writing is done.
struct Desk {
    options: PgConnectOptions,
    /// See [`Tx::report_only`].
    report_only: bool,
    conn: Option<PgConnection>,
    plans: Plans,
    owners: Owners,
}

impl Desk {
    async fn run(mut self, mut queue: mpsc::Receiver<Waiting>) {
        let mut waiting = Vec::with_capacity(BATCH_MAX);
        while queue.recv_many(&mut waiting, BATCH_MAX).await > 0 {
            let (jobs, answers): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
            for (answer, outcome) in answers.into_iter().zip(self.write(jobs).await) {
                // Whoever does not wait any more needs no answer.
                drop(answer.send(outcome));
            }
        }
    }

    /// Writes the jobs together, or, when that fails for a reason that may be one job's alone, one
    /// by one.
    async fn write(&mut self, jobs: Vec<Job>) -> Vec<Result<()>> {
        match self.settle(&jobs).await {
            Ok(verdicts) => {
                verdicts.into_iter().map(|verdict| verdict.map_err(Error::Refused)).collect()
            }
            Err(Error::Bug(why)) if jobs.len() > 1 => {
                tracing::warn!(why, jobs = jobs.len(), "writing claims one by one");
                let mut outcomes = Vec::with_capacity(jobs.len());
                for job in jobs {
                    let outcome = match self.settle(&[job]).await {
                        Ok(mut verdict) => verdict.pop().unwrap_or(Ok(())).map_err(Error::Refused),
                        Err(error) => Err(error),
                    };
                    outcomes.push(outcome);
                }
                outcomes
            }
            Err(error) => jobs.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// One transaction for all, tried again while that may help.
    async fn settle(&mut self, jobs: &[Job]) -> Result<Vec<std::result::Result<(), Refusal>>> {
        let mut attempt = 1;
        loop {
            let attempt_made = AssertUnwindSafe(self.try_settle(jobs)).catch_unwind();
            let settled = match timeout(ATTEMPT_MAX, attempt_made).await {
                Ok(Ok(settled)) => settled,
                // The transaction ends with its connection, which is dropped below.
                Ok(Err(_panic)) => Err(Error::Bug("writing claims panicked".to_owned())),
                // It may have been committed all the same.
                Err(_) => Err(Error::Unavailable(format!("no outcome within {ATTEMPT_MAX:?}"))),
            };
            match settled {
                Ok(verdicts) => return Ok(verdicts),
                Err(Error::Again(why)) if attempt < ATTEMPTS_MAX => {
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

    async fn try_settle(&mut self, jobs: &[Job]) -> Result<Vec<std::result::Result<(), Refusal>>> {
        if self.conn.is_none() {
            self.conn = Some(PgConnection::connect_with(&self.options).await?);
            // Behind a new connection there may be a database that has gone back in time.
            self.owners = Owners::default();
        }
        let Some(conn) = &mut self.conn else {
            return Err(Error::Bug("the claim writer has no connection".to_owned()));
        };
        self.plans.renew(conn).await?;
        let claims = jobs.iter().flat_map(|job| match job {
            Job::Replace(claims) => claims.as_slice(),
            Job::Release(_) => &[],
        });
        self.owners.learn(conn, claims).await?;
        let requests = jobs
            .iter()
            .map(|job| match job {
                Job::Replace(claims) => Request::Replace(
                    claims.iter().map(|claim| self.owners.resolve(claim.clone())).collect(),
                ),
                Job::Release(consumer) => Request::Release(*consumer),
            })
            .collect();
        transact(conn, &Batch { requests }, self.report_only).await
    }
}
