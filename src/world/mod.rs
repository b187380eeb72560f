//! All resource providers in memory, laid out for search.
//!
//! A [`World`] is an immutable view: cheap to clone and to share, built from rows and brought
//! forward by [`World::apply`]. It performs no I/O and knows no clock.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::model::provider::{InventoryRow, ProviderRow};
use crate::model::{ClassId, Generation, ProviderId, TraitId};

/// The names of resource classes and traits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// Resource classes by key.
    pub classes: BTreeMap<ClassId, Name>,
    /// Traits by key.
    pub traits: BTreeMap<TraitId, Name>,
}

/// A named entry of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// As clients write it.
    pub name: String,
    /// Last change, seconds since the Unix epoch.
    pub updated_at: i64,
}

/// What has changed since a world was current.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The whole catalogue, when any name changed.
    pub catalogue: Option<Catalogue>,
    /// The current row of every provider that changed; `None`: it is gone.
    pub providers: Vec<(ProviderId, Option<ProviderRow>)>,
}

/// Every provider, its inventories with usage, traits and aggregates, at one moment.
#[derive(Clone, Debug, Default)]
pub struct World {}

impl World {
    /// Lays out a world from all rows, in any order.
    pub fn build(catalogue: Catalogue, providers: Vec<ProviderRow>) -> Self {
        let _ = (catalogue, providers);
        todo!()
    }
    /// The world after `changes`; `self` stays as it is for those who read it.
    #[must_use]
    pub fn apply(&self, changes: Changes) -> Self {
        let _ = changes;
        todo!()
    }
    /// Recomputes every derived value and compares.
    ///
    /// # Errors
    /// What does not add up.
    pub fn check(&self) -> Result<(), String> {
        todo!()
    }
    /// Names of classes and traits.
    pub fn catalogue(&self) -> &Catalogue {
        todo!()
    }
    /// The key of a class.
    pub fn class_id(&self, name: &str) -> Option<ClassId> {
        let _ = name;
        todo!()
    }
    /// The name of a class.
    pub fn class_name(&self, id: ClassId) -> Option<&str> {
        let _ = id;
        todo!()
    }
    /// The key of a trait.
    pub fn trait_id(&self, name: &str) -> Option<TraitId> {
        let _ = name;
        todo!()
    }
    /// The name of a trait.
    pub fn trait_name(&self, id: TraitId) -> Option<&str> {
        let _ = id;
        todo!()
    }
    /// Whether any provider carries the trait.
    pub fn trait_in_use(&self, id: TraitId) -> bool {
        let _ = id;
        todo!()
    }
    /// How many providers there are.
    pub fn len(&self) -> usize {
        todo!()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A provider by its public identity.
    pub fn provider(&self, uuid: Uuid) -> Option<Provider<'_>> {
        let _ = uuid;
        todo!()
    }
    /// A provider by its key.
    pub fn provider_by_id(&self, id: ProviderId) -> Option<Provider<'_>> {
        let _ = id;
        todo!()
    }
}

/// One provider in a world.
#[derive(Clone, Copy, Debug)]
pub struct Provider<'w> {
    world: &'w World,
}

impl<'w> Provider<'w> {
    /// Internal key.
    pub fn id(&self) -> ProviderId {
        todo!()
    }
    /// Public identity.
    pub fn uuid(&self) -> Uuid {
        todo!()
    }
    /// Unique name.
    pub fn name(&self) -> &'w str {
        let _ = self.world;
        todo!()
    }
    /// Counter of visible changes.
    pub fn generation(&self) -> Generation {
        todo!()
    }
    /// Last change, seconds since the Unix epoch.
    pub fn updated_at(&self) -> i64 {
        todo!()
    }
    /// The provider this one hangs below.
    pub fn parent(&self) -> Option<Provider<'w>> {
        todo!()
    }
    /// The top of its tree.
    pub fn root(&self) -> Provider<'w> {
        todo!()
    }
    /// Inventories, ascending by class.
    pub fn inventories(&self) -> impl Iterator<Item = InventoryRow> + 'w {
        std::iter::empty()
    }
    /// The inventory of one class.
    pub fn inventory(&self, class: ClassId) -> Option<InventoryRow> {
        let _ = class;
        todo!()
    }
    /// Traits, ascending by key (standard ones first).
    pub fn traits(&self) -> &'w [TraitId] {
        todo!()
    }
    /// Aggregates, ascending.
    pub fn aggregates(&self) -> &'w [Uuid] {
        todo!()
    }
}
