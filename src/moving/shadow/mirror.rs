//! What the real path hands over to be mirrored: two bounded queues, and a switch.
//!
//! Nothing here waits. What finds no room is not mirrored, and counted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use uuid::Uuid;

use super::copied_body::{BodyCopy, Budget, Passed};
use super::exchange::{Answered, Asked};
use super::recent_writes::{RecentWrites, Scope, WriteId};
use super::route::{self, Kind};
use super::tally::{Certainty, Tally};

/// How long a read waits for Berth to have the writes that the upstream had.
const BEHIND_MAX: Duration = Duration::from_secs(5);
/// How often the end of all work is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is mirrored, and how much at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Whether writes are mirrored.
    pub(super) writes: bool,
    /// Requests that may wait in each queue.
    pub(super) queue: usize,
    /// Bytes of all bodies that wait or are compared.
    pub(super) memory: usize,
    /// Bytes of a body that is compared.
    pub(super) body: usize,
}

/// The number of requests of a kind that wait or are worked on.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending(Arc<AtomicUsize>);

/// One of them.
pub(super) struct Counted(Pending);

impl Pending {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn one(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A read that the upstream has answered.
pub(super) struct Read {
    pub(super) asked: Asked,
    pub(super) upstream: Answered,
    /// When the upstream was asked.
    pub(super) began: Instant,
    /// The number of the last write that the upstream had accepted before this answer ended.
    pub(super) after: u64,
    pub(super) _pending: Counted,
}

/// A write that the upstream has accepted.
pub(super) struct Write {
    pub(super) asked: Asked,
    /// Its body, as soon as it has passed; `None`: it has none.
    pub(super) body: Option<oneshot::Receiver<Passed>>,
    /// The answer, as soon as it has passed; nothing comes if it did not pass, or not as a whole.
    pub(super) upstream: oneshot::Receiver<Answered>,
    /// When the upstream was asked, and when it accepted.
    pub(super) began: Instant,
    pub(super) accepted: Instant,
    /// Its number in the order of acceptance.
    pub(super) number: u64,
    pub(super) id: WriteId,
    pub(super) _pending: Counted,
}

/// What the real path hands over to.
pub(super) struct Mirror {
    pub(super) bounds: Bounds,
    pub(super) tally: Arc<Tally>,
    pub(super) recent: RecentWrites,
    budget: Arc<Budget>,
    on: watch::Sender<bool>,
    reads: mpsc::Sender<Read>,
    writes: mpsc::Sender<Write>,
    pub(super) pending_reads: Pending,
    pub(super) pending_writes: Pending,
    /// The number of the last write that was queued. Locked while one is, so that numbers are in order.
    accepted: Mutex<u64>,
    /// The number of the last write that is done with.
    applied: watch::Sender<u64>,
}

/// What comes out of the queues.
pub(super) struct Queues {
    pub(super) reads: mpsc::Receiver<Read>,
    pub(super) writes: mpsc::Receiver<Write>,
}

impl Mirror {
    /// A mirror that is on.
    pub(super) fn new(bounds: Bounds, tally: Arc<Tally>) -> (Self, Queues) {
        let (reads, of_reads) = mpsc::channel(bounds.queue);
        let (writes, of_writes) = mpsc::channel(bounds.queue);
        let mirror = Self {
            bounds,
            tally,
            recent: RecentWrites::default(),
            budget: Budget::new(bounds.memory),
            on: watch::Sender::new(true),
            reads,
            writes,
            pending_reads: Pending::default(),
            pending_writes: Pending::default(),
            accepted: Mutex::default(),
            applied: watch::Sender::new(0),
        };
        (mirror, Queues { reads: of_reads, writes: of_writes })
    }

    pub(super) fn is_on(&self) -> bool {
        *self.on.borrow()
    }

    /// Turns it on or off. Returns whether that changes anything.
    pub(super) fn turn(&self, on: bool) -> bool {
        let changes = self.on.send_if_modified(|is_on| std::mem::replace(is_on, on) != on);
        if changes {
            tracing::warn!("the mirror is {}", if on { "on" } else { "off" });
        }
        changes
    }

    /// Ready when it is off.
    pub(super) async fn off(&self) {
        // The sender is here, so that there is no error.
        drop(self.on.subscribe().wait_for(|is_on| !is_on).await);
    }

    /// An empty copy of a body.
    pub(super) fn copy(&self) -> BodyCopy {
        self.budget.copy(self.bounds.body)
    }

    /// Whether a read would find room now; if not, why.
    pub(super) fn has_room(&self) -> Result<(), &'static str> {
        if !self.is_on() {
            Err("off")
        } else if self.reads.capacity() == 0 {
            Err("queue_full")
        } else {
            Ok(())
        }
    }

    fn numbers(&self) -> MutexGuard<'_, u64> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the last write that was queued.
    pub(super) fn accepted(&self) -> u64 {
        *self.numbers()
    }

    /// Hands over a read.
    pub(super) fn read(&self, asked: Asked, upstream: Answered, began: Instant) {
        let read = Read {
            asked,
            upstream,
            began,
            after: self.accepted(),
            _pending: self.pending_reads.one(),
        };
        if self.reads.try_send(read).is_err() {
            self.tally.not_mirrored(Kind::Read, "queue_full");
        }
    }

    /// Hands over a write that was accepted just now. Returns where its answer goes.
    pub(super) fn write(
        &self,
        asked: Asked,
        body: Option<oneshot::Receiver<Passed>>,
        began: Instant,
        id: WriteId,
    ) -> Option<oneshot::Sender<Answered>> {
        if !self.is_on() {
            self.lose(id, "off", Certainty::Accepted);
            return None;
        }
        let (sender, upstream) = oneshot::channel();
        let mut last = self.numbers();
        let write = Write {
            asked,
            body,
            upstream,
            began,
            accepted: Instant::now(),
            number: *last + 1,
            id,
            _pending: self.pending_writes.one(),
        };
        if self.writes.try_send(write).is_err() {
            drop(last);
            self.lose(id, "queue_full", Certainty::Accepted);
            return None;
        }
        *last += 1;
        Some(sender)
    }

    /// Counts a write that Berth does not get.
    pub(super) fn lose(&self, id: WriteId, reason: &'static str, certainty: Certainty) {
        self.tally.not_mirrored(Kind::Write, reason);
        self.tally.lacks(certainty);
        self.recent.end(id, Instant::now());
    }

    /// Notes that a write is done with, whatever came of it.
    pub(super) fn done(&self, number: u64) {
        self.applied.send_if_modified(|last| std::mem::replace(last, number.max(*last)) < number);
    }

    /// Waits until Berth has all writes up to this number. Returns whether it does, within a bound.
    pub(super) async fn until_applied(&self, number: u64) -> bool {
        let mut applied = self.applied.subscribe();
        let reached = applied.wait_for(|last| *last >= number);
        timeout(BEHIND_MAX, reached).await.is_ok_and(|it| it.is_ok())
    }

    /// Waits until nothing is left to do, until then at the most. Returns whether that is so.
    pub(super) async fn drain(&self, until: Instant) -> bool {
        while self.pending_reads.count() + self.pending_writes.count() > 0 {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        true
    }
}

/// What a write is about, from its path and body.
pub(super) fn scope_of_write(asked: &Asked, body: &[u8]) -> Scope {
    scope([asked.target().as_bytes(), body])
}

/// What a read shows: what its path names and its answers tell. A list may change by any write.
pub(super) fn scope_of_read(asked: &Asked, answers: [&[u8]; 2]) -> Scope {
    let (named, _) = route::uuids(asked.uri.path().as_bytes());
    if named.is_empty() {
        return Scope::Everything;
    }
    let [one, other] = answers;
    scope([asked.target().as_bytes(), one, other])
}

fn scope<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> Scope {
    let mut found: BTreeSet<Uuid> = BTreeSet::new();
    for text in texts {
        match route::uuids(text) {
            (uuids, true) => found.extend(uuids),
            (_, false) => return Scope::Everything,
        }
    }
    if found.is_empty() { Scope::Everything } else { Scope::Only(found) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use axum::http::{HeaderMap, Method, StatusCode, Uri};

    use super::{
        Answered, Asked, Bounds, Kind, Mirror, Queues, Scope, scope_of_read, scope_of_write,
    };

    const ONE: &str = "4e8e5957-649f-477b-9e5b-f1f75b21c03c";

    fn mirror() -> (Mirror, Queues) {
        let bounds = Bounds { writes: true, queue: 2, memory: 100, body: 10 };
        Mirror::new(bounds, Arc::default())
    }

    fn asked(method: Method, target: &str) -> Asked {
        Asked { method, uri: target.parse::<Uri>().unwrap(), headers: HeaderMap::new() }
    }

    fn read(mirror: &Mirror) {
        let answered = Answered {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: mirror.copy(),
            took: Duration::ZERO,
        };
        mirror.read(asked(Method::GET, "/traits"), answered, Instant::now());
    }

    fn write(mirror: &Mirror) -> bool {
        let id = mirror.recent.begin(Instant::now());
        mirror.write(asked(Method::PUT, "/traits/A"), None, Instant::now(), id).is_some()
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let (mirror, mut queues) = mirror();
        for _ in 0..3 {
            read(&mirror);
        }
        assert_eq!(mirror.has_room(), Err("queue_full"));
        assert_eq!([write(&mirror), write(&mirror), write(&mirror)], [true, true, false]);
        let lost = mirror.tally.snapshot().not_mirrored;
        assert_eq!(lost[&(Kind::Read, "queue_full")], 1);
        assert_eq!(lost[&(Kind::Write, "queue_full")], 1);
        assert_eq!((mirror.pending_reads.count(), mirror.pending_writes.count()), (2, 2));
        let numbers = [queues.writes.try_recv(), queues.writes.try_recv()];
        assert_eq!(numbers.map(|it| it.unwrap().number), [1, 2]);
        assert_eq!(mirror.pending_writes.count(), 0);
        drop(queues.reads.try_recv().unwrap());
        assert_eq!(mirror.has_room(), Ok(()));
    }

    #[tokio::test]
    async fn it_is_off_at_once() {
        let (mirror, mut queues) = mirror();
        assert!(mirror.turn(false) && !mirror.turn(false));
        mirror.off().await;
        assert!(!write(&mirror) && mirror.has_room() == Err("off"));
        assert!(queues.writes.try_recv().is_err());
        assert!(mirror.turn(true) && write(&mirror));
        mirror.done(1);
        assert!(mirror.until_applied(1).await);
    }

    #[test]
    fn a_list_is_about_everything_and_an_object_about_itself() {
        let body = format!("{{\"a\": \"{ONE}\"}}");
        let path = format!("/resource_providers/{ONE}/usages");
        let everything =
            [asked(Method::GET, "/traits"), asked(Method::GET, &format!("/usages?x={ONE}"))];
        for asked in everything {
            assert_eq!(scope_of_read(&asked, [body.as_bytes(), b""]), Scope::Everything);
        }
        let only = scope_of_read(&asked(Method::GET, &path), [b"", b""]);
        assert_eq!(only, Scope::Only([ONE.parse().unwrap()].into()));
        assert_eq!(scope_of_write(&asked(Method::POST, "/allocations"), body.as_bytes()), only);
        assert_eq!(scope_of_write(&asked(Method::PUT, "/traits/A"), b""), Scope::Everything);
    }
}
