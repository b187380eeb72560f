//! Rejections of requests to make or change a plan. All of them precede the search for hosts.

use thiserror::Error;
use uuid::Uuid;

use crate::model::{Bug, GroupKind};

/// The rejection of a request. `Display` is the sentence that clients know.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Rejection {
    /// The request contradicts itself, exceeds a limit, or names something that does not exist.
    #[error("{0}")]
    Invalid(String),
    /// No stored group has this id or name.
    #[error("Group '{0}' not found")]
    GroupNotFound(String),
    /// No stored group of this kind has this name.
    #[error("{} group '{name}' not found", capitalized(.kind.name()))]
    NoSuchGroup {
        /// The kind of the group.
        kind: GroupKind,
        /// The name.
        name: String,
    },
    /// The project may not use the stored group.
    #[error("Tenant ID {project} not a member of {} group '{name}' ({group})", .kind.name())]
    NotAMember {
        /// The project of the plan.
        project: String,
        /// The kind of the group.
        kind: GroupKind,
        /// The name of the group.
        name: String,
        /// Its id.
        group: Uuid,
    },
    /// The stack already has a plan, and the request differs.
    #[error("There is a plan for stack '{stack}' already, and {difference}")]
    OtherRequest {
        /// The stack, by its canonical id.
        stack: String,
        /// Its plan.
        plan: Uuid,
        /// A clause with the difference.
        difference: String,
    },
    /// The plan has no such placement.
    #[error("Placement not found")]
    PlacementNotFound,
    /// The stored data of the plan contradict each other.
    #[error("a stored plan cannot be read: {0}")]
    Unreadable(String),
    /// The program is at fault.
    #[error(transparent)]
    Bug(#[from] Bug),
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::Rejection;
    use crate::model::GroupKind;

    #[test]
    fn the_sentences_name_what_is_wrong() {
        let not_found =
            Rejection::NoSuchGroup { kind: GroupKind::Exclusivity, name: "gold".to_owned() };
        assert_eq!(not_found.to_string(), "Exclusivity group 'gold' not found");
        let (project, name, group) = ("p".to_owned(), "gold".to_owned(), Uuid::nil());
        let not_a_member =
            Rejection::NotAMember { project, kind: GroupKind::Affinity, name, group };
        assert_eq!(
            not_a_member.to_string(),
            "Tenant ID p not a member of affinity group 'gold' \
             (00000000-0000-0000-0000-000000000000)"
        );
    }
}
