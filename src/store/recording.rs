//! Records the store's metrics.

use std::any::type_name;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::{counter, gauge, histogram};

use super::condition::ChangeLog;
use super::error::{Error, Result};
use crate::observe::metrics::variant;

/// The counter of retried transactions, by change and reason.
const RETRIED: &str = "berth_transactions_retried_total";
const CONFLICT: &str = "conflict";
const LOCK: &str = "lock";
/// The name of claims in these metrics.
const CLAIMS: &str = "Claims";
/// The names of all other changes.
const CHANGES: [&str; 25] = [
    "AddMembers",
    "Booking",
    "CreateGroup",
    "CreateProvider",
    "DeleteClass",
    "DeleteGroup",
    "DeleteInventory",
    "DeleteProvider",
    "DeleteTrait",
    "DescribeGroup",
    "EnsureClass",
    "EnsureTrait",
    "ExpireHold",
    "RemoveMembers",
    "RenameClass",
    "ReplaceAggregates",
    "ReplaceInventories",
    "ReplaceTraits",
    "Reshape",
    "SetAggregate",
    "SetFlavors",
    "UnsetAggregate",
    "UnsetFlavor",
    "UpdateProvider",
    "WriteInventory",
];

/// Starts the counters of retries and of claims at zero: rates of a counter need its first value.
pub(super) fn count_from_zero() {
    counter!(RETRIED, "change" => CLAIMS, "reason" => CONFLICT).increment(0);
    for change in CHANGES {
        for reason in [CONFLICT, LOCK] {
            counter!(RETRIED, "change" => change, "reason" => reason).increment(0);
        }
    }
    for outcome in OUTCOMES {
        counter!("berth_claims_total", "outcome" => outcome).increment(0);
    }
}

/// The outcomes of claims and changes.
const OUTCOMES: [&str; 4] = ["written", "refused", "unavailable", "failed"];

/// Returns the outcome of a claim or a change, as a label.
fn outcome<T>(result: &Result<T>) -> &'static str {
    match result {
        Ok(_) => "written",
        Err(Error::Refused(..) | Error::Maintenance(_)) => "refused",
        Err(Error::Unavailable(_) | Error::Again(_) | Error::Locked(_)) => "unavailable",
        Err(Error::Inconsistent { .. } | Error::Bug(_)) => "failed",
    }
}

/// Returns the name of a change: that of its type.
pub(super) fn change_name<C>() -> &'static str {
    let name = type_name::<C>();
    let name = name.split_once('<').map_or(name, |(name, _)| name);
    name.rsplit_once("::").map_or(name, |(_, name)| name)
}

/// Counts an attempt to replace or delete the allocations of consumers.
pub(super) fn claim(result: &Result<()>) {
    counter!("berth_claims_total", "outcome" => outcome(result)).increment(1);
    if let Err(Error::Refused(why, _)) = result {
        counter!("berth_claims_refused_total", "reason" => variant(why)).increment(1);
    }
}

/// Records the size and duration of a batch of claims.
#[expect(clippy::cast_precision_loss, reason = "there are less than 2 to the 52nd")]
pub(super) fn batch(claims: usize, took: Duration) {
    histogram!("berth_claim_batch_size").record(claims as f64);
    histogram!("berth_claim_batch_duration_seconds").record(took);
}

/// Records the outcome and duration of another change.
pub(super) fn change<T>(name: &'static str, result: &Result<T>, took: Duration) {
    let outcome = outcome(result);
    counter!("berth_changes_total", "change" => name, "outcome" => outcome).increment(1);
    histogram!("berth_change_duration_seconds", "change" => name).record(took);
}

/// Counts a retry after a conflict with other transactions.
pub(super) fn conflict(change: &'static str) {
    counter!(RETRIED, "change" => change, "reason" => CONFLICT).increment(1);
}

/// Counts a retry after a lock time-out.
pub(super) fn locked(change: &'static str) {
    counter!(RETRIED, "change" => change, "reason" => LOCK).increment(1);
}

/// Counts a retry of a batch of claims after a conflict.
pub(super) fn claims_conflict() {
    conflict(CLAIMS);
}

/// Counts a write that was refused because a row stayed locked.
pub(super) fn blocked() {
    counter!("berth_writes_blocked_total").increment(1);
}

/// Counts a probe of the database that found no primary that accepts connections.
pub(super) fn failed_probe() {
    counter!("berth_database_probe_failures_total").increment(1);
}

/// Records the outcome and duration of a refresh.
pub(super) fn refresh(succeeded: bool, took: Duration) {
    if !succeeded {
        counter!("berth_refresh_failures_total").increment(1);
        return;
    }
    histogram!("berth_refresh_duration_seconds").record(took);
    if let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) {
        gauge!("berth_refresh_timestamp_seconds").set(now.as_secs_f64());
    }
}

/// Counts a complete read of all providers.
pub(super) fn load() {
    counter!("berth_world_loads_total").increment(1);
}

/// Counts a hold that has ended because its server has not arrived.
pub(super) fn hold_expired() {
    counter!("berth_holds_expired_total").increment(1);
}

/// Records the size of the change log.
#[expect(clippy::cast_precision_loss, reason = "there are less than 2 to the 52nd")]
pub(super) fn change_log(size: ChangeLog) {
    gauge!("berth_change_log_rows").set(size.rows as f64);
    gauge!("berth_change_log_bytes").set(size.bytes as f64);
}

/// Records the wait for a connection of the pool.
pub(super) fn pool_wait(took: Duration) {
    histogram!("berth_database_pool_wait_seconds").record(took);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::{CHANGES, change_name};

    /// Collects the types of changes in a folder of the sources.
    fn changes_in(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                changes_in(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let types = text.lines().filter_map(|line| line.strip_prefix("impl Change for "));
            found.extend(types.map(|name| name.trim_end_matches(" {").to_owned()));
        }
    }

    #[test]
    fn every_change_is_counted_from_zero() {
        let mut found = BTreeSet::new();
        changes_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store"), &mut found);
        // Batches of claims have their own counters.
        assert!(found.remove("Batch"));
        assert_eq!(found, CHANGES.map(str::to_owned).into());
    }

    #[test]
    fn a_change_has_the_name_of_its_type() {
        assert_eq!(change_name::<std::time::Duration>(), "Duration");
        assert_eq!(change_name::<Vec<std::time::Duration>>(), "Vec");
    }
}
