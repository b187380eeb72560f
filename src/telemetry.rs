//! Logging: one line for each event on standard error, for people or as JSON.
//!
//! A thread of its own writes the lines ([`queue`]). If nobody reads standard error, lines are dropped and
//! counted; no request waits for the log. Under systemd's journal, each line begins with its priority
//! ([`journal`]). What clients wrote is escaped ([`escape`]). The filter can be replaced while the process
//! runs ([`log_filter`]).

mod escape;
mod journal;
mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal};
use std::panic;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

use self::escape::{OneLine, PlainJson};
use self::journal::EventFormat;
use self::queue::{LineWriter, LogThread};
use crate::config::{LogFormat, LogOptions};
use crate::log_filter;

/// Logging that has been started.
#[derive(Debug)]
pub struct Logs(LogThread);

impl Logs {
    /// Writes the lines that wait, and nothing after them. Returns whether all of them were written: if
    /// nobody reads standard error, this gives up after a second.
    pub fn end(&self) -> bool {
        self.0.end()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts logging, once per process.
///
/// # Errors
/// The filter cannot be parsed, standard error is not open, or logging has been started already.
pub fn start(options: &LogOptions) -> Result<Logs, String> {
    let filter = log_filter::layer(&options.log).map_err(|error| format!("--log: {error}"))?;
    let cannot = |error: io::Error| format!("cannot log to standard error: {error}");
    let (writer, thread) = queue::start(io::stderr()).map_err(cannot)?;
    let is_journal = journal::is_stderr();
    let logs = Registry::default().with(filter);
    let lines = fmt::layer().with_ansi(!is_journal && io::stderr().is_terminal());
    let started = match options.log_format {
        LogFormat::Human => {
            let format = EventFormat::human(is_journal);
            let lines = lines.fmt_fields(OneLine).event_format(format);
            logs.with(lines.with_writer(writer.clone())).try_init()
        }
        LogFormat::Json => {
            let format = EventFormat::json(is_journal);
            let lines = lines.json().event_format(format);
            logs.with(lines.with_writer(PlainJson(writer.clone()))).try_init()
        }
    };
    started.map_err(|error| error.to_string())?;
    log_panics(writer);
    Ok(Logs(thread))
}

/// Writes panics to the log. The standard library would write to standard error itself, and so wait for
/// whoever reads it.
fn log_panics(writer: LineWriter) {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
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
