//! The locked rows on which claims are judged: consumers with their allocations, providers with their
//! inventories.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::request::Owner;
use crate::model::exclusive::Exclusivity;
use crate::model::{Bug, ClassId, Generation, Inventory, ProviderId};

/// A consumer with its allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its owner.
    pub owner: Owner,
    /// Its generation.
    pub generation: Generation,
    /// Its allocations: amounts by provider and class.
    pub holds: BTreeMap<(ProviderId, ClassId), i64>,
}

/// A consumer before the requests and now; `None`: it does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerState {
    /// As it was locked.
    pub before: Option<Consumer>,
    /// As judged so far.
    pub now: Option<Consumer>,
}

/// One inventory and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InventoryUsage {
    /// The terms.
    pub terms: Inventory,
    /// Units in use when it was locked.
    pub used_before: i64,
    /// Units in use as judged so far.
    pub used: i64,
}

/// A locked provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedProvider {
    /// Its key.
    pub id: ProviderId,
    /// Its generation, as judged so far.
    pub generation: Generation,
}

/// All locked rows: those that the requests name, and those that their consumers use.
#[derive(Clone, Debug, Default)]
pub struct LockedState {
    /// Every class that is named and exists.
    pub classes: HashMap<String, ClassId>,
    /// Every provider that is named or used, and exists.
    pub providers: HashMap<Uuid, LockedProvider>,
    /// Every inventory of those providers.
    pub inventories: BTreeMap<(ProviderId, ClassId), InventoryUsage>,
    /// Every consumer that is named, whether it exists or not.
    pub consumers: BTreeMap<Uuid, ConsumerState>,
    /// The groups that have providers exclusively.
    pub exclusivity: Exclusivity,
}

impl LockedState {
    /// Returns an allocation without an inventory, as consumer, provider and class. Such a state cannot be judged.
    pub fn held_from_nothing(&self) -> Option<(Uuid, ProviderId, ClassId)> {
        self.consumers.iter().find_map(|(uuid, consumer)| {
            let mut places = consumer.now.iter().flat_map(|now| now.holds.keys());
            let missing = places.find(|place| !self.inventories.contains_key(place))?;
            Some((*uuid, missing.0, missing.1))
        })
    }

    /// Checks that the use of each inventory has changed by as much as the allocations of consumers.
    ///
    /// # Errors
    /// An amount was lost or made up.
    pub fn balance(&self) -> Result<(), Bug> {
        let changed = || self.consumers.values().filter(|consumer| consumer.before != consumer.now);
        let now = changed().filter_map(|consumer| consumer.now.as_ref());
        let before = changed().filter_map(|consumer| consumer.before.as_ref());
        let gains = now.flat_map(|now| now.holds.iter().map(|(place, amount)| (*place, *amount)));
        let losses = before.flat_map(|it| it.holds.iter().map(|(place, amount)| (*place, -amount)));
        let mut moves: Vec<((ProviderId, ClassId), i64)> = gains.chain(losses).collect();
        moves.sort_unstable_by_key(|(place, _)| *place);
        // Both are in the order of places, so one walk over both is enough.
        let mut moves = moves.into_iter().peekable();
        for (place, inventory) in &self.inventories {
            while moves.next_if(|(earlier, _)| earlier < place).is_some() {}
            let mut gained = 0;
            while let Some((_, amount)) = moves.next_if(|(same, _)| same == place) {
                gained += amount;
            }
            if inventory.used < 0 || inventory.used - inventory.used_before != gained {
                let InventoryUsage { used_before, used, terms: Inventory { total, .. } } =
                    inventory;
                return Err(Bug::new(format!(
                    "{place:?}: {used_before} of {total} were used, consumers gained {gained}, \
                     {used} are used"
                )));
            }
        }
        Ok(())
    }

    /// Returns a consumer as judged so far.
    pub(super) fn consumer(&self, uuid: Uuid) -> Option<&Consumer> {
        self.consumers.get(&uuid)?.now.as_ref()
    }

    /// Returns the names of classes with allocations.
    pub(super) fn class_names(&self, classes: impl Iterator<Item = ClassId>) -> Vec<&str> {
        let names: HashMap<ClassId, &str> =
            self.classes.iter().map(|(name, id)| (*id, name.as_str())).collect();
        let name = |class: ClassId| {
            let nameless = || Bug::raise(format!("class {} has allocations and no name", class.0));
            names.get(&class).copied().unwrap_or_else(nameless)
        };
        classes.map(name).collect()
    }

    /// Returns all inventories of a provider.
    pub(super) fn inventories_of(
        &self,
        provider: ProviderId,
    ) -> impl IntoIterator<Item = (&(ProviderId, ClassId), &InventoryUsage)> {
        self.inventories.range((provider, ClassId(i32::MIN))..=(provider, ClassId(i32::MAX)))
    }

    /// Returns the inventory of an accepted amount.
    pub(super) fn inventory_mut(&mut self, place: (ProviderId, ClassId)) -> &mut InventoryUsage {
        let missing = || Bug::raise(format!("{place:?} has allocations and no inventory"));
        self.inventories.get_mut(&place).unwrap_or_else(missing)
    }
}
