//! Laying out anew the trees that gain, lose or rearrange members: finding room for each, and
//! bringing every member to its slot.

#![expect(clippy::indexing_slicing, reason = "positions are those of the list they index")]

use std::collections::{BTreeMap, BTreeSet};

use super::change::Draft;
use super::forest::{Spot, arrange};
use super::resident::{Mover, NOWHERE, Place, Resident};
use super::set::{BLOCK, Set};
use crate::model::{Bug, ProviderId};

/// A member of the trees that are laid out anew.
pub(super) struct Member {
    pub(super) id: ProviderId,
    pub(super) parent: Option<ProviderId>,
    pub(super) source: Source,
}

/// Where it stands before.
pub(super) enum Source {
    Slot(u32),
    Outside(Box<Mover>),
}

impl Draft {
    /// Lays out anew all trees that gain, lose or rearrange members.
    pub(super) fn restructure(
        &mut self,
        gone: &BTreeSet<u32>,
        moved: &BTreeMap<ProviderId, Option<ProviderId>>,
        newcomers: Vec<Member>,
    ) {
        let mut old_trees: BTreeSet<u32> =
            gone.iter().map(|&slot| self.world.place(slot).root).collect();
        old_trees.extend(moved.keys().map(|&id| {
            self.root_of(id).unwrap_or_else(|| Bug::raise(format!("{id:?} moves and is unknown")))
        }));
        let parents = moved.values().copied().chain(newcomers.iter().map(|it| it.parent));
        old_trees.extend(parents.flatten().filter_map(|id| self.root_of(id)));
        let mut members = Vec::new();
        for &root in &old_trees {
            for slot in root..root + self.world.place(root).len {
                if gone.contains(&slot) {
                    continue;
                }
                let provider = self.world.occupied(slot);
                let id = provider.id();
                let parent = match moved.get(&id) {
                    Some(parent) => *parent,
                    None => provider.parent().map(|parent| parent.id()),
                };
                members.push(Member { id, parent, source: Source::Slot(slot) });
            }
        }
        members.extend(newcomers);
        let links: Vec<_> = members.iter().map(|member| (member.id, member.parent)).collect();
        let trees = arrange(&links);
        let rooms = self.assign_rooms(old_trees, &trees, &members);
        for &slot in gone {
            let Mover { resident, .. } = self.vacate(slot);
            self.dismiss(&resident);
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
            let Source::Slot(root) = members[tree[0].member].source else { continue };
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
            movers.push(match member.source {
                Source::Slot(old) if old == slot => None,
                Source::Slot(old) => Some(Box::new(self.vacate(old))),
                Source::Outside(mover) => Some(mover),
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
    fn vacate(&mut self, slot: u32) -> Mover {
        let resident = self.world.residents.get_mut(slot).take();
        let resident = resident.unwrap_or_else(|| Bug::raise(format!("nobody leaves slot {slot}")));
        self.leave(slot, &resident);
        let mut rows = Vec::new();
        for &class in resident.classes.iter() {
            rows.push((class, self.take_inventory(slot, class)));
        }
        self.set_place(slot, Place::default());
        let pulse = std::mem::take(self.world.pulses.get_mut(slot));
        Mover { resident, pulse, rows }
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

    fn root_of(&self, id: ProviderId) -> Option<u32> {
        self.world.by_id.get(id).map(|&slot| self.world.place(slot).root)
    }
}

/// The order of the smallest room for a tree of this many members.
fn order(len: u32) -> u32 {
    len.next_power_of_two().trailing_zeros()
}
