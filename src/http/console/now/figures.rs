//! The activity of this process: the difference between two readings of its metrics.

use std::collections::BTreeMap;

use super::exposition::Samples;

/// The buckets of a histogram: upper bounds with cumulative counts, ascending.
type Buckets = Vec<(f64, f64)>;

/// Activity of a server between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Processors in use.
    pub(super) processors: Option<f64>,
    pub(super) resident_bytes: Option<f64>,
    pub(super) requests_per_second: f64,
    /// 5xx per second.
    pub(super) failed_per_second: f64,
    /// The busiest first.
    pub(super) routes: Vec<Route>,
    pub(super) claims: Claims,
    /// Reads of changes from the database.
    pub(super) refresh: Timing,
    pub(super) refresh_failures_per_second: f64,
    pub(super) transactions_retried_per_second: f64,
    /// Connections to the database: in use, and maximum.
    pub(super) pool: Option<(f64, f64)>,
    pub(super) candidates_per_second: f64,
    pub(super) plans_per_second: f64,
    /// Work that takes turns.
    pub(super) turns: Vec<Turns>,
}

/// The requests of one route.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Route {
    pub(super) method: String,
    pub(super) path: String,
    /// 4xx per second.
    pub(super) refused_per_second: f64,
    /// 5xx per second.
    pub(super) failed_per_second: f64,
    pub(super) timing: Timing,
}

/// Rate of an operation, and its duration in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Timing {
    pub(super) per_second: f64,
    pub(super) mean: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
}

/// Allocations of consumers that were replaced or deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Claims {
    pub(super) written_per_second: f64,
    pub(super) refused_per_second: f64,
    /// Mean number of claims per transaction.
    pub(super) batch_size: Option<f64>,
    pub(super) batch: Timing,
}

/// Work of one kind that takes turns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turns {
    pub(super) kind: String,
    pub(super) held: f64,
    pub(super) waiting: f64,
}

impl Figures {
    /// The activity between two readings that are `seconds` apart.
    pub(super) fn between(before: &Samples, now: &Samples, seconds: f64) -> Self {
        let change = Change { before, now, seconds: seconds.max(f64::MIN_POSITIVE) };
        let gauge = |name: &str| now.sum(name, &[]);
        let mut turns: Vec<Turns> = now
            .of("berth_turns_held")
            .iter()
            .filter_map(|sample| {
                let kind = sample.label("kind")?;
                let waiting = now.sum("berth_turns_waiting", &[("kind", kind)])?;
                Some(Turns { kind: kind.to_owned(), held: sample.value, waiting })
            })
            .collect();
        turns.sort_by(|one, other| one.kind.cmp(&other.kind));
        let routes = change.routes();
        let pool = now.sum("berth_database_pool_connections", &[("state", "used")]);
        Self {
            processors: change.rate_if_known("process_cpu_seconds_total"),
            resident_bytes: gauge("process_resident_memory_bytes"),
            requests_per_second: routes.iter().map(|it| it.timing.per_second).sum(),
            failed_per_second: routes.iter().map(|it| it.failed_per_second).sum(),
            routes,
            claims: Claims {
                written_per_second: change.rate("berth_claims_total", &[("outcome", "written")]),
                refused_per_second: change.rate("berth_claims_total", &[("outcome", "refused")]),
                batch_size: change.timing("berth_claim_batch_size", &[]).mean,
                batch: change.timing("berth_claim_batch_duration_seconds", &[]),
            },
            refresh: change.timing("berth_refresh_duration_seconds", &[]),
            refresh_failures_per_second: change.rate("berth_refresh_failures_total", &[]),
            transactions_retried_per_second: change.rate("berth_transactions_retried_total", &[]),
            pool: pool.zip(gauge("berth_database_pool_connections_max")),
            candidates_per_second: change.rate("berth_candidates_total", &[]),
            plans_per_second: change.rate("berth_plans_total", &[]),
            turns,
        }
    }
}

/// Two readings.
struct Change<'s> {
    before: &'s Samples,
    now: &'s Samples,
    seconds: f64,
}

impl Change<'_> {
    /// Increase of a counter per second. A decrease means a restart at 0.
    fn rate(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let Some(now) = self.now.sum(name, labels) else { return 0.0 };
        let before = self.before.sum(name, labels).map_or(0.0, |before| before);
        let grown = if now >= before { now - before } else { now };
        grown / self.seconds
    }

    fn rate_if_known(&self, name: &str) -> Option<f64> {
        self.now.sum(name, &[]).map(|_| self.rate(name, &[]))
    }

    fn timing(&self, name: &str, labels: &[(&str, &str)]) -> Timing {
        let per_second = self.rate(&format!("{name}_count"), labels);
        let sum = self.rate(&format!("{name}_sum"), labels);
        let buckets = self.buckets(&format!("{name}_bucket"), labels);
        Timing {
            per_second,
            mean: (per_second > 0.0).then(|| sum / per_second),
            p50: quantile(&buckets, 0.5),
            p99: quantile(&buckets, 0.99),
        }
    }

    /// Increase of each bucket of a histogram, summed over all series with these labels.
    fn buckets(&self, name: &str, labels: &[(&str, &str)]) -> Buckets {
        let mut bounds: Vec<(f64, &str)> = self
            .now
            .of(name)
            .iter()
            .filter_map(|sample| {
                let text = sample.label("le")?;
                Some((if text == "+Inf" { f64::INFINITY } else { text.parse().ok()? }, text))
            })
            .collect();
        bounds.sort_by(|one, other| one.0.total_cmp(&other.0));
        bounds.dedup_by(|one, other| one.1 == other.1);
        let grown = |(bound, text): (f64, &str)| {
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", text)]).collect();
            (bound, self.rate(name, &labels))
        };
        bounds.into_iter().map(grown).collect()
    }

    /// The requests by route, the busiest first.
    fn routes(&self) -> Vec<Route> {
        const METRIC: &str = "http_server_request_duration_seconds";
        let mut statuses: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for sample in self.now.of(&format!("{METRIC}_count")) {
            let names = ["http_request_method", "http_route", "http_response_status_code"];
            if let [Some(method), Some(route), Some(status)] = names.map(|name| sample.label(name))
            {
                statuses.entry((method, route)).or_default().push(status);
            }
        }
        let route = |((method, route), mut codes): ((&str, &str), Vec<&str>)| {
            codes.sort_unstable();
            codes.dedup();
            let labels = [("http_request_method", method), ("http_route", route)];
            // The quantiles of a route read all buckets.
            if self.rate(&format!("{METRIC}_count"), &labels) <= 0.0 {
                return None;
            }
            let rate = |class: char| {
                let of_class = codes.iter().filter(|code| code.starts_with(class));
                let rates = of_class.map(|code| {
                    let [method, route] = labels;
                    let labels = [method, route, ("http_response_status_code", *code)];
                    self.rate(&format!("{METRIC}_count"), &labels)
                });
                // An empty sum would be -0.
                rates.fold(0.0, |sum, more| sum + more)
            };
            Some(Route {
                method: method.to_owned(),
                path: route.to_owned(),
                refused_per_second: rate('4'),
                failed_per_second: rate('5'),
                timing: self.timing(METRIC, &labels),
            })
        };
        let mut routes: Vec<Route> = statuses.into_iter().filter_map(route).collect();
        routes.sort_by(|one, other| other.timing.per_second.total_cmp(&one.timing.per_second));
        routes
    }
}

/// The value below which a share of the observations lies, assuming an even spread within buckets. For the last
/// bucket, its lower bound.
fn quantile(buckets: &Buckets, part: f64) -> Option<f64> {
    let all = buckets.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
    let rank = all * part;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= rank {
            let within = if *count > below { (rank - below) / (count - below) } else { 1.0 };
            return Some(if bound.is_finite() { lower + (bound - lower) * within } else { lower });
        }
        (lower, below) = (*bound, *count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Figures, quantile};
    use crate::http::console::now::exposition::Samples;

    #[test]
    fn a_quantile_is_within_its_bucket() {
        let buckets = vec![(0.1, 50.0), (0.2, 100.0), (f64::INFINITY, 100.0)];
        assert_eq!(quantile(&buckets, 0.5), Some(0.1));
        assert!((quantile(&buckets, 0.75).unwrap() - 0.15).abs() < 1e-9);
        assert_eq!(quantile(&vec![(0.1, 0.0), (f64::INFINITY, 4.0)], 0.5), Some(0.1));
        assert_eq!(quantile(&vec![(0.1, 0.0), (f64::INFINITY, 0.0)], 0.5), None);
        assert_eq!(quantile(&Vec::new(), 0.5), None);
    }

    #[test]
    fn rates_are_what_counters_have_grown() {
        let look = |requests: u32, errors: u32, claims: u32| {
            let route = "http_request_method=\"GET\",http_route=\"/usages\"";
            Samples::parse(&format!(
                "berth_claims_total{{outcome=\"written\"}} {claims}\n\
                 http_server_request_duration_seconds_count{{{route},http_response_status_code=\"200\"}} {requests}\n\
                 http_server_request_duration_seconds_count{{{route},http_response_status_code=\"503\"}} {errors}\n\
                 berth_turns_held{{kind=\"plan\"}} 1\nberth_turns_waiting{{kind=\"plan\"}} 3\n"
            ))
        };
        let figures = Figures::between(&look(100, 0, 50), &look(120, 4, 10), 2.0);
        let [route] = figures.routes.as_slice() else { panic!("{figures:?}") };
        assert_eq!((route.method.as_str(), route.path.as_str()), ("GET", "/usages"));
        assert!((route.timing.per_second - 12.0).abs() < 1e-9);
        assert!((route.failed_per_second - 2.0).abs() < 1e-9);
        // The server was restarted: its counters begin at 0.
        assert!((figures.claims.written_per_second - 5.0).abs() < 1e-9);
        assert!((figures.turns[0].waiting - 3.0).abs() < 1e-9);
        assert_eq!(figures.processors, None);
    }
}
