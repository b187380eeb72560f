//! The commands of `berth` and their arguments.

mod aggregate;
mod arguments;
mod columns;
mod db;
mod doctor;
mod flavor;
mod group;
mod history;
mod import;
mod manual;
mod policy;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

pub use self::aggregate::{AggregateCommand, run as aggregate};
pub use self::arguments::{Invocation, Origin, Source, parse};
pub use self::db::{
    DumpOptions, GrantsOptions, RestoreOptions, ShellOptions, dump, grants, restore, shell,
};
pub use self::doctor::{CheckOptions, DoctorOptions, FindingFormat, findings};
pub use self::flavor::{FlavorCommand, run as flavor};
pub use self::group::{GroupCommand, run as group};
pub use self::history::{HistoryQueryOptions, run as history};
pub use self::import::{DataImportOptions, ExportOptions, export, run as import};
pub use self::manual::{completions, man_pages};
pub use self::policy::{PolicyCommand, check as policy_check, list as policy_list};
use crate::config::{self, Config, DatabaseOptions, LogOptions, PlannerAddress};
use crate::http::listener::Endpoint;
use crate::model::Bug;
use crate::version;

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
    /// Bring over what a database of OpenStack Placement stores.
    ///
    /// Reads the database in one consistent snapshot, and writes everything or nothing into a
    /// database of Berth's that is empty but current (`berth db migrate`). Rows that Berth stores
    /// differently, or not at all, are reported one by one.
    Import(Box<DataImportOptions>),
    /// Write what is stored into an empty database of OpenStack Placement.
    ///
    /// The way back from `berth import`, and the way out: everything or nothing is written. Servers
    /// may run meanwhile; what they change after the start is not exported.
    Export(Box<ExportOptions>),
    /// Look for what is wrong, and say what to do about it.
    ///
    /// Looks at the configuration, the database (version, role, privileges, primary, schema,
    /// standbys, long transactions, size of the change log), Keystone, the ends of certificates, file
    /// descriptors and the clock. Takes the options of `serve`, only reads, and may run beside
    /// servers. Exits with 0 if nothing has failed, with 2 if something has; warnings do not count.
    Doctor(Box<DoctorOptions>),
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

    /// Certificate of the server, if it has one.
    ///
    /// The server is then asked over TLS, except on a Unix socket. The certificate is not verified.
    #[arg(long, env = "BERTH_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
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
