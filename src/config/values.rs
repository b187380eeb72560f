//! Parsers of the values of options.

use std::time::Duration;

use crate::auth::keystone::Secret;

/// Maximum value of an option that sets a limit.
const COUNT_MAX: usize = 1_000_000;

/// Parses a limit.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    bounded(text, 1, COUNT_MAX)
}

/// Parses a number in a range.
pub(crate) fn bounded(text: &str, least: usize, most: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from {least} to {most}")),
    }
}

/// Parses a duration in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        _ => Err("must be more than 0".to_owned()),
    }
}

/// Parses a duration in seconds, which may be 0.
pub(super) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { seconds(text) }
}

/// Parses a secret, which must not be empty.
pub(crate) fn secret(text: &str) -> Result<Secret, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.into()) }
}

/// Parses a name and a value.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
