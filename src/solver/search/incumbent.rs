//! The best placement of a search, and of all of its threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::solver::solution::{Assignment, Cost};

/// The best complete placement known.
#[derive(Clone, Debug)]
pub(super) struct Incumbent {
    pub(super) cost: Cost,
    pub(super) assignments: Vec<Assignment>,
    /// For each bundle, its host and the variant there.
    pub(super) positions: Vec<(usize, usize)>,
}

/// By kind, the hosts that the Lagrangian bound of the empty placement prefers, the best first.
pub(super) type Preferred = Arc<Vec<Vec<usize>>>;

/// The state shared by the threads of a search.
#[derive(Debug)]
pub(super) struct SharedIncumbent {
    best: Mutex<Option<Arc<Incumbent>>>,
    /// Number of changes of the best placement, so that checking for a new one takes no lock.
    version: AtomicU64,
    preferred: OnceLock<Preferred>,
    has_ended: AtomicBool,
    is_broken: AtomicBool,
}

impl SharedIncumbent {
    pub(super) fn new(best: Option<Arc<Incumbent>>) -> Self {
        Self {
            best: Mutex::new(best),
            version: AtomicU64::new(0),
            preferred: OnceLock::new(),
            has_ended: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Keeps a placement if it is the best one.
    pub(super) fn offer(&self, found: &Arc<Incumbent>) {
        let mut best = self.best();
        if best.as_ref().is_none_or(|best| found.cost < best.cost) {
            *best = Some(Arc::clone(found));
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// The best placement, if it has changed since a version. Updates the version.
    pub(super) fn newer_than(&self, version: &mut u64) -> Option<Arc<Incumbent>> {
        if self.version.load(Ordering::Acquire) == *version {
            return None;
        }
        let best = self.best();
        *version = self.version.load(Ordering::Acquire);
        best.clone()
    }

    /// The preferred hosts, once a thread has computed them.
    pub(super) fn preferred(&self, own: Option<&Preferred>) -> Option<Preferred> {
        own.map(|own| self.preferred.get_or_init(|| Arc::clone(own)));
        self.preferred.get().cloned()
    }

    /// Marks the search as ended.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether the search has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Marks that a thread has panicked.
    pub(super) fn break_off(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
        self.end();
    }

    /// Whether a thread has panicked.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    fn best(&self) -> MutexGuard<'_, Option<Arc<Incumbent>>> {
        self.best.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
