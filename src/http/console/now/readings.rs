//! Readings of the metrics, whose differences are the activity of this process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::exposition::Samples;

/// Minimum time between two readings whose difference is shown.
const APART: Duration = Duration::from_secs(1);
/// Maximum age of a reading that is compared with the next one.
const AGE_MAX: Duration = Duration::from_mins(1);

/// A reading, and when it was taken.
type Reading = (Instant, Arc<Samples>);

/// The last readings: at most two, apart from each other.
#[derive(Debug)]
pub(in crate::http) struct Readings {
    began: Instant,
    kept: Mutex<Vec<Reading>>,
}

impl Default for Readings {
    fn default() -> Self {
        Self { began: Instant::now(), kept: Mutex::default() }
    }
}

impl Readings {
    /// The start of the process.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Adds a reading, and returns the one to compare it with: the last that is apart from it.
    pub(super) fn add(&self, at: Instant, samples: &Arc<Samples>) -> Option<Reading> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(then, _)| at.duration_since(*then) <= AGE_MAX);
        let is_apart = |(then, _): &Reading| at.duration_since(*then) >= APART;
        let before = kept.iter().rev().find(|reading| is_apart(reading)).cloned();
        if kept.last().is_none_or(is_apart) {
            kept.push((at, Arc::clone(samples)));
            let surplus = kept.len().saturating_sub(2);
            kept.drain(..surplus);
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::{AGE_MAX, Readings, Samples};

    #[test]
    fn a_reading_is_compared_with_one_that_is_apart_enough() {
        let readings = Readings::default();
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let add = |when| readings.add(when, &Arc::new(Samples::default())).map(|(then, _)| then);
        assert_eq!(add(at(0)), None);
        assert_eq!(add(at(0)), None);
        assert_eq!(add(at(1)), Some(at(0)));
        assert_eq!(add(at(1)), Some(at(0)));
        assert_eq!(add(at(4)), Some(at(1)));
        assert_eq!(add(at(5) + AGE_MAX), None);
    }
}
