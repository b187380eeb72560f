//! The sentences with which requests are refused. The reference's sentences are kept to
//! the letter, because clients of Placement know them.

use std::fmt::{self, Display, Formatter};

use crate::model::refusal::Capped;
use crate::model::{Generation, Refusal};

/// Maximum number of servers that a sentence names.
const SERVERS_MAX: usize = 100;

impl std::error::Error for Refusal {}

impl Display for Refusal {
    #[expect(clippy::too_many_lines, reason = "one sentence for each refusal")]
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProviderNotFound(uuid) => {
                write!(f, "No resource provider with uuid {uuid} found")
            }
            Self::ProviderUuidTaken(uuid) => write!(f, "uuid: {uuid}"),
            Self::ProviderNameTaken(name) => write!(f, "name: {name}"),
            Self::ProviderInUse { .. } => f.write_str("Resource provider has allocations."),
            Self::ProviderHasChildren { .. } => f.write_str(
                "Cannot delete resource provider that is a parent of another. Delete child \
                 providers first.",
            ),
            Self::ParentIsSelf => f.write_str(
                "Object action create failed because: parent provider UUID cannot be same as \
                 UUID. Please set parent provider UUID to None if there is no parent.",
            ),
            Self::ParentNotFound => f.write_str(
                "Object action create failed because: parent provider UUID does not exist.",
            ),
            Self::ReparentingNotAllowed => f.write_str(
                "Object action update failed because: re-parenting a provider is not currently \
                 allowed.",
            ),
            Self::UnparentingNotAllowed => f.write_str(
                "Object action update failed because: un-parenting a provider is not currently \
                 allowed.",
            ),
            Self::TreeLoop => f.write_str(
                "Object action update failed because: creating loop in the provider tree is not \
                 allowed.",
            ),
            Self::ProviderGeneration { .. } => f.write_str(
                "Another thread concurrently updated the resource provider data. Please retry \
                 your update",
            ),
            Self::ClassNotFound(name) => write!(f, "No such resource class {name}."),
            Self::ClassExists(name) => write!(f, "Resource class {name} already exists."),
            Self::ClassInUse { name, .. } => {
                write!(f, "Cannot delete resource class {name}. Class is in use in inventory.")
            }
            Self::ClassStandardDelete(name) => {
                write!(f, "Cannot delete standard resource class {name}.")
            }
            Self::ClassStandardUpdate(name) => {
                write!(f, "Cannot update standard resource class {name}.")
            }
            Self::TraitsNotFound(names) => write!(f, "No such trait(s): {names}."),
            Self::TraitInUse { name, .. } => {
                write!(f, "The trait {name} is in use by a resource provider.")
            }
            Self::TraitStandardDelete(name) => write!(f, "Cannot delete standard trait {name}."),
            Self::InventoryExists { provider, class } => {
                write!(f, "Resource provider {provider} already has an inventory of class {class}.")
            }
            Self::InventoryNotFound(class) => write!(f, "No inventory of class {class} found."),
            Self::InventoryNotFoundForDelete(class) => {
                write!(f, "No inventory of class {class} found for delete")
            }
            Self::InventoryInUse { provider, used } => {
                let classes: Vec<&str> = used.iter().map(|(class, _)| class.as_str()).collect();
                let classes = classes.join(", ");
                write!(f, "Inventory for '{classes}' on resource provider '{provider}' in use.")
            }
            Self::InvalidInventory { provider, class } => {
                write!(f, "Inventory for '{class}' on resource provider '{provider}' invalid.")
            }
            Self::CapacityExceeded { provider, class } => write!(
                f,
                "Unable to create allocation for '{class}' on resource provider '{provider}'. The \
                 requested amount would exceed the capacity."
            ),
            Self::ConstraintsViolated { provider, class } => write!(
                f,
                "Unable to create allocation for '{class}' on resource provider '{provider}'. The \
                 requested amount would violate inventory constraints."
            ),
            Self::Exclusive { provider, group, unit } => write!(
                f,
                "Resource provider '{provider}' is kept for the exclusivity group '{group}', \
                 which has '{unit}' to itself."
            ),
            Self::AllocationProviderNotFound(uuid) => {
                write!(f, "Allocation for resource provider '{uuid}' that does not exist.")
            }
            Self::ConsumerGeneration { actual, given } => {
                // The reference prints Python's None for a null in the request.
                let (actual, given) = (number_or(*actual, "null"), number_or(*given, "None"));
                write!(f, "consumer generation conflict - expected {actual} but got {given}")
            }
            Self::NoAllocations(consumer) => write!(f, "No allocations for consumer '{consumer}'"),
            Self::PlanExists(stack) => write!(f, "There is a plan for stack '{stack}' already"),
            Self::PlanChanged => f.write_str("The plan changed meanwhile"),
            Self::UnitTaken(unit) => write!(f, "'{unit}' is in use by others"),
            Self::CapReached { most, what } => {
                let (what, option) = match what {
                    Capped::Plans => ("plans", " (--planner-project-plans)"),
                    Capped::Placements => ("placements", " (--planner-project-placements)"),
                    Capped::Bytes => ("bytes of plans", ""),
                    Capped::Groups => ("groups", ""),
                };
                write!(f, "The project may have at most {most} {what}{option}")
            }
            Self::ResourceTaken(id) => write!(f, "Resource '{id}' has another placement already"),
            Self::GroupNotFound => f.write_str("Group not found"),
            Self::GroupNameTaken(name) => write!(f, "A group named {name} already exists"),
            Self::MemberNotFound => f.write_str("Member not found in group"),
            Self::GroupHasMembers => f.write_str("Unable to delete a Group with members."),
            Self::GroupHasServers(servers) => {
                write!(f, "Unable to delete a Group with placements: {}", listed(servers))
            }
            Self::MemberHasServers { member, group, servers } => {
                let servers = listed(servers);
                write!(f, "Tenant Member {member} has servers in group \"{group}\": {servers}")
            }
            Self::FlavorNotFound(name) => write!(f, "there is no flavor {name}"),
            Self::AggregateKeyNotFound { aggregate, key } => {
                write!(f, "the aggregate {aggregate} has no metadata {key}")
            }
            Self::FlavorIdTaken { name, id, other } => {
                write!(f, "flavor {name}: the id {id} is that of the flavor {other}")
            }
        }
    }
}

fn number_or(generation: Option<Generation>, none: &str) -> String {
    generation.map_or_else(|| none.to_owned(), |value| value.to_string())
}

fn listed(servers: &[String]) -> String {
    let mut shown: Vec<&str> = servers.iter().take(SERVERS_MAX).map(String::as_str).collect();
    if servers.len() > SERVERS_MAX {
        shown.push("...");
    }
    format!("[{}]", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use crate::model::Refusal;

    #[test]
    fn a_refusal_names_a_bounded_number_of_servers() {
        let refusal = Refusal::GroupHasServers(vec!["s".to_owned(); 1000]).to_string();
        assert!(refusal.len() < 500 && refusal.ends_with(", ...]"), "{refusal}");
    }
}
