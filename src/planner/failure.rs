//! Failures to find hosts for the servers of a stack.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::Bug;
use crate::search::funnel::Funnel;
use crate::solver::Budget;

/// A failure to find hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There are no hosts; the explanation.
    NoPlaces(Explanation),
    /// The time was up before hosts were found or ruled out.
    OutOfTime,
    /// The request is invalid on any hosts: its groups contradict each other, it names a class or trait that does
    /// not exist, or it is too large.
    Invalid(String),
    /// The program is at fault.
    Bug(Bug),
}

impl Failure {
    /// Returns a fault of the program, for the log.
    pub(super) fn bug(what: impl Into<String>) -> Self {
        let what = what.into();
        Self::Bug(Bug::new(format!("the planner: {what}")))
    }

    /// The failure for a spent budget.
    pub(super) fn of_end(budget: &Budget<'_>) -> Self {
        Self::of_search(budget.is_full())
    }

    /// The failure for a search that ended because the memory or the time ran out.
    pub(super) fn of_search(is_full: bool) -> Self {
        if is_full {
            return Self::Invalid(
                "the search for places needs more memory than a plan may use: there are too many servers of \
                 different sizes and groups, and hosts; request fewer servers at a time"
                    .to_owned(),
            );
        }
        Self::OutOfTime
    }
}

/// The explanation of a contradiction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// For people.
    pub sentence: String,
    /// For programs: the demands that contradict each other, and no others.
    pub demands: Vec<Demand>,
    /// The number of hosts that each condition of these servers rules out.
    pub hosts: Vec<HostCounts>,
}

/// A demand that is part of a contradiction.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Demand {
    /// `affinity`, `diversity` or `exclusivity` of a group; `server` for servers that need hosts; otherwise
    /// a condition of these servers.
    pub constraint: &'static str,
    /// The resource class, trait or zone of a condition.
    pub name: Option<String>,
    /// The group, if the demand is that of a group.
    pub group: Option<String>,
    /// `host`, `rack` or `cluster`.
    pub level: &'static str,
    /// The orchestration ids of the servers, up to a maximum number.
    pub servers: Vec<String>,
    /// Their number.
    pub server_count: usize,
    /// Number of units needed; for a class, the sum of the amounts.
    pub needed: Option<u64>,
    /// Number of units in which one of the servers could be; for a class, the free amount in them.
    pub available: Option<u64>,
    /// The names of these units, up to a maximum number.
    pub units: Vec<String>,
    /// The number of hosts that the condition rules out for one of the servers.
    pub hosts_eliminated: Option<usize>,
}

/// The number of hosts that each condition of equal servers rules out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCounts {
    /// The orchestration ids of the servers, up to a maximum number.
    pub servers: Vec<String>,
    /// Their number.
    pub server_count: usize,
    /// The counts. Hosts are given by name.
    pub funnel: Funnel<ConditionCount>,
}

/// The description of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionCount {
    /// The constraint, as in [`Demand::constraint`].
    pub constraint: &'static str,
    /// The resource class, trait or zone.
    pub name: Option<String>,
    /// The stored group to which it belongs.
    pub group: Option<String>,
    /// The amount of a resource class that each of the servers needs.
    pub needed: Option<i64>,
}

/// Fails if the search has to end.
pub(super) fn in_time(budget: &Budget<'_>) -> Result<(), Failure> {
    if budget.is_spent() { Err(Failure::of_end(budget)) } else { Ok(()) }
}
