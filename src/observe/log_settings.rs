//! The filter and the format of the log: `--log` and `--log-format`, which a reload replaces while the process
//! runs. There is one of each for the whole process, as there is one log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Registry, reload};

/// The levels of a filter, from nothing to everything.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A filter that can be replaced.
type Handle = reload::Handle<Targets, Registry>;

/// The filter of the log, and the settings in force.
static LOG: OnceLock<(Handle, Mutex<LogSettings>)> = OnceLock::new();
/// Whether the active format is JSON. Every line reads this.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Human,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
        }
    }
}

/// The filter and format of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The directives of the filter.
    pub filter: String,
    /// The form of lines.
    pub format: LogFormat,
}

/// The settings that a reload has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The filter.
    pub filter: bool,
    /// The format.
    pub format: bool,
}

/// Makes a layer with the filter of this process.
///
/// # Errors
/// The directives cannot be parsed.
pub(crate) fn start(settings: LogSettings) -> Result<reload::Layer<Targets, Registry>, String> {
    let (layer, handle) = reload::Layer::new(parse(&settings.filter)?);
    IS_JSON.store(settings.format == LogFormat::Json, Ordering::Relaxed);
    // A second log cannot be started, as its caller will find out.
    drop(LOG.set((handle, Mutex::new(settings))));
    Ok(layer)
}

/// Returns the active format.
pub(crate) fn format() -> LogFormat {
    if IS_JSON.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Human }
}

/// Checks the directives of a filter.
///
/// # Errors
/// A directive is invalid; the message describes the first such one.
pub fn check(directives: &str) -> Result<(), String> {
    parse(directives).map(drop)
}

/// Parses the directives of a filter. [`Targets`] takes a word that is no level for a module, which has no lines.
fn parse(directives: &str) -> Result<Targets, String> {
    let parts = directives.split(',').map(str::trim).filter(|it| !it.is_empty());
    let parts: Vec<&str> = parts.collect();
    for directive in &parts {
        let level = match directive.rsplit_once('=') {
            Some((module, _)) if module.contains(char::is_whitespace) => {
                return Err("there must be commas between directives".to_owned());
            }
            Some((_, level)) => level,
            None if directive.contains("::") => continue,
            None => *directive,
        };
        if level.parse::<LevelFilter>().is_err() {
            let likeness =
                |known: &&&str| strsim::damerau_levenshtein(&level.to_lowercase(), known);
            let nearest = LEVELS.iter().min_by_key(likeness).map_or("info", |nearest| *nearest);
            return Err(format!(
                "{level} is no level, the nearest is {nearest}; there are {}, also for a module, as in \
                 berth::store=debug",
                LEVELS.join(", ")
            ));
        }
    }
    if parts.is_empty() {
        return Ok(Targets::new().with_default(LevelFilter::ERROR));
    }
    parts.join(",").parse::<Targets>().map_err(|error| error.to_string())
}

/// Replaces the settings. Returns those that have changed.
///
/// # Errors
/// The filter cannot be parsed; or this process does not log.
pub fn configure(settings: LogSettings) -> Result<Changed, String> {
    let (handle, in_force) = LOG.get().ok_or("this process does not log")?;
    let mut in_force = in_force.lock().unwrap_or_else(PoisonError::into_inner);
    handle.reload(parse(&settings.filter)?).map_err(|error| error.to_string())?;
    IS_JSON.store(settings.format == LogFormat::Json, Ordering::Relaxed);
    let changed = Changed {
        filter: in_force.filter != settings.filter,
        format: in_force.format != settings.format,
    };
    *in_force = settings;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_word_of_a_filter_is_a_level() {
        for right in ["info", "WARN", "off", "info, berth::store=debug", "berth::store", ""] {
            check(right).unwrap();
        }
        for (wrong, nearest) in [
            ("inof", "info"),
            ("info,warning", "warn"),
            ("berth::store=debgu", "debug"),
            ("berth", "error"),
        ] {
            let why = check(wrong).unwrap_err();
            assert!(
                why.contains(&format!("is no level, the nearest is {nearest};")),
                "{wrong}: {why}"
            );
        }
    }
}
