//! The change feed: brings a replica's [`World`] up to date for every request that needs it.
//!
//! One task owns one connection. A request waits for a refresh that *starts after it arrived*; all
//! requests that arrive while one is in progress share the next. A refresh is one statement and so sees
//! one snapshot. It returns that snapshot, the rows of `change_log` that were not visible in the
//! snapshot of the previous refresh, and the current rows of the providers that those log rows name.
//!
//! Comparing snapshots is exact in whatever order transactions commit; comparing numbers is not.
//! Example: transaction 100 changes provider P and stays open; transaction 101 changes Q and commits. A
//! refresh now sees 101 but not 100. It delivers Q and remembers the snapshot `100:102:100`: everything
//! below 102 has ended, except 100. (A reader that remembered "seen up to 101" would miss P.) The next
//! refresh selects log rows of 100, which the snapshot lists as in progress, and of 102 and later. Once
//! 100 has committed, P is delivered. Delivering a provider twice would do no harm, because rows are
//! read completely and not applied as differences.
//!
//! With `--max-staleness`, requests may use the result of the last refresh ([`super::recent`]).
//!
//! While snapshots have stayed the same for some refreshes, a refresh only compares the present one with the last,
//! which is a cheaper statement.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use sqlx::PgConnection;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::consumer_feed::{ConsumerFeed, Prepared, SharedConsumers};
use super::error::{Error, Result};
use super::primary::{Primary, Term};
use super::recent::Recent;
use super::sessions::{FEED_WAIT_MAX, waiting};
use super::statement_plans::{self, StatementPlans};
use super::world_delta::{self, Delta};
use super::{epoch, recording, world_rows};
use crate::observe::log_throttle::LogThrottle;
use crate::observe::spans::{Timed, milliseconds, span};
use crate::world::{Changes, Consumers, World};

/// Timeout for reading everything again.
const RELOAD_MAX: Duration = Duration::from_mins(10);
/// Maximum timeout for any refresh. The timeout is doubled after each failure.
const REFRESH_LONGEST: Duration = Duration::from_secs(30);
/// Interval of refreshes of an idle replica, so that the log is never pruned before the replica has read it.
const IDLE: Duration = Duration::from_secs(1);
/// Number of changes above which everything is read again.
pub(super) const RELOAD_ABOVE: usize = 20_000;
/// Maximum number of changes that are applied on the feed's own thread.
const APPLY_INLINE_MAX: usize = 100;
/// Number of equal snapshots in a row after which a refresh compares snapshots first. Beside writers of other replicas
/// a single one means nothing: the comparison would be a round trip in vain.
const SAME_SNAPSHOTS_MIN: u32 = 4;
/// Maximum number of requests waiting for a refresh.
const WAITING_MAX: usize = 65_536;

/// A request that waits for a refresh. It receives the term in which the refresh was made.
type Waiter = oneshot::Sender<Result<Arc<Term>>>;

/// Counts complete reads of the world. Caches of keys are emptied after each, because the database may have been
/// restored to an earlier state.
#[derive(Clone, Debug, Default)]
pub(super) struct Reloads(Arc<AtomicU64>);

impl Reloads {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A replica's view of all providers, and the means to bring it up to date.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    known: Arc<ArcSwap<KnownWorld>>,
    consumers: SharedConsumers,
    recent: Arc<Recent>,
    waiters: mpsc::Sender<Waiter>,
    primary: Primary,
    reloads: Reloads,
}

impl Feed {
    /// Loads the world and starts keeping it current.
    pub(super) async fn start(primary: Primary) -> Result<Self> {
        let plans = StatementPlans::new();
        let reloads = Reloads::default();
        let recent = Arc::new(Recent::new(primary.options().max_staleness));
        let (consumers, shared) = ConsumerFeed::new(&primary);
        let mut reader = Reader {
            primary: primary.clone(),
            conn: None,
            plans,
            read_point: None,
            same_snapshots: 0,
            reloads: reloads.clone(),
            failures: Failures::default(),
            consumers,
            recent: Arc::clone(&recent),
        };
        let known = Arc::new(ArcSwap::from_pointee(KnownWorld::default()));
        reader.refresh(&known).await?;
        let (waiters, queue) = mpsc::channel(WAITING_MAX);
        tokio::spawn(reader.run(Arc::clone(&known), queue));
        Ok(Self { known, consumers: shared, recent, waiters, primary, reloads })
    }

    /// Returns the counter of complete reads.
    pub(super) fn reloads(&self) -> Reloads {
        self.reloads.clone()
    }

    /// Returns the world as known, without a query to the database.
    pub(super) fn known(&self) -> Arc<World> {
        Arc::clone(&self.known.load().world)
    }

    /// Returns the known world with its snapshot.
    pub(super) fn known_with_snapshot(&self) -> Arc<KnownWorld> {
        self.known.load_full()
    }

    /// Records that a write of this replica has ended: reads that begin afterwards show it.
    pub(super) fn written(&self) {
        self.recent.written();
    }

    /// Returns the world as of a moment after this call began, or less than `--max-staleness` before.
    pub(super) async fn current(&self) -> Result<Arc<World>> {
        self.refreshed(|| self.known()).await
    }

    /// The same with what is read of the consumers at this moment; `None`: they are not in memory. `read` must be
    /// short, because it keeps the next refresh waiting.
    pub(super) async fn current_with_consumers<T>(
        &self,
        read: impl FnOnce(&World, &Consumers) -> T,
    ) -> Result<(Arc<World>, Option<T>)> {
        let read = || {
            self.consumers.read(|consumers| {
                let world = self.known();
                let found = consumers.map(|consumers| read(&world, consumers));
                (world, found)
            })
        };
        self.refreshed(read).await
    }

    /// Returns the number of consumers in memory; `None`: they are read from the database.
    pub(super) fn consumers_len(&self) -> Option<usize> {
        self.consumers.read(|consumers| Some(consumers?.len()))
    }

    async fn refreshed<T>(&self, read: impl FnOnce() -> T) -> Result<T> {
        if let Some(term) = self.recent.term() {
            let result = read();
            self.primary.confirm(&term).await?;
            return Ok(result);
        }
        self.refresh(read).timed(span!("refresh", db.system.name = "postgresql")).await
    }

    /// Waits for a refresh that starts after this call began, and reads its result.
    async fn refresh<T>(&self, read: impl FnOnce() -> T) -> Result<T> {
        let (response, done) = oneshot::channel();
        self.waiters.try_send(response).map_err(|error| match error {
            TrySendError::Full(_) => {
                Error::Unavailable("too many requests wait for a refresh".to_owned())
            }
            TrySendError::Closed(_) => Error::bug("the change feed has ended"),
        })?;
        let limit = self.primary.timeouts().read;
        let refreshed = match timeout(limit, done).await {
            Ok(Ok(refreshed)) => refreshed,
            Ok(Err(_)) => Err(Error::bug("the change feed has ended")),
            Err(_) => Err(Error::Unavailable(format!("no refresh within {limit:?}"))),
        };
        let term = refreshed?;
        let result = read();
        self.primary.confirm(&term).await?;
        Ok(result)
    }
}

/// The state that the reader has seen: everything visible in this snapshot.
#[derive(Clone, Debug)]
pub(super) struct ReadPoint {
    /// The snapshot as PostgreSQL writes it.
    pub(super) snapshot: String,
    /// The identity of the database of the snapshot.
    pub(super) identity: String,
}

/// A world with its snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownWorld {
    /// The world.
    pub(super) world: Arc<World>,
    /// Its snapshot; `None` before the first refresh.
    pub(super) read_point: Option<ReadPoint>,
}

#[derive(Debug)]
struct Reader {
    primary: Primary,
    conn: Option<(PgConnection, Arc<Term>)>,
    plans: StatementPlans,
    read_point: Option<ReadPoint>,
    /// Number of refreshes in a row that found the snapshot of the one before.
    same_snapshots: u32,
    reloads: Reloads,
    failures: Failures,
    consumers: ConsumerFeed,
    recent: Arc<Recent>,
}

/// Refreshes that have failed in a row.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    throttle: LogThrottle,
}

impl Failures {
    /// Logs the first failure, then the number of failures from time to time, and the end.
    fn record<T>(&mut self, refreshed: &Result<T>) {
        match refreshed {
            Ok(_) if self.count > 0 => {
                tracing::info!(failures = self.count, "refreshing the world succeeds again");
                *self = Self::default();
            }
            Ok(_) => {}
            Err(error) => {
                self.count += 1;
                if self.throttle.count().is_some() {
                    tracing::warn!(%error, failures = self.count, "refreshing the world failed");
                }
            }
        }
    }
}

impl Reader {
    async fn run(mut self, known: Arc<ArcSwap<KnownWorld>>, mut queue: mpsc::Receiver<Waiter>) {
        let mut waiting = Vec::new();
        let shortest = self.primary.timeouts().refresh;
        let mut patience = shortest;
        loop {
            if timeout(IDLE, queue.recv_many(&mut waiting, WAITING_MAX)).await == Ok(0) {
                return;
            }
            let bound = if self.read_point.is_some() { patience } else { RELOAD_MAX };
            let began = Instant::now();
            let refresh = AssertUnwindSafe(self.refresh(&known)).catch_unwind();
            let refreshed = match timeout(bound, refresh).await {
                Ok(Ok(refreshed)) => refreshed,
                Ok(Err(_panic)) => Err(Error::bug("the refresh panicked")),
                Err(_) => {
                    patience = (patience * 2).min(REFRESH_LONGEST);
                    Err(Error::Unavailable(format!("no refresh within {bound:?}")))
                }
            };
            if refreshed.is_err() && queue.is_closed() {
                // The store is gone, and perhaps the database.
                return;
            }
            recording::refresh(refreshed.is_ok(), began.elapsed());
            if refreshed.is_ok() {
                patience = shortest;
            }
            self.failures.record(&refreshed);
            if let Err(error) = &refreshed {
                self.conn = None;
                self.primary.suspect();
                if error.is_ours() {
                    // A change that cannot be applied is not tried for ever: everything is read again, also after a
                    // panic.
                    self.read_point = None;
                }
            }
            let failed = refreshed.is_err();
            for waiter in waiting.drain(..) {
                // The request may have been abandoned.
                drop(waiter.send(refreshed.clone()));
            }
            if failed {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Brings the world up to date. A connection that has died is replaced once: a refresh only
    /// reads, so it may be repeated.
    async fn refresh(&mut self, known: &ArcSwap<KnownWorld>) -> Result<Arc<Term>> {
        let beginning = self.recent.start();
        let term = match self.try_refresh(known).await {
            Err(Error::Again(why)) => {
                tracing::debug!(why, "connecting the change feed again");
                self.conn = None;
                self.try_refresh(known).await.map_err(Error::settled)
            }
            settled => settled,
        }?;
        self.recent.refreshed(beginning, &term);
        Ok(term)
    }

    async fn try_refresh(&mut self, known: &ArcSwap<KnownWorld>) -> Result<Arc<Term>> {
        let (mut conn, term) = match self.conn.take().filter(|(_, term)| !term.is_over()) {
            Some(connected) => connected,
            None => connect(&self.primary).await?,
        };
        term.during(self.refresh_on(&mut conn, known)).await?;
        self.conn = Some((conn, Arc::clone(&term)));
        Ok(term)
    }

    async fn refresh_on(
        &mut self,
        conn: &mut PgConnection,
        known: &ArcSwap<KnownWorld>,
    ) -> Result<()> {
        self.plans.renew(conn).await?;
        let has_loaded = self.consumers.has_loaded();
        if let Some(read_point) = &self.read_point {
            if self.same_snapshots >= SAME_SNAPSHOTS_MIN
                && !has_loaded
                && world_delta::is_unchanged(conn, &read_point.snapshot, &read_point.identity)
                    .await?
            {
                return Ok(());
            }
            match world_delta::delta(conn, &read_point.snapshot).await? {
                Some(Delta { identity, snapshot, count, changes, consumers })
                    if identity.as_ref() == Some(&read_point.identity) && count <= RELOAD_ABOVE =>
                {
                    self.same_snapshots = if snapshot == read_point.snapshot {
                        self.same_snapshots.saturating_add(1)
                    } else {
                        0
                    };
                    let read_point = ReadPoint { snapshot, identity: read_point.identity.clone() };
                    let mut world = Arc::clone(&known.load().world);
                    if count > 0 {
                        world = Arc::new(apply(world, changes, count).await?);
                    }
                    let consumers =
                        self.consumers.prepare(conn, consumers, &read_point.identity).await?;
                    self.note(known, world, read_point, consumers);
                    return Ok(());
                }
                Some(_) | None => {}
            }
        }
        // From here on it is a reload, with a reload's time limit if it has to be repeated.
        self.read_point = None;
        self.reloads.0.fetch_add(1, Ordering::Relaxed);
        recording::load();
        epoch::settle(conn).await?;
        let started = Instant::now();
        let all = world_rows::all(conn).await?;
        let held = Changes { holds: all.holds, ..Changes::default() };
        let loaded = move || World::build(all.catalogue, all.providers).apply(held);
        let loaded = off_thread(loaded).await?;
        let took_ms = milliseconds(started.elapsed());
        tracing::info!(providers = loaded.len(), took_ms, "loaded the world");
        let read_point = ReadPoint { snapshot: all.snapshot, identity: all.identity };
        // Not earlier: the epoch is settled, and the world does not wait for the consumers.
        self.consumers.load();
        self.note(known, Arc::new(loaded), read_point, Prepared::Nothing);
        Ok(())
    }

    fn note(
        &mut self,
        known: &ArcSwap<KnownWorld>,
        world: Arc<World>,
        read_point: ReadPoint,
        consumers: Prepared,
    ) {
        self.read_point = Some(read_point.clone());
        let next = Arc::new(KnownWorld { world, read_point: Some(read_point) });
        self.consumers.change(consumers, || known.store(next));
    }
}

async fn connect(primary: &Primary) -> Result<(PgConnection, Arc<Term>)> {
    let settings = |options| waiting(statement_plans::settings(options), FEED_WAIT_MAX);
    let (mut conn, term) = primary.connect(settings).await?;
    term.during(epoch::settle(&mut conn)).await?;
    Ok((conn, term))
}

/// Returns the world with this number of changes applied.
pub(super) async fn apply(current: Arc<World>, changes: Changes, count: usize) -> Result<World> {
    if count <= APPLY_INLINE_MAX {
        Ok(current.apply(changes))
    } else {
        off_thread(move || current.apply(changes)).await
    }
}

/// Runs the work on a blocking thread, because large changes would delay other requests.
async fn off_thread(work: impl FnOnce() -> World + Send + 'static) -> Result<World> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|panic| Error::bug(format!("the world could not be laid out: {panic}")))
}
