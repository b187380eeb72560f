//! Compares the contents of a placement service with nova's servers, and repairs differences.
//!
//! Both sides are read as plain data: the service through its published API, and nova's side from a list of servers
//! ([`list`]). [`classify`] compares them and finds the problems of [`kind`]. Those that can be repaired become a
//! [`plan`].

pub mod classify;
pub mod cloud;
pub mod finding;
pub mod flavor;
pub mod guard;
pub mod heal;
pub mod kind;
pub mod list;
pub mod placement;
pub mod plan;
pub mod report;
mod servers;
pub mod service;
mod strangers;
#[cfg(test)]
mod tests;
