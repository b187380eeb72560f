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
mod writer;

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

pub use change::Change;
pub use error::{Error, Result};

use crate::world::World;
use feed::Feed;
use writer::Writer;

/// How long a request waits for a connection of the pool.
const ACQUIRE_MAX: Duration = Duration::from_secs(2);
/// How long the server lets a statement run, wait for a lock, and a transaction lie idle.
const SESSION: [(&str, &str); 5] = [
    ("statement_timeout", "30s"),
    ("lock_timeout", "10s"),
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
        let options = session(options);
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_MAX)
            .connect_lazy_with(options.clone());
        let options = plans::settings(options);
        let feed = Feed::start(options.clone()).await?;
        Ok(Self { pool, feed, writer: Writer::start(options) })
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

/// The bounds every session has.
fn session(options: PgConnectOptions) -> PgConnectOptions {
    options.options(SESSION).statement_cache_capacity(200)
}
