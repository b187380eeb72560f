//! Kinds: classes of interchangeable bundles. Exchanging two bundles of a kind turns a placement into
//! one of the same cost.

#![expect(clippy::indexing_slicing, reason = "bundles, kinds and rules are numbered densely")]

use std::collections::{BTreeMap, HashSet};

use super::budget::Budget;
use super::bundle::Bundle;
use super::load::Load;
use super::problem::{Level, PlacementProblem, Rule};

/// What bundles of a kind have in common.
#[derive(Clone, Debug)]
pub(super) struct BundleKind {
    /// The bundles.
    pub(super) bundles: Vec<usize>,
    /// The load of one bundle, by its position.
    pub(super) load: usize,
    /// The number of servers of one bundle.
    pub(super) servers: u64,
    /// The servers of one bundle that are on a host at present.
    pub(super) settled: u64,
    /// Their present hosts, each with the number of them there.
    pub(super) homes: Vec<(usize, u64)>,
    /// The rules that bind it, each with the part it is in, or `None` if every bundle of the kind is a
    /// part by itself.
    pub(super) rules: Vec<(usize, Option<usize>)>,
    /// Whether no two can be in one unit, by level.
    apart: [bool; 3],
    /// The relative size of its demand: large ones are placed first.
    pub(super) weight: u64,
}

impl BundleKind {
    /// How many servers of one bundle are moved if it is placed on a host.
    pub(super) fn moves(&self, host: usize) -> u64 {
        let stay = self.homes.iter().find(|(home, _)| *home == host).map_or(0, |(_, stay)| *stay);
        self.settled - stay
    }

    /// Whether no two can be in one unit of a level.
    pub(super) fn is_apart(&self, level: Level) -> bool {
        self.apart[level as usize]
    }

    /// The most bundles of the kind that rules allow on one host.
    pub(super) fn most_on_host(&self) -> usize {
        if self.apart.contains(&true) { 1 } else { self.bundles.len() }
    }
}

/// The kinds of bundles.
pub(super) fn kinds(
    problem: &PlacementProblem,
    bundles: &[Bundle],
    loads: &[Load],
    budget: &mut Budget<'_>,
) -> Vec<BundleKind> {
    let count = bundles.iter().map(|bundle| bundle.kind + 1).max().unwrap_or(0);
    let mut members = vec![Vec::new(); count];
    for (nth, bundle) in bundles.iter().enumerate() {
        members[bundle.kind].push(nth);
    }
    let most = most_by_class(loads);
    let kind = |members: Vec<usize>| {
        let first = &bundles[members[0]];
        budget.is_spent_after(8 * first.servers.len() + most.len());
        kind(problem, bundles, loads, members, &most)
    };
    members.into_iter().map(kind).collect()
}

fn most_by_class(loads: &[Load]) -> Vec<u64> {
    let classes = loads.iter().map(|load| load.least.len()).max().unwrap_or(0);
    let most = |class: usize| loads.iter().map(|load| load.least[class]).max().unwrap_or(0).max(1);
    (0..classes).map(most).collect()
}

fn kind(
    problem: &PlacementProblem,
    bundles: &[Bundle],
    loads: &[Load],
    members: Vec<usize>,
    most: &[u64],
) -> BundleKind {
    let first = &bundles[members[0]];
    let own: HashSet<usize> = first.servers.iter().copied().collect();
    let role = |(rule, part): &(usize, usize)| {
        let is_whole = match &problem.rules[*rule] {
            Rule::Apart(_, parts) => parts[*part].iter().all(|it| own.contains(it)),
            Rule::Together(..) | Rule::Alone(..) => false,
        };
        (*rule, if is_whole { None } else { Some(*part) })
    };
    let rules: Vec<(usize, Option<usize>)> = first.rules.iter().map(role).collect();
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
    let least = &loads[first.load].least;
    let weight = least.iter().zip(most).map(|(it, most)| thousandths(*it, *most)).sum();
    BundleKind {
        load: first.load,
        servers: u64::try_from(first.servers.len()).unwrap_or(u64::MAX),
        settled: homes.values().sum(),
        homes: homes.into_iter().collect(),
        rules,
        apart,
        weight,
        bundles: members,
    }
}

fn thousandths(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 1000 / u128::from(whole)).unwrap_or(u64::MAX)
}
