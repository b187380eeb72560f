//! The claim writer: one task per replica that takes all claims that have queued up while its last
//! batch was in flight, and writes them in one transaction (group commit).
//!
//! There is no timer: an idle writer begins at once. Claims are judged one by one, in the order of arrival, and
//! get their responses when the transaction has committed; the refusal of one claim does not affect
//! the others.
//!
//! Example: claim A arrives at an idle writer, which begins a transaction for A alone. B, C and D arrive
//! before it has committed. They become the next transaction: their rows are locked together, then B
//! takes the last VCPU of a host, C is refused because that host is full now, D succeeds elsewhere, and
//! one commit makes B and D durable. All three get their responses after it.
//!
//! A claim that needs a row which another transaction keeps locked does not hold up the others: it is
//! deferred (see [`deferred`]). A second task with its own connection writes it as soon as the row is
//! free, or fails it with 503 when [`HELD_MAX`] has passed.

mod batch_parts;
mod batch_writer;
mod deferred;
mod locked_rows;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use super::allocations::ConsumerClaim;
use super::effects::Recorder;
use super::error::{Error, Result};
use super::feed::Reloads;
use super::found_faults::FoundFaults;
use super::locks::HELD_MAX;
use super::primary::Primary;
use super::{WRITE_MAX, recording};
use crate::observe::request_context::{self, RequestContext};
use crate::observe::spans::{self, span};
use batch_writer::{BatchWriter, Outcome};
use deferred::{DeferredQueue, DeferredTask};

/// Maximum number of requests in one transaction.
const BATCH_MAX: usize = 64;
/// Maximum number of requests waiting for the writer; further ones fail with 503.
const WAITING_MAX: usize = 4096;
/// Time that a caller waits. A job that has not been started by then is never written; one that has been
/// started may be.
const WAIT_MAX: Duration = WRITE_MAX;

/// A request to the writer.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// See [`Request::Replace`](crate::model::claim::Request::Replace).
    Replace(Vec<ConsumerClaim>, JobOrigin),
    /// See [`Request::Release`](crate::model::claim::Request::Release).
    Release(Uuid, JobOrigin),
}

/// The request that a job comes from.
#[derive(Clone, Debug)]
pub(super) struct JobOrigin {
    /// The recorder of the effects of the job.
    recorder: Recorder,
    /// The span in which the caller waits for the job.
    span: Span,
    request: Option<Arc<RequestContext>>,
    /// Takes the faults of the job if it is refused.
    found: FoundFaults,
}

impl JobOrigin {
    /// Returns the present request.
    pub(super) fn current() -> Self {
        let (recorder, request) = (Recorder::current(), request_context::current());
        Self { recorder, span: Span::current(), request, found: FoundFaults::current() }
    }

    /// Returns an origin without a request.
    #[cfg(test)]
    fn none() -> Self {
        let (recorder, found) = (Recorder::none(), FoundFaults::ignoring());
        Self { recorder, span: Span::none(), request: None, found }
    }
}

impl Job {
    fn claims(&self) -> &[ConsumerClaim] {
        match self {
            Self::Replace(claims, _) => claims,
            Self::Release(..) => &[],
        }
    }

    /// Returns the named consumers.
    fn consumers(&self) -> impl Iterator<Item = Uuid> {
        let released = match self {
            Self::Replace(..) => None,
            Self::Release(consumer, _) => Some(*consumer),
        };
        self.claims().iter().map(|claim| claim.consumer).chain(released)
    }

    /// Returns the request that it comes from.
    fn origin(&self) -> &JobOrigin {
        match self {
            Self::Replace(_, origin) | Self::Release(_, origin) => origin,
        }
    }

    /// Returns the named providers.
    fn providers(&self) -> impl Iterator<Item = Uuid> {
        self.claims().iter().flat_map(|claim| &claim.wants).map(|(provider, ..)| *provider)
    }
}

/// Makes the span in which jobs are written together: log lines in it carry the ids of all their requests.
fn span_of(jobs: &[&Job]) -> Span {
    if let [job] = jobs {
        return job.origin().span.clone();
    }
    let requests = jobs.iter().filter_map(|job| job.origin().request.as_ref());
    let ids: Vec<&str> = requests.map(|request| request.id.as_str()).collect();
    tracing::error_span!(target: spans::REQUESTS, parent: None, "claims", request_ids = ids.join(" "))
}

/// A job with the channel for its outcome.
#[derive(Debug)]
struct WaitingJob {
    job: Job,
    answer: oneshot::Sender<Result<()>>,
    arrived: Instant,
    /// The span of the wait for the writer.
    queued: Span,
}

impl WaitingJob {
    /// Ends the wait for the writer.
    fn begin(&mut self) {
        self.queued = Span::none();
    }

    fn end(self, outcome: Result<()>) {
        // The caller may have gone away.
        drop(self.answer.send(outcome));
    }
}

/// Access to the claim writer. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ClaimWriter {
    jobs: mpsc::Sender<WaitingJob>,
}

impl ClaimWriter {
    /// Starts the tasks.
    pub(super) fn start(primary: &Primary, reloads: &Reloads) -> Self {
        let (jobs, queue) = mpsc::channel(WAITING_MAX);
        let writer = || BatchWriter::new(primary.clone(), reloads.clone());
        let (task, deferred) = DeferredTask::new(writer());
        tokio::spawn(task.run());
        tokio::spawn(run(writer(), queue, deferred));
        Self { jobs }
    }

    /// Queues a job and waits for its outcome.
    pub(super) async fn submit(&self, job: impl FnOnce(JobOrigin) -> Job) -> Result<()> {
        let submitted = async { self.submit_within(job(JobOrigin::current())).await };
        submitted.instrument(span!("claim")).await
    }

    async fn submit_within(&self, job: Job) -> Result<()> {
        let (answer, done) = oneshot::channel();
        let waiting = WaitingJob { job, answer, arrived: Instant::now(), queued: span!("queue") };
        self.jobs.try_send(waiting).map_err(|error| match error {
            TrySendError::Full(_) => {
                Error::Unavailable("too many claims wait to be written".to_owned())
            }
            TrySendError::Closed(_) => Error::bug("the claim writer has ended"),
        })?;
        let outcome = match timeout(WAIT_MAX, done).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::bug("the claim writer has ended")),
            Err(_) => Err(Error::Unavailable(format!("the claim took longer than {WAIT_MAX:?}"))),
        };
        recording::claim(&outcome);
        outcome.inspect_err(Error::note)
    }
}

/// Fails jobs that have waited too long with 503. They are never written.
fn end_late(waiting: &mut Vec<WaitingJob>) {
    let is_late = |it: &mut WaitingJob| it.arrived.elapsed() >= WAIT_MAX;
    for late in waiting.extract_if(.., is_late) {
        late.end(Err(Error::Unavailable("the claim waited for too long".to_owned())));
    }
}

/// Writes the queued jobs, batch after batch.
async fn run(
    mut writer: BatchWriter,
    mut queue: mpsc::Receiver<WaitingJob>,
    deferred: DeferredQueue,
) {
    let mut waiting = Vec::with_capacity(BATCH_MAX);
    while queue.recv_many(&mut waiting, BATCH_MAX).await > 0 {
        end_late(&mut waiting);
        let mut batch = deferred.defer_blocked(&mut writer, std::mem::take(&mut waiting)).await;
        // The check for locked rows may have taken long.
        end_late(&mut batch);
        batch.iter_mut().for_each(WaitingJob::begin);
        let jobs: Vec<&Job> = batch.iter().map(|it| &it.job).collect();
        let began = Instant::now();
        let written = writer.write(&jobs).await;
        if !jobs.is_empty() {
            recording::batch(jobs.len(), began.elapsed());
        }
        let mut outcomes = written.outcomes.into_iter();
        for waiting in batch {
            match outcomes.next() {
                Some(Outcome::Blocked { .. }) => deferred.defer(waiting),
                settled => waiting.end(Outcome::settled(settled)),
            }
        }
        deferred.note_locked(written.locked);
    }
}
