//! All options with their types, defaults and documentation. The doc comments are the text of
//! `--help` and of `samples/berth.toml`. A value comes from a flag, the environment, the
//! configuration file or the default, in this order.

mod address_or_none;
mod audit;
mod candidates;
mod consumers;
mod database;
pub mod database_url;
mod events;
pub mod file;
pub mod flavors;
pub mod gone;
mod history;
mod keystone;
mod network;
mod planner;
mod policy;
mod refused;
pub mod sources;
mod traces;
pub(crate) mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

pub use self::address_or_none::{AddressOrNone, endpoints};
pub use self::audit::{AuditFormat, AuditOptions};
pub use self::candidates::{CandidateOptions, OrderKind};
pub use self::consumers::{ConsumerOptions, InMemory};
pub use self::database::DatabaseOptions;
pub use self::events::EventOptions;
pub use self::history::HistoryOptions;
pub use self::keystone::KeystoneOptions;
pub use self::network::NetworkOptions;
pub use self::planner::{Exclusivity, PlannerOptions, planner_endpoints};
pub use self::policy::PolicyOptions;
pub use self::refused::RefusedOptions;
pub use self::traces::TraceOptions;
use self::values::{count, seconds, seconds_or_none};
use crate::http::app::CandidateOrder;
use crate::http::edge::listener::Endpoint;
pub use crate::observe::log_settings::LogFormat;
use crate::observe::log_settings::{self, LogSettings};

/// Maximum size of the connection pool with a private PostgreSQL, which accepts 200 connections.
const PRIVATE_MAX: u32 = 150;

/// Options of the log.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logging")]
pub struct LogOptions {
    /// Filter of the log: a level (error, warn, info, debug, trace) or directives such as
    /// `info,berth::store=debug`.
    #[arg(long, default_value = "info", value_name = "FILTER", value_parser = log_filter)]
    pub log: String,

    /// Format of log lines on standard error.
    #[arg(long, default_value = "human", value_name = "FORMAT")]
    pub log_format: LogFormat,
}

impl LogOptions {
    /// The settings of the log, which can be changed at run time.
    pub fn settings(&self) -> LogSettings {
        LogSettings { filter: self.log.clone(), format: self.log_format }
    }
}

/// Authentication of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// No authentication: X-Auth-Token is "USER:PROJECT", and the user "admin" is an administrator.
    Noauth2,
    /// Validate each token with Keystone.
    Keystone,
}

/// Order in which allocation candidates are generated.
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
    /// Every option below is a key, without the leading dashes. See samples/berth.toml. Default:
    /// /etc/berth/berth.toml if it exists; /dev/null means no file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Addresses of the Placement API: `ADDRESS:PORT`, or `unix:/path` for a Unix socket.
    ///
    /// The owner and the group of a Unix socket may connect to it.
    #[arg(long, default_value = "127.0.0.1:8778", value_name = "ADDRESS", value_delimiter = ',')]
    pub listen: Vec<Endpoint>,

    /// Also serve the Placement API below this path, such as /placement.
    #[arg(long, value_name = "PATH", value_parser = path_prefix)]
    pub path_prefix: Option<String>,

    /// Serve the console, pages about the cloud for a browser, below /ui on the addresses of --listen.
    #[arg(long, default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub ui: bool,

    /// Authentication of callers.
    #[arg(long, default_value = "noauth2", value_name = "KIND")]
    pub auth: Auth,

    /// Allow noauth2 on addresses that other machines can reach.
    #[arg(long, default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub allow_noauth: bool,

    /// Size of the connection pool for single changes and for reads of consumers.
    ///
    /// Each replica usually opens four more connections, and one while it reads all consumers into memory.
    #[arg(long, default_value = "10", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub database_connections: u32,

    /// The consumers in memory.
    #[command(flatten)]
    pub consumers: ConsumerOptions,

    /// Seconds to wait at the start for an unavailable database; 0: do not wait; -1: wait without
    /// limit.
    ///
    /// While Berth waits, it refuses requests with 503.
    #[arg(long, default_value = "-1", allow_negative_numbers = true, value_name = "SECONDS",
          value_parser = clap::value_parser!(i64).range(-1..))]
    pub database_wait: i64,

    /// Migrate the database of --database-url at the start, as `berth db migrate` does.
    ///
    /// For containers, whose replicas may all start at once: they take turns. The role needs the
    /// right to change the schema.
    #[arg(long, default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub database_migrate: bool,

    /// Serve reads only while the primary acknowledges heartbeats within this many seconds.
    ///
    /// A replica serves a read only if the primary has committed a heartbeat that began within the
    /// lease. A primary that was replaced without knowing it is then trusted no longer than the
    /// lease. The price: reads also stop while a synchronous standby, for which commits must wait,
    /// is unavailable. Default: reads are served as long as the primary responds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub primary_lease: Option<Duration>,

    /// Milliseconds that a read may lag behind writes of other replicas.
    ///
    /// A read is answered from memory, without asking the database, if the last refresh began less
    /// than this long ago and this replica has written nothing since. 0: every read waits for a
    /// refresh, and shows everything that any replica has acknowledged before.
    #[arg(long, default_value = "0", value_name = "MILLISECONDS",
          value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub max_staleness: u16,

    /// Maximum number of allocation candidates to generate for one request; -1: no limit.
    #[arg(long, default_value = "-1", allow_negative_numbers = true, value_name = "COUNT",
          value_parser = clap::value_parser!(i64).range(-1..))]
    pub max_allocation_candidates: i64,

    /// Order in which allocation candidates are generated.
    #[arg(long, default_value = "depth-first", value_name = "STRATEGY")]
    pub allocation_candidates_generation_strategy: GenerationStrategy,

    /// Maximum number of open connections, on all addresses together.
    ///
    /// When the limit is reached, a new connection replaces the one that has been idle longest.
    /// While none is idle, new connections wait to be accepted. Each connection takes a file
    /// descriptor.
    #[arg(long, default_value = "10000", value_name = "COUNT", value_parser = count)]
    pub max_connections: usize,

    /// Seconds to keep serving after SIGTERM while `/readyz` returns 503.
    ///
    /// Load balancers send requests until they notice. Set this to a little more than the interval
    /// of their health checks times the failures they wait for; 0: close the listeners at once.
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = seconds_or_none)]
    pub shutdown_delay: Duration,

    /// Time for requests in progress to finish after SIGTERM and --shutdown-delay, in seconds.
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = seconds)]
    pub shutdown_grace: Duration,

    /// The order of candidates.
    #[command(flatten)]
    pub candidates: CandidateOptions,

    /// Network options.
    #[command(flatten)]
    pub network: NetworkOptions,

    /// The planner.
    #[command(flatten)]
    pub planner: PlannerOptions,

    /// The policy.
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

    /// The audit log.
    #[command(flatten)]
    pub audit: AuditOptions,

    /// The log of events.
    #[command(flatten)]
    pub events: EventOptions,

    /// The history of changes.
    #[command(flatten)]
    pub history: HistoryOptions,

    /// Refused requests.
    #[command(flatten)]
    pub refused: RefusedOptions,

    /// The traces.
    #[command(flatten)]
    pub traces: TraceOptions,
}

impl Config {
    /// Maximum time to wait for an unavailable database at the start; `None` for no limit.
    pub fn database_wait(&self) -> Option<Duration> {
        u64::try_from(self.database_wait).ok().map(Duration::from_secs)
    }

    /// The order of hosts among candidates.
    ///
    /// # Errors
    /// The options contradict each other.
    pub fn candidate_order(&self) -> Result<CandidateOrder, String> {
        self.candidates.order()
    }

    /// Checks that the options are consistent, without opening the files that they name.
    ///
    /// # Errors
    /// A message for each error, one per line.
    pub fn check(&self) -> Result<(), String> {
        let mut wrong = Vec::new();
        if self.listen.is_empty() {
            wrong.push("--listen needs at least one address".to_owned());
        }
        if self.database.database_url.is_none() && self.database_connections > PRIVATE_MAX {
            wrong.push(format!(
                "--database-connections must be at most {PRIVATE_MAX} with the private PostgreSQL"
            ));
        }
        wrong.extend(self.database.hosts().err());
        wrong.extend(self.network.tls().err());
        wrong.extend(self.candidate_order().err());
        wrong.extend(self.network.check_flavors().err());
        wrong.extend(self.traces.settings().err());
        match (self.planner.endpoints(), self.network.admin_endpoints()) {
            (Ok(planner), Ok(admin)) => {
                wrong.extend(self.check_places(&planner, &admin));
                wrong.extend(self.check_reach(self.listen.iter().chain(planner)).err());
            }
            (planner, admin) => wrong.extend(planner.err().into_iter().chain(admin.err())),
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// Checks that no address is used twice. Returns a message for each conflict.
    fn check_places(&self, planner: &[&Endpoint], admin: &[&Endpoint]) -> Vec<String> {
        let listen = self.listen.iter().map(|it| ("--listen", it));
        let planner = planner.iter().map(|it| ("--planner-listen", *it));
        let admin = admin.iter().map(|it| ("--admin-listen", *it));
        let places: Vec<(&str, &Endpoint)> = listen.chain(planner).chain(admin).collect();
        let pairs = places.iter().enumerate().flat_map(|(nth, one)| {
            let later = places.iter().skip(nth + 1);
            later.filter(|other| one.1.excludes(other.1)).map(move |other| (one, other))
        });
        pairs
            .map(|((option, one), (other, second))| {
                format!("{option} {one} and {other} {second} cannot both be listened on")
            })
            .collect()
    }

    /// Checks that other machines cannot reach an API without authentication.
    ///
    /// # Errors
    /// The reachable address.
    pub fn check_reach<'a>(
        &self,
        endpoints: impl IntoIterator<Item = &'a Endpoint>,
    ) -> Result<(), String> {
        let open = endpoints.into_iter().find(|endpoint| !endpoint.is_local());
        let everybody = self.auth == Auth::Noauth2 && !self.allow_noauth;
        match open {
            Some(open) if everybody => Err(format!(
                "--auth noauth2 believes every caller, and other machines can reach {open}; listen \
                 on 127.0.0.1, or pass --allow-noauth if something in front keeps strangers out"
            )),
            Some(_) | None => Ok(()),
        }
    }
}

fn log_filter(text: &str) -> Result<String, String> {
    log_settings::check(text).map(|()| text.to_owned())
}

fn path_prefix(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    if trimmed.is_empty() || !trimmed.starts_with('/') {
        return Err("must begin with / and have at least one segment".to_owned());
    }
    Ok(trimmed.to_owned())
}
