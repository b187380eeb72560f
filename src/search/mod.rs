//! Allocation candidates: where the thing asked for could go. A pure function of a world and a
//! request, computed lazily.

pub mod listing;
pub mod request;

use std::sync::Arc;

pub use request::{Group, Policy, Request, Strategy};

use crate::model::ClassId;
use crate::world::{Provider, World};

/// A name in the request that nothing in the catalogue has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// A resource class.
    Class(String),
    /// Traits, ascending.
    Traits(Vec<String>),
    /// Traits of `root_required`, ascending.
    RootTraits(Vec<String>),
}

/// A search under way: an iterator of candidates over one world.
#[derive(Debug)]
pub struct Search {
    world: Arc<World>,
}

/// One way to satisfy the whole request. Borrowed from the search until the next one is asked for.
#[derive(Debug)]
pub struct Candidate<'s> {
    /// What would be allocated where; a provider appears once, its classes ascending.
    pub allocations: &'s [(Provider<'s>, Vec<(ClassId, i64)>)],
    /// Which providers serve each group, in the order of the request's groups.
    pub mappings: &'s [(&'s str, Vec<Provider<'s>>)],
}

/// Starts a search. Names are resolved in the order in which the reference resolves them, so that
/// an unknown name is told exactly when it is told there.
///
/// # Errors
/// An unknown class or trait.
pub fn find(world: Arc<World>, request: &Request) -> Result<Search, Unknown> {
    let _ = (&world, request);
    todo!()
}

impl Search {
    /// The next distinct candidate, until the request's bounds are reached.
    pub fn next_candidate(&mut self) -> Option<Candidate<'_>> {
        let _ = &self.world;
        todo!()
    }

    /// Providers that belong into the summaries of the candidates given so far.
    pub fn summarised(&self) -> impl Iterator<Item = Provider<'_>> {
        std::iter::empty()
    }
}
