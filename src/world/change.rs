//! Derives the next world from a world and changed rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::catalogue::{Catalogue, Names};
use super::column::{Column, InventoryEntry};
use super::draft::{Draft, Emptied, Member, Source};
use super::holds::HeldAmounts;
use super::layout::World;
use super::slot_data::{MovedProvider, ProviderData, Version};
use crate::model::provider::ProviderRow;
use crate::model::{Bug, ClassId, ConsumerId, Generation, ProviderId};

/// Maximum number of providers of a world that is checked after each change, in debug builds.
const CHECKED_MAX: usize = 64;

/// The changes from one world to the next.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The whole catalogue, when any name changed.
    pub catalogue: Option<Catalogue>,
    /// New usage, in the order in which it was written. The rows of changed providers have it, too.
    pub uses: Vec<ProviderUse>,
    /// The current row of every changed provider; `None` if it was deleted.
    pub providers: Vec<(ProviderId, Option<ProviderRow>)>,
    /// The current allocations of every changed hold of a plan; none if it has ended.
    pub holds: BTreeMap<ConsumerId, HeldAmounts>,
}

/// The usage of a provider after a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderUse {
    /// The provider.
    pub provider: ProviderId,
    /// Its generation, and the time of this change in seconds since the Unix epoch; `None`: they did not change.
    pub generation: Option<(Generation, i64)>,
    /// Amounts in use.
    pub used: Vec<(ClassId, i64)>,
}

impl World {
    /// Returns the world after `changes`; `self` is unchanged, for its readers. Changes that the world already
    /// contains have no effect.
    #[must_use]
    pub fn apply(&self, changes: Changes) -> Self {
        let mut next = self.clone();
        for (hold, amounts) in changes.holds {
            next.holds.set(hold, amounts);
        }
        if let Some(catalogue) = changes.catalogue {
            let names = Names::new(catalogue);
            if names.shares != self.names.shares {
                return next.rebuild(names, changes.providers);
            }
            next.names = Arc::new(names);
        }
        let mut draft = Draft::new(next);
        for change in changes.uses {
            draft.set_use(&change);
        }
        draft.change(changes.providers);
        let next = draft.finish();
        debug_assert!(next.len() > CHECKED_MAX || next.check().is_ok(), "{:?}", next.check());
        next
    }

    /// Returns the world with more or less in use, but not less than nothing. Inventories that it does not have are
    /// left out.
    #[must_use]
    pub(crate) fn with_changed_use(&self, changes: &BTreeMap<(ProviderId, ClassId), i64>) -> Self {
        let mut draft = Draft::new(self.clone());
        for ((provider, class), change) in changes {
            let Some(slot) = self.slot_of(*provider) else { continue };
            let entry = self.column(*class).and_then(|column| column.get(slot));
            if let Some(entry) = entry {
                draft.column(*class).set(slot, entry.with_changed_use(*change));
            }
        }
        draft.finish()
    }

    /// Builds the world again, because the key of the sharing trait has changed.
    fn rebuild(&self, names: Names, changes: Vec<(ProviderId, Option<ProviderRow>)>) -> Self {
        let mut rows: BTreeMap<_, _> = self.providers().map(|it| (it.id(), it.row())).collect();
        for (id, row) in changes {
            match row {
                Some(row) => rows.insert(id, row),
                None => rows.remove(&id),
            };
        }
        let holds = self.holds.clone();
        Self { holds, ..Self::build(names.catalogue, rows.into_values().collect()) }
    }
}

impl Draft {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            stale: Vec::new(),
            shared_before: BTreeMap::new(),
            emptied: Emptied::default(),
        }
    }

    /// Sets the usage of a provider. A new provider or inventory is left out: its row has the usage.
    fn set_use(&mut self, change: &ProviderUse) {
        let Some(slot) = self.world.slot_of(change.provider) else { return };
        if let Some((generation, updated_at)) = change.generation {
            *self.world.versions.get_mut(slot) = Version { generation, updated_at };
        }
        for (class, used) in &change.used {
            if let Some(entry) = self.world.column(*class).and_then(|column| column.get(slot)) {
                self.column(*class).set(slot, entry.with_use(*used));
            }
        }
    }

    /// Applies the current rows of providers; `None` for deleted ones.
    pub(super) fn change(
        &mut self,
        rows: impl IntoIterator<Item = (ProviderId, Option<ProviderRow>)>,
    ) {
        let rows: BTreeMap<ProviderId, Option<ProviderRow>> = rows.into_iter().collect();
        let mut gone = BTreeSet::new();
        let mut moved = BTreeMap::new();
        let mut newcomers = Vec::new();
        for (id, row) in rows {
            match (self.world.by_id.get(id).copied(), row) {
                (None, None) => {}
                (Some(slot), None) => {
                    gone.insert(slot);
                }
                (Some(slot), Some(row)) => {
                    if self.parent_of(slot) != row.parent {
                        moved.insert(id, row.parent);
                    }
                    self.update(slot, row);
                }
                (None, Some(row)) => newcomers.push(self.admit(row)),
            }
        }
        if !(gone.is_empty() && moved.is_empty() && newcomers.is_empty()) {
            self.restructure(&gone, &moved, newcomers);
        }
    }

    fn parent_of(&self, slot: u32) -> Option<ProviderId> {
        Some(self.world.occupied(slot).parent()?.id())
    }

    /// Updates the data of one provider.
    fn update(&mut self, slot: u32, row: ProviderRow) {
        let row = sorted(row);
        let version = Version { generation: row.generation, updated_at: row.updated_at };
        if self.world.versions.get(slot) != Some(&version) {
            *self.world.versions.get_mut(slot) = version;
        }
        let old = self.world.occupied(slot).data.clone();
        let classes: Vec<ClassId> = row.inventories.iter().map(|it| it.class).collect();
        for &class in old.classes.iter().filter(|class| classes.binary_search(class).is_err()) {
            self.take_inventory(slot, class);
        }
        for inventory in &row.inventories {
            let next = InventoryEntry::from(*inventory);
            if self.world.column(inventory.class).and_then(|it| it.get(slot)) != Some(next) {
                self.column(inventory.class).set(slot, next);
            }
        }
        let members = *old.traits == row.traits[..] && *old.aggregates == row.aggregates[..];
        let named =
            old.uuid == row.uuid && *old.name == row.name && *old.spellings() == row.spellings[..];
        if members && named && *old.classes == classes[..] {
            return;
        }
        let next = self.intern(&row, &classes);
        if !members {
            self.leave(slot, &old);
            self.join(slot, &next);
            self.stale.push(self.world.place(slot).root);
        }
        if old.uuid != next.uuid {
            self.world.by_uuid.remove(old.uuid);
            self.world.by_uuid.insert(next.uuid, slot);
        }
        self.give_back(&old);
        *self.world.provider_data.get_mut(slot) = Some(next);
    }

    /// Returns a new provider, ready for a slot.
    pub(super) fn admit(&mut self, row: ProviderRow) -> Member {
        let row = sorted(row);
        let classes: Vec<ClassId> = row.inventories.iter().map(|it| it.class).collect();
        let provider = MovedProvider {
            data: self.intern(&row, &classes),
            version: Version { generation: row.generation, updated_at: row.updated_at },
            rows: row.inventories.iter().map(|it| (it.class, InventoryEntry::from(*it))).collect(),
        };
        Member { id: row.id, parent: row.parent, source: Source::Outside(Box::new(provider)) }
    }

    fn intern(&mut self, row: &ProviderRow, classes: &[ClassId]) -> ProviderData {
        ProviderData {
            id: row.id,
            uuid: row.uuid,
            name: row.name.as_str().into(),
            traits: self.world.lists.traits.get(&row.traits),
            aggregates: self.world.lists.aggregates.get(&row.aggregates),
            spellings: (!row.spellings.is_empty()).then(|| row.spellings.as_slice().into()),
            classes: self.world.lists.classes.get(classes),
        }
    }

    pub(super) fn give_back(&mut self, data: &ProviderData) {
        self.world.lists.traits.give_back(&data.traits);
        self.world.lists.aggregates.give_back(&data.aggregates);
        self.world.lists.classes.give_back(&data.classes);
    }

    /// Removes an inventory from its column. The provider must have it.
    pub(super) fn take_inventory(&mut self, slot: u32, class: ClassId) -> InventoryEntry {
        let column = self.column(class);
        let row = column.remove(slot);
        if column.len() == 0 {
            self.emptied.classes.push(class);
        }
        row.unwrap_or_else(|| Bug::raise(format!("slot {slot} has no inventory of {class:?}")))
    }

    /// The column of a class, for writing.
    #[expect(clippy::indexing_slicing, reason = "the position was just found or filled")]
    pub(super) fn column(&mut self, class: ClassId) -> &mut Column {
        let columns = Arc::make_mut(&mut self.world.columns);
        let at = match columns.binary_search_by_key(&class, |(class, _)| *class) {
            Ok(at) => at,
            Err(at) => {
                columns.insert(at, (class, Column::default()));
                at
            }
        };
        &mut columns[at].1
    }
}

/// The row with its lists ascending and free of duplicates, as the rest relies on.
fn sorted(mut row: ProviderRow) -> ProviderRow {
    row.inventories.sort_by_key(|inventory| inventory.class);
    row.inventories.dedup_by_key(|inventory| inventory.class);
    row.traits.sort_unstable();
    row.traits.dedup();
    row.aggregates.sort_unstable();
    row.aggregates.dedup();
    row
}
