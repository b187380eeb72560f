//! The time that a request spends in each kind of [span](super::spans).
//!
//! They are a part of the request's context, which follows the work into other tasks and threads. No span is made for
//! them, which would cost a small request a tenth of its time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The times of a request. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestTimes(Arc<Mutex<Times>>);

#[derive(Debug, Default)]
struct Times {
    /// The time in each kind of span, without that in spans within it.
    parts: Vec<(&'static str, Duration)>,
    /// The time in spans that have ended, each moment once.
    ended: Duration,
}

impl RequestTimes {
    /// Returns the times until now, by name.
    pub(crate) fn parts(&self) -> Vec<(&'static str, Duration)> {
        self.times().parts.clone()
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Measures the time of a span until it is dropped.
#[must_use]
#[derive(Debug)]
pub(crate) struct Timer {
    name: &'static str,
    times: RequestTimes,
    since: Instant,
    /// The time in spans that had ended before.
    before: Duration,
}

impl Timer {
    /// Starts to measure, for these times.
    pub(crate) fn of(name: &'static str, times: RequestTimes) -> Self {
        let before = times.times().ended;
        Self { name, times, since: Instant::now(), before }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let took = self.since.elapsed();
        let mut times = self.times.times();
        let within = times.ended.saturating_sub(self.before);
        times.ended = self.before + took.max(within);
        let alone = took.saturating_sub(within);
        match times.parts.iter_mut().find(|(name, _)| *name == self.name) {
            Some((_, sum)) => *sum += alone,
            None => times.parts.push((self.name, alone)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::{RequestTimes, Timer};

    #[test]
    fn the_time_of_a_span_does_not_contain_that_of_spans_within_it() {
        const LONG: Duration = Duration::from_millis(40);
        let times = RequestTimes::default();
        for _ in 0..2 {
            let _claim = Timer::of("claim", times.clone());
            let _lock = Timer::of("lock", times.clone());
            sleep(LONG);
        }
        let parts = times.parts();
        assert_eq!(parts.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["lock", "claim"]);
        assert!(parts[0].1 >= LONG * 2 && parts[1].1 < LONG, "{parts:?}");
    }
}
