//! Which trees come into question, found block by block with word operations and no further than
//! needed.

#![expect(clippy::indexing_slicing, reason = "positions are those of the plan's parts")]

use super::engine::{BLOCK_STEPS, Steps};
use super::part::{Amount, Masks, and, and_not, or, pop, range};
use super::plan::Plan;
use crate::world::World;
use crate::world::set::{BLOCK, Words};
use crate::world::sharing::SignatureId;

/// Where candidates may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This provider alone, a tree by itself: exactly one candidate.
    Solo(u32),
    /// The tree with this root.
    Tree(u32),
    /// The sharing providers with this signature.
    Shared(SignatureId),
}

/// The outcome of looking for the next one.
pub(super) enum Next {
    Place(Place),
    Paused,
    End,
}

/// A walk over all of them.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    stage: Stage,
    /// For each part, whether any sharing provider may supply it.
    sharable: Vec<bool>,
    signatures: Vec<SignatureId>,
    /// The block at hand, and what is left of it.
    block: u32,
    /// First slot of the block after that.
    ahead: u32,
    solo: Words,
    trees: Words,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Start,
    Signatures,
    /// There is only this tree.
    Only(u32),
    Blocks,
    /// Trees larger than a block, from this slot on.
    Large(u32),
    End,
}

impl Anchors {
    /// The next place.
    pub(super) fn next(
        &mut self,
        world: &World,
        plan: &Plan,
        masks: &mut Masks,
        steps: &mut Steps,
    ) -> Next {
        loop {
            match self.stage {
                Stage::Start => self.start(world, plan),
                Stage::Signatures => match self.signatures.pop() {
                    Some(signature) => return Next::Place(Place::Shared(signature)),
                    None => self.stage = self.first_of_trees(plan),
                },
                Stage::Only(root) => {
                    self.stage = Stage::End;
                    if plan.anchor.admits(root) {
                        return Next::Place(Place::Tree(root));
                    }
                }
                Stage::Blocks => {
                    if let Some(slot) = pop(&mut self.trees, self.block) {
                        if self.comes_into_question(world, plan, masks, slot) {
                            return Next::Place(Place::Tree(slot));
                        }
                    } else if let Some(slot) = pop(&mut self.solo, self.block) {
                        return Next::Place(Place::Solo(slot));
                    } else if !steps.take(BLOCK_STEPS * (1 + plan.parts.len())) {
                        return Next::Paused;
                    } else {
                        self.next_block(world, plan, masks);
                    }
                }
                Stage::Large(from) => match world.large().next(from) {
                    Some(root) => {
                        self.stage = Stage::Large(root + 1);
                        if plan.anchor.admits(root) {
                            return Next::Place(Place::Tree(root));
                        }
                    }
                    None => self.stage = Stage::End,
                },
                Stage::End => return Next::End,
            }
        }
    }

    fn start(&mut self, world: &World, plan: &Plan) {
        if plan.hopeless {
            self.stage = Stage::End;
            return;
        }
        let sharable =
            |part: &super::part::Part| plan.sharing.iter().any(|slot| part.may_share(world, slot));
        self.sharable = plan.parts.iter().map(sharable).collect();
        if self.sharable.iter().all(|&sharable| sharable) {
            self.signatures = world.signatures().map(|(id, _)| id).collect();
            self.signatures.sort_unstable_by(|left, right| right.cmp(left));
        }
        self.stage = Stage::Signatures;
    }

    /// A part that is confined to a tree and that nobody shares confines the whole search.
    fn first_of_trees(&self, plan: &Plan) -> Stage {
        let mut parts = plan.parts.iter().zip(&self.sharable);
        let only = parts.find_map(|(part, sharable)| part.tree.filter(|_| !sharable));
        only.map_or(Stage::Blocks, |(root, _)| Stage::Only(root))
    }

    fn next_block(&mut self, world: &World, plan: &Plan, masks: &mut Masks) {
        let Some(root) = world.roots().next(self.ahead) else {
            self.stage = Stage::Large(0);
            return;
        };
        let block = root / BLOCK;
        (self.block, self.ahead) = (block, (block + 1) * BLOCK);
        let roots = plan.anchor.words(block, world.roots().words(block));
        let lone = and(roots, world.lone().words(block));
        let mut apart = and_not(lone, plan.sharing.words(block));
        if self.sharable.contains(&true) {
            apart = and_not(apart, world.anchored().words(block));
        }
        self.solo = if plan.keeps_apart() { [0; 4] } else { solo(plan, block, apart) };
        self.trees = and_not(and_not(roots, apart), world.large().words(block));
        if self.trees == [0; 4] {
            return;
        }
        // A tree of one needs what nobody shares from its only member.
        let own = masks.of(&plan.parts, block);
        let needed = own.iter().zip(&self.sharable).filter(|(_, sharable)| !**sharable);
        let all = needed.fold([!0; 4], |words, (own, _)| and(words, *own));
        let any = own.iter().fold([0; 4], |words, own| or(words, *own));
        self.trees = and_not(self.trees, and_not(lone, and(all, any)));
    }

    /// Whether each part nobody shares has somebody in the tree who may supply it.
    fn comes_into_question(
        &self,
        world: &World,
        plan: &Plan,
        masks: &mut Masks,
        root: u32,
    ) -> bool {
        let within = range(self.block, root, root + world.place(root).len);
        let own = masks.of(&plan.parts, self.block);
        let has = |part: usize| and(own[part], within) != [0; 4];
        (0..own.len()).all(|part| self.sharable[part] || has(part)) && (0..own.len()).any(has)
    }
}

/// Which of these providers, alone in their trees and with nothing shared, are candidates.
fn solo(plan: &Plan, block: u32, mut words: Words) -> Words {
    for clause in &plan.together {
        let reached = clause.iter().fold([0; 4], |words, set| or(words, set.words(block)));
        words = and(words, reached);
    }
    for part in &plan.parts {
        words = part.spanning.words(block, words);
        words = part.anchor.words(block, words);
        words = part.words(block, words);
    }
    for Amount { units, column, .. } in &plan.contended {
        words = column.fitting_sum(block, words, *units);
    }
    words
}
