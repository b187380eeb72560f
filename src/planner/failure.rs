//! Why there are no places for the servers of a stack.

use crate::model::Bug;
use crate::search::funnel::Funnel;
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// For people.
    pub sentence: String,
    /// For programs: the demands that contradict each other, and no others.
    pub demands: Vec<Demand>,
    /// For the servers among these: how many hosts each of their conditions rules out.
    pub hosts: Vec<HostCounts>,
}

/// A demand that is part of a contradiction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// `affinity`, `diversity` or `exclusivity` of a group; `server` for servers that need hosts; otherwise
    /// a condition of these servers.
    pub constraint: &'static str,
    /// The resource class, trait or zone that a condition is about.
    pub name: Option<String>,
    /// The group, if it is one's demand.
    pub group: Option<String>,
    /// `host`, `rack` or `cluster`.
    pub level: &'static str,
    /// The servers, as the orchestrator calls them, as far as they are listed.
    pub servers: Vec<String>,
    /// Their number.
    pub server_count: usize,
    /// Units that are needed; of a class, the sum of the amounts.
    pub needed: Option<u64>,
    /// Units in which one of the servers could be; of a class, what is free in them.
    pub available: Option<u64>,
    /// The names of these units, as far as they are listed.
    pub units: Vec<String>,
    /// The number of hosts that the condition rules out for one of the servers.
    pub hosts_eliminated: Option<usize>,
}

/// How many hosts each condition of equal servers rules out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCounts {
    /// The servers, as the orchestrator calls them, as far as they are listed.
    pub servers: Vec<String>,
    /// Their number.
    pub server_count: usize,
    /// The counts. A host's name stands for the host.
    pub funnel: Funnel<ConditionCount>,
}

/// What a condition is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionCount {
    /// The constraint, as in [`Demand::constraint`].
    pub constraint: &'static str,
    /// The resource class, trait or zone that it is about.
    pub name: Option<String>,
    /// The stored group that it comes from.
    pub group: Option<String>,
    /// The amount of a resource class that each of the servers needs.
    pub needed: Option<i64>,
}

/// Fails when the search has to end.
pub(super) fn in_time(budget: &Budget<'_>) -> Result<(), Failure> {
    if budget.is_spent() { Err(Failure::of_end(budget)) } else { Ok(()) }
}
