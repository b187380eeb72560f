//! Collects the faults of a request's changes, for clients that request an explanation of a refusal.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::Refusal;
use crate::model::claim::Faults;

/// Collects all faults, as the refusing transaction saw them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct FoundFaults(Option<Arc<Mutex<Option<Faults>>>>);

tokio::task_local! {
    static FOUND: FoundFaults;
}

impl FoundFaults {
    /// Makes a collector that ignores faults.
    pub(super) fn ignoring() -> Self {
        Self(None)
    }

    /// Makes an empty collector.
    pub fn collecting() -> Self {
        Self(Some(Arc::default()))
    }

    /// Runs `work` so that the faults of all changes it starts are collected here.
    pub async fn during<F: Future>(self, work: F) -> F::Output {
        FOUND.scope(self, work).await
    }

    /// Returns the collector of the current task.
    pub(super) fn current() -> Self {
        FOUND.try_with(Clone::clone).unwrap_or_else(|_| Self::ignoring())
    }

    /// Stores faults, unless they are ignored. Replaces those of an earlier attempt.
    pub(super) fn put(&self, faults: impl FnOnce() -> Faults) {
        if let Some(place) = &self.0 {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(faults());
        }
    }

    /// Takes the faults; `None` if nothing was refused.
    pub fn take(&self) -> Option<Faults> {
        self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stores the faults of a refusal in the collector of the current task, unless all faults of the request are
    /// there already.
    pub fn note(refusal: &Refusal) {
        if let Some(place) = Self::current().0 {
            let mut found = place.lock().unwrap_or_else(PoisonError::into_inner);
            found.get_or_insert_with(|| Faults::of(refusal));
        }
    }
}
