//! A provider, as readers see it.

use std::sync::Arc;

use uuid::Uuid;

use super::layout::World;
use super::slot_data::{NOWHERE, ProviderData, Version};
use crate::model::provider::{InventoryRow, ProviderRow};
use crate::model::{Bug, ClassId, Generation, ProviderId, TraitId};

/// A provider in a world.
#[derive(Clone, Copy, Debug)]
pub struct Provider<'w> {
    pub(super) world: &'w World,
    pub(super) slot: u32,
    pub(super) data: &'w ProviderData,
}

impl PartialEq for Provider<'_> {
    /// Compares identity, not state.
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Provider<'_> {}

impl<'w> Provider<'w> {
    /// Internal key.
    pub fn id(&self) -> ProviderId {
        self.data.id
    }

    /// Public identity.
    pub fn uuid(&self) -> Uuid {
        self.data.uuid
    }

    /// Unique name.
    pub fn name(&self) -> &'w str {
        &self.data.name
    }

    /// The name without a copy, for callers that keep it longer than the world.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.data.name)
    }

    /// Counter of visible changes.
    pub fn generation(&self) -> Generation {
        self.version().generation
    }

    /// Last change, seconds since the Unix epoch.
    pub fn updated_at(&self) -> i64 {
        self.version().updated_at
    }

    fn version(&self) -> Version {
        let version = self.world.versions.get(self.slot).copied();
        version.unwrap_or_else(|| Bug::raise(format!("slot {} has no version", self.slot)))
    }

    /// The parent provider.
    pub fn parent(&self) -> Option<Provider<'w>> {
        match self.world.place(self.slot).parent {
            NOWHERE => None,
            parent => Some(self.world.occupied(parent)),
        }
    }

    /// The root of its tree.
    #[must_use]
    pub fn root(&self) -> Provider<'w> {
        self.world.occupied(self.world.place(self.slot).root)
    }

    /// All members of its tree, each before its descendants.
    pub fn tree(&self) -> impl Iterator<Item = Provider<'w>> + use<'w> {
        self.root().subtree()
    }

    /// Itself and its descendants, each before its own descendants.
    pub fn subtree(&self) -> impl Iterator<Item = Provider<'w>> + use<'w> {
        let Self { world, slot, .. } = *self;
        let end = slot.saturating_add(world.place(slot).len);
        (slot..end).map(move |slot| world.occupied(slot))
    }

    /// Inventories, ascending by class.
    pub fn inventories(&self) -> impl Iterator<Item = InventoryRow> + use<'w> {
        let Self { world, slot, data } = *self;
        data.classes.iter().map(move |&class| {
            let row = world.column(class).and_then(|column| column.get(slot));
            let missing = || Bug::raise(format!("slot {slot} has no inventory of {class:?}"));
            row.unwrap_or_else(missing).inventory(class)
        })
    }

    /// The inventory of one class.
    pub fn inventory(&self, class: ClassId) -> Option<InventoryRow> {
        Some(self.world.column(class)?.get(self.slot)?.inventory(class))
    }

    /// Traits, ascending by key (standard ones first). Providers with the same traits return the same slice.
    pub fn traits(&self) -> &'w [TraitId] {
        &self.data.traits
    }

    /// Aggregates in the spelling of clients; an aggregate with two spellings is listed twice.
    pub fn aggregates_as_spelled(&self) -> Vec<String> {
        match &self.data.spellings {
            Some(spellings) => spellings.to_vec(),
            None => self.aggregates().iter().map(Uuid::to_string).collect(),
        }
    }

    /// Aggregates, ascending.
    pub fn aggregates(&self) -> &'w [Uuid] {
        &self.data.aggregates
    }

    /// The row from which the world has this provider.
    pub fn row(&self) -> ProviderRow {
        ProviderRow {
            id: self.id(),
            uuid: self.uuid(),
            name: self.name().to_owned(),
            generation: self.generation(),
            parent: self.parent().map(|parent| parent.id()),
            root: self.root().id(),
            updated_at: self.updated_at(),
            inventories: self.inventories().collect(),
            traits: self.traits().to_vec(),
            aggregates: self.aggregates().to_vec(),
            spellings: self.data.spellings().to_vec(),
        }
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }
}
