//! Passes requests from the proxy to the mirror: two bounded queues, and a switch.
//!
//! Nothing here waits. Requests that find their queue full are not mirrored; they are counted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use uuid::Uuid;

use super::copied_body::{BodyCopy, Budget, ForwardedBody};
use super::exchange::{RequestHead, TimedResponse};
use super::recent_writes::{RecentWrites, Scope, WriteId};
use super::route::{self, Kind};
use super::tally::{Certainty, Tally};

/// Maximum time for which a read waits until Berth has the writes that the upstream had.
const BEHIND_MAX: Duration = Duration::from_secs(5);
/// Polling interval for the end of all work.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Which requests are mirrored, and how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Whether writes are mirrored.
    pub(super) writes: bool,
    /// Maximum number of requests in each queue.
    pub(super) queue: usize,
    /// Maximum number of bytes of all bodies that wait or are compared.
    pub(super) memory: usize,
    /// Maximum number of bytes of a body that is compared.
    pub(super) body: usize,
}

/// The number of requests of a kind that wait or are being processed.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending(Arc<AtomicUsize>);

/// Counts one of them until it is dropped.
pub(super) struct PendingGuard(Pending);

impl Pending {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn one(&self) -> PendingGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        PendingGuard(self.clone())
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A read to which the upstream has responded.
pub(super) struct MirroredRead {
    pub(super) head: RequestHead,
    pub(super) upstream: TimedResponse,
    /// Time at which the request was sent to the upstream.
    pub(super) began: Instant,
    /// Number of the last write that the upstream had accepted before this response ended.
    pub(super) after: u64,
    pub(super) _pending: PendingGuard,
}

/// A write that the upstream has accepted.
pub(super) struct MirroredWrite {
    pub(super) head: RequestHead,
    /// Receives its body once forwarded; `None` if it has none.
    pub(super) body: Option<oneshot::Receiver<ForwardedBody>>,
    /// Receives the response once forwarded; closed if it was not forwarded completely.
    pub(super) upstream: oneshot::Receiver<TimedResponse>,
    /// Times at which the request was sent to the upstream and accepted.
    pub(super) began: Instant,
    pub(super) accepted: Instant,
    /// Its number in the order of acceptance.
    pub(super) number: u64,
    pub(super) id: WriteId,
    pub(super) _pending: PendingGuard,
}

/// The proxy's side of the queues.
pub(super) struct Mirror {
    pub(super) bounds: Bounds,
    pub(super) tally: Arc<Tally>,
    pub(super) recent: RecentWrites,
    budget: Arc<Budget>,
    on: watch::Sender<bool>,
    reads: mpsc::Sender<MirroredRead>,
    writes: mpsc::Sender<MirroredWrite>,
    pub(super) pending_reads: Pending,
    pub(super) pending_writes: Pending,
    /// Number of the last write that was queued. Locked while one is queued, so that numbers are in order.
    accepted: Mutex<u64>,
    /// Number of the last write that has been processed.
    applied: watch::Sender<u64>,
}

/// The mirror's side of the queues.
pub(super) struct Queues {
    pub(super) reads: mpsc::Receiver<MirroredRead>,
    pub(super) writes: mpsc::Receiver<MirroredWrite>,
}

impl Mirror {
    /// A mirror that is switched on.
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

    /// Switches it on or off. Returns whether that changed anything.
    pub(super) fn turn(&self, on: bool) -> bool {
        let changes = self.on.send_if_modified(|is_on| std::mem::replace(is_on, on) != on);
        if changes {
            tracing::warn!("the mirror is {}", if on { "on" } else { "off" });
        }
        changes
    }

    /// Waits until it is off.
    pub(super) async fn off(&self) {
        // The sender is in `self`, so there is no error.
        drop(self.on.subscribe().wait_for(|is_on| !is_on).await);
    }

    /// An empty copy for a body.
    pub(super) fn copy(&self) -> BodyCopy {
        self.budget.copy(self.bounds.body)
    }

    /// Returns whether a read can be queued now; if not, the reason.
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

    /// Number of the last write that was queued.
    pub(super) fn accepted(&self) -> u64 {
        *self.numbers()
    }

    /// Queues a read.
    pub(super) fn read(&self, head: RequestHead, upstream: TimedResponse, began: Instant) {
        let read = MirroredRead {
            head,
            upstream,
            began,
            after: self.accepted(),
            _pending: self.pending_reads.one(),
        };
        if self.reads.try_send(read).is_err() {
            self.tally.not_mirrored(Kind::Read, "queue_full");
        }
    }

    /// Queues a write that was just accepted. Returns where its response goes.
    pub(super) fn write(
        &self,
        head: RequestHead,
        body: Option<oneshot::Receiver<ForwardedBody>>,
        began: Instant,
        id: WriteId,
    ) -> Option<oneshot::Sender<TimedResponse>> {
        if !self.is_on() {
            self.lose(id, "off", Certainty::Accepted);
            return None;
        }
        let (sender, upstream) = oneshot::channel();
        let mut last = self.numbers();
        let write = MirroredWrite {
            head,
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

    /// Marks a write as processed, whatever its outcome.
    pub(super) fn done(&self, number: u64) {
        self.applied.send_if_modified(|last| std::mem::replace(last, number.max(*last)) < number);
    }

    /// Waits until Berth has all writes up to this number. Returns `false` on a timeout.
    pub(super) async fn until_applied(&self, number: u64) -> bool {
        let mut applied = self.applied.subscribe();
        let reached = applied.wait_for(|last| *last >= number);
        timeout(BEHIND_MAX, reached).await.is_ok_and(|it| it.is_ok())
    }

    /// Waits until no work is left, at most until `until`. Returns whether none is left.
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

/// The resources that a write affects, from its path and body.
pub(super) fn scope_of_write(head: &RequestHead, body: &[u8]) -> Scope {
    scope([head.target().as_bytes(), body])
}

/// The resources that a read shows, from its path and responses. Any write may change a list.
pub(super) fn scope_of_read(head: &RequestHead, answers: [&[u8]; 2]) -> Scope {
    let (named, _) = route::uuids(head.uri.path().as_bytes());
    if named.is_empty() {
        return Scope::Everything;
    }
    let [one, other] = answers;
    scope([head.target().as_bytes(), one, other])
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
        Bounds, Kind, Mirror, Queues, RequestHead, Scope, TimedResponse, scope_of_read,
        scope_of_write,
    };

    const ONE: &str = "4e8e5957-649f-477b-9e5b-f1f75b21c03c";

    fn mirror() -> (Mirror, Queues) {
        let bounds = Bounds { writes: true, queue: 2, memory: 100, body: 10 };
        Mirror::new(bounds, Arc::default())
    }

    fn head(method: Method, target: &str) -> RequestHead {
        RequestHead { method, uri: target.parse::<Uri>().unwrap(), headers: HeaderMap::new() }
    }

    fn read(mirror: &Mirror) {
        let answered = TimedResponse {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: mirror.copy(),
            took: Duration::ZERO,
        };
        mirror.read(head(Method::GET, "/traits"), answered, Instant::now());
    }

    fn write(mirror: &Mirror) -> bool {
        let id = mirror.recent.begin(Instant::now());
        mirror.write(head(Method::PUT, "/traits/A"), None, Instant::now(), id).is_some()
    }

    #[test]
    fn requests_that_find_the_queue_full_are_counted() {
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
            [head(Method::GET, "/traits"), head(Method::GET, &format!("/usages?x={ONE}"))];
        for head in everything {
            assert_eq!(scope_of_read(&head, [body.as_bytes(), b""]), Scope::Everything);
        }
        let only = scope_of_read(&head(Method::GET, &path), [b"", b""]);
        assert_eq!(only, Scope::Only([ONE.parse().unwrap()].into()));
        assert_eq!(scope_of_write(&head(Method::POST, "/allocations"), body.as_bytes()), only);
        assert_eq!(scope_of_write(&head(Method::PUT, "/traits/A"), b""), Scope::Everything);
    }
}
