//! What is logged, and in which form: `--log` and `--log-format`, which can be replaced while the process
//! runs, also for a limited time. There is one filter and one format for the whole process, as there is one
//! log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// What a filter can let through, from nothing to everything.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A filter that can be replaced.
type Handle = reload::Handle<EnvFilter, Registry>;

static FILTER: OnceLock<(Handle, Mutex<State>)> = OnceLock::new();
/// Whether the format in force is JSON: each line asks for it.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Human,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// The format by its name.
    ///
    /// # Errors
    /// There is none with this name.
    pub fn read(name: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(name, false)
            .map_err(|_| format!("the format {name} is not known; human and json are"))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
        }
    }
}

/// What is logged, and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The directives of the filter.
    pub filter: String,
    /// The form of lines.
    pub format: LogFormat,
}

/// The settings in force.
#[derive(Debug)]
struct State {
    /// Those of the configuration.
    configured: LogSettings,
    /// Those set at run time, and until when.
    temporary: Option<(LogSettings, Option<Instant>)>,
}

impl State {
    fn in_force(&self) -> &LogSettings {
        self.temporary.as_ref().map_or(&self.configured, |(settings, _)| settings)
    }
}

/// The settings in force now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// The settings.
    pub settings: LogSettings,
    /// For how long; `None`: until they are changed.
    pub remaining: Option<Duration>,
}

/// Which settings in force have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The filter.
    pub filter: bool,
    /// The format.
    pub format: bool,
}

/// A layer with the filter of this process.
///
/// # Errors
/// The directives cannot be parsed.
pub(crate) fn start(configured: LogSettings) -> Result<reload::Layer<EnvFilter, Registry>, String> {
    let (layer, handle) = reload::Layer::new(parse(&configured.filter)?);
    IS_JSON.store(configured.format == LogFormat::Json, Ordering::Relaxed);
    // A second log cannot be started, which its caller finds out.
    drop(FILTER.set((handle, Mutex::new(State { configured, temporary: None }))));
    Ok(layer)
}

/// The format in force.
pub(crate) fn format() -> LogFormat {
    if IS_JSON.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Human }
}

/// Checks the directives of a filter.
///
/// # Errors
/// What is wrong with the first wrong one.
pub fn check(directives: &str) -> Result<(), String> {
    parse(directives).map(drop)
}

/// Reads the directives of a filter. `EnvFilter` takes a word that is no level for a module, which has no lines.
fn parse(directives: &str) -> Result<EnvFilter, String> {
    for directive in directives.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let level = match directive.rsplit_once('=') {
            // The fields of a span have values, too.
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

fn state() -> Result<(&'static Handle, MutexGuard<'static, State>), String> {
    let (handle, state) = FILTER.get().ok_or("this process does not log")?;
    Ok((handle, state.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn apply(handle: &Handle, settings: &LogSettings) -> Result<(), String> {
    handle.reload(parse(&settings.filter)?).map_err(|error| error.to_string())?;
    IS_JSON.store(settings.format == LogFormat::Json, Ordering::Relaxed);
    Ok(())
}

/// The settings in force.
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

/// Replaces the filter, the format or both, until they are replaced again, or for a time. What is not
/// given stays as it is in force. The time is over when [`end_expired`] is called after it.
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

/// Goes back to the configured settings. Returns whether others were in force.
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

/// Sets the configured settings, and ends others. Returns which of those in force have changed.
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
    *state = State { configured: settings, temporary: None };
    Ok(changed)
}

/// Goes back to the configured settings if the time of others is over. Returns whether it was.
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
