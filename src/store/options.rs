//! Options of a store.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

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
    /// Maximum age of the state that reads are answered with, apart from writes of this replica.
    pub max_staleness: Duration,
    /// Timeouts of requests that wait for the database.
    pub timeouts: Timeouts,
    /// Settings for pruning the change log and the history.
    pub pruning: Pruning,
    /// Age at which entries of the history of changes are removed, in days; `None`: it is off.
    pub history_days: Option<u16>,
    /// Maximum memory for consumers with their allocations, in bytes; `None`: they are read from the database.
    pub consumers_memory_max: Option<u64>,
    /// Age at which events are removed, in hours; `None`: the log of events is off.
    pub events_hours: Option<u16>,
}

impl StoreOptions {
    /// Returns options for one server, with the default rules.
    pub fn at(host: PgConnectOptions, connections: u32) -> Self {
        Self {
            hosts: vec![host],
            connections,
            report_only: false,
            lease: None,
            max_staleness: Duration::ZERO,
            timeouts: Timeouts::default(),
            pruning: Pruning::default(),
            history_days: None,
            consumers_memory_max: Some(u64::MAX),
            events_hours: None,
        }
    }
}

/// Timeouts of requests that wait for the database.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For connecting, including the search for the primary.
    pub connect: Duration,
    /// For getting a connection of the pool.
    pub acquire: Duration,
    /// For a read, even if the server does not respond.
    pub read: Duration,
    /// For one refresh, after which its connection is given up. If connecting again does not help, the next may
    /// take twice as long, up to 30 seconds.
    pub refresh: Duration,
    /// For a write, even if the server does not respond.
    pub write: Duration,
}

impl Timeouts {
    /// Returns the maximum time that a request waits in all for locks of others; then it fails with 503. It is less
    /// than `write`, so that the last attempt has ended when its caller gives up, and nothing is written afterwards.
    pub(super) fn locked(&self) -> Duration {
        self.write.mul_f32(0.9)
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            acquire: Duration::from_secs(2),
            read: Duration::from_millis(2500),
            refresh: Duration::from_secs(2),
            write: Duration::from_secs(10),
        }
    }
}

/// Settings for pruning the change log.
#[derive(Clone, Copy, Debug)]
pub struct Pruning {
    /// Minimum age of the snapshot up to which the log is pruned, and the interval of pruning. A replica that
    /// has not refreshed for longer may have to read everything again.
    pub period: Duration,
    /// Maximum number of rows that one statement removes.
    pub piece: u16,
    /// Pause after each of them.
    pub pause: Duration,
}

impl Default for Pruning {
    fn default() -> Self {
        Self { period: Duration::from_mins(1), piece: 5000, pause: Duration::from_millis(50) }
    }
}
