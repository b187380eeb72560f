//! Failures to make, change or read a plan.

use thiserror::Error;
use uuid::Uuid;

use crate::model::{Bug, Refusal};
use crate::planner::rejection::Rejection;
use crate::planner::{self, Explanation};
use crate::store;

/// A failure to make, change or read a plan. Nothing has been written.
#[derive(Clone, Debug, Error)]
pub(crate) enum Failure {
    /// The request cannot be met on any hosts.
    #[error(transparent)]
    Rejected(Rejection),
    /// The caller has no such plan.
    #[error("Plan not found")]
    PlanNotFound,
    /// Several projects have a plan for the stack, and the caller's is not among them.
    #[error("several projects have a plan for stack '{stack}'")]
    AmbiguousPlan {
        /// The name in the request.
        stack: String,
        /// Some of these plans.
        plans: Vec<Uuid>,
    },
    /// Several projects have a placement with the id, and the caller's is not among them.
    #[error("several projects have a placement '{id}'")]
    AmbiguousPlacement {
        /// The id in the request.
        id: String,
        /// Some of these placements.
        placements: Vec<Uuid>,
    },
    /// The caller has no such instance.
    #[error("Resource '{0}' not found")]
    ResourceNotFound(String),
    /// There are no hosts for all servers; the explanation.
    #[error("{}", .0.sentence)]
    NoPlaces(Explanation),
    /// The time was up before the solver found hosts or ruled them out.
    #[error("the time of a plan was up")]
    OutOfTime,
    /// Too many other requests are waiting or running; the kind of work, and the reason.
    #[error("{0}: {1}")]
    NoTurn(Work, String),
    /// Other requests changed the state before each booking; the last reason.
    #[error("other requests were faster every time the plan was booked ({0})")]
    Overtaken(String),
    /// Other requests changed the plan before each attempt; what they did.
    #[error("the plan is {0} all the time")]
    Unsettled(&'static str),
    /// The store refuses the change.
    #[error(transparent)]
    Refused(Refusal),
    /// The store failed.
    #[error(transparent)]
    Store(store::Error),
    /// Work on a separate thread panicked.
    #[error("{0} panicked: {1}")]
    Panicked(Work, String),
    /// The program is at fault.
    #[error(transparent)]
    Bug(#[from] Bug),
}

/// Work that a request takes a turn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Work {
    /// Reading a stored plan.
    #[error("reading a plan")]
    Reading,
    /// Choosing hosts.
    #[error("choosing hosts")]
    Solving,
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Unreadable(why) => {
                store::Error::inconsistent("plans", "document", why).into()
            }
            Rejection::Bug(bug) => Self::Bug(bug),
            Rejection::Invalid(_)
            | Rejection::GroupNotFound(_)
            | Rejection::NoSuchGroup { .. }
            | Rejection::NotAMember { .. }
            | Rejection::OtherRequest { .. }
            | Rejection::PlacementNotFound => Self::Rejected(rejection),
        }
    }
}

impl From<planner::Failure> for Failure {
    fn from(failure: planner::Failure) -> Self {
        match failure {
            planner::Failure::NoPlaces(why) => Self::NoPlaces(why),
            planner::Failure::OutOfTime => Self::OutOfTime,
            planner::Failure::Bug(bug) => Self::Bug(bug),
            planner::Failure::Invalid(why) => Self::Rejected(Rejection::Invalid(why)),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Refused(why, _) => Self::Refused(why),
            error @ (store::Error::Unavailable(_)
            | store::Error::Maintenance(_)
            | store::Error::Again(_)
            | store::Error::Locked(_)
            | store::Error::Inconsistent { .. }
            | store::Error::Bug(_)) => Self::Store(error),
        }
    }
}
