//! The choice of the primary, and all connections to it.
//!
//! Every new connection is checked for the server it leads to. A task probes all hosts of the URL every second,
//! each over a new connection, because a proxy may lead new connections to another server than old ones. The
//! primary with the newest timeline wins. The [`Term`] of the previous one ends at once, whether that server
//! is alive or not, and with it all requests on its connections.
//!
//! Example: host A is the primary at timeline 3 and freezes. The standby B is promoted, and its timeline is
//! 4. The next probe finds B, ends the term of A, and begins one of B: reads that wait for A are repeated
//! on B, and writes that wait for A fail with 503, because A may have committed them. When A wakes up, its
//! timeline 3 is older than 4, and no connection to it is accepted.

mod identity;
mod lease;
mod probe;
mod state;
mod term;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::{Error, Result};
use super::options::{StoreOptions, Timeouts};
use super::recording;
use crate::observe::spans::{Timed, span};
pub use probe::find;
use state::Inner;
pub(super) use term::Term;

/// Maximum number of attempts at a read before it fails with 503.
const READS_MAX: u32 = 3;

/// Access to the primary. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Primary(Arc<Inner>);

impl Primary {
    /// Probes the hosts for the first time, and starts to watch them.
    pub(super) async fn start(options: StoreOptions) -> Result<Self> {
        let primary = Self(Arc::new(Inner::new(options)));
        probe::probe(&primary.0, &mut probe::MissedProbes::default()).await?;
        tokio::spawn(probe::watch(Arc::downgrade(&primary.0)));
        Ok(primary)
    }

    /// Makes one without any host.
    #[cfg(test)]
    pub(super) fn unknown() -> Self {
        let options = StoreOptions::at(PgConnectOptions::new_without_pgpass(), 1);
        Self(Arc::new(Inner::new(StoreOptions { hosts: Vec::new(), ..options })))
    }

    /// Returns the options of the store.
    pub(super) fn options(&self) -> &StoreOptions {
        &self.0.options
    }

    /// Returns the timeouts of requests.
    pub(super) fn timeouts(&self) -> &Timeouts {
        &self.0.options.timeouts
    }

    /// Returns the present term.
    ///
    /// # Errors
    /// No primary is known.
    pub(super) fn term(&self) -> Result<Arc<Term>> {
        let term = self.0.state.borrow().term.clone();
        term.ok_or_else(|| Error::Unavailable("no primary can be reached".to_owned()))
    }

    /// Returns whether the primary takes no writes of new sessions.
    pub(super) fn is_read_only(&self) -> bool {
        self.term().is_ok_and(|term| term.identity.is_read_only)
    }

    /// Makes a new connection to the primary, with settings of the caller.
    ///
    /// # Errors
    /// No primary can be reached.
    pub(super) async fn connect(
        &self,
        settings: impl Fn(PgConnectOptions) -> PgConnectOptions,
    ) -> Result<(PgConnection, Arc<Term>)> {
        let limit = self.timeouts().connect;
        let connected = timeout(limit, async {
            let mut before: Option<Arc<Term>> = None;
            loop {
                let term = self.term()?;
                let error = match term.during(term.connect(&settings)).await {
                    Ok(conn) => return Ok((conn, term)),
                    Err(error) => error,
                };
                if before.is_some_and(|before| Arc::ptr_eq(&before, &term)) {
                    return Err(error.settled());
                }
                // The connection's term may have been replaced.
                before = Some(term);
                self.probe_all_hosts().await;
            }
        });
        let late = || Error::Unavailable(format!("no connection within {limit:?}"));
        connected.await.unwrap_or_else(|_| Err(late()))
    }

    /// Has all hosts probed, and waits for the result.
    async fn probe_all_hosts(&self) {
        let mut probes = self.0.probes.subscribe();
        self.0.probe_now.notify_one();
        // The sender is in `self`.
        drop(probes.changed().await);
    }

    /// Has all hosts probed soon.
    pub(super) fn suspect(&self) {
        self.0.probe_now.notify_one();
    }

    /// Runs a query on a connection of the pool; again if the connection was dead, or led to a
    /// server that is not the primary any more.
    ///
    /// # Errors
    /// There is no result in time.
    pub(super) async fn read<T>(
        &self,
        ask: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>>,
    ) -> Result<T> {
        self.read_in_time(ask).timed(span!("read", db.system.name = "postgresql")).await
    }

    async fn read_in_time<T>(
        &self,
        ask: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>>,
    ) -> Result<T> {
        let limit = self.timeouts().read;
        let deadline = Instant::now() + limit;
        let mut attempts = 1;
        loop {
            match timeout_at(deadline, self.try_read(&ask)).await {
                Ok(Err(Error::Again(why))) if attempts < READS_MAX => {
                    tracing::debug!(attempts, why, "trying the read again");
                    attempts += 1;
                }
                Ok(response) => return response.map_err(Error::settled),
                Err(_) => {
                    self.suspect();
                    return Err(Error::Unavailable(format!("no response within {limit:?}")));
                }
            }
        }
    }

    async fn try_read<T>(
        &self,
        ask: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>>,
    ) -> Result<T> {
        let term = self.term()?;
        let response = term.during(async {
            let began = Instant::now();
            let acquired = term.pool().acquire().timed(span!("connection"));
            let mut conn = acquired.await?;
            recording::pool_wait(began.elapsed());
            Ok(ask(&mut conn).await?)
        });
        let response = response.await.inspect_err(|_| self.suspect())?;
        term.confirm(self.0.options.lease).await?;
        Ok(response)
    }

    /// Waits until a read in a term is confirmed as current, but no longer than the timeout of reads.
    ///
    /// # Errors
    /// It is not confirmed in time.
    pub(super) async fn confirm(&self, term: &Term) -> Result<()> {
        let late = || Error::Unavailable("the primary has not confirmed its lease".to_owned());
        let confirmed = timeout(self.timeouts().read, term.confirm(self.0.options.lease)).await;
        confirmed.unwrap_or_else(|_| Err(late())).map_err(Error::settled)
    }
}
