//! The database of a command, and connections to it.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::time::timeout;

use super::failure::{Failure, OpenError};
use crate::config::DatabaseOptions;
use crate::server::embedded_postgres::{EmbeddedPostgres, Existing};
use crate::store::{self, primary};

/// Timeout until a connection is usable. A frozen server accepts connections, but does not respond.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The database of this command: a private one, or one that the operator manages.
#[derive(Debug)]
pub struct Database {
    hosts: Vec<PgConnectOptions>,
    embedded: Option<EmbeddedPostgres>,
}

impl Database {
    /// Opens the configured database, or starts the private PostgreSQL, which is created if it does not exist. For
    /// `berth serve` only.
    ///
    /// # Errors
    /// The URL is invalid, or the private PostgreSQL does not start.
    pub(crate) async fn open_or_create(options: &DatabaseOptions) -> Result<Self, Failure> {
        if let Some(hosts) = options.hosts().map_err(Failure)? {
            return Ok(Self { hosts, embedded: None });
        }
        let directory = options.directory().map_err(Failure)?;
        let embedded = EmbeddedPostgres::start(&directory).await?;
        Ok(Self { hosts: vec![embedded.options()], embedded: Some(embedded) })
    }

    /// Opens the configured database, or the private PostgreSQL: a running one, or else it is started until the
    /// database is closed. It is not created.
    ///
    /// # Errors
    /// The URL is invalid, there is no private PostgreSQL, or it does not start.
    pub async fn open(options: &DatabaseOptions) -> Result<Self, Failure> {
        if let Some(hosts) = options.hosts().map_err(Failure)? {
            return Ok(Self { hosts, embedded: None });
        }
        let directory = options.directory().map_err(Failure)?;
        Ok(match EmbeddedPostgres::existing(&directory).await? {
            Existing::Running(running) => Self { hosts: vec![running], embedded: None },
            Existing::Started(embedded) => {
                Self { hosts: vec![embedded.options()], embedded: Some(embedded) }
            }
        })
    }

    /// Opens a database as [`Database::open`] does, and closes it after `work`.
    ///
    /// # Errors
    /// The database cannot be opened, or `work` fails.
    pub async fn with<T>(
        options: &DatabaseOptions,
        work: impl AsyncFnOnce(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let database = Self::open(options).await?;
        let outcome = work(&database).await;
        database.close().await;
        outcome
    }

    /// The connection options of each of its hosts.
    pub fn hosts(&self) -> &[PgConnectOptions] {
        &self.hosts
    }

    /// Returns whether its schema may be migrated without asking.
    pub fn is_private(&self) -> bool {
        self.embedded.is_some()
    }

    /// Connects to it; with several hosts, to the primary.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn connect(&self) -> Result<PgConnection, Failure> {
        let connected = self.try_connect().await.map_err(OpenError::from);
        connected.map_err(Failure::from)
    }

    /// The connection options of the primary.
    ///
    /// # Errors
    /// None of several hosts is the primary. A single host is not checked.
    pub async fn primary(&self) -> Result<PgConnectOptions, Failure> {
        self.try_primary().await.map_err(OpenError::from).map_err(Failure::from)
    }

    async fn try_primary(&self) -> store::Result<PgConnectOptions> {
        match self.hosts.as_slice() {
            [only] => Ok(only.clone()),
            several => primary::find(several).await,
        }
    }

    /// Like [`Database::connect`], with the error of the store.
    pub(crate) async fn try_connect(&self) -> store::Result<PgConnection> {
        let found = self.try_primary().await?;
        // Otherwise sqlx would log a long migration as a warning.
        let found = found.disable_statement_logging();
        let silent =
            |_| store::Error::Unavailable(format!("it does not respond within {CONNECT_MAX:?}"));
        Ok(timeout(CONNECT_MAX, PgConnection::connect_with(&found)).await.map_err(silent)??)
    }

    /// Stops the private PostgreSQL, if there is one.
    pub async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }
}
