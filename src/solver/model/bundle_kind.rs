//! Kinds: classes of interchangeable bundles. Exchanging two bundles of a kind turns a placement
//! into one of the same cost.

#![expect(clippy::indexing_slicing, reason = "bundles, kinds and rules are numbered densely")]

use std::collections::{BTreeMap, HashMap, HashSet};

use super::bundle::Bundle;
use super::load::Load;
use crate::solver::budget::Budget;
use crate::solver::problem::{AllowedHosts, Level, PlacementProblem, Rule, SoftRuleKind};
use crate::solver::utilisation::Addition;

/// The properties that the bundles of a kind have in common.
#[derive(Clone, Debug)]
pub(in crate::solver) struct BundleKind {
    /// The bundles.
    pub(in crate::solver) bundles: Vec<usize>,
    /// The load of one bundle, by its position.
    pub(in crate::solver) load: usize,
    /// The number of servers of one bundle.
    pub(in crate::solver) servers: u64,
    /// The number of servers of one bundle that currently have a host.
    pub(in crate::solver) settled: u64,
    /// Their current hosts, each with the number of servers there.
    pub(in crate::solver) homes: Vec<(usize, u64)>,
    /// The additions of the servers of one bundle to the use of their host.
    pub(in crate::solver) additions: Vec<Addition>,
    /// The rules that bind it, each with its part, or `None` if every bundle of the kind is a part of its own.
    pub(in crate::solver) rules: Vec<(usize, Option<usize>)>,
    /// The rules that count servers, each with the number of its servers in one bundle.
    pub(super) members: Vec<(usize, u64)>,
    /// The same by the position of the quota.
    pub(in crate::solver) quotas: Vec<(usize, u64)>,
    /// The soft rules, each with the number of its servers in one bundle.
    pub(in crate::solver) soft_rules: Vec<(usize, u64)>,
    /// The maximum number of bundles that quotas allow on one host.
    pub(super) most_on_host: usize,
    /// By level, whether no two of the bundles can be in one unit.
    apart: [bool; 3],
    /// The relative size of its demand: large bundles are placed first.
    pub(in crate::solver) weight: u64,
}

impl BundleKind {
    /// The servers of one bundle that move if it is placed on a host.
    pub(in crate::solver) fn moves(&self, host: usize) -> u64 {
        let stay = self.homes.iter().find(|(home, _)| *home == host).map_or(0, |(_, stay)| *stay);
        self.settled - stay
    }

    /// Returns whether no two of the bundles can be in one unit of a level.
    pub(in crate::solver) fn is_apart(&self, level: Level) -> bool {
        self.apart[level as usize]
    }

    /// The maximum number of bundles of the kind that rules allow on one host.
    pub(in crate::solver) fn most_on_host(&self) -> usize {
        let most = if self.apart.contains(&true) { 1 } else { self.bundles.len() };
        most.min(self.most_on_host)
    }
}

/// Sorts bundles into kinds, and sets the kind of each bundle.
///
/// Two bundles are of one kind if they have the same load, the same allowed hosts, the same current hosts, the same
/// role in the same rules and soft rules, and with balancing, the same additions to the use of hosts.
pub(super) fn kinds(
    problem: &PlacementProblem,
    bundles: &mut [Bundle],
    loads: &[Load],
    budget: &mut Budget<'_>,
) -> Vec<BundleKind> {
    let most = most_by_class(loads);
    let mut known = HashMap::new();
    let mut lists = Lists::default();
    let mut kinds: Vec<BundleKind> = Vec::new();
    for (nth, bundle) in bundles.iter_mut().enumerate() {
        if budget.is_spent_after(8 * (1 + bundle.servers.len() + bundle.rules.len())) {
            break;
        }
        let roles = roles(problem, bundle);
        let mut current_hosts = bundle.current_hosts.clone();
        current_hosts.sort_unstable();
        let hosts = lists.number(&bundle.allowed_hosts, budget);
        let additions = bundle.additions.clone();
        let counted = (additions, bundle.members.clone(), soft_roles(problem, bundle));
        let key = (bundle.load, hosts, current_hosts, counted, roles.clone());
        bundle.kind = *known.entry(key).or_insert(kinds.len());
        if bundle.kind == kinds.len() {
            budget.is_spent_after(8 * bundle.servers.len() + most.len());
            kinds.push(kind(problem, bundle, roles, &loads[bundle.load].least, &most));
        }
        kinds[bundle.kind].bundles.push(nth);
    }
    kinds
}

/// Numbers for lists of allowed hosts: equal ones have the same number. A list that several bundles share is read
/// once.
#[derive(Default)]
struct Lists {
    by_identity: HashMap<Result<usize, *const bool>, usize>,
    by_content: HashMap<AllowedHosts, usize>,
}

impl Lists {
    fn number(&mut self, hosts: &AllowedHosts, budget: &mut Budget<'_>) -> usize {
        let Self { by_identity, by_content } = self;
        *by_identity.entry(hosts.identity()).or_insert_with(|| {
            if let AllowedHosts::These(hosts) = hosts {
                budget.is_spent_after(hosts.len());
            }
            let next = by_content.len();
            *by_content.entry(hosts.clone()).or_insert(next)
        })
    }
}

/// The rules that bind a bundle, each with its part, or `None` if the bundle is that part.
fn roles(problem: &PlacementProblem, bundle: &Bundle) -> Vec<(usize, Option<usize>)> {
    let own: HashSet<usize> = bundle.servers.iter().copied().collect();
    let role = |(rule, part): &(usize, usize)| {
        let has_all = match &problem.rules[*rule] {
            Rule::Apart(_, parts) => parts[*part].iter().all(|it| own.contains(it)),
            Rule::Together(..) | Rule::Alone(..) | Rule::AtMost(..) | Rule::Skew(_) => false,
        };
        (*rule, if has_all { None } else { Some(*part) })
    };
    bundle.rules.iter().map(role).collect()
}

/// The soft rules of a bundle, each with its part, or `None` if the bundle is that part, and with the number of its
/// servers.
fn soft_roles(problem: &PlacementProblem, bundle: &Bundle) -> Vec<(usize, Option<usize>, u64)> {
    let role = |(soft, part, members): &(usize, usize, u64)| {
        let it = &problem.soft_rules[*soft];
        let has_all = it.kind == SoftRuleKind::Apart && it.parts[*part].len() as u64 == *members;
        (*soft, if has_all { None } else { Some(*part) }, *members)
    };
    let mut roles: Vec<_> = bundle.soft_rules.iter().map(role).collect();
    roles.sort_unstable();
    roles
}

fn most_by_class(loads: &[Load]) -> Vec<u64> {
    let classes = loads.iter().map(|load| load.least.len()).max().unwrap_or(0);
    let most = |class: usize| loads.iter().map(|load| load.least[class]).max().unwrap_or(0).max(1);
    (0..classes).map(most).collect()
}

/// Creates the kind of a bundle, without bundles.
fn kind(
    problem: &PlacementProblem,
    first: &Bundle,
    rules: Vec<(usize, Option<usize>)>,
    least: &[u64],
    most: &[u64],
) -> BundleKind {
    let mut apart = [false; 3];
    for (rule, role) in &rules {
        if let (Rule::Apart(level, _), None) = (&problem.rules[*rule], role) {
            apart[*level as usize] = true;
        }
    }
    let mut homes: BTreeMap<usize, u64> = BTreeMap::new();
    for home in first.current_hosts.iter().flatten() {
        *homes.entry(*home).or_insert(0) += 1;
    }
    let weight = least.iter().zip(most).map(|(it, most)| thousandths(*it, *most)).sum();
    BundleKind {
        load: first.load,
        servers: u64::try_from(first.servers.len()).unwrap_or(u64::MAX),
        settled: homes.values().sum(),
        homes: homes.into_iter().collect(),
        additions: first.additions.clone(),
        rules,
        members: first.members.clone(),
        quotas: Vec::new(),
        soft_rules: soft_rules(first),
        most_on_host: usize::MAX,
        apart,
        weight,
        bundles: Vec::new(),
    }
}

/// The soft rules of a bundle, with the number of servers of all parts in it.
fn soft_rules(bundle: &Bundle) -> Vec<(usize, u64)> {
    let mut soft_rules: Vec<(usize, u64)> = Vec::new();
    for (soft, _, members) in &bundle.soft_rules {
        match soft_rules.last_mut() {
            Some((last, sum)) if last == soft => *sum += members,
            Some(_) | None => soft_rules.push((*soft, *members)),
        }
    }
    soft_rules
}

fn thousandths(part: u64, total: u64) -> u64 {
    u64::try_from(u128::from(part) * 1000 / u128::from(total)).unwrap_or(u64::MAX)
}
