//! Where claims are written: one connection, one transaction at a time.

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use uuid::Uuid;

use super::Job;
use super::held::Held;
use crate::model::Refusal;
use crate::model::claim::{Request, judge};
use crate::store::change::{ATTEMPTS_MAX, Change, Tx, pause, transact};
use crate::store::claims::{self, Moves, Needs};
use crate::store::error::{Error, Result};
use crate::store::feed::Reloads;
use crate::store::owners::{Added, Newcomers, Owners};
use crate::store::planner::Arrivals;
use crate::store::plans::{self, Plans};
use crate::store::primary::{IN_DOUBT, Primary, Term};
use crate::store::{locks, waiting};

/// How many lock time-outs without a row to blame one batch is split for; then what is left of it is
/// set aside.
const SPLITS_MAX: u32 = 8;
/// How long one transaction may take before its jobs are answered. Shorter than a caller waits, so
/// that jobs that come after it can be written in time.
const ATTEMPT_MAX: Duration = Duration::from_secs(8);
/// How long a look at which rows are held may take, with connecting.
const PROBE_MAX: Duration = Duration::from_secs(5);
/// Transactions without an outcome, each with a connection, beside the one that is under way. With
/// more, the writer would only add sessions to a server that does not answer.
const UNSETTLED_MAX: usize = 2;

type Verdict = std::result::Result<(), Refusal>;

/// What has become of a job.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It has been written, or never will be.
    Done(Result<()>),
    /// It met a lock that somebody else holds, on a row that is known if it is `explained`. Nothing
    /// of it has been written.
    Held { explained: bool },
}

impl Outcome {
    /// The outcome of a job that is not held; to have none is a bug.
    pub(super) fn settled(outcome: Option<Self>) -> Result<()> {
        match outcome {
            Some(Self::Done(outcome)) => outcome,
            Some(Self::Held { .. }) | None => Err(Error::bug("a claim has no verdict")),
        }
    }
}

/// What has become of a batch.
#[derive(Debug)]
pub(super) struct Written {
    /// Job by job.
    pub(super) outcomes: Vec<Outcome>,
    /// Rows that were found to be held by others.
    pub(super) held: Held,
}

/// What one transaction is made of.
struct Batch {
    requests: Vec<Request>,
    newcomers: Newcomers,
}

impl Change for Batch {
    const NAME: &'static str = "claims";
    type Outcome = (Vec<Verdict>, Added);

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let mut locked = claims::lock(tx, &Needs::of(&self.requests)).await?;
        let claims = self.requests.iter().flat_map(|request| match request {
            Request::Replace(claims) => claims.as_slice(),
            Request::Release(_) => &[],
        });
        let mut arrivals = Arrivals::find(tx, &mut locked, claims, &self.newcomers).await?;
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
        let added = self.newcomers.settle(tx.conn, &mut locked.books).await?;
        let moved = before.since(&locked.books);
        claims::write(tx, &locked, &moved).await?;
        arrivals.settle(tx, &locked).await?;
        Ok((verdicts, added))
    }
}

/// A connection and what is remembered beside it.
pub(super) struct Desk {
    primary: Primary,
    /// See [`Tx::report_only`].
    report_only: bool,
    conn: Option<(PgConnection, Arc<Term>)>,
    /// Transactions that were given up, and go on until their outcome is known.
    unsettled: JoinSet<()>,
    plans: Plans,
    owners: Owners,
    reloads: Reloads,
    /// How many there were when the first of `owners` was remembered.
    reloads_before: u64,
}

impl Desk {
    /// A desk that connects when it has something to write.
    pub(super) fn new(primary: Primary, report_only: bool, reloads: Reloads) -> Self {
        Self {
            primary,
            report_only,
            conn: None,
            unsettled: JoinSet::new(),
            plans: Plans::new(),
            owners: Owners::default(),
            reloads_before: reloads.count(),
            reloads,
        }
    }

    /// Gives the connection back.
    pub(super) fn rest(&mut self) {
        self.conn = None;
    }

    /// Writes the jobs together. When that fails for a reason that may be one job's alone, they are
    /// split; jobs that need a row which somebody else holds are not written.
    ///
    /// Jobs of one consumer keep their order: one that comes after a held one is held as well.
    pub(super) async fn write(&mut self, jobs: &[&Job]) -> Written {
        let mut parts = Parts::new(jobs);
        while let Some(part) = parts.next() {
            let together: Vec<&Job> =
                part.iter().filter_map(|nth| jobs.get(*nth)).copied().collect();
            match self.settle(&together).await {
                Ok(verdicts) => parts.note(&part, verdicts),
                Err(Error::Locked(why)) => match self.held(&together).await {
                    Ok(held) => parts.set_aside(part, held, &why),
                    // Somebody has locked a table, so nothing can be written.
                    Err(Error::Locked(_)) => parts.hold_all(part, true),
                    Err(error) => parts.fail(&part, &error.settled()),
                },
                Err(error) if error.is_ours() && part.len() > 1 => {
                    tracing::warn!(%error, jobs = part.len(), "writing claims one by one");
                    parts.separate(part);
                }
                Err(error) => parts.fail(&part, &error),
            }
        }
        parts.written()
    }

    /// Which rows that the jobs need are held by others.
    pub(super) async fn held(&mut self, jobs: &[&Job]) -> Result<Held> {
        let probed = timeout(PROBE_MAX, self.try_held(jobs)).await;
        self.found(probed)
    }

    async fn try_held(&mut self, jobs: &[&Job]) -> Result<Held> {
        let conn = self.conn().await?;
        Held::find(conn, jobs).await
    }

    /// Adds to what is known to be held those consumers of the jobs that draw upon it.
    pub(super) async fn find_drawing(&mut self, held: &mut Held, jobs: &[&Job]) -> Result<()> {
        // Nobody draws upon nothing, and to ask may mean to connect.
        if held.providers.is_empty() {
            return Ok(());
        }
        let probed = timeout(PROBE_MAX, self.try_find_drawing(held, jobs)).await;
        self.found(probed)
    }

    async fn try_find_drawing(&mut self, held: &mut Held, jobs: &[&Job]) -> Result<()> {
        let conn = self.conn().await?;
        held.find_drawing(conn, jobs).await
    }

    /// What a probe has found. A connection on which one has failed is not used again.
    fn found<T>(&mut self, probed: std::result::Result<Result<T>, Elapsed>) -> Result<T> {
        let found = match probed {
            Ok(found) => found,
            Err(_) => Err(Error::Unavailable(format!("no outcome within {PROBE_MAX:?}"))),
        };
        if found.is_err() {
            self.conn = None;
        }
        found
    }

    /// One transaction for all, tried again while that may help.
    async fn settle(&mut self, jobs: &[&Job]) -> Result<Vec<Verdict>> {
        let mut attempt = 1;
        loop {
            match self.try_settle(jobs).await {
                Ok(verdicts) => return Ok(verdicts),
                Err(Error::Locked(why)) => return Err(Error::Locked(why)),
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

    async fn try_settle(&mut self, jobs: &[&Job]) -> Result<Vec<Verdict>> {
        let prepared = AssertUnwindSafe(timeout(ATTEMPT_MAX, self.prepare(jobs))).catch_unwind();
        let batch = prepared.await.map_err(|_panic| panicked())?.unwrap_or_else(|_| Err(late()))?;
        let Some((mut conn, term)) = self.conn.take() else {
            return Err(Error::bug("the claim writer has no connection"));
        };
        let report_only = self.report_only;
        let mut attempt = Box::pin(async move {
            let written = AssertUnwindSafe(transact(&mut conn, &batch, report_only)).catch_unwind();
            let settled = tokio::select! {
                settled = written => settled.unwrap_or_else(|_panic| Err(panicked())),
                () = term.over() => Err(in_doubt()),
            };
            let is_over = term.is_over();
            ((conn, term), settled.and_then(|it| if is_over { Err(in_doubt()) } else { Ok(it) }))
        });
        let Ok((connected, settled)) = timeout(ATTEMPT_MAX, &mut attempt).await else {
            // It may have been committed all the same. The server would keep the session of a
            // commit that hangs, so the connection is kept as well, and counts.
            self.unsettled.spawn(async move { drop(attempt.await) });
            self.primary.suspect();
            return Err(late());
        };
        // A transaction that failed otherwise ends with its connection.
        if matches!(settled, Ok(_) | Err(Error::Locked(_) | Error::Refused(_))) {
            self.conn = Some(connected);
        }
        let (verdicts, added) = settled?;
        self.owners.remember(added);
        Ok(verdicts)
    }

    /// Connects, and looks up what the jobs name.
    async fn prepare(&mut self, jobs: &[&Job]) -> Result<Batch> {
        self.conn().await?;
        let reloads = self.reloads.count();
        if reloads != self.reloads_before {
            // Behind the same connection, too: a dump may have been restored.
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
        let mut newcomers = Newcomers::default();
        let mut requests = Vec::with_capacity(jobs.len());
        for job in jobs {
            requests.push(match job {
                Job::Replace(claims) => Request::Replace(owners.resolve(claims, &mut newcomers)?),
                Job::Release(consumer) => Request::Release(*consumer),
            });
        }
        Ok(Batch { requests, newcomers })
    }

    async fn conn(&mut self) -> Result<&mut PgConnection> {
        if self.conn.as_ref().is_none_or(|(_, term)| term.is_over()) {
            while self.unsettled.try_join_next().is_some() {}
            if self.unsettled.len() >= UNSETTLED_MAX {
                let why = "the outcome of earlier transactions is not known yet";
                return Err(Error::Unavailable(why.to_owned()));
            }
            // Behind a new connection there may be a database that has gone back in time.
            self.owners = Owners::default();
            self.conn = Some(self.primary.connect(settings).await?);
        }
        let conn = self.conn.as_mut().map(|(conn, _)| conn);
        conn.ok_or_else(|| Error::bug("the claim writer has no connection"))
    }
}

fn settings(options: PgConnectOptions) -> PgConnectOptions {
    waiting(plans::settings(options), locks::WRITER_WAIT_MAX)
}

fn panicked() -> Error {
    Error::bug("writing claims panicked")
}

fn in_doubt() -> Error {
    Error::Unavailable(IN_DOUBT.to_owned())
}

fn late() -> Error {
    Error::Unavailable(format!("no outcome within {ATTEMPT_MAX:?}"))
}

/// A batch on its way, in parts that are written one after the other.
struct Parts<'j> {
    jobs: &'j [&'j Job],
    outcomes: Vec<Option<Outcome>>,
    /// The numbers of jobs that are still to be written, part by part.
    left: VecDeque<Vec<usize>>,
    /// Consumers of jobs that are set aside.
    waiting: HashSet<Uuid>,
    held: Held,
    splits: u32,
}

impl<'j> Parts<'j> {
    fn new(jobs: &'j [&'j Job]) -> Self {
        let all: Vec<usize> = (0..jobs.len()).collect();
        Self {
            jobs,
            outcomes: jobs.iter().map(|_| None).collect(),
            left: VecDeque::from([all]),
            waiting: HashSet::new(),
            held: Held::default(),
            splits: 0,
        }
    }

    /// The next part, without those that come after a held job of their consumer.
    fn next(&mut self) -> Option<Vec<usize>> {
        while let Some(mut part) = self.left.pop_front() {
            part.retain(|nth| !self.follows(*nth));
            if !part.is_empty() {
                return Some(part);
            }
        }
        None
    }

    /// Sets a job aside if it comes after a held one of its consumer.
    fn follows(&mut self, nth: usize) -> bool {
        let Some(job) = self.jobs.get(nth) else { return false };
        let follows = job.consumers().any(|consumer| self.waiting.contains(&consumer));
        if follows {
            self.hold(nth, true);
        }
        follows
    }

    fn hold(&mut self, nth: usize, explained: bool) {
        if let Some(job) = self.jobs.get(nth) {
            self.waiting.extend(job.consumers());
        }
        self.end(nth, Outcome::Held { explained });
    }

    fn hold_all(&mut self, part: Vec<usize>, explained: bool) {
        for nth in part {
            self.hold(nth, explained);
        }
    }

    fn end(&mut self, nth: usize, outcome: Outcome) {
        if let Some(slot) = self.outcomes.get_mut(nth) {
            *slot = Some(outcome);
        }
    }

    fn note(&mut self, part: &[usize], verdicts: Vec<Verdict>) {
        if verdicts.len() != part.len() {
            let (verdicts, jobs) = (verdicts.len(), part.len());
            let bug = Error::bug(format!("{jobs} claims were judged with {verdicts} verdicts"));
            return self.fail(part, &bug);
        }
        for (nth, verdict) in part.iter().zip(verdicts) {
            self.end(*nth, Outcome::Done(verdict.map_err(Error::Refused)));
        }
    }

    /// A part has failed. When the database is away, all that is left fails with it: nothing of that
    /// has begun, and each part would wait for a dead server anew.
    fn fail(&mut self, part: &[usize], error: &Error) {
        for nth in part {
            self.end(*nth, Outcome::Done(Err(error.clone())));
        }
        if matches!(error, Error::Unavailable(_)) {
            for nth in std::mem::take(&mut self.left).into_iter().flatten() {
                self.end(nth, Outcome::Done(Err(error.clone())));
            }
        }
    }

    /// A part has met a lock. Those of its jobs that need a held row are set aside; if there is none
    /// to blame, the part is halved.
    fn set_aside(&mut self, part: Vec<usize>, held: Held, why: &str) {
        let needs = |nth: &usize| self.jobs.get(*nth).is_some_and(|job| held.keeps(job));
        let (keep, mut free): (Vec<usize>, Vec<usize>) = part.into_iter().partition(needs);
        tracing::debug!(why, held = keep.len(), free = free.len(), "claims have met a lock");
        for nth in &keep {
            self.hold(*nth, true);
        }
        self.held.extend(held);
        if !keep.is_empty() {
            self.left.push_front(free);
            return;
        }
        self.splits += 1;
        if free.len() == 1 || self.splits > SPLITS_MAX {
            return self.hold_all(free, false);
        }
        let second = free.split_off(free.len() / 2);
        self.left.push_front(second);
        self.left.push_front(free);
    }

    /// Each job of a part by itself.
    fn separate(&mut self, part: Vec<usize>) {
        for nth in part.into_iter().rev() {
            self.left.push_front(vec![nth]);
        }
    }

    fn written(self) -> Written {
        let none = || Outcome::Done(Outcome::settled(None));
        let outcomes = self.outcomes.into_iter().map(|it| it.unwrap_or_else(none)).collect();
        Written { outcomes, held: self.held }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use uuid::Uuid;

    use super::{Job, Outcome, Parts, SPLITS_MAX};
    use crate::model::Refusal;
    use crate::store::error::Error;
    use crate::store::writer::held::Held;

    /// Writes parts as if these jobs met a lock, and those of them that are `known` could be blamed;
    /// how each job ended, and how many parts there were.
    fn write(jobs: &[Job], locked: &[usize], known: &[usize]) -> (String, usize) {
        let jobs: Vec<&Job> = jobs.iter().collect();
        let (mut parts, mut count) = (Parts::new(&jobs), 0);
        while let Some(part) = parts.next() {
            count += 1;
            if part.iter().any(|nth| locked.contains(nth)) {
                let known = part.iter().filter(|nth| known.contains(nth));
                let consumers: HashSet<Uuid> =
                    known.flat_map(|nth| jobs[*nth].consumers()).collect();
                parts.set_aside(part, Held { consumers, ..Held::default() }, "locked");
            } else {
                let verdicts = vec![Ok(()); part.len()];
                parts.note(&part, verdicts);
            }
        }
        let outcomes = parts.written().outcomes;
        let letters = outcomes.iter().map(|outcome| match outcome {
            Outcome::Done(Ok(())) => 'w',
            Outcome::Done(Err(_)) => 'e',
            Outcome::Held { explained: true } => 'h',
            Outcome::Held { explained: false } => '?',
        });
        (letters.collect(), count)
    }

    fn jobs(count: usize) -> Vec<Job> {
        (0..count).map(|_| Job::Release(Uuid::new_v4())).collect()
    }

    #[test]
    fn jobs_that_need_a_held_row_are_set_aside_and_the_others_written_together() {
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
    fn a_job_does_not_pass_a_held_one_of_its_consumer() {
        let mut jobs = jobs(4);
        jobs.push(jobs[1].clone());
        assert_eq!(write(&jobs, &[1], &[1]).0, "whwwh");
        assert_eq!(write(&jobs, &[1], &[]).0, "w?wwh");
    }

    #[test]
    fn parts_that_are_left_fail_with_one_that_finds_the_database_away() {
        let jobs = jobs(4);
        let jobs: Vec<&Job> = jobs.iter().collect();
        let mut parts = Parts::new(&jobs);
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
        let mut parts = Parts::new(&jobs);
        let part = parts.next().unwrap();
        parts.note(&part, vec![Ok(())]);
        for outcome in parts.written().outcomes {
            assert!(matches!(outcome, Outcome::Done(Err(Error::Bug(_)))), "{outcome:?}");
        }
        let none = Outcome::settled(None);
        assert!(matches!(none, Err(Error::Bug(_))), "{none:?}");
        let refused = Outcome::settled(Some(Outcome::Done(Err(Refusal::ParentIsSelf.into()))));
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
}
