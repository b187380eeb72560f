//! Limits of requests a second for each project and each user, by the generic cell rate algorithm.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use metrics::counter;

/// Number of checks after which callers that have sent nothing for a while are forgotten.
const FORGET_EVERY: u32 = 4096;

/// A rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests a second.
    pub per_second: NonZeroU32,
    /// Maximum number of requests at once after a pause.
    pub burst: NonZeroU32,
}

/// The limits; `None`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// The rate of a project, with all its users.
    pub project: Option<Rate>,
    /// The rate of a user, in all projects.
    pub user: Option<Rate>,
}

/// A request beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateExceeded {
    /// `project` or `user`.
    pub of: &'static str,
    /// The time after which the next request is accepted.
    pub wait: Duration,
}

type Limiter = RateLimiter<String, HashMapStateStore<String>, MonotonicClock>;

/// The requests of callers so far.
#[derive(Debug)]
pub struct RateLimits {
    project: Option<Limiter>,
    user: Option<Limiter>,
    checks: AtomicU32,
}

impl RateLimits {
    /// Starts counting.
    pub fn new(rates: Rates) -> Self {
        let limiter = |rate: Rate| {
            let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
            RateLimiter::new(quota, HashMapStateStore::default(), MonotonicClock)
        };
        let Rates { project, user } = rates;
        Self { project: project.map(limiter), user: user.map(limiter), checks: AtomicU32::new(0) }
    }

    /// Counts a request of a user in a project. A caller without one of them has no limit for it.
    ///
    /// # Errors
    /// The project or the user has sent too many.
    pub fn check(
        &self,
        project: Option<&String>,
        user: Option<&String>,
    ) -> Result<(), RateExceeded> {
        if self.project.is_none() && self.user.is_none() {
            return Ok(());
        }
        for (of, limiter, key) in [("project", &self.project, project), ("user", &self.user, user)]
        {
            let (Some(limiter), Some(key)) = (limiter, key) else { continue };
            if let Err(beyond) = limiter.check_key(key) {
                counter!("berth_requests_rate_limited_total", "of" => of).increment(1);
                return Err(RateExceeded { of, wait: beyond.wait_time_from(MonotonicClock.now()) });
            }
        }
        self.forget();
        Ok(())
    }

    /// Forgets callers whose limit is unused, so that memory does not grow with every caller there ever was.
    fn forget(&self) {
        if self.checks.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            for limiter in [&self.project, &self.user].into_iter().flatten() {
                limiter.retain_recent();
                limiter.shrink_to_fit();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FORGET_EVERY, Rate, RateExceeded, RateLimits, Rates};

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate { per_second: per_second.try_into().unwrap(), burst: burst.try_into().unwrap() }
    }

    fn check(limits: &RateLimits, project: &str, user: &str) -> Result<(), RateExceeded> {
        limits.check(Some(&project.to_owned()), Some(&user.to_owned()))
    }

    #[test]
    fn each_project_and_each_user_has_a_burst_of_its_own() {
        let limits = RateLimits::new(Rates { project: Some(rate(1, 3)), user: Some(rate(1, 2)) });
        // A machine that stalls for a second lets one more through.
        assert_eq!(check(&limits, "p", "u"), Ok(()));
        let exceeded = (0..1000).find_map(|_| check(&limits, "p", "u").err()).unwrap();
        assert_eq!(exceeded.of, "user");
        assert!(exceeded.wait.as_millis() <= 1000, "{exceeded:?}");
        let of_another = |nth: i32| check(&limits, "p", &nth.to_string()).err();
        assert_eq!((0..1000).find_map(of_another).unwrap().of, "project");
        assert_eq!(check(&limits, "q", "w"), Ok(()));
        assert_eq!(limits.check(None, None), Ok(()));
    }

    #[test]
    fn callers_are_forgotten() {
        let limits = RateLimits::new(Rates { project: Some(rate(1_000_000, 1)), user: None });
        for number in 0..2 * FORGET_EVERY {
            assert_eq!(check(&limits, &number.to_string(), "u"), Ok(()));
        }
        assert!(limits.project.as_ref().unwrap().len() < FORGET_EVERY as usize);
    }
}
