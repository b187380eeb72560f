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

pub(super) use self::case::Case;
use self::facts::Facts;
use super::failure::Explanation;
use crate::solver::Budget;

/// Explains a conflict. What cannot be found out within the budget is left out.
pub(super) fn explanation(case: &Case<'_>, budget: &mut Budget<'_>) -> Explanation {
    let survey = survey::survey(case, budget);
    let smallest = smallest::smallest(case, &survey, budget);
    let facts = Facts::of(case, survey, smallest, budget);
    Explanation { sentence: facts.sentence(), demands: facts.demands(), hosts: facts.host_counts() }
}
