//! The state of one connection: its phase, and how long it has been idle.
//!
//! Written by the task of the connection. Read by the accept loop, which closes idle connections
//! when there is no room, and by the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::http::edge::bounds::Bounds;

/// For this long, a connection with an incomplete head is not closed to make room.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Phase {
    /// Nothing has been received since it was accepted.
    Fresh,
    /// The last response has been sent, and nothing received since.
    Idle,
    /// The TLS handshake or the head of a request is incomplete.
    Arriving,
    /// A request is being handled.
    Busy,
    /// A response is being sent.
    Sending,
}

/// State shared by all connections of a server.
#[derive(Debug)]
pub(in crate::http) struct SharedActivity {
    began: Instant,
    /// Microseconds by which a test has advanced the clock.
    #[cfg(test)]
    pub(in crate::http) ahead: AtomicU64,
    /// Whether a new connection waits for a slot.
    pub(in crate::http) slot_needed: AtomicBool,
    /// Notified when a connection becomes idle, or declines to close.
    pub(in crate::http) look: Notify,
}

impl SharedActivity {
    pub(in crate::http) fn new() -> Self {
        Self {
            began: Instant::now(),
            #[cfg(test)]
            ahead: AtomicU64::new(0),
            slot_needed: AtomicBool::new(false),
            look: Notify::new(),
        }
    }

    /// Microseconds since the start.
    fn now(&self) -> u64 {
        let now = u64::try_from(self.began.elapsed().as_micros());
        let now = now.unwrap_or(u64::MAX >> Moment::BITS);
        #[cfg(test)]
        let now = now + self.ahead.load(Ordering::Relaxed);
        now
    }
}

/// A phase and its start, packed into one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Moment(u64);

impl Moment {
    /// Bits of the phase; microseconds use the rest.
    const BITS: u32 = 3;

    fn new(phase: Phase, microseconds: u64) -> Self {
        Self((microseconds << Self::BITS) | phase as u64)
    }

    pub(in crate::http) fn phase(self) -> Phase {
        match self.0 & ((1 << Self::BITS) - 1) {
            0 => Phase::Fresh,
            1 => Phase::Idle,
            2 => Phase::Arriving,
            3 => Phase::Busy,
            // The last phase; greater numbers are never written.
            _ => Phase::Sending,
        }
    }

    /// Microseconds from the start of the server.
    pub(in crate::http) fn microseconds(self) -> u64 {
        self.0 >> Self::BITS
    }
}

/// The state of one connection.
#[derive(Debug)]
pub(in crate::http) struct Activity {
    waiting: Arc<SharedActivity>,
    moment: AtomicU64,
    close_requested: AtomicBool,
    close_notify: Notify,
    lingers: AtomicBool,
    /// Heads that were received, have unambiguous framing, and have not been handled.
    heads: AtomicUsize,
}

impl Activity {
    pub(in crate::http) fn new(waiting: Arc<SharedActivity>, phase: Phase) -> Self {
        let activity = Self {
            waiting,
            moment: AtomicU64::new(0),
            close_requested: AtomicBool::new(false),
            close_notify: Notify::new(),
            lingers: AtomicBool::new(false),
            heads: AtomicUsize::new(0),
        };
        activity.enter(phase);
        activity
    }

    /// Returns the current phase and its start.
    pub(in crate::http) fn moment(&self) -> Moment {
        Moment(self.moment.load(Ordering::Relaxed))
    }

    pub(in crate::http) fn phase(&self) -> Phase {
        self.moment().phase()
    }

    /// Enters a phase now.
    pub(in crate::http) fn enter(&self, phase: Phase) {
        self.set(Moment::new(phase, self.waiting.now()));
    }

    fn set(&self, moment: Moment) {
        self.moment.store(moment.0, Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        Duration::from_micros(self.waiting.now().saturating_sub(self.moment().microseconds()))
    }

    /// Records received bytes: outside of a request they start the next head. The timeout of the
    /// first head runs from the start of the connection.
    pub(in crate::http) fn bytes_came(&self) {
        let moment = self.moment();
        match moment.phase() {
            Phase::Fresh => self.set(Moment::new(Phase::Arriving, moment.microseconds())),
            Phase::Idle => self.enter(Phase::Arriving),
            Phase::Arriving | Phase::Busy | Phase::Sending => {}
        }
    }

    /// Records received heads with unambiguous framing.
    pub(in crate::http) fn heads_came(&self, count: usize) {
        self.heads.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes the head of the next request. Returns false if its framing is ambiguous.
    pub(in crate::http) fn take_head(&self) -> bool {
        let less = |heads: usize| heads.checked_sub(1);
        self.heads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Returns whether the response of a received request is incomplete.
    pub(in crate::http) fn is_answering(&self) -> bool {
        matches!(self.phase(), Phase::Busy | Phase::Sending)
    }

    /// Records that all written bytes were flushed. Returns whether a response is complete.
    pub(in crate::http) fn flushed(&self) -> bool {
        let is_answered = self.phase() == Phase::Sending;
        if is_answered {
            self.enter(Phase::Idle);
            if self.waiting.slot_needed.load(Ordering::Relaxed) {
                self.waiting.look.notify_one();
            }
        }
        is_answered
    }

    /// Returns whether the connection is idle and may be closed.
    pub(in crate::http) fn can_be_closed(&self) -> bool {
        match self.phase() {
            Phase::Fresh | Phase::Idle => true,
            Phase::Arriving => self.age() >= HEAD_PATIENCE,
            Phase::Busy | Phase::Sending => false,
        }
    }

    /// Returns when to check for a timeout. A phase that starts before then has its own timeout, so
    /// this is never later than the shortest timeout from now.
    pub(in crate::http) fn look_at(&self, bounds: &Bounds) -> Instant {
        let soon = Instant::now() + bounds.header_timeout.min(bounds.idle_timeout);
        let since = Duration::from_micros(self.moment().microseconds());
        let limit = self.limit(bounds).map(|limit| self.waiting.began + since + limit);
        limit.map_or(soon, |limit| limit.min(soon))
    }

    /// Returns whether a timeout has passed.
    pub(in crate::http) fn is_overdue(&self, bounds: &Bounds) -> bool {
        self.limit(bounds).is_some_and(|limit| self.age() >= limit)
    }

    fn limit(&self, bounds: &Bounds) -> Option<Duration> {
        match self.phase() {
            Phase::Fresh | Phase::Arriving => Some(bounds.header_timeout),
            Phase::Idle => Some(bounds.idle_timeout),
            Phase::Busy | Phase::Sending => None,
        }
    }

    /// Requests that the connection is closed if it is idle.
    pub(in crate::http) fn request_close(&self) {
        self.close_requested.store(true, Ordering::Relaxed);
        self.close_notify.notify_one();
    }

    /// Returns whether closing was requested.
    pub(in crate::http) fn is_close_requested(&self) -> bool {
        self.close_requested.load(Ordering::Relaxed)
    }

    /// Completes when closing is requested.
    pub(in crate::http) async fn close_requested(&self) {
        self.close_notify.notified().await;
    }

    /// Declines to close: a request has arrived.
    pub(in crate::http) fn decline_close(&self) {
        self.close_requested.store(false, Ordering::Relaxed);
        self.waiting.look.notify_one();
    }

    /// The client may still be sending after the last response. The rest is read for a while,
    /// because the system would otherwise reset the connection before the client has read the
    /// response.
    pub(in crate::http) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub(in crate::http) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }
}

/// Marks the response as complete on drop.
#[derive(Debug)]
pub(in crate::http) struct ResponseGuard(Arc<Activity>);

impl ResponseGuard {
    /// Records the start of a request.
    pub(in crate::http) fn new(activity: &Arc<Activity>) -> Self {
        activity.enter(Phase::Busy);
        Self(Arc::clone(activity))
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        self.0.enter(Phase::Sending);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::{Activity, Bounds, Instant, Phase, ResponseGuard, SharedActivity};

    fn bounds() -> Bounds {
        Bounds {
            connections: 1,
            header_timeout: Duration::from_mins(1),
            idle_timeout: Duration::from_mins(2),
            write_timeout: Duration::from_secs(30),
            shutdown_delay: Duration::ZERO,
            shutdown_grace: Duration::from_secs(30),
        }
    }

    #[test]
    fn a_first_head_has_its_time_from_the_beginning_and_later_ones_from_their_first_byte() {
        let waiting = Arc::new(SharedActivity::new());
        let advance =
            |seconds: u64| waiting.ahead.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
        let activity = Arc::new(Activity::new(Arc::clone(&waiting), Phase::Fresh));
        let is_overdue = || activity.is_overdue(&bounds());
        advance(50);
        activity.bytes_came();
        assert!(!is_overdue());
        advance(10);
        assert!(is_overdue(), "the bytes do not prolong the time");

        let request = ResponseGuard::new(&activity);
        advance(1000);
        assert!(!is_overdue() && !activity.can_be_closed());
        drop(request);
        advance(1000);
        assert!(!is_overdue(), "it is still being sent");
        activity.flushed();
        advance(100);
        assert!(!is_overdue() && activity.can_be_closed());
        activity.bytes_came();
        assert!(!is_overdue() && !activity.can_be_closed());
        advance(50);
        assert!(!is_overdue() && activity.can_be_closed(), "it does not arrive");
        advance(10);
        assert!(is_overdue());
        drop(ResponseGuard::new(&activity));
        activity.flushed();
        advance(120);
        assert!(is_overdue());
        assert!(activity.look_at(&bounds()) > Instant::now());
    }
}
