//! Providers as rows: what the store reads and the world is built from.

use uuid::Uuid;

use super::{ClassId, Generation, Inventory, ProviderId, TraitId};

/// Everything readers may see of one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderRow {
    /// Internal key.
    pub id: ProviderId,
    /// Public identity.
    pub uuid: Uuid,
    /// Unique name.
    pub name: String,
    /// Counter of visible changes.
    pub generation: Generation,
    /// The provider this one hangs below, if any.
    pub parent: Option<ProviderId>,
    /// The top of its tree; itself when it has no parent.
    pub root: ProviderId,
    /// Last change, seconds since the Unix epoch.
    pub updated_at: i64,
    /// One per class, ascending by class.
    pub inventories: Vec<InventoryRow>,
    /// Ascending.
    pub traits: Vec<TraitId>,
    /// Ascending.
    pub aggregates: Vec<Uuid>,
    /// All aggregates as clients spelled them; empty if each is spelled in the usual way.
    pub spellings: Vec<String>,
}

/// One inventory with what is taken of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InventoryRow {
    /// The resource class.
    pub class: ClassId,
    /// The terms.
    pub terms: Inventory,
    /// Sum of all allocations of this class on this provider.
    pub used: i64,
    /// Last change, seconds since the Unix epoch.
    pub updated_at: i64,
}
