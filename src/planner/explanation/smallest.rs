//! The smallest set of conditions under which the servers of a conflict have no places.
//!
//! One server without rules needs a set of conditions of which every host violates one: a cover. In all other
//! cases, the problem of these servers and rules is composed and solved repeatedly without some of the conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::case::Case;
use super::condition::{Condition, Scenario};
use super::survey::Survey;
use crate::planner::candidates;
use crate::planner::compose::{Composed, compose};
use crate::solver::{Budget, Rule, is_impossible, minimal_subset};

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

fn by_solving(case: &Case<'_>, survey: &Survey, budget: &mut Budget<'_>) -> BTreeSet<Condition> {
    let all = conditions(case, survey);
    let is_even = case
        .conflict
        .rules
        .iter()
        .any(|rule| matches!(case.composed.problem.rules.get(*rule), Some(Rule::Skew(_))));
    let set = |numbers: &[usize]| -> BTreeSet<Condition> {
        numbers.iter().filter_map(|it| all.get(*it)).cloned().collect()
    };
    let mut is_impossible = |numbers: &[usize]| {
        let kept = budget.kept();
        let found = reduced(case, &set(numbers), budget).and_then(|problem| {
            let Reduced { composed, servers, rules } = &problem;
            is_impossible(&composed.problem, rules, servers, budget)
        });
        budget.release_to(kept);
        found
    };
    let numbers: Vec<usize> = (0..all.len()).collect();
    let needed = if is_even {
        without_dispensable(numbers, &mut is_impossible)
    } else {
        minimal_subset(numbers, &mut is_impossible)
    };
    set(&needed)
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
