//! `berth audit`: compares the contents of a placement service with nova's servers.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::service::ServiceOptions;
use super::times::{age, since};
use crate::moving::server_audit::classify::{Audit, Rules};
use crate::moving::server_audit::cloud::Cloud;
use crate::moving::server_audit::guard;
use crate::moving::server_audit::list::Lists;
use crate::moving::server_audit::plan::Plan;
use crate::moving::server_audit::report::Report;
use crate::moving::server_audit::service::Service;

/// Maximum lead of the clock of the machine that listed the servers.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::minutes(1);

/// Exit codes, as those of `nova-manage placement audit` and `heal_allocations`.
pub(super) mod exit {
    /// Nothing was found, or all planned actions are done.
    pub(crate) const CLEAN: u8 = 0;
    /// The service fails.
    pub(crate) const FAILED: u8 = 1;
    /// Something was found; or an action was left out, because its consumers have changed or it is refused.
    pub(crate) const FOUND: u8 = 3;
    /// There was nothing to do.
    pub(crate) const NOTHING_DONE: u8 = 4;
    /// The input is invalid.
    pub(crate) const INVALID: u8 = 127;
}

/// An error that ends a command, with its exit code.
#[derive(Debug)]
pub struct CommandError {
    /// The reason, for the operator.
    pub why: String,
    /// The exit code.
    pub code: u8,
}

impl CommandError {
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self { why: why.into(), code: exit::INVALID }
    }

    #[expect(clippy::needless_pass_by_value, reason = "errors are mapped by it")]
    pub(super) fn failed(why: impl ToString) -> Self {
        Self { why: why.to_string(), code: exit::FAILED }
    }
}

/// Options of `audit`.
#[derive(Args, Clone, Debug)]
pub struct ServerAuditOptions {
    /// File with nova's servers; `-`: standard input. May be repeated.
    ///
    /// The output of `openstack server list --all-projects --long -f json`, or pages of
    /// `GET /servers/detail`, as an administrator. Clients before 6.1 need `--limit -1`, or they
    /// stop after 1000 servers. Pages of microversion 2.47 or later also have amounts.
    #[arg(long, value_name = "FILE", required = true)]
    pub servers: Vec<PathBuf>,

    /// Time at which the servers were listed, or an age such as `10m`.
    ///
    /// Default: when the files last changed, the oldest of them. Say it if they were copied. May not be
    /// later than now.
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub taken: Option<OffsetDateTime>,

    /// Ignore consumers that have changed less than this before the servers were listed, or since.
    #[arg(long, value_name = "AGE", default_value = "1h", value_parser = age)]
    pub grace: Duration,

    /// Maximum number of orphaned consumers before the list of servers is considered incomplete.
    ///
    /// Default: a hundredth of the consumers, or 2.
    #[arg(long, value_name = "COUNT")]
    pub max_orphans: Option<usize>,

    /// Compare projects and users as well, with one more request for each server.
    #[arg(long)]
    pub owners: bool,

    /// Write a plan for `berth heal` to this file. An existing file is overwritten.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,

    /// Print the whole report as JSON.
    #[arg(long)]
    pub json: bool,

    /// The service.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Runs `berth audit`: returns the report and the exit code.
///
/// # Errors
/// Nothing could be compared, or the servers cannot be the right ones.
pub async fn run(options: &ServerAuditOptions) -> Result<(String, u8), CommandError> {
    let began = Instant::now();
    let cloud = listed(options)?;
    let client =
        options.service.client().map_err(|failure| CommandError::invalid(failure.to_string()))?;
    let service = Service::open(client).await.map_err(CommandError::failed)?;
    let placement = service.placement().await.map_err(CommandError::failed)?;
    let rules = Rules { grace: options.grace, owners: options.owners };
    let audit = Audit::new(&placement, &cloud, rules);
    let details = service.details(audit.suspects()).await.map_err(CommandError::failed)?;
    let outcome = audit.outcome(&details);
    guard::check(&placement, &cloud, &outcome, options.max_orphans)
        .map_err(CommandError::invalid)?;
    if let Some(path) = &options.plan {
        let plan = Plan::new(&placement, cloud.source.clone(), &outcome, OffsetDateTime::now_utc());
        write(path, &plan.json())?;
    }
    let report = Report::new(&placement, &cloud, outcome, began.elapsed().as_secs_f64());
    let code = if report.is_clean() { exit::CLEAN } else { exit::FOUND };
    Ok((if options.json { report.json() } else { report.words() }, code))
}

/// Reads the servers from the files.
fn listed(options: &ServerAuditOptions) -> Result<Cloud, CommandError> {
    let now = OffsetDateTime::now_utc();
    let mut taken = options.taken.map_or(Ok(now), |taken| past(taken, now))?;
    let mut lists = Lists::default();
    for path in &options.servers {
        let (name, text, changed) = read(path)
            .map_err(|error| CommandError::invalid(format!("{}: {error}", path.display())))?;
        lists.add(&name, &text).map_err(CommandError::invalid)?;
        if options.taken.is_none() {
            taken = taken.min(changed);
        }
    }
    lists.into_cloud(taken).map_err(CommandError::invalid)
}

/// Checks that the servers were not listed in the future.
///
/// Otherwise, changes after the listing would count as old, contrary to `--grace`: the allocations of a server
/// created after it would seem to have no server.
fn past(taken: OffsetDateTime, now: OffsetDateTime) -> Result<OffsetDateTime, CommandError> {
    if taken > now + CLOCK_DIFFERENCE_MAX {
        let time = |time: OffsetDateTime| {
            time.replace_nanosecond(0)
                .map_or(time, |time| time)
                .format(&Rfc3339)
                .unwrap_or_else(|error| error.to_string())
        };
        return Err(CommandError::invalid(format!(
            "--taken {} is later than now ({}): give the time at which the servers were listed, in UTC or with the \
             offset of its time zone",
            time(taken),
            time(now)
        )));
    }
    Ok(taken.min(now))
}

/// The name of a file, its contents, and its modification time. The contents of a pipe count as modified now.
fn read(path: &Path) -> std::io::Result<(String, Vec<u8>, OffsetDateTime)> {
    if path == Path::new("-") {
        let began = OffsetDateTime::now_utc();
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text)?;
        return Ok(("standard input".to_owned(), text, began));
    }
    let changed = std::fs::metadata(path)?.modified()?;
    let text = std::fs::read(path)?;
    Ok((path.display().to_string(), text, OffsetDateTime::from(changed)))
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    std::fs::write(path, format!("{text}\n"))
        .map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use time::{Duration, OffsetDateTime};

    use super::{exit, past};

    const NOW: OffsetDateTime = datetime!(2026-11-24 12:00:00 UTC);

    #[test]
    fn servers_cannot_have_been_listed_later_than_now() {
        assert_eq!(past(NOW - Duration::HOUR, NOW).unwrap(), NOW - Duration::HOUR);
        let stopped = past(NOW + Duration::minutes(2), NOW).unwrap_err();
        assert_eq!(stopped.code, exit::INVALID);
        let named = "--taken 2026-11-24T12:02:00Z is later than now (2026-11-24T12:00:00Z)";
        assert!(stopped.why.contains(named), "{}", stopped.why);
    }

    #[test]
    fn clocks_may_differ_a_little() {
        // The grace period then starts at this machine's time.
        assert_eq!(past(NOW + Duration::seconds(50), NOW).unwrap(), NOW);
    }
}
