//! The report of an audit, as text and JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::cloud::Cloud;
use super::finding::{Change, Finding, Outcome, Remedy, shown};
use super::kind::Kind;
use super::placement::Placement;
use crate::observe::printable::{self, escaped};

/// Maximum number of findings of one kind in the text. JSON has all.
const SHOWN: usize = 10;
/// Maximum number of unjudged consumers that are named in the text.
const SHOWN_LEFT: usize = 3;

/// The report of an audit.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The address of the service.
    service: String,
    /// The source of the servers.
    servers: String,
    /// Time at which they were listed.
    taken: String,
    /// Number of compared objects.
    counts: Counts,
    /// The findings.
    findings: Vec<ReportedFinding>,
    /// The consumers that were not judged.
    left_alone: BTreeMap<&'static str, Left>,
    /// Duration in seconds.
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Counts {
    providers: usize,
    consumers: usize,
    servers: usize,
}

#[derive(Debug, Serialize)]
struct Left {
    #[serde(skip)]
    words: &'static str,
    consumers: Vec<Uuid>,
}

#[derive(Debug, Serialize)]
struct ReportedFinding {
    kind: Kind,
    /// The consumer.
    subject: Uuid,
    explanation: &'static str,
    evidence: String,
    /// The action of `berth heal`, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    /// The decision for an operator, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<String>,
}

impl Report {
    /// The report of an audit, with its duration in seconds.
    pub fn new(placement: &Placement, cloud: &Cloud, outcome: Outcome, seconds: f64) -> Self {
        let left = outcome
            .left
            .into_iter()
            .map(|(reason, consumers)| (reason.name(), Left { words: reason.words(), consumers }));
        Self {
            service: placement.url.clone(),
            servers: cloud.source.clone(),
            taken: shown(cloud.taken),
            counts: Counts {
                providers: placement.providers.len(),
                consumers: placement.consumers.len(),
                servers: cloud.servers.len(),
            },
            findings: outcome.findings.into_iter().map(|it| reported(it, placement)).collect(),
            left_alone: left.collect(),
            seconds,
        }
    }

    /// Returns whether there are no findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        printable::json(self)
    }

    /// The report as text.
    pub fn words(&self) -> String {
        let Self { service, servers, taken, counts, seconds, .. } = self;
        let mut lines = vec![format!(
            "{service}: {} providers, {} consumers\n{servers}: {} servers at {taken}",
            counts.providers, counts.consumers, counts.servers
        )];
        for found in self.findings.chunk_by(|one, other| one.kind == other.kind) {
            let Some(first) = found.first() else { continue };
            let name = first.kind.name();
            lines.push(format!("\n{name}: {}\n  {}", found.len(), first.explanation));
            for it in found.iter().take(SHOWN) {
                // They contain names from nova and from the service.
                lines.push(format!("  {}: {}", it.subject, escaped(&it.evidence)));
                let action = it.action.iter().map(|it| format!("    heal: {}", escaped(it)));
                lines.extend(action);
                let question = |it| format!("    a person must decide: {}", escaped(it));
                lines.extend(it.decision.as_deref().map(question));
            }
            if let Some(more) = found.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                lines.push(format!("  ... and {more} more: see --json"));
            }
        }
        if !self.left_alone.is_empty() {
            lines.push("\nnot judged:".to_owned());
        }
        for Left { words, consumers } in self.left_alone.values() {
            let named: Vec<String> =
                consumers.iter().take(SHOWN_LEFT).map(ToString::to_string).collect();
            let more = if consumers.len() > SHOWN_LEFT { ", ..." } else { "" };
            let count = consumers.len();
            let what = if count == 1 { "consumer" } else { "consumers" };
            lines.push(format!("  {count} {what}: {words} ({}{more})", named.join(", ")));
        }
        let healed = self.findings.iter().filter(|it| it.action.is_some()).count();
        let decided = self.findings.len() - healed;
        lines.push(format!(
            "\n{} found: {healed} that `berth heal` can set right, {decided} for a person to decide, in \
             {seconds:.1} s",
            self.findings.len()
        ));
        lines.join("\n")
    }
}

fn reported(finding: Finding, placement: &Placement) -> ReportedFinding {
    let Finding { kind, subject, evidence, remedy } = finding;
    let (action, decision) = match remedy {
        Remedy::Person(question) => (None, Some(question)),
        Remedy::Change(change) => {
            (Some(format!("it {}", words_for_change(&change, placement))), None)
        }
    };
    let explanation = kind.explanation();
    ReportedFinding { kind, subject, explanation, evidence, action, decision }
}

/// A short description of a change.
fn words_for_change(change: &Change, placement: &Placement) -> String {
    let Change { before, after, .. } = change;
    if after.allocations.is_empty() {
        return "is to hold nothing".to_owned();
    }
    if before.allocations == after.allocations {
        let shown = |it: &Option<String>| it.clone().unwrap_or_else(|| "none".to_owned());
        let (project, user) = (shown(&after.project_id), shown(&after.user_id));
        return format!("is to be counted for project {project} and user {user}");
    }
    format!("is to hold {}", placement.words(&after.allocations))
}
