//! Decides whether one tree has a candidate: an exact search in this tree alone, with a limited amount of work.

use super::combine::{Combination, Pruner, Sources};
use super::steps::{Progress, Steps};
use crate::search::query::QueryInWorld;

/// Maximum work for one tree, in pauses of about a millisecond.
const PAUSES_MAX: usize = 20;

/// The search. It keeps its memory from one tree to the next.
#[derive(Debug, Default)]
pub(super) struct Feasibility {
    combination: Combination,
    pruner: Pruner,
    work: u64,
}

impl Feasibility {
    /// Returns the work since the last call, in steps.
    pub(super) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    /// Returns whether the tree with this root, together with its sharing providers, has a candidate; `None` if the
    /// limit on the work for one tree was reached.
    pub(super) fn of_tree(&mut self, root: u32, sources: &mut Sources<'_>) -> Option<bool> {
        let Self { combination, pruner, work } = self;
        let mut steps = Steps::new();
        let may_have = combination.open(root, sources, pruner, &mut steps);
        *work += steps.taken();
        let Sources { world, query, .. } = *sources;
        let context = QueryInWorld { world, query };
        let found = if may_have { self.first(context) } else { Some(false) };
        if found != Some(false) {
            return found;
        }
        // The sharing providers may suffice alone.
        let Some(signature) = world.signature_of(root) else { return Some(false) };
        let admits_root = query.parts.iter().all(|part| part.anchor.admits(root));
        let options = sources.shared.open(world, query, signature).filter(|_| admits_root);
        match options {
            Some(options) if self.combination.open_shared(&options, sources) => self.first(context),
            Some(_) | None => Some(false),
        }
    }

    /// For each part, the slots of its options in the tree that may be part of a candidate without sharing
    /// providers; `None` if there is no candidate.
    pub(super) fn viable(&mut self, root: u32, sources: &mut Sources<'_>) -> Option<Vec<Vec<u32>>> {
        let Self { combination, pruner, work } = self;
        let mut steps = Steps::new();
        let may_have = combination.open(root, sources, pruner, &mut steps);
        let Sources { world, query, .. } = *sources;
        let viable =
            may_have.then(|| combination.viable(QueryInWorld { world, query }, pruner, &mut steps));
        *work += steps.taken();
        viable.flatten()
    }

    /// Returns whether there is a combination.
    fn first(&mut self, context: QueryInWorld<'_>) -> Option<bool> {
        let Self { combination, pruner, work } = self;
        for _ in 0..PAUSES_MAX {
            let mut steps = Steps::new();
            let progress = combination.advance(context, pruner, &mut steps);
            *work += steps.taken();
            match progress {
                Progress::Found(()) => return Some(true),
                Progress::Exhausted => return Some(false),
                Progress::Paused => {}
            }
        }
        None
    }
}
