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
pub mod embedded;
pub mod error;
mod feed;
pub mod inventories;
mod locks;
mod owners;
pub mod planner;
mod plans;
pub mod providers;
pub mod reads;
pub mod resource_classes;
mod rows;
pub mod schema;
pub mod standard;
pub mod traits;
mod turns;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

pub use change::Change;
pub use error::{Error, Result};

use crate::world::World;
use feed::Feed;
use turns::Turns;
use writer::Writer;

/// How long a request waits for a connection of the pool.
const ACQUIRE_MAX: Duration = Duration::from_secs(2);
/// How long the change feed, which locks no row, waits for a table that somebody has locked.
const FEED_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long the server lets a statement run, and a transaction lie idle.
const SESSION: [(&str, &str); 4] = [
    ("statement_timeout", "30s"),
    ("idle_in_transaction_session_timeout", "30s"),
    ("application_name", "berth"),
    // Compiling a plan costs a hundred times what these statements take.
    ("jit", "off"),
];

/// The way to everything durable. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pool: PgPool,
    feed: Feed,
    writer: Writer,
    turns: Turns,
    report_only: bool,
}

impl Store {
    /// Connects to a database whose schema is current, and loads the world.
    ///
    /// `connections` bounds the pool for single changes and consumer reads; the change feed and the
    /// claim writer have one connection each beside it.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn open(options: PgConnectOptions, connections: u32) -> Result<Self> {
        Self::open_keeping(options, connections, false).await
    }

    /// The same; with `report_only`, strangers are let into units that groups have to themselves, and
    /// the log says so.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn open_keeping(
        options: PgConnectOptions,
        connections: u32,
        report_only: bool,
    ) -> Result<Self> {
        let options = session(options);
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_MAX)
            .connect_lazy_with(waiting(options.clone(), locks::WAIT_MAX));
        let options = plans::settings(options);
        let feed = Feed::start(waiting(options.clone(), FEED_WAIT_MAX)).await?;
        let writer = Writer::start(&waiting(options, locks::WRITER_WAIT_MAX), report_only);
        let turns = Turns::new(connections);
        Ok(Self { pool, feed, writer, turns, report_only })
    }

    /// The world as of a moment after this call began: what any replica acknowledged before is in
    /// it.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn world(&self) -> Result<Arc<World>> {
        self.feed.current().await
    }

    fn pool(&self) -> &PgPool {
        &self.pool
    }

    fn writer(&self) -> &Writer {
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
