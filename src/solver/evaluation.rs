//! Checks which rules a complete placement satisfies, and computes its cost. This defines rules and [`Cost`]; the
//! search computes the same step by step.

use std::collections::HashMap;

use super::counted::CountedUnits;
use super::fit::fit_costs;
use super::problem::{Goal, Level, PlacementProblem, Rule, Server, SoftRule, SoftRuleKind, pairs};
use super::solution::{Cost, Counts};
use super::utilisation::{Addition, Utilisation};

/// The cost of a placement, given the host of each server.
pub(super) fn cost(problem: &PlacementProblem, places: &[usize]) -> Cost {
    let goal = problem.policy.goal;
    let is_moved =
        |(server, place): (&Server, &usize)| server.current_host.is_some_and(|home| home != *place);
    let moved = problem.servers.iter().zip(places).filter(|it| is_moved(*it)).count();
    let levels = CountedUnits::of_policy(problem);
    let counts = |level: usize| {
        let counted = levels.get(level).filter(|_| goal == Goal::Spread);
        Counts::of(counted.map_or_else(Vec::new, |units| in_units(units, places)))
    };
    let load = |level: usize| {
        let counted = levels.get(level).filter(|_| goal == Goal::Balance);
        counted.map_or(0, |units| load(problem, units, places))
    };
    let packed = levels.first().filter(|_| goal == Goal::Pack);
    let units = packed.map_or(0, |units| occupied(in_units(units, places)));
    let mut hosts = places.to_vec();
    hosts.sort_unstable();
    hosts.dedup();
    let is_new = |host: &&usize| problem.hosts.get(**host).is_some_and(|host| !host.in_use);
    let new_hosts = hosts.iter().filter(is_new).count();
    let fit_costs = fit_costs(problem);
    Cost {
        moved: moved as u64,
        violations: problem.soft_rules.iter().map(|soft| soft.cost(problem, places)).sum(),
        per_unit: counts(0),
        per_host: counts(1),
        units,
        new_hosts: if goal == Goal::Pack { new_hosts as u64 } else { 0 },
        load: load(0),
        host_load: load(1),
        fit: places.iter().filter_map(|host| fit_costs.get(*host)).sum(),
    }
}

/// The servers in each unit.
fn in_units(units: &CountedUnits, places: &[usize]) -> Vec<u64> {
    let mut counts = vec![0; units.count()];
    for place in places {
        if let Some(count) = counts.get_mut(units.unit(*place)) {
            *count += 1;
        }
    }
    counts
}

fn occupied(counts: Vec<u64>) -> u64 {
    counts.into_iter().filter(|count| *count > 0).count() as u64
}

/// The load that the servers add to the units.
fn load(problem: &PlacementProblem, units: &CountedUnits, places: &[usize]) -> u64 {
    let utilisation = Utilisation::of(problem, units);
    let mut used = utilisation.initial.clone();
    let mut load = 0_u64;
    for (server, place) in problem.servers.iter().zip(places) {
        let unit = units.unit(*place);
        let amounts = std::sync::Arc::clone(&server.amounts);
        let it = [Addition { amounts, counted_on: server.counted_on(), servers: 1 }];
        let is_counted = |host: usize| host == *place;
        load = load.saturating_add(utilisation.added((unit, &used), 0, &it, is_counted));
        for class in 0..utilisation.classes() {
            if let Some(used) = used.get_mut(unit * utilisation.classes() + class) {
                *used += utilisation.shares(unit, class, &it, is_counted);
            }
        }
    }
    load
}

impl Rule {
    /// Returns whether a placement satisfies the rule, given the host of each server. This defines rules; the
    /// search computes the same step by step.
    pub fn holds(&self, problem: &PlacementProblem, places: &[usize]) -> bool {
        let level = self.level();
        let unit = |server: &usize| unit(problem, level, *places.get(*server)?);
        let units = |servers: &[usize]| -> Option<Vec<u64>> { servers.iter().map(unit).collect() };
        let Some(all) = units(&self.servers()) else { return false };
        match self {
            Self::Together(..) => all.iter().all(|it| Some(it) == all.first()),
            Self::Apart(_, parts) => {
                let mut taken: Vec<u64> = Vec::new();
                parts.iter().filter_map(|part| units(part)).all(|mut part| {
                    let is_free = part.iter().all(|it| !taken.contains(it));
                    taken.append(&mut part);
                    is_free
                })
            }
            Self::Alone(_, servers) => (0..places.len())
                .filter(|other| !servers.contains(other))
                .all(|other| unit(&other).is_none_or(|unit| !all.contains(&unit))),
            Self::AtMost(_, most, _) => all.iter().all(|it| count(&all, *it) <= u64::from(*most)),
            Self::Skew(skew) => {
                let domains = skew.domains.iter();
                let domains = domains.filter_map(|host| self::unit(problem, level, *host));
                let mut domains: Vec<u64> = domains.collect();
                domains.sort_unstable();
                domains.dedup();
                let counts: Vec<u64> = domains.iter().map(|domain| count(&all, *domain)).collect();
                let missing = skew.missing(counts.iter().copied());
                all.iter().all(|it| domains.contains(it)) && missing <= u64::from(skew.absent)
            }
        }
    }
}

impl SoftRule {
    /// The cost of a placement, given the host of each server.
    fn cost(&self, problem: &PlacementProblem, places: &[usize]) -> u64 {
        let unit = |server: usize| {
            let host = *places.get(server)?;
            // Unknown units get numbers beyond the known ones.
            let unknown = match self.kind {
                SoftRuleKind::Together => (1 << 33) + host as u64,
                SoftRuleKind::Apart => 1 << 33,
            };
            Some(unit(problem, self.level, host).unwrap_or(unknown))
        };
        let mut in_unit: HashMap<Option<u64>, u64> = HashMap::new();
        // The pairs within one part in one unit.
        let mut inside = 0;
        for servers in &self.parts {
            let mut of_part: HashMap<Option<u64>, u64> = HashMap::new();
            for server in servers {
                *of_part.entry(unit(*server)).or_insert(0) += 1;
                *in_unit.entry(unit(*server)).or_insert(0) += 1;
            }
            inside += of_part.into_values().map(pairs).sum::<u64>();
        }
        let all = pairs(in_unit.values().sum());
        let in_units = in_unit.into_values().map(pairs).sum::<u64>();
        let broken = match self.kind {
            SoftRuleKind::Together => all - in_units,
            SoftRuleKind::Apart => in_units - inside,
        };
        broken * u64::from(self.weight)
    }
}

/// The unit of a host, if it is known.
fn unit(problem: &PlacementProblem, level: Level, host: usize) -> Option<u64> {
    let it = problem.hosts.get(host)?;
    match level {
        Level::Host => Some(host as u64),
        Level::Rack => it.rack.map(u64::from),
        Level::Cluster => it.cluster.map(u64::from),
    }
}

fn count(all: &[u64], unit: u64) -> u64 {
    all.iter().filter(|it| **it == unit).count() as u64
}
