//! What is logged: the directives of `--log`, which can be replaced while the process runs, also for a
//! limited time. There is one filter for the whole process, as there is one log.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::{EnvFilter, Registry, reload};

/// A filter that can be replaced.
type Handle = reload::Handle<EnvFilter, Registry>;

static FILTER: OnceLock<(Handle, Mutex<State>)> = OnceLock::new();

/// The directives in force.
#[derive(Debug)]
struct State {
    /// Those of `--log`.
    configured: String,
    /// Those set at run time, and until when.
    temporary: Option<(String, Option<Instant>)>,
}

/// The directives in force now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// The directives.
    pub directives: String,
    /// For how long; `None`: until they are changed.
    pub remaining: Option<Duration>,
}

/// A layer with the filter of this process.
///
/// # Errors
/// The directives cannot be parsed.
pub(crate) fn layer(directives: &str) -> Result<reload::Layer<EnvFilter, Registry>, String> {
    let (layer, handle) = reload::Layer::new(parse(directives)?);
    let state = State { configured: directives.to_owned(), temporary: None };
    // A second log cannot be started, which its caller finds out.
    drop(FILTER.set((handle, Mutex::new(state))));
    Ok(layer)
}

fn parse(directives: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(directives).map_err(|error| error.to_string())
}

fn filter() -> Result<(&'static Handle, MutexGuard<'static, State>), String> {
    let (handle, state) = FILTER.get().ok_or("this process does not log")?;
    Ok((handle, state.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The directives in force.
///
/// # Errors
/// This process does not log.
pub fn current() -> Result<Current, String> {
    let (_, state) = filter()?;
    Ok(match &state.temporary {
        None => Current { directives: state.configured.clone(), remaining: None },
        Some((directives, until)) => Current {
            directives: directives.clone(),
            remaining: until.map(|until| until.saturating_duration_since(Instant::now())),
        },
    })
}

/// Replaces the directives until they are replaced again, or for a time. The time is over when
/// [`end_expired`] is called after it.
///
/// # Errors
/// They cannot be parsed; or this process does not log.
pub fn replace(directives: &str, lasts: Option<Duration>) -> Result<(), String> {
    let parsed = parse(directives)?;
    let (handle, mut state) = filter()?;
    handle.reload(parsed).map_err(|error| error.to_string())?;
    let until = lasts.map(|lasts| Instant::now() + lasts);
    state.temporary = Some((directives.to_owned(), until));
    Ok(())
}

/// Goes back to the configured directives. Returns whether others were in force.
///
/// # Errors
/// This process does not log.
pub fn reset() -> Result<bool, String> {
    let (handle, mut state) = filter()?;
    if state.temporary.is_none() {
        return Ok(false);
    }
    handle.reload(parse(&state.configured)?).map_err(|error| error.to_string())?;
    state.temporary = None;
    Ok(true)
}

/// Sets the configured directives, and ends others. Returns whether the directives in force changed.
///
/// # Errors
/// They cannot be parsed; or this process does not log.
pub fn configure(directives: &str) -> Result<bool, String> {
    let parsed = parse(directives)?;
    let (handle, mut state) = filter()?;
    if state.temporary.is_none() && state.configured == directives {
        return Ok(false);
    }
    handle.reload(parsed).map_err(|error| error.to_string())?;
    *state = State { configured: directives.to_owned(), temporary: None };
    Ok(true)
}

/// Goes back to the configured directives if the time of others is over. Returns whether it was.
pub fn end_expired() -> bool {
    let is_over = filter().is_ok_and(|(_, state)| {
        let until = state.temporary.as_ref().and_then(|(_, until)| *until);
        until.is_some_and(|until| until <= Instant::now())
    });
    is_over && reset().is_ok_and(|was_other| was_other)
}
