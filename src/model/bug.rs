//! Violated invariants of the program, and their count.
//!
//! Code that finds one returns a [`Bug`]: the response has status 500 with its id, and the log has the
//! description. A default value instead would be taken for the truth. If rows of the database contradict each
//! other, the store names the table, the column and the key; that is counted here too.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

static FOUND: AtomicU64 = AtomicU64::new(0);

/// A violated invariant of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug(Cow<'static, str>);

impl Bug {
    /// Makes and counts a bug with a description for the log. Clones are not counted.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        count();
        Self(what.into())
    }

    /// Panics with a bug, for functions that cannot return an error. The panic is caught where requests are
    /// handled, and by the tasks of the store.
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

/// Returns the number of bugs and inconsistent rows that this process has found.
pub fn found() -> u64 {
    FOUND.load(Ordering::Relaxed)
}

/// Counts one.
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
