//! Keeps the sets of slots up to date: carriers of traits, members of aggregates, and the signatures of trees
//! derived from them.

use std::sync::Arc;

use uuid::Uuid;

use super::draft::Draft;
use super::layout::World;
use super::set::Set;
use super::sharing::Aggregate;
use super::slot_data::ProviderData;
use crate::model::Bug;

impl Draft {
    /// Adds a provider's slot to the sets of its traits and aggregates.
    pub(super) fn join(&mut self, slot: u32, data: &ProviderData) {
        for &id in data.traits.iter() {
            self.world.traits.get_or_insert_with(id, Set::default).insert(slot);
        }
        let shares = self.shares(data);
        for &id in data.aggregates.iter() {
            let aggregate = self.aggregate(id, shares);
            aggregate.members.insert(slot);
            if shares {
                aggregate.sharing.insert(slot);
            }
        }
    }

    /// Removes a provider's slot from the sets of its traits and aggregates.
    pub(super) fn leave(&mut self, slot: u32, data: &ProviderData) {
        for &id in data.traits.iter() {
            let carriers = self.world.traits.get_or_insert_with(id, Set::default);
            carriers.remove(slot);
            if carriers.is_empty() {
                self.emptied.traits.push(id);
            }
        }
        let shares = self.shares(data);
        for &id in data.aggregates.iter() {
            let aggregate = self.aggregate(id, shares);
            aggregate.members.remove(slot);
            if shares {
                aggregate.sharing.remove(slot);
            }
            if aggregate.members.is_empty() {
                self.emptied.aggregates.push(id);
            }
        }
    }

    fn shares(&self, data: &ProviderData) -> bool {
        let shares = self.world.names.shares;
        shares.is_some_and(|id| data.traits.binary_search(&id).is_ok())
    }

    /// Returns an aggregate for writing; `sharing`: its sharing members may change.
    fn aggregate(&mut self, id: Uuid, sharing: bool) -> &mut Aggregate {
        let aggregate = self.world.aggregates.get_or_insert_with(id, Aggregate::default);
        if sharing {
            self.shared_before.entry(id).or_insert(!aggregate.sharing.is_empty());
        }
        aggregate
    }

    /// Updates what depends on several providers, and returns the world.
    pub(super) fn finish(mut self) -> World {
        for (aggregate, shared) in std::mem::take(&mut self.shared_before) {
            let known = self.world.aggregates.get(aggregate);
            let missing = || Bug::raise(format!("aggregate {aggregate} is gone too early"));
            let aggregate = known.unwrap_or_else(missing);
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
        for id in self.emptied.traits {
            if self.world.traits.get(id).is_some_and(Set::is_empty) {
                self.world.traits.remove(id);
            }
        }
        for id in self.emptied.aggregates {
            if self.world.aggregates.get(id).is_some_and(|it| it.members.is_empty()) {
                self.world.aggregates.remove(id);
            }
        }
        if !self.emptied.classes.is_empty() {
            let columns = Arc::make_mut(&mut self.world.columns);
            columns.retain(|(_, column)| column.len() > 0);
            columns.shrink_to_fit();
        }
        self.world
    }
}

impl World {
    /// The aggregates that form the signature of the tree with this root.
    pub(super) fn signature_content(&self, root: u32) -> Vec<Uuid> {
        let mut content: Vec<Uuid> = (root..root + self.place(root).len)
            .map(|slot| self.occupied(slot))
            .flat_map(|provider| provider.aggregates())
            .filter(|&&id| self.aggregate(id).is_some_and(|it| !it.sharing.is_empty()))
            .copied()
            .collect();
        content.sort_unstable();
        content.dedup();
        content
    }
}
