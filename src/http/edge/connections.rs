//! The open connections, of which there is a maximum number. When another connection arrives, the
//! one that has been idle longest is closed.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::edge::activity::{Activity, Moment, Phase, SharedActivity};
use crate::observe::log_throttle::LogThrottle;

/// Maximum number of connections selected for closing in one scan of all connections.
const CHOSEN_MAX: usize = 64;
/// Interval at which a waiting connection retries.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The connections that are open.
#[derive(Debug)]
pub(in crate::http) struct Connections {
    most: usize,
    room: Arc<Semaphore>,
    waiting: Arc<SharedActivity>,
    known: Mutex<OpenConnections>,
    closed_for_room: AtomicU64,
    throttle: LogThrottle,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    open: HashMap<u64, Arc<Activity>>,
    /// The connections that had been idle longest at the last scan, the longest first. An entry is
    /// stale if the moment of its connection has changed; connections that are missing here became
    /// idle later.
    chosen: VecDeque<(Moment, u64)>,
}

/// Numbers of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct ConnectionCounts {
    pub(in crate::http) open: usize,
    /// Connections that have received no part of a request.
    pub(in crate::http) idle: usize,
    /// Connections with a request whose response has not been sent.
    pub(in crate::http) busy: usize,
}

impl Connections {
    /// Creates an empty set with room for `most` connections.
    pub(in crate::http) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            room: Arc::new(Semaphore::new(most)),
            waiting: Arc::new(SharedActivity::new()),
            known: Mutex::default(),
            closed_for_room: AtomicU64::new(0),
            throttle: LogThrottle::default(),
        })
    }

    /// Waits for a free slot. If all are taken, closes an idle connection.
    pub(in crate::http) async fn enter(self: &Arc<Self>, phase: Phase) -> Slot {
        let permit = self.room().await;
        let activity = Arc::new(Activity::new(Arc::clone(&self.waiting), phase));
        let mut known = self.known();
        let id = known.next;
        known.next += 1;
        known.open.insert(id, Arc::clone(&activity));
        Slot { connections: Arc::clone(self), id, activity, _permit: permit }
    }

    async fn room(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            return Some(permit);
        }
        self.waiting.slot_needed.store(true, Ordering::Relaxed);
        let permit = loop {
            let look = self.waiting.look.notified();
            self.close_longest_idle();
            tokio::select! {
                // The semaphore is never closed.
                permit = Arc::clone(&self.room).acquire_owned() => break permit.ok(),
                () = look => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        };
        self.waiting.slot_needed.store(false, Ordering::Relaxed);
        permit
    }

    /// Asks the connection that has been idle longest to close.
    pub(in crate::http) fn close_longest_idle(&self) {
        let mut known = self.known();
        if !known.ask_chosen() {
            known.choose();
            known.ask_chosen();
        }
    }

    /// Counts a connection that was closed to make room.
    pub(in crate::http) fn count_closed(&self) {
        self.closed_for_room.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.throttle.count() {
            let most = self.most;
            tracing::warn!(
                count,
                "all {most} connections are open (--max-connections): those that have been idle \
                 longest are closed for new ones"
            );
        }
    }

    /// Returns the number of connections closed to make room.
    pub(in crate::http) fn closed_for_room(&self) -> u64 {
        self.closed_for_room.load(Ordering::Relaxed)
    }

    /// Returns the current numbers of connections.
    pub(in crate::http) fn counts(&self) -> ConnectionCounts {
        let known = self.known();
        let mut counts = ConnectionCounts { open: known.open.len(), ..ConnectionCounts::default() };
        for activity in known.open.values() {
            match activity.phase() {
                Phase::Fresh | Phase::Idle => counts.idle += 1,
                Phase::Busy | Phase::Sending => counts.busy += 1,
                Phase::Arriving => {}
            }
        }
        counts
    }

    fn known(&self) -> MutexGuard<'_, OpenConnections> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Asks the first selected connection that has not changed to close. Returns whether there was
    /// one.
    fn ask_chosen(&mut self) -> bool {
        while let Some((moment, id)) = self.chosen.pop_front() {
            let activity = self.open.get(&id).filter(|activity| {
                activity.moment() == moment
                    && activity.can_be_closed()
                    && !activity.is_close_requested()
            });
            if let Some(activity) = activity {
                activity.request_close();
                return true;
            }
        }
        false
    }

    /// Scans all connections and selects those that have been idle longest; connections with an
    /// incomplete head come last.
    fn choose(&mut self) {
        let mut found: Vec<(bool, u64, Moment, u64)> = Vec::new();
        for (id, activity) in &self.open {
            if activity.can_be_closed() && !activity.is_close_requested() {
                let moment = activity.moment();
                let arriving = moment.phase() == Phase::Arriving;
                found.push((arriving, moment.microseconds(), moment, *id));
            }
        }
        let key = |it: &(bool, u64, Moment, u64)| (it.0, it.1, it.3);
        if found.len() > CHOSEN_MAX {
            found.select_nth_unstable_by_key(CHOSEN_MAX, key);
            found.truncate(CHOSEN_MAX);
        }
        found.sort_unstable_by_key(key);
        self.chosen = found.into_iter().map(|(_, _, moment, id)| (moment, id)).collect();
    }
}

/// The slot of an open connection; dropping it frees the slot.
#[derive(Debug)]
pub(in crate::http) struct Slot {
    connections: Arc<Connections>,
    id: u64,
    /// The state of the connection.
    pub(in crate::http) activity: Arc<Activity>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// Counts that the connection was closed to make room.
    pub(in crate::http) fn count_closed(&self) {
        self.connections.count_closed();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.known().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{ConnectionCounts, Connections, Phase};

    fn advance(connections: &Connections, microseconds: u64) {
        connections.waiting.ahead.fetch_add(microseconds, Ordering::Relaxed);
    }

    #[tokio::test]
    async fn the_one_that_has_been_idle_longest_makes_room() {
        let connections = Connections::new(3);
        let first = connections.enter(Phase::Fresh).await;
        advance(&connections, 1000);
        let second = connections.enter(Phase::Fresh).await;
        advance(&connections, 1000);
        let third = connections.enter(Phase::Fresh).await;
        first.activity.enter(Phase::Busy);
        assert_eq!(connections.counts(), ConnectionCounts { open: 3, idle: 2, busy: 1 });

        let fourth = tokio::spawn({
            let connections = connections.clone();
            async move { connections.enter(Phase::Fresh).await }
        });
        second.activity.close_requested().await;
        assert!(second.activity.is_close_requested() && !third.activity.is_close_requested());
        // A request has arrived in the meantime.
        second.activity.enter(Phase::Busy);
        second.activity.decline_close();
        third.activity.close_requested().await;
        drop(third);
        let fourth = fourth.await.unwrap();

        // No connection is idle: the next one to become idle is closed.
        fourth.activity.enter(Phase::Busy);
        let fifth = tokio::spawn({
            let connections = connections.clone();
            async move { connections.enter(Phase::Fresh).await }
        });
        tokio::task::yield_now().await;
        first.activity.enter(Phase::Sending);
        first.activity.flushed();
        first.activity.close_requested().await;
        drop(first);
        fifth.await.unwrap();
    }

    #[tokio::test]
    async fn many_make_room_in_the_order_in_which_they_became_idle() {
        let connections = Connections::new(200);
        let mut places = Vec::new();
        for _ in 0..200 {
            places.push(connections.enter(Phase::Fresh).await);
            advance(&connections, 1000);
        }
        // Used again, so it is now the youngest.
        places[0].activity.enter(Phase::Idle);
        for place in &places[1..] {
            connections.close_longest_idle();
            assert!(place.activity.is_close_requested());
        }
        assert!(!places[0].activity.is_close_requested());
        connections.close_longest_idle();
        assert!(places[0].activity.is_close_requested());
    }
}
