//! `berth heal`: carries out a plan of `berth audit`.

use std::path::PathBuf;

use clap::Args;
use time::{Duration, OffsetDateTime};

use super::audit::{CommandError, exit};
use super::service::ServiceOptions;
use super::terminal::confirmed;
use super::times::age;
use crate::moving::server_audit::heal::{self, ActionOutcome, PlanMismatch};
use crate::moving::server_audit::plan::Plan;
use crate::moving::server_audit::service::Service;
use crate::observe::printable::escaped;

/// Options of `heal`.
#[derive(Args, Clone, Debug)]
pub struct HealOptions {
    /// Plan that `berth audit --plan` wrote. Actions may be removed from it; do not change it otherwise.
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,

    /// Check everything, and report the actions, but change nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Do not ask for confirmation on the terminal.
    #[arg(long)]
    pub yes: bool,

    /// Accept that the plan's service has another address now.
    #[arg(long)]
    pub moved: bool,

    /// Maximum age of the plan. Servers may have been deleted since.
    #[arg(long, value_name = "AGE", default_value = "1d", value_parser = age)]
    pub max_age: Duration,

    /// The service.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Number of actions by outcome.
#[derive(Default)]
struct Tally {
    done: usize,
    would_be_done: usize,
    done_before: usize,
    changed: usize,
    refused: usize,
    failed: usize,
}

/// Runs `berth heal`. Passes each line of the report to `out` at once. Returns the exit code.
///
/// # Errors
/// Nothing was done: the plan is unusable, or the service is another one.
pub async fn run(options: &HealOptions, mut out: impl FnMut(&str)) -> Result<u8, CommandError> {
    let path = options.plan.display();
    let invalid = |why: String| CommandError::invalid(format!("{path}: {why}"));
    let text = std::fs::read(&options.plan).map_err(|error| invalid(error.to_string()))?;
    let plan = Plan::read(&text).map_err(invalid)?;
    let age = OffsetDateTime::now_utc() - plan.made().map_err(invalid)?;
    if age > options.max_age {
        let hours = age.whole_hours();
        return Err(invalid(format!(
            "the plan is {hours} hours old: audit again, or allow it by --max-age"
        )));
    }
    if plan.actions.is_empty() {
        out("the plan has no actions");
        return Ok(exit::NOTHING_DONE);
    }
    let client =
        options.service.client().map_err(|failure| CommandError::invalid(failure.to_string()))?;
    let service = Service::open(client).await.map_err(CommandError::failed)?;
    heal::check_service(&service, &plan, options.moved).await.map_err(stopped)?;
    if !options.dry_run && !options.yes {
        let question =
            format!("{} actions in {}. Carry them out?", plan.actions.len(), service.url());
        if !confirmed(&question, "use --yes, or --dry-run").map_err(CommandError::invalid)? {
            out("nothing was done");
            return Ok(exit::NOTHING_DONE);
        }
    }
    let mut tally = Tally::default();
    heal::heal(&service, &plan, options.dry_run, |number, action, done| {
        tally.add(done);
        let line = format!("{number} {} {}: {done}", action.kind.name(), action.subject());
        out(&escaped(&line));
    })
    .await;
    out(&tally.words());
    Ok(tally.code())
}

/// The plan is invalid only for another service.
fn stopped(unfit: PlanMismatch) -> CommandError {
    match unfit {
        PlanMismatch::Another(why) => CommandError::invalid(why),
        PlanMismatch::Failing(error) => CommandError::failed(error),
    }
}

impl Tally {
    fn add(&mut self, done: &ActionOutcome) {
        let counter = match done {
            ActionOutcome::Done => &mut self.done,
            ActionOutcome::WouldBeDone => &mut self.would_be_done,
            ActionOutcome::DoneBefore => &mut self.done_before,
            ActionOutcome::ChangedSince(_) => &mut self.changed,
            ActionOutcome::Refused(_) => &mut self.refused,
            ActionOutcome::Failed(_) => &mut self.failed,
        };
        *counter += 1;
    }

    fn words(&self) -> String {
        let each = [
            (self.done, "done"),
            (self.would_be_done, "would be done"),
            (self.done_before, "done before"),
            (self.changed, "changed since the audit"),
            (self.refused, "refused"),
            (self.failed, "failed"),
        ];
        let counts = each.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        counts.join(", ")
    }

    fn code(&self) -> u8 {
        if self.failed > 0 {
            exit::FAILED
        } else if self.changed + self.refused > 0 {
            exit::FOUND
        } else if self.done > 0 {
            exit::CLEAN
        } else {
            exit::NOTHING_DONE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PlanMismatch, exit, stopped};
    use crate::moving::placement_client::Error;

    #[test]
    fn a_service_that_fails_is_not_a_plan_that_is_wrong() {
        let error = Error::NoAnswer { request: "GET /".to_owned(), why: "away".to_owned() };
        assert_eq!(stopped(PlanMismatch::Failing(error)).code, exit::FAILED);
        assert_eq!(stopped(PlanMismatch::Another("another".to_owned())).code, exit::INVALID);
    }
}
