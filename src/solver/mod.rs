//! The planner's solver: it places a whole set of servers at once.
//!
//! [`solve`] takes a [`PlacementProblem`], which is plain data, and searches for the placement of
//! least [`Cost`]. The search is complete: given enough time it finds an optimal placement or
//! proves that none exists. On one thread it is deterministic: the same problem and the same number of
//! steps give the same result. [`explain`](mod@explanation) names a minimal set of demands that contradict
//! each other. docs/solver.md states the model, derives every bound, and says what is proven when.
//!
//! | module | holds |
//! |---|---|
//! | [`problem`] | the problem as plain data: hosts, pools, servers with their ways, rules |
//! | [`budget`] | the time and memory that a search may take |
//! | [`solution`] | the result as plain data: assignments, their [`Cost`], and its proven bound |
//! | [`counted`] | the units that the policy counts |
//! | [`utilisation`], [`fit`] | utilisation of units, and fit of hosts |
//! | [`evaluation`] | the cost of a complete placement |
//! | [`groups`] | converts nested affinity, diversity and exclusivity groups to rules |
//! | [`parallel`] | work on several threads within a budget |
//! | [`union_find`], [`matching`] | disjoint sets, and bipartite matching by augmenting paths |
//! | [`model`] | data derived from a problem once: units, loads, bundles and their kinds, symmetric hosts |
//! | [`state`] | a partial placement: the hosts open to each bundle, and the remaining capacity |
//! | [`bounds`] | lower bounds on the cost of completing a partial placement, and proofs that it is impossible |
//! | [`search`] | presolve, branch and bound with restarts, ruin and recreate, large neighbourhood search |
//! | [`steps`] | a problem in two steps, each with a policy |
//! | [`explanation`] | a minimal set of demands that contradict each other |
//!
//! A module imports only modules above it in this table.

mod bounds;
mod budget;
mod counted;
mod evaluation;
mod explanation;
mod fit;
pub mod groups;
mod matching;
mod model;
mod parallel;
mod problem;
mod search;
mod solution;
mod state;
mod steps;
mod union_find;
mod utilisation;

pub use self::budget::{Budget, Progress, Spent, ThreadCount};
pub use self::explanation::{
    Conflict, UnitCount, count_units, explain, explain_within, hosts_for, is_impossible,
    minimal_subset,
};
pub use self::parallel::{map_items, map_owned};
pub use self::problem::{
    AllowedHosts, Choice, Conditions, Draws, Goal, Host, Level, Parts, PlacementPolicy,
    PlacementProblem, Pool, Rule, Server, Skew, SoftRule, SoftRuleKind, Source, Supply, Way, Ways,
};
pub use self::search::{solve, solve_other, solve_within};
pub use self::solution::{Assignment, Cost, Counts, Outcome, Solution};
pub use self::steps::TwoSteps;
pub use self::union_find::UnionFind;

#[cfg(test)]
mod tests;
