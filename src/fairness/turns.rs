//! Turns at long work, shared fairly among requesters: projects for plans and searches, client addresses
//! for Keystone. However much one of them requests, the others get turns.
//!
//! A free turn goes to the requester that holds the fewest turns. Among those, work decides: each request
//! states its amount of work, and requesters get equal amounts of work (self-clocked fair queueing). So
//! a requester with little work comes before one with much, but not time and again. Of the requests of
//! one requester, the one with the least work comes first, until a request has been overtaken by as much
//! work as its own. If all requests are equal, requesters take turns, first come, first served.
//!
//! A requester holds a bounded number of turns at once, and a bounded number of its requests wait. A
//! request that is dropped, waiting or with its turn, leaves nothing behind.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Maximum number of requests that wait for a turn at plans or searches.
const WAITING_MAX: WaitingLimits = WaitingLimits { per_requester: 1024, total: usize::MAX };

/// A requester of turns, by its hash: two requesters with the same hash share their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Requester(u64);

impl Requester {
    /// Returns the project with an id.
    pub fn named(project: &str) -> Self {
        Self::hashed(project)
    }

    /// Hashes anything else that tells requesters apart.
    pub fn hashed(requester: impl Hash) -> Self {
        static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(SEED.hash_one(requester))
    }
}

/// Maximum numbers of waiting requests.
#[derive(Clone, Copy, Debug)]
pub struct WaitingLimits {
    /// Requests of one requester.
    pub per_requester: usize,
    /// Requests of all requesters.
    pub total: usize,
}

/// Too many requests of the requester, or of all, wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests of this project wait for their turns")]
pub struct QueueFull;

/// A number of turns that can be held at once. Clones share them.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    at_once: usize,
    of_each: usize,
    waiting_max: WaitingLimits,
    line: Mutex<Line>,
}

/// Requesters that hold turns or wait for them. While a turn is free, no requester waits that may take it.
#[derive(Debug, Default)]
struct Line {
    held: HashMap<Requester, usize>,
    all_held: usize,
    /// The requester that has waited longest since its last turn comes first.
    waiting: VecDeque<Queue>,
    /// Largest amount of work given to a requester while it had requests waiting. A requester that begins to
    /// wait starts with this amount.
    clock: u64,
}

/// The waiting requests of a requester, in the order in which they came.
#[derive(Debug)]
struct Queue {
    requester: Requester,
    /// Work given to the requester, by the clock of the line.
    given: u64,
    requests: VecDeque<Request>,
}

/// A waiting request.
#[derive(Debug)]
struct Request {
    work: u64,
    /// Work of later requests of the same requester that came first.
    overtaken_by: u64,
    sender: oneshot::Sender<Turn>,
}

/// A turn. Dropping it gives it back.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    requester: Requester,
}

impl Turns {
    /// Makes `at_once` turns, of which one requester holds at most `of_each`.
    pub fn new(at_once: usize, of_each: usize) -> Self {
        Self::bounded(at_once, of_each, WAITING_MAX)
    }

    /// Makes turns with a bound on waiting requests.
    pub fn bounded(at_once: usize, of_each: usize, waiting_max: WaitingLimits) -> Self {
        Self(Arc::new(Shared { at_once, of_each, waiting_max, line: Mutex::default() }))
    }

    /// Waits for a turn at one unit of work.
    ///
    /// # Errors
    /// Too many requests wait already.
    pub async fn turn(&self, requester: Requester) -> Result<Turn, QueueFull> {
        self.turn_for(requester, 1).await
    }

    /// Waits for a turn for an amount of work, in units that all requests share.
    ///
    /// # Errors
    /// Too many requests wait already.
    pub async fn turn_for(&self, requester: Requester, work: u64) -> Result<Turn, QueueFull> {
        let waits = {
            let mut line = self.line();
            if let Some(turn) = self.take(&mut line, requester) {
                return Ok(turn);
            }
            line.wait(requester, work, self.0.waiting_max)?
        };
        // The other end lives in the line, which lives as long as `self`.
        waits.await.map_err(|_| QueueFull)
    }

    /// Returns a turn if one is free for the requester.
    pub fn turn_now(&self, requester: Requester) -> Option<Turn> {
        self.take(&mut self.line(), requester)
    }

    /// Returns the number of turns that are held.
    pub fn held(&self) -> usize {
        self.line().all_held
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        let line = self.line();
        line.waiting.iter().map(Queue::len).sum()
    }

    fn take(&self, line: &mut Line, requester: Requester) -> Option<Turn> {
        let held = line.held_by(requester);
        if line.all_held >= self.0.at_once || held >= self.0.of_each {
            return None;
        }
        line.held.insert(requester, held + 1);
        line.all_held += 1;
        Some(Turn { turns: self.clone(), requester })
    }

    /// Takes a turn back, and hands out the free ones.
    fn give_back(&self, requester: Requester) {
        let mut line = self.line();
        line.let_go(requester);
        while line.all_held < self.0.at_once {
            let Some((requester, sender)) = line.next(self.0.of_each) else { break };
            let Some(turn) = self.take(&mut line, requester) else { break };
            drop(line);
            // If the request was cancelled meanwhile, the turn is dropped here and so given back.
            drop(sender.send(turn));
            line = self.line();
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn held_by(&self, requester: Requester) -> usize {
        self.held.get(&requester).copied().unwrap_or(0)
    }

    fn wait(
        &mut self,
        requester: Requester,
        work: u64,
        most: WaitingLimits,
    ) -> Result<oneshot::Receiver<Turn>, QueueFull> {
        if self.is_full(requester, most) {
            self.forget_those_who_left();
            if self.is_full(requester, most) {
                return Err(QueueFull);
            }
        }
        let (sender, receiver) = oneshot::channel();
        let request = Request { work, overtaken_by: 0, sender };
        if let Some(queue) = self.waiting.iter_mut().find(|queue| queue.requester == requester) {
            queue.requests.push_back(request);
        } else {
            let requests = VecDeque::from([request]);
            self.waiting.push_back(Queue { requester, given: self.clock, requests });
        }
        Ok(receiver)
    }

    fn is_full(&self, requester: Requester, most: WaitingLimits) -> bool {
        let own = self.waiting.iter().find(|queue| queue.requester == requester);
        own.map_or(0, |queue| queue.requests.len()) >= most.per_requester
            || self.waiting.iter().map(|queue| queue.requests.len()).sum::<usize>() >= most.total
    }

    fn forget_those_who_left(&mut self) {
        self.waiting.retain_mut(|queue| {
            queue.requests.retain(|request| !request.sender.is_closed());
            !queue.requests.is_empty()
        });
    }

    fn let_go(&mut self, requester: Requester) {
        self.all_held -= 1;
        match self.held.get_mut(&requester) {
            Some(held) if *held > 1 => *held -= 1,
            _ => drop(self.held.remove(&requester)),
        }
    }

    /// Takes the next request out of the line, with its requester, which may take another turn. The requester
    /// goes to the end of the line.
    fn next(&mut self, of_each: usize) -> Option<(Requester, oneshot::Sender<Turn>)> {
        self.forget_those_who_left();
        let ranks = self.waiting.iter().enumerate().filter_map(|(at, queue)| {
            let (held, first) = (self.held_by(queue.requester), queue.first()?);
            let given = queue.given.saturating_add(queue.requests.get(first)?.work);
            (held < of_each).then_some((held, given, at, first))
        });
        let (_, given, at, first) = ranks.min()?;
        let mut queue = self.waiting.remove(at)?;
        let Request { work, sender, .. } = queue.requests.remove(first)?;
        for overtaken in queue.requests.iter_mut().take(first) {
            overtaken.overtaken_by = overtaken.overtaken_by.saturating_add(work);
        }
        queue.given = given;
        self.clock = self.clock.max(given);
        let requester = queue.requester;
        if !queue.requests.is_empty() {
            self.waiting.push_back(queue);
        }
        Some((requester, sender))
    }
}

impl Queue {
    /// Returns the position of the request that comes first.
    fn first(&self) -> Option<usize> {
        let has_waited_enough = |it: &Request| it.overtaken_by >= it.work;
        let least = || {
            let works = self.requests.iter().map(|request| request.work).enumerate();
            works.min_by_key(|(at, work)| (*work, *at)).map(|(at, _)| at)
        };
        self.requests.iter().position(has_waited_enough).or_else(least)
    }

    /// Returns the number of waiting requests.
    fn len(&self) -> usize {
        self.requests.iter().filter(|request| !request.sender.is_closed()).count()
    }
}

impl Turn {
    /// Returns the number of waiting requests that might take this turn instead.
    pub fn competing(&self) -> usize {
        let line = self.turns.line();
        let of_each = self.turns.0.of_each;
        let could = |queue: &&Queue| {
            let held = line.held_by(queue.requester);
            held - usize::from(queue.requester == self.requester) < of_each
        };
        line.waiting.iter().filter(could).map(Queue::len).sum()
    }

    /// Returns an equal share of an amount for each turn held at present, rounded down, but at least one.
    pub fn share_of(&self, all: usize) -> usize {
        (all / self.turns.held().max(1)).max(1)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.give_back(self.requester);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::{QueueFull, Requester, Turn, Turns, WAITING_MAX};

    type PendingTurn = Pin<Box<dyn Future<Output = Result<Turn, QueueFull>>>>;

    fn wait_for(turns: &Turns, project: &str) -> PendingTurn {
        wait_for_work(turns, project, 1)
    }

    fn poll(waiting: &mut PendingTurn) -> Option<Result<Turn, QueueFull>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    fn now(turns: &Turns, project: &str) -> Option<Turn> {
        turns.turn_now(Requester::named(project))
    }

    #[test]
    fn projects_come_one_after_the_other_however_much_each_wait_for_work() {
        let turns = Turns::new(1, 1);
        let turn = now(&turns, "a").unwrap();
        let projects = ["a", "a", "a", "a", "b", "b", "c"];
        let waiting = projects.map(|project| (project, wait_for(&turns, project)));
        assert_eq!(order(turn, Vec::from(waiting)), ["a", "b", "c", "a", "b", "a", "a"]);
        assert_eq!((turns.held(), turns.waiting()), (0, 0));
    }

    #[test]
    fn a_project_has_no_more_than_it_may_and_the_others_have_the_rest() {
        let turns = Turns::new(3, 2);
        let first = (now(&turns, "a").unwrap(), now(&turns, "a").unwrap());
        let mut third = wait_for(&turns, "a");
        let other = now(&turns, "b").unwrap();
        drop(other);
        assert!(poll(&mut third).is_none());
        assert_eq!((turns.held(), turns.waiting()), (2, 1));
        drop(first.0);
        assert!(poll(&mut third).is_some_and(|turn| turn.is_ok()));
    }

    #[test]
    fn requesters_with_fewer_turns_come_first() {
        let turns = Turns::new(3, 3);
        let a = (now(&turns, "a").unwrap(), now(&turns, "a").unwrap());
        let b = now(&turns, "b").unwrap();
        let (mut more_of_a, mut more_of_b) = (wait_for(&turns, "a"), wait_for(&turns, "b"));
        let mut first_of_c = wait_for(&turns, "c");
        drop(a.0);
        let _c = poll(&mut first_of_c).unwrap().unwrap();
        drop(b);
        let _b = poll(&mut more_of_b).unwrap().unwrap();
        assert!(poll(&mut more_of_a).is_none());
    }

    fn wait_for_work(turns: &Turns, project: &str, work: u64) -> PendingTurn {
        let (turns, requester) = (turns.clone(), Requester::named(project));
        let mut waiting: PendingTurn =
            Box::pin(async move { turns.turn_for(requester, work).await });
        assert!(poll(&mut waiting).is_none());
        waiting
    }

    /// Returns the order in which requests, by name, get the only turn.
    fn order(turn: Turn, mut waiting: Vec<(&str, PendingTurn)>) -> Vec<&str> {
        let mut order = Vec::new();
        let mut last = turn;
        while !waiting.is_empty() {
            drop(last);
            let given = |(at, (_, it)): (usize, &mut (&str, PendingTurn))| Some((at, poll(it)?));
            let (at, next) = waiting.iter_mut().enumerate().find_map(given).unwrap();
            order.push(waiting.remove(at).0);
            last = next.unwrap();
        }
        order
    }

    #[test]
    fn little_work_comes_first_but_holds_much_work_up_no_longer_than_that_takes_itself() {
        for other in ["a", "b"] {
            let turns = Turns::new(1, 1);
            let turn = now(&turns, "c").unwrap();
            let mut waiting = vec![("much", wait_for_work(&turns, "a", 3))];
            for name in ["1st", "2nd", "3rd", "4th", "5th"] {
                waiting.push((name, wait_for_work(&turns, other, 1)));
            }
            let expected: &[&str] = match other {
                "a" => &["1st", "2nd", "3rd", "much", "4th", "5th"],
                // Both requesters would have been given 3 then, and `a` came first.
                _ => &["1st", "2nd", "much", "3rd", "4th", "5th"],
            };
            assert_eq!(order(turn, waiting), expected);
        }
    }

    #[test]
    fn much_work_is_done_however_many_ask_for_little() {
        let turns = Turns::new(1, 1);
        let mut turn = now(&turns, "a").unwrap();
        let mut much = wait_for_work(&turns, "a", 10);
        let mut overtaken = 0;
        loop {
            let mut little = wait_for_work(&turns, "a", 1);
            drop(turn);
            if poll(&mut much).is_some() {
                break;
            }
            turn = poll(&mut little).unwrap().unwrap();
            overtaken += 1;
        }
        assert_eq!(overtaken, 10);
    }

    #[test]
    fn a_turn_knows_who_could_have_it() {
        let turns = Turns::new(2, 1);
        let (a, b) = (now(&turns, "a").unwrap(), now(&turns, "b").unwrap());
        assert_eq!((a.competing(), b.competing()), (0, 0));
        let more_of_a = wait_for(&turns, "a");
        assert_eq!((a.competing(), b.competing()), (1, 0));
        let first_of_c = wait_for(&turns, "c");
        assert_eq!((a.competing(), b.competing()), (2, 1));
        drop((more_of_a, first_of_c));
        assert_eq!((a.competing(), b.competing()), (0, 0));
    }

    #[test]
    fn holders_of_turns_share_equally() {
        let turns = Turns::new(3, 1);
        let first = now(&turns, "a").unwrap();
        assert_eq!((first.share_of(5), first.share_of(1), first.share_of(0)), (5, 1, 1));
        let others = [now(&turns, "b").unwrap(), now(&turns, "c").unwrap()];
        assert_eq!((first.share_of(5), first.share_of(6), first.share_of(1)), (1, 2, 1));
        drop(others);
        assert_eq!(first.share_of(5), 5);
    }

    #[test]
    fn an_abandoned_wait_takes_no_turn() {
        let turns = Turns::new(1, 1);
        let held = now(&turns, "a").unwrap();
        let gone = wait_for(&turns, "b");
        let mut patient = wait_for(&turns, "b");
        drop(gone);
        assert_eq!(turns.waiting(), 1);
        drop(held);
        let given = wait_for(&turns, "c");
        // A turn that was granted and never polled.
        drop(given);
        let turn = poll(&mut patient).unwrap();
        drop(turn);
        assert_eq!((turns.held(), turns.waiting()), (0, 0));
        let (held, unseen) = (now(&turns, "a").unwrap(), wait_for(&turns, "b"));
        drop(held);
        assert_eq!(turns.held(), 1);
        drop(unseen);
        assert_eq!(turns.held(), 0);
    }

    #[test]
    fn a_bounded_number_of_a_project_waits() {
        let turns = Turns::new(1, 1);
        let _held = now(&turns, "a").unwrap();
        let waiting: Vec<PendingTurn> =
            (0..WAITING_MAX.per_requester).map(|_| wait_for(&turns, "a")).collect();
        let (again, requester) = (turns.clone(), Requester::named("a"));
        let mut more: PendingTurn = Box::pin(async move { again.turn(requester).await });
        assert_eq!(poll(&mut more).unwrap().unwrap_err(), QueueFull);
        let other = wait_for(&turns, "b");
        assert_eq!(turns.waiting(), WAITING_MAX.per_requester + 1);
        drop((waiting, other));
        assert_eq!(turns.waiting(), 0);
    }

    #[test]
    fn a_queue_of_length_zero_refuses_at_once() {
        let turns = Turns::bounded(
            usize::MAX,
            2,
            super::WaitingLimits { per_requester: 0, total: usize::MAX },
        );
        let held = [now(&turns, "a").unwrap(), now(&turns, "a").unwrap()];
        let requester = Requester::named("a");
        let mut more: PendingTurn = Box::pin({
            let turns = turns.clone();
            async move { turns.turn(requester).await }
        });
        assert_eq!(poll(&mut more).unwrap().unwrap_err(), QueueFull);
        assert!(now(&turns, "b").is_some(), "each project has its own");
        drop(held);
        assert!(now(&turns, "a").is_some());
    }
}
