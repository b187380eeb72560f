//! The filter and format of the log: `--log` and `--log-format`, which can be replaced while the process
//! runs, also for a limited time. There is one filter and one format for the whole process, which has one
//! log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// The levels of a filter, from nothing to everything.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A filter that can be replaced.
type Handle = reload::Handle<EnvFilter, Registry>;

static FILTER: OnceLock<(Handle, Mutex<StoredSettings>)> = OnceLock::new();
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
    /// Returns the format with a name.
    ///
    /// # Errors
    /// There is no format with this name.
    pub fn read(name: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(name, false)
            .map_err(|_| format!("unknown format {name}; expected human or json"))
    }

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

/// The settings in force.
#[derive(Debug)]
struct StoredSettings {
    /// The settings of the configuration.
    configured: LogSettings,
    /// Settings made at run time, and their end.
    temporary: Option<(LogSettings, Option<Instant>)>,
}

impl StoredSettings {
    fn in_force(&self) -> &LogSettings {
        self.temporary.as_ref().map_or(&self.configured, |(settings, _)| settings)
    }
}

/// The settings in force now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// The settings.
    pub settings: LogSettings,
    /// Time until they end; `None`: until they are replaced.
    pub remaining: Option<Duration>,
}

/// The settings that a new configuration has changed.
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
pub(crate) fn start(configured: LogSettings) -> Result<reload::Layer<EnvFilter, Registry>, String> {
    let (layer, handle) = reload::Layer::new(parse(&configured.filter)?);
    IS_JSON.store(configured.format == LogFormat::Json, Ordering::Relaxed);
    // A second log cannot be started, as its caller will find out.
    drop(FILTER.set((handle, Mutex::new(StoredSettings { configured, temporary: None }))));
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

/// Parses the directives of a filter. `EnvFilter` takes a word that is no level for a module, which has no lines.
fn parse(directives: &str) -> Result<EnvFilter, String> {
    for directive in directives.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let level = match directive.rsplit_once('=') {
            // The fields of a span can contain `=`, too.
            _ if directive.contains('[') => continue,
            Some((_, level)) => level,
            None if directive.contains("::") => continue,
            None => directive,
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
    EnvFilter::try_new(directives).map_err(|error| error.to_string())
}

fn state() -> Result<(&'static Handle, MutexGuard<'static, StoredSettings>), String> {
    let (handle, state) = FILTER.get().ok_or("this process does not log")?;
    Ok((handle, state.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn apply(handle: &Handle, settings: &LogSettings) -> Result<(), String> {
    handle.reload(parse(&settings.filter)?).map_err(|error| error.to_string())?;
    IS_JSON.store(settings.format == LogFormat::Json, Ordering::Relaxed);
    Ok(())
}

/// Returns the settings in force.
///
/// # Errors
/// This process does not log.
pub fn current() -> Result<Current, String> {
    let (_, state) = state()?;
    let until = state.temporary.as_ref().and_then(|(_, until)| *until);
    Ok(Current {
        settings: state.in_force().clone(),
        remaining: until.map(|until| until.saturating_duration_since(Instant::now())),
    })
}

/// Replaces the filter, the format or both, until they are replaced again, or for a time. A missing argument
/// keeps the present setting. The time ends when [`end_expired`] is called after it.
///
/// # Errors
/// The filter cannot be parsed; or this process does not log.
pub fn replace(
    filter: Option<String>,
    format: Option<LogFormat>,
    lasts: Option<Duration>,
) -> Result<LogSettings, String> {
    let (handle, mut state) = state()?;
    let mut settings = state.in_force().clone();
    if let Some(filter) = filter {
        settings.filter = filter;
    }
    if let Some(format) = format {
        settings.format = format;
    }
    apply(handle, &settings)?;
    let until = lasts.map(|lasts| Instant::now() + lasts);
    state.temporary = Some((settings.clone(), until));
    Ok(settings)
}

/// Restores the configured settings. Returns whether others were in force.
///
/// # Errors
/// This process does not log.
pub fn reset() -> Result<bool, String> {
    let (handle, mut state) = state()?;
    if state.temporary.is_none() {
        return Ok(false);
    }
    apply(handle, &state.configured)?;
    state.temporary = None;
    Ok(true)
}

/// Replaces the configured settings, and ends others. Returns the settings that have changed.
///
/// # Errors
/// The filter cannot be parsed; or this process does not log.
pub fn configure(settings: LogSettings) -> Result<Changed, String> {
    let (handle, mut state) = state()?;
    apply(handle, &settings)?;
    let before = state.in_force();
    let changed = Changed {
        filter: before.filter != settings.filter,
        format: before.format != settings.format,
    };
    *state = StoredSettings { configured: settings, temporary: None };
    Ok(changed)
}

/// Restores the configured settings if the time of others is over. Returns whether it was.
pub fn end_expired() -> bool {
    let is_over = state().is_ok_and(|(_, state)| {
        let until = state.temporary.as_ref().and_then(|(_, until)| *until);
        until.is_some_and(|until| until <= Instant::now())
    });
    is_over && reset().is_ok_and(|was_other| was_other)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_word_of_a_filter_is_a_level() {
        for right in
            ["info", "WARN", "off", "info,berth::store=debug", "berth::store", "[span{a=1}]=info"]
        {
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
