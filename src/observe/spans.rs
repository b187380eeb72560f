//! Spans of traces: the waiting times and the work of a request.
//!
//! [`span!`] opens a span below the current one. Spans are exported only with `--otlp-endpoint`, and their times added
//! up for each request only with `--slow-request`; without both, a span costs almost nothing. Log lines never show
//! them: the [`RequestContext`](super::request_context::RequestContext) attributes a line to its request.
//!
//! Work on other threads and in other tasks belongs to a request only if it runs within its [`RequestScope`], as with
//! [`spawn_blocking`].

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tracing::instrument::Instrumented;
use tracing::span::EnteredSpan;
use tracing::{Instrument as _, Span};

use crate::observe::request_context::{self, RequestScope};
use crate::observe::times::Timer;

/// The target of spans that appear only in traces.
pub(crate) const TARGET: &str = "berth::span";

/// Makes a span with a name and fields, below the current one or that of the scope `parent`. Names of fields follow
/// OpenTelemetry's conventions.
macro_rules! span {
    (parent: $parent:expr, $name:literal $($rest:tt)*) => {
        $crate::observe::spans::TimedSpan::within($parent, $name, tracing::info_span!(
            target: $crate::observe::spans::TARGET, parent: $parent.span(), $name $($rest)*
        ))
    };
    ($name:literal $($rest:tt)*) => {
        $crate::observe::spans::TimedSpan::new($name, tracing::info_span!(
            target: $crate::observe::spans::TARGET, $name $($rest)*
        ))
    };
}
pub(crate) use span;

/// A span whose time is added to those of its request when it is dropped.
#[derive(Debug)]
pub(crate) struct TimedSpan {
    span: Span,
    timer: Option<Timer>,
}

impl TimedSpan {
    /// Starts the time of a span within the current request.
    pub(crate) fn new(name: &'static str, span: Span) -> Self {
        let timer = request_context::times().map(|times| Timer::of(name, times));
        Self { span, timer }
    }

    /// Starts the time of a span within the request of another scope.
    pub(crate) fn within(parent: &RequestScope, name: &'static str, span: Span) -> Self {
        let timer = parent.times().map(|times| Timer::of(name, times));
        Self { span, timer }
    }

    /// Returns a span that nothing records.
    pub(crate) fn none() -> Self {
        Self { span: Span::none(), timer: None }
    }

    /// Enters the span until the result is dropped.
    pub(crate) fn entered(self) -> EnteredTimedSpan {
        EnteredTimedSpan { _entered: self.span.entered(), _timer: self.timer }
    }
}

impl Deref for TimedSpan {
    type Target = Span;

    fn deref(&self) -> &Span {
        &self.span
    }
}

/// A [`TimedSpan`] that this thread is in.
#[must_use]
#[derive(Debug)]
pub(crate) struct EnteredTimedSpan {
    _entered: EnteredSpan,
    _timer: Option<Timer>,
}

pin_project! {
    /// The future of [`Timed::timed`].
    pub(crate) struct TimedFuture<F> {
        #[pin]
        inner: Instrumented<F>,
        timer: Option<Timer>,
    }
}

impl<F: Future> Future for TimedFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let output = ready!(this.inner.poll(context));
        *this.timer = None;
        Poll::Ready(output)
    }
}

/// Runs a future within a span.
pub(crate) trait Timed: Future + Sized {
    /// Runs the future within a span, whose time ends with the future.
    fn timed(self, span: TimedSpan) -> TimedFuture<Self> {
        TimedFuture { inner: self.instrument(span.span), timer: span.timer }
    }
}

impl<F: Future> Timed for F {}

/// Whether spans are recorded. Asking `tracing` instead would disturb the filters of the next event: layers
/// with their own filters share the result of the last query.
static ARE_RECORDED: AtomicBool = AtomicBool::new(false);

/// Switches recording of spans on.
pub(crate) fn record() {
    ARE_RECORDED.store(true, Ordering::Relaxed);
}

/// Returns whether spans are recorded.
pub(crate) fn are_recorded() -> bool {
    ARE_RECORDED.load(Ordering::Relaxed)
}

/// Makes a field of a count. Unsigned numbers become text in traces.
pub(crate) fn count(count: u64) -> i64 {
    count.min(i64::MAX.cast_unsigned()).cast_signed()
}

/// Does work on a blocking thread, within the current scope.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let scope = RequestScope::current();
    tokio::task::spawn_blocking(move || scope.run(work))
}

/// The same with a value that is held until the work is done, even if the caller no longer waits.
pub(crate) fn spawn_blocking_holding<H: Send + 'static, T: Send + 'static>(
    held: H,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    spawn_blocking(move || {
        let done = work();
        drop(held);
        done
    })
}

/// The scopes of requests for which work is done together. Each of them has its own span of every phase, so that
/// the trace of a request is complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(Vec<RequestScope>);

/// A part of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// Locks and reads rows.
    Lock,
    /// Decides what to write, and writes it.
    Write,
    /// Commits the transaction.
    Commit,
}

/// A phase that lasts until this is dropped.
#[must_use]
#[derive(Debug)]
pub(crate) struct RunningPhase {
    _spans: Vec<TimedSpan>,
}

impl Spans {
    /// Returns the current scope alone.
    pub(crate) fn current() -> Self {
        Self::of(std::iter::once_with(RequestScope::current))
    }

    /// Collects scopes; none if nothing uses them.
    pub(crate) fn of(scopes: impl IntoIterator<Item = RequestScope>) -> Self {
        let is_used = |scope: &RequestScope| are_recorded() || scope.times().is_some();
        Self(scopes.into_iter().filter(is_used).collect())
    }

    /// Starts a phase.
    pub(crate) fn begin(&self, phase: Phase) -> RunningPhase {
        let span_of = |parent: &RequestScope| match phase {
            Phase::Lock => span!(parent: parent, "lock", db.system.name = "postgresql"),
            Phase::Write => span!(parent: parent, "write", db.system.name = "postgresql"),
            Phase::Commit => span!(parent: parent, "commit", db.system.name = "postgresql"),
        };
        RunningPhase { _spans: self.0.iter().map(span_of).collect() }
    }
}

/// Returns a duration in milliseconds, with one decimal, as in log lines.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::milliseconds;

    #[test]
    fn a_duration_has_one_digit_after_the_point() {
        for (micros, shown) in
            [(30_254, "30.3"), (30_249, "30.2"), (49, "0.0"), (1_000_000, "1000.0")]
        {
            assert_eq!(format!("{:?}", milliseconds(Duration::from_micros(micros))), shown);
        }
    }
}
