//! Faults of the program: invariants that do not hold, and how often that was seen.
//!
//! Code that finds such a case returns a [`Bug`]: the request is answered 500 with its id, and the log
//! says what was wrong. A default value in its place would be taken for the truth. Where rows of the
//! database contradict each other, the store names the table, the column and the key; that is counted here
//! too.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

static FOUND: AtomicU64 = AtomicU64::new(0);

/// An invariant of the program that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug(Cow<'static, str>);

impl Bug {
    /// A bug with a description for the log. It is counted here, and not when it is cloned.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        count();
        Self(what.into())
    }

    /// Panics with a bug, for functions that cannot return an error. The panic is caught where requests are
    /// answered, and by the tasks of the store.
    ///
    /// # Panics
    /// Always.
    #[cold]
    pub fn raise(what: impl Into<Cow<'static, str>>) -> ! {
        panic!("{}", Self::new(what))
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Bug {}

/// How many bugs and inconsistent rows this process has found so far.
pub fn found() -> u64 {
    FOUND.load(Ordering::Relaxed)
}

/// Counts one more.
pub fn count() {
    FOUND.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::{Bug, found};

    #[test]
    fn a_bug_is_counted_when_it_is_made() {
        let before = found();
        let bug = Bug::new("a claim has no verdict");
        assert_eq!(bug.clone().to_string(), "a claim has no verdict");
        assert!(found() > before);
    }
}
