//! The faults of a request's changes, for those who want to know why the request is refused.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::Refusal;
use crate::model::claim::Faults;

/// Where faults are put: all faults, as the transaction saw them that refused. Clones share the place.
#[derive(Clone, Debug, Default)]
pub struct FoundFaults(Option<Arc<Mutex<Option<Faults>>>>);

tokio::task_local! {
    static FOUND: FoundFaults;
}

impl FoundFaults {
    /// A place that nothing is put into.
    pub(super) fn unwanted() -> Self {
        Self(None)
    }

    /// An empty place.
    pub fn wanted() -> Self {
        Self(Some(Arc::default()))
    }

    /// Runs `work` so that the faults of all changes which it begins are put here.
    pub async fn during<F: Future>(self, work: F) -> F::Output {
        FOUND.scope(self, work).await
    }

    /// The place for the faults of the work that runs now.
    pub(super) fn current() -> Self {
        FOUND.try_with(Clone::clone).unwrap_or_else(|_| Self::unwanted())
    }

    /// Puts faults into the place, if they are wanted. Those of an earlier attempt give way.
    pub(super) fn put(&self, faults: impl FnOnce() -> Faults) {
        if let Some(place) = &self.0 {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(faults());
        }
    }

    /// Takes what was put into the place; `None` if nothing was refused.
    pub fn take(&self) -> Option<Faults> {
        self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts the faults of a refusal into the place of the work that runs now, unless all faults of the request
    /// are there already.
    pub fn note(refusal: &Refusal) {
        if let Some(place) = Self::current().0 {
            let mut found = place.lock().unwrap_or_else(PoisonError::into_inner);
            found.get_or_insert_with(|| Faults::of(refusal));
        }
    }
}
