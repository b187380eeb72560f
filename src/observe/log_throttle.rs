//! Limits repeated log lines to one a minute.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum interval between two lines.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Counts events between log lines.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    logged: Option<Instant>,
    unlogged: u64,
}

impl LogThrottle {
    /// Counts one event. Returns the number of events since the last line if it is time to log another.
    pub(crate) fn count(&self) -> Option<u64> {
        self.count_at(Instant::now())
    }

    fn count_at(&self, now: Instant) -> Option<u64> {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.unlogged += 1;
        if count.logged.is_some_and(|logged| now.duration_since(logged) < LOG_INTERVAL) {
            return None;
        }
        count.logged = Some(now);
        Some(std::mem::take(&mut count.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::{Instant, LOG_INTERVAL, LogThrottle};

    #[test]
    fn frequent_events_are_logged_once_a_minute() {
        let log_throttle = LogThrottle::default();
        let now = Instant::now();
        assert_eq!(log_throttle.count_at(now), Some(1));
        assert_eq!((log_throttle.count_at(now), log_throttle.count_at(now)), (None, None));
        let later = now + LOG_INTERVAL;
        assert_eq!((log_throttle.count_at(later), log_throttle.count_at(later)), (Some(3), None));
    }
}
