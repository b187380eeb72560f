//! Claims that are deferred because another transaction has locked a row that they need. They wait here
//! while all other claims are written.
//!
//! A second task with its own connection repeats rounds of two steps. It checks which of the rows are free
//! (`skip locked`, so it waits for none), and writes the jobs whose rows are free together, in one
//! transaction. A row that many transactions write is hardly ever free at the moment of the check, so
//! each round also tries up to [`ALONE_MAX`] of the other jobs, each in its own transaction, which
//! queues for the row like any other.
//!
//! Jobs of one consumer keep their order: while one is deferred, later ones are deferred as well.
//!
//! Example: an administrator has locked provider P in psql. Claims 1 and 3 of a batch need P, claim 2
//! does not. The writer's transaction times out at P, the writer finds P locked, defers 1 and 3, and
//! writes 2. Claims on P that arrive later are deferred at once, because P is known to be locked. When
//! the administrator commits, the next round finds P free and writes 1, 3 and the later ones.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use super::batch_writer::BatchWriter;
use super::job::{BATCH_MAX, Job, WaitingJob, scope_of};
use super::locked_rows::LockedRows;
use super::outcome::Outcome;
use crate::observe::spans::span;
use crate::store::error::{Error, Result};
use crate::store::lock_report::LockReport;

/// Maximum number of deferred jobs; further ones fail with 503.
const DEFERRED_MAX: usize = 1024;
/// Pause before checking again whether rows are free.
const PAUSE: Duration = Duration::from_millis(25);
/// Maximum number of jobs in one round that are tried alone, whether their rows were locked or not.
const ALONE_MAX: usize = 2;
/// Number of successive rounds, lasting at least [`LONG_PAUSE`], after which a locked row counts as locked for long:
/// a few rounds may take no time at all.
const LONG: u32 = 8;
/// Interval of attempts at a job that needs such a row: while it waits, it holds its other rows.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// State shared by the claim writer and the task of deferred claims.
#[derive(Debug, Default)]
struct Shared {
    jobs: usize,
    /// Number of deferred jobs by consumer.
    consumers: HashMap<Uuid, usize>,
    locked: LockedRows,
}

impl Shared {
    fn add(&mut self, job: &Job) {
        self.jobs += 1;
        for consumer in job.consumers() {
            *self.consumers.entry(consumer).or_default() += 1;
        }
    }

    fn remove(&mut self, job: &Job) {
        self.jobs = self.jobs.saturating_sub(1);
        for consumer in job.consumers() {
            if let Some(count) = self.consumers.get_mut(&consumer) {
                *count = count.saturating_sub(1);
            }
        }
        self.consumers.retain(|_, count| *count > 0);
        if self.jobs == 0 {
            self.locked = LockedRows::default();
        }
    }
}

/// A panic elsewhere leaves the counts usable: at worst, a job is deferred in vain.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The claim writer's end of the queue of deferred jobs.
#[derive(Debug)]
pub(super) struct DeferredQueue {
    shared: Arc<Mutex<Shared>>,
    jobs: mpsc::UnboundedSender<WaitingJob>,
}

impl DeferredQueue {
    /// Defers the jobs that need a row known to be locked, or that come after a deferred job of their consumer.
    /// Returns the others.
    pub(super) async fn defer_blocked(
        &self,
        writer: &mut BatchWriter,
        batch: Vec<WaitingJob>,
    ) -> Vec<WaitingJob> {
        let mut locked = {
            let shared = lock(&self.shared);
            if shared.jobs == 0 {
                return batch;
            }
            shared.locked.clone()
        };
        let jobs: Vec<&Job> = batch.iter().map(|it| &it.job).collect();
        let scope = scope_of(&jobs);
        let known = scope.clone().during(writer.add_consumers_of_locked(&mut locked, &jobs));
        if let Err(error) = known.await {
            scope.run(|| {
                tracing::debug!(%error, "the consumers of locked providers are unknown");
            });
        }
        let mut others = Vec::with_capacity(batch.len());
        for waiting in batch {
            if locked.blocks(&waiting.job) || self.follows(&waiting.job) {
                self.defer(waiting);
            } else {
                others.push(waiting);
            }
        }
        others
    }

    fn follows(&self, job: &Job) -> bool {
        let shared = lock(&self.shared);
        job.consumers().any(|consumer| shared.consumers.contains_key(&consumer))
    }

    /// Defers a job, or fails it with 503 if too many are deferred already.
    pub(super) fn defer(&self, mut waiting: WaitingJob) {
        waiting.queued = span!(parent: &waiting.job.origin().scope, "deferred");
        {
            let mut shared = lock(&self.shared);
            if shared.jobs >= DEFERRED_MAX {
                drop(shared);
                let why = "too many claims wait for rows that others hold".to_owned();
                return waiting.end(Err(Error::Unavailable(why)));
            }
            shared.add(&waiting.job);
        }
        if let Err(unsent) = self.jobs.send(waiting) {
            let bug = Error::bug("the task of deferred claims has ended");
            end(&self.shared, unsent.0, Err(bug));
        }
    }

    /// Records rows found to be locked.
    pub(super) fn note_locked(&self, locked: LockedRows) {
        let mut shared = lock(&self.shared);
        if shared.jobs > 0 && !locked.is_empty() {
            shared.locked.extend(locked);
        }
    }
}

/// A deferred job.
#[derive(Debug)]
struct DeferredJob {
    waiting: WaitingJob,
    since: Instant,
    /// Number of attempts in vain.
    tries: u32,
    /// Whether it met a lock on an unknown row.
    row_unknown: bool,
}

/// The deferred jobs, numbered in the order in which they came.
pub(super) struct DeferredTask {
    writer: BatchWriter,
    shared: Arc<Mutex<Shared>>,
    queue: mpsc::UnboundedReceiver<WaitingJob>,
    jobs: BTreeMap<u64, DeferredJob>,
    next: u64,
    /// Number of successive rounds in which a row was found locked, and the time of the first.
    rounds: HashMap<Uuid, (u32, Instant)>,
    /// The time of the last attempt at a job that needs a row which is locked for long.
    tried_long: Instant,
    report: LockReport,
}

impl DeferredTask {
    /// Makes a task without jobs, and its queue. [`DEFERRED_MAX`] bounds the queue.
    pub(super) fn new(writer: BatchWriter, report: LockReport) -> (Self, DeferredQueue) {
        let (jobs, queue) = mpsc::unbounded_channel();
        let shared: Arc<Mutex<Shared>> = Arc::default();
        let queue_to_task = DeferredQueue { shared: Arc::clone(&shared), jobs };
        let (jobs, rounds, tried_long) = (BTreeMap::new(), HashMap::new(), Instant::now());
        (Self { writer, shared, queue, jobs, next: 0, rounds, tried_long, report }, queue_to_task)
    }

    /// Writes jobs whose rows become free, until the writer ends.
    pub(super) async fn run(mut self) {
        loop {
            if self.jobs.is_empty() {
                self.writer.rest();
                let Some(first) = self.queue.recv().await else { return };
                self.push(first);
            }
            while let Ok(next) = self.queue.try_recv() {
                self.push(next);
            }
            self.give_up();
            let began = Instant::now();
            let round = AssertUnwindSafe(self.round()).catch_unwind().await;
            let progressed = round.unwrap_or_else(|_panic| {
                // The connection, which may be in any state, is given back when no job is left.
                self.end_all(&Error::bug("writing deferred claims panicked"));
                true
            });
            if !progressed {
                // Checking takes at most half of the time of one connection.
                tokio::time::sleep(PAUSE.max(began.elapsed())).await;
            }
        }
    }

    fn push(&mut self, waiting: WaitingJob) {
        let deferred = DeferredJob { waiting, since: Instant::now(), tries: 0, row_unknown: false };
        self.jobs.insert(self.next, deferred);
        self.next += 1;
    }

    /// Fails jobs that have waited too long with 503; they are never written.
    fn give_up(&mut self) {
        let (now, locked) = (Instant::now(), self.writer.timeouts().locked());
        let is_late = |it: &DeferredJob| now >= it.since + locked || now >= it.waiting.deadline;
        for (_, deferred) in self.jobs.extract_if(.., |_, it| is_late(it)) {
            self.report.start();
            let why = "another transaction holds a row that the claim needs".to_owned();
            end(&self.shared, deferred.waiting, Err(Error::Unavailable(why)));
        }
    }

    fn end_all(&mut self, error: &Error) {
        for deferred in std::mem::take(&mut self.jobs).into_values() {
            end(&self.shared, deferred.waiting, Err(error.clone()));
        }
    }

    /// Writes the jobs whose rows are free. Returns whether any job got its outcome.
    async fn round(&mut self) -> bool {
        let jobs: Vec<&Job> = self.jobs.values().map(|it| &it.waiting.job).collect();
        if jobs.is_empty() {
            return false;
        }
        let locked = match self.writer.locked(&jobs).await {
            Ok(locked) => locked,
            Err(Error::Again(_) | Error::Locked(_)) => return false,
            Err(error) => {
                self.end_all(&error);
                return true;
            }
        };
        self.count_rounds(&locked);
        let parts = self.parts(&locked);
        // Rows that others hold for a moment only are worth a wait.
        lock(&self.shared).locked =
            locked.only(|row| self.rounds.get(row).is_some_and(|(count, _)| *count > 1));
        let mut any = false;
        for part in parts {
            any |= self.write(part).await;
        }
        any
    }

    fn count_rounds(&mut self, locked: &LockedRows) {
        self.rounds
            .retain(|row, _| locked.consumers.contains(row) || locked.providers.contains(row));
        for row in locked.consumers.iter().chain(&locked.providers) {
            let (count, _) = self.rounds.entry(*row).or_insert_with(|| (0, Instant::now()));
            *count += 1;
        }
    }

    /// Returns the numbers of jobs to try: those whose rows are free together, then some of the others, each alone.
    /// Jobs whose rows are not locked for long come first, then those with the fewest attempts.
    fn parts(&mut self, locked: &LockedRows) -> Vec<Vec<u64>> {
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        let mut waiting: HashSet<Uuid> = HashSet::new();
        // Consumers of jobs that are tried together: they may turn out to be locked, and a later job of theirs that
        // is tried alone would overtake them.
        let mut tried_together: HashSet<Uuid> = HashSet::new();
        for (number, deferred) in &self.jobs {
            let job = &deferred.waiting.job;
            let follows = job.consumers().any(|consumer| waiting.contains(&consumer));
            let is_free = !follows && !locked.blocks(job) && !deferred.row_unknown;
            if is_free && together.len() < BATCH_MAX {
                together.push(*number);
                tried_together.extend(job.consumers());
                continue;
            }
            let is_tried = job.consumers().any(|consumer| tried_together.contains(&consumer));
            if !follows && !is_free && !is_tried {
                alone.push((self.is_held_for_long(job), deferred.tries, *number));
            }
            waiting.extend(job.consumers());
        }
        alone.sort_unstable();
        let mut parts = vec![together];
        for (is_long, _, number) in alone.into_iter().take(ALONE_MAX) {
            if is_long && self.tried_long.elapsed() < LONG_PAUSE {
                continue;
            }
            if is_long {
                self.tried_long = Instant::now();
            }
            parts.push(vec![number]);
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    fn is_held_for_long(&self, job: &Job) -> bool {
        let mut rows = job.consumers().chain(job.providers());
        rows.any(|row| {
            self.rounds
                .get(&row)
                .is_some_and(|(count, since)| *count >= LONG && since.elapsed() >= LONG_PAUSE)
        })
    }

    /// Writes these jobs. Returns whether one has got its outcome.
    async fn write(&mut self, numbers: Vec<u64>) -> bool {
        // They stay in the task while they are written, so that they get a response whatever happens.
        let jobs = numbers.iter().filter_map(|number| self.jobs.get(number));
        let jobs: Vec<&Job> = jobs.map(|it| &it.waiting.job).collect();
        let mut outcomes = self.writer.write(&jobs).await.outcomes.into_iter();
        let mut any = false;
        for number in numbers {
            let Some(mut deferred) = self.jobs.remove(&number) else { continue };
            match outcomes.next() {
                Some(Outcome::Blocked { row_known }) => {
                    deferred.tries += 1;
                    deferred.row_unknown = !row_known;
                    self.jobs.insert(number, deferred);
                }
                settled => {
                    any = true;
                    end(&self.shared, deferred.waiting, Outcome::settled(settled));
                }
            }
        }
        any
    }
}

fn end(shared: &Mutex<Shared>, waiting: WaitingJob, outcome: Result<()>) {
    lock(shared).remove(&waiting.job);
    waiting.end(outcome);
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::Instant;
    use uuid::Uuid;

    use super::{DeferredTask, Job, LONG_PAUSE, LockReport, LockedRows, WaitingJob};
    use crate::observe::spans::TimedSpan;
    use crate::store::feed::Reloads;
    use crate::store::primary::Primary;
    use crate::store::writer::batch_writer::BatchWriter;
    use crate::store::writer::job::JobOrigin;

    #[test]
    fn a_job_is_not_tried_alone_beside_an_earlier_one_of_its_consumer() {
        let writer = BatchWriter::new(Primary::unknown(), Reloads::default());
        let report = LockReport::new(Primary::unknown());
        let (mut task, _lane) = DeferredTask::new(writer, report);
        let consumer = Uuid::new_v4();
        for _ in 0..2 {
            let (response, _) = oneshot::channel();
            let job = Job::Release(consumer, JobOrigin::none());
            let deadline = Instant::now() + LONG_PAUSE;
            task.push(WaitingJob { job, response, deadline, queued: TimedSpan::none() });
        }
        task.jobs.get_mut(&1).unwrap().row_unknown = true;
        assert_eq!(task.parts(&LockedRows::default()), vec![vec![0]]);
        task.jobs.remove(&0);
        assert_eq!(task.parts(&LockedRows::default()), vec![vec![1]]);
    }
}
