//! Reasons for which changes and queries are refused, as data. `src/model/wording.rs` has the sentences; the
//! HTTP layer adds status, code and the resource's prefix.

use uuid::Uuid;

use super::generation::Generation;

/// The reason for which a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No provider has this UUID.
    ProviderNotFound(Uuid),
    /// Another provider has the UUID.
    ProviderUuidTaken(Uuid),
    /// Another provider has the name.
    ProviderNameTaken(String),
    /// The provider has allocations.
    ProviderInUse {
        /// Which provider.
        provider: Uuid,
        /// The names of the classes with the amounts that are in use.
        used: Vec<(String, i64)>,
    },
    /// The provider has children.
    ProviderHasChildren {
        /// Which provider.
        provider: Uuid,
        /// The names of some of the children.
        children: Vec<String>,
    },
    /// A provider cannot be its own parent.
    ParentIsSelf,
    /// The named parent does not exist.
    ParentNotFound,
    /// Moving to another parent before microversion 1.37.
    ReparentingNotAllowed,
    /// Becoming a root before microversion 1.37.
    UnparentingNotAllowed,
    /// The new parent is the provider itself or one of its descendants.
    TreeLoop,
    /// The provider is not at the generation the client saw.
    ProviderGeneration {
        /// Which provider.
        provider: Uuid,
        /// Its generation.
        actual: Generation,
        /// The generation that the client gave.
        given: Generation,
    },

    /// No such resource class.
    ClassNotFound(String),
    /// The class exists.
    ClassExists(String),
    /// Inventories use the class.
    ClassInUse {
        /// The name of the class.
        name: String,
        /// The names of some of the providers with such an inventory.
        providers: Vec<String>,
    },
    /// Standard classes cannot be deleted.
    ClassStandardDelete(String),
    /// Standard classes cannot be renamed.
    ClassStandardUpdate(String),

    /// No such traits; names joined with a comma, in ascending order.
    TraitsNotFound(String),
    /// Providers carry the trait.
    TraitInUse {
        /// The name of the trait.
        name: String,
        /// The names of some of the providers.
        providers: Vec<String>,
    },
    /// Standard traits cannot be deleted.
    TraitStandardDelete(String),

    /// Creating an inventory of a class the provider already has.
    InventoryExists {
        /// Which provider.
        provider: Uuid,
        /// Class name.
        class: String,
    },
    /// The provider has no inventory of the class.
    InventoryNotFound(String),
    /// As [`Refusal::InventoryNotFound`], on deletion.
    InventoryNotFoundForDelete(String),
    /// Allocations use inventories that would be removed.
    InventoryInUse {
        /// Which provider.
        provider: Uuid,
        /// The names of the classes in the order of the classes, with the amounts that are in use.
        used: Vec<(String, i64)>,
    },
    /// An allocation names a class the provider has no inventory of.
    InvalidInventory {
        /// Which provider.
        provider: String,
        /// Class name.
        class: String,
    },

    /// The amount exceeds the free capacity.
    CapacityExceeded {
        /// Which provider.
        provider: String,
        /// Class name.
        class: String,
    },
    /// The amount is not between `min_unit` and `max_unit`, or not a multiple of `step_size`.
    ConstraintsViolated {
        /// Which provider.
        provider: String,
        /// Class name.
        class: String,
    },
    /// A group has the provider exclusively, and the consumer is not in it.
    Exclusive {
        /// Which provider.
        provider: Uuid,
        /// The name of the group.
        group: String,
        /// The host, rack or cluster.
        unit: String,
    },
    /// An allocation names an unknown provider.
    AllocationProviderNotFound(Uuid),
    /// The consumer is not at the generation the client saw.
    ConsumerGeneration {
        /// Its generation; `None`: there is no such consumer.
        actual: Option<Generation>,
        /// The generation that the client gave; `None`: it expected no consumer.
        given: Option<Generation>,
    },
    /// Deleting the allocations of a consumer that has none.
    NoAllocations(String),

    /// There is a plan for the stack.
    PlanExists(String),
    /// A plan, or a group it uses, has changed since its hosts were chosen.
    PlanChanged,
    /// A group cannot have this unit exclusively, because others have or use it.
    UnitTaken(String),
    /// The project would store more in the planner than its cap allows.
    CapReached {
        /// The maximum.
        most: i64,
        /// The capped quantity.
        what: Capped,
    },
    /// The instance has another placement already.
    ResourceTaken(String),

    /// There is no such group.
    GroupNotFound,
    /// Another group has the name.
    GroupNameTaken(String),
    /// The project is not a member of the group.
    MemberNotFound,
    /// The group has members.
    GroupHasMembers,
    /// The group has servers; their ids.
    GroupHasServers(Vec<String>),
    /// The member has servers in the group.
    MemberHasServers {
        /// The project.
        member: String,
        /// The name of the group.
        group: String,
        /// Ids of the servers.
        servers: Vec<String>,
    },

    /// There is no flavor with this name.
    FlavorNotFound(String),
    /// The aggregate has no metadata with this key.
    AggregateKeyNotFound {
        /// The aggregate.
        aggregate: Uuid,
        /// The key.
        key: String,
    },
    /// Another flavor has the id.
    FlavorIdTaken {
        /// The flavor that should get the id.
        name: String,
        /// The id.
        id: String,
        /// The flavor that has it.
        other: String,
    },
}

/// A quantity with a cap for each project in the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capped {
    /// Plans.
    Plans,
    /// Placements.
    Placements,
    /// Size of the requests of plans, in bytes.
    Bytes,
    /// Groups.
    Groups,
}
