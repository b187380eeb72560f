//! The options of a tree for each part of a request.

use super::super::capacity::Choice;
use super::super::combine::{Sources, add_options};
use super::super::feasibility::Feasibility;
use super::super::part::{Masks, Precision};
use super::super::query::Query;
use super::super::shared::Shared;
use super::super::steps::Steps;
use crate::world::World;
use crate::world::set::Set;

/// Collects options; keeps its buffers from one tree to the next.
#[derive(Debug)]
pub(super) struct Offers {
    masks: Masks,
    shared: Shared,
    feasibility: Feasibility,
    choices: Vec<Choice>,
    ends: Vec<usize>,
}

/// The options of a tree.
pub(super) struct Offer<'o> {
    /// The options, part by part, each with the clauses of required traits that it meets.
    pub(super) choices: &'o [Choice],
    /// The end of each part.
    pub(super) ends: &'o [usize],
}

impl Offers {
    /// Creates an empty collection.
    pub(super) fn new() -> Self {
        Self {
            masks: Masks::new(Precision::Exact),
            shared: Shared::default(),
            feasibility: Feasibility::default(),
            choices: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Finds the providers in a block that can supply each part. Must precede the collection of its trees.
    pub(super) fn look_at(&mut self, query: &Query, block: u32) {
        self.masks.of(&query.parts, block);
    }

    /// Returns whether a tree, with its sharing providers, has a candidate, and the work; `None` if the limit on
    /// the work for one tree was reached.
    pub(super) fn has_candidate(
        &mut self,
        world: &World,
        query: &Query,
        root: u32,
    ) -> (Option<bool>, usize) {
        let Self { masks, shared, feasibility, .. } = self;
        let mut sources = Sources { world, query, masks, shared, random: None };
        let found = feasibility.of_tree(root, &mut sources);
        (found, work_of(feasibility.take_work()))
    }

    /// Collects the options for each part in a tree, if each part has one; also returns the work.
    pub(super) fn collect(
        &mut self,
        world: &World,
        query: &Query,
        root: u32,
        lost: &Set,
    ) -> (Option<Offer<'_>>, usize) {
        self.choices.clear();
        self.ends.clear();
        let Self { masks, shared, choices, ends, .. } = self;
        let mut sources = Sources { world, query, masks, shared, random: None };
        let mut work = 8;
        for (position, part) in query.parts.iter().enumerate() {
            let mut steps = Steps::new();
            let from = choices.len();
            add_options(choices, position, root, &mut sources, &mut steps);
            work += 4 + (choices.len() - from) + work_of(steps.taken());
            if !lost.is_empty() {
                choices.retain(|choice| !lost.contains(world.place(choice.slot).root));
            }
            if from >= choices.len() {
                return (None, work);
            }
            if part.spread {
                for choice in choices.iter_mut().skip(from) {
                    for (nth, clause) in query.together.iter().take(64).enumerate() {
                        let meets = clause.iter().any(|set| set.contains(choice.slot));
                        choice.meets |= u64::from(meets) << nth;
                    }
                }
            }
            ends.push(choices.len());
        }
        (Some(Offer { choices, ends }), work)
    }
}

/// Converts steps to work, in numbers read.
fn work_of(steps: u64) -> usize {
    usize::try_from(steps).unwrap_or(usize::MAX)
}
