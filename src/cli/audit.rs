//! `berth audit`: what a placement service holds, beside nova's servers.

use std::io::{Read, Write};
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

/// How far the clock of the machine where the servers were listed may be ahead of this one.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::minutes(1);

/// Exit codes, as those of `nova-manage placement audit` and `heal_allocations`.
pub(super) mod exit {
    /// Nothing was found, or all that was planned is done.
    pub(crate) const CLEAN: u8 = 0;
    /// The service fails.
    pub(crate) const FAILED: u8 = 1;
    /// Something was found; or was not done, because it has changed or is refused.
    pub(crate) const FOUND: u8 = 3;
    /// There was nothing to do.
    pub(crate) const NOTHING_DONE: u8 = 4;
    /// What was given cannot be used.
    pub(crate) const INVALID: u8 = 127;
}

/// Why a command stopped, with its exit code.
#[derive(Debug)]
pub struct Stopped {
    /// The reason, for the operator.
    pub why: String,
    /// The exit code.
    pub code: u8,
}

impl Stopped {
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
    /// What `openstack server list --all-projects --long -f json` prints, or pages of
    /// `GET /servers/detail`, read by an administrator. Clients before 6.1 need `--limit -1`, or they
    /// stop after 1000 servers. Pages of microversion 2.47 or later also have amounts.
    #[arg(long, value_name = "FILE", required = true)]
    pub servers: Vec<PathBuf>,

    /// When the servers were listed: a time, or an age such as `10m`.
    ///
    /// Default: when the files last changed, the oldest of them. Say it if they were copied. May not be
    /// later than now.
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub taken: Option<OffsetDateTime>,

    /// Leave alone what has changed so shortly before the servers were listed, or since.
    #[arg(long, value_name = "AGE", default_value = "1h", value_parser = age)]
    pub grace: Duration,

    /// How many consumers may be orphans before the servers are taken for incomplete.
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

/// Runs `berth audit`: the report, and the exit code.
///
/// # Errors
/// Nothing could be compared, or the servers cannot be the right ones.
pub async fn run(options: &ServerAuditOptions) -> Result<(String, u8), Stopped> {
    let began = Instant::now();
    let cloud = listed(options)?;
    let client = options.service.client().map_err(Stopped::invalid)?;
    let service = Service::open(client).await.map_err(Stopped::failed)?;
    let placement = service.placement().await.map_err(Stopped::failed)?;
    let rules = Rules { grace: options.grace, owners: options.owners };
    let audit = Audit::new(&placement, &cloud, rules);
    let details = service.details(audit.suspects()).await.map_err(Stopped::failed)?;
    let outcome = audit.outcome(&details);
    guard::check(&placement, &cloud, &outcome, options.max_orphans).map_err(Stopped::invalid)?;
    if let Some(path) = &options.plan {
        let plan = Plan::new(&placement, cloud.source.clone(), &outcome, OffsetDateTime::now_utc());
        write(path, &plan.json())?;
    }
    let report = Report::new(&placement, &cloud, outcome, began.elapsed().as_secs_f64());
    let code = if report.is_clean() { exit::CLEAN } else { exit::FOUND };
    Ok((if options.json { report.json() } else { report.words() }, code))
}

/// The servers of the files.
fn listed(options: &ServerAuditOptions) -> Result<Cloud, Stopped> {
    let now = OffsetDateTime::now_utc();
    let mut taken = options.taken.map_or(Ok(now), |taken| past(taken, now))?;
    let mut lists = Lists::default();
    for path in &options.servers {
        let (name, text, changed) =
            read(path).map_err(|error| Stopped::invalid(format!("{}: {error}", path.display())))?;
        lists.add(&name, &text).map_err(Stopped::invalid)?;
        if options.taken.is_none() {
            taken = taken.min(changed);
        }
    }
    lists.into_cloud(taken).map_err(Stopped::invalid)
}

/// A time at which servers were listed: not after now.
///
/// A later one would let what has changed since the list count as old, against `--grace`: the allocations of a
/// server that was made after the list would be those of no server.
fn past(taken: OffsetDateTime, now: OffsetDateTime) -> Result<OffsetDateTime, Stopped> {
    if taken > now + CLOCK_DIFFERENCE_MAX {
        let time = |time: OffsetDateTime| {
            time.replace_nanosecond(0)
                .map_or(time, |time| time)
                .format(&Rfc3339)
                .unwrap_or_else(|error| error.to_string())
        };
        return Err(Stopped::invalid(format!(
            "--taken {} is later than now ({}): give the time at which the servers were listed, in UTC or with the \
             offset of its time zone",
            time(taken),
            time(now)
        )));
    }
    Ok(taken.min(now))
}

/// The name of a file, what it has, and when it last changed. What a pipe brings is made from now on.
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

fn write(path: &Path, text: &str) -> Result<(), Stopped> {
    let written = std::fs::File::create(path).and_then(|mut file| writeln!(file, "{text}"));
    written.map_err(|error| Stopped::failed(format!("{}: {error}", path.display())))
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
        // The grace is counted from this machine's clock then.
        assert_eq!(past(NOW + Duration::seconds(50), NOW).unwrap(), NOW);
    }
}
