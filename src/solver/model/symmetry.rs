//! Symmetry breaking: hosts that are interchangeable as long as nothing is placed on them. The
//! search tries only one of them.
//!
//! *Example.* Of 200 empty hosts of one model in one rack, the search tries the first one for a
//! bundle. If that leads to a dead end, so would the other 199, and all of them are skipped.

#![expect(clippy::indexing_slicing, reason = "hosts and racks are numbered densely")]

use std::collections::HashMap;

use super::bundle::Bundle;
use super::bundle_kind::BundleKind;
use super::sizes::Sizes;
use super::units::Units;
use crate::solver::budget::Budget;
use crate::solver::problem::{Conditions, Level, PlacementProblem, Supply};

/// Classes of symmetric hosts. Two untouched hosts of a class are interchangeable if they are in the same rack or
/// in none. They also are if both racks are untouched, because then the racks are interchangeable: each host of one
/// has its counterpart in the other. If neither a rule nor the policy refers to racks, racks do not matter at all.
#[derive(Debug)]
pub(in crate::solver) struct HostSymmetry {
    /// The class of each host.
    of: Vec<usize>,
    hosts: Vec<Vec<usize>>,
    /// The rack of each host, if racks matter.
    racks: Vec<Option<usize>>,
}

impl HostSymmetry {
    /// Classifies the hosts of a model. If the budget is spent, each host is in a class of its own.
    pub(in crate::solver) fn of(
        problem: &PlacementProblem,
        units: &Units,
        sizes: &Sizes<'_>,
        (kinds, bundles): (&[BundleKind], &[Bundle]),
        budget: &mut Budget<'_>,
    ) -> Self {
        let mut is_home = vec![false; problem.hosts.len()];
        for home in kinds.iter().flat_map(|kind| &kind.homes) {
            if let Some(is_home) = is_home.get_mut(home.0) {
                *is_home = true;
            }
        }
        let fingerprint = |host: usize, budget: &mut Budget<'_>| {
            let mut fingerprint = sizes.fingerprint(host);
            budget.is_spent_after(sizes.count() + 4 * fingerprint.len() + kinds.len());
            let it = &problem.hosts[host];
            let number = |it: Option<usize>| it.map_or(0, |it| it as u64 + 1);
            fingerprint.extend(&it.free);
            fingerprint.extend(&it.capacity);
            // A current host of some server is symmetric to no other.
            fingerprint.push(number(is_home[host].then_some(host)));
            fingerprint.push(number(units.unit(Level::Cluster, host)));
            fingerprint.push(u64::from(it.in_use));
            let open =
                |kind: &BundleKind| u64::from(bundles[kind.bundles[0]].allowed_hosts.has(host));
            // One bit for each kind.
            let bits =
                |kinds: &[BundleKind]| kinds.iter().fold(0, |bits, kind| bits << 1 | open(kind));
            fingerprint.extend(kinds.chunks(64).map(bits));
            fingerprint
        };
        let mut known: HashMap<Vec<u64>, usize> = HashMap::new();
        let mut fingerprints = vec![0; problem.hosts.len()];
        for (host, number) in fingerprints.iter_mut().enumerate() {
            let fingerprint = fingerprint(host, budget);
            let (numbers, next) = (8 + fingerprint.len(), known.len());
            *number = *known.entry(fingerprint).or_insert(next);
            if budget.is_spent_with(if *number == next { numbers } else { 1 }) {
                break;
            }
        }
        drop(known);
        if budget.is_spent() {
            return Self::none(problem.hosts.len());
        }
        let rack_fingerprint = |rack: usize| {
            let hosts = units.hosts(Level::Rack, rack);
            let mut fingerprints: Vec<usize> =
                hosts.iter().map(|host| fingerprints[*host]).collect();
            fingerprints.sort_unstable();
            fingerprints
        };
        let rack_fingerprints = numbered((0..units.count(Level::Rack)).map(rack_fingerprint));
        let do_racks_matter = problem.policy.level == Level::Rack
            || problem.rules.iter().any(|rule| rule.level() == Level::Rack)
            || problem.soft_rules.iter().any(|soft| soft.level == Level::Rack);
        let rack = |host: usize| units.unit(Level::Rack, host).filter(|_| do_racks_matter);
        let racks: Vec<Option<usize>> = (0..problem.hosts.len()).map(rack).collect();
        let group =
            |host: usize| (fingerprints[host], racks[host].map(|rack| rack_fingerprints[rack]));
        let of = numbered((0..problem.hosts.len()).map(group));
        let mut hosts = vec![Vec::new(); of.iter().max().map_or(0, |most| most + 1)];
        for (host, group) in of.iter().enumerate() {
            hosts[*group].push(host);
        }
        Self { of, hosts, racks }
    }

    /// Each host in a class of its own.
    fn none(hosts: usize) -> Self {
        let hosts = 0..hosts;
        Self {
            of: hosts.clone().collect(),
            racks: vec![None; hosts.len()],
            hosts: hosts.map(|host| vec![host]).collect(),
        }
    }

    /// The rack of each host; none if racks do not matter.
    pub(in crate::solver) fn racks(&self) -> &[Option<usize>] {
        &self.racks
    }

    /// The hosts in the class of a host.
    pub(in crate::solver) fn group(&self, host: usize) -> &[usize] {
        &self.hosts[self.of[host]]
    }
}

fn numbered<T: std::hash::Hash + Eq>(all: impl Iterator<Item = T>) -> Vec<usize> {
    let mut known = HashMap::new();
    all.map(|it| {
        let next = known.len();
        *known.entry(it).or_insert(next)
    })
    .collect()
}

fn add_conditions(conditions: &Conditions, fingerprint: &mut Vec<u64>) {
    let Conditions { clauses, isolated, subtrees, needs_own } = conditions;
    fingerprint.extend([*clauses as u64, u64::from(*needs_own), subtrees.len() as u64]);
    for parts in std::iter::once(isolated).chain(subtrees) {
        fingerprint.push(parts.len() as u64);
        fingerprint.extend(parts.iter().map(|part| *part as u64));
    }
}

/// The private pools of a host, numbered in the order in which they occur.
#[derive(Default)]
struct OwnPools {
    pools: Vec<usize>,
    numbers: HashMap<usize, usize>,
}

impl Sizes<'_> {
    /// The supply of every size on a host as one list of numbers, in which private pools are numbered from the
    /// host's own view, followed by the free amounts in these pools. Hosts with equal fingerprints are
    /// interchangeable as far as capacity is concerned.
    pub(super) fn fingerprint(&self, host: usize) -> Vec<u64> {
        let mut own = OwnPools::default();
        let mut fingerprint = Vec::new();
        for size in 0..self.count() {
            let Some(supply) = self.supply(size, host) else { continue };
            fingerprint.push(size as u64);
            match supply {
                Supply::One(draws) => {
                    fingerprint.push(0);
                    self.add_draws(draws, &mut own, &mut fingerprint);
                }
                Supply::Choice(choice) => {
                    fingerprint.push(1 + choice.parts.len() as u64);
                    add_conditions(&choice.conditions, &mut fingerprint);
                    self.add_draws(&choice.limits, &mut own, &mut fingerprint);
                    for ways in choice.parts.iter() {
                        fingerprint.push(ways.len() as u64);
                        for way in ways {
                            let [provider, last] = [way.provider, way.last].map(u64::from);
                            fingerprint.extend([provider, last, way.source as u64]);
                            fingerprint.extend(way.meets.iter().map(|meets| u64::from(*meets)));
                            self.add_draws(&way.draws, &mut own, &mut fingerprint);
                        }
                    }
                }
            }
        }
        // This is no size, so it separates the ways from the free amounts.
        fingerprint.push(self.first.len() as u64);
        for pool in own.pools.iter().filter_map(|pool| self.problem.pools.get(*pool)) {
            fingerprint.extend([pool.class as u64, pool.free]);
        }
        fingerprint
    }

    fn add_draws(&self, draws: &[(usize, u64)], own: &mut OwnPools, fingerprint: &mut Vec<u64>) {
        fingerprint.push(draws.len() as u64);
        for (pool, amount) in draws {
            fingerprint.extend([self.renamed(*pool, own), *amount]);
        }
    }

    fn renamed(&self, pool: usize, own: &mut OwnPools) -> u64 {
        if self.shared.get(pool).is_none_or(|shared| *shared) {
            return pool as u64;
        }
        let next = own.pools.len();
        let known = *own.numbers.entry(pool).or_insert(next);
        if known == next {
            own.pools.push(pool);
        }
        (self.shared.len() + known) as u64
    }
}
