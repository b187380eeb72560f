//! Allocation candidates: the combinations of providers that satisfy a request. A pure function of a
//! world and a request, computed lazily.
//!
//! In steps: [`plan`] resolves names and divides the request into parts, each supplied by one
//! provider; [`anchors`] walks over the trees that may supply it; [`combine`] goes through the choices
//! at one of them, with [`capacity`] to see whether they fit together; [`shared`] adds, once, the
//! candidates made of sharing providers alone; [`engine`] takes turns among trees as the strategy
//! says, or draws them in a [`shuffled_order`], and stops at the bounds; [`candidate`] holds the
//! present candidate. Modules import each other in this direction only.
//!
//! Work is proportional to the candidates asked for: a tree is looked at when its turn comes, and
//! nothing is kept of a candidate once the next one is asked for.

mod anchors;
mod candidate;
mod capacity;
mod combine;
mod engine;
pub mod listing;
mod matching;
mod part;
mod plan;
mod random;
pub mod request;
mod shared;
mod shuffled_order;
mod steps;
pub mod why;

use std::sync::Arc;

use engine::Engine;
use plan::Plan;
use steps::Progress;

pub use request::{Group, Policy, Request, Strategy, Unknown};

use crate::model::ClassId;
use crate::world::{Provider, World};

/// A search under way: an iterator of candidates over one world.
#[derive(Debug)]
pub struct Search {
    world: Arc<World>,
    plan: Plan,
    engine: Engine,
}

/// What [`Search::next_candidate`] came to.
#[derive(Debug)]
pub enum Next<'s> {
    /// A candidate that was not given before.
    Found(Candidate<'s>),
    /// Nothing yet, after about a millisecond: ask again, or give up.
    Paused,
    /// There are no more, or the request's bounds are reached.
    Exhausted,
}

/// What [`Search::survey`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surveyed {
    /// It is not done: ask again, or give up.
    Paused,
    /// Summaries may be read.
    Done,
}

/// One way to satisfy the whole request. Borrowed from the search until the next one is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'s> {
    search: &'s Search,
}

/// Starts a search. Names are resolved in the order in which the reference resolves them, so that
/// an unknown name is told exactly when it is told there.
///
/// # Errors
/// An unknown class or trait.
pub fn find(world: Arc<World>, request: &Request) -> Result<Search, Unknown> {
    let plan = engine::plan(&world, request)?;
    Ok(Search { world, plan, engine: Engine::default() })
}

impl Search {
    /// The next distinct candidate, until the request's bounds are reached.
    pub fn next_candidate(&mut self) -> Next<'_> {
        match self.engine.advance(&self.world, &self.plan) {
            Progress::Found => Next::Found(Candidate { search: self }),
            Progress::Paused => Next::Paused,
            Progress::Exhausted => Next::Exhausted,
        }
    }

    /// Providers that belong into the summaries of the candidates given so far: all members of
    /// every tree that supplies something, each before those below it; only the suppliers
    /// themselves if candidates may not use several providers of a tree.
    pub fn summarised(&self) -> impl Iterator<Item = Provider<'_>> {
        self.summarised_after(None)
    }

    /// Those of [`Search::summarised`] that come after the one in a slot.
    pub(crate) fn summarised_after(&self, last: Option<u32>) -> impl Iterator<Item = Provider<'_>> {
        let nested = self.plan.nested;
        let (first, begun) = match last {
            None => (0, 0),
            Some(last) if nested => (self.world.place(last).root, last + 1),
            Some(last) => (last + 1, last + 1),
        };
        self.engine.found.involved(first).flat_map(move |slot| {
            let len = if nested { self.world.place(slot).len } else { 1 };
            (slot.max(begun)..slot + len).filter_map(|slot| self.world.at(slot))
        })
    }

    /// To be called after the last candidate and before [`Search::summarised`], until it is done. With a limit, and where a candidate may use one provider of a
    /// tree only, others of the same trees may belong into the summaries.
    pub(crate) fn survey(&mut self) -> Surveyed {
        match self.engine.survey(&self.world, &mut self.plan) {
            Progress::Paused => Surveyed::Paused,
            Progress::Found | Progress::Exhausted => Surveyed::Done,
        }
    }

    /// How much has been done so far, in steps of a few nanoseconds: a measure of the work that is the
    /// same on every machine.
    pub fn steps(&self) -> u64 {
        self.engine.steps()
    }

    /// Of how many parts, each from one provider, a candidate consists.
    pub fn parts(&self) -> usize {
        self.plan.parts.len()
    }

    /// Leaves the tree that the last candidate was found in: the next one is of another. For searches
    /// in the order of trees.
    pub fn skip_tree(&mut self) {
        self.engine.skip_tree();
    }

    /// The world that is searched.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }
}

impl<'s> Candidate<'s> {
    /// What would be allocated where: each provider once, with its amounts ascending by class.
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

    /// Which providers serve each group, by suffix, in the order of the request's groups.
    pub fn mappings(
        &self,
    ) -> impl Iterator<Item = (&'s str, impl Iterator<Item = Provider<'s>> + use<'s>)> + use<'s>
    {
        let Search { world, plan, engine } = self.search;
        let found = &engine.found;
        let mut from = 0;
        plan.groups.iter().zip(&found.mapped_ends).map(move |(group, &end)| {
            let slots = found.mapped.get(from..end).unwrap_or_default();
            from = end;
            (group.suffix.as_str(), slots.iter().filter_map(|&slot| world.at(slot)))
        })
    }
}
