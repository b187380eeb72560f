//! Why there are no places for the servers of a stack.

use std::collections::BTreeMap;

use crate::model::Bug;
use crate::solver::Budget;

/// Why there are no places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There are none; why.
    NoPlaces(Explanation),
    /// The time was up before it was known whether there are.
    OutOfTime,
    /// The request is invalid whatever the hosts are: its groups contradict each other, it names a class or
    /// trait that does not exist, or it is too large.
    Invalid(String),
    /// The program is at fault.
    Bug(Bug),
}

impl Failure {
    /// A fault of the program, for the log.
    pub(super) fn bug(what: impl Into<String>) -> Self {
        let what = what.into();
        Self::Bug(Bug::new(format!("the planner: {what}")))
    }

    /// Why a budget has ended a search.
    pub(super) fn of_end(budget: &Budget<'_>) -> Self {
        if budget.is_full() {
            return Self::Invalid(
                "a search for places of so many servers of different sizes and groups, on so many \
                 hosts, takes more memory than a plan may have; ask for fewer at a time"
                    .to_owned(),
            );
        }
        Self::OutOfTime
    }
}

/// Why nothing fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// For people.
    pub sentence: String,
    /// For programs: the demands that contradict each other.
    pub demands: Vec<Demand>,
}

/// A demand that is part of a contradiction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// `affinity`, `diversity`, `exclusivity`, or `capacity` for what servers need by themselves.
    pub constraint: &'static str,
    /// The group, if it is one's demand.
    pub group: Option<String>,
    /// `host`, `rack` or `cluster`.
    pub level: &'static str,
    /// The servers, as the orchestrator calls them.
    pub servers: Vec<String>,
    /// Units that are needed.
    pub needed: usize,
    /// Units in which one of the servers could be.
    pub available: usize,
    /// Their names.
    pub units: Vec<String>,
    /// For how many hosts one of the servers was ruled out, by the reason, summed over them.
    pub hosts_eliminated: BTreeMap<&'static str, usize>,
}

/// Fails when the search has to end.
pub(super) fn in_time(budget: &Budget<'_>) -> Result<(), Failure> {
    if budget.is_spent() { Err(Failure::of_end(budget)) } else { Ok(()) }
}
