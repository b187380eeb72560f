//! The watch that deadlines of searches and plans are read from. Tests bring one of their own, so that
//! they count looks at the time instead of racing it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Tells the time.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn() -> Instant + Send + Sync>);

impl Watch {
    /// A watch that shows what a function says.
    pub fn of(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What time it is.
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
