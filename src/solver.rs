//! The planner's solver: it places a whole set of servers at once.
//!
//! [`solve`] takes a [`PlacementProblem`], which is plain data, and searches for the placement of least
//! [`Cost`]. The search is complete: given enough time it finds an optimal placement or proves that
//! none exists. It is deterministic: the same problem and the same number of steps give the same
//! answer. [`explain`](mod@explanation) names a minimal set of demands that contradict each other.
//! docs/solver.md states the model, derives every bound, and says what is proven when.
//!
//! Modules import each other in one direction, from the bottom of this list to its top:
//!
//! | step | modules |
//! |---|---|
//! | problem and answer: plain data | [`ways`], [`problem`], [`cost`], [`solution`], [`groups`] (nested groups to rules), [`budget`] (time and memory) |
//! | model: what is derived from a problem once | [`units`], [`load`] (what sizes draw), [`bundle`] (servers that share a host), [`kind`] and [`symmetry`] (interchangeable bundles and hosts), [`model`] |
//! | state: a partial placement | [`packing`], [`capacity`], [`domain`], [`state`] |
//! | bounds: what the rest costs at least | [`precheck`], [`rack_fit`], [`limits`], [`fit_bound`], [`bounds`], [`pruning`] |
//! | search and improvement | [`depth_first`], [`improvement`], [`search`] |
//! | explanation | [`explanation`] |

mod bounds;
mod budget;
mod bundle;
mod capacity;
mod cost;
mod depth_first;
mod domain;
mod explanation;
mod fit_bound;
pub mod groups;
mod improvement;
mod kind;
mod limits;
mod load;
mod model;
mod packing;
mod precheck;
mod problem;
mod pruning;
mod rack_fit;
mod search;
mod solution;
mod state;
mod symmetry;
mod units;
mod ways;

pub use self::budget::Budget;
pub use self::cost::Cost;
pub use self::explanation::{Conflict, UnitCount, explain, explain_within};
pub use self::problem::{Host, Level, PlacementProblem, Rule, Server};
pub use self::search::{solve, solve_within};
pub use self::solution::{Assignment, Outcome, Solution};
pub use self::ways::{AllowedHosts, Pool, Way, Ways};

#[cfg(test)]
mod tests;
