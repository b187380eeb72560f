//! Reads of a state that is some milliseconds old, without a refresh of their own (`--max-staleness`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use super::primary::Term;

/// The last refresh, and the writes of this replica since then.
#[derive(Debug)]
pub(super) struct Recent {
    /// Maximum age of a state that reads are answered with; zero: reads wait for a refresh.
    max_staleness: Duration,
    /// Number of writes of this replica that have ended.
    writes: AtomicU64,
    last: ArcSwapOption<(Beginning, Arc<Term>)>,
}

/// The beginning of a refresh.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning {
    at: Instant,
    /// Number of writes that had ended by then.
    writes: u64,
}

impl Recent {
    pub(super) fn new(max_staleness: Duration) -> Self {
        Self { max_staleness, writes: AtomicU64::new(0), last: ArcSwapOption::empty() }
    }

    /// Records that a write of this replica has ended, whatever its outcome: its client expects later reads to show
    /// the change, or why it was refused.
    pub(super) fn written(&self) {
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the beginning of a refresh that starts now.
    pub(super) fn start(&self) -> Beginning {
        Beginning { at: Instant::now(), writes: self.writes.load(Ordering::SeqCst) }
    }

    /// Records that a refresh has succeeded.
    pub(super) fn refreshed(&self, beginning: Beginning, term: &Arc<Term>) {
        if !self.max_staleness.is_zero() {
            self.last.store(Some(Arc::new((beginning, Arc::clone(term)))));
        }
    }

    /// Returns the term of the last refresh, if reads may be answered with its state.
    pub(super) fn term(&self) -> Option<Arc<Term>> {
        if self.max_staleness.is_zero() {
            return None;
        }
        let last = self.last.load();
        let (beginning, term) = last.as_deref()?;
        let is_recent = beginning.at.elapsed() <= self.max_staleness
            && beginning.writes == self.writes.load(Ordering::SeqCst)
            && !term.is_over();
        is_recent.then(|| Arc::clone(term))
    }
}
