//! Describes an invalid name or value, and suggests the nearest valid one.

use std::error::Error;

use clap::builder::ArgAction;
use clap::{Arg, Command};

/// Minimum similarity of two names for a suggestion, from 0 to 1.
const LIKENESS_MIN: f64 = 0.6;

/// `; did you mean "X"?` with the most similar name; empty if none is similar.
pub fn did_you_mean<'a>(
    written: &str,
    names: impl IntoIterator<Item = impl Into<&'a str>>,
) -> String {
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(written, name);
    let known = names.into_iter().map(Into::into).map(|name: &str| (likeness(name), name));
    let nearest = known.max_by(|(one, _), (other, _)| one.total_cmp(other));
    match nearest {
        Some((likeness, name)) if likeness >= LIKENESS_MIN => format!("; did you mean {name:?}?"),
        Some(_) | None => String::new(),
    }
}

/// Why a value is invalid for an option; `None` if it is valid. Does not repeat values that may be
/// secrets.
pub fn wrong_value(arg: &Arg, value: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn the_nearest_name_is_offered_if_one_is_near() {
        let names = ["listen", "log", "sslmode"];
        assert_eq!(did_you_mean("lisen", names), "; did you mean \"listen\"?");
        assert_eq!(did_you_mean("sslmod", names), "; did you mean \"sslmode\"?");
        assert_eq!(did_you_mean("colour", names), "");
    }
}
