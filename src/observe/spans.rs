//! Spans of traces: the waiting times and the work of a request.
//!
//! [`span!`] opens a span below the current one. Spans are made only while traces are exported
//! (`--otlp-endpoint`); otherwise a span costs one comparison. Log lines never show them: a separate span, which is
//! always enabled and in no trace, attributes a line to its request.
//!
//! Work on other threads and in other tasks belongs to a request only if it is started within its span:
//! by [`spawn_blocking`], or with `in_current_span`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tracing::Span;

/// The target of spans that appear only in traces.
pub(crate) const TARGET: &str = "berth::span";
/// The target of the span of a request, which appears only in log lines, whatever their filter.
pub(crate) const REQUEST: &str = "berth::request";

/// The target of the span of work for several requests together, which appears only in log lines.
pub(crate) const REQUESTS: &str = "berth::requests";

/// Makes a span with a name and fields, below the current one or `parent`. Names of fields follow
/// OpenTelemetry's conventions.
macro_rules! span {
    (parent: $parent:expr, $($rest:tt)*) => {
        tracing::info_span!(target: $crate::observe::spans::TARGET, parent: $parent, $($rest)*)
    };
    ($($rest:tt)*) => {
        tracing::info_span!(target: $crate::observe::spans::TARGET, $($rest)*)
    };
}
pub(crate) use span;

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

/// Does work on a blocking thread, within the current span.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let span = Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
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

/// The spans of requests for which work is done together. Each of them has its own span of every phase, so that
/// the trace of a request is complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(Vec<Span>);

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
    _spans: Vec<Span>,
}

impl Spans {
    /// Returns the current span alone.
    pub(crate) fn current() -> Self {
        Self::of(std::iter::once_with(Span::current))
    }

    /// Collects spans; none if spans are not recorded.
    pub(crate) fn of(spans: impl IntoIterator<Item = Span>) -> Self {
        Self(if are_recorded() { spans.into_iter().collect() } else { Vec::new() })
    }

    /// Starts a phase.
    pub(crate) fn begin(&self, phase: Phase) -> RunningPhase {
        let span_of = |parent: &Span| match phase {
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
