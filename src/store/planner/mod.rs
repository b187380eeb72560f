//! The planner's side of what is stored: groups, plans and their placements, units that groups have
//! to themselves, flavors.

mod arrivals;
pub mod booking;
pub mod plans;
mod units;

pub(super) use self::arrivals::Arrivals;
