//! The metrics of `/metrics`: their names and descriptions, and their recorder.
//!
//! Other modules record numbers with the macros of the crate `metrics`. Without `--admin-listen`, nothing is
//! collected, and recording does nothing. [`process`] reads the figures of the process on each request for
//! the metrics.

mod process;

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::observe::version;

/// Interval at which observations are moved into the buckets of histograms. Each takes some bytes until then.
const UPKEEP_PERIOD: Duration = Duration::from_secs(5);

/// Upper bounds of the buckets of durations, in seconds.
const SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds of the buckets of counts.
const COUNTS: [f64; 13] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 1e4, 1e5, 1e6];

/// The recorder of the process; `None` if another program in this process has installed its own. The crate
/// `metrics` has one for each process.
static COLLECTED: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Counters, as name and description.
const COUNTERS: [(&str, &str); 41] = [
    ("berth_requests_total", "Requests handled by the APIs."),
    ("berth_requests_shed_total", "Requests refused because --max-requests were in progress."),
    (
        "berth_requests_rate_limited_total",
        "Requests refused because of --rate-limit-project or --rate-limit-user.",
    ),
    ("berth_connections_closed_for_room_total", "Idle connections that were closed for new ones."),
    ("berth_accept_errors_total", "Connections that could not be accepted, by reason."),
    ("berth_panics_total", "Panics of any thread."),
    ("berth_responses_broken_off_total", "Responses whose bodies ended early, by reason."),
    ("berth_inconsistencies_total", "Contradictions found in rows or in the program."),
    (
        "berth_log_lines_dropped_total",
        "Log lines dropped because the log was not read or writable.",
    ),
    ("berth_audit_entries_dropped_total", "Entries of the audit log that were dropped."),
    ("berth_audit_write_failures_total", "Failed attempts to write the audit log."),
    ("berth_history_entries_total", "Entries that were added to the history of changes."),
    ("berth_history_rows_removed_total", "Rows removed from the history by age or number."),
    ("berth_events_sent_total", "Events sent to clients."),
    ("berth_event_responses_ended_total", "Responses with events that were ended, by reason."),
    (
        "berth_event_log_starts_total",
        "Restarts of the log of events, after which clients missed some.",
    ),
    ("berth_trace_spans_total", "Spans for the collector of traces, by outcome."),
    ("berth_claims_total", "Replaced or deleted allocations of consumers, by outcome."),
    ("berth_claims_refused_total", "Refused claims, by reason."),
    ("berth_changes_total", "Changes of the database other than claims, by outcome."),
    ("berth_transactions_retried_total", "Transactions tried again, by change and reason."),
    ("berth_writes_blocked_total", "Writes refused because another session kept a row locked."),
    (
        "berth_database_probe_failures_total",
        "Probes that found no primary of the database that accepts connections, one each second.",
    ),
    ("berth_refresh_failures_total", "Failed attempts to read what has changed in the database."),
    ("berth_world_loads_total", "Times that all providers were read from the database."),
    ("berth_candidates_total", "Allocation candidates returned."),
    ("berth_candidate_search_steps_total", "Steps of searches for candidates, a few ns each."),
    ("berth_candidate_searches_cut_short_total", "Searches for candidates ended early, by reason."),
    ("berth_refused_requests_total", "Requests kept because they were refused or found nothing."),
    (
        "berth_refused_queries_not_counted_total",
        "Kept queries whose conditions were not counted, because others were being counted.",
    ),
    ("berth_holds_expired_total", "Holds of plans that ended before their servers arrived."),
    ("berth_plans_total", "Attempts to make or change plans, by outcome."),
    ("berth_plans_solved_total", "Solver runs with a placement, by whether it is proven optimal."),
    ("berth_keystone_requests_total", "Requests to Keystone, by status or kind of failure."),
    ("berth_keystone_tokens_total", "Tokens looked up, by source of the response."),
    ("berth_policy_denials_total", "Requests that the policy denied, by rule."),
    ("berth_shadow_requests_total", "Requests of clients of the shadow, by what the upstream did."),
    ("berth_shadow_mirrored_total", "Requests of clients of the shadow that Berth has handled."),
    ("berth_shadow_not_mirrored_total", "Requests that were not sent to Berth or got no response."),
    ("berth_shadow_compared_total", "Comparisons of the upstream's and Berth's responses."),
    (
        "berth_shadow_known_differences_total",
        "Intended differences, by number in docs/differences.md.",
    ),
];

/// Gauges, as name and description.
const GAUGES: [(&str, &str); 27] = [
    ("berth_build_info", "1, with the version and the commit (revision) as labels."),
    ("berth_ready", "Whether the replica can serve: 1 or 0."),
    ("berth_connections_open", "Connections of the APIs that are open."),
    ("berth_large_responses_bytes", "Bytes of large responses in memory while they are sent."),
    (
        "berth_connections_idle",
        "Connections of the APIs without a request or the beginning of one.",
    ),
    ("berth_requests_in_flight", "Requests of the APIs without a response yet."),
    ("berth_requests_in_flight_max", "Requests in progress beyond which more are refused."),
    ("berth_audit_entries_waiting", "Entries of the audit log that are not written yet."),
    ("berth_providers", "Resource providers in memory."),
    ("berth_overcommitted_providers", "Providers with an inventory below its usage."),
    ("berth_writes_failing", "Whether the last three or more writes failed: 1 or 0."),
    ("berth_flavor_fits", "Further instances of a flavor that fit, by bound: lower or upper."),
    (
        "berth_refresh_timestamp_seconds",
        "Time of the replica's last complete refresh, in Unix time.",
    ),
    (
        "berth_keystone_clock_skew_seconds",
        "Seconds by which the clock is ahead of Keystone's at its last response.",
    ),
    (
        "berth_tls_certificate_expiry_timestamp_seconds",
        "Time at which the certificate of the APIs expires, in Unix time.",
    ),
    ("berth_change_log_rows", "Rows of the change log, counted once a minute up to a million."),
    ("berth_change_log_bytes", "Size of the change log with its index."),
    ("berth_consumers_in_memory", "Consumers that are kept in memory."),
    ("berth_history_rows", "Rows of the history of changes, about."),
    ("berth_history_bytes", "Size of the history of changes with its index."),
    (
        "berth_history_begin_timestamp_seconds",
        "The time from which on the history has changes, in Unix time.",
    ),
    ("berth_database_pool_connections", "Connections of the pool to the database, by state."),
    ("berth_database_pool_connections_max", "Connections that the pool may have."),
    ("berth_turns_held", "Searches, plans, bulk reads and the like in progress."),
    ("berth_turns_waiting", "Requests that wait for a turn, such as one at a search."),
    ("berth_shadow_mirror_on", "Whether the shadow mirrors: 1 or 0."),
    ("berth_shadow_pending", "Requests that wait to be mirrored, or are being mirrored."),
];

/// Histograms, as name, unit and description.
const HISTOGRAMS: [(&str, Unit, &str); 9] = [
    (
        "http_server_request_duration_seconds",
        Unit::Seconds,
        "Time from the head of a request to the beginning of its response.",
    ),
    ("berth_claim_batch_size", Unit::Count, "Claims written in one transaction."),
    ("berth_claim_batch_duration_seconds", Unit::Seconds, "Time to write a batch of claims."),
    ("berth_change_duration_seconds", Unit::Seconds, "Time of a change other than claims."),
    ("berth_refresh_duration_seconds", Unit::Seconds, "Time to read what has changed."),
    ("berth_database_pool_wait_seconds", Unit::Seconds, "Time to get a connection of the pool."),
    ("berth_planner_solve_duration_seconds", Unit::Seconds, "Time of a run of the solver."),
    ("berth_keystone_request_duration_seconds", Unit::Seconds, "Time of a request to Keystone."),
    (
        "berth_shadow_request_duration_seconds",
        Unit::Seconds,
        "Time to the end of the response to a mirrored request, by service.",
    ),
];

/// Returns the names of all series of `/metrics`, except those of the process.
pub fn names() -> Vec<String> {
    let single = COUNTERS.iter().chain(&GAUGES).map(|(name, _)| (*name).to_owned());
    let parts = |(name, ..): &(&str, Unit, &str)| {
        ["bucket", "sum", "count"].map(|part| format!("{name}_{part}"))
    };
    single.chain(HISTOGRAMS.iter().flat_map(parts)).collect()
}

/// Starts collecting the numbers of a server; earlier ones are lost.
pub fn collect() {
    collect_from(start_at_zero);
}

/// Starts collecting the numbers of `berth shadow`.
pub fn collect_for_shadow() {
    collect_from(start_shadow_at_zero);
}

fn collect_from(start_counters: fn()) {
    COLLECTED.get_or_init(|| match install() {
        Ok(handle) => {
            start_counters();
            Some(handle)
        }
        Err(error) => {
            tracing::error!(error, "metrics cannot be collected");
            None
        }
    });
}

fn install() -> Result<PrometheusHandle, String> {
    let recorder = builder().map_err(|error| error.to_string())?.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
    for (name, what) in COUNTERS {
        describe_counter!(name, what);
    }
    for (name, what) in GAUGES {
        describe_gauge!(name, what);
    }
    for (name, unit, what) in HISTOGRAMS {
        describe_histogram!(name, unit, what);
    }
    Ok(handle)
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for (name, unit, _) in HISTOGRAMS {
        let buckets: &[f64] = if unit == Unit::Seconds { &SECONDS } else { &COUNTS };
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    Ok(builder)
}

/// Starts counters without labels, and those that alerts use, at zero: rates of a counter need its first
/// value.
fn start_at_zero() {
    for name in [
        "berth_connections_closed_for_room_total",
        "berth_panics_total",
        "berth_inconsistencies_total",
        "berth_log_lines_dropped_total",
        "berth_audit_entries_dropped_total",
        "berth_audit_write_failures_total",
        "berth_history_entries_total",
        "berth_history_rows_removed_total",
        "berth_writes_blocked_total",
        "berth_database_probe_failures_total",
        "berth_refresh_failures_total",
        "berth_world_loads_total",
        "berth_candidates_total",
        "berth_candidate_search_steps_total",
        "berth_refused_queries_not_counted_total",
    ] {
        counter!(name).increment(0);
    }
    for reason in ["gone", "scarce", "other"] {
        counter!("berth_accept_errors_total", "reason" => reason).increment(0);
    }
    for reason in ["failed", "gone", "panic", "slow_client"] {
        counter!("berth_responses_broken_off_total", "reason" => reason).increment(0);
    }
    for outcome in ["sent", "failed", "dropped"] {
        counter!("berth_trace_spans_total", "outcome" => outcome).increment(0);
    }
    for api in ["placement", "planner"] {
        counter!("berth_requests_shed_total", "api" => api).increment(0);
    }
    for of in ["project", "user"] {
        counter!("berth_requests_rate_limited_total", "of" => of).increment(0);
    }
    set_build_info();
}

fn start_shadow_at_zero() {
    for kind in ["read", "write"] {
        counter!("berth_shadow_mirrored_total", "kind" => kind).increment(0);
        counter!("berth_shadow_not_mirrored_total", "kind" => kind, "reason" => "queue_full")
            .increment(0);
        counter!("berth_shadow_compared_total", "kind" => kind, "outcome" => "different")
            .increment(0);
    }
    set_build_info();
}

fn set_build_info() {
    gauge!("berth_build_info", "version" => version::VERSION, "revision" => version::COMMIT).set(1);
}

/// Returns whether numbers are collected. Callers skip expensive measurements if not.
pub fn are_collected() -> bool {
    matches!(COLLECTED.get(), Some(Some(_)))
}

/// Number of panics of this process. A panic calls no recorder, because a lock may be held.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts a panic.
pub fn count_panic() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// Returns all numbers, in the text format of Prometheus; `None` if they are not collected here.
pub fn render() -> Option<String> {
    let collected = COLLECTED.get()?.as_ref()?;
    counter!("berth_panics_total").absolute(PANICS.load(Ordering::Relaxed));
    let mut text = collected.render();
    process::write(&mut text);
    Some(text)
}

/// Returns the name of an enumeration's variant, in the spelling of labels: `capacity_exceeded`.
pub fn variant(value: &impl Debug) -> String {
    let shown = format!("{value:?}");
    let mut name = String::new();
    for character in shown.chars().take_while(char::is_ascii_alphanumeric) {
        if character.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(character.to_ascii_lowercase());
    }
    name
}

/// Moves observations into buckets periodically, so that they take no memory while the metrics are not read. Does
/// not end.
pub async fn keep_up() -> Infallible {
    loop {
        tokio::time::sleep(UPKEEP_PERIOD).await;
        if let Some(Some(collected)) = COLLECTED.get() {
            collected.run_upkeep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::variant;
    use crate::model::Refusal;

    #[test]
    fn a_variant_has_a_name_without_what_it_holds() {
        let all = [
            Refusal::TreeLoop,
            Refusal::CapacityExceeded { provider: "a".to_owned(), class: "VCPU".to_owned() },
            Refusal::NoAllocations("consumer".to_owned()),
        ];
        assert_eq!(
            all.map(|it| variant(&it)),
            ["tree_loop", "capacity_exceeded", "no_allocations"]
        );
    }
}
