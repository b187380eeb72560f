//! The database of a run, and connections to it.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::time::timeout;

use super::Failure;
use crate::config::DatabaseOptions;
use crate::server::embedded_postgres::{EmbeddedPostgres, Existing};
use crate::server::opening;
use crate::store::{self, primary};

/// How long a server may take to make a connection usable. One that is frozen accepts it and says nothing.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The database of this run: a private one, or one that is someone else's business.
#[derive(Debug)]
pub struct Database {
    hosts: Vec<PgConnectOptions>,
    embedded: Option<EmbeddedPostgres>,
}

impl Database {
    /// Takes the database that is named, or starts the private PostgreSQL, which is made if there
    /// is none. Only `berth serve` may do this.
    ///
    /// # Errors
    /// The URL cannot be read, or the private PostgreSQL does not start.
    pub(super) async fn open_or_create(options: &DatabaseOptions) -> Result<Self, Failure> {
        if let Some(hosts) = options.hosts().map_err(Failure)? {
            return Ok(Self { hosts, embedded: None });
        }
        let directory = options.directory().map_err(Failure)?;
        let embedded = EmbeddedPostgres::start(&directory)
            .await
            .map_err(|failure| Failure(failure.to_string()))?;
        Ok(Self { hosts: vec![embedded.options()], embedded: Some(embedded) })
    }

    /// Takes the database that is named, or the private PostgreSQL: the one that a server runs, or
    /// else it is started until the database is closed. None is made.
    ///
    /// # Errors
    /// The URL cannot be read, there is no private PostgreSQL, or it does not start.
    pub async fn open(options: &DatabaseOptions) -> Result<Self, Failure> {
        if let Some(hosts) = options.hosts().map_err(Failure)? {
            return Ok(Self { hosts, embedded: None });
        }
        let directory = options.directory().map_err(Failure)?;
        match EmbeddedPostgres::existing(&directory).await {
            Ok(Existing::Running(running)) => Ok(Self { hosts: vec![running], embedded: None }),
            Ok(Existing::Started(embedded)) => {
                Ok(Self { hosts: vec![embedded.options()], embedded: Some(embedded) })
            }
            Err(failure) => Err(Failure(failure.to_string())),
        }
    }

    /// How to connect to each of its hosts.
    pub fn hosts(&self) -> &[PgConnectOptions] {
        &self.hosts
    }

    /// Whether its schema is ours to bring up to date without asking.
    pub fn is_private(&self) -> bool {
        self.embedded.is_some()
    }

    /// One connection to it: of several hosts, to the one that is the primary.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn connect(&self) -> Result<PgConnection, Failure> {
        let connected = self.try_connect().await.map_err(opening::Trouble::from);
        connected.map_err(Failure::from)
    }

    /// How to connect to the primary.
    ///
    /// # Errors
    /// None of several hosts is the primary. A single host is not asked.
    pub async fn primary(&self) -> Result<PgConnectOptions, Failure> {
        self.try_primary().await.map_err(opening::Trouble::from).map_err(Failure::from)
    }

    async fn try_primary(&self) -> store::Result<PgConnectOptions> {
        match self.hosts.as_slice() {
            [only] => Ok(only.clone()),
            several => primary::find(several).await,
        }
    }

    /// The same as [`Database::connect`], with the error as the store has it.
    pub(crate) async fn try_connect(&self) -> store::Result<PgConnection> {
        let found = self.try_primary().await?;
        // A migration may take long; sqlx would then log the whole of it as one warning.
        let found = found.disable_statement_logging();
        let silent =
            |_| store::Error::Unavailable(format!("it does not answer in {CONNECT_MAX:?}"));
        Ok(timeout(CONNECT_MAX, PgConnection::connect_with(&found)).await.map_err(silent)??)
    }

    /// Stops the private PostgreSQL, if there is one.
    pub async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }
}
