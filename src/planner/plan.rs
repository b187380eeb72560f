//! Stored plans and placements.

use uuid::Uuid;

use super::ids::canonical;
use crate::model::{ClassId, ProviderId};

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its id.
    pub id: Uuid,
    /// A label.
    pub name: String,
    /// The orchestrator's id of the stack, in its original spelling.
    pub stack_id: String,
    /// Its canonical form.
    pub stack_key: String,
    /// Its project.
    pub project: String,
    /// The user who created it.
    pub user: String,
    /// The stored [document](super::document), as text.
    pub document: String,
    /// Increases with every change.
    pub generation: i64,
    /// Whether its instance may be of any project: it was planned by a scheduler, which does not know the project
    /// of the instance.
    pub any_project: bool,
}

/// The entry of a plan in a list, besides its placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanHead {
    /// Its id.
    pub id: Uuid,
    /// A label.
    pub name: String,
    /// The orchestrator's id of the stack, in its original spelling.
    pub stack_id: String,
}

/// The place of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its id.
    pub id: Uuid,
    /// Its plan.
    pub plan: Uuid,
    /// The project of the plan.
    pub project: String,
    /// Its position in the plan.
    pub position: i32,
    /// The orchestrator's id of the server, in its original spelling.
    pub orchestration_id: String,
    /// Its canonical form.
    pub orchestration_key: String,
    /// The name of the server.
    pub name: String,
    /// The id of the instance, in its original spelling.
    pub resource_id: Option<String>,
    /// Its canonical form.
    pub resource_key: Option<String>,
    /// `None`: never reserved; `Some(false)`: no longer reserved.
    pub reserved: Option<bool>,
    /// The consumer that holds its capacity. If it has the id of the placement, the plan holds the capacity.
    pub consumer: Uuid,
    /// The consumer that takes over the hold when it claims its allocations.
    pub ticket: Option<Uuid>,
    /// A JSON object as text.
    pub metadata: String,
    /// Whether it is no longer part of the plan.
    pub leaving: bool,
    /// Stored groups that the server is in.
    pub groups: Vec<Uuid>,
    /// The host of the last planning, by the root of its tree; `None`: unknown.
    pub planned_on: Option<ProviderId>,
    /// The allocations of its consumer; empty if that is gone, or belongs to another project.
    pub holds: Vec<(ProviderId, ClassId, i64)>,
}

impl Placement {
    /// Returns whether the plan holds its capacity, and no instance does.
    pub fn is_hold(&self) -> bool {
        self.consumer == self.id
    }
}

impl Plan {
    /// Its ids and its name.
    pub(crate) fn head(&self) -> PlanHead {
        PlanHead { id: self.id, name: self.name.clone(), stack_id: self.stack_id.clone() }
    }

    /// Creates a plan that is not stored yet, with a random id.
    pub(crate) fn new(name: &str, stack_id: &str, project: &str, user: &str) -> Self {
        Self {
            id: Uuid::new_v4(),
            name: name.to_owned(),
            stack_id: stack_id.to_owned(),
            stack_key: canonical(stack_id),
            project: project.to_owned(),
            user: user.to_owned(),
            document: String::new(),
            generation: 1,
            any_project: false,
        }
    }
}
