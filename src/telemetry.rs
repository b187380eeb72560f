//! Logging: one line per event on standard error, for people or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogOptions};

/// Starts logging, once per process.
///
/// # Errors
/// The filter cannot be read, or logging has been started already.
pub fn start(options: &LogOptions) -> Result<(), String> {
    let filter = EnvFilter::try_new(&options.log).map_err(|error| format!("--log: {error}"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let logs = logs.with_ansi(std::io::stderr().is_terminal());
    let started = match options.log_format {
        LogFormat::Human => logs.try_init(),
        LogFormat::Json => logs.json().flatten_event(true).with_current_span(true).try_init(),
    };
    started.map_err(|error| error.to_string())
}
