//! Explains why there is no solution: the smallest set found of demands that contradict each other, and the
//! counts behind it.
//!
//! | module | does |
//! |---|---|
//! | [`case`] | holds what is to be explained |
//! | [`condition`] | lists the conditions that servers put to hosts, and leaves some out |
//! | [`survey`] | counts the hosts that each condition rules out |
//! | [`smallest`] | finds the conditions without which there would be places |
//! | [`facts`] | counts what these leave, and makes the demands of it |
//! | [`sentence`] | says it in English |

mod case;
mod condition;
mod facts;
mod sentence;
mod smallest;
mod survey;

use std::collections::BTreeSet;

pub(super) use self::case::Case;
use self::facts::Facts;
use super::failure::Explanation;
use crate::solver::{Budget, Conflict, Rule, is_impossible, minimal_subset};

/// Explains a conflict. What cannot be found out within the budget is left out.
pub(super) fn explanation(case: &Case<'_>, budget: &mut Budget<'_>) -> Explanation {
    let conflict = with_domains(case, budget);
    let case = &Case { conflict: &conflict, ..*case };
    let survey = survey::survey(case, budget);
    let smallest = smallest::smallest(case, &survey, budget);
    let facts = Facts::of(case, survey, smallest, budget);
    Explanation { sentence: facts.sentence(), demands: facts.demands(), hosts: facts.host_counts() }
}

/// The conflict with all servers of its even distributions. Where each of these can be says which domains
/// there are, so a distribution of some of them would be another one. With more servers, fewer rules may do.
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
