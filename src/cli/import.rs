//! `berth import` and `berth export`: copy the contents of an OpenStack Placement database to Berth and back.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::db_options::DbOptions;
use super::report_file::ReportFile;
use super::service::{LimitOptions, named};
use crate::auth::keystone::Secret;
use crate::config::values::secret;
use crate::moving::transfer::follow::FollowContext;
use crate::moving::transfer::report::Report;
use crate::moving::transfer::{self, ReferenceUrl};
use crate::observe::printable;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::store;

/// Options of `import`.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct DataImportOptions {
    /// The database of OpenStack Placement, as `connection` in its placement.conf.
    ///
    /// MySQL, MariaDB, PostgreSQL or SQLite, such as `mysql+pymysql://user:password@host/placement`
    /// or `sqlite:////absolute/path`. Set the environment variable to keep the password out of the
    /// list of processes.
    #[arg(long, env = "BERTH_FROM_DATABASE", hide_env_values = true, value_name = "URL")]
    #[arg(required_unless_present_any = ["discard", "from_api"])]
    pub from_database: Option<ReferenceUrl>,

    /// A placement service to read over its API: its URL, or the name of a cloud in clouds.yaml.
    ///
    /// For clouds whose database cannot be reached. Takes longer, and the report lists the data that the API does not
    /// show. The service may be in use: changes are read again, a limited number of times. `envvars` is the cloud
    /// that the environment describes (`OS_AUTH_URL` and so on).
    #[arg(long, env = "BERTH_FROM_API", value_name = "SERVICE")]
    #[arg(conflicts_with_all = ["from_database", "follow", "finish", "discard"])]
    pub from_api: Option<String>,

    /// Token for the service of --from-api, if that is a URL.
    ///
    /// By default, the token is Keystone's if --os-cloud or the environment has credentials; else `admin`, which a
    /// service without authentication (noauth2) accepts for the administrator. Other processes on the machine can see
    /// flags: prefer the environment.
    #[arg(long, env = "BERTH_FROM_API_TOKEN", hide_env_values = true, value_name = "TOKEN",
          value_parser = secret)]
    pub from_api_token: Option<Secret>,

    /// Cloud in clouds.yaml whose credentials are used if --from-api is a URL, instead of the
    /// environment's.
    #[arg(long, env = "OS_CLOUD", value_name = "NAME")]
    pub os_cloud: Option<String>,

    /// Limits of the requests to the API.
    #[command(flatten)]
    pub limits: LimitOptions,

    /// Read everything and report the result, but write nothing.
    #[arg(long, conflicts_with_all = ["follow", "finish", "discard"])]
    pub dry_run: bool,

    /// Replace Berth's providers, consumers and allocations.
    ///
    /// Done in one transaction. Also replaces custom resource classes and traits. Keeps flavors, stored groups,
    /// metadata of aggregates and the history. Refused while plans have servers or groups have exclusive hosts:
    /// delete those plans first.
    #[arg(long, conflicts_with_all = ["finish", "discard"])]
    pub replace: bool,

    /// Import, and then keep Berth's database up to date with the old service while it runs.
    ///
    /// Each round reads one snapshot of the old database and brings Berth's from one consistent state to a later one.
    /// Prints a line for each round that changed something, and at least one a minute. SIGTERM and Ctrl-C stop it
    /// after the current round, with exit code 0; the same command continues later. If a database does not respond,
    /// it waits. Berth's servers may run meanwhile, but no client may write to them: if one does, the command fails
    /// with exit code 1 and a message.
    #[arg(long)]
    pub follow: bool,

    /// Pause between two rounds of --follow, in seconds.
    #[arg(long, env = "BERTH_IMPORT_INTERVAL", value_name = "SECONDS", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub interval: u32,

    /// End --follow, once the old service is stopped: import the last changes, and compare everything.
    ///
    /// A running --follow process exits then. Fails if the old database still changes.
    #[arg(long, conflicts_with_all = ["follow", "discard"])]
    pub finish: bool,

    /// Discard an interrupted import, or --follow: remove its state.
    ///
    /// The rows in Berth's tables are kept.
    #[arg(long)]
    pub discard: bool,

    /// Write the whole report to this file, as JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "discard")]
    pub report: Option<PathBuf>,

    /// Berth's database.
    #[command(flatten)]
    pub db: DbOptions,
}

impl DataImportOptions {
    fn what(&self) -> transfer::Options {
        transfer::Options { dry_run: self.dry_run, replace: self.replace, follow: self.follow }
    }
}

/// Imports, and returns the report as text.
///
/// # Errors
/// Nothing was imported, or the report cannot be written.
pub async fn run(options: &DataImportOptions) -> Result<String, Failure> {
    // Checks that the report can be written before anything is done.
    let file = options.report.as_deref().map(ReportFile::open).transpose()?;
    let work = async |database: &Database| work(options, database).await;
    let report = match Database::with(&options.db.database, work).await? {
        ImportOutcome::Reported(report) => report,
        ImportOutcome::Message(words) => return Ok(words),
    };
    let words = report.words();
    if let Some(Err(failure)) = file.map(|file| file.write(report.json())) {
        // The import has succeeded even if the report cannot be written.
        print_line(&words);
        return Err(failure);
    }
    Ok(words)
}

/// Prints a line, ignoring errors.
fn print_line(words: &str) {
    drop(writeln!(std::io::stdout(), "{}", printable::output(words)));
}

/// Outcome of the command.
enum ImportOutcome {
    Reported(Report),
    Message(String),
}

async fn work(options: &DataImportOptions, database: &Database) -> Result<ImportOutcome, Failure> {
    if let Some(name) = &options.from_api {
        let (token, os_cloud) = (options.from_api_token.as_ref(), options.os_cloud.as_deref());
        let client = named(name, token, os_cloud, options.limits).map_err(Failure)?;
        let mut conn = database.connect().await?;
        let imported = transfer::import_service(&client, &mut conn, options.what()).await?;
        return Ok(ImportOutcome::Reported(imported));
    }
    let Some(from) = options.from_database.as_ref().filter(|_| !options.discard) else {
        let mut conn = database.connect().await?;
        return Ok(ImportOutcome::Message(transfer::discard(&mut conn).await?));
    };
    let what = options.what();
    if !options.follow && !options.finish {
        let mut conn = database.connect().await?;
        return Ok(ImportOutcome::Reported(transfer::import(from, &mut conn, what).await?));
    }
    let connect =
        || -> BoxFuture<'_, store::Result<PgConnection>> { Box::pin(database.try_connect()) };
    let context = FollowContext {
        connect: &connect,
        print: &print_line,
        // A signal ends `--finish` immediately, without partial results.
        stop: if options.finish { watch::channel(false).1 } else { stop_signals()? },
        interval: Duration::from_secs(options.interval.into()),
    };
    Ok(if options.finish {
        ImportOutcome::Reported(transfer::follow::finish(from, &context).await?)
    } else {
        ImportOutcome::Message(transfer::follow::follow(from, what, &context).await?)
    })
}

impl From<transfer::Error> for Failure {
    fn from(error: transfer::Error) -> Self {
        Self(error.to_string())
    }
}

/// Becomes true with the first SIGTERM or SIGINT. The second ends the process at once, without losing data.
fn stop_signals() -> Result<watch::Receiver<bool>, Failure> {
    let cannot = |error| Failure(format!("signals cannot be received: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let (sender, stop) = watch::channel(false);
    tokio::spawn(async move {
        for is_second in [false, true] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if is_second {
                std::process::exit(130);
            }
            sender.send_replace(true);
        }
    });
    Ok(stop)
}

/// Options of `export`.
#[derive(Args, Clone, Debug)]
pub struct ExportOptions {
    /// An empty database of OpenStack Placement, as `connection` in its placement.conf.
    ///
    /// MySQL, MariaDB, PostgreSQL or SQLite, made by `placement-manage db sync`. Set the environment
    /// variable to keep the password out of the list of processes.
    #[arg(long, env = "BERTH_TO_DATABASE", hide_env_values = true, value_name = "URL")]
    pub to_database: ReferenceUrl,

    /// Berth's database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Exports, and returns the report as text.
///
/// # Errors
/// Nothing was exported.
pub async fn export(options: &ExportOptions) -> Result<String, Failure> {
    let export = async |database: &Database| {
        let mut conn = database.connect().await?;
        Ok(transfer::export(&mut conn, &options.to_database).await?.words())
    };
    Database::with(&options.db.database, export).await
}
