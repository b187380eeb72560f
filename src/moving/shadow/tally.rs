//! Counts, latencies and examples of the requests so far, for the summary and for metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::metrics::{counter, histogram};
use axum::http::StatusCode;
use hdrhistogram::Histogram;

use super::route::Kind;
use crate::moving::compare::known::Rule;

/// Maximum number of kinds of differences that are counted separately. Others are counted together.
const KINDS_MAX: usize = 200;
/// Maximum latency of the histograms in microseconds, and their significant digits.
const TOOK_MAX: u64 = 3_600_000_000;
const DIGITS: u8 = 2;
/// The key for all routes together.
pub(super) const ALL: &str = "all";

/// Outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The responses are equal.
    Same,
    /// They differ, also after repetitions.
    Different,
    /// They differ as described in docs/differences.md.
    Known,
    /// They differed once, and later not or differently.
    Changing,
    /// They differ, and were not repeated because too many do.
    Unconfirmed,
    /// A write that the upstream accepted was refused by Berth.
    Refused,
    /// A write was sent more than once, so its effect is uncertain.
    Uncertain,
}

impl Outcome {
    /// Label in metrics and in the summary.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::Known => "known",
            Self::Changing => "changing",
            Self::Unconfirmed => "unconfirmed",
            Self::Refused => "refused",
            Self::Uncertain => "uncertain",
        }
    }
}

/// Certainty that Berth lacks a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// The upstream has accepted it, and Berth has not carried it out.
    Accepted,
    /// It is unknown whether the upstream, or Berth, has carried it out.
    Unknown,
}

/// A kind of difference: the route, and the place that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DifferenceKind {
    pub(super) route: String,
    /// The place of the first difference, without the identifiers of objects.
    pub(super) place: String,
}

/// Number of differences of a kind, with an example.
#[derive(Clone, Debug)]
pub(super) struct DifferenceCount {
    pub(super) count: u64,
    /// The first request, with both values.
    pub(super) example: String,
}

/// Latencies of both services for the same requests.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    pub(super) upstream: Histogram<u64>,
    pub(super) berth: Histogram<u64>,
}

impl Latencies {
    fn new() -> Option<Self> {
        let empty = || Histogram::new_with_bounds(1, TOOK_MAX, DIGITS).ok();
        Some(Self { upstream: empty()?, berth: empty()? })
    }
}

/// The outcome of a write by the status of the upstream's response.
pub(super) fn of_write(status: StatusCode) -> &'static str {
    if status.is_success() {
        "accepted"
    } else if status.is_server_error() {
        // It may have been carried out all the same.
        "failed"
    } else {
        "refused"
    }
}

/// All counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Requests of clients, by kind and outcome in the upstream.
    pub(super) requests: BTreeMap<(Kind, &'static str), u64>,
    /// Requests to which Berth has responded.
    pub(super) mirrored: BTreeMap<Kind, u64>,
    /// Requests that were not mirrored, by reason.
    pub(super) not_mirrored: BTreeMap<(Kind, &'static str), u64>,
    /// Writes that Berth lacks, or may lack.
    pub(super) lacking: BTreeMap<Certainty, u64>,
    /// Comparisons.
    pub(super) compared: BTreeMap<(Kind, Outcome), u64>,
    /// Unexplained differences.
    pub(super) differences: BTreeMap<DifferenceKind, DifferenceCount>,
    /// Known differences, by number.
    pub(super) known: BTreeMap<&'static str, (u64, &'static str)>,
    /// Latencies by route, and of [`ALL`].
    pub(super) latencies: BTreeMap<&'static str, Latencies>,
}

/// The counts of all requests so far.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

impl Tally {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the current counts.
    pub(super) fn snapshot(&self) -> Counts {
        self.counts().clone()
    }

    /// Counts a client's request: `answered`, for writes [the outcome by status](of_write), or the name of a failure.
    pub(super) fn requested(&self, kind: Kind, outcome: &'static str) {
        counter!("berth_shadow_requests_total", "kind" => kind.name(), "outcome" => outcome)
            .increment(1);
        *self.counts().requests.entry((kind, outcome)).or_default() += 1;
    }

    /// Counts a request to which Berth has responded.
    pub(super) fn mirrored(&self, kind: Kind) {
        counter!("berth_shadow_mirrored_total", "kind" => kind.name()).increment(1);
        *self.counts().mirrored.entry(kind).or_default() += 1;
    }

    /// Counts a request that was not mirrored, or not completely.
    pub(super) fn not_mirrored(&self, kind: Kind, reason: &'static str) {
        counter!("berth_shadow_not_mirrored_total", "kind" => kind.name(), "reason" => reason)
            .increment(1);
        *self.counts().not_mirrored.entry((kind, reason)).or_default() += 1;
    }

    /// Counts a write that Berth lacks, or may lack.
    pub(super) fn lacks(&self, certainty: Certainty) {
        *self.counts().lacking.entry(certainty).or_default() += 1;
    }

    /// Counts a comparison.
    pub(super) fn compared(&self, kind: Kind, outcome: Outcome) {
        counter!("berth_shadow_compared_total", "kind" => kind.name(), "outcome" => outcome.name())
            .increment(1);
        *self.counts().compared.entry((kind, outcome)).or_default() += 1;
    }

    /// Counts a difference by its kind.
    pub(super) fn differed(&self, kind: DifferenceKind, example: String) {
        let mut counts = self.counts();
        let is_new = !counts.differences.contains_key(&kind);
        let kind = if is_new && counts.differences.len() >= KINDS_MAX {
            DifferenceKind { route: "other".to_owned(), place: "other".to_owned() }
        } else {
            kind
        };
        let counted = counts.differences.entry(kind);
        counted.or_insert(DifferenceCount { count: 0, example }).count += 1;
    }

    /// Counts a known difference.
    pub(super) fn differed_as_known(&self, rule: &'static Rule) {
        counter!("berth_shadow_known_differences_total", "difference" => rule.id).increment(1);
        self.counts().known.entry(rule.id).or_insert((0, rule.title)).0 += 1;
    }

    /// Records both services' latencies for the same request.
    pub(super) fn took(&self, route: &'static str, upstream: Duration, berth: Duration) {
        for (service, took) in [("upstream", upstream), ("berth", berth)] {
            histogram!("berth_shadow_request_duration_seconds", "service" => service, "route" => route)
                .record(took);
        }
        let microseconds = |took: Duration| u64::try_from(took.as_micros()).unwrap_or(TOOK_MAX);
        let mut counts = self.counts();
        for route in [ALL, route] {
            if !counts.latencies.contains_key(route)
                && let Some(empty) = Latencies::new()
            {
                counts.latencies.insert(route, empty);
            }
            if let Some(latencies) = counts.latencies.get_mut(route) {
                latencies.upstream.saturating_record(microseconds(upstream));
                latencies.berth.saturating_record(microseconds(berth));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ALL, DifferenceKind, KINDS_MAX, Tally};

    #[test]
    fn kinds_of_differences_are_bounded() {
        let tally = Tally::default();
        for nth in 0..KINDS_MAX + 10 {
            let (route, place) = ("/usages".to_owned(), format!("body/{nth}"));
            tally.differed(DifferenceKind { route, place }, nth.to_string());
        }
        let found = tally.snapshot().differences;
        assert_eq!(found.len(), KINDS_MAX + 1);
        let other = found.iter().find(|(kind, _)| kind.route == "other").unwrap().1;
        assert_eq!((other.count, other.example.as_str()), (10, "200"));
    }

    #[test]
    fn times_are_kept_by_route_and_together() {
        let tally = Tally::default();
        tally.took("/usages", Duration::from_millis(10), Duration::from_hours(5));
        tally.took("/traits", Duration::from_millis(20), Duration::from_micros(300));
        let found = tally.snapshot().latencies;
        assert_eq!((found[ALL].upstream.len(), found["/usages"].upstream.len()), (2, 1));
        assert!(found["/usages"].berth.max() >= 3_500_000_000);
        assert!((290..310).contains(&found["/traits"].berth.max()));
    }
}
