//! Every option, once: its type, its default and its documentation. The doc comments are the text of
//! `--help` and of `samples/berth.toml`. A value comes from a flag, or else from the environment, the
//! configuration file or the default.

pub mod database_url;
pub mod flavors;
mod front;
mod keystone;
mod planner;
mod policy;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use sqlx::postgres::PgConnectOptions;

pub use self::front::FrontOptions;
pub use self::keystone::KeystoneOptions;
pub use self::planner::{
    Exclusivity, PlannerAddress, PlannerOptions, endpoints as planner_endpoints,
};
pub use self::policy::PolicyOptions;
use crate::http::listener::Endpoint;

/// The largest pool of connections to a private PostgreSQL, which accepts 200 connections.
const PRIVATE_MAX: u32 = 150;

/// The largest limit that an option may set.
const COUNT_MAX: usize = 1_000_000;

/// Which database to use.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Database")]
pub struct DatabaseOptions {
    /// URL of the PostgreSQL database, as `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    ///
    /// For a Unix socket, write `postgres:///DATABASE?host=/DIRECTORY`. Name several hosts,
    /// separated by commas, to follow the primary among them. Without this option, Berth runs a
    /// private PostgreSQL under the data directory.
    #[arg(long, env = "BERTH_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,

    /// Directory of the private PostgreSQL.
    ///
    /// Default: /var/lib/berth for root, otherwise `berth` under the user's data home
    /// (`$XDG_DATA_HOME` or `~/.local/share`).
    #[arg(long, env = "BERTH_DATA_DIR", value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
}

impl DatabaseOptions {
    /// How to connect to each host in --database-url; `None` without that option.
    ///
    /// # Errors
    /// What is wrong with the URL, without repeating it.
    pub fn hosts(&self) -> Result<Option<Vec<PgConnectOptions>>, String> {
        let hosts = self.database_url.as_deref().map(database_url::read).transpose();
        hosts.map_err(|why| format!("--database-url is invalid: {why}"))
    }
}

/// How to log.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logging")]
pub struct LogOptions {
    /// What to log: a level (error, warn, info, debug, trace) or directives such as
    /// `info,berth::store=debug`.
    #[arg(long, env = "BERTH_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,

    /// Format of log lines on standard error.
    #[arg(long, env = "BERTH_LOG_FORMAT", default_value = "human", value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Human,
    /// One JSON object per line.
    Json,
}

/// Who callers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// Believe every caller: X-Auth-Token is "USER:PROJECT", and the user "admin" is an
    /// administrator.
    Noauth2,
    /// Validate each token with Keystone.
    Keystone,
}

/// In which order allocation candidates are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GenerationStrategy {
    /// All candidates of one provider tree before those of the next.
    DepthFirst,
    /// One candidate of each provider tree in turn.
    BreadthFirst,
}

/// The options of `berth serve`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    /// Read options from this TOML file.
    ///
    /// Every option below is a key, without the leading dashes. See samples/berth.toml.
    #[arg(long, env = "BERTH_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Addresses of the Placement API: `ADDRESS:PORT`, or `unix:/path` for a Unix socket.
    ///
    /// The owner and the group of a Unix socket may connect to it.
    #[arg(
        long,
        env = "BERTH_LISTEN",
        default_value = "127.0.0.1:8778",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub listen: Vec<Endpoint>,

    /// Also serve the Placement API below this path, such as /placement.
    #[arg(long, env = "BERTH_PATH_PREFIX", value_name = "PATH", value_parser = path_prefix)]
    pub path_prefix: Option<String>,

    /// How callers are authenticated.
    #[arg(long, env = "BERTH_AUTH", default_value = "noauth2", value_name = "KIND")]
    pub auth: Auth,

    /// Allow noauth2 on addresses that other machines can reach.
    #[arg(long, env = "BERTH_ALLOW_NOAUTH", default_value = "false", num_args = 0..=1,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub allow_noauth: bool,

    /// Size of the connection pool for single changes and for reads of consumers.
    ///
    /// Each replica usually opens four more connections.
    #[arg(long, env = "BERTH_DATABASE_CONNECTIONS", default_value = "10", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub database_connections: u32,

    /// Seconds to wait at the start for an unavailable database; 0: do not wait; -1: wait without
    /// limit.
    ///
    /// While Berth waits, it answers requests with 503.
    #[arg(long, env = "BERTH_DATABASE_WAIT", default_value = "-1", allow_negative_numbers = true,
          value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(-1..))]
    pub database_wait: i64,

    /// Answer reads only while the primary acknowledges heartbeats within this many seconds.
    ///
    /// A replica answers a read only if the primary has committed a heartbeat that began within the
    /// lease. A primary that was replaced without knowing it is then trusted no longer than the
    /// lease. The price: reads also stop while a synchronous standby, for which commits must wait,
    /// is unavailable. Default: reads are answered as long as the primary answers.
    #[arg(long, env = "BERTH_PRIMARY_LEASE", value_name = "SECONDS", value_parser = seconds)]
    pub primary_lease: Option<Duration>,

    /// Maximum number of allocation candidates to generate for one request; -1: no limit.
    #[arg(long, env = "BERTH_MAX_ALLOCATION_CANDIDATES", default_value = "-1",
          allow_negative_numbers = true, value_name = "COUNT",
          value_parser = clap::value_parser!(i64).range(-1..))]
    pub max_allocation_candidates: i64,

    /// Return allocation candidates in random order, and a random selection when there is a limit.
    #[arg(long, env = "BERTH_RANDOMIZE_ALLOCATION_CANDIDATES", default_value = "false",
          num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set,
          value_name = "BOOL")]
    pub randomize_allocation_candidates: bool,

    /// Order in which allocation candidates are generated.
    #[arg(
        long,
        env = "BERTH_ALLOCATION_CANDIDATES_GENERATION_STRATEGY",
        default_value = "depth-first",
        value_name = "STRATEGY"
    )]
    pub allocation_candidates_generation_strategy: GenerationStrategy,

    /// Project of consumers that are claimed without a project (before microversion 1.8).
    #[arg(
        long,
        env = "BERTH_INCOMPLETE_CONSUMER_PROJECT_ID",
        default_value = "00000000-0000-0000-0000-000000000000",
        value_name = "ID"
    )]
    pub incomplete_consumer_project_id: String,

    /// User of consumers that are claimed without a user (before microversion 1.8).
    #[arg(
        long,
        env = "BERTH_INCOMPLETE_CONSUMER_USER_ID",
        default_value = "00000000-0000-0000-0000-000000000000",
        value_name = "ID"
    )]
    pub incomplete_consumer_user_id: String,

    /// Maximum size of a request body, in bytes.
    #[arg(long, env = "BERTH_MAX_BODY_BYTES", default_value = "1048576", value_name = "BYTES")]
    pub max_body_bytes: usize,

    /// Maximum number of open connections, on all addresses together.
    ///
    /// When the limit is reached, a new connection replaces the one that has been idle longest.
    /// While none is idle, new connections wait to be accepted. Each connection takes a file
    /// descriptor.
    #[arg(long, env = "BERTH_MAX_CONNECTIONS", default_value = "10000", value_name = "COUNT",
          value_parser = count)]
    pub max_connections: usize,

    /// Seconds a client has for the TLS handshake and for sending the head of a request.
    ///
    /// The time for a later request on the same connection begins with the first byte of its head.
    #[arg(long, env = "BERTH_HEADER_TIMEOUT", default_value = "60", value_name = "SECONDS",
          value_parser = seconds)]
    pub header_timeout: Duration,

    /// Seconds a client has to send the body of a request, and to read each part of an answer.
    #[arg(long, env = "BERTH_BODY_TIMEOUT", default_value = "30", value_name = "SECONDS",
          value_parser = seconds)]
    pub body_timeout: Duration,

    /// Seconds a search for allocation candidates may continue without finding one.
    ///
    /// Then the request is answered with 503, or, if the answer has begun, the connection is
    /// closed.
    #[arg(long, env = "BERTH_SEARCH_TIMEOUT", default_value = "10", value_name = "SECONDS",
          value_parser = seconds)]
    pub search_timeout: Duration,

    /// Seconds to serve on after SIGTERM while `/readyz` answers 503.
    ///
    /// Load balancers send requests until they notice. Set this to a little more than the interval
    /// of their health checks times the failures they wait for; 0: close the listeners at once.
    #[arg(long, env = "BERTH_SHUTDOWN_DELAY", default_value = "0", value_name = "SECONDS",
          value_parser = seconds_or_none)]
    pub shutdown_delay: Duration,

    /// Seconds that requests in progress have to finish after SIGTERM and --shutdown-delay.
    #[arg(long, env = "BERTH_SHUTDOWN_GRACE", default_value = "30", value_name = "SECONDS",
          value_parser = seconds)]
    pub shutdown_grace: Duration,

    /// The front.
    #[command(flatten)]
    pub front: FrontOptions,

    /// The planner.
    #[command(flatten)]
    pub planner: PlannerOptions,

    /// Who may do what.
    #[command(flatten)]
    pub policy: PolicyOptions,

    /// Keystone.
    #[command(flatten)]
    pub keystone: KeystoneOptions,

    /// The database.
    #[command(flatten)]
    pub database: DatabaseOptions,

    /// The logs.
    #[command(flatten)]
    pub logs: LogOptions,
}

impl Config {
    /// How long to wait at the start for an unavailable database; `None`: without limit.
    pub fn database_wait(&self) -> Option<Duration> {
        u64::try_from(self.database_wait).ok().map(Duration::from_secs)
    }

    /// Checks that the options fit together, without opening the files that they name.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn check(&self) -> Result<(), String> {
        if self.listen.is_empty() {
            return Err("--listen needs at least one address".to_owned());
        }
        if self.database.database_url.is_none() && self.database_connections > PRIVATE_MAX {
            return Err(format!(
                "--database-connections must be at most {PRIVATE_MAX} with the private PostgreSQL"
            ));
        }
        self.database.hosts()?;
        self.front.tls()?;
        self.planner.check()?;
        let all = self.listen.iter().chain(self.planner.endpoints()?);
        let open = all.into_iter().find(|endpoint| !endpoint.is_local());
        let everybody = self.auth == Auth::Noauth2 && !self.allow_noauth;
        if let (true, Some(open)) = (everybody, open) {
            return Err(format!(
                "--auth noauth2 believes every caller, and other machines can reach {open}; listen \
                 on 127.0.0.1, or pass --allow-noauth if something in front keeps strangers out"
            ));
        }
        Ok(())
    }
}

/// A limit.
fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=COUNT_MAX) => Ok(count),
        _ => Err(format!("must be a number from 1 to {COUNT_MAX}")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        _ => Err("must be more than 0".to_owned()),
    }
}

fn seconds_or_none(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { seconds(text) }
}

fn path_prefix(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    if trimmed.is_empty() || !trimmed.starts_with('/') {
        return Err("must begin with / and have at least one segment".to_owned());
    }
    Ok(trimmed.to_owned())
}

/// The options of a command and the keys a file may have: everything but `config` itself.
fn keys(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    command.get_arguments().filter(|arg| {
        arg.get_long().is_some_and(|long| !["config", "help", "version"].contains(&long))
    })
}

/// Makes the values of a file the defaults of a command, so that flags and the environment override
/// them.
///
/// # Errors
/// The file is not TOML, or has an unknown key or a value of the wrong type. A value is a string, a
/// number or a boolean; for a list, also an array of strings.
pub fn with_file(command: clap::Command, text: &str) -> Result<clap::Command, String> {
    let table: toml::Table = text.parse().map_err(|error| unreadable(text, &error))?;
    let unknown = table.keys().find(|key| keys(&command).all(|arg| arg.get_long() != Some(key)));
    if let Some(key) = unknown {
        let known: Vec<&str> = keys(&command).filter_map(clap::Arg::get_long).collect();
        return Err(format!("unknown option {key:?}; the options are {}", known.join(", ")));
    }
    with_known(command, table)
}

/// The same for a command that has only some of the options.
///
/// # Errors
/// The file is not TOML, or has a value of the wrong type.
pub fn with_part_of_file(command: clap::Command, text: &str) -> Result<clap::Command, String> {
    let table: toml::Table = text.parse().map_err(|error| unreadable(text, &error))?;
    with_known(command, table)
}

fn with_known(mut command: clap::Command, table: toml::Table) -> Result<clap::Command, String> {
    for (key, value) in table {
        let Some(arg) = keys(&command).find(|arg| arg.get_long() == Some(key.as_str())) else {
            continue;
        };
        let values = values(value, is_list(arg)).map_err(|why| format!("{key}: {why}"))?;
        let id = arg.get_id().clone();
        command = command.mut_arg(id, |arg| arg.default_values(values));
    }
    Ok(command)
}

/// What is wrong with a file, and in which line. Does not quote the file, which may contain secrets.
fn unreadable(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!("line {}: {}", before.matches('\n').count() + 1, error.message())
}

/// Whether an option takes several values, separated by commas.
fn is_list(arg: &clap::Arg) -> bool {
    arg.get_value_delimiter().is_some()
}

/// A value of a file as a flag would give it.
fn values(value: toml::Value, is_list: bool) -> Result<Vec<String>, &'static str> {
    let text = match value {
        toml::Value::String(text) => text,
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(yes) => yes.to_string(),
        toml::Value::Array(entries) if is_list => {
            let entry = |entry: toml::Value| {
                entry.as_str().map(str::to_owned).ok_or("must be an array of strings")
            };
            return entries.into_iter().map(entry).collect();
        }
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            return Err("must be a string, a number, true or false");
        }
    };
    Ok(vec![text])
}

/// A file with every option, its documentation and its default, commented out.
pub fn sample(command: &clap::Command) -> String {
    let mut text = String::from(
        "# Options of `berth serve`. A line that is commented out shows the default.\n\
         # A flag (--listen ...) or an environment variable (BERTH_LISTEN=...) overrides this file.\n",
    );
    for arg in keys(command) {
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
fn shown(arg: &clap::Arg) -> String {
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
