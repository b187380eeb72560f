//! Plans from a request to the stored plan: reads the state of the cloud, lets the [planner](crate::planner) choose
//! hosts, and books them; when other requests have changed the state meanwhile, it starts again while there is
//! time.
//!
//! The rules are functions of [`crate::planner`]; this layer runs them on separate threads, in turns that projects
//! share fairly, and is independent of HTTP. All errors are a [`Failure`].

mod attempt;
mod budget;
mod context;
mod failure;
mod list;
mod offload;
mod placements;
mod recommend;
mod relocate;
mod report;
mod stored;

pub(crate) use self::attempt::{NewPlan, Planned, record};
pub(crate) use self::context::{PlanRef, Planning, Terms};
pub(crate) use self::failure::{Failure, Work};
pub(crate) use self::list::ListedPlan;
pub(crate) use self::offload::run;
pub(crate) use self::recommend::{Move, Recommendation};
pub(crate) use self::relocate::{Relocated, ServerMove, Step, Wanted};
