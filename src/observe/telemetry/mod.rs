//! Logging: one line for each event on standard error, for people or as JSON; and optional [traces](otlp).
//!
//! A separate thread writes the lines ([`writer`]). If standard error is not read, lines are dropped and
//! counted; no request waits for the log. Under systemd's journal, each line begins with its priority
//! ([`journal`]). Text from clients is escaped ([`line_format`]). Filter and format can be replaced while the
//! process runs ([`log_settings`]).

mod filters;
mod journal;
mod line_format;
mod otlp;
mod writer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal};
use std::panic;

use tracing::subscriber::set_global_default;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::{Registry, fmt};

use self::filters::{LineFilter, TraceFilter};
use self::line_format::{LineFormat, TextFields};
pub use self::otlp::TraceSettings;
use self::otlp::Traces;
use self::writer::{LineWriter, LogThread};
use crate::observe::log_settings::{self, LogSettings};
use crate::observe::{metrics, spans};

/// The running loggers and tracers.
#[derive(Debug)]
pub struct Telemetry {
    log: LogThread,
    traces: Option<Traces>,
}

impl Telemetry {
    /// Writes the waiting lines, and accepts no more. Returns whether all of them were written: after a second
    /// without progress, this gives up.
    pub fn end(&self) -> bool {
        self.log.end()
    }

    /// Sends the waiting spans, and accepts no more. Waits for at most a second, and not at all if the collector
    /// has not accepted the last message.
    pub fn end_traces(&self) {
        if let Some(traces) = &self.traces {
            traces.end();
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts logging and, with settings for it, the export of traces; once per process.
///
/// # Errors
/// The filter is invalid, standard error is not open, the export cannot be started, or logging has been started
/// already.
pub fn start(logs: LogSettings, traces: Option<TraceSettings>) -> Result<Telemetry, String> {
    let filter = log_settings::start(logs).map_err(|error| format!("--log: {error}"))?;
    let cannot = |error: io::Error| format!("cannot log to standard error: {error}");
    let (writer, log) = writer::start(io::stderr()).map_err(cannot)?;
    let is_journal = journal::is_stderr();
    let lines = fmt::layer()
        .with_ansi(!is_journal && io::stderr().is_terminal())
        .event_format(LineFormat::new(log_settings::format, is_journal))
        .fmt_fields(TextFields)
        .with_writer(writer.clone());
    let mut layers = vec![lines.with_filter(LineFilter(filter)).boxed()];
    let traces = traces.map(otlp::start).transpose()?;
    let traces = traces.map(|(traces, tracer)| {
        layers.push(otlp::layer(tracer).with_filter(TraceFilter).boxed());
        spans::record();
        traces
    });
    let subscriber = Registry::default().with(layers);
    // `try_init` would also take in lines of the crate `log`: its query whether a line is enabled, when no line
    // follows, makes layers with their own filters drop the next one.
    set_global_default(subscriber).map_err(|error| error.to_string())?;
    log_panics(writer);
    Ok(Telemetry { log, traces })
}

/// Counts panics and writes them to the log, where the span names the request. The standard library would
/// write to standard error itself, and so block while that is not read.
///
/// A panic that is resumed in another thread (`resume_unwind`) is not counted again.
fn log_panics(writer: LineWriter) {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        metrics::count_panic();
        if writer.has_ended() {
            return before(panic);
        }
        let backtrace = Backtrace::capture();
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace);
        let backtrace = backtrace.as_ref().map(tracing::field::display);
        let thread = std::thread::current();
        tracing::error!(backtrace, thread = thread.name(), "{panic}");
    }));
}
