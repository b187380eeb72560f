//! PostgreSQL: the truth, and the only SQL of the program.
//!
//! The database has the names of classes and traits, providers with their trees, inventories, traits and
//! aggregates, and consumers with their allocations. Everything that a replica keeps in memory (the
//! [`World`]) is derived from these rows.
//!
//! There are three ways in: [`Store::commit`] and the claim writer behind
//! [`Store::replace_allocations`] change what is stored, [`Store::world`] gives the provider side
//! from memory and [`reads`] the consumer side by SQL.

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

/// How long a write waits for its outcome, even if the server does not answer.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// How long the change feed, which locks no row, waits for a locked table.
const FEED_WAIT_MAX: Duration = Duration::from_secs(2);
/// What servers call themselves.
const APPLICATION: &str = "berth";
/// Settings of each session: how long a statement may run and a transaction may be idle, and how soon the
/// server notices that a client is gone. No request waits longer than [`WRITE_MAX`].
const SESSION: [(&str, &str); 8] = [
    ("statement_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "20s"),
    ("application_name", APPLICATION),
    // Compiling a plan costs a hundred times what these statements take.
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

/// Begins counters with zero: an increase is seen only from a value that was there before.
pub(crate) fn count_from_zero() {
    recording::count_from_zero();
}

/// Options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The hosts where the primary may be, and how to connect to each.
    pub hosts: Vec<PgConnectOptions>,
    /// The size of the pool for single changes and consumer reads. The change feed, the claim writers
    /// and the probes of the hosts use connections of their own.
    pub connections: u32,
    /// Whether claims in units that other groups have exclusively are allowed and only reported in the log.
    pub report_only: bool,
    /// How long reads are answered after a heartbeat whose commit was acknowledged; `None`: always.
    pub lease: Option<Duration>,
    /// How the change log and the history are pruned.
    pub pruning: Pruning,
    /// How the history of changes is kept; `None`: changes are not added to it.
    pub history: Option<History>,
    /// How the log of events is kept; `None`: changes are not added to it.
    pub events: Option<EventLog>,
}

impl StoreOptions {
    /// A store on one server, with the default rules.
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
    /// None of the hosts is a primary that can be asked.
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

    /// Whether claims in units that other groups have exclusively are allowed and only reported in the log.
    pub fn report_only(&self) -> bool {
        self.primary.options().report_only
    }

    /// The world as of a moment after this call began. It has everything that any replica acknowledged
    /// before.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn world(&self) -> Result<Arc<World>> {
        self.feed.current().await
    }

    /// The world as this replica knows it, which may lack the last changes.
    pub fn known_world(&self) -> Arc<World> {
        self.feed.known()
    }

    /// Whether the primary is known to take no writes: its `default_transaction_read_only` is on.
    pub fn is_read_only(&self) -> bool {
        self.primary.is_read_only()
    }

    /// What keeps this program from using the schema of the database, as it was some seconds ago: a newer program may
    /// have migrated it meanwhile.
    pub fn schema_hindrance(&self) -> Option<Cow<'static, str>> {
        self.schema.hindrance()
    }

    /// Connections of the pool: in use, idle, and how many there may be. `None` while no primary can be
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

/// Options of a session that waits at most so long for a lock.
fn waiting(options: PgConnectOptions, lock: Duration) -> PgConnectOptions {
    options.options([("lock_timeout", format!("{}ms", lock.as_millis()))])
}

/// Options with the bounds of every session.
fn session(options: PgConnectOptions) -> PgConnectOptions {
    options.options(SESSION).statement_cache_capacity(200)
}
