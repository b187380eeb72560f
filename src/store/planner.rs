//! The planner's side of what is stored: groups, plans and their placements, units that groups have
//! to themselves, flavors.

pub mod booking;
pub mod caps;
mod exclusive_units;
pub mod expiry;
pub mod flavors;
pub mod groups;
mod handover;
mod placements;
pub mod plans;
mod projects;
pub mod status;

pub(super) use self::handover::Handover;
