//! Compares the contents of a placement service with nova's servers.
//!
//! This takes two steps. The lists by provider yield the few consumers whose details are needed
//! ([`Audit::suspects`]); with these details, [`Audit::outcome`] decides. Consumers that are in progress, have
//! changed recently or are not nova's are left alone.

use std::collections::{HashMap, HashSet};

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::cloud::{Cloud, Server, ServerState};
use super::finding::{Change, Finding, Outcome, Reason, Remedy};
use super::kind::Kind;
use super::placement::{Allocations, Consumer, Details, Held, Placement};

/// Rules of an audit.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Consumers that changed less than this before the servers were listed, or since, are left alone.
    pub grace: Duration,
    /// Compares projects and users of all servers, with one request for each.
    pub owners: bool,
}

/// Both sides of a comparison.
pub struct Audit<'a> {
    pub(super) placement: &'a Placement,
    pub(super) cloud: &'a Cloud,
    rules: Rules,
    /// Later changes are left alone.
    until: OffsetDateTime,
}

/// The judgement of a consumer.
pub(super) enum Verdict {
    Fine,
    Left(Reason),
    Found(Draft),
}

/// A finding before the details of its consumer are known.
pub(super) struct Draft {
    kind: Kind,
    evidence: String,
    fix: Fix,
}

/// The fix for a finding.
pub(super) enum Fix {
    /// Gives the consumer these allocations.
    Hold(Allocations),
    /// Gives these allocations, for the server's project and user, to a consumer without any.
    Create(Allocations),
    /// Gives the consumer's allocations to the server's project and user.
    Own,
    /// An operator must decide.
    Ask(String),
}

impl<'a> Audit<'a> {
    /// Prepares a comparison.
    pub fn new(placement: &'a Placement, cloud: &'a Cloud, rules: Rules) -> Self {
        let until = cloud.taken.saturating_sub(rules.grace);
        Self { placement, cloud, rules, until }
    }

    /// The consumers whose details are needed, sorted.
    pub fn suspects(&self) -> Vec<Uuid> {
        let mut found = HashSet::new();
        for (uuid, server) in &self.cloud.servers {
            let holds = self.placement.consumers.contains_key(uuid);
            match self.server(*uuid, server, None) {
                Verdict::Found(_) => {
                    found.insert(*uuid);
                }
                // Their projects show whose migrations a list of servers omits.
                Verdict::Left(Reason::Busy | Reason::Elsewhere) if holds => {
                    found.insert(*uuid);
                }
                Verdict::Fine if self.rules.owners && holds => {
                    found.insert(*uuid);
                }
                Verdict::Fine | Verdict::Left(_) => {}
            }
        }
        for (uuid, consumer) in self.strangers() {
            if matches!(self.stranger(*uuid, consumer, None, &[]), Verdict::Found(_)) {
                found.insert(*uuid);
            }
        }
        let mut found: Vec<Uuid> = found.into_iter().collect();
        found.sort_unstable();
        found
    }

    /// Judges all consumers. `details` has those of [`suspects`](Self::suspects).
    pub fn outcome(&self, details: &HashMap<Uuid, Details>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut servers: Vec<(&Uuid, &Server)> = self.cloud.servers.iter().collect();
        servers.sort_unstable_by_key(|(uuid, _)| **uuid);
        for (uuid, server) in servers {
            let verdict = self.server(*uuid, server, details.get(uuid));
            self.settle(*uuid, verdict, details, &mut outcome);
        }
        let busy = self.projects_of_busy_servers(details);
        let mut strangers: Vec<(&Uuid, &Consumer)> = self.strangers().collect();
        strangers.sort_unstable_by_key(|(uuid, _)| **uuid);
        for (uuid, consumer) in strangers {
            let verdict = self.stranger(*uuid, consumer, details.get(uuid), &busy);
            self.settle(*uuid, verdict, details, &mut outcome);
        }
        outcome.findings.sort_by_key(|finding| finding.kind);
        outcome
    }

    /// The consumers that are not existing servers.
    fn strangers(&self) -> impl Iterator<Item = (&'a Uuid, &'a Consumer)> {
        let servers = &self.cloud.servers;
        self.placement.consumers.iter().filter(move |(uuid, _)| !servers.contains_key(*uuid))
    }

    pub(super) fn is_recent(&self, time: Option<OffsetDateTime>) -> bool {
        time.is_some_and(|time| time > self.until)
    }

    /// Adds a verdict to the outcome, if the details confirm it.
    fn settle(
        &self,
        consumer: Uuid,
        verdict: Verdict,
        details: &HashMap<Uuid, Details>,
        outcome: &mut Outcome,
    ) {
        let reason = match verdict {
            Verdict::Fine => return,
            Verdict::Left(reason) => reason,
            Verdict::Found(draft) => match self.remedy(consumer, draft.fix, details) {
                Err(reason) => reason,
                Ok(remedy) => {
                    let Draft { kind, evidence, .. } = draft;
                    let finding = Finding { kind, subject: consumer, evidence, remedy };
                    outcome.findings.push(finding);
                    return;
                }
            },
        };
        outcome.left.entry(reason).or_default().push(consumer);
    }

    fn remedy(
        &self,
        consumer: Uuid,
        fix: Fix,
        details: &HashMap<Uuid, Details>,
    ) -> Result<Remedy, Reason> {
        let own = self.confirmed(consumer, details)?;
        let server = self.cloud.servers.get(&consumer);
        let owned = |allocations: Allocations| Held {
            allocations,
            project_id: server.and_then(|it| it.project.clone()).or(own.held.project_id.clone()),
            user_id: server.and_then(|it| it.user.clone()).or(own.held.user_id.clone()),
        };
        let change = |after: Held| Change {
            consumer,
            generation: own.generation,
            before: own.held.clone(),
            after,
        };
        Ok(Remedy::Change(match fix {
            Fix::Ask(question) => return Ok(Remedy::Person(question)),
            Fix::Hold(allocations) => change(Held { allocations, ..own.held.clone() }),
            Fix::Create(allocations) => change(owned(allocations)),
            Fix::Own => change(owned(own.held.allocations.clone())),
        }))
    }

    /// The details of a consumer, if they equal those of the lists and are not recent.
    fn confirmed<'d>(
        &self,
        consumer: Uuid,
        details: &'d HashMap<Uuid, Details>,
    ) -> Result<&'d Details, Reason> {
        let found = details.get(&consumer).ok_or(Reason::Changing)?;
        let nothing = Consumer::default();
        let listed = self.placement.consumers.get(&consumer).map_or(&nothing, |listed| listed);
        if found.held.allocations != listed.allocations || found.generation != listed.generation {
            return Err(Reason::Changing);
        }
        // Without allocations, the time is that of the response.
        if !listed.allocations.is_empty() && self.is_recent(found.modified) {
            return Err(Reason::Recent);
        }
        Ok(found)
    }

    /// The projects of servers with which nova is doing something.
    fn projects_of_busy_servers(&self, details: &HashMap<Uuid, Details>) -> Vec<String> {
        let busy = self.cloud.servers.iter().filter(|(_, it)| it.state != ServerState::Settled);
        let projects = busy.filter_map(|(uuid, server)| {
            let of_service = details.get(uuid).and_then(|it| it.held.project_id.clone());
            of_service.or_else(|| server.project.clone())
        });
        let mut projects: Vec<String> = projects.collect();
        projects.sort_unstable();
        projects.dedup();
        projects
    }
}

pub(super) fn found(kind: Kind, evidence: String, fix: Fix) -> Verdict {
    Verdict::Found(Draft { kind, evidence, fix })
}
