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
pub use self::audit::{ServerAuditOptions, Stopped, run as audit};
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

/// A resource placement service: the OpenStack Placement API on PostgreSQL, answered from memory.
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
    /// Bring over what OpenStack Placement stores, from its database or over its API.
    ///
    /// Reads the database in one consistent snapshot, and writes everything or nothing into a
    /// database of Berth's that is empty but current (`berth db migrate`). Rows that Berth stores
    /// differently, or not at all, are reported one by one. If it is interrupted, the same command goes
    /// on with what was read. With --follow, it then keeps up with the old service until --finish.
    Import(Box<DataImportOptions>),
    /// Compare two placement services, Berth or OpenStack Placement: whether clients see the same.
    ///
    /// Reads both over the API: providers and their trees, inventories, usages, aggregates, traits,
    /// allocations, consumers, usages of projects, and allocation candidates for a sample of questions
    /// that are made of the data. Both may be in use: what differs is read once more. Exits with 0 if
    /// they are the same, with 1 if they differ, with 2 if they could not be compared.
    Compare(Box<CompareOptions>),
    /// Write what is stored into an empty database of OpenStack Placement.
    ///
    /// The way back from `berth import`, and the way out: everything or nothing is written. Servers
    /// may run meanwhile; what they change after the start is not exported.
    Export(Box<ExportOptions>),
    /// Run a proxy in front of a placement service, and compare Berth with it.
    ///
    /// Clients get the service's answers, unchanged. Reads are sent to Berth as well, and with
    /// --mirror-writes also the writes that the service accepted. Differences and the times of both
    /// are counted. Berth cannot slow down or fail what clients ask: what the mirror has no room for
    /// is not mirrored. SIGUSR1 prints a summary, as the end does; SIGUSR2 turns the mirror off, or on
    /// again.
    Shadow(Box<ShadowOptions>),
    /// Compare what a placement service holds with nova's servers.
    ///
    /// Finds allocations of servers that are gone, leftovers of evacuations, resizes and migrations,
    /// servers without allocations or with other ones than they should have, and providers that nova
    /// has no host for; says what to do about each, and writes a plan for `berth heal`. Talks to any
    /// placement service over its API, Berth or OpenStack Placement, and changes nothing.
    ///
    /// `berth db audit` is another thing: it checks that the rows in Berth's database fit together.
    /// The audit log (--audit-log of `berth serve`) is a third: it records who has changed what.
    ///
    /// Exits with 0 if nothing was found, with 3 if something was, with 127 if the servers that were
    /// given cannot be used or cannot be the right ones, with 1 if the service or a database fails:
    /// as `nova-manage placement audit`.
    Audit(Box<ServerAuditOptions>),
    /// Carry out a plan of `berth audit`.
    ///
    /// Each action is done if its consumers are exactly as the audit saw them, with their
    /// generations, and left out otherwise; nothing is retried. A plan can be carried out again:
    /// actions that are done are recognised.
    ///
    /// Exits with 0 if all is done, with 4 if there was nothing to do (as after --dry-run), with 3 if
    /// something has changed since the audit or is refused by the service, with 1 if the service
    /// fails, with 127 if the plan cannot be used: as `nova-manage placement heal_allocations`.
    Heal(Box<HealOptions>),
    /// Look for what is wrong, and say what to do about it.
    ///
    /// Looks at the configuration, the database (version, role, privileges, primary, schema,
    /// standbys, long transactions, size of the change log), Keystone, the ends of certificates, file
    /// descriptors and the clock. Takes the options of `serve`, only reads, and may run beside
    /// servers. Exits with 0 if nothing has failed, with 2 if something has; warnings do not count.
    Doctor(Box<DoctorOptions>),
    /// List hosts, with what is free on each.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Ls(Box<LsOptions>),
    /// Show a resource provider with its consumers, or a consumer with what it holds.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Show(Box<ShowOptions>),
    /// Show what a server does at present: requests, latencies, batches, searches, plans.
    ///
    /// Reads the metrics of one replica (--admin-listen) again and again; and over its API, also that
    /// of OpenStack Placement, what of each resource class is used, and which providers are written
    /// to most. Changes nothing.
    Top(Box<TopOptions>),
    /// Show resource providers as trees, with what they have and what of it is used.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Tree(Box<TreeOptions>),
    /// Say why a query for allocation candidates finds what it finds, or whether a claim would be allowed.
    ///
    /// Asks a running Berth: how many providers and hosts each condition of the query leaves, which
    /// conditions contradict each other, which hosts lack one thing only, and what would fit without
    /// one of the conditions. With --claim: all that is wrong with a claim, by how much, and who holds
    /// what there. Changes nothing.
    Explain(Box<ExplainOptions>),
    /// Show changes of providers, consumers, traits and resource classes as they are committed.
    ///
    /// Asks a running Berth with --events, and goes on until it is stopped. A connection that breaks is made
    /// anew, from the last event.
    Watch(Box<WatchOptions>),
    /// Say why a request was refused or found nothing, by its id in the log of nova or of Berth.
    ///
    /// Asks a running Berth, which keeps such requests for an hour: what each condition of a query
    /// left then, and what it leaves now; what was wrong with a claim, with the numbers of then. Without
    /// an id, lists the last ones.
    Why(Box<WhyOptions>),
    /// Show where a request fits: its allocation candidates, with what is free of their providers.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Candidates(Box<CandidatesOptions>),
    /// Set what a consumer holds, after showing what will change.
    ///
    /// The consumer then holds what is named, and nothing else: amounts on providers (--on, --resources), or
    /// a candidate of a query. It is written with the generation of the consumer that was shown, and so fails
    /// if somebody else has changed the consumer meanwhile. Asks first; without a terminal, --yes is needed.
    /// Talks to a running service, Berth or OpenStack Placement.
    Claim(Box<ClaimOptions>),
    /// Release all that a consumer holds, after showing what that is.
    ///
    /// Fails if somebody else has changed the consumer meanwhile. Asks first; without a terminal, --yes is
    /// needed. Talks to a running service, Berth or OpenStack Placement.
    Release(Box<ReleaseOptions>),
    /// Count how many more of a request fit: in total, by host, by rack or aggregate.
    ///
    /// Asks a running Berth. The numbers are exact where one provider serves a host and nothing is
    /// shared, and have a lower and an upper bound elsewhere. Changes nothing.
    Fit(Box<FitOptions>),
    /// Say what is free, but of no use for some requests: the rest that stays on hosts.
    ///
    /// Asks a running Berth: by class and by host, and how many would fit if all that is free were in
    /// one piece. Changes nothing.
    Fragmentation(Box<FragmentationOptions>),
    /// Propose how to make room for a request: the fewest moves, or who would have to give way.
    ///
    /// Asks a running Berth, which proposes requests to send and sends none of them. Changes nothing.
    Moves(Box<MovesOptions>),
    /// Check whether this version can take over from the one that runs.
    ///
    /// Looks at the configuration, the version of PostgreSQL, the schema, oversubscribed inventories
    /// and the consistency of what is stored. Takes the options of `serve`, and only reads. Exits
    /// with 0 if nothing has failed, with 2 if something has; warnings do not count.
    UpgradeCheck(Box<DoctorOptions>),
    /// Ask a running server whether it answers, or is ready, for the health checks of containers.
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
    /// Report whether the schema is what this program needs.
    ///
    /// Exits with 0 if it is, with 2 if not.
    Status(DbOptions),
    /// Check that the stored data is consistent.
    ///
    /// Compares recorded usage with the sum of allocations, and looks for broken consumers and
    /// provider trees. Only reads, and may run under any load. Exits with 0 if all is well, with 2
    /// if not.
    Audit(DbOptions),
    /// Print the SQL script that grants a role what servers need.
    ///
    /// Run the script as the owner of Berth's tables, again after each `db migrate`:
    /// `berth db grants --role NAME | psql URL`
    Grants(GrantsOptions),
    /// Start psql in the database.
    ///
    /// A private PostgreSQL is started for as long as psql runs.
    Shell(ShellOptions),
    /// Write all that is stored into a file, for `db restore`.
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
    /// The options, whichever the command is.
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
    /// Default: /etc/berth/berth.toml if it is there; /dev/null stands for no file.
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

    /// Print only a Markdown table of what becomes of each option.
    #[arg(long, hide = true, exclusive = true)]
    pub table: bool,
}

/// Options of `health`: those of `serve` that say how the server is reached.
#[derive(Args, Clone, Debug)]
pub struct HealthOptions {
    /// Read the server's options from this TOML file.
    ///
    /// Default: /etc/berth/berth.toml if it is there; /dev/null stands for no file.
    #[arg(long, env = "BERTH_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Ask whether the server is ready: its database answers, and it has not been told to stop.
    ///
    /// Asks `/readyz` of both APIs, instead of `/` of the Placement API.
    #[arg(long)]
    pub ready: bool,

    /// Addresses of the server. Berth asks each of them.
    #[arg(
        long,
        env = "BERTH_LISTEN",
        default_value = "127.0.0.1:8778",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub listen: Vec<Endpoint>,

    /// Addresses of the planner, which --ready asks, too; `none`: it is not served.
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
    /// An address of --listen that is among them is asked without TLS.
    #[arg(long, env = "BERTH_ADMIN_LISTEN", value_name = "ADDRESS", value_delimiter = ',')]
    pub admin_listen: Vec<Endpoint>,

    /// Certificate of the server, if it has one.
    ///
    /// The server is then asked over TLS, except on a Unix socket. The certificate is not verified.
    #[arg(long, env = "BERTH_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// Authorities of the clients' certificates, if the server demands them.
    ///
    /// Whether it is ready is then asked at --admin-listen, if it has such an address.
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
