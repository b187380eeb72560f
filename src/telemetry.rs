//! Logging: one line per event on standard error, for people or as JSON.

use std::io::{BufWriter, IsTerminal};

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogOptions};

/// Lines that may wait to be written. Then requests wait, too: no line is dropped.
const WAITING_MAX: usize = 16_384;

/// Starts logging, once per process. Lines are written by a thread of their own, as many at once as
/// wait, until the guard is dropped, which writes the last.
///
/// # Errors
/// The filter cannot be read, or logging has been started already.
pub fn start(options: &LogOptions) -> Result<WorkerGuard, String> {
    let filter = EnvFilter::try_new(&options.log).map_err(|error| format!("--log: {error}"))?;
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(false)
        .buffered_lines_limit(WAITING_MAX)
        .thread_name("log")
        .finish(BufWriter::new(std::io::stderr()));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let logs = logs.with_ansi(std::io::stderr().is_terminal());
    let started = match options.log_format {
        LogFormat::Human => logs.try_init(),
        LogFormat::Json => logs.json().flatten_event(true).with_current_span(true).try_init(),
    };
    started.map(|()| guard).map_err(|error| error.to_string())
}
