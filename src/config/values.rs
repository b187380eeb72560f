//! Parsers of the values of options.

use std::error::Error;
use std::num::ParseIntError;
use std::time::Duration;

use clap::builder::ArgAction;
use clap::{Arg, Command};

use crate::auth::keystone::Secret;
use crate::model::nearest::did_you_mean;

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
    positive_seconds(text, "must be more than 0")
}

fn positive_seconds(text: &str, otherwise: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        _ => Err(otherwise.to_owned()),
    }
}

/// Parses a duration in seconds, which may be 0.
pub(super) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    positive_seconds(text, "must be 0 or more")
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

/// Returns the reason why a value is invalid for an option; `None` if it is valid. Does not repeat values that may be
/// secrets.
pub(crate) fn wrong_value(arg: &Arg, value: &str) -> Option<String> {
    let mut probe = Arg::new("probe")
        .long("probe")
        .action(ArgAction::Append)
        .allow_hyphen_values(true)
        .value_parser(arg.get_value_parser().clone());
    if let Some(delimiter) = arg.get_value_delimiter() {
        probe = probe.value_delimiter(delimiter);
    }
    let command = Command::new("probe").no_binary_name(true).disable_help_flag(true).arg(probe);
    let error = command.try_get_matches_from([format!("--probe={value}")]).err()?;
    let shown = if arg.is_hide_env_values_set() { String::new() } else { format!("{value:?}: ") };
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let why = match error.source() {
        Some(why) if why.is::<ParseIntError>() => "must be a whole number".to_owned(),
        Some(why) => why.to_string(),
        None if value.is_empty() => "a value is required".to_owned(),
        None if possible.is_empty() => "is not a value of this option".to_owned(),
        None => {
            let guess = did_you_mean(value, possible.iter().map(String::as_str));
            format!("must be one of {}{guess}", possible.join(", "))
        }
    };
    Some(format!("{shown}{why}"))
}
