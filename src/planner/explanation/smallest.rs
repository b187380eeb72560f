//! The smallest set of conditions under which the servers of a conflict have no places.
//!
//! One server without rules needs a set of conditions of which every host violates one: a cover. In all other
//! cases, the problem of these servers and rules is composed and solved repeatedly without some of the conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::case::Case;
use super::condition::{Condition, Scenario};
use super::survey::Survey;
use crate::model::ProviderId;
use crate::planner::candidates;
use crate::planner::compose::{Composed, compose};
use crate::solver::{Budget, Rule, hosts_for, is_impossible, minimal_subset};

/// The conditions, and the problem without all others.
pub(super) struct Smallest {
    /// The conditions.
    pub(super) conditions: BTreeSet<Condition>,
    /// The problem; `None` if the time was up first.
    pub(super) problem: Option<Reduced>,
}

/// The problem of the servers and rules of a conflict, with some of the conditions.
pub(super) struct Reduced {
    /// The problem, which may have more servers.
    pub(super) composed: Composed,
    /// The positions of the servers of the conflict, in their order.
    pub(super) servers: Vec<usize>,
    /// The positions of the rules of the conflict.
    pub(super) rules: Vec<usize>,
}

/// Finds the conditions. Conditions that cannot be dropped in time are kept.
pub(super) fn smallest(case: &Case<'_>, survey: &Survey, budget: &mut Budget<'_>) -> Smallest {
    let kept = budget.kept();
    let conditions = match cover(case, survey) {
        Some(conditions) => conditions,
        None => by_solving(case, survey, budget),
    };
    budget.release_to(kept);
    let problem = reduced(case, &conditions, budget);
    Smallest { conditions, problem }
}

/// A smallest set of conditions of which every host violates one, if the conflict is of this form.
fn cover(case: &Case<'_>, survey: &Survey) -> Option<BTreeSet<Condition>> {
    let ([_], [sort], []) =
        (case.conflict.servers.as_slice(), survey.sorts.as_slice(), case.conflict.rules.as_slice())
    else {
        return None;
    };
    sort.funnel.as_ref()?;
    let mut left: BTreeMap<&BTreeSet<Condition>, usize> =
        sort.patterns.iter().map(|(pattern, hosts)| (pattern, *hosts)).collect();
    let mut chosen: Vec<Condition> = Vec::new();
    while !left.is_empty() {
        let mut hosts: BTreeMap<&Condition, usize> = BTreeMap::new();
        for (pattern, count) in &left {
            for condition in pattern.iter().filter(|it| **it != Condition::AllAtOnce) {
                *hosts.entry(condition).or_insert(0) += count;
            }
        }
        let best = hosts.into_iter().max_by(|(one, few), (other, many)| {
            // The first of equal ones.
            few.cmp(many).then(other.cmp(one))
        });
        // A host that has everything, but not at once, does not have this form.
        let best = best?.0.clone();
        left.retain(|pattern, _| !pattern.contains(&best));
        chosen.push(best);
    }
    let mut needed: BTreeSet<Condition> = chosen.iter().cloned().collect();
    for condition in chosen {
        needed.remove(&condition);
        if sort.patterns.keys().any(|pattern| pattern.is_disjoint(&needed)) {
            needed.insert(condition);
        }
    }
    Some(needed)
}

/// All relevant conditions of the servers of a conflict.
fn conditions(case: &Case<'_>, survey: &Survey) -> Vec<Condition> {
    let mut all: BTreeSet<Condition> = BTreeSet::new();
    for sort in survey.sorts.iter().filter(|sort| !sort.stays) {
        let Some(server) = sort.servers.first().copied() else { continue };
        let (Some(it), Some(groups)) =
            (case.stack.servers.get(server), case.composed.memberships.get(server))
        else {
            continue;
        };
        let request = candidates::request(&case.composed.world, &it.size);
        all.extend(Condition::of_request_all(&request));
        // A condition that rules out no host binds no server.
        let rules_out =
            |condition: &Condition| sort.funnel.is_none() || sort.counted(condition).is_some();
        all.extend(Condition::on_hosts(it, groups, case.around).into_iter().filter(rules_out));
    }
    all.into_iter().collect()
}

/// For each trait that only a part of a tree may have, the classes of the groups that require it. The trait counts on
/// providers that supply one of these classes, so it would be harder to meet without them.
fn bound_classes(case: &Case<'_>) -> BTreeMap<Condition, BTreeSet<Condition>> {
    let world = &case.composed.world;
    let is_of_parts = |name: &String| {
        let carriers = world.trait_id(name).map(|id| world.carriers(id));
        carriers.is_some_and(|carriers| carriers.len_without(world.lone()) > 0)
    };
    let mut bound: BTreeMap<Condition, BTreeSet<Condition>> = BTreeMap::new();
    let servers = case.conflict.servers.iter().filter_map(|it| case.stack.servers.get(*it));
    for server in servers.filter(|server| !server.is_fixed()) {
        for group in candidates::request(world, &server.size).groups {
            let classes = group.resources.iter().map(|(class, _)| Condition::Class(class.clone()));
            let classes: BTreeSet<Condition> = classes.collect();
            for any in group.required.into_iter().filter(|any| any.iter().any(is_of_parts)) {
                bound.entry(Condition::Trait(any)).or_default().extend(classes.iter().cloned());
            }
        }
    }
    bound
}

/// Finds a smallest set of conditions under which the problem is impossible.
fn by_solving(case: &Case<'_>, survey: &Survey, budget: &mut Budget<'_>) -> BTreeSet<Condition> {
    let all = conditions(case, survey);
    let is_even = case
        .conflict
        .rules
        .iter()
        .any(|rule| matches!(case.composed.problem.rules.get(*rule), Some(Rule::Skew(_))));
    let bound = bound_classes(case);
    let set = |numbers: &[usize]| -> BTreeSet<Condition> {
        let chosen: Vec<&Condition> = numbers.iter().filter_map(|it| all.get(*it)).collect();
        let classes = chosen.iter().filter_map(|it| bound.get(it)).flatten();
        chosen.iter().copied().chain(classes).cloned().collect()
    };
    let numbers: Vec<usize> = (0..all.len()).collect();
    let mut is_impossible =
        |numbers: &[usize]| is_impossible_with(case, &set(numbers), None, budget);
    let needed = if is_even {
        without_dispensable(numbers, &mut is_impossible)
    } else {
        minimal_subset(numbers, &mut is_impossible)
    };
    let found = set(&needed);
    if found.len() == needed.len() {
        return found;
    }
    // Classes that only make their traits possible are left out, unless a server would lose hosts without them.
    let hosts = Hosts::of(case, budget);
    if hosts.0.iter().any(BTreeSet::is_empty) {
        return found;
    }
    let found: Vec<Condition> = found.into_iter().collect();
    let set = |numbers: &[usize]| -> BTreeSet<Condition> {
        numbers.iter().filter_map(|it| found.get(*it)).cloned().collect()
    };
    let numbers: Vec<usize> = (0..found.len()).collect();
    set(&without_dispensable(numbers, &mut |numbers| {
        is_impossible_with(case, &set(numbers), Some(&hosts), budget)
    }))
}

/// Returns whether the problem with these conditions only is impossible, and no server has lost one of its `hosts`;
/// `None` if the time is up.
fn is_impossible_with(
    case: &Case<'_>,
    conditions: &BTreeSet<Condition>,
    hosts: Option<&Hosts>,
    budget: &mut Budget<'_>,
) -> Option<bool> {
    let kept = budget.kept();
    let found = reduced(case, conditions, budget).and_then(|problem| {
        let Reduced { composed, servers, rules } = &problem;
        let now = hosts.map(|_| Hosts::in_problem(composed, servers, budget));
        let has_lost = hosts.zip(now).is_some_and(|(before, now)| !before.are_in(&now));
        if has_lost {
            return Some(false);
        }
        is_impossible(&composed.problem, rules, servers, budget)
    });
    budget.release_to(kept);
    found
}

/// For each server of the conflict, the hosts on which it can be alone.
struct Hosts(Vec<BTreeSet<ProviderId>>);

impl Hosts {
    fn of(case: &Case<'_>, budget: &mut Budget<'_>) -> Self {
        Self::in_problem(case.composed, &case.conflict.servers, budget)
    }

    fn in_problem(composed: &Composed, servers: &[usize], budget: &mut Budget<'_>) -> Self {
        let problem = &composed.problem;
        let servers = servers.iter().filter_map(|server| problem.servers.get(*server));
        let hosts = servers.map(|server| {
            let hosts = hosts_for(problem, server, budget).into_iter();
            hosts.filter_map(|host| composed.hosts.get(host)).map(|host| host.root).collect()
        });
        Self(hosts.collect())
    }

    fn are_in(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(hosts, others)| hosts.is_subset(others))
    }
}

/// Reduces impossible demands by dropping demands one by one while the others remain impossible. In contrast to
/// [`minimal_subset`], fewer demands may be harder to meet: a server that can be on more hosts adds domains to an
/// even distribution.
fn without_dispensable(
    mut demands: Vec<usize>,
    is_impossible: &mut dyn FnMut(&[usize]) -> Option<bool>,
) -> Vec<usize> {
    loop {
        let before = demands.len();
        let mut next = 0;
        while next < demands.len() {
            let mut others = demands.clone();
            others.remove(next);
            match is_impossible(&others) {
                Some(true) => demands = others,
                Some(false) => next += 1,
                None => return demands,
            }
        }
        if demands.len() == before {
            return demands;
        }
    }
}

/// The problem with these conditions only; `None` if the time is up.
fn reduced(
    case: &Case<'_>,
    kept: &BTreeSet<Condition>,
    budget: &mut Budget<'_>,
) -> Option<Reduced> {
    if budget.is_spent_now() {
        return None;
    }
    let (world, stack, around) = (Arc::clone(case.world), case.stack.clone(), case.around.clone());
    let mut scenario = Scenario { world, stack, around };
    scenario.leave_out_movers_but(&case.conflict.servers.iter().copied().collect());
    scenario.keep(kept);
    let Scenario { world, stack, around } = &scenario;
    let (stack, positions) = stack.present();
    let composed = compose(world, &stack, around, budget).ok()?;
    let servers = case.conflict.servers.iter();
    let servers = servers.map(|server| positions.binary_search(server).ok());
    // A group that counts its servers may have two rules.
    let key = |composed: &Composed, rule: usize| {
        let is_even = matches!(composed.problem.rules.get(rule)?, Rule::Skew(_));
        Some((*composed.groups.get(rule)?, is_even))
    };
    let keys: BTreeSet<(usize, bool)> =
        case.conflict.rules.iter().filter_map(|rule| key(case.composed, *rule)).collect();
    let rules = 0..composed.groups.len();
    let rules = rules.filter(|rule| key(&composed, *rule).is_some_and(|it| keys.contains(&it)));
    let rules = rules.collect();
    Some(Reduced { servers: servers.collect::<Option<Vec<usize>>>()?, rules, composed })
}
