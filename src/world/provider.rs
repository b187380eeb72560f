//! One provider, as readers see it.

use uuid::Uuid;

use super::World;
use super::resident::{NOWHERE, Resident};
use crate::model::provider::{InventoryRow, ProviderRow};
use crate::model::{ClassId, Generation, ProviderId, TraitId};

/// One provider in a world.
#[derive(Clone, Copy, Debug)]
pub struct Provider<'w> {
    pub(super) world: &'w World,
    pub(super) slot: u32,
    pub(super) resident: &'w Resident,
}

impl PartialEq for Provider<'_> {
    /// Whether they are the same provider; not whether they are in the same state.
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Provider<'_> {}

impl<'w> Provider<'w> {
    /// Internal key.
    pub fn id(&self) -> ProviderId {
        self.resident.id
    }

    /// Public identity.
    pub fn uuid(&self) -> Uuid {
        self.resident.uuid
    }

    /// Unique name.
    pub fn name(&self) -> &'w str {
        &self.resident.name
    }

    /// Counter of visible changes.
    pub fn generation(&self) -> Generation {
        self.world.pulses.get(self.slot).copied().unwrap_or_default().generation
    }

    /// Last change, seconds since the Unix epoch.
    pub fn updated_at(&self) -> i64 {
        self.world.pulses.get(self.slot).copied().unwrap_or_default().updated_at
    }

    /// The provider this one hangs below.
    pub fn parent(&self) -> Option<Provider<'w>> {
        match self.world.place(self.slot).parent {
            NOWHERE => None,
            parent => self.world.at(parent),
        }
    }

    /// The top of its tree.
    #[must_use]
    pub fn root(&self) -> Provider<'w> {
        self.world.at(self.world.place(self.slot).root).unwrap_or(*self)
    }

    /// All members of its tree, each before those below it.
    pub fn tree(&self) -> impl Iterator<Item = Provider<'w>> + use<'w> {
        let world = self.world;
        let root = world.place(self.slot).root;
        let end = root.saturating_add(world.place(root).len);
        (root..end).filter_map(move |slot| world.at(slot))
    }

    /// Inventories, ascending by class.
    pub fn inventories(&self) -> impl Iterator<Item = InventoryRow> + use<'w> {
        let Self { world, slot, resident } = *self;
        resident
            .classes
            .iter()
            .filter_map(move |&class| Some(world.column(class)?.get(slot)?.inventory(class)))
    }

    /// The inventory of one class.
    pub fn inventory(&self, class: ClassId) -> Option<InventoryRow> {
        Some(self.world.column(class)?.get(self.slot)?.inventory(class))
    }

    /// Traits, ascending by key (standard ones first). Providers with the same traits give the
    /// same slice.
    pub fn traits(&self) -> &'w [TraitId] {
        &self.resident.traits
    }

    /// Aggregates, ascending.
    pub fn aggregates(&self) -> &'w [Uuid] {
        &self.resident.aggregates
    }

    /// All there is to know, as the world was told.
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
        }
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }
}
