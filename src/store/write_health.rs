//! Whether writes succeed at present, for `/readyz` and the metrics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::{Error, Result};

/// Number of writes that must have failed in a row.
const FAILURES_MIN: u32 = 3;
/// Time after the last failure from which on nothing is known.
const KNOWN_FOR: Duration = Duration::from_mins(5);

/// The outcomes of the last writes. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteHealth(Arc<Mutex<Failures>>);

#[derive(Debug, Default)]
struct Failures {
    /// Number of failed writes since the last success.
    in_a_row: u32,
    last: Option<Instant>,
}

impl WriteHealth {
    /// Records the outcome of a write. A refusal says nothing: it ends before the commit.
    pub(super) fn record<T>(&self, outcome: &Result<T>) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(_) => *failures = Failures::default(),
            Err(Error::Refused(..) | Error::Maintenance(_)) => {}
            Err(
                Error::Unavailable(_)
                | Error::Again(_)
                | Error::Locked(_)
                | Error::Inconsistent { .. }
                | Error::Bug(_),
            ) => {
                failures.in_a_row = failures.in_a_row.saturating_add(1);
                failures.last = Some(Instant::now());
            }
        }
    }

    /// Returns whether the last writes failed, at least three, and the last one less than five minutes ago.
    pub(super) fn is_failing(&self) -> bool {
        self.is_failing_at(Instant::now())
    }

    fn is_failing_at(&self, now: Instant) -> bool {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.in_a_row >= FAILURES_MIN
            && failures.last.is_some_and(|last| now.saturating_duration_since(last) < KNOWN_FOR)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{KNOWN_FOR, WriteHealth};
    use crate::model::Refusal;
    use crate::store::error::Error;

    #[test]
    fn three_failures_in_a_row_count_for_five_minutes() {
        let failed = || Err::<(), _>(Error::Unavailable("No space left on device".to_owned()));
        let health = WriteHealth::default();
        health.record(&failed());
        health.record(&failed());
        health.record(&Ok(()));
        health.record(&failed());
        health.record(&failed());
        assert!(!health.is_failing());
        health.record(&Err::<(), _>(Refusal::TreeLoop.into()));
        assert!(!health.is_failing());
        health.record(&failed());
        assert!(health.is_failing());
        assert!(!health.is_failing_at(Instant::now() + KNOWN_FOR));
        health.record(&failed());
        assert!(health.is_failing());
        health.record(&Ok(()));
        assert!(!health.is_failing());
    }
}
