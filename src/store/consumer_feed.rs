//! Keeps the consumers of a replica in memory as new as its world.
//!
//! They are read in the background, over a connection of their own, because there may be millions. Meanwhile the
//! changes of all refreshes are kept, and applied to what was read: a change has the whole state of a consumer, so it
//! does no harm if what was read has it already. Until the first refresh after that, and whenever they would take too
//! much memory, consumers are read from the database.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::consumer_rows::{self, LoadedConsumers};
use super::error::Result;
use super::primary::Primary;
use super::sessions::{FEED_WAIT_MAX, waiting};
use crate::model::Bug;
use crate::model::claim::Owner;
use crate::observe::log_throttle::LogThrottle;
use crate::world::{ConsumerChange, ConsumerOwner, Consumers};

/// Pause after a failure to read the consumers.
const RETRY: Duration = Duration::from_secs(5);
/// Number of changes that are applied at once.
const PIECE: usize = 1000;
/// Maximum number of changes that are kept while the consumers are read. With more, they are read again.
const KEPT_MAX: usize = 1_000_000;

/// The consumers for readers; `None`: they are not in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedConsumers(Arc<RwLock<Option<Consumers>>>);

impl SharedConsumers {
    /// Reads the consumers.
    pub(super) fn read<T>(&self, read: impl FnOnce(Option<&Consumers>) -> T) -> T {
        read(self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Option<Consumers>) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the consumers. Those before are dropped on another thread, because there may be millions.
    fn replace(&self, next: Option<Consumers>) {
        if let Some(before) = self.change(|consumers| mem::replace(consumers, next)) {
            tokio::task::spawn_blocking(move || drop(before));
        }
    }
}

/// The side of the refreshes.
#[derive(Debug)]
pub(super) struct ConsumerFeed {
    shared: SharedConsumers,
    primary: Primary,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Consumers are read from the database.
    Off,
    /// All consumers are being read.
    Loading {
        /// The changes since this began.
        kept: VecDeque<ConsumerChange>,
        result: oneshot::Receiver<LoadedConsumers>,
        loaded: Option<LoadedConsumers>,
    },
    /// The consumers are in memory.
    On,
}

/// A change that is made together with that of the world.
pub(super) enum Prepared {
    Nothing,
    /// New states, and the names of new owners.
    Changes(Vec<ConsumerChange>, Vec<(Owner, ConsumerOwner)>),
    /// All consumers.
    All(Consumers),
}

impl ConsumerFeed {
    /// Returns both sides, without consumers.
    pub(super) fn new(primary: &Primary) -> (Self, SharedConsumers) {
        let shared = SharedConsumers::default();
        let feed = Self { shared: shared.clone(), primary: primary.clone(), state: State::Off };
        (feed, shared)
    }

    fn memory_max(&self) -> Option<u64> {
        self.primary.options().consumers_memory_max
    }

    /// Forgets the consumers, and begins to read all.
    pub(super) fn load(&mut self) {
        self.stop();
        let Some(memory_max) = self.memory_max() else { return };
        let (sender, result) = oneshot::channel();
        tokio::spawn(load(self.primary.clone(), memory_max, sender));
        self.state = State::Loading { kept: VecDeque::new(), result, loaded: None };
    }

    fn stop(&mut self) {
        self.state = State::Off;
        self.shared.replace(None);
    }

    /// Returns whether all consumers have been read, at the beginning of a refresh, which completes them.
    pub(super) fn has_loaded(&mut self) -> bool {
        let State::Loading { result, loaded, .. } = &mut self.state else { return false };
        if loaded.is_none() {
            *loaded = result.try_recv().ok();
        }
        loaded.is_some()
    }

    /// Prepares the changes that a refresh has found in the database with this identity.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn prepare(
        &mut self,
        conn: &mut PgConnection,
        changes: Vec<ConsumerChange>,
        identity: &str,
    ) -> Result<Prepared> {
        match &mut self.state {
            State::Off => Ok(Prepared::Nothing),
            State::On if changes.is_empty() => Ok(Prepared::Nothing),
            State::On => {
                let unknown = self.shared.read(|consumers| {
                    consumers.into_iter().flat_map(|it| it.unknown_owners(&changes)).collect()
                });
                let owners = consumer_rows::names(conn, unknown).await?;
                Ok(Prepared::Changes(changes, owners))
            }
            State::Loading { kept, loaded, .. } => {
                kept.extend(changes);
                match loaded {
                    Some(loaded) if loaded.identity == identity => {
                        let complete = complete(conn, loaded, kept).await?;
                        self.state = if complete.is_some() { State::On } else { State::Off };
                        return Ok(complete.map_or(Prepared::Nothing, Prepared::All));
                    }
                    // The database has been replaced meanwhile.
                    Some(_) => self.load(),
                    None if kept.len() > KEPT_MAX => self.load(),
                    None => {}
                }
                Ok(Prepared::Nothing)
            }
        }
    }

    /// Makes a prepared change together with `publish`, so that readers see both or none.
    pub(super) fn change(&mut self, prepared: Prepared, publish: impl FnOnce()) {
        let memory = match prepared {
            Prepared::Nothing => {
                publish();
                return;
            }
            Prepared::All(all) => {
                tracing::info!(consumers = all.len(), "loaded the consumers");
                self.shared.change(|consumers| {
                    publish();
                    consumers.insert(all).memory()
                })
            }
            Prepared::Changes(changes, owners) => self.shared.change(|consumers| {
                publish();
                let missing = || Bug::raise("the consumers are in memory and missing");
                let consumers = consumers.as_mut().unwrap_or_else(missing);
                consumers.add_owners(owners);
                consumers.apply(changes);
                consumers.memory()
            }),
        };
        if self.memory_max().is_none_or(|most| memory > most) {
            report_excess(memory);
            self.stop();
        }
    }
}

/// Returns what was read with the changes since then; `None`: it needs too much memory.
async fn complete(
    conn: &mut PgConnection,
    loaded: &mut LoadedConsumers,
    kept: &mut VecDeque<ConsumerChange>,
) -> Result<Option<Consumers>> {
    if let Some(consumers) = &mut loaded.consumers {
        let unknown = consumers.unknown_owners(&*kept);
        consumers.add_owners(consumer_rows::names(conn, unknown).await?);
        while !kept.is_empty() {
            consumers.apply(kept.drain(..kept.len().min(PIECE)));
            // If the refresh ends here, the next one continues.
            yield_now().await;
        }
    }
    Ok(loaded.consumers.take())
}

fn report_excess(memory: u64) {
    tracing::warn!(
        memory,
        "the consumers take too much memory, and are read from the database (--consumers-in-memory)"
    );
}

/// Reads all consumers. Tries again after a failure, as long as the result is needed.
async fn load(primary: Primary, memory_max: u64, mut result: oneshot::Sender<LoadedConsumers>) {
    let throttle = LogThrottle::default();
    loop {
        let loaded = tokio::select! {
            loaded = read(&primary, memory_max) => loaded,
            () = result.closed() => return,
        };
        match loaded {
            Ok(loaded) => {
                // A reload of the world may have begun another one.
                drop(result.send(loaded));
                return;
            }
            Err(error) => {
                if throttle.count().is_some() {
                    tracing::warn!(%error, "reading the consumers failed");
                }
            }
        }
        tokio::select! {
            () = sleep(RETRY) => {}
            () = result.closed() => return,
        }
    }
}

async fn read(primary: &Primary, memory_max: u64) -> Result<LoadedConsumers> {
    let settings = |options| waiting(options, FEED_WAIT_MAX);
    let (mut conn, term) = primary.connect(settings).await?;
    term.during(consumer_rows::all(&mut conn, memory_max)).await
}
