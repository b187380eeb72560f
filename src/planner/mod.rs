//! The planner's rules, as pure functions over plain data.
//!
//! From a request to the writes: a [`document`] is the stored form of requests, a [`template`] has the servers and
//! groups in it, and [`resolve`] makes a [`stack`] of these. A [`mod@change`] of a stored [`plan`] makes a
//! [`draft`] of its desired state, and a [`booking`] contains the writes. A request that is invalid on any hosts
//! gets a [`rejection`], and so does one for a stack that already has a plan if there is a [`difference`] between
//! the two.
//!
//! From a stack to hosts: [`mod@placement`] controls the search, and a [`policy`] defines the best solution.
//! [`topology`] has the locations of hosts. [`mod@compose`] makes a problem for the [solver](crate::solver);
//! [`mod@candidates`] finds the hosts with enough capacity, and [`host_filter`] applies all other demands. If there
//! is no solution, [`mod@explanation`] explains why. [`mod@relocation`] places the servers of several plans at once,
//! with the fewest moves.

pub mod aggregates;
pub mod booking;
mod broken_rules;
mod candidates;
pub(crate) mod change;
mod compose;
pub mod demands;
pub(crate) mod difference;
pub(crate) mod document;
pub(crate) mod draft;
pub(crate) mod draw;
mod explanation;
mod failure;
pub mod flavor;
pub mod group;
pub mod headroom;
mod host_filter;
mod host_room;
pub mod ids;
pub(crate) mod json;
mod placement;
pub mod plan;
pub(crate) mod policy;
pub(crate) mod rejection;
pub(crate) mod relocation;
pub mod report;
mod resolve;
mod rule_changes;
mod server_composer;
pub mod stack;
pub(crate) mod template;
pub mod topology;

pub use self::candidates::request as request_of;
pub use self::failure::{ConditionCount, Demand, Explanation, Failure, HostCounts};
pub use self::placement::{
    Alternative, BrokenRule, Placed, PlacedStack, SolvingTime, location, places, providers_of,
};
pub use crate::solver::{Progress, Spent};
