//! Names the sessions that keep rows locked in the log, when a write has waited for a row in vain.

use std::sync::Arc;

use futures_util::FutureExt;

use super::condition::{LONG_LOCK, LockHolder, REPORTED_MAX, lock_holders};
use super::primary::Primary;
use super::recording;
use crate::observe::log_throttle::LogThrottle;

/// Reports at most once a minute. Clones share that limit.
#[derive(Clone, Debug)]
pub(super) struct LockReport {
    primary: Primary,
    throttle: Arc<LogThrottle>,
}

impl LockReport {
    pub(super) fn new(primary: Primary) -> Self {
        Self { primary, throttle: Arc::default() }
    }

    /// Counts a write that has waited in vain, and starts a report of the sessions that keep rows locked now.
    pub(super) fn start(&self) {
        recording::blocked();
        let Some(writes) = self.throttle.count() else { return };
        let primary = self.primary.clone();
        tokio::spawn(async move {
            let found =
                primary.read(|conn| lock_holders(conn, LONG_LOCK, REPORTED_MAX).boxed()).await;
            match found.as_deref() {
                Ok([]) => tracing::warn!(
                    writes,
                    "writes were refused because rows are locked; no session that keeps them is visible: grant \
                     pg_read_all_stats to the role of Berth"
                ),
                Ok(holders) => {
                    for LockHolder { place, tables, seconds, .. } in holders {
                        tracing::warn!(
                            writes,
                            session = place,
                            tables,
                            seconds,
                            "writes were refused because a session keeps rows locked"
                        );
                    }
                }
                Err(error) => tracing::debug!(%error, "the sessions with locks are unknown"),
            }
        });
    }
}
