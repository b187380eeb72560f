//! The dialect of the planner's API.

/// The dialect of the planner's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Planner;
