//! Decides whether one tree has a candidate for a request.

use super::super::combine::Sources;
use super::super::engine;
use super::super::feasibility::Feasibility;
use super::super::part::Masks;
use super::super::query::Query;
use super::super::request::Request;
use super::super::shared::Shared;
use crate::world::World;

/// The search. It keeps its memory from one tree to the next.
#[derive(Debug)]
pub(super) struct TreeSearch {
    /// `None` if the request contains an unknown name.
    query: Option<Query>,
    /// Whether the request needs any provider.
    asks_for_providers: bool,
    feasibility: Feasibility,
    masks: Masks,
    shared: Shared,
    /// The work since the last read.
    pub(super) work: u64,
}

impl TreeSearch {
    pub(super) fn new(world: &World, request: &Request) -> Self {
        Self {
            query: engine::resolve(world, request).ok(),
            asks_for_providers: !request.groups.is_empty(),
            feasibility: Feasibility::default(),
            masks: Masks::default(),
            shared: Shared::default(),
            work: 0,
        }
    }

    /// Returns whether the tree with this root, together with its sharing providers, has a candidate; `None` if the
    /// limit on the work for one tree was reached.
    pub(super) fn has_candidate(&mut self, world: &World, root: u32) -> Option<bool> {
        let Self { query, asks_for_providers, feasibility, masks, shared, work } = self;
        let Some(query) = query else { return Some(false) };
        *work += 16;
        if !query.anchor.admits(root) {
            return Some(false);
        }
        if !*asks_for_providers {
            return Some(true);
        }
        if query.hopeless {
            return Some(false);
        }
        let mut sources = Sources { world, query, masks, shared, random: None };
        let found = feasibility.of_tree(root, &mut sources);
        *work += feasibility.take_work();
        found
    }
}
