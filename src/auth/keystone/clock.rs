//! The difference between the clocks of this machine and of Keystone, from the `Date` of its responses. Berth decides
//! by its own clock whether a token has expired.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use metrics::gauge;
use reqwest::header::{DATE, HeaderMap};

use crate::observe::log_throttle::LogThrottle;

/// Difference of the clocks, in seconds, from which it is reported.
const SKEW_MAX: i64 = 60;

/// The last known difference of the clocks, in seconds.
#[derive(Debug, Default)]
pub(super) struct ClockSkew {
    last: Mutex<Option<i64>>,
    throttle: LogThrottle,
}

impl ClockSkew {
    /// Compares the clocks when a response has come.
    #[expect(clippy::cast_precision_loss, reason = "there are less than 2 to the 52nd seconds")]
    pub(super) fn compare(&self, response: &HeaderMap, now: SystemTime) {
        let Some(skew) = skew(response, now) else { return };
        gauge!("berth_keystone_clock_skew_seconds").set(skew as f64);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(skew);
        if let Some(why) = described(skew)
            && self.throttle.count().is_some()
        {
            tracing::warn!("{why}");
        }
    }

    /// Returns a description of the difference if it is too large.
    pub(super) fn fault(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).and_then(described)
    }
}

/// The seconds by which this machine's clock is ahead of the sender's; `None` without a valid `Date`.
fn skew(response: &HeaderMap, now: SystemTime) -> Option<i64> {
    let date = httpdate::parse_http_date(response.get(DATE)?.to_str().ok()?).ok()?;
    match now.duration_since(date) {
        Ok(ahead) => i64::try_from(ahead.as_secs()).ok(),
        Err(behind) => i64::try_from(behind.duration().as_secs()).ok().map(|it| -it),
    }
}

fn described(skew: i64) -> Option<String> {
    let seconds = skew.unsigned_abs();
    (skew.abs() > SKEW_MAX).then(|| {
        let (place, effect) = if skew > 0 {
            ("ahead of", "tokens are refused before they expire")
        } else {
            ("behind", "tokens are accepted after they have expired")
        };
        format!("the clock of this machine is {seconds} s {place} Keystone's: {effect}")
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use reqwest::header::{DATE, HeaderMap, HeaderValue};

    use super::ClockSkew;

    #[test]
    fn clocks_that_differ_by_more_than_a_minute_are_a_fault() {
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let response = |date: SystemTime| {
            let date = HeaderValue::from_str(&httpdate::fmt_http_date(date)).unwrap();
            HeaderMap::from_iter([(DATE, date)])
        };
        let fault = |now: SystemTime| {
            let clock_skew = ClockSkew::default();
            clock_skew.compare(&response(date), now);
            clock_skew.fault()
        };
        assert_eq!(fault(date + Duration::from_mins(1)), None);
        assert_eq!(fault(date - Duration::from_mins(1)), None);
        let words = fault(date + Duration::from_hours(2)).unwrap();
        assert!(words.contains("7200 s ahead of Keystone's: tokens are refused"), "{words}");
        let words = fault(date - Duration::from_hours(2)).unwrap();
        assert!(words.contains("7200 s behind Keystone's: tokens are accepted"), "{words}");
    }

    #[test]
    fn a_response_without_a_date_says_nothing() {
        let clock_skew = ClockSkew::default();
        clock_skew.compare(&HeaderMap::new(), SystemTime::now());
        assert_eq!(clock_skew.fault(), None);
    }
}
