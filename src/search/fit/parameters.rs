//! The parameters of a count.

use uuid::Uuid;

use super::super::request::Request;
use crate::model::ProviderId;
use crate::world::World;
use crate::world::set::Set;

/// The parameters of a count.
#[derive(Clone, Copy, Debug)]
pub struct CountParameters<'q> {
    /// The request.
    pub request: &'q Request,
    /// The excluded hosts.
    pub excluded: &'q Excluded,
    /// Maximum number of hosts, and of groups, in the result.
    pub names_max: usize,
    /// The grouping of hosts, if requested.
    pub by: Option<&'q GroupBy>,
}

/// Excluded trees, by the slots of their roots.
#[derive(Clone, Debug, Default)]
pub struct Excluded {
    /// Trees whose providers are excluded, with all sharing that depends on them.
    pub(super) lost: Set,
    /// Trees that are no hosts for the request. Their sharing providers count.
    pub(super) closed: Set,
}

/// The property by which hosts are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// Traits of their roots with this prefix.
    TraitPrefix(String),
    /// Aggregates of their roots.
    Aggregate,
}

impl Excluded {
    /// Excludes all providers of a tree.
    pub fn lose(&mut self, world: &World, root: ProviderId) {
        if let Some(root) = world.provider_by_id(root) {
            self.lost.insert(root.root().slot());
        }
    }

    /// Excludes a tree as a host.
    pub fn close(&mut self, world: &World, root: ProviderId) {
        if let Some(root) = world.provider_by_id(root) {
            self.closed.insert(root.root().slot());
        }
    }

    /// Excludes all providers of the trees whose root has a trait. Returns the number of trees.
    pub fn lose_carriers(&mut self, world: &World, name: &str) -> Option<usize> {
        let carriers = world.carriers(world.trait_id(name)?);
        Some(self.lose_roots(world, &carriers))
    }

    /// Excludes all providers of the trees whose root is in an aggregate. Returns the number of trees.
    pub fn lose_members(&mut self, world: &World, aggregate: Uuid) -> usize {
        self.lose_roots(world, &world.members(aggregate))
    }

    fn lose_roots(&mut self, world: &World, slots: &Set) -> usize {
        let mut count = 0;
        for root in slots.iter().filter(|slot| world.roots().contains(*slot)) {
            self.lost.insert(root);
            count += 1;
        }
        count
    }
}
