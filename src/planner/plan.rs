//! Plans and their placements as they are stored.

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
    /// What the orchestrator calls the stack, as it was written.
    pub stack_id: String,
    /// The same as it is compared.
    pub stack_key: String,
    /// Its project.
    pub project: String,
    /// The user who created it.
    pub user: String,
    /// The stored [document](super::document), as text.
    pub document: String,
    /// Moves with every change.
    pub generation: i64,
    /// Whether its instance may be of any project: a scheduler planned it, which does not know whose the
    /// instance is.
    pub any_project: bool,
}

/// What a list says of a plan beside its placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanHead {
    /// Its id.
    pub id: Uuid,
    /// A label.
    pub name: String,
    /// What the orchestrator calls the stack, as it was written.
    pub stack_id: String,
}

/// The place of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its id.
    pub id: Uuid,
    /// The plan it is of.
    pub plan: Uuid,
    /// The project of the plan.
    pub project: String,
    /// Its position in the plan.
    pub position: i32,
    /// What the orchestrator calls the server, as it was written.
    pub orchestration_id: String,
    /// The same as it is compared.
    pub orchestration_key: String,
    /// The name of the server.
    pub name: String,
    /// The instance, as it was written.
    pub resource_id: Option<String>,
    /// The same as it is compared.
    pub resource_key: Option<String>,
    /// `None`: never reserved; `Some(false)`: reserved once, and not any more.
    pub reserved: Option<bool>,
    /// The consumer that holds its capacity. If it has the id of the placement, the plan holds the capacity.
    pub consumer: Uuid,
    /// The consumer that takes the hold over when it claims its allocations.
    pub ticket: Option<Uuid>,
    /// A JSON object as text.
    pub metadata: String,
    /// Whether it is no part of the plan any more.
    pub leaving: bool,
    /// Stored groups that the server is in.
    pub groups: Vec<Uuid>,
    /// The host that it was planned on last, by the root of its tree; `None`: nobody has noted it.
    pub planned_on: Option<ProviderId>,
    /// What its consumer holds; empty if that is gone, or is another project's.
    pub holds: Vec<(ProviderId, ClassId, i64)>,
}

impl Placement {
    /// Whether the plan holds its capacity, and no instance does.
    pub fn is_hold(&self) -> bool {
        self.consumer == self.id
    }
}

impl Plan {
    /// Its ids and its name.
    pub(crate) fn head(&self) -> PlanHead {
        PlanHead { id: self.id, name: self.name.clone(), stack_id: self.stack_id.clone() }
    }

    /// A plan that is not stored yet, with a random id.
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
