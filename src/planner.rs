//! The planner: from a stack and the world to places for all servers of the stack, or to the reason
//! why there are none. Pure functions over plain data.
//!
//! [`stack`] is what is asked for, [`topology`] says where hosts stand, [`mod@compose`] makes it a
//! problem for the [solver](crate::solver), with [`mod@candidates`] for what is a matter of room and
//! [`host_filter`] for what is not, and [`mod@explanation`] says what was in the way. [`mod@placement`]
//! does all of it.
//!
//! What a request means to a stored plan: a [`document`] is what the plan was asked for, a [`template`]
//! the servers and groups in it, which [`resolve`] turns into a stack; a [`mod@change`] of the [`plan`] is a
//! [`draft`] of what it is to be, and the [`booking`] is what has to be written. Why a request cannot be met is a
//! [`rejection`].

pub mod booking;
mod broken_rules;
mod candidates;
pub(crate) mod change;
mod compose;
pub(crate) mod document;
pub(crate) mod draft;
mod explanation;
mod failure;
pub mod flavor;
pub mod group;
mod host_filter;
pub mod ids;
pub(crate) mod json;
mod placement;
pub mod plan;
pub(crate) mod rejection;
mod resolve;
mod rule_changes;
pub mod stack;
pub(crate) mod template;
pub mod topology;

pub use self::failure::{Demand, Explanation, Failure};
pub use self::host_filter::Reason;
pub use self::placement::{Answer, Placed, location, places, providers_of};
