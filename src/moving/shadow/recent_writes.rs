//! Tracks current and recent writes, to decide whether one may have changed the result of a read.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use uuid::Uuid;

/// Maximum number of writes that are tracked.
const WRITES_MAX: usize = 4096;

/// The resources that a request concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All resources.
    Everything,
    /// The resources with these UUIDs: providers, consumers, aggregates.
    Only(BTreeSet<Uuid>),
}

impl Scope {
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => true,
            (Self::Only(one), Self::Only(other)) => !one.is_disjoint(other),
        }
    }
}

/// A tracked write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteId(u64);

/// The tracked writes.
#[derive(Debug, Default)]
pub(super) struct RecentWrites(Mutex<TrackedWrites>);

#[derive(Debug, Default)]
struct TrackedWrites {
    next: u64,
    /// By ID, without gaps.
    writes: VecDeque<TrackedWrite>,
    /// Latest end of the writes that are no longer tracked.
    forgotten: Option<Instant>,
}

#[derive(Debug)]
struct TrackedWrite {
    ended: Option<Instant>,
    /// `None` if it has changed nothing.
    scope: Option<Scope>,
}

impl RecentWrites {
    fn state(&self) -> MutexGuard<'_, TrackedWrites> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start of a write. Its scope is not known yet.
    pub(super) fn begin(&self, now: Instant) -> WriteId {
        let mut state = self.state();
        let id = WriteId(state.next);
        state.next += 1;
        if state.writes.len() >= WRITES_MAX {
            // The oldest may still be in progress; its end is then unknown.
            let oldest = state.writes.pop_front();
            let ended = oldest.map(|it| it.ended.unwrap_or(now));
            state.forgotten = state.forgotten.max(ended);
        }
        state.writes.push_back(TrackedWrite { ended: None, scope: Some(Scope::Everything) });
        id
    }

    /// Sets the scope of a write.
    pub(super) fn learn(&self, id: WriteId, scope: Scope) {
        self.with(id, |noted| noted.scope = noted.scope.take().map(|_| scope));
    }

    /// Records that a write has ended in both services.
    pub(super) fn end(&self, id: WriteId, now: Instant) {
        self.with(id, |noted| noted.ended = Some(now));
    }

    /// Records that a write has changed nothing.
    pub(super) fn forget(&self, id: WriteId) {
        self.with(id, |noted| noted.scope = None);
    }

    fn with(&self, WriteId(id): WriteId, change: impl FnOnce(&mut TrackedWrite)) {
        let mut state = self.state();
        let first = state.next - u64::try_from(state.writes.len()).unwrap_or(state.next);
        let at = id.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(noted) = at.and_then(|at| state.writes.get_mut(at)) {
            change(noted);
        }
    }

    /// Returns whether a write may have changed the result of a read since then.
    pub(super) fn may_have_changed(&self, scope: &Scope, since: Instant) -> bool {
        let state = self.state();
        let is_forgotten = state.forgotten.is_some_and(|ended| ended >= since);
        is_forgotten
            || state.writes.iter().any(|noted| {
                noted.ended.is_none_or(|ended| ended >= since)
                    && noted.scope.as_ref().is_some_and(|it| it.meets(scope))
            })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    use uuid::Uuid;

    use super::{RecentWrites, Scope, WRITES_MAX};

    fn only(numbers: &[u128]) -> Scope {
        Scope::Only(numbers.iter().map(|it| Uuid::from_u128(*it)).collect::<BTreeSet<_>>())
    }

    #[test]
    fn a_write_may_have_changed_what_it_names_until_it_has_ended() {
        let writes = RecentWrites::default();
        let at = |seconds| Instant::now() + Duration::from_secs(seconds);
        let (second, third, fourth) = (at(2), at(3), at(4));
        let write = writes.begin(Instant::now());
        assert!(writes.may_have_changed(&only(&[1]), second), "nobody knows what it names");
        writes.learn(write, only(&[1, 2]));
        assert!(writes.may_have_changed(&only(&[2, 3]), second));
        assert!(!writes.may_have_changed(&only(&[3]), second));
        assert!(writes.may_have_changed(&Scope::Everything, second));
        writes.end(write, third);
        assert!(writes.may_have_changed(&only(&[1]), second));
        assert!(!writes.may_have_changed(&only(&[1]), fourth));

        let refused = writes.begin(fourth);
        writes.forget(refused);
        writes.learn(refused, only(&[1]));
        assert!(!writes.may_have_changed(&Scope::Everything, fourth));
    }

    #[test]
    fn forgotten_writes_may_have_changed_everything() {
        let writes = RecentWrites::default();
        let began = Instant::now();
        let first = writes.begin(began);
        writes.learn(first, only(&[1]));
        for _ in 0..WRITES_MAX {
            let write = writes.begin(began);
            writes.learn(write, only(&[2]));
            writes.end(write, began);
        }
        assert!(writes.may_have_changed(&only(&[3]), began));
        assert!(!writes.may_have_changed(&only(&[3]), began + Duration::from_secs(1)));
        writes.end(first, began);
    }
}
