//! `berth`: maps arguments to library calls, and their results to exit codes.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use berth::cli::doctor::checks::{self, Finding};
use berth::cli::health::{self, Probe, ServerAddresses};
use berth::cli::{
    self, CheckOptions, Command, CommandError, CompareOptions, ConfigCommand, DbCommand,
    FindingFormat, HealOptions, HealthOptions, ImportOptions, Invocation, PolicyCommand,
    ServerAuditOptions, ShadowOptions, WatchOptions,
};
use berth::config::sources::{Origin, Source, with_origins};
use berth::config::{self, LogOptions};
use berth::moving::config_import::{self, Overrides, Sources};
use berth::observe::{printable, telemetry};
use berth::server::database::Database;
use berth::server::failure::Failure;
use berth::server::parts::Parts;
use berth::server::{serve, stop};
use berth::store::{condition, schema};

/// Many threads allocate and free small objects, often across threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `db status`: the schema does not match this program. `db audit`: the data is inconsistent. `policy check` and
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
        say(std::io::stderr(), &format!("berth: {why}"));
        ExitCode::FAILURE
    });
    if let Some(why) = OUTPUT_LOST.get() {
        say(std::io::stderr(), &format!("berth: standard output: {why}"));
        return ExitCode::FAILURE;
    }
    code
}

fn run(invocation: Invocation) -> Result<ExitCode, Failure> {
    let database = database(&invocation);
    let sources = invocation.sources;
    if let (Some(database), false) = (&database, matches!(invocation.command, Command::Serve(_))) {
        let words =
            database.as_ref().map_err(|why| Failure(with_origins(why.clone(), &sources)))?;
        say(std::io::stderr(), &format!("berth: {words}"));
    }
    match invocation.command {
        Command::Serve(config) => {
            // A wrong endpoint is reported with everything else that is wrong with the options.
            let traces = config.traces.settings().ok().flatten();
            let telemetry = telemetry::start(config.logs.settings(), traces);
            let telemetry = Arc::new(telemetry.map_err(Failure)?);
            // An invalid URL is reported with all other errors.
            if let Some(Ok(words)) = database {
                tracing::info!("{words}");
            }
            let served = wait_for(serve::serve(&config, &sources, cli::read_again, &telemetry))?;
            // If the log could not be written, standard error is not read, and writing to it might block.
            if !telemetry.end() && served.is_err() {
                return Ok(ExitCode::FAILURE);
            }
            served.map_err(|Failure(why)| Failure(with_origins(why, &sources)))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Db(command) => {
            let _logs =
                telemetry::start(command.options().logs.settings(), None).map_err(Failure)?;
            wait_for(db(&command))?
        }
        Command::Config(ConfigCommand::Check(options)) => check(&options, &sources),
        Command::Doctor(options) => {
            let config = &options.config;
            examine(&config.logs, options.format, checks::doctor(config, &sources))
        }
        Command::UpgradeCheck(options) => {
            let config = &options.config;
            examine(&config.logs, options.format, checks::upgrade_check(config, &sources))
        }
        Command::Config(ConfigCommand::Sample) => Ok(printed(&cli::sample())),
        Command::Policy(command) => policy(&command),
        Command::Aggregate(command) => print(&command.db().logs, cli::aggregate(&command)),
        Command::Flavor(command) => print(&command.db().logs, cli::flavor(&command)),
        Command::Group(command) => print(&command.db().logs, cli::group(&command)),
        Command::History(options) => print(&options.db.logs, cli::history(&options)),
        Command::Ls(options) => show(cli::ls(&options)),
        Command::Show(options) => show(cli::show(&options)),
        Command::Top(options) => show(cli::top(&options)),
        Command::Tree(options) => show(cli::tree(&options)),
        Command::Explain(options) => show(cli::explain(&options)),
        Command::Why(options) => show(cli::why(&options)),
        Command::Candidates(options) => show(cli::candidates(&options)),
        Command::Claim(options) => tell(cli::claim(&options, out)),
        Command::Release(options) => tell(cli::release(&options, out)),
        Command::Fit(options) => show(cli::fit(&options)),
        Command::Fragmentation(options) => show(cli::fragmentation(&options)),
        Command::Moves(options) => show(cli::moves(&options)),
        Command::Watch(options) => watch(&options),
        Command::Config(ConfigCommand::Import(options)) => import(&options),
        Command::Compare(options) => compare(&options),
        Command::Export(options) => print(&options.db.logs, cli::export(&options)),
        Command::Import(options) => print(&options.db.logs, cli::import(&options)),
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

fn watch(options: &WatchOptions) -> Result<ExitCode, Failure> {
    let notice = |line: &str| say(std::io::stderr(), line);
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
        say(std::io::stderr(), &format!("berth: {why}"));
        code
    });
    ExitCode::from(code)
}

/// Runs checks and prints their findings.
fn examine(
    logs: &LogOptions,
    format: FindingFormat,
    checks: impl Future<Output = Vec<Finding>>,
) -> Result<ExitCode, Failure> {
    let _logs = telemetry::start(logs.settings(), None).map_err(Failure)?;
    let (text, passes) = cli::findings(&wait_for(checks)?, format);
    out(&text);
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::from(FAULTY) })
}

/// Runs a command, and prints its text if it has one.
fn print(
    logs: &LogOptions,
    work: impl Future<Output = Result<String, Failure>>,
) -> Result<ExitCode, Failure> {
    let _logs = telemetry::start(logs.settings(), None).map_err(Failure)?;
    let text = wait_for(work)??;
    if !text.is_empty() {
        out(&text);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command that asks a service, and prints its text.
fn show(work: impl Future<Output = Result<String, Failure>>) -> Result<ExitCode, Failure> {
    out(&wait_for(work)??);
    Ok(ExitCode::SUCCESS)
}

/// Prints a text.
fn printed(text: &str) -> ExitCode {
    out(text);
    ExitCode::SUCCESS
}

/// Runs a command that prints its own output.
fn tell(work: impl Future<Output = Result<(), Failure>>) -> Result<ExitCode, Failure> {
    wait_for(work)??;
    Ok(ExitCode::SUCCESS)
}

fn out(words: &str) {
    print_line(words.trim_end());
}

/// Exit code 1 means that the services differ.
fn compare(options: &CompareOptions) -> Result<ExitCode, Failure> {
    let _logs = telemetry::start(options.logs.settings(), None).map_err(Failure)?;
    match wait_for(cli::compare(options))? {
        Ok((text, code)) => {
            out(&text);
            Ok(ExitCode::from(code))
        }
        Err(Failure(why)) => {
            say(std::io::stderr(), &format!("berth: {why}"));
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
    let database = Database::open(&command.options().database).await?;
    let outcome = look_after(command, &database).await;
    database.close().await;
    outcome
}

async fn look_after(command: &DbCommand, database: &Database) -> Result<ExitCode, Failure> {
    match command {
        DbCommand::Migrate(_) | DbCommand::Status(_) => check_schema(command, database).await,
        DbCommand::Audit(_) => {
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
    let failed = |error: berth::store::Error| Failure(error.to_string());
    let mut conn = database.connect().await?;
    if let DbCommand::Migrate(_) = command {
        schema::migrate(&mut conn).await.map_err(failed)?;
    }
    let hindrance = schema::status(&mut conn).await.map_err(failed)?.hindrance();
    let read_only = condition::read_only(&mut conn).await.map_err(failed)?;
    let (words, code) =
        match hindrance.or(read_only.map(|(why, advice)| format!("{why}; {advice}"))) {
            None => ("the schema is current".to_owned(), ExitCode::SUCCESS),
            Some(why) => (why, ExitCode::from(FAULTY)),
        };
    out(&words);
    Ok(code)
}

fn check(options: &CheckOptions, sources: &[Source]) -> Result<ExitCode, Failure> {
    let config = &options.config;
    Parts::read(config).map_err(|Failure(why)| Failure(with_origins(why, sources)))?;
    if let Some(why) = serve::descriptor_shortage(config) {
        say(std::io::stderr(), &format!("berth: warning: {why}"));
    }
    for Source { option, value, origin, .. } in sources {
        out(&format!("{option} = {value} ({origin})"));
    }
    if !options.online {
        return Ok(ExitCode::SUCCESS);
    }
    examine(&config.logs, FindingFormat::Text, checks::doctor(config, sources))
}

/// Names the database that a command uses, with the option that selects it; `None` if it uses none.
fn database(invocation: &Invocation) -> Option<Result<String, String>> {
    let options = match &invocation.command {
        Command::Serve(config) => &config.database,
        Command::Db(command) => &command.options().database,
        Command::Aggregate(command) => &command.db().database,
        Command::Flavor(command) => &command.db().database,
        Command::Group(command) => &command.db().database,
        Command::History(options) => &options.db.database,
        Command::Export(options) => &options.db.database,
        Command::Import(options) => &options.db.database,
        Command::Doctor(options) | Command::UpgradeCheck(options) => &options.config.database,
        Command::Compare(_)
        | Command::Config(_)
        | Command::Policy(_)
        | Command::Explain(_)
        | Command::Why(_)
        | Command::Candidates(_)
        | Command::Claim(_)
        | Command::Release(_)
        | Command::Fit(_)
        | Command::Fragmentation(_)
        | Command::Moves(_)
        | Command::Ls(_)
        | Command::Show(_)
        | Command::Top(_)
        | Command::Tree(_)
        | Command::Watch(_)
        | Command::Audit(_)
        | Command::Heal(_)
        | Command::Health(_)
        | Command::Shadow(_)
        | Command::Completions { .. }
        | Command::Man { .. } => return None,
    };
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
                    say(std::io::stderr(), &format!("berth: {why}"));
                    return Ok(ExitCode::from(FAULTY));
                }
            }
        }
    };
    out(&text);
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn import(options: &ImportOptions) -> Result<ExitCode, Failure> {
    if options.table {
        out(config_import::table::markdown().trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let sources = Sources::read(&options.files, &options.config_dir)
        .map_err(|why| Failure(why.to_string()))?;
    let overrides = Overrides { database_url: options.database_url.clone() };
    let outcome = config_import::import(&sources, &overrides);
    let diagnostics = outcome.as_ref().map_or_else(|it| it, |imported| &imported.diagnostics);
    for diagnostic in diagnostics {
        say(std::io::stderr(), &format!("berth: {diagnostic}"));
    }
    let Ok(imported) = outcome else {
        return Err(Failure("nothing was written because of the errors above".to_owned()));
    };
    match &options.output {
        Some(path) => config_import::output::write(path, &imported.toml, options.force)
            .map_err(|why| Failure(format!("{}: {why}", path.display())))?,
        None => out(imported.toml.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

fn health(options: &HealthOptions) -> Result<ExitCode, Failure> {
    let mut apis = options.listen.clone();
    if options.ready {
        let planner = config::planner_endpoints(&options.planner_listen).map_err(Failure)?;
        apis.extend(planner.into_iter().cloned());
    }
    let probe = if options.ready { Probe::IsReady } else { Probe::Answers };
    let addresses = ServerAddresses {
        apis,
        admin: options.admin_listen.clone(),
        has_tls: options.tls_cert.is_some(),
        demands_certificates: options.tls_client_ca.is_some(),
    };
    let mut code = ExitCode::SUCCESS;
    for (endpoint, with_tls) in addresses.targets(probe) {
        if let Err(why) = health::health(endpoint, with_tls, probe) {
            say(std::io::stderr(), &format!("berth: {endpoint}: {why}"));
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Runs a future to completion.
fn wait_for<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    stop::run(work).map_err(|error| Failure(format!("cannot start: {error}")))
}

/// Writes a line, ignoring errors.
fn say(mut stream: impl Write, words: &str) {
    drop(writeln!(stream, "{}", printable::output(words)));
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
