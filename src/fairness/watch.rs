//! The clock for deadlines of searches and plans. Tests bring their own, so that they count readings of the
//! clock instead of racing it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// A clock.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn() -> Instant + Send + Sync>);

impl Watch {
    /// Makes a clock of a function.
    pub fn of(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        (self.0)()
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::of(Instant::now)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Watch")
    }
}
