//! Copies bodies while they are forwarded, within a memory budget that all copies share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// Remaining bytes for copies.
#[derive(Debug)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    /// A budget of `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(bytes)))
    }

    fn take(&self, bytes: usize) -> bool {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.is_ok()
    }

    /// An empty copy of at most `bytes_max` bytes.
    pub(super) fn copy(self: &Arc<Self>, bytes_max: usize) -> BodyCopy {
        BodyCopy { bytes: Vec::new(), bytes_max, budget: Arc::clone(self) }
    }
}

/// A copy of a body, or of its beginning.
#[derive(Debug)]
pub(super) struct BodyCopy {
    bytes: Vec<u8>,
    bytes_max: usize,
    budget: Arc<Budget>,
}

/// Reasons for a missing copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Omitted {
    /// The body is longer than the maximum.
    TooLong,
    /// The shared budget is used up.
    Memory,
}

impl Omitted {
    /// Label in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Memory => "memory",
        }
    }
}

impl BodyCopy {
    /// Maximum length in bytes.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The copied bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a part.
    pub(super) fn add(&mut self, part: &[u8]) -> Result<(), Omitted> {
        if self.bytes.len() + part.len() > self.bytes_max {
            return Err(Omitted::TooLong);
        }
        if !self.budget.take(part.len()) {
            return Err(Omitted::Memory);
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }
}

impl Drop for BodyCopy {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes.len(), Ordering::Relaxed);
    }
}

/// The state of a body after it was forwarded.
#[derive(Debug)]
pub(super) struct ForwardedBody {
    /// The copy.
    pub(super) copy: Result<BodyCopy, Omitted>,
    /// Whether the body was forwarded to its end.
    pub(super) is_complete: bool,
}

/// Callback that receives the copy.
type OnForwarded = Box<dyn FnOnce(ForwardedBody) + Send>;

/// A body that is copied while it is forwarded.
struct CopiedBody {
    body: Body,
    copy: Option<Result<BodyCopy, Omitted>>,
    has_ended: bool,
    has_failed: bool,
    then: Option<OnForwarded>,
}

/// Wraps a body. When it was forwarded, or is dropped before its end, `then` gets the copy.
pub(super) fn copied(body: Body, copy: BodyCopy, then: OnForwarded) -> Body {
    let size = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let copy = if size.is_some_and(|size| size > copy.bytes_max) {
        Err(Omitted::TooLong)
    } else {
        Ok(copy)
    };
    let (has_ended, has_failed) = (false, false);
    Body::new(CopiedBody { body, copy: Some(copy), has_ended, has_failed, then: Some(then) })
}

impl HttpBody for CopiedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            None => self.has_ended = true,
            Some(Err(_)) => self.has_failed = true,
            Some(Ok(frame)) => {
                if let (Some(part), Some(Ok(copy))) = (frame.data_ref(), &mut self.copy)
                    && let Err(omitted) = copy.add(part)
                {
                    self.copy = Some(Err(omitted));
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CopiedBody {
    fn drop(&mut self) {
        let is_complete = !self.has_failed && (self.has_ended || self.body.is_end_stream());
        if let (Some(copy), Some(then)) = (self.copy.take(), self.then.take()) {
            then(ForwardedBody { copy, is_complete });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use axum::body::{Body, Bytes};
    use futures_util::stream;
    use http_body_util::BodyExt;
    use tokio::sync::oneshot;

    use super::{BodyCopy, Budget, ForwardedBody, Omitted, copied};
    use crate::http::api::streamed;

    fn chunks(parts: &'static [&'static str]) -> Body {
        let parts = parts.iter().map(|it| Ok::<_, axum::Error>(Bytes::from_static(it.as_bytes())));
        streamed::body(stream::iter(parts))
    }

    fn watched(body: Body, copy: BodyCopy) -> (Body, oneshot::Receiver<ForwardedBody>) {
        let (sender, passed) = oneshot::channel();
        (copied(body, copy, Box::new(|it| drop(sender.send(it)))), passed)
    }

    fn left(budget: &Arc<Budget>) -> usize {
        budget.0.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_body_passes_unchanged_and_is_copied() {
        let budget = Budget::new(10);
        let (body, passed) = watched(chunks(&["ab", "cd"]), budget.copy(4));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abcd");
        let ForwardedBody { copy, is_complete } = passed.await.unwrap();
        let copy = copy.unwrap();
        assert!(is_complete && copy.bytes() == b"abcd" && left(&budget) == 6);
        drop(copy);
        assert_eq!(left(&budget), 10);
    }

    #[tokio::test]
    async fn too_long_bodies_pass_without_a_copy() {
        let budget = Budget::new(10);
        for (body, most) in [(chunks(&["ab", "cd"]), 3), (Body::from("abcd"), 3)] {
            let (body, passed) = watched(body, budget.copy(most));
            assert_eq!(body.collect().await.unwrap().to_bytes(), "abcd");
            let passed = passed.await.unwrap();
            assert_eq!((passed.copy.unwrap_err(), passed.is_complete), (Omitted::TooLong, true));
        }
        let held = {
            let mut held = budget.copy(8);
            held.add(b"12345678").unwrap();
            held
        };
        let (body, passed) = watched(chunks(&["ab", "cd"]), budget.copy(100));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abcd");
        assert_eq!(passed.await.unwrap().copy.unwrap_err(), Omitted::Memory);
        drop(held);
        assert_eq!(left(&budget), 10);
    }

    #[tokio::test]
    async fn a_body_that_is_dropped_is_not_whole_unless_all_of_it_has_passed() {
        let budget = Budget::new(10);
        let (mut body, passed) = watched(chunks(&["ab", "cd"]), budget.copy(10));
        body.frame().await.unwrap().unwrap();
        drop(body);
        assert!(!passed.await.unwrap().is_complete);
        // Its length is known, so it is not polled after the last part.
        let (mut body, passed) = watched(Body::from("abcd"), budget.copy(10));
        body.frame().await.unwrap().unwrap();
        drop(body);
        assert!(passed.await.unwrap().is_complete);
        let (body, passed) = watched(Body::empty(), budget.copy(10));
        drop(body);
        assert!(passed.await.unwrap().is_complete);
    }

    #[tokio::test]
    async fn a_body_stays_ended() {
        let (mut body, _passed) = watched(chunks(&["ab"]), Budget::new(10).copy(10));
        while let Some(frame) = body.frame().await {
            frame.unwrap();
        }
        assert!(body.frame().await.is_none() && body.frame().await.is_none());
    }
}
