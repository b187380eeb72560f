//! Explains why there is no solution: the smallest set found of demands that contradict each other, and the
//! counts behind it.
//!
//! | module | does |
//! |---|---|
//! | [`case`] | contains the input |
//! | [`condition`] | lists the conditions of servers on hosts, and drops some |
//! | [`survey`] | counts the hosts that each condition rules out |
//! | [`smallest`] | finds a smallest set of conditions that contradict each other |
//! | [`contradiction`] | counts the remaining hosts, and lists the demands |
//! | [`sentence`] | describes the contradiction in English |

mod case;
mod condition;
mod contradiction;
mod sentence;
mod smallest;
mod survey;

use std::collections::BTreeSet;

pub(super) use self::case::Case;
use self::contradiction::Contradiction;
use super::failure::Explanation;
use crate::solver::{Budget, Conflict, Rule, is_impossible, minimal_subset};

/// Explains a conflict. Parts that exceed the budget are left out.
pub(super) fn explanation(case: &Case<'_>, budget: &mut Budget<'_>) -> Explanation {
    let conflict = with_domains(case, budget);
    let case = &Case { conflict: &conflict, ..*case };
    let survey = survey::survey(case, budget);
    let smallest = smallest::smallest(case, &survey, budget);
    let contradiction = Contradiction::of(case, survey, smallest, budget);
    Explanation {
        sentence: contradiction.sentence(),
        demands: contradiction.demands(),
        hosts: contradiction.host_counts(),
    }
}

/// The conflict with all servers of its even distributions. The possible hosts of each determine the domains, so a
/// distribution of only some of them would be another one. With more servers, fewer rules may suffice.
fn with_domains(case: &Case<'_>, budget: &mut Budget<'_>) -> Conflict {
    let problem = &case.composed.problem;
    let evenly = |rules: &[usize]| -> BTreeSet<usize> {
        let all = rules.iter().filter_map(|rule| match problem.rules.get(*rule) {
            Some(Rule::Skew(skew)) => Some(&skew.servers),
            _ => None,
        });
        all.flatten().copied().collect()
    };
    let Conflict { rules, servers, .. } = case.conflict;
    let more = evenly(rules);
    let known: BTreeSet<usize> = servers.iter().copied().collect();
    if more.is_subset(&known) {
        return case.conflict.clone();
    }
    let servers: Vec<usize> = more.union(&known).copied().collect();
    let rules =
        minimal_subset(rules.clone(), &mut |rules| is_impossible(problem, rules, &servers, budget));
    let even = evenly(&rules);
    let (even, others): (Vec<usize>, Vec<usize>) =
        servers.into_iter().partition(|server| even.contains(server));
    let needed = minimal_subset(others, &mut |others| {
        is_impossible(problem, &rules, &[others, &even].concat(), budget)
    });
    let servers: BTreeSet<usize> = even.into_iter().chain(needed).collect();
    Conflict { rules, servers: servers.into_iter().collect(), ..case.conflict.clone() }
}
