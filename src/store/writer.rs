//! The claim writer: one task per replica that takes whatever claims have queued up while its last
//! batch was in flight, and makes them one transaction.
//!
//! There is no timer: an idle writer begins at once. Each claim is judged on its own, in the order
//! of arrival, and answered when the transaction has committed; one claim's refusal does not touch
//! its neighbours.
//!
//! A claim that needs a row which somebody else holds for long does not keep the others waiting: it
//! is set aside (see [`aside`]), where a second task with a connection of its own writes it as soon
//! as the row is free, or answers 503 when [`HELD_MAX`] has passed.

mod aside;
mod batch_writer;
mod held;
mod parts;

use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::WRITE_MAX;
use super::allocations::ConsumerClaim;
use super::error::{Error, Result};
use super::feed::Reloads;
use super::locks::HELD_MAX;
use super::primary::Primary;
use aside::{Lane, Lot};
use batch_writer::{BatchWriter, Outcome};

/// Requests in one transaction.
const BATCH_MAX: usize = 64;
/// Requests that may wait for the writer; more are told to come back.
const WAITING_MAX: usize = 4096;
/// How long a caller waits. A job that has not been begun by then is never written; one that has
/// been begun may be.
const WAIT_MAX: Duration = WRITE_MAX;

/// What a caller wants written.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// See [`Request::Replace`](crate::model::claim::Request::Replace).
    Replace(Vec<ConsumerClaim>),
    /// See [`Request::Release`](crate::model::claim::Request::Release).
    Release(Uuid),
}

impl Job {
    fn claims(&self) -> &[ConsumerClaim] {
        match self {
            Self::Replace(claims) => claims,
            Self::Release(_) => &[],
        }
    }

    /// The consumers that it names.
    fn consumers(&self) -> impl Iterator<Item = Uuid> {
        let released = match self {
            Self::Replace(_) => None,
            Self::Release(consumer) => Some(*consumer),
        };
        self.claims().iter().map(|claim| claim.consumer).chain(released)
    }

    /// The providers that it names.
    fn providers(&self) -> impl Iterator<Item = Uuid> {
        self.claims().iter().flat_map(|claim| &claim.wants).map(|(provider, ..)| *provider)
    }
}

/// A job and who waits for its outcome.
#[derive(Debug)]
struct Waiting {
    job: Job,
    answer: oneshot::Sender<Result<()>>,
    arrived: Instant,
}

impl Waiting {
    fn end(self, outcome: Result<()>) {
        // Whoever does not wait any more needs no answer.
        drop(self.answer.send(outcome));
    }
}

/// The way to the writer.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Waiting>,
}

impl Writer {
    /// Starts the tasks.
    pub(super) fn start(primary: &Primary, report_only: bool, reloads: &Reloads) -> Self {
        let (jobs, queue) = mpsc::channel(WAITING_MAX);
        let writer = || BatchWriter::new(primary.clone(), report_only, reloads.clone());
        let (lot, lane) = Lot::new(writer());
        tokio::spawn(lot.run());
        tokio::spawn(run(writer(), queue, lane));
        Self { jobs }
    }

    /// Queues a job and waits for its outcome.
    pub(super) async fn submit(&self, job: Job) -> Result<()> {
        let (answer, done) = oneshot::channel();
        let waiting = Waiting { job, answer, arrived: Instant::now() };
        self.jobs.try_send(waiting).map_err(|error| match error {
            TrySendError::Full(_) => {
                Error::Unavailable("too many claims wait to be written".to_owned())
            }
            TrySendError::Closed(_) => Error::bug("the claim writer has ended"),
        })?;
        match timeout(WAIT_MAX, done).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::bug("the claim writer has ended")),
            Err(_) => Err(Error::Unavailable(format!("the claim took longer than {WAIT_MAX:?}"))),
        }
    }
}

/// Answers those that have waited for too long; they are never written.
fn end_late(waiting: &mut Vec<Waiting>) {
    let is_late = |it: &mut Waiting| it.arrived.elapsed() >= WAIT_MAX;
    for late in waiting.extract_if(.., is_late) {
        late.end(Err(Error::Unavailable("the claim waited for too long".to_owned())));
    }
}

/// Writes what has queued up, batch after batch.
async fn run(mut writer: BatchWriter, mut queue: mpsc::Receiver<Waiting>, mut lane: Lane) {
    let mut waiting = Vec::with_capacity(BATCH_MAX);
    while queue.recv_many(&mut waiting, BATCH_MAX).await > 0 {
        end_late(&mut waiting);
        let mut batch = lane.divert(&mut writer, std::mem::take(&mut waiting)).await;
        // To ask what is held may have taken long.
        end_late(&mut batch);
        let jobs: Vec<&Job> = batch.iter().map(|it| &it.job).collect();
        let written = writer.write(&jobs).await;
        let mut outcomes = written.outcomes.into_iter();
        for waiting in batch {
            match outcomes.next() {
                Some(Outcome::Held { .. }) => lane.set_aside(waiting),
                settled => waiting.end(Outcome::settled(settled)),
            }
        }
        lane.learn(written.held);
    }
}
