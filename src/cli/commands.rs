//! The commands of `berth`.

use std::path::PathBuf;

use clap::{Arg, CommandFactory, Parser, Subcommand};

use super::aggregate::AggregateCommand;
use super::audit::ServerAuditOptions;
use super::candidates::CandidatesOptions;
use super::check::CheckOptions;
use super::claim::{ClaimOptions, ReleaseOptions};
use super::compare::CompareOptions;
use super::config_convert::ConvertOptions;
use super::config_show::ShowConfigOptions;
use super::db::{DumpOptions, GrantsOptions, RestoreOptions, ShellOptions};
use super::db_options::DbOptions;
use super::debug::DebugOptions;
use super::explain::ExplainOptions;
use super::fit::FitOptions;
use super::flavor::FlavorCommand;
use super::fragmentation::FragmentationOptions;
use super::group::GroupCommand;
use super::heal::HealOptions;
use super::health::HealthOptions;
use super::history::HistoryQueryOptions;
use super::import::{DataImportOptions, ExportOptions};
use super::ls::LsOptions;
use super::members::{MaintenanceOptions, MembersOptions};
use super::moves::MovesOptions;
use super::overview;
use super::policy::PolicyCommand;
use super::relocations::{DrainOptions, RebalanceOptions};
use super::shadow::ShadowOptions;
use super::show::ShowOptions;
use super::tree::TreeOptions;
use super::watch::WatchOptions;
use super::why::WhyOptions;
use crate::config::sources::variable;
use crate::config::{Config, gone};
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

/// The commands. Each option of `serve`, also in other commands, has an environment variable: `BERTH_` and the name of
/// the option. A flag without a value means true.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let serve = command.find_subcommand("serve");
    let shared = serve.into_iter().flat_map(clap::Command::get_arguments);
    let shared: Vec<String> = shared.map(|arg| arg.get_id().to_string()).collect();
    overview::grouped(with_environment(command, &shared))
}

fn with_environment(command: clap::Command, shared: &[String]) -> clap::Command {
    let names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |inner| with_environment(inner, shared))
    });
    let is_configured =
        command.get_arguments().any(|arg| ["config", "log"].contains(&arg.get_id().as_str()));
    let has_all_options =
        shared.iter().all(|id| command.get_arguments().any(|arg| arg.get_id() == id));
    let command = if has_all_options { gone::accept(command) } else { command };
    if is_configured { command.mut_args(|arg| configured(arg, shared)) } else { command }
}

fn configured(arg: Arg, shared: &[String]) -> Arg {
    let id = arg.get_id().to_string();
    if !shared.contains(&id) || arg.get_env().is_some() {
        return arg;
    }
    let arg = arg.env(variable(&id));
    if arg.get_value_names().is_some_and(|names| names == ["BOOL"]) {
        return arg.num_args(0..=1).default_missing_value("true");
    }
    arg
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
    /// It differs from `berth db check`, which checks the consistency of Berth's database, and from the audit log
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
    /// Checks the configuration, the server that runs with it, the database (version, role, privileges, primary,
    /// schema, free space, standbys, long transactions, locked rows, size of the change log, inventories, consistency),
    /// Keystone, the expiry of certificates, file descriptors and the clock. Takes the options of `serve`, changes
    /// nothing, and may run beside servers. Exits with 0 if no check has failed, with 2 if one has; warnings do not
    /// count.
    #[command(alias = "doctor")]
    Check(Box<CheckOptions>),
    /// Collect what is needed to find the cause of a problem, as a tar file of texts.
    ///
    /// The findings of `check`, the options, the replicas, the metrics twice, a report on the database (settings,
    /// sessions, locks, sizes, slow statements), the log of the unit and facts about the machine; without passwords and
    /// tokens. Takes the options of `serve`, and changes nothing.
    Debug(Box<DebugOptions>),
    /// Show the replicas with their state, or drain one.
    ///
    /// Reads what each replica reports to the database every three seconds: name, address, version, start, the time of
    /// a read that has everything acknowledged before it, connections to the database, and what /readyz says.
    Members(Box<MembersOptions>),
    /// Refuse writes at all replicas with a reason, or accept them again; reads go on.
    ///
    /// Writes get 503 with the reason. Waits until all replicas that report have carried it out, and lasts until
    /// `berth maintenance off`, also when replicas are restarted.
    Maintenance(Box<MaintenanceOptions>),
    /// List hosts with their free capacity.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Ls(Box<LsOptions>),
    /// Show a resource provider with its consumers, or a consumer with its allocations.
    ///
    /// Asks a running service, Berth or OpenStack Placement. Changes nothing.
    Show(Box<ShowOptions>),
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
    /// Propose the fewest moves by which all servers leave some hosts.
    ///
    /// Asks a running Berth. The servers of plans move by the rules of their plans, together with consumers outside of
    /// plans. Changes nothing without --carry-out.
    Drain(Box<DrainOptions>),
    /// Propose the fewest moves by which more servers fit.
    ///
    /// Asks a running Berth, like `drain`. Changes nothing without --carry-out.
    Rebalance(Box<RebalanceOptions>),
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
    Check(DbOptions),
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
    /// belongs to the role that restores it. Then checks the data like `db check`.
    Restore(RestoreOptions),
}

/// Commands for configuration files.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check the options of `serve`, and print each value and its source.
    Check(Box<Config>),
    /// Show the options of a running server, with the source of each value.
    ///
    /// Asks the server itself, which knows the values it was started with and those a reload has changed. Secrets are
    /// shown as `(set)`.
    Show(Box<ShowConfigOptions>),
    /// Print a configuration file with every option, its description and its default.
    Sample,
    /// Convert an OpenStack Placement configuration file (placement.conf).
    ///
    /// Options that have no equivalent are named on standard error and in comments of the result.
    /// If it would be unsafe to drop an option, nothing is printed and the exit code is 1.
    Convert(Box<ConvertOptions>),
}
