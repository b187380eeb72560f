//! What happens on one connection: whether a request is on it, and since when it has been idle.
//!
//! Written by the task of the connection. Read by the task that accepts connections, which closes
//! idle ones when there is no room, and by the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::http::edge::server::Bounds;

/// How long the arrival of a head is no reason to close a connection for the sake of another.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Phase {
    /// Nothing has come since it was accepted.
    Fresh,
    /// Its last request has been answered, and nothing has come since.
    Idle,
    /// TLS is being agreed on, or the head of a request has begun and not ended.
    Arriving,
    /// A request is on it.
    Busy,
    /// The answer has been made, and is being sent.
    Sending,
}

/// What all connections of a listener's room have in common.
#[derive(Debug)]
pub(in crate::http) struct Waiting {
    began: Instant,
    /// By how many microseconds a test has put the clock forward.
    #[cfg(test)]
    pub(in crate::http) ahead: AtomicU64,
    /// Whether a new connection waits for room.
    pub(in crate::http) wanted: AtomicBool,
    /// Told when a connection has become idle, or was asked to close and did not.
    pub(in crate::http) look: Notify,
}

impl Waiting {
    pub(in crate::http) fn new() -> Self {
        Self {
            began: Instant::now(),
            #[cfg(test)]
            ahead: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            look: Notify::new(),
        }
    }

    /// Microseconds since the beginning.
    fn now(&self) -> u64 {
        let now = u64::try_from(self.began.elapsed().as_micros());
        let now = now.unwrap_or(u64::MAX >> Moment::BITS);
        #[cfg(test)]
        let now = now + self.ahead.load(Ordering::Relaxed);
        now
    }
}

/// A phase and when it began, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Moment(u64);

impl Moment {
    /// Bits of the phase; above them stand microseconds.
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
            // The last; no greater number is written.
            _ => Phase::Sending,
        }
    }

    /// Microseconds since the server began.
    pub(in crate::http) fn microseconds(self) -> u64 {
        self.0 >> Self::BITS
    }
}

/// What happens on one connection.
#[derive(Debug)]
pub(in crate::http) struct Activity {
    waiting: Arc<Waiting>,
    moment: AtomicU64,
    asked: AtomicBool,
    ask: Notify,
    lingers: AtomicBool,
    /// Heads that have come, say clearly where their requests end, and have not been answered.
    heads: AtomicUsize,
}

impl Activity {
    pub(in crate::http) fn new(waiting: Arc<Waiting>, phase: Phase) -> Self {
        let activity = Self {
            waiting,
            moment: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            ask: Notify::new(),
            lingers: AtomicBool::new(false),
            heads: AtomicUsize::new(0),
        };
        activity.begin(phase);
        activity
    }

    /// What it is doing, and since when.
    pub(in crate::http) fn moment(&self) -> Moment {
        Moment(self.moment.load(Ordering::Relaxed))
    }

    pub(in crate::http) fn phase(&self) -> Phase {
        self.moment().phase()
    }

    /// Goes over to another phase now.
    pub(in crate::http) fn begin(&self, phase: Phase) {
        self.set(Moment::new(phase, self.waiting.now()));
    }

    fn set(&self, moment: Moment) {
        self.moment.store(moment.0, Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        Duration::from_micros(self.waiting.now().saturating_sub(self.moment().microseconds()))
    }

    /// Notes that bytes have come: outside of a request they begin the head of the next. The time
    /// for the first head runs from the beginning of the connection.
    pub(in crate::http) fn bytes_came(&self) {
        let moment = self.moment();
        match moment.phase() {
            Phase::Fresh => self.set(Moment::new(Phase::Arriving, moment.microseconds())),
            Phase::Idle => self.begin(Phase::Arriving),
            Phase::Arriving | Phase::Busy | Phase::Sending => {}
        }
    }

    /// Notes that heads have come that say clearly where their requests end.
    pub(in crate::http) fn heads_came(&self, count: usize) {
        self.heads.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes the head of the request that is to be answered. Returns false if it is not clear where that ends.
    pub(in crate::http) fn take_head(&self) -> bool {
        let less = |heads: usize| heads.checked_sub(1);
        self.heads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Whether a request has come whose answer has not been sent to its end.
    pub(in crate::http) fn is_answering(&self) -> bool {
        matches!(self.phase(), Phase::Busy | Phase::Sending)
    }

    /// Notes that all that was written has been sent. Returns whether that was the end of an answer.
    pub(in crate::http) fn flushed(&self) -> bool {
        let is_answered = self.phase() == Phase::Sending;
        if is_answered {
            self.begin(Phase::Idle);
            if self.waiting.wanted.load(Ordering::Relaxed) {
                self.waiting.look.notify_one();
            }
        }
        is_answered
    }

    /// Whether nobody would miss it.
    pub(in crate::http) fn can_be_closed(&self) -> bool {
        match self.phase() {
            Phase::Fresh | Phase::Idle => true,
            Phase::Arriving => self.age() >= HEAD_PATIENCE,
            Phase::Busy | Phase::Sending => false,
        }
    }

    /// When to look whether it has been silent for too long. A phase that begins before then has a
    /// bound of its own, so this is never later than the shortest bound from now.
    pub(in crate::http) fn look_at(&self, bounds: &Bounds) -> Instant {
        let soon = Instant::now() + bounds.header_timeout.min(bounds.idle_timeout);
        let since = Duration::from_micros(self.moment().microseconds());
        let limit = self.limit(bounds).map(|limit| self.waiting.began + since + limit);
        limit.map_or(soon, |limit| limit.min(soon))
    }

    /// Whether it has been silent for too long.
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

    /// Asks for its end, if it is idle.
    pub(in crate::http) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
        self.ask.notify_one();
    }

    /// Whether its end has been asked for.
    pub(in crate::http) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Ready when its end is asked for.
    pub(in crate::http) async fn asked(&self) {
        self.ask.notified().await;
    }

    /// Says that it goes on although its end was asked for: a request has come.
    pub(in crate::http) fn refuse(&self) {
        self.asked.store(false, Ordering::Relaxed);
        self.waiting.look.notify_one();
    }

    /// The client may be sending when the last answer has been sent: what comes is to be read
    /// for a while, or the system would take the answer back from a client that has not read it.
    pub(in crate::http) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub(in crate::http) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }
}

/// Notes the end of an answer when it is dropped.
#[derive(Debug)]
pub(in crate::http) struct UntilSent(Arc<Activity>);

impl UntilSent {
    /// Notes that a request has come.
    pub(in crate::http) fn begin(activity: &Arc<Activity>) -> Self {
        activity.begin(Phase::Busy);
        Self(Arc::clone(activity))
    }
}

impl Drop for UntilSent {
    fn drop(&mut self) {
        self.0.begin(Phase::Sending);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::{Activity, Bounds, Instant, Phase, UntilSent, Waiting};

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
        let waiting = Arc::new(Waiting::new());
        let advance =
            |seconds: u64| waiting.ahead.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
        let activity = Arc::new(Activity::new(Arc::clone(&waiting), Phase::Fresh));
        let is_overdue = || activity.is_overdue(&bounds());
        advance(50);
        activity.bytes_came();
        assert!(!is_overdue());
        advance(10);
        assert!(is_overdue(), "the bytes do not prolong the time");

        let request = UntilSent::begin(&activity);
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
        drop(UntilSent::begin(&activity));
        activity.flushed();
        advance(120);
        assert!(is_overdue());
        assert!(activity.look_at(&bounds()) > Instant::now());
    }
}
