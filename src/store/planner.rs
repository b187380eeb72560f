//! The planner's side of what is stored: groups, plans and their placements, units that groups have
//! to themselves, flavors.

mod arrivals;
pub mod booking;
pub mod caps;
pub mod expiry;
pub mod flavors;
pub mod groups;
mod placements;
pub mod plans;
mod projects;
pub mod status;
mod units;

pub(super) use self::arrivals::Arrivals;
