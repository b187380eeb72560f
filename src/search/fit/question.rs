//! What is asked.

use uuid::Uuid;

use super::super::request::Request;
use crate::model::ProviderId;
use crate::world::World;
use crate::world::set::Set;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The request.
    pub request: &'q Request,
    /// The hosts that do not count.
    pub excluded: &'q Excluded,
    /// The maximum number of hosts to name, and of groups.
    pub names_max: usize,
    /// How hosts are grouped, if they are.
    pub by: Option<&'q GroupBy>,
}

/// Trees that do not count, by the slots of their roots.
#[derive(Clone, Debug, Default)]
pub struct Excluded {
    /// Nothing that these have can be drawn on, nor anything that is shared with them through them.
    pub(super) lost: Set,
    /// These are no hosts for the request. What they share counts.
    pub(super) closed: Set,
}

/// How hosts are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// By the traits of their roots that begin with this.
    TraitPrefix(String),
    /// By the aggregates of their roots.
    Aggregate,
}

impl Excluded {
    /// Leaves out all that a tree has.
    pub fn lose(&mut self, world: &World, root: ProviderId) {
        if let Some(root) = world.provider_by_id(root) {
            self.lost.insert(root.root().slot());
        }
    }

    /// Leaves out a tree as a host.
    pub fn close(&mut self, world: &World, root: ProviderId) {
        if let Some(root) = world.provider_by_id(root) {
            self.closed.insert(root.root().slot());
        }
    }

    /// Leaves out all that the trees have whose root carries a trait. Returns how many there are.
    pub fn lose_carriers(&mut self, world: &World, name: &str) -> Option<usize> {
        let carriers = world.carriers(world.trait_id(name)?);
        Some(self.lose_roots(world, &carriers))
    }

    /// Leaves out all that the trees have whose root is in an aggregate. Returns how many there are.
    pub fn lose_members(&mut self, world: &World, aggregate: Uuid) -> usize {
        self.lose_roots(world, &world.members(aggregate))
    }

    /// The roots of the trees of which nothing counts, in the world in which they were left out.
    pub fn lost_roots(&self, world: &World) -> Vec<ProviderId> {
        self.lost.iter().map(|slot| world.occupied(slot).id()).collect()
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
