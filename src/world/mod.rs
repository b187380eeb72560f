//! All resource providers in memory, laid out for search.
//!
//! A [`World`] is an immutable view: cheap to clone and to share, built from rows and brought forward by
//! [`World::apply`]. It performs no I/O and reads no clock.
//!
//! # Layout
//!
//! Every provider has a number, its *slot*. The members of a tree have consecutive slots, each member before its
//! descendants, so whether a provider is an ancestor of another takes two comparisons ([`slot_data`]). There is a
//! [`column`](mod@column) of inventories for each resource class, and a [`set`] of slots for each trait and
//! aggregate. Sharing providers are found through the [signature](sharing) of a tree. All of this is stored in
//! [pages](pages::Pages) that successive worlds share: applying a change copies only the pages it touches, and
//! claims touch no page of the structure.
//!
//! Example: a host with two NUMA nodes and a network card has the slots 8 (the host), 9, 10 and 11. The search for
//! 4 VCPU reads the bits of slots 8 to 11 from the column of VCPU and from the set of the required trait, and
//! combines them with one `and`.
//!
//! A million providers with three inventories each take about 0.4 GB.

mod build;
mod catalogue;
mod change;
mod check;
pub(crate) mod column;
mod consumers;
mod draft;
mod forest;
mod holds;
mod intern;
mod layout;
mod map;
mod membership;
mod pages;
mod provider;
mod relayout;
pub(crate) mod set;
pub(crate) mod sharing;
mod slot_allocator;
pub(crate) mod slot_data;

use std::fmt;

use uuid::Uuid;

use crate::model::provider::InventoryRow;
use crate::model::{Bug, ClassId, ProviderId, TraitId};
pub use catalogue::{Catalogue, Name};
pub use change::{Changes, ProviderUse};
use column::Column;
pub use consumers::{
    ConsumerChange, ConsumerOwner, ConsumerRow, ConsumerState, Consumers, HeldAmount,
};
pub use holds::HeldAmounts;
use holds::Holds;
pub use layout::World;
pub use provider::Provider;
use set::{Set, Words};
use sharing::{Aggregate, Signature, SignatureId};
use slot_data::TreePosition;

impl fmt::Debug for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("World").field("providers", &self.len()).finish_non_exhaustive()
    }
}

impl World {
    /// Names of classes and traits.
    pub fn catalogue(&self) -> &Catalogue {
        &self.names.catalogue
    }

    /// The key of a class.
    pub fn class_id(&self, name: &str) -> Option<ClassId> {
        self.names.classes.get(name).copied()
    }

    /// The name of a class.
    pub fn class_name(&self, id: ClassId) -> Option<&str> {
        self.names.catalogue.classes.get(&id).map(|entry| entry.name.as_str())
    }

    /// The name of a class that has inventories in this world.
    ///
    /// # Panics
    /// The class has no name, which the database rules out.
    pub fn name_of_class(&self, id: ClassId) -> &str {
        let nameless = || Bug::raise(format!("class {} is in use and has no name", id.0));
        self.class_name(id).unwrap_or_else(nameless)
    }

    /// The name of a trait that a provider of this world has.
    ///
    /// # Panics
    /// The trait has no name, which the database rules out.
    pub fn name_of_trait(&self, id: TraitId) -> &str {
        let nameless = || Bug::raise(format!("trait {} is in use and has no name", id.0));
        self.trait_name(id).unwrap_or_else(nameless)
    }

    /// The key of a trait.
    pub fn trait_id(&self, name: &str) -> Option<TraitId> {
        self.names.traits.get(name).copied()
    }

    /// The name of a trait.
    pub fn trait_name(&self, id: TraitId) -> Option<&str> {
        self.names.catalogue.traits.get(&id).map(|entry| entry.name.as_str())
    }

    /// Returns whether any provider has the trait.
    pub fn trait_in_use(&self, id: TraitId) -> bool {
        self.traits.get(id).is_some_and(|carriers| !carriers.is_empty())
    }

    /// Number of providers.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns whether there are no providers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A provider by its public identity.
    pub fn provider(&self, uuid: Uuid) -> Option<Provider<'_>> {
        self.at(*self.by_uuid.get(uuid)?)
    }

    /// A provider by its key.
    pub fn provider_by_id(&self, id: ProviderId) -> Option<Provider<'_>> {
        self.at(*self.by_id.get(id)?)
    }

    /// The roots of all trees.
    pub fn trees(&self) -> impl Iterator<Item = Provider<'_>> {
        self.trees.roots.iter().map(|root| self.occupied(root))
    }

    /// All providers, each before its descendants.
    pub fn providers(&self) -> impl Iterator<Item = Provider<'_>> {
        self.trees.roots.iter().flat_map(|root| {
            let end = root + self.place(root).len;
            (root..end).map(|slot| self.occupied(slot))
        })
    }

    /// Number of providers with an inventory whose usage is above its capacity.
    pub fn overcommitted_providers(&self) -> usize {
        let is_over = |row: InventoryRow| row.used > row.terms.capacity();
        self.providers().filter(|provider| provider.inventories().any(is_over)).count()
    }
}

/// Slots and sets of slots, for searches.
impl World {
    /// The provider in a slot.
    pub(crate) fn at(&self, slot: u32) -> Option<Provider<'_>> {
        Some(Provider { world: self, slot, data: self.provider_data.get(slot)?.as_ref()? })
    }

    /// The slot of a provider.
    pub(crate) fn slot_of(&self, id: ProviderId) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    /// The capacity that plans hold for servers which have not arrived.
    pub(crate) fn holds(&self) -> &Holds {
        &self.holds
    }

    /// The provider in an occupied slot.
    pub(crate) fn occupied(&self, slot: u32) -> Provider<'_> {
        self.at(slot).unwrap_or_else(|| Bug::raise(format!("slot {slot} is empty")))
    }

    /// The position of a slot in its tree; [`TreePosition::default`] if no provider has the slot.
    pub(crate) fn place(&self, slot: u32) -> TreePosition {
        self.trees.places.get(slot).copied().unwrap_or_default()
    }

    /// The slots of a block that have a provider.
    pub(crate) fn present(&self, block: u32) -> Words {
        self.trees.present.words(block)
    }

    /// The first slot after those of all providers.
    pub(crate) fn end(&self) -> u32 {
        self.trees.roots.last().map_or(0, |root| root + self.place(root).len)
    }

    /// The inventories of a class.
    pub(crate) fn column(&self, class: ClassId) -> Option<&Column> {
        let at = self.columns.binary_search_by_key(&class, |(class, _)| *class).ok()?;
        self.columns.get(at).map(|(_, column)| column)
    }

    /// The slots of a block that have an inventory.
    pub(crate) fn having_inventory(&self, block: u32) -> Words {
        let mut all: Words = [0; 4];
        for (_, column) in self.columns.iter() {
            for (all, words) in all.iter_mut().zip(column.having(block)) {
                *all |= words;
            }
        }
        all
    }

    /// The slots of all roots.
    pub(crate) fn roots(&self) -> &Set {
        &self.trees.roots
    }

    /// The slots of roots that are alone in their tree.
    pub(crate) fn lone(&self) -> &Set {
        &self.trees.lone
    }

    /// The slots of roots whose tree may extend beyond one block.
    pub(crate) fn large(&self) -> &Set {
        &self.trees.large
    }

    /// The slots of the providers that carry a trait.
    pub(crate) fn carriers(&self, id: TraitId) -> Set {
        self.traits.get(id).cloned().unwrap_or_default()
    }

    /// The slots of the providers in an aggregate.
    pub(crate) fn members(&self, aggregate: Uuid) -> Set {
        self.aggregates.get(aggregate).map(|it| it.members.clone()).unwrap_or_default()
    }

    /// The slots of all sharing providers.
    pub(crate) fn sharing(&self) -> Set {
        self.names.shares.map(|id| self.carriers(id)).unwrap_or_default()
    }

    /// An aggregate that has members.
    pub(crate) fn aggregate(&self, aggregate: Uuid) -> Option<&Aggregate> {
        self.aggregates.get(aggregate)
    }

    /// The signature of the tree with a root.
    pub(crate) fn signature_of(&self, root: u32) -> Option<SignatureId> {
        self.signatures.of_root(root)
    }

    /// The slots of all roots with a signature.
    pub(crate) fn anchored(&self) -> &Set {
        self.signatures.anchored()
    }

    /// The content of a signature.
    pub(crate) fn signature(&self, id: SignatureId) -> Option<&Signature> {
        self.signatures.get(id)
    }

    /// The slots of the providers that share with the trees of a signature, aggregate by aggregate.
    pub(crate) fn sharing_with(&self, id: SignatureId) -> impl Iterator<Item = u32> {
        let aggregates = self.signature(id).into_iter().flat_map(|it| it.aggregates.iter());
        let aggregates = aggregates.filter_map(|it| self.aggregate(*it));
        aggregates.flat_map(|it| it.sharing.iter())
    }

    /// All signatures in use, in no particular order.
    pub(crate) fn signatures(&self) -> impl Iterator<Item = (SignatureId, &Signature)> {
        self.signatures.iter()
    }
}
