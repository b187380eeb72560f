//! Bundles: maximal sets of servers that affinity binds to one host (found by union-find). The
//! search places bundles, not servers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::load::{Demand, Load};
use super::sizes::Sizes;
use super::units::Units;
use crate::solver::budget::Budget;
use crate::solver::parallel::map_items;
use crate::solver::problem::{AllowedHosts, Goal, Level, PlacementProblem, Rule};
use crate::solver::union_find::UnionFind;
use crate::solver::utilisation::Addition;

/// Servers that must be on the same host.
#[derive(Clone, Debug)]
pub(in crate::solver) struct Bundle {
    /// The servers, in the order of their sizes.
    pub(in crate::solver) servers: Vec<usize>,
    /// The position of their load.
    pub(in crate::solver) load: usize,
    /// The hosts that all of them may be on.
    pub(in crate::solver) allowed_hosts: AllowedHosts,
    /// The present host of each server.
    pub(super) current_hosts: Vec<Option<usize>>,
    /// The additions of its servers to the use of their host, equal ones together. Empty unless the policy
    /// balances.
    pub(in crate::solver) additions: Vec<Addition>,
    /// The rules that bind it, each with its part.
    pub(in crate::solver) rules: Vec<(usize, usize)>,
    /// The rules that count servers, each with the number of its servers in the bundle.
    pub(super) members: Vec<(usize, u64)>,
    /// The soft rules and their parts, each with the number of its servers in the bundle.
    pub(in crate::solver) soft_rules: Vec<(usize, usize, u64)>,
    /// The position of its kind, which `bundle_kind` assigns: bundles of one kind are
    /// interchangeable.
    pub(in crate::solver) kind: usize,
}

/// The bundles of a problem, and their loads.
///
/// `None` if the rules contradict each other on any hosts. The result, including `None`, must not
/// be used once the budget is spent.
pub(in crate::solver) fn bundles(
    problem: &PlacementProblem,
    units: &Units,
    sizes: &Sizes<'_>,
    budget: &mut Budget<'_>,
) -> Option<(Vec<Bundle>, Vec<Load>)> {
    let (members, loads) = loads(members(problem), sizes, budget)?;
    let mut bundle_of = vec![usize::MAX; problem.servers.len()];
    let mut bundles: Vec<Bundle> = Vec::new();
    let mut allowed = KnownHosts::new();
    for (servers, load) in members {
        for server in &servers {
            if let Some(bundle) = bundle_of.get_mut(*server) {
                *bundle = bundles.len();
            }
        }
        let allowed_hosts = allowed_hosts(
            problem,
            &servers,
            (load, loads.get(load)?),
            (&mut allowed, &mut *budget),
        );
        bundles.push(bundle(problem, servers, load, allowed_hosts));
    }
    let mut bound: Vec<usize> = Vec::new();
    for (number, rule) in problem.rules.iter().enumerate() {
        bind(&mut bundles, &bundle_of, (number, rule), (&mut bound, &mut *budget))?;
        restrict(&mut bundles, &bound, rule, units, budget)?;
    }
    for (number, soft) in problem.soft_rules.iter().enumerate() {
        for (part, servers) in soft.parts.iter().enumerate() {
            if budget.is_spent_after(1 + 4 * servers.len()) {
                return None;
            }
            for server in servers {
                let bundle = bundles.get_mut(*bundle_of.get(*server)?)?;
                match bundle.soft_rules.last_mut() {
                    Some((soft, of, members)) if (*soft, *of) == (number, part) => *members += 1,
                    Some(_) | None => bundle.soft_rules.push((number, part, 1)),
                }
            }
        }
    }
    Some((bundles, loads))
}

/// The servers of a bundle, in the order of their sizes, and the position of their load.
type Members = (Vec<usize>, usize);

/// The servers of all bundles, and their loads. `None` once the budget is spent.
fn loads(
    members: Vec<Vec<usize>>,
    sizes: &Sizes<'_>,
    budget: &mut Budget<'_>,
) -> Option<(Vec<Members>, Vec<Load>)> {
    let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
    let mut with_load = Vec::with_capacity(members.len());
    let mut all: Vec<Vec<usize>> = Vec::new();
    for mut servers in members {
        if budget.is_spent_after(1 + 4 * servers.len()) {
            return None;
        }
        let size = |server: &usize| sizes.of.get(*server).copied();
        debug_assert!(servers.iter().all(|server| size(server).is_some()));
        servers.sort_by_key(size);
        let sizes_of: Vec<usize> = servers.iter().filter_map(size).collect();
        let load = *known.entry(sizes_of).or_insert_with_key(|sizes_of| {
            all.push(sizes_of.clone());
            all.len() - 1
        });
        with_load.push((servers, load));
    }
    let hosts = sizes.problem.hosts.len();
    let loads = map_items(&all, hosts, budget, |sizes_of, budget| sizes.load(sizes_of, budget));
    Some((with_load, loads.into_iter().collect::<Option<_>>()?))
}

/// Limits the bundles that a rule binds to hosts in a known unit of its level that the rule admits. `None` once the
/// budget is spent.
fn restrict(
    bundles: &mut [Bundle],
    bound: &[usize],
    rule: &Rule,
    units: &Units,
    budget: &mut Budget<'_>,
) -> Option<()> {
    let domains = domains(rule, units);
    if rule.level() == Level::Host && domains.is_none() {
        return Some(());
    }
    let hosts = units.count(Level::Host);
    let has_unit = |host: usize| {
        let unit = units.unit(rule.level(), host);
        unit.is_some_and(|unit| domains.as_ref().is_none_or(|it| it.contains(&unit)))
    };
    budget.is_spent_after(hosts);
    if (0..hosts).all(has_unit) {
        return Some(());
    }
    // Both lists are kept, so that no other list gets the address of the first one.
    let mut known: HashMap<_, (AllowedHosts, AllowedHosts)> = HashMap::new();
    for nth in bound {
        let Some(bundle) = bundles.get_mut(*nth) else { continue };
        if budget.is_spent_after(8) {
            return None;
        }
        let all = bundle.allowed_hosts.clone();
        let (_, with_unit) = known.entry(all.identity()).or_insert_with(|| {
            budget.is_spent_with(hosts / 8);
            budget.is_spent_after(hosts);
            let may_be = |host| all.has(host) && has_unit(host);
            let with_unit = (0..hosts).map(may_be).collect();
            (all, with_unit)
        });
        bundle.allowed_hosts = with_unit.clone();
    }
    if budget.is_spent() { None } else { Some(()) }
}

/// The only units that a rule allows for its servers.
fn domains(rule: &Rule, units: &Units) -> Option<HashSet<usize>> {
    let Rule::Skew(skew) = rule else { return None };
    Some(skew.domains.iter().filter_map(|host| units.unit(skew.level, *host)).collect())
}

/// The servers of each bundle.
fn members(problem: &PlacementProblem) -> Vec<Vec<usize>> {
    let mut joined = UnionFind::new(problem.servers.len());
    for rule in &problem.rules {
        if let Rule::Together(Level::Host, servers) = rule {
            for pair in servers.windows(2) {
                if let [one, other] = pair {
                    joined.join(*one, *other);
                }
            }
        }
    }
    let mut members = vec![Vec::new(); problem.servers.len()];
    for server in 0..problem.servers.len() {
        if let Some(members) = members.get_mut(joined.find(server)) {
            members.push(server);
        }
    }
    members.retain(|servers| !servers.is_empty());
    members
}

/// The hosts that bundles may be on, by their load and by the allowed hosts of their servers.
type KnownHosts = HashMap<(usize, Vec<Result<usize, *const bool>>), AllowedHosts>;

/// The hosts that all of these servers may be on, with their load. Bundles with the same load and
/// the same lists share the result.
fn allowed_hosts(
    problem: &PlacementProblem,
    servers: &[usize],
    (number, load): (usize, &Load),
    (known, budget): (&mut KnownHosts, &mut Budget<'_>),
) -> AllowedHosts {
    let members = servers.iter().filter_map(|server| problem.servers.get(*server));
    let mut open: Vec<&AllowedHosts> = members.map(|it| &it.allowed_hosts).collect();
    open.sort_unstable_by_key(|it| it.identity());
    open.dedup_by_key(|it| it.identity());
    let never = |host: usize| matches!(load.at(host), Demand::Never);
    let is_possible = |list: &AllowedHosts, budget: &mut Budget<'_>| {
        budget.is_spent_after(problem.hosts.len());
        !list.hosts().any(never)
    };
    let key = (number, open.iter().map(|it| it.identity()).collect());
    let found = known.entry(key).or_insert_with(|| match open.as_slice() {
        // A list from which no host is removed stays identical, so that it is not compared with others.
        [only] if is_possible(only, budget) => AllowedHosts::clone(only),
        open => {
            budget.is_spent_with(problem.hosts.len() / 8);
            let may_be = |host: usize| {
                !budget.is_spent_after(1 + open.len())
                    && !never(host)
                    && open.iter().all(|it| it.has(host))
            };
            (0..problem.hosts.len()).map(may_be).collect()
        }
    });
    found.clone()
}

/// The bundle of these servers, with the position of their load.
fn bundle(
    problem: &PlacementProblem,
    servers: Vec<usize>,
    load: usize,
    allowed_hosts: AllowedHosts,
) -> Bundle {
    let members = servers.iter().filter_map(|server| problem.servers.get(*server));
    let current_hosts = members.map(|server| server.current_host).collect();
    let additions = additions(problem, &servers);
    Bundle {
        servers,
        load,
        allowed_hosts,
        current_hosts,
        additions,
        rules: Vec::new(),
        members: Vec::new(),
        soft_rules: Vec::new(),
        kind: 0,
    }
}

/// The additions of some servers to the use of their host.
fn additions(problem: &PlacementProblem, servers: &[usize]) -> Vec<Addition> {
    if problem.policy.goal != Goal::Balance {
        return Vec::new();
    }
    let addition = |server: &usize| {
        let it = problem.servers.get(*server)?;
        let (amounts, counted_on) = (Arc::clone(&it.amounts), it.counted_on());
        Some(Addition { amounts, counted_on, servers: 1 })
    };
    let mut additions: Vec<Addition> = servers.iter().filter_map(addition).collect();
    additions.sort_unstable();
    additions.dedup_by(|next, first| {
        let is_same = (&next.amounts, next.counted_on) == (&first.amounts, first.counted_on);
        first.servers += u64::from(is_same);
        is_same
    });
    additions
}

/// Adds a rule to the bundles that it binds, and lists these bundles in `bound`. `None` if the rule
/// contradicts the bundles, or once the budget is spent.
fn bind(
    bundles: &mut [Bundle],
    bundle_of: &[usize],
    (number, rule): (usize, &Rule),
    (bound, budget): (&mut Vec<usize>, &mut Budget<'_>),
) -> Option<()> {
    let alone: Option<HashSet<usize>> = match rule {
        Rule::Alone(_, servers) => Some(servers.iter().copied().collect()),
        Rule::Together(..) | Rule::Apart(..) | Rule::AtMost(..) | Rule::Skew(_) => None,
    };
    let counts = matches!(rule, Rule::AtMost(..) | Rule::Skew(_));
    bound.clear();
    let mut part_of: HashMap<usize, usize> = HashMap::new();
    for (part, servers) in rule.parts().iter().enumerate() {
        if budget.is_spent_after(1 + 8 * servers.len()) {
            return None;
        }
        for server in servers {
            let nth = *bundle_of.get(*server)?;
            if let Some(bundle) = bundles.get_mut(nth).filter(|_| counts) {
                match bundle.members.last_mut() {
                    Some((rule, members)) if *rule == number => *members += 1,
                    Some(_) | None => bundle.members.push((number, 1)),
                }
            }
            // Servers of one host would have to be in different units.
            match part_of.insert(nth, part) {
                Some(other) if other != part => return None,
                Some(_) => continue,
                None => bound.push(nth),
            }
            let bundle = bundles.get_mut(nth)?;
            bundle.rules.push((number, part));
            // A server that must be alone would share its host with another one.
            let is_outsider =
                |server| alone.as_ref().is_some_and(|members| !members.contains(server));
            if bundle.servers.iter().any(is_outsider) {
                return None;
            }
        }
    }
    Some(())
}
