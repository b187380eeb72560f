//! Claims that are set aside, because a row which they need is held by somebody else: they wait here
//! while all others are written.
//!
//! A task of its own asks again and again which of the rows are free, without waiting for any, and
//! writes what it can on its own connection. A row that many write is hardly ever free when it is
//! asked for, so a few jobs are tried in each round all the same: they wait in line for their rows.
//! Jobs of one consumer keep their order: while one is set
//! aside, those that come after it are as well.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use super::batch_writer::{BatchWriter, Outcome};
use super::held::Held;
use super::{BATCH_MAX, HELD_MAX, Job, WAIT_MAX, Waiting};
use crate::store::error::{Error, Result};

/// Jobs that may be set aside at once; more are told to come back.
const ASIDE_MAX: usize = 1024;
/// How long to wait before asking again whether rows are free.
const PAUSE: Duration = Duration::from_millis(25);
/// Jobs in one round that are tried by themselves, whatever was found to be held.
const ALONE_MAX: usize = 2;
/// A row that so many rounds in a row have found held, for [`LONG_PAUSE`] at least, is held for long:
/// a few rounds may take no time at all.
const LONG: u32 = 8;
/// How often a job that needs such a row is tried: while it waits, it holds its other rows.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// What the writer and those set aside know of each other.
#[derive(Debug, Default)]
struct Shared {
    jobs: usize,
    /// Consumers of jobs that are set aside, with how many.
    consumers: HashMap<Uuid, usize>,
    held: Held,
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
            self.held = Held::default();
        }
    }
}

/// A panic elsewhere leaves counts whole enough: the worst is a job set aside in vain.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writer's way to set jobs aside.
#[derive(Debug)]
pub(super) struct Lane {
    shared: Arc<Mutex<Shared>>,
    jobs: mpsc::UnboundedSender<Waiting>,
}

impl Lane {
    /// Sets aside those that need a row which is known to be held, or come after a job of their
    /// consumer that is set aside; gives back the others.
    pub(super) async fn divert(
        &mut self,
        writer: &mut BatchWriter,
        batch: Vec<Waiting>,
    ) -> Vec<Waiting> {
        let mut held = {
            let shared = lock(&self.shared);
            if shared.jobs == 0 {
                return batch;
            }
            shared.held.clone()
        };
        let jobs: Vec<&Job> = batch.iter().map(|it| &it.job).collect();
        if let Err(error) = writer.find_drawing(&mut held, &jobs).await {
            tracing::debug!(%error, "who draws upon held providers is not known");
        }
        let mut others = Vec::with_capacity(batch.len());
        for waiting in batch {
            if held.keeps(&waiting.job) || self.follows(&waiting.job) {
                self.set_aside(waiting);
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

    /// Sets a job aside.
    pub(super) fn set_aside(&self, waiting: Waiting) {
        {
            let mut shared = lock(&self.shared);
            if shared.jobs >= ASIDE_MAX {
                drop(shared);
                let why = "too many claims wait for rows that others hold".to_owned();
                return waiting.end(Err(Error::Unavailable(why)));
            }
            shared.add(&waiting.job);
        }
        if let Err(unsent) = self.jobs.send(waiting) {
            let bug = Error::bug("the task of claims that are set aside has ended");
            end(&self.shared, unsent.0, Err(bug));
        }
    }

    /// Notes rows that were found to be held.
    pub(super) fn learn(&self, held: Held) {
        let mut shared = lock(&self.shared);
        if shared.jobs > 0 && !held.is_empty() {
            shared.held.extend(held);
        }
    }
}

/// A job that is set aside.
#[derive(Debug)]
struct Aside {
    waiting: Waiting,
    since: Instant,
    /// How often it was tried in vain.
    tries: u32,
    /// Whether it met a lock without a row to blame.
    unexplained: bool,
}

/// The jobs that are set aside, numbered in the order in which they came.
pub(super) struct Lot {
    writer: BatchWriter,
    shared: Arc<Mutex<Shared>>,
    queue: mpsc::UnboundedReceiver<Waiting>,
    jobs: BTreeMap<u64, Aside>,
    next: u64,
    /// In how many rounds in a row a row was found held, and when first.
    rounds: HashMap<Uuid, (u32, Instant)>,
    /// When a job that needs a row which is held for long was last tried.
    tried_long: Instant,
}

impl Lot {
    /// An empty lot, and the way to it. The queue between is bounded by what may be set aside.
    pub(super) fn new(writer: BatchWriter) -> (Self, Lane) {
        let (jobs, queue) = mpsc::unbounded_channel();
        let shared: Arc<Mutex<Shared>> = Arc::default();
        let lane = Lane { shared: Arc::clone(&shared), jobs };
        let (jobs, rounds, tried_long) = (BTreeMap::new(), HashMap::new(), Instant::now());
        (Self { writer, shared, queue, jobs, next: 0, rounds, tried_long }, lane)
    }

    /// Writes what becomes free, until the writer ends.
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
            let got_on = round.unwrap_or_else(|_panic| {
                // The connection, which may be in any state, is given back when no job is left.
                self.end_all(&Error::bug("writing claims that were set aside panicked"));
                true
            });
            if !got_on {
                // Asking takes at most half of the time of one connection.
                tokio::time::sleep(PAUSE.max(began.elapsed())).await;
            }
        }
    }

    fn push(&mut self, waiting: Waiting) {
        let aside = Aside { waiting, since: Instant::now(), tries: 0, unexplained: false };
        self.jobs.insert(self.next, aside);
        self.next += 1;
    }

    /// Answers those that have waited for too long; they are never written.
    fn give_up(&mut self) {
        let is_late =
            |it: &Aside| it.since.elapsed() >= HELD_MAX || it.waiting.arrived.elapsed() >= WAIT_MAX;
        for (_, aside) in self.jobs.extract_if(.., |_, it| is_late(it)) {
            let why = "another transaction holds a row that the claim needs".to_owned();
            end(&self.shared, aside.waiting, Err(Error::Unavailable(why)));
        }
    }

    fn end_all(&mut self, error: &Error) {
        for aside in std::mem::take(&mut self.jobs).into_values() {
            end(&self.shared, aside.waiting, Err(error.clone()));
        }
    }

    /// Writes those that are free; tells whether it got on with any.
    async fn round(&mut self) -> bool {
        let jobs: Vec<&Job> = self.jobs.values().map(|it| &it.waiting.job).collect();
        if jobs.is_empty() {
            return false;
        }
        let held = match self.writer.held(&jobs).await {
            Ok(held) => held,
            Err(Error::Again(_) | Error::Locked(_)) => return false,
            Err(error) => {
                self.end_all(&error);
                return true;
            }
        };
        self.count_rounds(&held);
        let parts = self.parts(&held);
        // Rows that others hold for a moment only are worth a wait.
        lock(&self.shared).held =
            held.only(|row| self.rounds.get(row).is_some_and(|(count, _)| *count > 1));
        let mut any = false;
        for part in parts {
            any |= self.write(part).await;
        }
        any
    }

    fn count_rounds(&mut self, held: &Held) {
        self.rounds.retain(|row, _| held.consumers.contains(row) || held.providers.contains(row));
        for row in held.consumers.iter().chain(&held.providers) {
            let (count, _) = self.rounds.entry(*row).or_insert_with(|| (0, Instant::now()));
            *count += 1;
        }
    }

    /// The numbers of jobs to be tried: those whose rows are free together, then some of the others,
    /// each by itself. Jobs whose rows are not held for long come first, then those tried least.
    fn parts(&mut self, held: &Held) -> Vec<Vec<u64>> {
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        let mut waiting: HashSet<Uuid> = HashSet::new();
        // Consumers of those that are tried together: they may turn out to be held, and a later job
        // of theirs that is tried alone would pass them.
        let mut begun: HashSet<Uuid> = HashSet::new();
        for (number, aside) in &self.jobs {
            let job = &aside.waiting.job;
            let follows = job.consumers().any(|consumer| waiting.contains(&consumer));
            let is_free = !follows && !held.keeps(job) && !aside.unexplained;
            if is_free && together.len() < BATCH_MAX {
                together.push(*number);
                begun.extend(job.consumers());
                continue;
            }
            let has_begun = job.consumers().any(|consumer| begun.contains(&consumer));
            if !follows && !is_free && !has_begun {
                alone.push((self.is_held_for_long(job), aside.tries, *number));
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

    /// Writes these jobs; tells whether one has got its outcome.
    async fn write(&mut self, numbers: Vec<u64>) -> bool {
        // They stay in the lot while they are written, so that they are ended whatever happens.
        let jobs = numbers.iter().filter_map(|number| self.jobs.get(number));
        let jobs: Vec<&Job> = jobs.map(|it| &it.waiting.job).collect();
        let mut outcomes = self.writer.write(&jobs).await.outcomes.into_iter();
        let mut any = false;
        for number in numbers {
            let Some(mut aside) = self.jobs.remove(&number) else { continue };
            match outcomes.next() {
                Some(Outcome::Held { explained }) => {
                    aside.tries += 1;
                    aside.unexplained = !explained;
                    self.jobs.insert(number, aside);
                }
                settled => {
                    any = true;
                    end(&self.shared, aside.waiting, Outcome::settled(settled));
                }
            }
        }
        any
    }
}

fn end(shared: &Mutex<Shared>, waiting: Waiting, outcome: Result<()>) {
    lock(shared).remove(&waiting.job);
    waiting.end(outcome);
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::Instant;
    use uuid::Uuid;

    use super::{Held, Job, Lot, Waiting};
    use crate::store::feed::Reloads;
    use crate::store::primary::Primary;
    use crate::store::writer::batch_writer::BatchWriter;

    #[test]
    fn a_job_is_not_tried_alone_beside_an_earlier_one_of_its_consumer() {
        let writer = BatchWriter::new(Primary::unknown(), false, Reloads::default());
        let (mut lot, _lane) = Lot::new(writer);
        let consumer = Uuid::new_v4();
        for _ in 0..2 {
            let (answer, _) = oneshot::channel();
            let job = Job::Release(consumer);
            lot.push(Waiting { job, answer, arrived: Instant::now() });
        }
        lot.jobs.get_mut(&1).unwrap().unexplained = true;
        assert_eq!(lot.parts(&Held::default()), vec![vec![0]]);
        lot.jobs.remove(&0);
        assert_eq!(lot.parts(&Held::default()), vec![vec![1]]);
    }
}
