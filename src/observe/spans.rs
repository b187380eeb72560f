//! Spans of traces: what a request waits for and works on.
//!
//! [`span!`] opens a span below the current one. Spans are made only while traces are exported
//! (`--otlp-endpoint`); otherwise a span costs one comparison. Log lines never show them: a line is
//! attributed to its request by a span of its own, which is always there and in no trace.
//!
//! Work on other threads and in other tasks belongs to a request only if it is started within its span:
//! by [`spawn_blocking`], or with `in_current_span`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tracing::Span;

/// The target of spans that only traces have.
pub(crate) const TARGET: &str = "berth::span";
/// The target of the span of a request, which only log lines have, whatever their filter.
pub(crate) const REQUEST: &str = "berth::request";

/// The target of the span of work that is done for several requests together, which only log lines have.
pub(crate) const REQUESTS: &str = "berth::requests";

/// A span with a name and fields, below the current one or `parent`. Names of fields follow
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

/// Whether spans are recorded. It is noted here, because to ask `tracing` would disturb the filters of the
/// next event: layers with filters of their own share what they found out last.
static ARE_RECORDED: AtomicBool = AtomicBool::new(false);

/// Notes that spans are recorded.
pub(crate) fn record() {
    ARE_RECORDED.store(true, Ordering::Relaxed);
}

/// Whether spans are recorded.
pub(crate) fn are_recorded() -> bool {
    ARE_RECORDED.load(Ordering::Relaxed)
}

/// A count as a field. Those that are not signed become texts in traces.
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

/// The same with something that is held until the work is done, even if nobody waits for it any more.
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

/// The spans of the requests for which something is done together. Each of them has its own span of
/// every phase, so that the trace of a request is complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(Vec<Span>);

/// A part of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// Rows are locked, and read.
    Lock,
    /// It is decided what is written, and written.
    Write,
    /// The transaction is committed.
    Commit,
}

/// A phase under way, until it is dropped.
#[must_use]
#[derive(Debug)]
pub(crate) struct UnderWay {
    _spans: Vec<Span>,
}

impl Spans {
    /// The current span alone.
    pub(crate) fn current() -> Self {
        Self::of(std::iter::once_with(Span::current))
    }

    /// These spans; none if spans are not recorded.
    pub(crate) fn of(spans: impl IntoIterator<Item = Span>) -> Self {
        Self(if are_recorded() { spans.into_iter().collect() } else { Vec::new() })
    }

    /// Begins a phase.
    pub(crate) fn begin(&self, phase: Phase) -> UnderWay {
        let begun = |parent: &Span| match phase {
            Phase::Lock => span!(parent: parent, "lock", db.system.name = "postgresql"),
            Phase::Write => span!(parent: parent, "write", db.system.name = "postgresql"),
            Phase::Commit => span!(parent: parent, "commit", db.system.name = "postgresql"),
        };
        UnderWay { _spans: self.0.iter().map(begun).collect() }
    }
}

/// A duration in milliseconds, with one digit after the point, as lines of the log have it.
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
