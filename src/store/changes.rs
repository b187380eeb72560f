//! Every way the stored state can change, as values for [`Store::commit`](super::Store::commit).

use uuid::Uuid;

use crate::model::{Expected, Generation, Inventory, ProviderId};

/// A change to what is stored.
pub trait Change: Send + 'static {
    /// What it tells when it is done.
    type Outcome: Send + 'static;
}

/// A provider as its own row says, with the identities of its relatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRecord {
    /// Public identity.
    pub uuid: Uuid,
    /// Unique name.
    pub name: String,
    /// Counter of visible changes.
    pub generation: Generation,
    /// The provider it hangs below.
    pub parent: Option<Uuid>,
    /// The top of its tree.
    pub root: Uuid,
    /// Last change, seconds since the Unix epoch.
    pub updated_at: i64,
}

macro_rules! changes {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $ty:ty),* $(,)? } -> $out:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty),* }
        impl Change for $name { type Outcome = $out; }
    )*};
}

changes! {
    /// `POST /resource_providers`. Refusals: `ParentIsSelf`, `ParentNotFound`,
    /// `ProviderUuidTaken`, `ProviderNameTaken`.
    CreateProvider {
        /// Its identity.
        uuid: Uuid,
        /// Its name.
        name: String,
        /// The provider it hangs below.
        parent: Option<Uuid>,
    } -> ProviderRecord;
    /// `PUT /resource_providers/{uuid}`. `parent: None` leaves it where it is; `Some(None)` makes
    /// it a root. Refusals: `ProviderNotFound`, `ParentNotFound`, `ReparentingNotAllowed`,
    /// `UnparentingNotAllowed`, `TreeLoop`, `ProviderNameTaken`.
    UpdateProvider {
        /// Which provider.
        uuid: Uuid,
        /// Its new name.
        name: String,
        /// Its new place.
        parent: Option<Option<Uuid>>,
        /// Whether a provider that has a parent may get another or none (microversion 1.37).
        may_reparent: bool,
    } -> ProviderRecord;
    /// `DELETE /resource_providers/{uuid}`. Refusals: `ProviderNotFound`, `ProviderHasChildren`,
    /// `ProviderInUse`.
    DeleteProvider {
        /// Which provider.
        uuid: Uuid,
    } -> ();
    /// `PUT .../inventories`, and `DELETE .../inventories` with no generation and no inventories.
    /// Gives the new generation. Refusals: `ProviderNotFound`, `ProviderGeneration`,
    /// `ClassNotFound`, `InventoryInUse`.
    ReplaceInventories {
        /// Which provider.
        provider: Uuid,
        /// The generation the client saw, if it said.
        seen: Option<Generation>,
        /// All its inventories from now on, by class name.
        inventories: Vec<(String, Inventory)>,
    } -> Generation;
    /// `POST .../inventories`. Refusals: `ProviderNotFound`, `ClassNotFound`, `InventoryExists`,
    /// and `ProviderGeneration` if a generation is given.
    CreateInventory {
        /// Which provider.
        provider: Uuid,
        /// Class name.
        class: String,
        /// Its terms.
        inventory: Inventory,
        /// The generation the client saw, if it said.
        seen: Option<Generation>,
    } -> Generation;
    /// `PUT .../inventories/{class}`. Refusals: `ProviderNotFound`, `ProviderGeneration`,
    /// `ClassNotFound`, `InventoryNotFound`.
    UpdateInventory {
        /// Which provider.
        provider: Uuid,
        /// Class name.
        class: String,
        /// Its terms.
        inventory: Inventory,
        /// The generation the client saw.
        seen: Generation,
    } -> Generation;
    /// `DELETE .../inventories/{class}`. Refusals: `ProviderNotFound`, `ClassNotFound`,
    /// `InventoryInUse`, `InventoryNotFoundForDelete`.
    DeleteInventory {
        /// Which provider.
        provider: Uuid,
        /// Class name.
        class: String,
    } -> Generation;
    /// `PUT .../traits` and, with no generation and no traits, `DELETE .../traits`. The
    /// generation moves only if the set changes. Refusals: `ProviderNotFound`, `TraitsNotFound`,
    /// `ProviderGeneration`.
    ReplaceTraits {
        /// Which provider.
        provider: Uuid,
        /// The generation the client saw, if it said.
        seen: Option<Generation>,
        /// All its traits from now on.
        traits: Vec<String>,
    } -> Generation;
    /// `PUT .../aggregates`. With `seen` (microversion 1.19) the generation is compared and moves;
    /// without, it stays. Refusals: `ProviderNotFound`, `ProviderGeneration`.
    ReplaceAggregates {
        /// Which provider.
        provider: Uuid,
        /// The generation the client saw, if it said.
        seen: Option<Generation>,
        /// All its aggregates from now on.
        aggregates: Vec<Uuid>,
    } -> Generation;
    /// `POST /resource_classes`. Refusals: `ClassExists`.
    CreateClass {
        /// Class name.
        name: String,
    } -> ();
    /// `PUT /resource_classes/{name}` from 1.7: whether it was created just now.
    EnsureClass {
        /// Class name.
        name: String,
    } -> bool;
    /// `PUT /resource_classes/{name}` before 1.7. Refusals: `ClassNotFound`,
    /// `ClassStandardUpdate`, `ClassExists`.
    RenameClass {
        /// Present name.
        name: String,
        /// New name.
        new_name: String,
    } -> ();
    /// `DELETE /resource_classes/{name}`. Refusals: `ClassNotFound`, `ClassStandardDelete`,
    /// `ClassInUse`.
    DeleteClass {
        /// Class name.
        name: String,
    } -> ();
    /// `PUT /traits/{name}`: whether it was created just now, and its last change in seconds
    /// since the Unix epoch.
    EnsureTrait {
        /// Trait name.
        name: String,
    } -> (bool, i64);
    /// `DELETE /traits/{name}`. Refusals: `TraitsNotFound`, `TraitStandardDelete`, `TraitInUse`.
    DeleteTrait {
        /// Trait name.
        name: String,
    } -> ();
    /// `PUT /allocations/{consumer}` and `POST /allocations`: each consumer named holds exactly
    /// what is listed from now on. All or nothing. Refusals: `ConsumerGeneration`,
    /// `AllocationProviderNotFound`, `ClassNotFound`, `InvalidInventory`, `CapacityExceeded`,
    /// `ConstraintsViolated`.
    ReplaceAllocations {
        /// What each consumer wants; no consumer twice.
        claims: Vec<Claim>,
    } -> ();
    /// `DELETE /allocations/{consumer}`: no generation is asked for and none moves. Refusal:
    /// `NoAllocations`.
    DeleteAllocations {
        /// The consumer.
        consumer: Uuid,
    } -> ();
    /// `POST /reshaper`. Refusals: `ProviderNotFound` and `ProviderGeneration` (of
    /// `inventories`), `InventoryInUse`, and those of [`ReplaceAllocations`].
    Reshape {
        /// Provider, the generation the client saw, all its inventories from now on.
        inventories: Vec<(Uuid, Generation, Vec<(String, Inventory)>)>,
        /// What each consumer wants.
        claims: Vec<Claim>,
    } -> ();
}

/// All that one consumer is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The consumer.
    pub consumer: Uuid,
    /// The generation the client believes it is at.
    pub expected: Expected,
    /// Owner, as the client names it.
    pub project: String,
    /// Owner, as the client names it.
    pub user: String,
    /// Consumer type (microversion 1.38); `None` leaves an existing one as it is.
    pub consumer_type: Option<String>,
    /// Provider, class name, amount; empty: the consumer gives up everything.
    pub wants: Vec<(Uuid, String, i64)>,
}

/// The key of a provider, for reads.
pub type Key = ProviderId;
