//! Turns at work that takes long, shared fairly among those who ask for it: projects at plans and
//! searches, client addresses at Keystone. However much one of them asks for, the others get turns.
//!
//! A free turn goes to the asker that holds the fewest turns, and among those to the one that has
//! waited longest for one. An asker holds a bounded number of turns at once, and a bounded number
//! of its requests wait. A request that is dropped, waiting or with its turn, leaves nothing
//! behind.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::policy::Caller;

/// How many requests may wait for a turn at plans or searches.
const WAITING_MAX: Waiting = Waiting { of_one: 1024, of_all: usize::MAX };

/// Who asks for a turn, by its hash: two askers with one hash would share their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asker(u64);

impl Asker {
    /// The project that a caller asks for, or else the caller.
    pub fn of(caller: &Caller) -> Self {
        match &caller.project {
            Some(project) => Self::named(project),
            None => Self::named(caller.user.as_deref().unwrap_or_default()),
        }
    }

    /// The project with an id.
    pub fn named(project: &str) -> Self {
        Self::hashed(project)
    }

    /// Anything else that tells askers apart.
    pub fn hashed(asker: impl Hash) -> Self {
        static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(SEED.hash_one(asker))
    }
}

/// How many requests may wait for a turn.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Requests of one asker.
    pub of_one: usize,
    /// Requests of all askers.
    pub of_all: usize,
}

/// Too many requests of the asker, or of all, wait already.
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
    waiting_max: Waiting,
    line: Mutex<Line>,
}

/// Who has turns and who waits for them. Whenever a turn is free, nobody waits who may have it.
#[derive(Debug, Default)]
struct Line {
    held: HashMap<Asker, usize>,
    all_held: usize,
    /// The asker that has waited longest since its last turn comes first.
    waiting: VecDeque<(Asker, VecDeque<oneshot::Sender<Turn>>)>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    asker: Asker,
}

impl Turns {
    /// `at_once` turns, of which one asker holds at most `of_each`.
    pub fn new(at_once: usize, of_each: usize) -> Self {
        Self::bounded(at_once, of_each, WAITING_MAX)
    }

    /// The same, with a bound on the requests that wait.
    pub fn bounded(at_once: usize, of_each: usize, waiting_max: Waiting) -> Self {
        Self(Arc::new(Shared { at_once, of_each, waiting_max, line: Mutex::default() }))
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// Too many requests wait already.
    pub async fn turn(&self, asker: Asker) -> Result<Turn, QueueFull> {
        let waits = {
            let mut line = self.line();
            if let Some(turn) = self.take(&mut line, asker) {
                return Ok(turn);
            }
            line.wait(asker, self.0.waiting_max)?
        };
        // The other end lives in the line, which lives as long as `self`.
        waits.await.map_err(|_| QueueFull)
    }

    /// A turn, if there is one without waiting.
    pub fn turn_now(&self, asker: Asker) -> Option<Turn> {
        self.take(&mut self.line(), asker)
    }

    /// How many turns are held.
    pub fn held(&self) -> usize {
        self.line().all_held
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        let line = self.line();
        let senders = line.waiting.iter().flat_map(|(_, senders)| senders);
        senders.filter(|sender| !sender.is_closed()).count()
    }

    fn take(&self, line: &mut Line, asker: Asker) -> Option<Turn> {
        let held = line.held.get(&asker).copied().unwrap_or(0);
        if line.all_held >= self.0.at_once || held >= self.0.of_each {
            return None;
        }
        line.held.insert(asker, held + 1);
        line.all_held += 1;
        Some(Turn { turns: self.clone(), asker })
    }

    /// Takes a turn back, and gives out those that are free.
    fn give_back(&self, asker: Asker) {
        let mut line = self.line();
        line.let_go(asker);
        while line.all_held < self.0.at_once {
            let Some((asker, sender)) = line.next(self.0.of_each) else { break };
            let Some(turn) = self.take(&mut line, asker) else { break };
            drop(line);
            // Who has stopped waiting meanwhile drops the turn, which gives it back.
            drop(sender.send(turn));
            line = self.line();
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn wait(&mut self, asker: Asker, most: Waiting) -> Result<oneshot::Receiver<Turn>, QueueFull> {
        if self.is_full(asker, most) {
            self.forget_those_who_left();
            if self.is_full(asker, most) {
                return Err(QueueFull);
            }
        }
        let (sender, receiver) = oneshot::channel();
        match self.waiting.iter_mut().find(|(known, _)| *known == asker) {
            Some((_, senders)) => senders.push_back(sender),
            None => self.waiting.push_back((asker, VecDeque::from([sender]))),
        }
        Ok(receiver)
    }

    fn is_full(&self, asker: Asker, most: Waiting) -> bool {
        let own = self.waiting.iter().find(|(known, _)| *known == asker);
        own.map_or(0, |(_, senders)| senders.len()) >= most.of_one
            || self.waiting.iter().map(|(_, senders)| senders.len()).sum::<usize>() >= most.of_all
    }

    fn forget_those_who_left(&mut self) {
        self.waiting.retain_mut(|(_, senders)| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
    }

    fn let_go(&mut self, asker: Asker) {
        self.all_held -= 1;
        match self.held.get_mut(&asker) {
            Some(held) if *held > 1 => *held -= 1,
            _ => drop(self.held.remove(&asker)),
        }
    }

    /// The request that gets the next turn, and its asker, which holds fewer turns than it may. The
    /// asker goes to the end of the line.
    fn next(&mut self, of_each: usize) -> Option<(Asker, oneshot::Sender<Turn>)> {
        self.forget_those_who_left();
        let held = |asker: &Asker| self.held.get(asker).copied().unwrap_or(0);
        let open = self.waiting.iter().enumerate();
        let open = open.map(|(at, (asker, _))| (held(asker), at));
        let (_, at) = open.filter(|(held, _)| *held < of_each).min()?;
        let (asker, mut senders) = self.waiting.remove(at)?;
        let sender = senders.pop_front()?;
        if !senders.is_empty() {
            self.waiting.push_back((asker, senders));
        }
        Some((asker, sender))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.give_back(self.asker);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::{Asker, QueueFull, Turn, Turns, WAITING_MAX};

    type Waiting = Pin<Box<dyn Future<Output = Result<Turn, QueueFull>>>>;

    fn asks(turns: &Turns, project: &str) -> Waiting {
        let (turns, asker) = (turns.clone(), Asker::named(project));
        let mut waiting: Waiting = Box::pin(async move { turns.turn(asker).await });
        assert!(poll(&mut waiting).is_none());
        waiting
    }

    fn poll(waiting: &mut Waiting) -> Option<Result<Turn, QueueFull>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    fn now(turns: &Turns, project: &str) -> Option<Turn> {
        turns.turn_now(Asker::named(project))
    }

    #[test]
    fn projects_come_one_after_the_other_however_much_each_asks_for() {
        let turns = Turns::new(1, 1);
        let mut turn = now(&turns, "a").unwrap();
        let mut waiting = Vec::new();
        for project in ["a", "a", "a", "a", "b", "b", "c"] {
            waiting.push((project, asks(&turns, project)));
        }
        let mut order = Vec::new();
        for _ in 0..7 {
            drop(turn);
            let (at, next) = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(at, (_, it))| Some((at, poll(it)?.unwrap())))
                .unwrap();
            order.push(waiting.remove(at).0);
            turn = next;
        }
        assert_eq!(order, ["a", "b", "c", "a", "b", "a", "a"]);
        drop(turn);
        assert_eq!((turns.held(), turns.waiting()), (0, 0));
    }

    #[test]
    fn a_project_has_no_more_than_it_may_and_the_others_have_the_rest() {
        let turns = Turns::new(3, 2);
        let first = (now(&turns, "a").unwrap(), now(&turns, "a").unwrap());
        let mut third = asks(&turns, "a");
        let other = now(&turns, "b").unwrap();
        drop(other);
        assert!(poll(&mut third).is_none());
        assert_eq!((turns.held(), turns.waiting()), (2, 1));
        drop(first.0);
        assert!(poll(&mut third).is_some_and(|turn| turn.is_ok()));
    }

    #[test]
    fn who_holds_fewer_turns_comes_first() {
        let turns = Turns::new(3, 3);
        let a = (now(&turns, "a").unwrap(), now(&turns, "a").unwrap());
        let b = now(&turns, "b").unwrap();
        let (mut more_of_a, mut more_of_b) = (asks(&turns, "a"), asks(&turns, "b"));
        let mut first_of_c = asks(&turns, "c");
        drop(a.0);
        let _c = poll(&mut first_of_c).unwrap().unwrap();
        drop(b);
        let _b = poll(&mut more_of_b).unwrap().unwrap();
        assert!(poll(&mut more_of_a).is_none());
    }

    #[test]
    fn who_stops_waiting_takes_no_turn_away() {
        let turns = Turns::new(1, 1);
        let held = now(&turns, "a").unwrap();
        let gone = asks(&turns, "b");
        let mut patient = asks(&turns, "b");
        drop(gone);
        assert_eq!(turns.waiting(), 1);
        drop(held);
        let given = asks(&turns, "c");
        // Given, and never looked at.
        drop(given);
        let turn = poll(&mut patient).unwrap();
        drop(turn);
        assert_eq!((turns.held(), turns.waiting()), (0, 0));
        let (held, unseen) = (now(&turns, "a").unwrap(), asks(&turns, "b"));
        drop(held);
        assert_eq!(turns.held(), 1);
        drop(unseen);
        assert_eq!(turns.held(), 0);
    }

    #[test]
    fn a_bounded_number_of_a_project_waits() {
        let turns = Turns::new(1, 1);
        let _held = now(&turns, "a").unwrap();
        let waiting: Vec<Waiting> = (0..WAITING_MAX.of_one).map(|_| asks(&turns, "a")).collect();
        let (again, asker) = (turns.clone(), Asker::named("a"));
        let mut more: Waiting = Box::pin(async move { again.turn(asker).await });
        assert_eq!(poll(&mut more).unwrap().unwrap_err(), QueueFull);
        let other = asks(&turns, "b");
        assert_eq!(turns.waiting(), WAITING_MAX.of_one + 1);
        drop((waiting, other));
        assert_eq!(turns.waiting(), 0);
    }

    #[test]
    fn nobody_waits_where_nobody_may() {
        let turns = Turns::bounded(usize::MAX, 2, super::Waiting { of_one: 0, of_all: usize::MAX });
        let held = [now(&turns, "a").unwrap(), now(&turns, "a").unwrap()];
        let asker = Asker::named("a");
        let mut more: Waiting = Box::pin({
            let turns = turns.clone();
            async move { turns.turn(asker).await }
        });
        assert_eq!(poll(&mut more).unwrap().unwrap_err(), QueueFull);
        assert!(now(&turns, "b").is_some(), "each project has its own");
        drop(held);
        assert!(now(&turns, "a").is_some());
    }
}
