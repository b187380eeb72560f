//! A term: the time during which one server is the primary, as far as this replica knows.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgConnection, PgPool};
use tokio::sync::watch;
use tokio::time::Instant;

use super::identity::{Identity, identify};
use crate::store::error::{Error, Result};
use crate::store::locks;
use crate::store::options::StoreOptions;
use crate::store::sessions::{session, waiting};

/// The error of a read whose term has ended.
const LOST: &str = "another server has become the primary, or this one is silent";
/// The error of a change whose term has ended; it may have been made.
const IN_DOUBT: &str =
    "another server has become the primary, or this one is silent: it may have been done or not";

/// All connections to one server. The term ends when another server becomes the primary, or when this one has
/// not responded for long. Requests on its connections are given up then.
#[derive(Debug)]
pub(in crate::store) struct Term {
    pub(super) identity: Identity,
    /// Its position in the list of hosts.
    pub(super) host: usize,
    options: PgConnectOptions,
    pool: PgPool,
    over: watch::Sender<bool>,
    /// The time of the last response on its connections.
    last_response: Mutex<Instant>,
    /// The start of the last acknowledged heartbeat.
    pub(super) confirmed: watch::Sender<Option<Instant>>,
}

impl Term {
    /// Begins a term; nothing is connected yet.
    pub(super) fn begin(
        identity: Identity,
        host: usize,
        options: PgConnectOptions,
        store: &StoreOptions,
    ) -> Self {
        let options = session(options);
        let pool = PgPoolOptions::new()
            .max_connections(store.connections)
            .acquire_timeout(store.timeouts.acquire)
            .after_connect(move |conn, _| {
                Box::pin(async move { Ok(recognise(conn, identity).await.map_err(Refused)?) })
            })
            .connect_lazy_with(waiting(options.clone(), locks::WAIT_MAX));
        let (over, confirmed) = (watch::Sender::new(false), watch::Sender::new(None));
        let last_response = Mutex::new(Instant::now());
        Self { identity, host, options, pool, over, last_response, confirmed }
    }

    /// Returns the pool for single changes and consumer reads.
    pub(in crate::store) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Connects to its server, with settings of the caller's.
    ///
    /// # Errors
    /// It cannot be reached, or another server responds in its place.
    pub(super) async fn connect(
        &self,
        settings: impl FnOnce(PgConnectOptions) -> PgConnectOptions,
    ) -> Result<PgConnection> {
        use sqlx::Connection;

        let mut conn = PgConnection::connect_with(&settings(self.options.clone())).await?;
        recognise(&mut conn, self.identity).await?;
        Ok(conn)
    }

    /// Ends the term. Connections that are in use end when their users check.
    pub(super) fn end(&self) {
        self.finish();
        let pool = self.pool.clone();
        tokio::spawn(async move { pool.close().await });
    }

    /// Ends the term with the store; the pool closes its connections when it is dropped.
    pub(super) fn finish(&self) {
        self.over.send_replace(true);
    }

    /// Returns whether it has ended.
    pub(in crate::store) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Waits until it has ended.
    async fn over(&self) {
        // The sender is in `self`.
        drop(self.over.subscribe().wait_for(|over| *over).await);
    }

    /// Runs a read that ends early, with [`Error::Again`], when the term ends.
    ///
    /// # Errors
    /// Those of the read, or the term has ended.
    pub(in crate::store) async fn during<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let settled = tokio::select! {
            settled = work => settled,
            () = self.over() => return Err(Error::Again(LOST.to_owned())),
        };
        if self.is_over() {
            return Err(Error::Again(LOST.to_owned()));
        }
        if settled.is_ok() {
            self.note_response();
        }
        settled
    }

    /// Runs a change. It is given up when the term ends; then it is unknown whether it was made.
    ///
    /// # Errors
    /// Those of the change, or the term has ended meanwhile.
    pub(in crate::store) async fn make<T>(
        &self,
        change: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let in_doubt = || Error::Unavailable(IN_DOUBT.to_owned());
        let settled = tokio::select! {
            settled = change => settled,
            () = self.over() => return Err(in_doubt()),
        };
        settled.and_then(|outcome| if self.is_over() { Err(in_doubt()) } else { Ok(outcome) })
    }

    /// Records a response of the server.
    pub(super) fn note_response(&self) {
        *self.last_response.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns the time since the last response of the server.
    pub(super) fn since_response(&self) -> Duration {
        self.last_response.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Waits until a read on a connection of this term is known to be current: the term has not ended, and a
    /// heartbeat that began within the lease has been acknowledged.
    ///
    /// # Errors
    /// The term has ended.
    pub(super) async fn confirm(&self, lease: Option<Duration>) -> Result<()> {
        let Some(lease) = lease else { return Ok(()) };
        self.during(async {
            confirmed(&self.confirmed, lease).await;
            Ok(())
        })
        .await
    }
}

/// Checks that a connection leads to the expected server.
async fn recognise(conn: &mut PgConnection, expected: Identity) -> Result<()> {
    match identify(conn).await? {
        Some(found) if found == expected => Ok(()),
        Some(found) => Err(Error::Again(format!("connected to {found} instead of {expected}"))),
        None => Err(Error::Again(format!("connected to a standby instead of {expected}"))),
    }
}

/// The error for the pool when a connection leads to another server.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Refused(Error);

impl From<Refused> for sqlx::Error {
    fn from(refused: Refused) -> Self {
        Self::Io(std::io::Error::other(refused))
    }
}

/// Waits for the acknowledgement of a heartbeat that began within the lease.
pub(super) async fn confirmed(beats: &watch::Sender<Option<Instant>>, lease: Duration) {
    let is_current = |began: &Option<Instant>| began.is_some_and(|it| it.elapsed() < lease);
    // The sender is borrowed, so it cannot be gone.
    drop(beats.subscribe().wait_for(is_current).await);
}
