//! Which trees come into question, found block by block with word operations and no further than
//! needed.

use super::part::{Amount, Look, Masks, Part, and, and_not, or, pop, range};
use super::plan::Plan;
use super::steps::{BLOCK_STEPS, Steps};
use crate::world::World;
use crate::world::set::{BLOCK, Words};
use crate::world::sharing::SignatureId;

/// Where candidates may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// This provider alone, a tree by itself: exactly one candidate.
    Solo(u32),
    /// The tree with this root.
    Tree(u32),
    /// The sharing providers with this signature.
    Shared(SignatureId),
}

/// The anchors in a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnchorBlock {
    pub(super) block: u32,
    /// Slots of [`Anchor::Solo`].
    pub(super) solo: Words,
    /// Slots of [`Anchor::Tree`].
    pub(super) trees: Words,
}

/// The next anchor in the order of a search.
pub(super) enum NextAnchor {
    Anchor(Anchor),
    Paused,
    End,
}

/// The outcome of going on.
pub(super) enum NextAnchors {
    One(Anchor),
    Block(AnchorBlock),
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
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Start,
    Signatures,
    /// There is only this tree.
    Only(u32),
    /// Blocks, from the one with this slot on.
    Blocks(u32),
    /// Trees larger than a block, from this slot on.
    Large(u32),
    End,
}

impl AnchorBlock {
    /// How many anchors there are.
    pub(super) fn len(&self) -> usize {
        let words = self.trees.iter().chain(&self.solo);
        words.map(|word| word.count_ones() as usize).sum()
    }

    /// Takes an anchor out, by its number.
    pub(super) fn take(&mut self, nth: usize) -> Option<Anchor> {
        let mut rest = *self;
        let place = std::iter::from_fn(|| rest.pop()).nth(nth)?;
        let (words, slot) = match place {
            Anchor::Tree(slot) => (&mut self.trees, slot),
            Anchor::Solo(slot) => (&mut self.solo, slot),
            Anchor::Shared(_) => return None,
        };
        *words = and_not(*words, range(self.block, slot, slot + 1));
        Some(place)
    }

    /// Takes the first anchor out.
    pub(super) fn pop(&mut self) -> Option<Anchor> {
        let tree = pop(&mut self.trees, self.block).map(Anchor::Tree);
        tree.or_else(|| pop(&mut self.solo, self.block).map(Anchor::Solo))
    }
}

impl Anchors {
    /// The next anchor or block. If `masks` look quickly, so does this, and there may be solo anchors
    /// that do not fit.
    pub(super) fn next(
        &mut self,
        world: &World,
        plan: &Plan,
        masks: &mut Masks,
        steps: &mut Steps,
    ) -> NextAnchors {
        loop {
            match self.stage {
                Stage::Start => self.start(world, plan),
                Stage::Signatures => match self.signatures.pop() {
                    Some(signature) => return NextAnchors::One(Anchor::Shared(signature)),
                    None => self.stage = self.first_of_trees(plan),
                },
                Stage::Only(root) => {
                    self.stage = Stage::End;
                    if plan.anchor.admits(root) {
                        return NextAnchors::One(Anchor::Tree(root));
                    }
                }
                Stage::Blocks(from) => match world.roots().next(from) {
                    Some(_) if !steps.take(BLOCK_STEPS * (1 + plan.parts.len())) => {
                        return NextAnchors::Paused;
                    }
                    Some(root) => {
                        let block = root / BLOCK;
                        self.stage = Stage::Blocks((block + 1) * BLOCK);
                        return NextAnchors::Block(self.block(world, plan, masks, block));
                    }
                    None => self.stage = Stage::Large(0),
                },
                Stage::Large(from) => match world.large().next(from) {
                    Some(root) => {
                        self.stage = Stage::Large(root + 1);
                        if plan.anchor.admits(root) {
                            return NextAnchors::One(Anchor::Tree(root));
                        }
                    }
                    None => self.stage = Stage::End,
                },
                Stage::End => return NextAnchors::End,
            }
        }
    }

    fn start(&mut self, world: &World, plan: &Plan) {
        if plan.hopeless {
            self.stage = Stage::End;
            return;
        }
        let sharable = |part: &Part| plan.sharing.iter().any(|slot| part.may_share(world, slot));
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
        only.map_or(Stage::Blocks(0), |(root, _)| Stage::Only(root))
    }

    fn block(&self, world: &World, plan: &Plan, masks: &mut Masks, block: u32) -> AnchorBlock {
        let roots = plan.anchor.words(block, world.roots().words(block));
        let lone = and(roots, world.lone().words(block));
        let mut apart = and_not(lone, plan.sharing.words(block));
        if self.sharable.contains(&true) {
            apart = and_not(apart, world.anchored().words(block));
        }
        let mut found = AnchorBlock { block, ..AnchorBlock::default() };
        if !plan.keeps_apart() {
            found.solo = solo(plan, block, apart, masks.look());
        }
        let mut rest = and_not(and_not(roots, apart), world.large().words(block));
        if rest != [0; 4] {
            let own = masks.of(&plan.parts, block);
            // Trees of one at a time.
            let needed = own.iter().zip(&self.sharable).filter(|(_, sharable)| !**sharable);
            let all = needed.fold(lone, |words, (own, _)| and(words, *own));
            let any = own.iter().fold([0; 4], |words, own| or(words, *own));
            found.trees = and(rest, and(all, any));
            rest = and_not(rest, lone);
            while let Some(root) = pop(&mut rest, block) {
                let tree = range(block, root, root + world.place(root).len);
                if self.may_serve(own, tree) {
                    found.trees = or(found.trees, range(block, root, root + 1));
                }
            }
        }
        found
    }

    /// Whether each part nobody shares has somebody in the tree who may supply it.
    fn may_serve(&self, own: &[Words], tree: Words) -> bool {
        let has = |words: &Words| and(*words, tree) != [0; 4];
        let mut parts = own.iter().zip(&self.sharable);
        parts.all(|(words, &sharable)| sharable || has(words)) && own.iter().any(has)
    }
}

/// Which of these providers, alone in their trees and with nothing shared, are candidates.
fn solo(plan: &Plan, block: u32, mut words: Words, look: Look) -> Words {
    for clause in &plan.together {
        let reached = clause.iter().fold([0; 4], |words, set| or(words, set.words(block)));
        words = and(words, reached);
    }
    for part in &plan.parts {
        words = part.spanning.words(block, words);
        words = part.anchor.words(block, words);
        words = part.words(block, words, look);
    }
    for Amount { units, column, .. } in &plan.contended {
        words = match look {
            Look::Close => column.fitting_sum(block, words, *units),
            Look::Quick => column.reaching(block, words, *units),
        };
    }
    words
}
