//! A batch of claims that is written in parts, one after the other: it is split where a row is locked or a job
//! may be at fault. Has the outcome of each job.

use std::collections::{HashSet, VecDeque};

use uuid::Uuid;

use super::job::Job;
use super::locked_rows::LockedRows;
use super::outcome::{Outcome, Written};
use crate::store::error::{Error, Result};

/// Maximum number of splits of one batch after lock time-outs without a known locked row; then the rest of it is
/// deferred.
const SPLITS_MAX: u32 = 8;

/// A batch that is written in parts, one after the other.
pub(super) struct BatchParts<'j> {
    jobs: &'j [&'j Job],
    outcomes: Vec<Option<Outcome>>,
    /// The positions of jobs still to be written, part by part.
    left: VecDeque<Vec<usize>>,
    /// Consumers of deferred jobs.
    waiting: HashSet<Uuid>,
    locked: LockedRows,
    splits: u32,
}

impl<'j> BatchParts<'j> {
    pub(super) fn new(jobs: &'j [&'j Job]) -> Self {
        let all: Vec<usize> = (0..jobs.len()).collect();
        Self {
            jobs,
            outcomes: jobs.iter().map(|_| None).collect(),
            left: VecDeque::from([all]),
            waiting: HashSet::new(),
            locked: LockedRows::default(),
            splits: 0,
        }
    }

    /// Returns the next part, without jobs that come after a deferred job of their consumer.
    pub(super) fn next(&mut self) -> Option<Vec<usize>> {
        while let Some(mut part) = self.left.pop_front() {
            part.retain(|nth| !self.follows(*nth));
            if !part.is_empty() {
                return Some(part);
            }
        }
        None
    }

    /// Defers a job if it comes after a deferred one of its consumer.
    fn follows(&mut self, nth: usize) -> bool {
        let Some(job) = self.jobs.get(nth) else { return false };
        let follows = job.consumers().any(|consumer| self.waiting.contains(&consumer));
        if follows {
            self.block(nth, true);
        }
        follows
    }

    fn block(&mut self, nth: usize, row_known: bool) {
        if let Some(job) = self.jobs.get(nth) {
            self.waiting.extend(job.consumers());
        }
        self.end(nth, Outcome::Blocked { row_known });
    }

    pub(super) fn defer_all(&mut self, part: Vec<usize>, row_known: bool) {
        for nth in part {
            self.block(nth, row_known);
        }
    }

    fn end(&mut self, nth: usize, outcome: Outcome) {
        if let Some(slot) = self.outcomes.get_mut(nth) {
            *slot = Some(outcome);
        }
    }

    pub(super) fn note(&mut self, part: &[usize], verdicts: Vec<Result<()>>) {
        if verdicts.len() != part.len() {
            let (verdicts, jobs) = (verdicts.len(), part.len());
            let bug = Error::bug(format!("{jobs} claims were judged with {verdicts} verdicts"));
            return self.fail(part, &bug);
        }
        for (nth, verdict) in part.iter().zip(verdicts) {
            self.end(*nth, Outcome::Done(verdict));
        }
    }

    /// Records a failed part. If the database is away, all remaining parts fail with it: nothing of them has begun,
    /// and each would wait for the dead server again.
    pub(super) fn fail(&mut self, part: &[usize], error: &Error) {
        for nth in part {
            self.end(*nth, Outcome::Done(Err(error.clone())));
        }
        if matches!(error, Error::Unavailable(_)) {
            for nth in std::mem::take(&mut self.left).into_iter().flatten() {
                self.end(nth, Outcome::Done(Err(error.clone())));
            }
        }
    }

    /// Records a part that met a lock. Its jobs that need a locked row are deferred; if none does, the part is
    /// halved.
    pub(super) fn defer_blocked(&mut self, part: Vec<usize>, locked: LockedRows, why: &str) {
        let needs = |nth: &usize| self.jobs.get(*nth).is_some_and(|job| locked.blocks(job));
        let (keep, mut free): (Vec<usize>, Vec<usize>) = part.into_iter().partition(needs);
        tracing::debug!(why, locked = keep.len(), free = free.len(), "claims have met a lock");
        for nth in &keep {
            self.block(*nth, true);
        }
        self.locked.extend(locked);
        if !keep.is_empty() {
            self.left.push_front(free);
            return;
        }
        self.splits += 1;
        if free.len() == 1 || self.splits > SPLITS_MAX {
            return self.defer_all(free, false);
        }
        let second = free.split_off(free.len() / 2);
        self.left.push_front(second);
        self.left.push_front(free);
    }

    /// Makes a part of each job.
    pub(super) fn separate(&mut self, part: Vec<usize>) {
        for nth in part.into_iter().rev() {
            self.left.push_front(vec![nth]);
        }
    }

    pub(super) fn written(self) -> Written {
        let none = || Outcome::Done(Outcome::settled(None));
        let outcomes = self.outcomes.into_iter().map(|it| it.unwrap_or_else(none)).collect();
        Written { outcomes, locked: self.locked }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use uuid::Uuid;

    use super::{BatchParts, Job, Outcome, SPLITS_MAX};
    use crate::model::Refusal;
    use crate::store::error::Error;
    use crate::store::writer::job::JobOrigin;
    use crate::store::writer::locked_rows::LockedRows;

    /// Writes parts as if these jobs met a lock, of which only those in `known` can be identified. Returns how each
    /// job ended, and the number of parts.
    fn write(jobs: &[Job], locked: &[usize], known: &[usize]) -> (String, usize) {
        let jobs: Vec<&Job> = jobs.iter().collect();
        let (mut parts, mut count) = (BatchParts::new(&jobs), 0);
        while let Some(part) = parts.next() {
            count += 1;
            if part.iter().any(|nth| locked.contains(nth)) {
                let known = part.iter().filter(|nth| known.contains(nth));
                let consumers: HashSet<Uuid> =
                    known.flat_map(|nth| jobs[*nth].consumers()).collect();
                parts.defer_blocked(
                    part,
                    LockedRows { consumers, ..LockedRows::default() },
                    "locked",
                );
            } else {
                let verdicts = vec![Ok(()); part.len()];
                parts.note(&part, verdicts);
            }
        }
        let outcomes = parts.written().outcomes;
        let letters = outcomes.iter().map(|outcome| match outcome {
            Outcome::Done(Ok(())) => 'w',
            Outcome::Done(Err(_)) => 'e',
            Outcome::Blocked { row_known: true } => 'h',
            Outcome::Blocked { row_known: false } => '?',
        });
        (letters.collect(), count)
    }

    fn jobs(count: usize) -> Vec<Job> {
        (0..count).map(|_| Job::Release(Uuid::new_v4(), JobOrigin::none())).collect()
    }

    #[test]
    fn jobs_that_need_a_locked_row_are_deferred_and_the_others_written_together() {
        assert_eq!(write(&jobs(6), &[1, 4], &[1, 4]), ("whwwhw".to_owned(), 2));
        assert_eq!(write(&jobs(1), &[0], &[0]), ("h".to_owned(), 1));
    }

    #[test]
    fn a_job_that_meets_a_lock_with_no_row_to_blame_is_found_by_halving() {
        let (outcomes, parts) = write(&jobs(8), &[5], &[]);
        assert_eq!(outcomes, "wwwww?ww");
        assert_eq!(parts, 7, "all, halves, quarters, pairs and one");
    }

    #[test]
    fn halving_ends() {
        let all: Vec<usize> = (0..64).collect();
        let (outcomes, parts) = write(&jobs(64), &all, &[]);
        assert_eq!(outcomes, "?".repeat(64));
        assert!(parts <= 64 + usize::try_from(SPLITS_MAX).unwrap(), "{parts}");
    }

    #[test]
    fn a_job_does_not_pass_a_deferred_one_of_its_consumer() {
        let mut jobs = jobs(4);
        jobs.push(jobs[1].clone());
        assert_eq!(write(&jobs, &[1], &[1]).0, "whwwh");
        assert_eq!(write(&jobs, &[1], &[]).0, "w?wwh");
    }

    #[test]
    fn parts_that_are_left_fail_with_one_that_finds_the_database_away() {
        let jobs = jobs(4);
        let jobs: Vec<&Job> = jobs.iter().collect();
        let mut parts = BatchParts::new(&jobs);
        let part = parts.next().unwrap();
        parts.separate(part);
        let first = parts.next().unwrap();
        parts.fail(&first, &Error::bug("this one alone"));
        let second = parts.next().unwrap();
        parts.fail(&second, &Error::Unavailable("away".to_owned()));
        assert!(parts.next().is_none());
        let outcomes = parts.written().outcomes;
        assert!(matches!(outcomes[0], Outcome::Done(Err(Error::Bug(_)))), "{outcomes:?}");
        for outcome in &outcomes[1..] {
            assert!(matches!(outcome, Outcome::Done(Err(Error::Unavailable(_)))), "{outcome:?}");
        }
    }

    #[test]
    fn a_claim_without_a_verdict_is_not_acknowledged() {
        let jobs = jobs(2);
        let jobs: Vec<&Job> = jobs.iter().collect();
        let mut parts = BatchParts::new(&jobs);
        let part = parts.next().unwrap();
        parts.note(&part, vec![Ok(())]);
        for outcome in parts.written().outcomes {
            assert!(matches!(outcome, Outcome::Done(Err(Error::Bug(_)))), "{outcome:?}");
        }
        let none = Outcome::settled(None);
        assert!(matches!(none, Err(Error::Bug(_))), "{none:?}");
        let refused = Outcome::settled(Some(Outcome::Done(Err(Refusal::ParentIsSelf.into()))));
        assert!(matches!(refused, Err(Error::Refused(..))), "{refused:?}");
    }
}
