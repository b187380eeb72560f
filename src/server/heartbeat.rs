//! Reports this replica to the others and to `berth members`, and carries out what operators order: that it is drained,
//! or that writes are refused.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::config::Config;
use crate::http::Backend;
use crate::http::admin::health::Verdict;
use crate::observe::version;
use crate::store::replicas::{Heartbeat, process_id};
use crate::store::{self, Store};

/// Interval of reports.
const EVERY: Duration = Duration::from_secs(3);
/// Timeout for the last report of a replica that stops.
const LAST_MAX: Duration = Duration::from_secs(2);

/// The reports of this process.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    store: Store,
    backend: Arc<Backend>,
    name: String,
    address: String,
}

impl Reports {
    /// Makes the first report, so that the replica knows of a maintenance before it serves.
    pub(super) async fn start(store: Store, backend: Arc<Backend>, config: &Config) -> Self {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let address = config.listen.first().map_or_else(String::new, ToString::to_string);
        let reports = Self { store, backend, name, address };
        reports.try_report("starting".to_owned(), Duration::ZERO).await;
        reports
    }

    /// Reports every few seconds.
    pub(super) async fn run(self) {
        loop {
            sleep(EVERY).await;
            let readiness = text(self.backend.readiness().await);
            // A read of its own: the readiness is shared with health checks. One that fails has taken its time as well.
            let began = Instant::now();
            drop(self.store.world().await);
            self.try_report(readiness, began.elapsed()).await;
        }
    }

    /// Reports, unless the database is unavailable, which `/readyz` and the log say elsewhere.
    async fn try_report(&self, readiness: String, refresh: Duration) {
        if let Err(error) = self.report(readiness, refresh).await {
            tracing::debug!(%error, "the replica cannot report");
        }
    }

    async fn report(&self, readiness: String, refresh: Duration) -> store::Result<()> {
        let connections = self.store.pool_counts().map_or(0, |(used, idle, _)| used + idle);
        let heartbeat = Heartbeat {
            id: process_id(),
            name: self.name.clone(),
            address: self.address.clone(),
            version: version::line(),
            readiness,
            refresh_ms: i32::try_from(refresh.as_millis()).map_or(i32::MAX, |millis| millis),
            connections: i32::try_from(connections).map_or(i32::MAX, |count| count),
        };
        let is_drained = self.store.report(&heartbeat).await?;
        self.backend.drain(is_drained);
        Ok(())
    }

    /// Removes the report of this process, which stops.
    pub(super) async fn end(&self) {
        drop(timeout(LAST_MAX, self.store.sign_off(process_id())).await);
    }
}

fn text(verdict: Verdict) -> String {
    verdict.map_or_else(Cow::into_owned, |ready| ready.text().to_owned())
}
