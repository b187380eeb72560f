//! Carries out a plan: each action only if nothing has changed since the audit.

use std::fmt;

use futures_util::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::plan::{Action, Plan};
use super::service::{GENERATIONS, Service};
use crate::moving::placement_client::{Error, ServiceResponse};

/// The error code of a conflict with an earlier change.
const CHANGED_SINCE: &str = "placement.concurrent_update";

/// Outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result", content = "why")]
pub enum ActionOutcome {
    /// It was done.
    Done,
    /// It would be done (`--dry-run`).
    WouldBeDone,
    /// It had already been done.
    DoneBefore,
    /// Something has changed since the audit, so it was skipped.
    ChangedSince(String),
    /// The service refuses it.
    Refused(String),
    /// The service fails, or does not respond.
    Failed(String),
}

impl fmt::Display for ActionOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => formatter.write_str("done"),
            Self::WouldBeDone => formatter.write_str("would be done"),
            Self::DoneBefore => formatter.write_str("was done before"),
            Self::ChangedSince(why) => {
                write!(formatter, "left as it is, because it has changed since the audit: {why}")
            }
            Self::Refused(why) => write!(formatter, "refused by the service: {why}"),
            Self::Failed(why) => write!(formatter, "failed: {why}"),
        }
    }
}

/// The state of the subject of an action.
enum SubjectState {
    AsPlanned,
    DoneBefore,
    Changed(String),
}

/// Reason why a plan cannot be applied to a service.
#[derive(Debug, thiserror::Error)]
pub enum PlanMismatch {
    /// The service is not the one that was audited.
    #[error("{0}")]
    Another(String),
    /// It does not respond.
    #[error("{0}")]
    Failing(#[from] Error),
}

/// Checks that a service is the one that was audited.
///
/// # Errors
/// It is another one, or does not respond.
pub async fn check_service(
    service: &Service,
    plan: &Plan,
    may_have_moved: bool,
) -> Result<(), PlanMismatch> {
    let (audited, url) = (plan.service.url.as_str(), service.url());
    if audited != url && !may_have_moved {
        return Err(PlanMismatch::Another(format!(
            "the plan is for {audited}, and this is {url}. If it is the same service under another \
             address, say --moved"
        )));
    }
    let mut known = 0;
    for provider in &plan.service.providers {
        known += usize::from(service.has_provider(*provider).await?);
    }
    let all = plan.service.providers.len();
    if known * 2 < all {
        return Err(PlanMismatch::Another(format!(
            "{url} is not the service that was audited: it has {known} of {all} providers that the plan names"
        )));
    }
    Ok(())
}

/// Carries out a plan. Calls `tell` for each action, in order, with its number from 1.
pub async fn heal(
    service: &Service,
    plan: &Plan,
    dry_run: bool,
    mut tell: impl FnMut(usize, &Action, &ActionOutcome),
) {
    let mut done = stream::iter(plan.actions.iter().enumerate())
        .map(|(nth, action)| async move { (nth, action, act(service, action, dry_run).await) })
        .buffered(service.client().concurrency());
    while let Some((nth, action, done)) = done.next().await {
        tell(nth + 1, action, &done);
    }
}

async fn act(service: &Service, action: &Action, dry_run: bool) -> ActionOutcome {
    match look(service, action).await {
        Err(error) => return ActionOutcome::Failed(error.to_string()),
        Ok(SubjectState::DoneBefore) => return ActionOutcome::DoneBefore,
        Ok(SubjectState::Changed(why)) => return ActionOutcome::ChangedSince(why),
        Ok(SubjectState::AsPlanned) if dry_run => return ActionOutcome::WouldBeDone,
        Ok(SubjectState::AsPlanned) => {}
    }
    let request = &action.request;
    let Ok(method) = request.method.parse::<Method>() else {
        return ActionOutcome::Failed(format!("{:?} is not a method", request.method));
    };
    let client = service.client();
    match client.send(method, &request.path, GENERATIONS, Some(&request.body)).await {
        Ok(response) => {
            let done = outcome(&response);
            let ActionOutcome::ChangedSince(why) = done else { return done };
            // The conflict may have been with another change of the same provider.
            match look(service, action).await {
                Ok(SubjectState::AsPlanned) => ActionOutcome::Refused(format!(
                    "{why} (the consumer is as it was: carry out the plan again)"
                )),
                Ok(SubjectState::DoneBefore | SubjectState::Changed(_)) | Err(_) => {
                    ActionOutcome::ChangedSince(why)
                }
            }
        }
        // It may have been done all the same.
        Err(error) => match look(service, action).await {
            Ok(SubjectState::DoneBefore) => ActionOutcome::Done,
            Ok(SubjectState::AsPlanned | SubjectState::Changed(_)) | Err(_) => {
                ActionOutcome::Failed(error.to_string())
            }
        },
    }
}

/// The outcome of a request, from its response.
fn outcome(response: &ServiceResponse) -> ActionOutcome {
    let status = response.status();
    if status == StatusCode::NO_CONTENT {
        return ActionOutcome::Done;
    }
    let body: Option<Value> = response.json().ok();
    let first = body.as_ref().and_then(|body| body.pointer("/errors/0"));
    let text = |name: &str| first.and_then(|error| error.get(name)).and_then(Value::as_str);
    let why = text("detail").map_or_else(|| format!("status {status}"), str::to_owned);
    if status.is_server_error() {
        ActionOutcome::Failed(why)
    } else if text("code") == Some(CHANGED_SINCE) {
        ActionOutcome::ChangedSince(why)
    } else {
        ActionOutcome::Refused(why)
    }
}

async fn look(service: &Service, action: &Action) -> Result<SubjectState, Error> {
    let change = &action.change;
    let found = service.consumer(change.consumer).await?;
    Ok(if found.held.is_like(&change.before) && found.generation == change.generation {
        SubjectState::AsPlanned
    } else if found.held.is_like(&change.after) {
        SubjectState::DoneBefore
    } else if found.generation == change.generation {
        SubjectState::Changed("it holds something else than the plan says".to_owned())
    } else {
        let shown = |generation: Option<i64>| match generation {
            Some(generation) => format!("generation {generation}"),
            None => "no allocations".to_owned(),
        };
        let (now, then) = (shown(found.generation), shown(change.generation));
        SubjectState::Changed(format!("it has {now}, and had {then}"))
    })
}
