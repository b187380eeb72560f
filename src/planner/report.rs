//! The report of misplaced servers: those that break the rule of a group, or are not on their planned hosts. The
//! cloud moves servers, and adds servers that are in no plan, so rules that held when a plan was made may be broken
//! later.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use super::broken_rules::{FixedServers, dropped, without_broken};
use super::document::Document;
use super::group::StoredGroup;
use super::plan::Placement;
use super::rejection::Rejection;
use super::resolve;
use super::topology::{Topology, zone_name};
use crate::model::{ExclusiveHost, GroupKind, Level, ProviderId};
use crate::solver::Rule;
use crate::world::{Provider, World};

/// A server of a stored group, with its providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupServer {
    /// The group.
    pub group: Uuid,
    /// The project of the server.
    pub project: String,
    /// The id of its instance if known, otherwise its orchestration id.
    pub server: String,
    /// Whether the plan holds its capacity, and no instance does.
    pub is_hold: bool,
    /// The providers that it uses.
    pub providers: Vec<ProviderId>,
}

/// A consumer outside a group on a host that the group has exclusively.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonMember {
    /// The consumer.
    pub consumer: Uuid,
    /// Its project, if known.
    pub project: Option<String>,
    /// The host.
    pub host: ExclusiveHost,
}

/// The severity of a misplacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It is on another host than planned, and breaks no rule.
    Elsewhere,
    /// It breaks a rule.
    Broken,
}

/// The misplacements of each server, by the id of its instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report(BTreeMap<String, Vec<(Severity, String)>>);

impl Report {
    /// Each misplaced server: its id, its severity, and the reason.
    pub fn servers(&self) -> impl Iterator<Item = (&str, Severity, String)> {
        self.0.iter().filter_map(|(server, findings)| {
            let worst = findings.iter().map(|(severity, _)| *severity).max()?;
            let words: Vec<&str> = findings.iter().map(|(_, why)| why.as_str()).collect();
            Some((server.as_str(), worst, words.join("; ")))
        })
    }

    fn add(&mut self, server: &str, severity: Severity, why: String) {
        let findings = self.0.entry(server.to_owned()).or_default();
        if findings.iter().all(|(_, known)| *known != why) {
            findings.push((severity, why));
        }
    }
}

/// The state of the cloud for a report.
#[derive(Debug)]
pub(crate) struct ReportContext<'c> {
    pub(crate) world: &'c World,
    pub(crate) topology: &'c Topology,
    pub(crate) groups: &'c [StoredGroup],
}

impl ReportContext<'_> {
    /// Reports servers of stored groups that break the rules of these groups.
    pub(crate) fn stored_groups(
        &self,
        servers: &[GroupServer],
        exclusive: &[ExclusiveHost],
        is_seen: &dyn Fn(&str) -> bool,
        report: &mut Report,
    ) {
        let own: HashSet<(ProviderId, Uuid)> =
            exclusive.iter().map(|host| (host.root, host.group)).collect();
        let mut members_of: HashMap<Uuid, Vec<&GroupServer>> = HashMap::new();
        for server in servers {
            members_of.entry(server.group).or_default().push(server);
        }
        for group in self.groups {
            let Some(members) = members_of.remove(&group.id) else { continue };
            let roots: Vec<Option<Provider<'_>>> =
                members.iter().map(|member| self.host(&member.providers)).collect();
            let broken = self.group_breakers(group, &roots, &own);
            let seen = members.iter().zip(&roots).enumerate();
            let seen = seen.filter(|(_, (it, _))| !it.is_hold && is_seen(&it.project));
            for (nth, (member, root)) in seen {
                if broken.contains(&nth) {
                    let level = group.effective_level();
                    let why = self.sentence(group.kind, level, &group.name, root.as_ref());
                    report.add(&member.server, Severity::Broken, why);
                }
                if !may_use(group, &member.project) {
                    let (kind, project) = (group.kind.name(), &member.project);
                    let why = format!("{kind} group '{}' is not for project {project}", group.name);
                    report.add(&member.server, Severity::Broken, why);
                }
            }
        }
    }

    /// The servers that break the rule of a stored group, by their positions; `own` has the exclusive hosts of
    /// groups.
    fn group_breakers(
        &self,
        group: &StoredGroup,
        roots: &[Option<Provider<'_>>],
        own: &HashSet<(ProviderId, Uuid)>,
    ) -> HashSet<usize> {
        let (level, all) = (group.effective_level(), 0..roots.len());
        match group.kind {
            GroupKind::Affinity => self.breakers(&Rule::Together(level, all.collect()), roots),
            GroupKind::Diversity => {
                self.breakers(&Rule::Apart(level, all.map(|nth| vec![nth]).collect()), roots)
            }
            GroupKind::Exclusivity => {
                let is_own = |root: &Option<Provider<'_>>| {
                    root.as_ref().is_none_or(|root| own.contains(&(root.id(), group.id)))
                };
                let strange = roots.iter().enumerate().filter(|(_, root)| !is_own(root));
                strange.map(|(nth, _)| nth).collect()
            }
        }
    }

    /// Reports consumers on the exclusive hosts of groups.
    pub(crate) fn non_members(&self, non_members: &[NonMember], report: &mut Report) {
        for NonMember { consumer, host, .. } in non_members {
            let group = self.groups.iter().find(|group| group.id == host.group);
            let group = group.map_or_else(|| host.group.to_string(), |group| group.name.clone());
            let (level, unit) = (host.level.name(), &host.unit);
            let why = format!("{level} {unit} is kept for exclusivity group '{group}'");
            report.add(&consumer.to_string(), Severity::Broken, why);
        }
    }

    /// Reports instances that are on another host than planned.
    pub(crate) fn elsewhere(&self, placements: &[Placement], report: &mut Report) {
        for row in placements.iter().filter(|row| !row.is_hold()) {
            let providers: Vec<ProviderId> = row.holds.iter().map(|(id, ..)| *id).collect();
            let planned = row.planned_on.and_then(|root| self.world.provider_by_id(root));
            if let (Some(actual), Some(planned)) = (self.host(&providers), planned)
                && actual != planned
            {
                let why = format!("is on {}, and was planned on {}", actual.name(), planned.name());
                report.add(name(row), Severity::Elsewhere, why);
            }
        }
    }

    /// Reports servers of a plan that break the rules of its own groups, or are outside their zones.
    ///
    /// # Errors
    /// The stored data of the plan cannot be read.
    pub(crate) fn plan(
        &self,
        document: &str,
        placements: &[&Placement],
        report: &mut Report,
    ) -> Result<(), Rejection> {
        let document = Document::read(document)?;
        let template = document.template()?;
        let stack = resolve::stack(&document, &template, self.groups, None)?;
        let rules = stack.rules().map_err(|why| Rejection::Unreadable(stack.describe(why)))?.rules;
        let rows: HashMap<&str, &Placement> =
            placements.iter().map(|row| (row.orchestration_key.as_str(), *row)).collect();
        let rows: Vec<Option<&Placement>> =
            template.servers.iter().map(|server| rows.get(server.key.as_str()).copied()).collect();
        let roots: Vec<Option<Provider<'_>>> = rows
            .iter()
            .map(|row| {
                let providers: Vec<ProviderId> =
                    row.as_ref()?.holds.iter().map(|(id, ..)| *id).collect();
                self.host(&providers)
            })
            .collect();
        let instance = |nth: usize| rows.get(nth).copied().flatten().filter(|row| !row.is_hold());
        for (position, rule) in rules {
            let Some(group) = stack.groups.get(position).filter(|it| it.stored.is_none()) else {
                continue;
            };
            for nth in self.breakers(&rule, &roots) {
                let root = roots.get(nth).and_then(Option::as_ref);
                if let (Some(row), Some(_)) = (instance(nth), root) {
                    let why = self.sentence(group.kind, group.level, &group.name, root);
                    report.add(name(row), Severity::Broken, why);
                }
            }
        }
        for (nth, (server, root)) in template.servers.iter().zip(&roots).enumerate() {
            if let (Some(row), Some(root), Some(zone)) = (instance(nth), root, &server.zone)
                && !self.topology.location(root).is_in_zone(&zone_name(zone))
            {
                let why = format!("host {} is not in availability zone '{zone}'", root.name());
                report.add(name(row), Severity::Broken, why);
            }
        }
        Ok(())
    }

    fn host(&self, providers: &[ProviderId]) -> Option<Provider<'_>> {
        self.topology.host(providers.iter().filter_map(|id| self.world.provider_by_id(*id)))
    }

    /// The servers that break a rule, by their positions; given their hosts. Servers without a host break no rule.
    fn breakers(&self, rule: &Rule, roots: &[Option<Provider<'_>>]) -> HashSet<usize> {
        let mut units: HashMap<String, usize> = HashMap::new();
        let mut stays = Vec::with_capacity(roots.len());
        for (nth, root) in roots.iter().enumerate() {
            let Some(root) = root else { continue };
            let unit = self.topology.unit(root, rule.level());
            let next = units.len();
            stays.push((nth, unit.map(|unit| *units.entry(unit).or_insert(next))));
        }
        let stays: FixedServers = stays.into_iter().collect();
        let kept = without_broken(rule.clone(), &stays);
        dropped(rule.servers(), &kept).into_iter().collect()
    }

    /// A sentence for a server that breaks the rule of a group.
    fn sentence(
        &self,
        kind: GroupKind,
        level: Level,
        group: &str,
        root: Option<&Provider<'_>>,
    ) -> String {
        let unit = root.and_then(|root| self.topology.unit(root, level));
        let (what, level) = (kind.name(), level.name());
        match (unit, kind) {
            (None, _) => {
                let host = root.map_or("its host", Provider::name);
                format!("{what} group '{group}': {host} is in no known {level}")
            }
            (Some(unit), GroupKind::Affinity) => {
                format!("{what} group '{group}': most of its servers are not in {level} {unit}")
            }
            (Some(unit), GroupKind::Diversity) => {
                format!("{what} group '{group}': another of its servers is in {level} {unit}")
            }
            (Some(unit), GroupKind::Exclusivity) => {
                format!("{what} group '{group}' does not have {level} {unit} to itself")
            }
        }
    }
}

/// The name in a report for the server of a placement.
fn name(row: &Placement) -> &str {
    match &row.resource_id {
        Some(instance) => instance,
        None => &row.orchestration_id,
    }
}

/// Returns whether a project may use a stored group.
fn may_use(group: &StoredGroup, project: &str) -> bool {
    resolve::is_open(group) || group.has_member(project)
}
