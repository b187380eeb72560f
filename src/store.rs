//! PostgreSQL: the truth, and the only SQL of the program.
//!
//! Durable are the catalogue of names, providers with their tree, inventories, traits and
//! aggregates, and consumers with their allocations. Everything else a replica knows (the
//! [`World`]) is derived from these rows and may be thrown away.
//!
//! Three ways lead here: [`Store::commit`] and the claim writer behind
//! [`Store::replace_allocations`] change what is stored, [`Store::world`] gives the provider side
//! from memory and [`reads`] the consumer side by SQL.

pub mod aggregates;
pub mod allocations;
pub mod audit;
pub mod change;
mod claims;
mod epoch;
pub mod error;
mod feed;
pub mod inventories;
mod locks;
mod owners;
pub mod planner;
pub mod primary;
pub mod providers;
mod prune;
pub mod reads;
pub mod resource_classes;
pub mod schema;
pub mod standard;
mod statement_plans;
pub mod traits;
mod world_rows;
mod write_limits;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;

pub use change::Change;
pub use error::{Error, Result};
pub use prune::Pruning;

use crate::world::World;
use feed::Feed;
use primary::Primary;
use prune::Pruner;
use write_limits::WriteLimits;
use writer::ClaimWriter;

/// How long a write waits for its outcome, whatever has become of the server.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// How long the change feed, which locks no row, waits for a table that somebody has locked.
const FEED_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long the server lets a statement run, and a transaction lie idle, and how soon it notices
/// that the other end of a connection is gone. Nobody waits for longer than [`WRITE_MAX`].
const SESSION: [(&str, &str); 8] = [
    ("statement_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "20s"),
    ("application_name", "berth"),
    // Compiling a plan costs a hundred times what these statements take.
    ("jit", "off"),
];

/// The way to everything durable. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    primary: Primary,
    feed: Feed,
    writer: ClaimWriter,
    write_limits: WriteLimits,
    /// Ends with the last clone.
    _pruner: Pruner,
    report_only: bool,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The hosts where the primary may be: how to connect to each.
    pub hosts: Vec<PgConnectOptions>,
    /// The size of the pool for single changes and consumer reads. The change feed, the claim writers
    /// and the watch over the hosts have connections of their own beside it.
    pub connections: u32,
    /// Strangers are let into units that groups have to themselves, and the log says so.
    pub report_only: bool,
    /// How long after a heartbeat that was acknowledged by a commit reads are answered; `None`:
    /// always.
    pub lease: Option<Duration>,
    /// How the change log is cut off.
    pub pruning: Pruning,
}

impl Opening {
    /// At one server, with the usual rules.
    pub fn at(host: PgConnectOptions, connections: u32) -> Self {
        let (hosts, pruning) = (vec![host], Pruning::default());
        Self { hosts, connections, report_only: false, lease: None, pruning }
    }
}

impl Store {
    /// Connects to a database whose schema is current, and loads the world.
    ///
    /// # Errors
    /// None of the hosts is a primary that can be asked.
    pub async fn open(opening: Opening) -> Result<Self> {
        let Opening { hosts, connections, report_only, lease, pruning } = opening;
        let primary = Primary::start(hosts, connections, lease).await?;
        let feed = Feed::start(primary.clone()).await?;
        let pruner = Pruner::start(primary.clone(), pruning);
        let writer = ClaimWriter::start(&primary, report_only, &feed.reloads());
        let write_limits = WriteLimits::new(connections);
        Ok(Self { primary, feed, writer, write_limits, _pruner: pruner, report_only })
    }

    /// Whether strangers in the units of exclusivity groups are logged and let be, not refused.
    pub fn report_only(&self) -> bool {
        self.report_only
    }

    /// The world as of a moment after this call began: what any replica acknowledged before is in
    /// it.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn world(&self) -> Result<Arc<World>> {
        self.feed.current().await
    }

    /// Reads on a connection of the pool.
    async fn read<T>(
        &self,
        ask: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>>,
    ) -> Result<T> {
        self.primary.read(ask).await
    }

    fn primary(&self) -> &Primary {
        &self.primary
    }

    fn writer(&self) -> &ClaimWriter {
        &self.writer
    }
}

/// A session that waits for a lock no longer than this.
fn waiting(options: PgConnectOptions, lock: Duration) -> PgConnectOptions {
    options.options([("lock_timeout", format!("{}ms", lock.as_millis()))])
}

/// The bounds every session has.
fn session(options: PgConnectOptions) -> PgConnectOptions {
    options.options(SESSION).statement_cache_capacity(200)
}
