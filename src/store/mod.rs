//! PostgreSQL: the authoritative state, and the only SQL of the program.
//!
//! The database has the names of classes and traits, providers with their trees, inventories, traits and
//! aggregates, and consumers with their allocations. Everything that a replica keeps in memory (the
//! [`World`]) is derived from these rows.
//!
//! There are three ways in: [`Store::commit`] and the claim writer behind
//! [`Store::replace_allocations`] change the rows, [`Store::world`] returns the provider side
//! from memory, and [`reads`] has the consumer side by SQL.

pub mod aggregates;
pub mod allocations;
pub mod audit;
pub mod change;
pub mod claim_check;
mod claims;
pub mod condition;
pub mod consumers;
pub mod effects;
mod epoch;
pub mod error;
pub mod events;
mod feed;
pub mod found_faults;
pub mod history;
pub mod holders;
pub mod inventories;
mod locks;
mod owners;
pub mod planner;
pub mod primary;
pub mod providers;
mod prune;
pub mod reads;
mod recording;
pub mod resource_classes;
pub mod schema;
mod schema_watch;
pub mod sessions;
pub mod snapshot;
pub mod standard;
mod statement_plans;
pub mod traits;
mod world_rows;
mod write_limits;
mod writer;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;

pub use change::Change;
pub use error::{Error, Result};
pub use events::EventLog;
pub use history::History;
pub use prune::Pruning;

use crate::world::World;
use events::Tail;
use feed::Feed;
use primary::Primary;
use prune::Pruner;
use schema_watch::SchemaWatch;
use write_limits::WriteLimits;
use writer::ClaimWriter;

/// Maximum time that a write waits for its outcome, even if the server does not respond.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// Lock timeout of the change feed, which locks no row but may wait for a locked table.
const FEED_WAIT_MAX: Duration = Duration::from_secs(2);
/// The application name of servers.
const APPLICATION: &str = "berth";
/// Settings of each session: timeouts for statements and idle transactions, and for noticing that a client is
/// gone. No request waits longer than [`WRITE_MAX`].
const SESSION: [(&str, &str); 8] = [
    ("statement_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "20s"),
    ("application_name", APPLICATION),
    // Compiling a plan takes a hundred times as long as these statements.
    ("jit", "off"),
];

/// Access to the database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    primary: Primary,
    feed: Feed,
    writer: ClaimWriter,
    tail: Tail,
    write_limits: WriteLimits,
    schema: SchemaWatch,
    /// Ends with the last clone.
    _pruner: Pruner,
}

/// Starts counters at zero: rates of a counter need its first value.
pub(crate) fn count_from_zero() {
    recording::count_from_zero();
}

/// Options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The hosts that may be the primary, each with its connection options.
    pub hosts: Vec<PgConnectOptions>,
    /// The size of the pool for single changes and consumer reads. The change feed, the claim writers
    /// and the probes of the hosts use connections of their own.
    pub connections: u32,
    /// Allows claims in units that other groups have exclusively, and reports them in the log.
    pub report_only: bool,
    /// Time after an acknowledged heartbeat during which reads are served; `None`: always.
    pub lease: Option<Duration>,
    /// Settings for pruning the change log and the history.
    pub pruning: Pruning,
    /// Settings of the history of changes; `None`: it is off.
    pub history: Option<History>,
    /// Settings of the log of events; `None`: it is off.
    pub events: Option<EventLog>,
}

impl StoreOptions {
    /// Returns options for one server, with the default rules.
    pub fn at(host: PgConnectOptions, connections: u32) -> Self {
        let (hosts, pruning) = (vec![host], Pruning::default());
        Self {
            hosts,
            connections,
            report_only: false,
            lease: None,
            pruning,
            history: None,
            events: None,
        }
    }
}

impl Store {
    /// Connects to a database whose schema is current, and loads the world.
    ///
    /// # Errors
    /// None of the hosts is an available primary.
    pub async fn open(options: StoreOptions) -> Result<Self> {
        let (pruning, connections) = (options.pruning, options.connections);
        let history = options.history;
        let primary = Primary::start(options).await?;
        history::begin(&primary, history).await?;
        let feed = Feed::start(primary.clone()).await?;
        let tail = Tail::start(&primary);
        let pruner = Pruner::start(primary.clone(), pruning);
        let schema = SchemaWatch::start(primary.clone());
        let writer = ClaimWriter::start(&primary, &feed.reloads());
        let write_limits = WriteLimits::new(connections);
        Ok(Self { primary, feed, writer, tail, write_limits, schema, _pruner: pruner })
    }

    /// Returns whether claims in units that other groups have exclusively are allowed and reported in the log.
    pub fn report_only(&self) -> bool {
        self.primary.options().report_only
    }

    /// Returns the world as of a moment after this call began. It has everything that any replica acknowledged
    /// before.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn world(&self) -> Result<Arc<World>> {
        self.feed.current().await
    }

    /// Returns the world as this replica knows it, which may lack the last changes.
    pub fn known_world(&self) -> Arc<World> {
        self.feed.known()
    }

    /// Returns whether the primary is known to take no writes: its `default_transaction_read_only` is on.
    pub fn is_read_only(&self) -> bool {
        self.primary.is_read_only()
    }

    /// Returns the reason why this program cannot use the schema of the database, as of some seconds ago: a newer
    /// program may have migrated it meanwhile.
    pub fn schema_hindrance(&self) -> Option<Cow<'static, str>> {
        self.schema.hindrance()
    }

    /// Returns the numbers of used and idle connections of the pool, and its size. `None` while no primary can be
    /// reached.
    pub fn pool_counts(&self) -> Option<(u32, u32, u32)> {
        let term = self.primary.term().ok()?;
        let pool = term.pool();
        let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
        Some((pool.size().saturating_sub(idle), idle, pool.options().get_max_connections()))
    }

    /// Reads on a connection of the pool, again if the connection is dead.
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

/// Adds the lock timeout to options of a session.
fn waiting(options: PgConnectOptions, lock: Duration) -> PgConnectOptions {
    options.options([("lock_timeout", format!("{}ms", lock.as_millis()))])
}

/// Adds the limits of every session to its options.
fn session(options: PgConnectOptions) -> PgConnectOptions {
    options.options(SESSION).statement_cache_capacity(200)
}
