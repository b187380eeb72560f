//! Parses and generates the configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::values::wrong_value;
use crate::model::nearest::did_you_mean;

/// The default file, read if it exists.
pub const DEFAULT_PATH: &str = "/etc/berth/berth.toml";

/// Sections by which a configuration of OpenStack Placement is recognised.
const SECTIONS_OF_PLACEMENT: [&str; 5] =
    ["[DEFAULT]", "[api]", "[keystone_authtoken]", "[placement]", "[placement_database]"];

/// The settings of a configuration file.
#[derive(Debug)]
pub struct Settings {
    /// The file.
    pub path: PathBuf,
    /// The settings, in order.
    pub entries: Vec<Setting>,
}

/// One option that a file sets.
#[derive(Debug)]
pub struct Setting {
    /// The option, without the leading dashes.
    pub option: String,
    /// The line of the file, counted from 1.
    pub line: usize,
    /// The values, as flags would give them.
    pub values: Vec<String>,
}

impl Settings {
    /// Reads a file. `serve` has every option that a file may set. Errors in the file are added to
    /// `problems`, without values that may be secrets.
    pub fn read(path: &Path, serve: &Command, problems: &mut Vec<String>) -> Self {
        let mut settings = Self { path: path.to_owned(), entries: Vec::new() };
        match std::fs::read_to_string(path) {
            Ok(text) => settings.take_in(&text, serve, problems),
            Err(error) => {
                problems.push(format!(
                    "configuration file {}: {error}{}",
                    path.display(),
                    advice(&error)
                ));
            }
        }
        settings
    }

    fn take_in(&mut self, text: &str, serve: &Command, problems: &mut Vec<String>) {
        let place = |start: usize| format!("{}, line {}", self.path.display(), line(text, start));
        if text.lines().any(|line| SECTIONS_OF_PLACEMENT.contains(&line.trim())) {
            let path = self.path.display();
            problems.push(format!(
                "{path} is a configuration of OpenStack Placement; `berth config convert {path}` translates it"
            ));
            return;
        }
        let (table, errors) = DeTable::parse_recoverable(text);
        // Further errors of a line follow from the first one.
        let mut first_of_line = BTreeMap::new();
        for error in &errors {
            let start = error.span().map_or(0, |span| span.start);
            first_of_line.entry(line(text, start)).or_insert((start, error.message()));
        }
        for (line, (start, why)) in first_of_line {
            let advice = match text.lines().nth(line - 1) {
                Some(written) => syntax_advice(written, why),
                None => why.to_owned(),
            };
            problems.push(format!("{}: {advice}", place(start)));
        }
        if !errors.is_empty() {
            return;
        }
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let (option, start) = (key.get_ref().as_ref(), key.span().start);
            let Some(arg) = keys(serve).find(|arg| arg.get_long() == Some(option)) else {
                let known = keys(serve).filter(|arg| !arg.is_hide_set());
                let guess = did_you_mean(option, known.filter_map(Arg::get_long));
                problems.push(format!("{}: there is no option {option:?}{guess}", place(start)));
                continue;
            };
            let has_default = !arg.get_default_values().is_empty();
            if !has_default && value.get_ref().as_str() == Some("") {
                // The sample shows an option without a default like this.
                continue;
            }
            let read = values(value, is_list(arg) || arg.is_hide_set())
                .map_err(str::to_owned)
                .and_then(|values| {
                    values.iter().find_map(|value| wrong_value(arg, value)).map_or(Ok(values), Err)
                });
            match read {
                Ok(values) => {
                    let line = line(text, start);
                    self.entries.push(Setting { option: option.to_owned(), line, values });
                }
                Err(why) => problems.push(format!("{}: {option}: {why}", place(start))),
            }
        }
    }

    /// Makes the values of the file the defaults of every command that takes `--config`, so that
    /// flags and the environment override them.
    #[must_use]
    pub fn apply(&self, command: Command) -> Command {
        each_configured(command, &|mut command| {
            for setting in &self.entries {
                let is_it = |arg: &&Arg| arg.get_long() == Some(setting.option.as_str());
                let id = keys(&command).find(is_it).map(|arg| arg.get_id().clone());
                if let Some(id) = id {
                    let values = setting.values.clone();
                    command = command.mut_arg(id, |arg| arg.default_values(values));
                }
            }
            command
        })
    }
}

/// Changes each command that takes `--config`.
#[must_use]
pub fn each_configured(command: Command, change: &dyn Fn(Command) -> Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |inner| each_configured(inner, change))
    });
    let is_configured = command.get_arguments().any(|arg| arg.get_id() == "config");
    if is_configured { change(command) } else { command }
}

/// Advice for a line that is no TOML for the reason `why`. Shows nothing of the line but a name, because anything else
/// may be a secret.
fn syntax_advice(written: &str, why: &str) -> String {
    let is_name = |key: &str| key.chars().all(|it| it.is_ascii_alphanumeric() || "-_".contains(it));
    let pair = |mark: &str| {
        let (key, value): (&str, &str) = written.split_once(mark)?;
        Some((key.trim(), value.trim())).filter(|(key, _)| is_name(key))
    };
    let Some((key, value)) = pair("=") else {
        return match pair(": ") {
            Some((key, _)) => format!("write {key} = ... instead of {key}: ..."),
            None => "a line must be NAME = VALUE".to_owned(),
        };
    };
    match value.chars().next() {
        _ if why == "duplicate key" => format!("{key} is set twice"),
        Some(quote @ ('"' | '\'')) if value.matches(quote).count() == 1 => {
            format!("{key}: the text has no closing quote")
        }
        Some('"' | '\'') => why.to_owned(),
        Some('[') => format!("{key}: each text in the list needs quotes, as in [\"...\"]"),
        Some(_) => format!("{key}: a text needs quotes, as in {key} = \"...\""),
        None => format!("{key} has no value"),
    }
}

/// Advice for a file that cannot be read.
fn advice(error: &std::io::Error) -> &'static str {
    if error.kind() != std::io::ErrorKind::PermissionDenied {
        return "";
    }
    " (the service runs as the user berth: `chgrp berth FILE` and `chmod 0640 FILE` let it read the \
     file; `--config /dev/null` reads no file)"
}

/// Describes an error in a file, with its line. Does not quote the file, which may contain secrets.
pub(super) fn unreadable(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start);
    format!("line {}: {}", line(text, start), error.message())
}

/// The line number of an offset, counted from 1.
fn line(text: &str, start: usize) -> usize {
    text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1
}

/// The options of a command and the keys a file may have: everything but `config` itself.
fn keys(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        arg.get_long().is_some_and(|long| !["config", "help", "version"].contains(&long))
    })
}

/// Whether an option takes several values, separated by commas.
fn is_list(arg: &Arg) -> bool {
    arg.get_value_delimiter().is_some()
}

/// Converts a value of a file to that of a flag.
fn values(value: &Spanned<DeValue<'_>>, is_list: bool) -> Result<Vec<String>, &'static str> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            parsed.map_err(|_| "must be a number of at most 64 bits")?.to_string()
        }
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Array(entries) if is_list => {
            let entry = |entry: &Spanned<DeValue<'_>>| {
                entry.get_ref().as_str().map(str::to_owned).ok_or("must be an array of strings")
            };
            return entries.iter().map(entry).collect();
        }
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            return Err("must be a string, a number, true or false");
        }
    };
    Ok(vec![text])
}

/// A file with every option, its documentation and its default, commented out.
pub fn sample(command: &Command) -> String {
    let mut text = String::from(
        "# Options of `berth serve`. A line that is commented out shows the default.\n\
         # A flag (--listen ...) or an environment variable (BERTH_LISTEN=...) overrides this file.\n",
    );
    for arg in keys(command).filter(|arg| !arg.is_hide_set()) {
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        let key = arg.get_long().unwrap_or_default();
        text.push('\n');
        for line in wrapped(&help.unwrap_or_default(), 98) {
            text.extend(["# ", &line, "\n"]);
        }
        let shown = shown(arg);
        text.extend(["#", key, " = ", &shown, "\n"]);
    }
    text
}

/// The default of an option, as TOML.
fn shown(arg: &Arg) -> String {
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    if is_list(arg) {
        let joined = defaults.collect::<Vec<_>>().join(",");
        let entries = joined.split(',').filter(|entry| !entry.is_empty());
        return format!("{:?}", entries.collect::<Vec<_>>());
    }
    let default = defaults.collect::<String>();
    let bare = default.parse::<f64>().is_ok() || ["true", "false"].contains(&default.as_str());
    if bare { default } else { format!("{default:?}") }
}

fn wrapped(text: &str, width: usize) -> impl Iterator<Item = String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter()
}
