//! Access to the database.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::PgConnection;

use super::error::Result;
use super::events::Tail;
use super::feed::Feed;
use super::history;
use super::lock_report::LockReport;
use super::maintenance::KnownMaintenance;
use super::options::StoreOptions;
use super::primary::Primary;
use super::prune::Pruner;
use super::schema_watch::SchemaWatch;
use super::write_health::WriteHealth;
use super::write_limits::WriteLimits;
use super::writer::ClaimWriter;
use crate::world::World;

/// Access to the database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    primary: Primary,
    pub(super) feed: Feed,
    writer: ClaimWriter,
    pub(super) tail: Tail,
    pub(super) write_limits: WriteLimits,
    pub(super) write_health: WriteHealth,
    pub(super) lock_report: LockReport,
    pub(super) maintenance: KnownMaintenance,
    schema: SchemaWatch,
    /// Ends with the last clone.
    _pruner: Pruner,
}

impl Store {
    /// Connects to a database whose schema is current, and loads the world.
    ///
    /// # Errors
    /// None of the hosts is an available primary.
    pub async fn open(options: StoreOptions) -> Result<Self> {
        let (pruning, connections) = (options.pruning, options.connections);
        let has_history = options.history_days.is_some();
        let primary = Primary::start(options).await?;
        history::begin(&primary, has_history).await?;
        let feed = Feed::start(primary.clone()).await?;
        let tail = Tail::start(&primary);
        let pruner = Pruner::start(primary.clone(), pruning);
        let schema = SchemaWatch::start(primary.clone());
        let write_health = WriteHealth::default();
        let lock_report = LockReport::new(primary.clone());
        let (health, report) = (write_health.clone(), lock_report.clone());
        let writer = ClaimWriter::start(&primary, &feed.reloads(), health, report);
        let write_limits = WriteLimits::new(connections);
        Ok(Self {
            primary,
            feed,
            writer,
            tail,
            write_limits,
            write_health,
            lock_report,
            maintenance: KnownMaintenance::default(),
            schema,
            _pruner: pruner,
        })
    }

    /// Returns whether claims in units that other groups have exclusively are allowed and reported in the log.
    pub fn report_only(&self) -> bool {
        self.primary.options().report_only
    }

    /// Returns the world as of a moment after this call began. It has everything that any replica acknowledged
    /// before; with `--max-staleness`, before that time, and everything that this replica acknowledged.
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

    /// Returns the number of consumers that are kept in memory; `None`: consumers are read from the database.
    pub fn consumers_in_memory(&self) -> Option<usize> {
        self.feed.consumers_len()
    }

    /// Returns whether the primary is known to take no writes: its `default_transaction_read_only` is on.
    pub fn is_read_only(&self) -> bool {
        self.primary.is_read_only()
    }

    /// Returns whether the last three or more writes failed, the last one less than five minutes ago.
    pub fn are_writes_failing(&self) -> bool {
        self.write_health.is_failing()
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
    pub(super) async fn read<T>(
        &self,
        ask: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>>,
    ) -> Result<T> {
        self.primary.read(ask).await
    }

    pub(super) fn primary(&self) -> &Primary {
        &self.primary
    }

    pub(super) fn writer(&self) -> &ClaimWriter {
        &self.writer
    }
}
