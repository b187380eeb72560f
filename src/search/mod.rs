//! Allocation candidates: the combinations of providers that satisfy a request. A pure function of
//! a world and a request, computed lazily.
//!
//! | module | does |
//! |---|---|
//! | [`ranking`] | ranks trees |
//! | [`query`] | resolves the request's names, and divides it into parts, each supplied by one provider |
//! | [`part`] | finds the providers that can supply a part |
//! | [`anchors`] | walks over the trees that may have candidates |
//! | [`combine`] | goes through the combinations of one tree; [`capacity`] checks that they fit together |
//! | [`lookahead`], [`failed`] | detect dead ends for it: by matching the remaining parts, and by remembering failed situations |
//! | [`feasibility`] | decides whether one tree has a candidate |
//! | [`released`] | lets a search find the capacity that a plan holds for the server of the request |
//! | [`shared`] | finds, once, the candidates that consist of sharing providers alone |
//! | [`engine`] | visits anchors in stored order, in a [`shuffled_order`] or in a [`ranked_order`] by their [`score`], until the limit |
//! | [`trees`] | lists the options of each part, tree by tree, without combining them |
//! | [`candidate`] | holds the current candidate |
//! | [`funnel`] | counts the hosts that each condition of a request rules out |
//! | [`explain`] | adds the hosts that each condition leaves, and the conditions that contradict each other |
//! | [`fit`] | counts the requests that fit |
//! | [`moves`] | finds the fewest consumers that have to leave a host so that a request fits there |
//!
//! Modules import each other in one direction, from the bottom of this table to its top.
//!
//! *Example.* `resources=VCPU:2,DISK_GB:10&resources_NET=NIC:1` has three parts: the classes of the
//! unsuffixed group, which two providers may supply, and the group `_NET`. An anchor is a tree in
//! which each part has an option: say `VCPU` at two NUMA nodes, `DISK_GB` at the root or at a disk
//! pool that the tree shares, `NIC` at one card. Its combinations are the 2 * 2 * 1 candidates.
//!
//! The work is proportional to the candidates returned: a tree is examined on its turn, and a candidate
//! is discarded when the next one is requested.

mod anchors;
mod candidate;
mod capacity;
mod combine;
mod engine;
pub mod explain;
mod failed;
mod feasibility;
pub mod fit;
pub mod funnel;
pub mod listing;
mod lookahead;
mod matching;
pub mod moves;
mod part;
mod query;
mod random;
mod ranked_order;
pub mod ranking;
mod released;
pub mod request;
mod score;
mod shared;
mod shuffled_order;
mod steps;
pub mod trees;

use std::sync::Arc;

use engine::Engine;
use query::Query;
use released::Released;

pub use steps::{Next, budget};

pub use ranking::Ranking;
pub use released::{searched, starts_slowly};
pub use request::{GROUP_SUFFIX, Group, Order, Policy, Request, Strategy, Unknown};

use crate::model::ClassId;
use crate::world::{Provider, World};

/// A search in progress: an iterator over candidates in one world.
#[derive(Debug)]
pub struct Search {
    world: Arc<World>,
    /// The same world, or the one in which holds are released.
    searched: Arc<World>,
    query: Query,
    engine: Engine,
}

/// One way to satisfy the whole request, borrowed from the search until the next call.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'s> {
    search: &'s Search,
}

/// Starts a search. Names are resolved in the order in which the reference resolves them, so that
/// the same requests fail because of an unknown name.
///
/// # Errors
/// The request names an unknown class or trait.
pub fn find(world: Arc<World>, request: &Request) -> Result<Search, Unknown> {
    let released = Released::of(&world, request);
    let searched = released.as_ref().map_or(&world, |released| &released.world);
    let searched = Arc::clone(searched);
    let mut query = engine::resolve(&searched, request)?;
    query.released = released;
    Ok(Search { world, searched, query, engine: Engine::default() })
}

impl Search {
    /// The next distinct candidate, until the request's bounds are reached.
    pub fn next_candidate(&mut self) -> Next<Candidate<'_>> {
        match self.engine.advance(&self.searched, &self.query) {
            Next::Found(()) => Next::Found(Candidate { search: self }),
            Next::Paused => Next::Paused,
            Next::Exhausted => Next::Exhausted,
        }
    }

    /// The providers in the summaries of the candidates returned so far: all members of every tree that supplies
    /// something, parents first. Only the suppliers themselves, if a candidate may use only one provider of each
    /// tree.
    pub fn summarised(&self) -> impl Iterator<Item = Provider<'_>> {
        self.summarised_after(None)
    }

    /// The providers of [`Search::summarised`] after the one with this slot.
    pub(crate) fn summarised_after(&self, last: Option<u32>) -> impl Iterator<Item = Provider<'_>> {
        let nested = self.query.nested;
        let (first, start) = match last {
            None => (0, 0),
            Some(last) if nested => (self.world.place(last).root, last + 1),
            Some(last) => (last + 1, last + 1),
        };
        self.engine.found.involved(first).flat_map(move |slot| {
            let len = if nested { self.world.place(slot).len } else { 1 };
            (slot.max(start)..slot + len).filter_map(|slot| self.world.at(slot))
        })
    }

    /// Completes the summaries after the last candidate, before [`Search::summarised`] is read. Returns whether it
    /// is done; if not, call it again.
    ///
    /// If a candidate may use only one provider of each tree, a request with a limit also gets summaries of other
    /// providers in the same trees: those that further candidates would have used.
    pub(crate) fn survey(&mut self) -> bool {
        self.engine.survey(&self.searched, &mut self.query) != Next::Paused
    }

    /// The work done so far, in steps of a few nanoseconds: the same on every machine.
    pub fn steps(&self) -> u64 {
        self.engine.steps()
    }

    /// Looks ahead at each choice and remembers each dead end, and not only after many failed tries in a row. It
    /// costs more. Neither the candidates nor their order depend on it, which the tests verify.
    pub fn check_each_choice(&mut self) {
        self.engine.check_each_choice();
    }

    /// The number of parts of a candidate, each supplied by one provider.
    pub fn parts(&self) -> usize {
        self.query.parts.len()
    }

    /// The world as it is.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }
}

impl<'s> Candidate<'s> {
    /// The allocations: each provider once, with its amounts ascending by class.
    pub fn allocations(
        &self,
    ) -> impl Iterator<Item = (Provider<'s>, &'s [(ClassId, i64)])> + use<'s> {
        let Search { world, engine, .. } = self.search;
        let found = &engine.found;
        let mut from = 0;
        found.providers.iter().filter_map(move |&(slot, end)| {
            let amounts = found.amounts.get(from..end)?;
            from = end;
            Some((world.at(slot)?, amounts))
        })
    }

    /// For each group, in the request's order: its suffix and the providers that serve it.
    pub fn mappings(
        &self,
    ) -> impl Iterator<Item = (&'s str, impl Iterator<Item = Provider<'s>> + use<'s>)> + use<'s>
    {
        let Search { world, query, engine, .. } = self.search;
        let found = &engine.found;
        let mut from = 0;
        query.groups.iter().zip(&found.mapped_ends).map(move |(group, &end)| {
            let slots = found.mapped.get(from..end).unwrap_or_default();
            from = end;
            (group.suffix.as_str(), slots.iter().filter_map(|&slot| world.at(slot)))
        })
    }
}
