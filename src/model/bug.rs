//! What cannot happen unless the program is wrong, and how often it did.
//!
//! Whoever meets such a case makes a [`Bug`] of it and hands it up: the caller is answered 500 with
//! the id of its request, and the log says what was wrong. A default value in its place would be
//! believed. Where rows of the database contradict each other, the store says so with the table, the
//! column and the key; it counts here too.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

static FOUND: AtomicU64 = AtomicU64::new(0);

/// An invariant of the program that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug(Cow<'static, str>);

impl Bug {
    /// A bug with what is wrong, for the log. It is counted when it is made, not when it is copied.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        count();
        Self(what.into())
    }

    /// Ends the work under way, for functions that have no other way to say it: the panic is caught
    /// where requests are answered, and by the tasks of the store.
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

/// How many bugs and inconsistent rows this process has met so far.
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
