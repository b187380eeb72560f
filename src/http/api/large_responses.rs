//! Large responses that are complete in memory until their clients have received them. Their total
//! size is bounded, so slow clients cannot exhaust the memory.
//!
//! When there is no room for another one, stalled ones are cut off. Responses up to [`SMALL`] are
//! not counted, so they need no lock; the number of connections bounds them.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

use crate::fairness::watch::Watch;
use crate::http::api::streamed::BrokenOff;
use crate::model::Bug;
use crate::observe::log_throttle::LogThrottle;

/// Maximum size of a response that is not counted, in bytes.
const SMALL: u64 = 64 * 1024;
/// Size of a part, in bytes. Parts are copied, so a part in the connection's buffer does not keep
/// the whole response in memory.
const PART: usize = 128 * 1024;
/// Time without progress after which a client counts as stalled.
const STANDSTILL: Duration = Duration::from_secs(1);

/// The large responses that are being sent.
#[derive(Debug)]
pub struct LargeResponses {
    bytes_max: usize,
    time_max: Duration,
    watch: Watch,
    sending: Mutex<Sending>,
    throttle: LogThrottle,
}

#[derive(Debug, Default)]
struct Sending {
    next: u64,
    bytes: usize,
    responses: HashMap<u64, LargeResponse>,
}

/// The rest of a response.
#[derive(Debug)]
struct LargeResponse {
    rest: Bytes,
    /// Its size in memory, however much has been sent.
    size: usize,
    /// Deadline.
    until: Instant,
    /// Time at which the client started to read the last part.
    moved: Instant,
}

/// Reason not to send a response.
#[derive(Debug)]
pub(in crate::http) enum Refusal {
    /// There is not enough room at the moment.
    NoRoom,
    Bug(Bug),
}

impl LargeResponses {
    /// Creates an empty set of at most `bytes_max` bytes, each response of at most `time_max`.
    pub(in crate::http) fn new(bytes_max: usize, time_max: Duration, watch: Watch) -> Arc<Self> {
        let (sending, throttle) = (Mutex::default(), LogThrottle::default());
        Arc::new(Self { bytes_max, time_max, watch, sending, throttle })
    }

    /// Returns the number of bytes in memory.
    pub fn bytes(&self) -> usize {
        self.sending().bytes
    }

    /// Counts a response if it is large. A single response always has room, whatever its size.
    ///
    /// # Errors
    /// There is not enough room, and the response may be refused.
    pub(in crate::http) fn admit(
        self: &Arc<Self>,
        response: Response,
        may_be_refused: bool,
    ) -> Result<Response, Refusal> {
        match response.body().size_hint().exact() {
            Some(size) if size > SMALL => {}
            // Streamed responses have their own limits.
            Some(_) | None => return Ok(response),
        }
        let (head, body) = response.into_parts();
        let rest = complete_bytes(body).map_err(Refusal::Bug)?;
        let size = rest.len();
        let now = self.watch.now();
        let mut sending = self.sending();
        let cut_off = sending.make_room(size, self.bytes_max, now);
        let is_over = sending.bytes.saturating_add(size) > self.bytes_max;
        if is_over && may_be_refused && !sending.responses.is_empty() {
            return Err(Refusal::NoRoom);
        }
        let id = sending.next;
        sending.next += 1;
        sending.bytes += size;
        let until = now + self.time_max;
        sending.responses.insert(id, LargeResponse { rest, size, until, moved: now });
        drop(sending);
        if cut_off > 0
            && let Some(count) = self.throttle.count()
        {
            tracing::warn!(count, "large responses were cut off because their clients stalled");
        }
        let sent = LargeBody { responses: Arc::clone(self), id, left: size };
        Ok(Response::from_parts(head, Body::new(sent)))
    }

    /// Returns the next part of a response; `None` if it was cut off or its deadline has passed.
    fn part(&self, id: u64) -> Option<Bytes> {
        let now = self.watch.now();
        let mut sending = self.sending();
        let response = sending.responses.get_mut(&id)?;
        if response.until <= now {
            sending.remove(id);
            return None;
        }
        response.moved = now;
        let part = response.rest.split_to(response.rest.len().min(PART));
        if response.rest.is_empty() {
            sending.remove(id);
        }
        drop(sending);
        Some(Bytes::copy_from_slice(&part))
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sending {
    /// Removes responses with stalled clients, the longest stalled first, until there is room.
    /// Returns their number.
    fn make_room(&mut self, size: usize, bytes_max: usize, now: Instant) -> usize {
        let before = self.responses.len();
        while self.bytes.saturating_add(size) > bytes_max {
            let still = self.responses.iter().filter(|it| it.1.moved + STANDSTILL <= now);
            let Some((&id, _)) = still.min_by_key(|(_, response)| response.moved) else { break };
            self.remove(id);
        }
        before - self.responses.len()
    }

    fn remove(&mut self, id: u64) {
        if let Some(response) = self.responses.remove(&id) {
            self.bytes = self.bytes.saturating_sub(response.size);
        }
    }
}

/// Returns the bytes of a body that is complete in memory.
fn complete_bytes(mut body: Body) -> Result<Bytes, Bug> {
    let size = body.size_hint().exact();
    let frame = pin!(body.frame()).now_or_never().flatten().and_then(Result::ok);
    let bytes = frame.and_then(|frame| frame.into_data().ok());
    bytes
        .filter(|bytes| u64::try_from(bytes.len()).ok() == size)
        .ok_or_else(|| Bug::new("a body of a known size is not in memory as a whole"))
}

/// The body of a large response.
struct LargeBody {
    responses: Arc<LargeResponses>,
    id: u64,
    /// Bytes that have not been passed on.
    left: usize,
}

impl HttpBody for LargeBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let Some(part) = self.responses.part(self.id) else {
            self.left = 0;
            let why = "the client read a large response too slowly".to_owned();
            return Poll::Ready(Some(Err(BrokenOff::slow_client(why))));
        };
        self.left = self.left.saturating_sub(part.len());
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        u64::try_from(self.left).map_or_else(|_| SizeHint::new(), SizeHint::with_exact)
    }
}

impl Drop for LargeBody {
    fn drop(&mut self) {
        self.responses.sending().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use axum::body::Body;
    use axum::response::Response;
    use http_body_util::BodyExt;

    use super::{LargeResponses, PART, Refusal, SMALL, STANDSTILL};
    use crate::fairness::watch::Watch;

    const SIZE: usize = PART * 3 + 1;
    const TIME_MAX: Duration = Duration::from_mins(5);

    /// Responses with a clock that the test advances.
    struct Timed {
        responses: Arc<LargeResponses>,
        milliseconds: Arc<AtomicU64>,
    }

    impl Timed {
        fn new(bytes_max: usize) -> Self {
            let (began, milliseconds) = (Instant::now(), Arc::new(AtomicU64::new(0)));
            let shown = Arc::clone(&milliseconds);
            let watch =
                Watch::of(move || began + Duration::from_millis(shown.load(Ordering::Relaxed)));
            Self { responses: LargeResponses::new(bytes_max, TIME_MAX, watch), milliseconds }
        }

        fn advance(&self, time: Duration) {
            let milliseconds = u64::try_from(time.as_millis()).unwrap();
            self.milliseconds.fetch_add(milliseconds, Ordering::Relaxed);
        }

        fn admit(&self, size: usize) -> Result<Body, Refusal> {
            let response = Response::new(vec![b'x'; size].into());
            self.responses.admit(response, true).map(Response::into_body)
        }
    }

    /// Reads a part.
    async fn take(body: &mut Body) -> Option<Result<usize, String>> {
        let frame = body.frame().await?;
        Some(frame.map(|part| part.data_ref().unwrap().len()).map_err(|why| why.to_string()))
    }

    async fn rest(body: &mut Body) -> usize {
        let mut bytes = 0;
        while let Some(part) = take(body).await {
            bytes += part.unwrap();
        }
        assert!(take(body).await.is_none(), "it stays ended");
        bytes
    }

    #[tokio::test]
    async fn small_and_streamed_answers_are_not_counted() {
        let timed = Timed::new(1);
        let small = usize::try_from(SMALL).unwrap();
        let bodies = [small, small].map(|size| timed.admit(size).unwrap());
        let parts = futures_util::stream::iter([Ok::<_, std::io::Error>("x".into())]);
        let streamed = Response::new(crate::http::api::streamed::body(parts));
        timed.responses.admit(streamed, true).unwrap();
        assert_eq!(timed.responses.bytes(), 0);
        drop(bodies);
    }

    #[tokio::test]
    async fn an_answer_is_counted_until_its_end_or_until_its_client_goes() {
        let timed = Timed::new(SIZE * 2);
        let (mut one, two) = (timed.admit(SIZE).unwrap(), timed.admit(SIZE).unwrap());
        assert_eq!(timed.responses.bytes(), SIZE * 2);
        assert_eq!(rest(&mut one).await, SIZE);
        assert_eq!(timed.responses.bytes(), SIZE);
        drop(two);
        assert_eq!(timed.responses.bytes(), 0);
    }

    #[tokio::test]
    async fn a_client_that_stands_still_makes_room_and_others_do_not() {
        let timed = Timed::new(SIZE * 2);
        let (mut slow, mut fast) = (timed.admit(SIZE).unwrap(), timed.admit(SIZE).unwrap());
        assert!(matches!(timed.admit(SIZE), Err(Refusal::NoRoom)));
        take(&mut slow).await.unwrap().unwrap();
        timed.advance(STANDSTILL / 2);
        take(&mut fast).await.unwrap().unwrap();
        timed.advance(STANDSTILL / 2);
        let mut third = timed.admit(SIZE).unwrap();
        assert_eq!(timed.responses.bytes(), SIZE * 2);
        assert!(matches!(timed.admit(SIZE), Err(Refusal::NoRoom)));
        take(&mut slow).await.unwrap().unwrap_err();
        assert!(take(&mut slow).await.is_none(), "it stays ended");
        assert_eq!(rest(&mut fast).await, SIZE - PART);
        assert_eq!(rest(&mut third).await, SIZE);
    }

    #[tokio::test]
    async fn an_answer_has_a_bounded_time_and_one_alone_may_have_any_size() {
        let timed = Timed::new(1);
        let mut body = timed.admit(SIZE).unwrap();
        // The response of a write is sent all the same.
        let response = Response::new(vec![b'x'; SIZE].into());
        let written = timed.responses.admit(response, false).unwrap();
        assert_eq!(timed.responses.bytes(), SIZE * 2);
        take(&mut body).await.unwrap().unwrap();
        timed.advance(TIME_MAX);
        take(&mut body).await.unwrap().unwrap_err();
        drop((body, written));
        assert_eq!(timed.responses.bytes(), 0);
    }
}
