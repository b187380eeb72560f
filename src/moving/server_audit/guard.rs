//! Refuses a list of servers that does not match the service.
//!
//! All consumers that such a list lacks look like orphans, and healing would remove the allocations of running
//! servers.

use super::cloud::{Cloud, Place};
use super::finding::{Outcome, Remedy};
use super::placement::Placement;

/// By default, at most one consumer in this number may be an orphan.
const ONE_OF: usize = 100;
/// Number of orphans that is always allowed.
const ALWAYS: usize = 2;

/// Checks that the servers and the contents of a service match.
///
/// # Errors
/// A message with the problem, and how to continue regardless.
pub fn check(
    placement: &Placement,
    cloud: &Cloud,
    outcome: &Outcome,
    orphans_max: Option<usize>,
) -> Result<(), String> {
    let is_removed = |finding: &&super::finding::Finding| {
        finding.kind.rests_on_absence() && matches!(finding.remedy, Remedy::Change(_))
    };
    let orphans = outcome.findings.iter().filter(is_removed).count();
    let holding = |uuid| placement.consumers.contains_key(uuid);
    let known = cloud.servers.keys().filter(|uuid| holding(*uuid)).count();
    if orphans_max.is_some_and(|most| orphans <= most) {
        return Ok(());
    }
    let (servers, source, url) = (cloud.servers.len(), &cloud.source, &placement.url);
    let unless = format!("If they are right, set --max-orphans {orphans}");
    // Servers that are shelved or were never scheduled have no allocations.
    let has_hosts = cloud.servers.values().any(|it| !matches!(it.place, Place::Nowhere));
    if known == 0 && (has_hosts || orphans > 0) {
        let others = placement.consumers.len();
        return Err(format!(
            "not one of the {servers} servers of {source} holds anything in {url}, and {others} others \
             do: these are the servers of another cloud, or it is another cloud's service. {unless}"
        ));
    }
    if orphans == 0 {
        return Ok(());
    }
    if let Some(doubt) = &cloud.doubt
        && orphans_max.is_none()
    {
        return Err(format!(
            "the servers may not be complete, and {orphans} consumers are not among them. {doubt}. {unless}"
        ));
    }
    let most = orphans_max.unwrap_or_else(|| ALWAYS.max((known + orphans) / ONE_OF));
    if orphans <= most {
        return Ok(());
    }
    Err(format!(
        "{orphans} of {} consumers in {url} are not among the servers of {source}, and at most {most} \
         are accepted: the servers are probably not complete (all projects, all cells, all pages). {unless}",
        known + orphans
    ))
}
