//! Parses the command line together with the environment, the configuration file and systemd's credentials. All
//! errors in them are reported together, with their locations.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, FromArgMatches};

use super::commands::{Cli, Command, command};
use super::overview;
use crate::config::file::{DEFAULT_PATH, Settings, each_configured};
use crate::config::sources::{Origin, PREFIX, Source, variable};
use crate::config::values::wrong_value;
use crate::config::{Config, DatabaseOptions, LogOptions, database_url, gone};
use crate::model::Bug;
use crate::model::nearest::did_you_mean;

/// Variables that are not options: one for the private PostgreSQL's programs, and those of the build, the tests and
/// the samples of this repository, which pass their environment on.
const OTHER_VARIABLES: [&str; 5] =
    ["BERTH_POSTGRES_BIN", "BERTH_BIN", "BERTH_BUILD_COMMIT", "BERTH_PLACEMENT", "BERTH_PLANNER"];

const DATABASE_URL: &str = "database-url";

/// Options for a file with a secret, with the systemd credential used as their default.
const CREDENTIALS: [(&str, &str); 3] = [
    ("database-password-file", "berth.database-password"),
    ("keystone-password-file", "berth.keystone-password"),
    ("keystone-application-credential-secret-file", "berth.keystone-application-credential-secret"),
];

/// Hashes secrets. Its key is random and never leaves the process, so a secret cannot be recovered by hashing guesses.
static DIGESTS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Directories in which systemd looks for credentials that a unit names without a path.
const CREDENTIAL_STORES: [&str; 2] = ["/etc/credstore", "/run/credstore"];

/// Parsed arguments, and the origin of each option.
#[derive(Debug)]
pub struct Invocation {
    /// The command.
    pub command: Command,
    /// The command's options that are also options of `serve`, sorted by name.
    pub sources: Vec<Source>,
    /// The database of a command that uses one.
    pub database: Option<DatabaseOptions>,
    /// The log of a command that has one.
    pub logs: Option<LogOptions>,
}

impl Invocation {
    /// Returns the origin of an option, if the command has it.
    pub fn origin(&self, option: &str) -> Option<&Origin> {
        self.sources.iter().find(|source| source.option == option).map(|source| &source.origin)
    }
}

/// Parses the arguments, with the environment and the file of `--config` or `BERTH_CONFIG`, by default
/// /etc/berth/berth.toml.
///
/// # Errors
/// A message made by clap; also `--help` and `--version`.
pub fn parse(arguments: &[OsString]) -> Result<Invocation, clap::Error> {
    let plain = command();
    // Commands without configuration work even if the file is invalid.
    if let Err(mut error) = plain.clone().try_get_matches_from(arguments)
        && is_about_the_command(error.kind())
    {
        let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
        overview::advise(&mut error, &words.collect::<Vec<_>>());
        return Err(error);
    }
    let found = plain.clone().ignore_errors(true).try_get_matches_from(arguments).ok();
    let path = found.as_ref().and_then(|matches| leaf(&plain, matches));
    let serve = plain.find_subcommand("serve").unwrap_or_else(|| Bug::raise("there is no serve"));

    let mut problems = Vec::new();
    let file = path.and_then(|(_, matches)| config_file(matches));
    let settings = file.map(|file| Settings::read(&file, serve, &mut problems));
    check_variables(&plain, path.map(|(command, _)| command), &mut problems);

    let complete = with_credentials(plain.clone());
    let complete = settings.iter().fold(complete, |complete, settings| settings.apply(complete));
    let matches = match complete.clone().try_get_matches_from(arguments) {
        Ok(matches) if problems.is_empty() => matches,
        Ok(_) => {
            check_urls(path.map(|(leaf, _)| leaf), arguments, settings.as_ref(), &mut problems);
            return Err(report(&problems));
        }
        Err(error) => {
            let before = problems.len();
            if let Some((leaf, _)) = path {
                check_flags(leaf, arguments, &mut problems);
            }
            let (wrong_flags, flagged) = (problems.len() - before, problems.len());
            let has_more = wrong_flags == 0 && !is_reported(&error, &problems);
            check_urls(path.map(|(leaf, _)| leaf), arguments, settings.as_ref(), &mut problems);
            // clap reports a single wrong flag itself, with the usage.
            if problems.len() == wrong_flags && wrong_flags < 2 {
                return Err(error);
            }
            if has_more {
                problems.insert(flagged, first_sentence(&error));
            }
            return Err(report(&problems));
        }
    };
    let sources = sources(&complete, &matches, settings.as_ref());
    let leaf = leaf(&complete, &matches);
    let database = group(leaf, "data_dir")?;
    let logs = group(leaf, "log_format")?;
    let command = Cli::from_arg_matches(&matches)?.command;
    Ok(Invocation { command, sources, database, logs })
}

/// The values of a group of options, if the command has the option `id` of the group.
fn group<T: FromArgMatches>(
    leaf: Option<(&clap::Command, &ArgMatches)>,
    id: &str,
) -> Result<Option<T>, clap::Error> {
    let has_group = |command: &clap::Command| command.get_arguments().any(|it| it.get_id() == id);
    let found = leaf.filter(|(command, _)| has_group(command));
    found.map(|(_, matches)| T::from_arg_matches(matches)).transpose()
}

/// Reads the options of this process again, which must be `berth serve`.
///
/// # Errors
/// The message of [`parse`].
pub fn read_again() -> Result<(Box<Config>, Vec<Source>), String> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let Invocation { command, sources, .. } =
        parse(&arguments).map_err(|error| error.to_string())?;
    let Command::Serve(config) = command else {
        return Err("the process is not a server".to_owned());
    };
    Ok((config, sources))
}

fn is_about_the_command(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::InvalidSubcommand
            | ErrorKind::MissingSubcommand
    )
}

/// The innermost subcommand, and its arguments.
fn leaf<'a>(
    command: &'a clap::Command,
    matches: &'a ArgMatches,
) -> Option<(&'a clap::Command, &'a ArgMatches)> {
    let (mut command, mut matches, mut found) = (command, matches, None);
    while let Some((name, inner)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name)?, inner);
        found = Some((command, matches));
    }
    found
}

/// The file to read: the given one, or the default one if it exists.
fn config_file(leaf: &ArgMatches) -> Option<PathBuf> {
    // A command without the option reads no file.
    let named = leaf.try_get_one::<PathBuf>("config").ok()?;
    let usual = || {
        let usual = Path::new(DEFAULT_PATH);
        // If its existence is unknown, reading it reports the error.
        (!matches!(usual.try_exists(), Ok(false))).then(|| usual.to_owned())
    };
    named.cloned().or_else(usual)
}

/// Makes the files of systemd's credentials the defaults of their options.
fn with_credentials(command: clap::Command) -> clap::Command {
    let given = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let stores: Vec<PathBuf> = match given {
        Some(given) => vec![given],
        None => CREDENTIAL_STORES.iter().map(PathBuf::from).collect(),
    };
    each_configured(command, &|mut command| {
        for (option, name) in CREDENTIALS {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(option));
            let Some(id) = arg.map(|arg| arg.get_id().clone()) else { continue };
            let file = stores.iter().map(|store| store.join(name)).find(|file| file.is_file());
            if let Some(file) = file {
                command = command.mut_arg(id, |arg| arg.default_value(file.into_os_string()));
            }
        }
        command
    })
}

/// Checks each variable with Berth's prefix: an option must have its name, and accept its value if the command has
/// the option.
fn check_variables(
    command: &clap::Command,
    leaf: Option<&clap::Command>,
    problems: &mut Vec<String>,
) {
    let mut known: Vec<String> = OTHER_VARIABLES.iter().map(|name| (*name).to_owned()).collect();
    collect_variables(command, &mut known);
    let mut variables: Vec<(String, OsString)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    variables.sort();
    for (name, value) in variables {
        if !known.contains(&name) {
            if !is_of_kubernetes(&name, &value) {
                let shown = known.iter().map(String::as_str).filter(|it| !gone::has_variable(it));
                let guess = did_you_mean(&name, shown);
                problems
                    .push(format!("environment variable {name}: there is no option for it{guess}"));
            }
            continue;
        }
        let is_it = |arg: &&Arg| arg.get_env() == Some(OsStr::new(&name));
        let Some(arg) = leaf.and_then(|leaf| leaf.get_arguments().find(is_it)) else { continue };
        let why = match value.to_str() {
            Some(value) => wrong_value(arg, value),
            None => Some("the value is not UTF-8".to_owned()),
        };
        problems.extend(why.map(|why| format!("environment variable {name}: {why}")));
    }
}

fn collect_variables(command: &clap::Command, known: &mut Vec<String>) {
    let names = command.get_arguments().filter_map(Arg::get_env);
    known.extend(names.map(|name| name.to_string_lossy().into_owned()));
    for inner in command.get_subcommands() {
        collect_variables(inner, known);
    }
}

/// Returns whether Kubernetes sets such a variable in each container, for a service whose name begins with `berth`:
/// `BERTH_SERVICE_HOST`, `BERTH_PORT=tcp://...`, `BERTH_PORT_8778_TCP_ADDR` and the like.
fn is_of_kubernetes(name: &str, value: &OsStr) -> bool {
    let is_address = value.to_str().is_some_and(|value| {
        ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme))
    });
    let of_protocol = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| name.contains(protocol));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && is_address)
        || (name.contains("_PORT_") && of_protocol)
}

/// Checks each flag separately: clap reports only the first invalid one.
fn check_flags(leaf: &clap::Command, arguments: &[OsString], problems: &mut Vec<String>) {
    let mut words = arguments.iter().filter_map(|word| word.to_str()).skip(1).peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else { continue };
        if flag.is_empty() {
            return;
        }
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        if ["help", "version"].contains(&name) {
            continue;
        }
        let mut options = leaf.get_arguments();
        let Some(arg) = options.find(|arg| arg.get_long() == Some(name)) else {
            let flags: Vec<String> = leaf
                .get_arguments()
                .filter(|arg| !arg.is_hide_set())
                .filter_map(Arg::get_long)
                .map(|it| format!("--{it}"))
                .collect();
            let guess = did_you_mean(&format!("--{name}"), flags.iter().map(String::as_str));
            problems.push(format!("--{name}: there is no such option{guess}"));
            continue;
        };
        if !arg.get_action().takes_values() {
            continue;
        }
        let value = value.or_else(|| words.next_if(|next| !next.starts_with("--")));
        let why = value.and_then(|value| wrong_value(arg, value));
        problems.extend(why.map(|why| format!("--{name}: {why}")));
    }
}

/// Checks the URLs of databases. They are parsed later than the values of other options, but when those are invalid,
/// all errors should be reported together.
fn check_urls(
    leaf: Option<&clap::Command>,
    arguments: &[OsString],
    settings: Option<&Settings>,
    problems: &mut Vec<String>,
) {
    let is_it = |arg: &&Arg| arg.get_long() == Some(DATABASE_URL);
    let Some(arg) = leaf.and_then(|leaf| leaf.get_arguments().find(is_it)) else { return };
    let mut urls = Vec::new();
    if let Some(Settings { path, entries }) = settings {
        let named = entries.iter().filter(|setting| setting.option == DATABASE_URL);
        urls.extend(named.filter_map(|setting| {
            let place = format!("{}, line {}: {DATABASE_URL}", path.display(), setting.line);
            Some((place, setting.values.first()?.clone()))
        }));
    }
    let variable = arg.get_env().and_then(OsStr::to_str);
    urls.extend(variable.and_then(|variable| {
        Some((format!("environment variable {variable}"), std::env::var(variable).ok()?))
    }));
    let mut words = arguments.iter().filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix("--").and_then(|it| it.strip_prefix(DATABASE_URL))
        else {
            continue;
        };
        let value = if rest.is_empty() { words.next() } else { rest.strip_prefix('=') };
        urls.extend(value.map(|value| (format!("--{DATABASE_URL}"), value.to_owned())));
    }
    let wrong = urls.into_iter().filter_map(|(place, url)| {
        database_url::read(&url).err().map(|why| format!("{place}: {why}"))
    });
    problems.extend(wrong);
}

/// Returns whether clap's error is about a variable or a value of the file that is already reported.
fn is_reported(error: &clap::Error, problems: &[String]) -> bool {
    let Some(clap::error::ContextValue::String(option)) =
        error.get(clap::error::ContextKind::InvalidArg)
    else {
        return false;
    };
    let name = option.trim_start_matches('-').split(' ').next();
    name.map(variable).is_some_and(|name| problems.iter().any(|problem| problem.contains(&name)))
}

/// The first sentence of clap's error, without the usage.
fn first_sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.trim_start_matches("error: ").to_owned()
}

fn report(problems: &[String]) -> clap::Error {
    let words = match problems {
        [one] => format!("{one}\n"),
        several => {
            format!("{} errors:\n  {}\n", several.len(), several.join("\n  "))
        }
    };
    clap::Error::raw(ErrorKind::ValueValidation, words)
}

/// The value of an option, as shown to the operator.
fn shown(arg: &Arg, raw: &[&OsStr]) -> String {
    let text = raw.iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",");
    // Values hidden in the help are secrets, or contain one.
    let visible = if !arg.is_hide_env_values_set() {
        Some(text)
    } else if arg.get_long() == Some(DATABASE_URL) {
        database_url::redacted(&text)
    } else {
        None
    };
    visible.unwrap_or_else(|| "(set)".to_owned())
}

/// The origins of the command's options that are also options of `serve`.
fn sources(
    command: &clap::Command,
    matches: &ArgMatches,
    settings: Option<&Settings>,
) -> Vec<Source> {
    let serve = command.find_subcommand("serve");
    let (Some(serve), Some((leaf, matches))) = (serve, leaf(command, matches)) else {
        return Vec::new();
    };
    let mut sources = Vec::new();
    for arg in serve.get_arguments() {
        let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
        let Ok(Some(raw)) = matches.try_get_raw(id) else { continue };
        let raw: Vec<&OsStr> = raw.collect();
        let digest = DIGESTS.hash_one(&raw);
        let value = shown(arg, &raw);
        let mut entries = settings.iter().flat_map(|settings| &settings.entries);
        let origin = match (matches.value_source(id), settings) {
            (Some(ValueSource::CommandLine), _) => Origin::Flag,
            (Some(ValueSource::EnvVariable), _) => {
                let variable = leaf.get_arguments().find(|arg| arg.get_id() == id);
                let variable = variable.and_then(Arg::get_env).map(OsStr::to_string_lossy);
                Origin::Variable(variable.map_or_else(String::new, std::borrow::Cow::into_owned))
            }
            (_, Some(settings)) if entries.any(|setting| setting.option == long) => {
                let setting = settings.entries.iter().find(|setting| setting.option == long);
                Origin::File(settings.path.clone(), setting.map_or(0, |setting| setting.line))
            }
            _ if CREDENTIALS.iter().any(|(option, _)| *option == long) => Origin::Credential,
            _ => Origin::Default,
        };
        sources.push(Source { option: long.to_owned(), value, origin, digest });
    }
    sources.sort_by(|one, other| one.option.cmp(&other.option));
    sources
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::is_of_kubernetes;

    #[test]
    fn the_variables_of_kubernetes_are_no_options() {
        let is = |name: &str, value: &str| is_of_kubernetes(name, OsStr::new(value));
        assert!(is("BERTH_SERVICE_HOST", "10.0.0.1"));
        assert!(is("BERTH_SERVICE_PORT_API", "8778"));
        assert!(is("BERTH_PORT", "tcp://10.0.0.1:8778"));
        assert!(is("BERTH_PLANNER_PORT_8090_TCP_ADDR", "10.0.0.1"));
        assert!(!is("BERTH_PORT", "8778"));
        assert!(!is("BERTH_LISTN", "127.0.0.1:1"));
    }
}
