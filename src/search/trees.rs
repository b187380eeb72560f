//! The trees that may supply a request, each with the options of every part. The options are not combined: the
//! caller decides whether one of each part can be chosen so that they are compatible. But where many combinations
//! are possible and parts depend on each other, a tree that is proven to have none is left out, and so are options
//! that are proven to be in none.

#![expect(clippy::indexing_slicing, reason = "parts are numbered densely")]

use std::ops::Range;
use std::sync::Arc;

use super::anchors::{Anchor, AnchorBlock, AnchorGroup, Anchors};
use super::capacity::Choice;
use super::combine::{Sources, add_options};
use super::engine;
use super::feasibility::Feasibility;
use super::part::Masks;
use super::query::Query;
use super::request::{Request, Unknown};
use super::shared::Shared;
use super::steps::{ANCHOR_STEPS, Next, Steps};
use crate::model::{ClassId, ProviderId};
use crate::world::set::Set;
use crate::world::{Provider, World};

/// Marks the numbers of providers outside the tree.
const FOREIGN: u32 = 1 << 31;

/// A tree with more combinations than this is checked.
const COMBINATIONS_FEW: usize = 64;

/// An iterator over the trees that may supply a request.
#[derive(Debug)]
pub struct Trees {
    world: Arc<World>,
    query: Query,
    anchors: Anchors,
    /// The rest of the current block.
    block: AnchorBlock,
    masks: Masks,
    shared: Shared,
    feasibility: Feasibility,
    /// The options of the current tree, part by part, and the end of each part.
    choices: Vec<Choice>,
    ends: Vec<usize>,
    steps: u64,
}

/// A tree with the options of each part of the request, borrowed until the next call.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'t> {
    trees: &'t Trees,
    root: u32,
    /// Whether its root is the only option of every part, and supplies all of them together.
    is_solo: bool,
}

/// A provider that can supply a part alone.
#[derive(Clone, Debug)]
pub struct TreeOption<'t> {
    /// The provider.
    pub provider: Provider<'t>,
    /// Its number: the position in the tree, parents first, or a larger one outside the tree.
    pub number: u32,
    /// The number of its last descendant, or its own.
    pub last: u32,
    /// Whether it is in the tree.
    pub is_inside: bool,
    /// Whether it is a sharing provider.
    pub is_shared: bool,
    /// For each clause of required traits of the unsuffixed group, whether it meets the clause.
    pub meets: Vec<bool>,
}

/// Starts a walk.
///
/// # Errors
/// The request names an unknown class or trait.
pub fn trees(world: Arc<World>, request: &Request) -> Result<Trees, Unknown> {
    let query = engine::resolve(&world, request)?;
    Ok(Trees {
        world,
        query,
        anchors: Anchors::default(),
        block: AnchorBlock::default(),
        masks: Masks::default(),
        shared: Shared::default(),
        feasibility: Feasibility::default(),
        choices: Vec::new(),
        ends: Vec::new(),
        steps: 0,
    })
}

impl Trees {
    /// The next tree in which each part has an option.
    pub fn next_tree(&mut self) -> Next<Tree<'_>> {
        let mut steps = Steps::new();
        let found = loop {
            if !steps.take(ANCHOR_STEPS) {
                break Next::Paused;
            }
            let next = match self.block.pop() {
                Some(anchor) => Next::Found(AnchorGroup::One(anchor)),
                None => self.anchors.next(&self.world, &self.query, &mut self.masks, &mut steps),
            };
            let anchor = match next {
                Next::Found(AnchorGroup::One(anchor)) => anchor,
                Next::Found(AnchorGroup::Block(block)) => {
                    self.block = block;
                    continue;
                }
                Next::Paused => break Next::Paused,
                Next::Exhausted => break Next::Exhausted,
            };
            match anchor {
                Anchor::Solo(root) => break Next::Found((root, true)),
                Anchor::Tree(root) if self.collect(root, &mut steps) && self.check(root) => {
                    break Next::Found((root, false));
                }
                Anchor::Tree(_) | Anchor::Shared(_) => {}
            }
        };
        self.steps += steps.taken() + self.feasibility.take_work();
        match found {
            Next::Found((root, is_solo)) => Next::Found(Tree { trees: self, root, is_solo }),
            Next::Paused => Next::Paused,
            Next::Exhausted => Next::Exhausted,
        }
    }

    /// The work done so far, in steps of a few nanoseconds: the same on every machine.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The number of parts of the request, each supplied by one provider.
    pub fn parts(&self) -> usize {
        self.query.parts.len()
    }

    /// The amounts of a part, by class.
    pub fn amounts(&self, part: usize) -> impl Iterator<Item = (ClassId, i64)> {
        self.query.parts[part].amounts.iter().map(|amount| (amount.class, amount.units))
    }

    /// The number of clauses of required traits, each of which is met by a provider of the
    /// unsuffixed group.
    pub fn clauses(&self) -> usize {
        self.query.together.len()
    }

    /// The parts whose providers must all be different.
    pub fn isolated(&self) -> Vec<usize> {
        let parts = self.query.parts.iter().enumerate();
        let suffixed = parts.filter(|(_, part)| self.query.isolate && !part.spread);
        suffixed.map(|(position, _)| position).collect()
    }

    /// Sets of parts: in each, one of the providers is an ancestor of all others.
    pub fn subtrees(&self) -> Vec<Vec<usize>> {
        let parts = |group: &usize| self.query.groups[*group].parts.clone();
        self.query.subtrees.iter().map(|set| set.iter().flat_map(parts).collect()).collect()
    }

    /// Collects the options of each part in a tree. Returns whether each part has one.
    fn collect(&mut self, root: u32, steps: &mut Steps) -> bool {
        self.choices.clear();
        self.ends.clear();
        let Self { world, query, masks, shared, choices, ends, .. } = self;
        let mut sources = Sources { world, query, masks, shared, random: None };
        for position in 0..query.parts.len() {
            let from = choices.len();
            add_options(choices, position, root, &mut sources, steps);
            if from == choices.len() {
                return false;
            }
            ends.push(choices.len());
        }
        true
    }
}

impl Trees {
    /// Drops options that are in no combination. Returns whether the tree may have one.
    fn check(&mut self, root: u32) -> bool {
        let mut from = 0;
        let counts = self.ends.iter().map(|end| end - std::mem::replace(&mut from, *end));
        let combinations = counts.fold(1_usize, usize::saturating_mul);
        if combinations <= COMBINATIONS_FEW || !self.query.is_coupled() {
            return true;
        }
        let Self { world, query, masks, shared, choices, ends, feasibility, .. } = self;
        let mut sources = Sources { world, query, masks, shared, random: None };
        if feasibility.of_tree(root, &mut sources) == Some(false) {
            return false;
        }
        if choices.iter().any(|choice| query.sharing.contains(choice.slot)) {
            // They may be in combinations of sharing providers alone.
            return true;
        }
        let Some(viable) = feasibility.viable(root, &mut sources) else { return false };
        let all = std::mem::take(choices);
        let mut from = 0;
        for (viable, end) in viable.iter().zip(ends) {
            let options = all[std::mem::replace(&mut from, *end)..*end].iter();
            choices.extend(options.filter(|choice| viable.contains(&choice.slot)));
            *end = choices.len();
        }
        true
    }
}

impl<'t> Tree<'t> {
    /// The root.
    pub fn root(&self) -> Option<Provider<'t>> {
        self.trees.world.at(self.root)
    }

    /// A provider of the world that is searched.
    pub fn provider(&self, id: ProviderId) -> Option<Provider<'t>> {
        self.trees.world.provider_by_id(id)
    }

    /// Returns whether the root is the only option of every part, and supplies all of them together.
    pub fn is_solo(&self) -> bool {
        self.is_solo
    }

    /// The options of a part, if the tree is not [solo](Self::is_solo).
    pub fn options(&self, part: usize) -> impl Iterator<Item = TreeOption<'t>> + use<'t> {
        let Trees { world, query, choices, .. } = self.trees;
        let tree = self.root..self.root + world.place(self.root).len;
        let is_spread = query.parts[part].spread;
        choices[self.range(part)].iter().filter_map(move |choice| {
            let meets =
                |clause: &Vec<Set>| is_spread && clause.iter().any(|set| set.contains(choice.slot));
            let is_inside = tree.contains(&choice.slot);
            let number = if is_inside { choice.slot - tree.start } else { FOREIGN | choice.slot };
            // Sharing providers can be below each other as well.
            let below = world.place(choice.slot).len - 1;
            Some(TreeOption {
                provider: world.at(choice.slot)?,
                number,
                last: number + below,
                is_inside,
                is_shared: query.sharing.contains(choice.slot),
                meets: query.together.iter().map(meets).collect(),
            })
        })
    }

    /// The positions of the options of a part.
    fn range(&self, part: usize) -> Range<usize> {
        let ends = &self.trees.ends;
        part.checked_sub(1).map_or(0, |before| ends[before])..ends[part]
    }
}
