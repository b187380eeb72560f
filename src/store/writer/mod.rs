//! The claim writer: one task per replica that takes all claims that have queued up while its last
//! batch was in flight, and writes them in one transaction (group commit).
//!
//! A batch begins with its first claim, or waits a moment for the callers of the last batch (see [`callers`]).
//! Claims are judged one by one, in the order of arrival, and get their responses when the transaction has
//! committed; the refusal of one claim does not affect the others.
//!
//! Example: claim A arrives at an idle writer, which begins a transaction for A alone. B, C and D arrive
//! before it has committed. They become the next transaction: their rows are locked together, then B
//! takes the last VCPU of a host, C is refused because that host is full now, D succeeds elsewhere, and
//! one commit makes B and D durable. All three get their responses after it.
//!
//! A claim that needs a row which another transaction keeps locked does not hold up the others: it is
//! deferred (see [`deferred`]). A second task with its own connection writes it as soon as the row is
//! free, or fails it with 503 when [`Timeouts::locked`](super::options::Timeouts::locked)
//! has passed.

mod batch_parts;
mod batch_writer;
mod callers;
mod deferred;
mod job;
mod locked_rows;
mod outcome;

use std::time::Duration;

use crate::store::effects::Recorder;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::error::{Error, Result};
use super::feed::Reloads;
use super::lock_report::LockReport;
use super::primary::Primary;
use super::recording;
use super::write_health::WriteHealth;
use crate::observe::spans::{Timed, span};
use batch_writer::BatchWriter;
use callers::Callers;
use deferred::{DeferredQueue, DeferredTask};
use job::{BATCH_MAX, WaitingJob};
pub(super) use job::{Job, JobOrigin};
use outcome::Outcome;

/// Maximum number of requests waiting for the writer; further ones fail with 503.
const WAITING_MAX: usize = 4096;

/// Access to the claim writer. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ClaimWriter {
    jobs: mpsc::Sender<WaitingJob>,
    health: WriteHealth,
    /// Time that a caller waits. A job that has not been started by then is never written; one that has been
    /// started may be.
    patience: Duration,
}

impl ClaimWriter {
    /// Starts the tasks.
    pub(super) fn start(
        primary: &Primary,
        reloads: &Reloads,
        health: WriteHealth,
        report: LockReport,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(WAITING_MAX);
        let writer = || BatchWriter::new(primary.clone(), reloads.clone());
        let (task, deferred) = DeferredTask::new(writer(), report);
        tokio::spawn(task.run());
        tokio::spawn(run(writer(), queue, deferred));
        Self { jobs, health, patience: primary.timeouts().write }
    }

    /// Queues a job and waits for its outcome.
    pub(super) async fn submit(
        &self,
        recorder: &Recorder,
        job: impl FnOnce(JobOrigin) -> Job,
    ) -> Result<()> {
        let submitted = async { self.submit_within(job(JobOrigin::of(recorder.clone()))).await };
        submitted.timed(span!("claim")).await
    }

    async fn submit_within(&self, job: Job) -> Result<()> {
        let (response, done) = oneshot::channel();
        let deadline = Instant::now() + self.patience;
        let waiting = WaitingJob { job, response, deadline, queued: span!("queue") };
        self.jobs.try_send(waiting).map_err(|error| match error {
            TrySendError::Full(_) => {
                Error::Unavailable("too many claims wait to be written".to_owned())
            }
            TrySendError::Closed(_) => Error::bug("the claim writer has ended"),
        })?;
        let outcome = match timeout_at(deadline, done).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::bug("the claim writer has ended")),
            Err(_) => {
                Err(Error::Unavailable(format!("the claim took longer than {:?}", self.patience)))
            }
        };
        recording::claim(&outcome);
        self.health.record(&outcome);
        outcome
    }
}

/// Fails jobs that have waited too long with 503. They are never written.
fn end_late(waiting: &mut Vec<WaitingJob>) {
    let now = Instant::now();
    for late in waiting.extract_if(.., |it| it.deadline <= now) {
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
    let mut callers = Callers::default();
    while queue.recv_many(&mut waiting, BATCH_MAX).await > 0 {
        callers.gather(&mut queue, &mut waiting).await;
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
        callers.count(jobs.len(), &queue);
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
