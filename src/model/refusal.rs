//! Every reason a change or a query is refused. `Display` is the sentence clients know; the HTTP
//! layer adds the resource's prefix, status and code.

use thiserror::Error;
use uuid::Uuid;

use super::Generation;

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No provider has this UUID.
    #[error("No resource provider with uuid {0} found")]
    ProviderNotFound(Uuid),
    /// Another provider has the UUID.
    #[error("uuid: {0}")]
    ProviderUuidTaken(Uuid),
    /// Another provider has the name.
    #[error("name: {0}")]
    ProviderNameTaken(String),
    /// The provider has allocations.
    #[error("Resource provider has allocations.")]
    ProviderInUse,
    /// The provider has children.
    #[error(
        "Cannot delete resource provider that is a parent of another. Delete child providers first."
    )]
    ProviderHasChildren,
    /// A provider cannot be its own parent.
    #[error(
        "Object action create failed because: parent provider UUID cannot be same as UUID. \
         Please set parent provider UUID to None if there is no parent."
    )]
    ParentIsSelf,
    /// The named parent does not exist.
    #[error("Object action create failed because: parent provider UUID does not exist.")]
    ParentNotFound,
    /// Moving to another parent before microversion 1.37.
    #[error(
        "Object action update failed because: re-parenting a provider is not currently allowed."
    )]
    ReparentingNotAllowed,
    /// Becoming a root before microversion 1.37.
    #[error(
        "Object action update failed because: un-parenting a provider is not currently allowed."
    )]
    UnparentingNotAllowed,
    /// The new parent is the provider itself or stands below it.
    #[error(
        "Object action update failed because: creating loop in the provider tree is not allowed."
    )]
    TreeLoop,
    /// The provider is not at the generation the client saw.
    #[error(
        "Another thread concurrently updated the resource provider data. Please retry your update"
    )]
    ProviderGeneration {
        /// Which provider.
        provider: Uuid,
        /// Its generation.
        actual: Generation,
        /// What the client gave.
        given: Generation,
    },

    /// No such resource class.
    #[error("No such resource class {0}.")]
    ClassNotFound(String),
    /// The class exists.
    #[error("Resource class {0} already exists.")]
    ClassExists(String),
    /// Inventories use the class.
    #[error("Cannot delete resource class {0}. Class is in use in inventory.")]
    ClassInUse(String),
    /// Standard classes cannot be deleted.
    #[error("Cannot delete standard resource class {0}.")]
    ClassStandardDelete(String),
    /// Standard classes cannot be renamed.
    #[error("Cannot update standard resource class {0}.")]
    ClassStandardUpdate(String),

    /// No such traits; names joined with a comma, in ascending order.
    #[error("No such trait(s): {0}.")]
    TraitsNotFound(String),
    /// Providers carry the trait.
    #[error("The trait {0} is in use by a resource provider.")]
    TraitInUse(String),
    /// Standard traits cannot be deleted.
    #[error("Cannot delete standard trait {0}.")]
    TraitStandardDelete(String),

    /// Creating an inventory of a class the provider already has.
    #[error("Resource provider {provider} already has an inventory of class {class}.")]
    InventoryExists {
        /// Which provider.
        provider: Uuid,
        /// Class name.
        class: String,
    },
    /// The provider has no inventory of the class.
    #[error("No inventory of class {0} found.")]
    InventoryNotFound(String),
    /// As [`Refusal::InventoryNotFound`], on deletion.
    #[error("No inventory of class {0} found for delete")]
    InventoryNotFoundForDelete(String),
    /// Allocations hold what would be removed; class names in class order, joined with ", ".
    #[error("Inventory for '{classes}' on resource provider '{provider}' in use.")]
    InventoryInUse {
        /// Which provider.
        provider: Uuid,
        /// Class names.
        classes: String,
    },
    /// An allocation names a class the provider has no inventory of.
    #[error("Inventory for '{class}' on resource provider '{provider}' invalid.")]
    InvalidInventory {
        /// Which provider.
        provider: String,
        /// Class name.
        class: String,
    },

    /// More than is free.
    #[error(
        "Unable to create allocation for '{class}' on resource provider '{provider}'. \
         The requested amount would exceed the capacity."
    )]
    CapacityExceeded {
        /// Which provider.
        provider: String,
        /// Class name.
        class: String,
    },
    /// Not between `min_unit` and `max_unit`, or not a multiple of `step_size`.
    #[error(
        "Unable to create allocation for '{class}' on resource provider '{provider}'. \
         The requested amount would violate inventory constraints."
    )]
    ConstraintsViolated {
        /// Which provider.
        provider: String,
        /// Class name.
        class: String,
    },
    /// The provider is kept for a group that the consumer is not in.
    #[error(
        "Resource provider '{provider}' is kept for the exclusivity group '{group}', which has \
         '{unit}' to itself."
    )]
    Exclusive {
        /// Which provider.
        provider: Uuid,
        /// The name of the group.
        group: String,
        /// The host, rack or cluster.
        unit: String,
    },
    /// An allocation names an unknown provider.
    #[error("Allocation for resource provider '{0}' that does not exist.")]
    AllocationProviderNotFound(Uuid),
    /// The consumer is not at the generation the client saw.
    #[error("consumer generation conflict - expected {} but got {}", or_null(*.actual), or_none(*.given))]
    ConsumerGeneration {
        /// Its generation; `None`: there is no such consumer.
        actual: Option<Generation>,
        /// What the client gave; `None`: it expected no consumer.
        given: Option<Generation>,
    },
    /// Deleting the allocations of a consumer that has none.
    #[error("No allocations for consumer '{0}'")]
    NoAllocations(String),

    /// There is a plan for the stack.
    #[error("There is a plan for stack '{0}' already")]
    PlanExists(String),
    /// A plan, or a group it uses, is not as it was when the places were chosen.
    #[error("The plan changed meanwhile")]
    PlanChanged,
    /// A unit that a group is to have to itself has somebody else in it.
    #[error("'{0}' is in use by others")]
    UnitTaken(String),
    /// The project would have more in the planner than it may.
    #[error("The project may have {most} {what} at the most (--planner-project-{option})")]
    CapReached {
        /// How many it may have.
        most: i64,
        /// Of what.
        what: &'static str,
        /// The end of the name of the option that says so.
        option: &'static str,
    },
    /// Another placement is that of the instance.
    #[error("Resource '{0}' has another placement already")]
    ResourceTaken(String),
}

fn or_null(generation: Option<Generation>) -> String {
    generation.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

// The reference prints Python's None for a null the client sent.
fn or_none(generation: Option<Generation>) -> String {
    generation.map_or_else(|| "None".to_owned(), |value| value.to_string())
}
