//! What the planner keeps.

pub mod groups;
pub mod status;
