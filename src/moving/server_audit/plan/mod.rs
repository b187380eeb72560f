//! Plans: the exact changes of a service, as a file for people and programs.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::finding::{Change, Outcome, Remedy};
use super::kind::Kind;
use super::placement::{Held, Placement};
use crate::observe::printable;

/// The version of the format.
pub const VERSION: u32 = 1;

/// The microversion of the requests: the first with generations of consumers. It does not change their types.
pub const MICROVERSION: &str = "1.28";

/// Number of providers that identify the audited service.
const WITNESSES: usize = 16;

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The version of the format.
    pub berth_heal_plan: u32,
    /// End of the audit.
    pub made: String,
    /// The source of the servers.
    pub servers: String,
    /// The service that was audited.
    pub service: Service,
    /// The actions, in order.
    pub actions: Vec<Action>,
}

/// The service that was audited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its address.
    pub url: String,
    /// Some of its providers.
    pub providers: Vec<Uuid>,
}

/// One request, and its purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The situation.
    pub kind: Kind,
    /// A description of the evidence.
    pub evidence: String,
    /// The consumer whose allocations change.
    pub change: PlannedChange,
    /// The request.
    pub request: Request,
}

/// A consumer's allocations before and after the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedChange {
    /// The consumer.
    pub consumer: Uuid,
    /// Its generation; `None` without allocations.
    pub generation: Option<i64>,
    /// Its present allocations.
    pub before: Held,
    /// Its new allocations.
    pub after: Held,
}

/// A request to the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The microversion.
    pub microversion: String,
    /// The body.
    pub body: Value,
}

impl Plan {
    /// The plan of an audit.
    pub fn new(
        placement: &Placement,
        servers: String,
        outcome: &Outcome,
        made: OffsetDateTime,
    ) -> Self {
        let actions = outcome
            .findings
            .iter()
            .filter_map(|found| {
                let Remedy::Change(change) = &found.remedy else { return None };
                let change = planned(change);
                let request = request(&change);
                Some(Action { kind: found.kind, evidence: found.evidence.clone(), change, request })
            })
            .collect();
        let mut providers: Vec<Uuid> = placement.roots().iter().map(|root| root.uuid).collect();
        providers.sort_unstable();
        // Spread over all.
        let step = providers.len().div_ceil(WITNESSES).max(1);
        let providers = providers.into_iter().step_by(step).collect();
        let service = Service { url: placement.url.clone(), providers };
        let made = made.format(&Rfc3339).unwrap_or_else(|error| error.to_string());
        Self { berth_heal_plan: VERSION, made, servers, service, actions }
    }

    /// The plan as JSON.
    pub fn json(&self) -> String {
        printable::json(self)
    }

    /// End of the audit.
    ///
    /// # Errors
    /// A message: it is not a time.
    pub fn made(&self) -> Result<OffsetDateTime, String> {
        OffsetDateTime::parse(&self.made, &Rfc3339)
            .map_err(|_| format!("\"made\" is not a time: {:?}", self.made))
    }

    /// Parses a plan, and checks that an audit could have made it.
    ///
    /// # Errors
    /// A message that names the error.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let value: Value =
            serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
        match value.get("berth_heal_plan").map(Value::as_u64) {
            None => return Err("it is not a plan: it has no \"berth_heal_plan\"".to_owned()),
            Some(version) if version != Some(VERSION.into()) => {
                return Err(format!("the plan has another version than {VERSION}; audit again"));
            }
            Some(_) => {}
        }
        let plan: Self = serde_json::from_value(value)
            .map_err(|error| format!("it is not a plan of `berth audit`: {error}"))?;
        plan.made()?;
        let mut seen = HashSet::new();
        for (nth, action) in plan.actions.iter().enumerate() {
            let wrong = |why: String| format!("action {}: {why}", nth + 1);
            action.check().map_err(wrong)?;
            let consumer = action.change.consumer;
            if !seen.insert(consumer) {
                return Err(wrong(format!("{consumer} is in another action, too")));
            }
        }
        Ok(plan)
    }
}

impl Action {
    /// Checks that the request matches the kind of the action.
    fn check(&self) -> Result<(), String> {
        let Self { kind, change, request: planned_request, .. } = self;
        let PlannedChange { consumer, generation, before, after } = change;
        let fits = match kind {
            Kind::Orphan | Kind::DeletedServer | Kind::WithoutHost => after.allocations.is_empty(),
            Kind::SeveralHosts => change.only_leaves_providers(),
            Kind::NoAllocations => {
                before.allocations.is_empty()
                    && generation.is_none()
                    && after.allocations.len() == 1
            }
            Kind::WrongAmounts => {
                let same = before.allocations.keys().eq(after.allocations.keys());
                same && change.has_same_owner()
            }
            Kind::WrongOwner => before.allocations == after.allocations && !change.has_same_owner(),
            Kind::WrongHost => false,
        };
        if !fits {
            return Err(format!("this is not what is done about {}", kind.name()));
        }
        if before.is_like(after) {
            return Err(format!("it changes nothing of {consumer}"));
        }
        if after.project_id.is_none() || after.user_id.is_none() {
            return Err(format!("{consumer} has no project or user"));
        }
        let mut amounts = after.allocations.values();
        if amounts.any(|it| it.is_empty() || it.values().any(|it| *it == 0)) {
            return Err(format!("{consumer} is to hold nothing of something"));
        }
        if *kind != Kind::WrongOwner && !before.allocations.is_empty() && !change.has_same_owner() {
            return Err(format!("{consumer} gets another project or user"));
        }
        if request(change) == *planned_request {
            Ok(())
        } else {
            Err("the request is not the one that does this".to_owned())
        }
    }

    /// A short description of the action's subject.
    pub fn subject(&self) -> String {
        format!("consumer {}", self.change.consumer)
    }
}

impl PlannedChange {
    /// Returns whether allocations are removed from some providers, and kept on the others.
    fn only_leaves_providers(&self) -> bool {
        let (before, after) = (&self.before.allocations, &self.after.allocations);
        !after.is_empty()
            && after.len() < before.len()
            && after.iter().all(|(provider, held)| before.get(provider) == Some(held))
            && self.has_same_owner()
    }

    fn has_same_owner(&self) -> bool {
        self.before.project_id == self.after.project_id && self.before.user_id == self.after.user_id
    }
}

fn planned(change: &Change) -> PlannedChange {
    let Change { consumer, generation, before, after } = change.clone();
    PlannedChange { consumer, generation, before, after }
}

/// The request that makes a change.
fn request(change: &PlannedChange) -> Request {
    Request {
        method: "PUT".to_owned(),
        path: format!("/allocations/{}", change.consumer),
        microversion: MICROVERSION.to_owned(),
        body: body(change),
    }
}

/// The body for a consumer; an empty one removes its allocations.
fn body(change: &PlannedChange) -> Value {
    let held = change
        .after
        .allocations
        .iter()
        .map(|(provider, resources)| (provider.to_string(), json!({ "resources": resources })));
    json!({
        "allocations": Value::Object(held.collect()),
        "project_id": change.after.project_id,
        "user_id": change.after.user_id,
        "consumer_generation": change.generation,
    })
}

#[cfg(test)]
mod tests;
