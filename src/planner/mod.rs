//! The planner's rules, as pure functions over plain data.
//!
//! From a request to what is written: a [`document`] is what a plan remembers of requests, a [`template`]
//! has the servers and groups in it, and [`resolve`] makes a [`stack`] of these. A [`mod@change`] of a stored
//! [`plan`] makes a [`draft`] of its desired state, and a [`booking`] is what has to be written. A request
//! that is invalid whatever the hosts are gets a [`rejection`], and so does one for a stack that has a plan
//! already if there is a [`difference`] between the two.
//!
//! From a stack to hosts: [`mod@placement`] does all of it, and a [`policy`] says which of several ways is
//! the best. [`topology`] knows where hosts are.
//! [`mod@compose`] makes a problem for the [solver](crate::solver); [`mod@candidates`] finds the hosts with
//! enough capacity, and [`host_filter`] applies all other demands. If there is no solution,
//! [`mod@explanation`] says why.

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
pub mod report;
mod resolve;
mod rule_changes;
pub mod stack;
pub(crate) mod template;
pub mod topology;

pub use self::candidates::request as request_of;
pub use self::failure::{ConditionCount, Demand, Explanation, Failure, HostCounts};
pub use self::placement::{
    Alternative, Answer, Placed, SolvingTime, location, places, providers_of,
};
pub use crate::solver::Progress;
