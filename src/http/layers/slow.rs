//! Warnings of slow requests, with where their time went.

use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode, Uri};

use crate::observe::spans::milliseconds;
use crate::observe::times::RequestTimes;

/// A request that is warned of if it takes too long.
#[derive(Debug)]
pub(in crate::http) struct TimedRequest {
    warn_after: Duration,
    arrived: Instant,
    times: RequestTimes,
    method: Method,
    uri: Uri,
}

/// The same once its response is ready.
#[derive(Debug)]
pub(in crate::http) struct TimedResponse {
    request: TimedRequest,
    status: StatusCode,
    ready: Instant,
}

impl TimedRequest {
    /// Starts the times of a request that has arrived.
    pub(in crate::http) fn start(warn_after: Duration, method: &Method, uri: &Uri) -> Self {
        let (times, method, uri) = (RequestTimes::default(), method.clone(), uri.clone());
        Self { warn_after, arrived: Instant::now(), times, method, uri }
    }

    /// Returns the times.
    pub(in crate::http) fn times(&self) -> RequestTimes {
        self.times.clone()
    }

    /// Notes that the response is ready to be sent.
    pub(in crate::http) fn responded(self, status: StatusCode) -> TimedResponse {
        TimedResponse { request: self, status, ready: Instant::now() }
    }
}

impl TimedResponse {
    /// Warns, if the request took too long until now, when its response has been sent.
    pub(in crate::http) fn sent(&self) {
        let Self { request, status, ready } = self;
        let TimedRequest { warn_after, arrived, times, method, uri } = request;
        let took = arrived.elapsed();
        if took < *warn_after {
            return;
        }
        let mut times = times.parts();
        times.push(("send", ready.elapsed()));
        let known: Duration = times.iter().map(|(_, time)| *time).sum();
        times.push(("other", took.saturating_sub(known)));
        let target = uri.path_and_query().map_or(uri.path(), |target| target.as_str());
        tracing::warn!(
            status = status.as_u16(),
            took_ms = milliseconds(took),
            "slow request: {method} {target}: {}",
            text(&times)
        );
    }
}

/// Returns times as text, the longest first, without those below a tenth of a millisecond.
fn text(times: &[(&'static str, Duration)]) -> String {
    let mut times: Vec<_> = times.iter().map(|(name, time)| (*name, milliseconds(*time))).collect();
    times.retain(|(_, millis)| *millis > 0.0);
    times.sort_by(|one, other| other.1.total_cmp(&one.1));
    let parts = times.iter().map(|(name, millis)| format!("{name} {millis} ms"));
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::text;

    #[test]
    fn the_longest_time_is_first_and_none_is_empty() {
        let times = [("queue", 40), ("search", 3_204_140), ("send", 4_000)];
        let times = times.map(|(name, micros)| (name, Duration::from_micros(micros)));
        assert_eq!(text(&times), "search 3204.1 ms, send 4 ms");
    }
}
