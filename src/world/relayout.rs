//! Assigns new slots to trees that gain, lose or rearrange members: finds slots for each tree, and moves every
//! member to its slot.

#![expect(clippy::indexing_slicing, reason = "positions are those of the list they index")]

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Draft, Member, Source};
use super::forest::{TreeNode, arrange};
use super::set::{BLOCK, Set};
use super::slot_data::{MovedProvider, NOWHERE, ProviderData, TreePosition};
use crate::model::{Bug, ProviderId};

impl Draft {
    /// Assigns new slots to all trees that gain, lose or rearrange members.
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
        let runs = self.assign_slots(old_trees, &trees, &members);
        for &slot in gone {
            let MovedProvider { data, .. } = self.vacate(slot);
            self.dismiss(&data);
        }
        self.settle_all(&trees, &runs, members);
    }

    /// Finds a run of slots for each tree; returns its first slot and order. A tree whose root stays a root keeps
    /// its slots as long as it fits and they are not far too many.
    fn assign_slots(
        &mut self,
        mut old_trees: BTreeSet<u32>,
        trees: &[Vec<TreeNode>],
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
            self.world.trees.allocator.halve(root, size, order);
            *kept = Some((root, order));
        }
        for root in old_trees {
            self.world.trees.allocator.give_back(root, self.world.place(root).order);
        }
        let allocator = &mut self.world.trees.allocator;
        trees
            .iter()
            .zip(kept)
            .map(|(tree, kept)| {
                kept.unwrap_or_else(|| {
                    let order = order(tree[0].len);
                    (allocator.take(order), order)
                })
            })
            .collect()
    }

    /// Moves every member to its slot. All members leave their old slots before any takes a new one.
    fn settle_all(&mut self, trees: &[Vec<TreeNode>], runs: &[(u32, u32)], members: Vec<Member>) {
        let mut moved_providers: Vec<Option<Box<MovedProvider>>> = Vec::new();
        let mut slots = vec![NOWHERE; members.len()];
        for (tree, (first, _)) in trees.iter().zip(runs) {
            for (node, slot) in tree.iter().zip(*first..) {
                slots[node.member] = slot;
            }
        }
        for (member, &slot) in members.into_iter().zip(&slots) {
            moved_providers.push(match member.source {
                Source::Slot(old) if old == slot => None,
                Source::Slot(old) => Some(Box::new(self.vacate(old))),
                Source::Outside(provider) => Some(provider),
            });
        }
        for (tree, &(first, order)) in trees.iter().zip(runs) {
            for node in tree {
                let slot = slots[node.member];
                let parent = if node.parent == NOWHERE { NOWHERE } else { first + node.parent };
                let order = if slot == first { order } else { 0 };
                self.set_place(slot, TreePosition { parent, root: first, len: node.len, order });
                if let Some(provider) = moved_providers[node.member].take() {
                    self.settle(slot, *provider);
                }
            }
            self.stale.push(first);
        }
    }

    fn set_place(&mut self, slot: u32, place: TreePosition) {
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
    fn vacate(&mut self, slot: u32) -> MovedProvider {
        let data = self.world.provider_data.get_mut(slot).take();
        let data =
            data.unwrap_or_else(|| Bug::raise(format!("slot {slot} has no provider to move")));
        self.leave(slot, &data);
        let mut rows = Vec::new();
        for &class in data.classes.iter() {
            rows.push((class, self.take_inventory(slot, class)));
        }
        self.set_place(slot, TreePosition::default());
        let version = std::mem::take(self.world.versions.get_mut(slot));
        MovedProvider { data, version, rows }
    }

    /// Puts a provider into an empty slot.
    fn settle(&mut self, slot: u32, provider: MovedProvider) {
        let MovedProvider { data, version, rows } = provider;
        self.join(slot, &data);
        for (class, row) in rows {
            self.column(class).set(slot, row);
        }
        *self.world.versions.get_mut(slot) = version;
        self.world.by_id.insert(data.id, slot);
        self.world.by_uuid.insert(data.uuid, slot);
        *self.world.provider_data.get_mut(slot) = Some(data);
    }

    /// Removes a provider that has left its slot from the indexes.
    fn dismiss(&mut self, data: &ProviderData) {
        self.world.by_id.remove(data.id);
        self.world.by_uuid.remove(data.uuid);
        self.give_back(data);
    }

    fn root_of(&self, id: ProviderId) -> Option<u32> {
        self.world.by_id.get(id).map(|&slot| self.world.place(slot).root)
    }
}

/// The order of the smallest run of slots for a tree of this size.
fn order(len: u32) -> u32 {
    len.next_power_of_two().trailing_zeros()
}
