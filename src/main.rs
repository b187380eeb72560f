//! `berth`: maps arguments to library calls, and their results to exit codes.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use berth::cli::check::checks::{self, Finding};
use berth::cli::health::HealthOptions;
use berth::cli::{
    self, Command, CommandError, CompareOptions, ConfigCommand, DbCommand, DumpOptions,
    FindingFormat, GrantsOptions, HealOptions, Invocation, PolicyCommand, RestoreOptions,
    ServerAuditOptions, ShadowOptions, ShellOptions, WatchOptions,
};
use berth::config::Config;
use berth::config::gone;
use berth::config::sources::{Origin, Source, with_origins};
use berth::observe::{printable, telemetry};
use berth::server::database::Database;
use berth::server::failure::Failure;
use berth::server::parts::Parts;
use berth::server::{serve, stop};
use berth::store::{condition, schema};

/// Many threads allocate and free small objects, often across threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `db status`: the schema does not match this program. `db check`: the data is inconsistent. `policy check` and
/// `compare`: the result is undetermined.
const FAULTY: u8 = 2;

/// The first error of writing to standard output.
static OUTPUT_LOST: OnceLock<String> = OnceLock::new();

fn main() -> ExitCode {
    let invocation = match cli::parse(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(invocation) => invocation,
        Err(error) => error.exit(),
    };
    let code = run(invocation).unwrap_or_else(|Failure(why)| {
        report(&why);
        ExitCode::FAILURE
    });
    if let Some(why) = OUTPUT_LOST.get() {
        report(&format!("standard output: {why}"));
        return ExitCode::FAILURE;
    }
    code
}

fn run(invocation: Invocation) -> Result<ExitCode, Failure> {
    let database = database(&invocation);
    let Invocation { command, sources, logs, .. } = invocation;
    let mut started = None;
    if !matches!(command, Command::Serve(_) | Command::Shadow(_) | Command::Config(_)) {
        if let Some(database) = &database {
            let words = database.clone().map_err(|why| Failure(with_origins(why, &sources)))?;
            report(&words);
        }
        let logs = logs.map(|logs| telemetry::start(logs.settings(), None));
        started = logs.transpose().map_err(Failure)?;
    }
    // Dropping it writes the last lines of the log.
    let _logs = started;
    match command {
        Command::Serve(config) => serve(&config, &sources, database),
        Command::Db(command) => wait_for(db(&command))?,
        Command::Config(ConfigCommand::Check(config)) => check(&config, &sources),
        Command::Check(options) if options.upgrade => {
            examine(options.format, checks::upgrade(&options.config, &sources))
        }
        Command::Check(options) => examine(options.format, checks::all(&options.config, &sources)),
        Command::Config(ConfigCommand::Show(options)) => show(cli::config_show(&options)),
        Command::Config(ConfigCommand::Sample) => Ok(printed(&cli::sample())),
        Command::Policy(command) => policy(&command),
        Command::Aggregate(command) => show(cli::aggregate(&command)),
        Command::Flavor(command) => show(cli::flavor(&command)),
        Command::Group(command) => show(cli::group(&command)),
        Command::History(options) => show(cli::history(&options)),
        Command::Members(options) => show(cli::members(&options)),
        Command::Maintenance(options) => show(cli::maintenance(&options)),
        Command::Debug(options) => show(cli::debug(&options, &sources)),
        Command::Ls(options) => show(cli::ls(&options)),
        Command::Show(options) => show(cli::show(&options)),
        Command::Tree(options) => show(cli::tree(&options)),
        Command::Explain(options) => show(cli::explain(&options)),
        Command::Why(options) => show(cli::why(&options)),
        Command::Candidates(options) => show(cli::candidates(&options)),
        Command::Claim(options) => complete(cli::claim(&options, out)),
        Command::Release(options) => complete(cli::release(&options, out)),
        Command::Fit(options) => show(cli::fit(&options)),
        Command::Fragmentation(options) => show(cli::fragmentation(&options)),
        Command::Moves(options) => show(cli::moves(&options)),
        Command::Drain(options) => show(cli::drain(&options)),
        Command::Rebalance(options) => show(cli::rebalance(&options)),
        Command::Watch(options) => watch(&options),
        Command::Config(ConfigCommand::Convert(options)) => {
            if let Some(text) = cli::config_convert(&options, report)? {
                out(&text);
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Compare(options) => compare(&options),
        Command::Export(options) => show(cli::export(&options)),
        Command::Import(options) => show(cli::import(&options)),
        Command::Shadow(options) => shadow(&options),
        Command::Audit(options) => audit_servers(&options),
        Command::Heal(options) => heal(&options),
        Command::Health(options) => health(&options),
        Command::Completions { shell } => Ok(printed(&cli::completions(shell))),
        Command::Man { directory } => {
            let failed = |error| Failure(format!("{}: {error}", directory.display()));
            cli::man_pages(&directory).map_err(failed)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs the server. `database` describes its database.
fn serve(
    config: &Config,
    sources: &[Source],
    database: Option<Result<String, String>>,
) -> Result<ExitCode, Failure> {
    // A wrong endpoint is reported with everything else that is wrong with the options.
    let traces = config.traces.settings().ok().flatten();
    let telemetry = telemetry::start(config.logs.settings(), traces);
    let telemetry = Arc::new(telemetry.map_err(Failure)?);
    // An invalid URL is reported with all other errors.
    if let Some(Ok(words)) = database {
        tracing::info!("{words}");
    }
    let served = wait_for(serve::serve(config, sources, cli::read_again, &telemetry))?;
    // If the log could not be written, standard error is not read, and writing to it might block.
    if !telemetry.end() && served.is_err() {
        return Ok(ExitCode::FAILURE);
    }
    served.map_err(|Failure(why)| Failure(with_origins(why, sources)))?;
    Ok(ExitCode::SUCCESS)
}

fn health(options: &HealthOptions) -> Result<ExitCode, Failure> {
    let failures = cli::health::run(options)?;
    for why in &failures {
        report(why);
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn watch(options: &WatchOptions) -> Result<ExitCode, Failure> {
    wait_for(cli::watch(options, print_line, notice))??;
    Ok(ExitCode::SUCCESS)
}

fn audit_servers(options: &ServerAuditOptions) -> Result<ExitCode, Failure> {
    let done = wait_for(cli::audit(options))?;
    Ok(ended(done.map(|(text, code)| {
        out(&text);
        code
    })))
}

fn heal(options: &HealOptions) -> Result<ExitCode, Failure> {
    let done = wait_for(cli::heal(options, out))?;
    Ok(ended(done))
}

/// The exit code of a command that defines its own.
fn ended(done: Result<u8, CommandError>) -> ExitCode {
    let code = done.unwrap_or_else(|CommandError { why, code }| {
        report(&why);
        code
    });
    ExitCode::from(code)
}

/// Runs checks and prints their findings.
fn examine(
    format: FindingFormat,
    checks: impl Future<Output = Vec<Finding>>,
) -> Result<ExitCode, Failure> {
    let (text, passes) = cli::findings(&wait_for(checks)?, format);
    out(&text);
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::from(FAULTY) })
}

/// Runs a command, and prints its text if it has one.
fn show(work: impl Future<Output = Result<String, Failure>>) -> Result<ExitCode, Failure> {
    let text = wait_for(work)??;
    if !text.is_empty() {
        out(&text);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a text.
fn printed(text: &str) -> ExitCode {
    out(text);
    ExitCode::SUCCESS
}

/// Runs a command that prints its own output.
fn complete(work: impl Future<Output = Result<(), Failure>>) -> Result<ExitCode, Failure> {
    wait_for(work)??;
    Ok(ExitCode::SUCCESS)
}

fn out(words: &str) {
    print_line(words.trim_end());
}

/// Exit code 1 means that the services differ.
fn compare(options: &CompareOptions) -> Result<ExitCode, Failure> {
    match wait_for(cli::compare(options))? {
        Ok((text, code)) => {
            out(&text);
            Ok(ExitCode::from(code))
        }
        Err(Failure(why)) => {
            report(&why);
            Ok(ExitCode::from(FAULTY))
        }
    }
}

fn shadow(options: &ShadowOptions) -> Result<ExitCode, Failure> {
    let telemetry = Arc::new(telemetry::start(options.logs.settings(), None).map_err(Failure)?);
    let summary = wait_for(cli::shadow(options, &telemetry))?;
    telemetry.end();
    out(&summary?);
    Ok(ExitCode::SUCCESS)
}

async fn db(command: &DbCommand) -> Result<ExitCode, Failure> {
    let options = match command {
        DbCommand::Migrate(options) | DbCommand::Status(options) | DbCommand::Check(options) => {
            options
        }
        DbCommand::Grants(GrantsOptions { db, .. })
        | DbCommand::Shell(ShellOptions { db, .. })
        | DbCommand::Dump(DumpOptions { db, .. })
        | DbCommand::Restore(RestoreOptions { db, .. }) => db,
    };
    Database::with(&options.database, async |database| run_on(command, database).await).await
}

async fn run_on(command: &DbCommand, database: &Database) -> Result<ExitCode, Failure> {
    match command {
        DbCommand::Migrate(_) | DbCommand::Status(_) => check_schema(command, database).await,
        DbCommand::Check(_) => {
            let faults = cli::faults(database).await?;
            let summary = format!("{} faults", faults.len());
            faults.iter().chain([&summary]).for_each(|line| out(line));
            Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAULTY) })
        }
        DbCommand::Grants(options) => {
            out(cli::grants(options, database).await?.trim_end());
            Ok(ExitCode::SUCCESS)
        }
        DbCommand::Shell(options) => cli::shell(options, database).await,
        DbCommand::Dump(options) => cli::dump(options, database).await,
        DbCommand::Restore(options) => {
            let (lines, code) = cli::restore(options, database).await?;
            for line in &lines {
                out(line);
            }
            Ok(code)
        }
    }
}

async fn check_schema(command: &DbCommand, database: &Database) -> Result<ExitCode, Failure> {
    let mut conn = database.connect().await?;
    if let DbCommand::Migrate(_) = command {
        schema::migrate(&mut conn).await?;
    }
    let hindrance = schema::status(&mut conn).await?.hindrance();
    let read_only = condition::read_only(&mut conn).await?;
    let (words, code) =
        match hindrance.or(read_only.map(|(why, advice)| format!("{why}; {advice}"))) {
            None => ("the schema is current".to_owned(), ExitCode::SUCCESS),
            Some(why) => (why, ExitCode::from(FAULTY)),
        };
    out(&words);
    Ok(code)
}

fn check(config: &Config, sources: &[Source]) -> Result<ExitCode, Failure> {
    let parts = Parts::read(config).and_then(|parts| match parts.faults().as_slice() {
        [] => Ok(parts),
        faults => Err(Failure(faults.join("\n"))),
    });
    let parts = parts.map_err(|Failure(why)| Failure(with_origins(why, sources)))?;
    let warnings = parts.warnings().iter().cloned().chain(serve::descriptor_shortage(config));
    for why in gone::warnings(sources).chain(warnings) {
        report(&format!("warning: {why}"));
    }
    out(&cli::option_lines(&gone::in_force(sources)));
    Ok(ExitCode::SUCCESS)
}

/// Names the database that a command uses, with the option that selects it; `None` if it uses none.
fn database(invocation: &Invocation) -> Option<Result<String, String>> {
    let options = invocation.database.as_ref()?;
    let origin = match invocation.origin(options.decided_by()) {
        None | Some(Origin::Default) => "no option names another".to_owned(),
        Some(origin) => origin.to_string(),
    };
    let words = |database| format!("the database is {database} ({origin})");
    Some(options.describe().map(words))
}

fn policy(command: &PolicyCommand) -> Result<ExitCode, Failure> {
    let (passes, text) = match command {
        PolicyCommand::List(options) => (true, cli::policy_list(options).map_err(Failure)?),
        PolicyCommand::Sample => (true, berth::auth::policy::sample()),
        PolicyCommand::Check(options) => {
            match wait_for(cli::policy_check(options))? {
                Ok(verdict) => verdict,
                // Exit code 1 means that the caller is not allowed.
                Err(why) => {
                    report(&why);
                    return Ok(ExitCode::from(FAULTY));
                }
            }
        }
    };
    out(&text);
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a future to completion.
fn wait_for<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    stop::run(work).map_err(|error| Failure(format!("cannot start: {error}")))
}

/// Writes a message of this program to standard error, ignoring errors.
fn report(message: &str) {
    notice(&format!("berth: {message}"));
}

/// Writes a line to standard error, ignoring errors.
fn notice(line: &str) {
    drop(writeln!(std::io::stderr(), "{}", printable::output(line)));
}

/// Writes a line to standard output. Returns whether that succeeded. The first error other than a closed stream is
/// reported at the end.
fn print_line(words: &str) -> bool {
    let written = writeln!(std::io::stdout(), "{}", printable::output(words));
    if let Err(error) = &written
        && error.kind() != ErrorKind::BrokenPipe
    {
        // Only the first error is reported.
        drop(OUTPUT_LOST.set(error.to_string()));
    }
    written.is_ok()
}
