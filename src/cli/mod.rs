//! The commands of `berth` and their arguments.

mod aggregate;
mod arguments;
mod audit;
mod bars;
mod candidates;
mod claim;
mod claim_faults;
mod columns;
mod compare;
mod confirm;
mod db;
pub mod doctor;
mod explain;
mod fit;
mod flavor;
mod fragmentation;
mod group;
mod heal;
pub mod health;
mod history;
mod import;
mod ls;
mod manual;
mod moves;
mod page;
mod policy;
mod providers;
mod report_file;
mod service;
mod shadow;
mod show;
mod times;
mod top;
mod tree;
mod watch;
mod why;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

pub use self::aggregate::{AggregateCommand, run as aggregate};
pub use self::arguments::{Invocation, parse, read_again};
pub use self::audit::{CommandError, ServerAuditOptions, run as audit};
pub use self::candidates::{CandidatesOptions, run as candidates};
pub use self::claim::{ClaimOptions, ReleaseOptions, claim, release};
pub use self::compare::{CompareOptions, Ignored, run as compare};
pub use self::db::{
    DumpOptions, GrantsOptions, RestoreOptions, ShellOptions, dump, faults, grants, restore, shell,
};
pub use self::doctor::{CheckOptions, DoctorOptions, FindingFormat, findings};
pub use self::explain::{ExplainOptions, run as explain};
pub use self::fit::{FitOptions, run as fit};
pub use self::flavor::{FlavorCommand, run as flavor};
pub use self::fragmentation::{FragmentationOptions, run as fragmentation};
pub use self::group::{GroupCommand, run as group};
pub use self::heal::{HealOptions, run as heal};
pub use self::history::{HistoryQueryOptions, run as history};
pub use self::import::{DataImportOptions, ExportOptions, export, run as import};
pub use self::ls::{LsOptions, run as ls};
pub use self::manual::{completions, man_pages};
pub use self::moves::{MovesOptions, run as moves};
pub use self::policy::{PolicyCommand, check as policy_check, list as policy_list};
pub use self::service::{LimitOptions, ReplicaOptions, ServiceOptions};
pub use self::shadow::{ShadowOptions, run as shadow};
pub use self::show::{ShowOptions, run as show};
pub use self::top::{TopOptions, run as top};
pub use self::tree::{TreeOptions, run as tree};
pub use self::watch::{WatchOptions, run as watch};
pub use self::why::{WhyOptions, run as why};
use crate::config::{self, Config, DatabaseOptions, LogOptions, PlannerAddress};
use crate::http::edge::listener::Endpoint;
use crate::model::Bug;
use crate::observe::version;

/// A resource placement service: the OpenStack Placement API on PostgreSQL, with reads served from memory.
///
/// Start with `berth serve`: without further options it runs a private PostgreSQL under the data
/// directory and serves the API on 127.0.0.1:8778.
#[derive(Debug, Parser)]
#[command(
    name = "berth",
    version = version::line(),
    after_long_help = "Try it:\n\n  berth serve &\n  curl -H 'X-Auth-Token: admin' \
                       http://127.0.0.1:8778/resource_providers\n\n\
                       Every option of a command: berth COMMAND --help"
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the Placement API and the planner.
    ///
    /// SIGTERM or Ctrl-C lets requests in progress finish; a second signal stops Berth at once. A
    /// private PostgreSQL is migrated at the start. With --database-url, the schema must already be
    /// current (see `berth db migrate`), or --database-migrate set.
    Serve(Box<Config>),
    /// Migrate and check the database.
    #[command(subcommand)]
    Db(DbCommand),
    /// Check, create and import configuration files.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show and check the policy rules.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Manage the flavors that plans refer to.
    ///
    /// Flavors can be changed while servers are running.
    #[command(subcommand)]
    Flavor(FlavorCommand),
    /// Manage the metadata of host aggregates that flavors may demand.
    ///
    /// Metadata can be changed while servers are running.
    #[command(subcommand)]
    Aggregate(AggregateCommand),
    /// Manage the stored groups that plans use, and the projects that may use them.
    ///
    /// Groups can be changed while servers are running, also through the API.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Show who has changed a provider or a consumer, the newest change first.
    ///
    /// Reads what servers with --history have recorded in the database: each change with its time,
    /// the request, the user and project, and what was changed.
    History(Box<HistoryQueryOptions>),
    /// Import the contents of OpenStack Placement, from its database or over its API.
    ///
    /// Reads the database in one consistent snapshot, and writes everything or nothing into a Berth database that is
    /// empty but current (`berth db migrate`). Rows that Berth stores differently, or not at all, are reported one by
    /// one. After an interruption, the same command continues with the rows read so far. With --follow, it then keeps
    /// up with the old service until --finish.
    Import(Box<DataImportOptions>),
    /// Compare what clients see of two placement services, Berth or OpenStack Placement.
    ///
    /// Reads both over the API: providers and their trees, inventories, usages, aggregates, traits, allocations,
    /// consumers, usages of projects, and allocation candidates for a sample of requests that are made from the data.
    /// Both may be in use: differing responses are requested again. Exits with 0 if they are the same, with 1 if they
    /// differ, with 2 if they could not be compared.
    Compare(Box<CompareOptions>),
    /// Write Berth's contents into an empty database of OpenStack Placement.
    ///
    /// The way back from `berth import`, and the way out: everything or nothing is written. Servers
    /// may run meanwhile; what they change after the start is not exported.
    Export(Box<ExportOptions>),
    /// Run a proxy in front of a placement service, and compare Berth with it.
    ///
    /// Clients get the service's responses, unchanged. Reads are sent to Berth as well, and with --mirror-writes also
    /// the writes that the service accepted. Differences and both latencies are counted. Berth cannot slow down or
    /// fail clients' requests: when the mirror's queue is full, requests are not mirrored. SIGUSR1 prints a summary,
    /// as does the end; SIGUSR2 switches the mirror off or on.
    Shadow(Box<ShadowOptions>),
    /// Compare the contents of a placement service with nova's servers.
    ///
    /// Finds allocations of servers that are gone, leftovers of evacuations, resizes and migrations, servers without
    /// allocations or with wrong ones, and providers without a host in nova; recommends an action for each, and
    /// writes a plan for `berth heal`. Talks to any placement service over its API, Berth or OpenStack Placement, and
    /// changes nothing.
    ///
    /// It differs from `berth db audit`, which checks the consistency of Berth's database, and from the audit log
    /// (--audit-log of `berth serve`), which records changes with their authors.
    ///
    /// Exits with 0 if nothing was found, with 3 if something was, with 127 if the given servers are unusable or
    /// cannot be the right ones, with 1 if the service or a database fails: as `nova-manage placement audit`.
    Audit(Box<ServerAuditOptions>),
    /// Carry out a plan of `berth audit`.
    ///
    /// Each action is done if its consumers are exactly as the audit found them, with their generations, and skipped
    /// otherwise; nothing is retried. A plan can be carried out again: completed actions are recognised.
    ///
    /// Exits with 0 if all is done, with 4 if there was nothing to do (as after --dry-run), with 3 if something has
    /// changed since the audit or is refused by the service, with 1 if the service fails, with 127 if the plan is
    /// unusable: as `nova-manage placement heal_allocations`.
    Heal(Box<HealOptions>),
    /// Find problems, and recommend what to do about them.
    ///
    /// Checks the configuration, the database (version, role, privileges, primary, schema, standbys, long
    /// transactions, size of the change log), Keystone, the expiry of certificates, file descriptors and the clock.
    /// Takes the options of `serve`, only reads, and may run beside servers. Exits with 0 if no check has failed,
    /// with 2 if one has; warnings do not count.
    Doctor(Box<DoctorOptions>),
    /// List hosts with their free capacity.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Ls(Box<LsOptions>),
    /// Show a resource provider with its consumers, or a consumer with its allocations.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Show(Box<ShowOptions>),
    /// Show the current activity of a server: requests, latencies, batches, searches, plans.
    ///
    /// Reads the metrics of one replica (--admin-listen) repeatedly; and over its API, also that of OpenStack
    /// Placement, the usage of each resource class, and the providers with most writes. Changes nothing.
    Top(Box<TopOptions>),
    /// Show resource providers as trees, with their inventories and usage.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Tree(Box<TreeOptions>),
    /// Explain the result of a query for allocation candidates, or whether a claim would be allowed.
    ///
    /// Asks a running Berth: the number of providers and hosts that each condition of the query leaves, conditions
    /// that contradict each other, hosts that fail a single condition, and what would fit without one of the
    /// conditions. With --claim: all faults of a claim, the missing amounts, and the consumers that hold the
    /// inventories. Changes nothing.
    Explain(Box<ExplainOptions>),
    /// Show changes of providers, consumers, traits and resource classes as they are committed.
    ///
    /// Asks a running Berth with --events, until it is stopped. After a broken connection, it continues from the last
    /// event.
    Watch(Box<WatchOptions>),
    /// Explain why a request was refused or found nothing, by its ID in the log of nova or of Berth.
    ///
    /// Asks a running Berth, which keeps such requests for an hour: the number of hosts that each condition of a
    /// query left then and leaves now, or the faults of a claim with the numbers at that time. Without an ID, lists
    /// the latest requests.
    Why(Box<WhyOptions>),
    /// Show the allocation candidates of a request, with the free capacity of their providers.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Candidates(Box<CandidatesOptions>),
    /// Set the allocations of a consumer, after showing the change.
    ///
    /// Replaces all allocations of the consumer: by amounts on providers (--on, --resources), or by a candidate of a
    /// query. The write carries the consumer's generation that was shown, so it fails if the consumer has changed in
    /// the meantime. Asks for confirmation; without a terminal, --yes is required. Talks to a running service, Berth
    /// or OpenStack Placement.
    Claim(Box<ClaimOptions>),
    /// Release all allocations of a consumer, after showing them.
    ///
    /// Fails if the consumer has changed in the meantime. Asks for confirmation; without a terminal, --yes is
    /// required. Talks to a running service, Berth or OpenStack Placement.
    Release(Box<ReleaseOptions>),
    /// Count how many more instances of a request fit: in total, by host, by rack or aggregate.
    ///
    /// Asks a running Berth. The numbers are exact where one provider serves a host and nothing is
    /// shared, and have a lower and an upper bound elsewhere. Changes nothing.
    Fit(Box<FitOptions>),
    /// Show free capacity that some requests cannot use, because too little is left on each host.
    ///
    /// Asks a running Berth: by class and by host, and how many instances would fit if all free capacity were in one
    /// piece. Changes nothing.
    Fragmentation(Box<FragmentationOptions>),
    /// Propose how to make room for a request: the fewest moves, or consumers to remove.
    ///
    /// Asks a running Berth, which proposes requests to send and sends none of them. Changes nothing.
    Moves(Box<MovesOptions>),
    /// Check whether this version can replace the running one.
    ///
    /// Checks the configuration, the version of PostgreSQL, the schema, oversubscribed inventories and the
    /// consistency of the stored data. Takes the options of `serve`, and only reads. Exits with 0 if no check has
    /// failed, with 2 if one has; warnings do not count.
    UpgradeCheck(Box<DoctorOptions>),
    /// Ask a running server whether it responds, or is ready, for the health checks of containers.
    ///
    /// Exits with 0 if it does on all its addresses, with 1 if not.
    Health(HealthOptions),
    /// Print a script that completes the commands and options of `berth` in a shell.
    ///
    /// For bash: `berth completions bash >/etc/bash_completion.d/berth`
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command.
    Man {
        /// The directory to write them to, which must exist.
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
}

/// Commands for the database.
#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Bring the schema up to date, and add new standard resource classes and traits.
    ///
    /// Running servers may continue to serve; docs/operating/upgrade.md names the exceptions.
    Migrate(DbOptions),
    /// Report whether the schema is the one that this program needs.
    ///
    /// Exits with 0 if it is, with 2 if not.
    Status(DbOptions),
    /// Check that the stored data is consistent.
    ///
    /// Compares recorded usage with the sum of allocations, and looks for broken consumers and
    /// Compares recorded usage with the sum of allocations, and looks for broken consumers and provider trees. Only
    /// reads, and may run under any load. Exits with 0 if the data is consistent, with 2 if not.
    Audit(DbOptions),
    /// Print the SQL script that grants a role the privileges that servers need.
    ///
    /// Run the script as the owner of Berth's tables, again after each `db migrate`:
    /// `berth db grants --role NAME | psql URL`
    Grants(GrantsOptions),
    /// Start psql in the database.
    ///
    /// A private PostgreSQL is started for as long as psql runs.
    Shell(ShellOptions),
    /// Write all stored data to a file, for `db restore`.
    ///
    /// Servers may run meanwhile. A private PostgreSQL is started for as long as it takes.
    Dump(DumpOptions),
    /// Load a file that `db dump` wrote, completely or not at all.
    ///
    /// All servers must be stopped. The database may be another one than the file is from, and
    /// belongs to the role that restores it. Then checks the data like `db audit`.
    Restore(RestoreOptions),
}

impl DbCommand {
    /// The options of the command.
    pub fn options(&self) -> &DbOptions {
        match self {
            Self::Migrate(options) | Self::Status(options) | Self::Audit(options) => options,
            Self::Grants(options) => &options.db,
            Self::Shell(options) => &options.db,
            Self::Dump(options) => &options.db,
            Self::Restore(options) => &options.db,
        }
    }
}

/// Options of the `db` commands.
#[derive(Args, Clone, Debug)]
pub struct DbOptions {
    /// Read the database and the logging options of `berth serve` from this TOML file.
    ///
    /// Default: /etc/berth/berth.toml if it exists; /dev/null means no file.
    #[arg(long, env = "BERTH_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The database.
    #[command(flatten)]
    pub database: DatabaseOptions,
    /// The logs.
    #[command(flatten)]
    pub logs: LogOptions,
}

/// Commands for configuration files.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check the options of `serve`, and print each value and its source.
    Check(Box<CheckOptions>),
    /// Print a configuration file with every option, its description and its default.
    Sample,
    /// Convert an OpenStack Placement configuration file (placement.conf).
    ///
    /// Options that have no equivalent are named on standard error and in comments of the result.
    /// If it would be unsafe to drop an option, nothing is printed and the exit code is 1.
    Import(Box<ImportOptions>),
}

/// Options of `config import`.
#[derive(Args, Clone, Debug)]
pub struct ImportOptions {
    /// Files in oslo.config's format; a later file overrides an earlier one.
    ///
    /// Environment variables `OS_GROUP__OPTION` override all files, as in OpenStack Placement.
    /// Without any file, Berth reads what OpenStack Placement reads: placement.conf in
    /// `$OS_PLACEMENT_CONFIG_DIR`, or else in /etc/placement and the other default places.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Directory whose *.conf files are read after the files, in the order of their names.
    #[arg(long, value_name = "DIRECTORY")]
    pub config_dir: Vec<PathBuf>,

    /// URL of Berth's PostgreSQL, instead of the one in the files.
    ///
    /// Required if the files name a database other than PostgreSQL.
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,

    /// Write to this file instead of standard output.
    ///
    /// Only its owner can read it, and the group `berth` if root writes it.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long, requires = "output")]
    pub force: bool,

    /// Print only a Markdown table of the conversion of each option.
    #[arg(long, hide = true, exclusive = true)]
    pub table: bool,
}

/// Options of `health`: those of `serve` for reaching the server.
#[derive(Args, Clone, Debug)]
pub struct HealthOptions {
    /// Read the server's options from this TOML file.
    ///
    /// Default: /etc/berth/berth.toml if it exists; /dev/null means no file.
    #[arg(long, env = "BERTH_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Ask whether the server is ready: its database responds, and it is not shutting down.
    ///
    /// Asks `/readyz` of both APIs, instead of `/` of the Placement API.
    #[arg(long)]
    pub ready: bool,

    /// Addresses of the server. All of them are probed.
    #[arg(
        long,
        env = "BERTH_LISTEN",
        default_value = "127.0.0.1:8778",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub listen: Vec<Endpoint>,

    /// Addresses of the planner, which --ready asks too; `none`: it is not served.
    #[arg(
        long,
        env = "BERTH_PLANNER_LISTEN",
        default_value = "127.0.0.1:8090",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub planner_listen: Vec<PlannerAddress>,

    /// Addresses of the server for health checks and metrics, which have no TLS.
    ///
    /// An address of --listen that is among them is probed without TLS.
    #[arg(long, env = "BERTH_ADMIN_LISTEN", value_name = "ADDRESS", value_delimiter = ',')]
    pub admin_listen: Vec<Endpoint>,

    /// Certificate of the server, if it has one.
    ///
    /// The server is then probed over TLS, except on a Unix socket. The certificate is not verified.
    #[arg(long, env = "BERTH_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// Authorities of the clients' certificates, if the server requires them.
    ///
    /// Readiness is then checked at --admin-listen, if set.
    #[arg(long, env = "BERTH_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
}

/// The text of `berth config sample`.
pub fn sample() -> String {
    let command = Cli::command();
    let serve = command.find_subcommand("serve");
    config::file::sample(serve.unwrap_or_else(|| Bug::raise("there is no command `serve`")))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
