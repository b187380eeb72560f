//! Whether one tree has a candidate for a request: an exact search in this tree alone.

use super::super::combine::{Combination, Sources};
use super::super::engine;
use super::super::part::Masks;
use super::super::query::Query;
use super::super::request::Request;
use super::super::shared::Shared;
use super::super::steps::{Progress, Steps};
use crate::world::World;

/// The maximum work for one tree, in pauses of about a millisecond.
const PAUSES_MAX: usize = 20;

/// The search. It keeps its memory from one tree to the next.
#[derive(Debug)]
pub(super) struct TreeSearch {
    /// `None` if the request names something that does not exist.
    query: Option<Query>,
    /// Whether the request asks for providers at all.
    asks_for_providers: bool,
    combination: Combination,
    masks: Masks,
    shared: Shared,
    /// The work done since it was last read.
    pub(super) work: u64,
}

impl TreeSearch {
    pub(super) fn new(world: &World, request: &Request) -> Self {
        Self {
            query: engine::resolve(world, request).ok(),
            asks_for_providers: !request.groups.is_empty(),
            combination: Combination::default(),
            masks: Masks::default(),
            shared: Shared::default(),
            work: 0,
        }
    }

    /// Whether the tree with this root, together with what is shared with it, has a candidate; `None`
    /// if this is not decided within the work for one tree.
    pub(super) fn has_candidate(&mut self, world: &World, root: u32) -> Option<bool> {
        let Self { query, asks_for_providers, combination, masks, shared, work } = self;
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
        let mut steps = Steps::new();
        let mut sources = Sources { world, query, masks, shared, random: None };
        let may_have = combination.open(root, &mut sources, &mut steps);
        *work += steps.taken();
        let found = if may_have { first(combination, (world, query), work) } else { Some(false) };
        if found != Some(false) {
            return found;
        }
        // What is shared with the tree may do alone.
        let Some(signature) = world.signature_of(root) else { return Some(false) };
        let admits_root = query.parts.iter().all(|part| part.anchor.admits(root));
        let options = sources.shared.open(world, query, signature).filter(|_| admits_root);
        match options {
            Some(options) if combination.open_shared(&options, &mut sources) => {
                first(combination, (world, query), work)
            }
            Some(_) | None => Some(false),
        }
    }
}

/// Whether there is a combination.
fn first(
    combination: &mut Combination,
    (world, query): (&World, &Query),
    work: &mut u64,
) -> Option<bool> {
    for _ in 0..PAUSES_MAX {
        let mut steps = Steps::new();
        let progress = combination.advance(world, query, &mut steps);
        *work += steps.taken();
        match progress {
            Progress::Found(()) => return Some(true),
            Progress::Exhausted => return Some(false),
            Progress::Paused => {}
        }
    }
    None
}
