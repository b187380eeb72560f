//! What the planner keeps and the rules of it: pure functions of plain data.
//!
//! [`group`] are the groups that servers of many plans share and the projects that may use them,
//! [`ids`] how ids are compared.

pub mod group;
pub mod ids;
