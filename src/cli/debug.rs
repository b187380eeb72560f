//! `berth debug`: collects what is needed to find the cause of a problem, as a tar file of texts.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use time::OffsetDateTime;
use time::macros::format_description;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::check::{FindingFormat, checks, findings};
use super::columns::{FormatOptions, ListFormat};
use super::config_show::{lines, of_server};
use super::health;
use super::members::listed;
use super::report_file::ReportFile;
use super::service::ServiceOptions;
use crate::config::Config;
use crate::config::gone::in_force;
use crate::config::sources::Source;
use crate::observe::version;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::store::{replicas, report};

/// Maximum number of lines of the log.
const LOG_LINES: &str = "20000";
/// Timeout for a command, and for the report on the database.
const PART_MAX: Duration = Duration::from_mins(1);
/// Files of the system that are copied.
const OF_SYSTEM: [&str; 4] =
    ["/proc/version", "/proc/loadavg", "/proc/meminfo", "/proc/pressure/io"];

/// Options of `debug`.
#[derive(Args, Clone, Debug)]
pub struct DebugOptions {
    /// The file to write. Default: `berth-debug-HOST-TIME.tar.gz` in the working directory.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Seconds between the two readings of the metrics.
    #[arg(long, default_value = "10", value_name = "SECONDS",
          value_parser = clap::value_parser!(u16).range(1..=600))]
    pub interval: u16,

    /// The running server, whose options are collected.
    #[command(flatten)]
    pub service: ServiceOptions,

    /// The options of `serve`.
    #[command(flatten)]
    pub config: Config,
}

/// A file of the bundle.
struct Part {
    name: &'static str,
    about: &'static str,
    text: String,
}

/// Runs `berth debug`, and returns its output. `sources` has the origins of the options.
///
/// # Errors
/// The file cannot be written. A part that cannot be collected has the reason in its place.
pub async fn run(options: &DebugOptions, sources: &[Source]) -> Result<String, Failure> {
    let DebugOptions { output, interval, service, config } = options;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let now = OffsetDateTime::now_utc();
    let stamp = now.format(format_description!("[year][month][day]T[hour][minute][second]Z"));
    let stamp = stamp.map_err(|it| Failure(it.to_string()))?;
    let folder = format!("berth-debug-{host}-{stamp}");
    let path = output.clone().unwrap_or_else(|| PathBuf::from(format!("{folder}.tar.gz")));
    // Before the work, because it may not be writable.
    let file = ReportFile::open(&path)?;
    let part = |name, about, text| Part { name, about, text };
    let metrics = async || {
        let config = config.clone();
        let read = tokio::task::spawn_blocking(move || health::metrics(&config)).await;
        or_why(read.map_err(|error| error.to_string()).flatten())
    };
    let first_metrics = metrics().await;
    let format = FormatOptions { format: ListFormat::Table, json: false };
    let mut parts = vec![
        part(
            "check.txt",
            "the findings of `berth check`",
            findings(&checks::all(config, sources).await, FindingFormat::Text).0,
        ),
        part(
            "options-server.txt",
            "the options of the running server",
            or_why(of_server(service, format).await),
        ),
        part(
            "options-here.txt",
            "the options as flags, environment and file give them to this command",
            lines(&in_force(sources)),
        ),
        part("members.txt", "the replicas", or_why(on_database(config, members).await)),
        part(
            "database.txt",
            "settings, sessions, locks, sizes and slow statements of PostgreSQL",
            or_why(
                on_database(config, async |database| {
                    Ok(report::report(&mut database.connect().await?).await)
                })
                .await,
            ),
        ),
        part("log.txt", "the end of the log of the unit `berth`", or_why(log().await)),
        part("system.txt", "the machine", system()),
    ];
    sleep(Duration::from_secs((*interval).into())).await;
    let about = "the metrics, and again after a while";
    parts.extend([
        part("metrics-1.txt", about, first_metrics),
        part("metrics-2.txt", about, metrics().await),
    ]);
    parts.insert(0, part("README.txt", "", introduction(&parts, &host, &stamp)));
    let packed = packed(&folder, &parts, now).map_err(|it| Failure(it.to_string()))?;
    file.write(&packed)?;
    Ok(format!("{} is complete; read it before you send it (tar -xf)", path.display()))
}

/// Returns the text, or the error in its place.
fn or_why<E: Display>(outcome: Result<String, E>) -> String {
    outcome.unwrap_or_else(|why| format!("not known: {why}"))
}

async fn on_database(
    config: &Config,
    work: impl AsyncFnOnce(&Database) -> Result<String, Failure>,
) -> Result<String, Failure> {
    let done = timeout(PART_MAX, Database::with(&config.database, work)).await;
    done.unwrap_or_else(|_| Err(Failure(format!("no response in {PART_MAX:?}"))))
}

async fn members(database: &Database) -> Result<String, Failure> {
    let all = replicas::list(&mut database.connect().await?).await?;
    Ok(listed(&all, ListFormat::Table))
}

/// The end of the journal of Berth.
async fn log() -> Result<String, String> {
    let mut command = Command::new("journalctl");
    command.args(["--unit=berth", "--no-pager", "--output=short-iso", "--lines", LOG_LINES]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let advice = "add the log of the container or the process";
    let output = timeout(PART_MAX, command.output()).await;
    let output = output.map_err(|_| format!("journalctl does not end; {advice}"))?;
    let output = output.map_err(|error| format!("journalctl: {error}; {advice}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("journalctl: {}; {advice}", why.trim()))
}

fn system() -> String {
    let file = |path: &&str| {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        format!("# {path}\n\n{}\n", or_why(text))
    };
    let processors = std::thread::available_parallelism().map(|it| it.to_string());
    let processors = format!("# Processors\n\n{}\n\n", or_why(processors));
    processors + &OF_SYSTEM.iter().map(file).collect::<String>()
}

fn introduction(parts: &[Part], host: &str, stamp: &str) -> String {
    let about = |part: &Part| format!("{:20}{}\n", part.name, part.about);
    let list: String = parts.iter().map(about).collect();
    format!(
        "Made by `berth debug` of {} on {host} at {stamp}.\n\n{list}\n\
         Passwords and tokens are not in these files. Names and addresses of machines, and the paths, users and\n\
         projects of requests are.\n",
        version::line()
    )
}

fn packed(folder: &str, parts: &[Part], now: OffsetDateTime) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for Part { name, text, .. } in parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now.unix_timestamp().cast_unsigned());
        archive.append_data(&mut header, format!("{folder}/{name}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()
}
