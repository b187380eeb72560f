//! A world and changed rows make the next world.

#![expect(clippy::indexing_slicing, reason = "positions are those of the list they index")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use super::column::{Column, Row};
use super::forest::{Spot, arrange};
use super::resident::{Mover, NOWHERE, Place, Pulse, Resident};
use super::set::{BLOCK, Set};
use super::sharing::Aggregate;
use super::{Changes, Names, World};
use crate::model::provider::ProviderRow;
use crate::model::{ClassId, ProviderId, TraitId};

impl World {
    /// The world after `changes`; `self` stays as it is for those who read it. Changes that are
    /// already in it do no harm.
    #[must_use]
    pub fn apply(&self, changes: Changes) -> Self {
        let mut next = self.clone();
        if let Some(catalogue) = changes.catalogue {
            let names = Names::new(catalogue);
            if names.shares != self.names.shares {
                return self.rebuild(names, changes.providers);
            }
            next.names = Arc::new(names);
        }
        let mut draft = Draft::new(next);
        draft.change(changes.providers);
        draft.finish()
    }

    /// The sharing trait got another key: everything about sharing is to be found out anew.
    fn rebuild(&self, names: Names, changes: Vec<(ProviderId, Option<ProviderRow>)>) -> Self {
        let mut rows: BTreeMap<_, _> = self.providers().map(|it| (it.id(), it.row())).collect();
        for (id, row) in changes {
            match row {
                Some(row) => rows.insert(id, row),
                None => rows.remove(&id),
            };
        }
        Self::build(names.catalogue, rows.into_values().collect())
    }
}

/// A world in the making.
pub(super) struct Draft {
    world: World,
    /// Roots of trees whose signature may have changed.
    stale: Vec<u32>,
    /// Of each aggregate whose sharing members changed: whether it had any before.
    shared_before: BTreeMap<Uuid, bool>,
    /// Traits that at some time lost their last carrier, and aggregates their last member.
    emptied: (Vec<TraitId>, Vec<Uuid>),
}

/// A member of the trees that are laid out anew.
struct Member {
    id: ProviderId,
    parent: Option<ProviderId>,
    from: From,
}

enum From {
    Slot(u32),
    Outside(Box<Mover>),
}

impl Draft {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            stale: Vec::new(),
            shared_before: BTreeMap::new(),
            emptied: Default::default(),
        }
    }

    /// Takes in the present rows of providers, `None` for those that are gone.
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
                (None, Some(row)) => {
                    let parent = row.parent;
                    let from = From::Outside(Box::new(self.admit(row)));
                    newcomers.push(Member { id, parent, from });
                }
            }
        }
        if !(gone.is_empty() && moved.is_empty() && newcomers.is_empty()) {
            self.restructure(&gone, &moved, newcomers);
        }
    }

    /// The world, with what depends on several providers brought up to date.
    pub(super) fn finish(mut self) -> World {
        for (aggregate, shared) in std::mem::take(&mut self.shared_before) {
            let Some(aggregate) = self.world.aggregates.get(aggregate) else { continue };
            if aggregate.sharing.is_empty() == shared {
                let roots = aggregate.members.iter().map(|slot| self.world.place(slot).root);
                self.stale.extend(roots);
            }
        }
        self.stale.sort_unstable();
        self.stale.dedup();
        for root in std::mem::take(&mut self.stale) {
            if self.world.place(root).root == root {
                let content = self.world.signature_content(root);
                self.world.signatures.set(root, &content, &mut self.world.aggregates);
            }
        }
        for id in self.emptied.0 {
            if self.world.traits.get(id).is_some_and(Set::is_empty) {
                self.world.traits.remove(id);
            }
        }
        for id in self.emptied.1 {
            if self.world.aggregates.get(id).is_some_and(|it| it.members.is_empty()) {
                self.world.aggregates.remove(id);
            }
        }
        self.world
    }

    fn parent_of(&self, slot: u32) -> Option<ProviderId> {
        Some(self.world.at(slot)?.parent()?.id())
    }

    fn root_of(&self, id: ProviderId) -> Option<u32> {
        self.world.by_id.get(id).map(|&slot| self.world.place(slot).root)
    }

    /// Brings what is known of a provider itself up to date.
    fn update(&mut self, slot: u32, row: ProviderRow) {
        let row = sorted(row);
        let pulse = Pulse { generation: row.generation, updated_at: row.updated_at };
        if self.world.pulses.get(slot) != Some(&pulse) {
            *self.world.pulses.get_mut(slot) = pulse;
        }
        let Some(old) = self.world.residents.get(slot).cloned().flatten() else { return };
        let classes: Vec<ClassId> = row.inventories.iter().map(|it| it.class).collect();
        for &class in old.classes.iter().filter(|class| classes.binary_search(class).is_err()) {
            self.column(class).remove(slot);
        }
        for inventory in &row.inventories {
            let next = Row::from(*inventory);
            if self.world.column(inventory.class).and_then(|it| it.get(slot)) != Some(&next) {
                self.column(inventory.class).set(slot, next);
            }
        }
        let members = *old.traits == row.traits[..] && *old.aggregates == row.aggregates[..];
        let named = old.uuid == row.uuid && *old.name == row.name;
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
        *self.world.residents.get_mut(slot) = Some(next);
    }

    /// A new provider, ready for a slot.
    fn admit(&mut self, row: ProviderRow) -> Mover {
        let row = sorted(row);
        let classes: Vec<ClassId> = row.inventories.iter().map(|it| it.class).collect();
        Mover {
            resident: self.intern(&row, &classes),
            pulse: Pulse { generation: row.generation, updated_at: row.updated_at },
            rows: row.inventories.iter().map(|it| (it.class, Row::from(*it))).collect(),
        }
    }

    fn intern(&mut self, row: &ProviderRow, classes: &[ClassId]) -> Resident {
        Resident {
            id: row.id,
            uuid: row.uuid,
            name: row.name.as_str().into(),
            traits: self.world.lists.traits.get(&row.traits),
            aggregates: self.world.lists.aggregates.get(&row.aggregates),
            classes: self.world.lists.classes.get(classes),
        }
    }

    fn give_back(&mut self, resident: &Resident) {
        self.world.lists.traits.give_back(&resident.traits);
        self.world.lists.aggregates.give_back(&resident.aggregates);
        self.world.lists.classes.give_back(&resident.classes);
    }

    /// Lays out anew all trees that gain, lose or rearrange members.
    fn restructure(
        &mut self,
        gone: &BTreeSet<u32>,
        moved: &BTreeMap<ProviderId, Option<ProviderId>>,
        newcomers: Vec<Member>,
    ) {
        let mut old_trees: BTreeSet<u32> =
            gone.iter().map(|&slot| self.world.place(slot).root).collect();
        old_trees.extend(moved.keys().filter_map(|&id| self.root_of(id)));
        let parents = moved.values().copied().chain(newcomers.iter().map(|it| it.parent));
        old_trees.extend(parents.flatten().filter_map(|id| self.root_of(id)));
        let mut members = Vec::new();
        for &root in &old_trees {
            for slot in root..root + self.world.place(root).len {
                let Some(provider) = self.world.at(slot).filter(|_| !gone.contains(&slot)) else {
                    continue;
                };
                let id = provider.id();
                let parent = match moved.get(&id) {
                    Some(parent) => *parent,
                    None => provider.parent().map(|parent| parent.id()),
                };
                members.push(Member { id, parent, from: From::Slot(slot) });
            }
        }
        members.extend(newcomers);
        let links: Vec<_> = members.iter().map(|member| (member.id, member.parent)).collect();
        let trees = arrange(&links);
        let rooms = self.assign_rooms(old_trees, &trees, &members);
        for &slot in gone {
            if let Some(mover) = self.vacate(slot) {
                self.dismiss(&mover.resident);
            }
        }
        self.settle_all(&trees, &rooms, members);
    }

    /// Finds room for each tree; its first slot and order. A tree whose root stays a root stays
    /// where it is while it fits and is not far too small.
    fn assign_rooms(
        &mut self,
        mut old_trees: BTreeSet<u32>,
        trees: &[Vec<Spot>],
        members: &[Member],
    ) -> Vec<(u32, u32)> {
        let mut kept = vec![None; trees.len()];
        for (tree, kept) in trees.iter().zip(&mut kept) {
            let From::Slot(root) = members[tree[0].member].from else { continue };
            let size = self.world.place(root).order;
            let needed = order(tree[0].len);
            if needed > size || !old_trees.remove(&root) {
                continue;
            }
            let order = if needed + 2 <= size { needed } else { size };
            self.world.trees.rooms.halve(root, size, order);
            *kept = Some((root, order));
        }
        for root in old_trees {
            self.world.trees.rooms.give_back(root, self.world.place(root).order);
        }
        let rooms = &mut self.world.trees.rooms;
        trees
            .iter()
            .zip(kept)
            .map(|(tree, kept)| {
                kept.unwrap_or_else(|| {
                    let order = order(tree[0].len);
                    (rooms.take(order), order)
                })
            })
            .collect()
    }

    /// Brings every member to its slot. All leave their old slots before any takes a new one.
    fn settle_all(&mut self, trees: &[Vec<Spot>], rooms: &[(u32, u32)], members: Vec<Member>) {
        let mut movers: Vec<Option<Box<Mover>>> = Vec::new();
        let mut slots = vec![NOWHERE; members.len()];
        for (tree, (first, _)) in trees.iter().zip(rooms) {
            for (spot, slot) in tree.iter().zip(*first..) {
                slots[spot.member] = slot;
            }
        }
        for (member, &slot) in members.into_iter().zip(&slots) {
            movers.push(match member.from {
                From::Slot(old) if old == slot => None,
                From::Slot(old) => self.vacate(old).map(Box::new),
                From::Outside(mover) => Some(mover),
            });
        }
        for (tree, &(first, order)) in trees.iter().zip(rooms) {
            for spot in tree {
                let slot = slots[spot.member];
                let parent = if spot.parent == NOWHERE { NOWHERE } else { first + spot.parent };
                let order = if slot == first { order } else { 0 };
                self.set_place(slot, Place { parent, root: first, len: spot.len, order });
                if let Some(mover) = movers[spot.member].take() {
                    self.settle(slot, *mover);
                }
            }
            self.stale.push(first);
        }
    }

    fn set_place(&mut self, slot: u32, place: Place) {
        let old = self.world.place(slot);
        if old == place {
            return;
        }
        let trees = &mut self.world.trees;
        *trees.places.get_mut(slot) = place;
        let is_root = place.root == slot;
        let mark = |set: &mut Set, member: bool| {
            if member {
                set.insert(slot)
            } else {
                set.remove(slot)
            };
        };
        mark(&mut trees.present, place.root != NOWHERE);
        mark(&mut trees.roots, is_root);
        mark(&mut trees.lone, is_root && place.len == 1);
        mark(&mut trees.large, is_root && place.order > BLOCK.trailing_zeros());
        if old.root == slot && !is_root {
            self.world.signatures.set(slot, &[], &mut self.world.aggregates);
        }
    }

    /// Takes a provider out of its slot.
    fn vacate(&mut self, slot: u32) -> Option<Mover> {
        let resident = self.world.residents.get_mut(slot).take()?;
        self.leave(slot, &resident);
        let mut rows = Vec::new();
        for &class in resident.classes.iter() {
            rows.extend(self.column(class).remove(slot).map(|row| (class, row)));
        }
        self.set_place(slot, Place::default());
        let pulse = std::mem::take(self.world.pulses.get_mut(slot));
        Some(Mover { resident, pulse, rows })
    }

    /// Puts a provider into an empty slot.
    fn settle(&mut self, slot: u32, mover: Mover) {
        let Mover { resident, pulse, rows } = mover;
        self.join(slot, &resident);
        for (class, row) in rows {
            self.column(class).set(slot, row);
        }
        *self.world.pulses.get_mut(slot) = pulse;
        self.world.by_id.insert(resident.id, slot);
        self.world.by_uuid.insert(resident.uuid, slot);
        *self.world.residents.get_mut(slot) = Some(resident);
    }

    /// Forgets a provider that has left its slot for good.
    fn dismiss(&mut self, resident: &Resident) {
        self.world.by_id.remove(resident.id);
        self.world.by_uuid.remove(resident.uuid);
        self.give_back(resident);
    }

    /// Enters a provider's slot into the sets of its traits and aggregates.
    fn join(&mut self, slot: u32, resident: &Resident) {
        for &id in resident.traits.iter() {
            self.world.traits.get_or_insert_with(id, Set::default).insert(slot);
        }
        let shares = self.shares(resident);
        for &id in resident.aggregates.iter() {
            let aggregate = self.aggregate(id, shares);
            aggregate.members.insert(slot);
            if shares {
                aggregate.sharing.insert(slot);
            }
        }
    }

    /// Takes a provider's slot out of the sets of its traits and aggregates.
    fn leave(&mut self, slot: u32, resident: &Resident) {
        for &id in resident.traits.iter() {
            let carriers = self.world.traits.get_or_insert_with(id, Set::default);
            carriers.remove(slot);
            if carriers.is_empty() {
                self.emptied.0.push(id);
            }
        }
        let shares = self.shares(resident);
        for &id in resident.aggregates.iter() {
            let aggregate = self.aggregate(id, shares);
            aggregate.members.remove(slot);
            if shares {
                aggregate.sharing.remove(slot);
            }
            if aggregate.members.is_empty() {
                self.emptied.1.push(id);
            }
        }
    }

    fn shares(&self, resident: &Resident) -> bool {
        let shares = self.world.names.shares;
        shares.is_some_and(|id| resident.traits.binary_search(&id).is_ok())
    }

    /// An aggregate for writing; `sharing`: its sharing members may change.
    fn aggregate(&mut self, id: Uuid, sharing: bool) -> &mut Aggregate {
        let aggregate = self.world.aggregates.get_or_insert_with(id, Aggregate::default);
        if sharing {
            self.shared_before.entry(id).or_insert(!aggregate.sharing.is_empty());
        }
        aggregate
    }

    fn column(&mut self, class: ClassId) -> &mut Column {
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

impl World {
    /// What the signature of the tree with this root is to be.
    pub(super) fn signature_content(&self, root: u32) -> Vec<Uuid> {
        let mut content: Vec<Uuid> = (root..root + self.place(root).len)
            .filter_map(|slot| self.at(slot))
            .flat_map(|provider| provider.aggregates())
            .filter(|&&id| self.aggregate(id).is_some_and(|it| !it.sharing.is_empty()))
            .copied()
            .collect();
        content.sort_unstable();
        content.dedup();
        content
    }
}

/// The order of the smallest room for a tree of this many members.
fn order(len: u32) -> u32 {
    len.next_power_of_two().trailing_zeros()
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
