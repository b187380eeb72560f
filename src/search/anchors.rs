//! Anchors: places of candidates. They are found block by block (256 slots) with word operations, as far as needed.
//!
//! A tree is an anchor if every part that no sharing provider can supply has an option in the tree, and at least
//! one part has. A provider that is alone in its tree, and uses nothing that is shared, is a solo anchor: word
//! operations alone decide whether it is a candidate.

use super::part::{Amount, Masks, Part, Precision, and, and_not, or, pop, range};
use super::query::Query;
use super::steps::{BLOCK_STEPS, Next, Steps};
use crate::world::World;
use crate::world::set::{BLOCK, Words};
use crate::world::sharing::SignatureId;

/// A place of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// A provider that is alone in its tree, and is exactly one candidate.
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

/// Anchors that are found together.
pub(super) enum AnchorGroup {
    One(Anchor),
    Block(AnchorBlock),
}

/// An iterator over all anchors.
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
    /// This tree alone.
    Only(u32),
    /// Blocks, from the block of this slot on.
    Blocks(u32),
    /// Trees larger than a block, from this slot on.
    Large(u32),
    End,
}

impl AnchorBlock {
    /// The number of anchors.
    pub(super) fn len(&self) -> usize {
        let words = self.trees.iter().chain(&self.solo);
        words.map(|word| word.count_ones() as usize).sum()
    }

    /// Removes the nth anchor.
    pub(super) fn take(&mut self, nth: usize) -> Option<Anchor> {
        let mut rest = *self;
        let anchor = std::iter::from_fn(|| rest.pop()).nth(nth)?;
        let (words, slot) = match anchor {
            Anchor::Tree(slot) => (&mut self.trees, slot),
            Anchor::Solo(slot) => (&mut self.solo, slot),
            Anchor::Shared(_) => return None,
        };
        *words = and_not(*words, range(self.block, slot, slot + 1));
        Some(anchor)
    }

    /// Removes the first anchor.
    pub(super) fn pop(&mut self) -> Option<Anchor> {
        let tree = pop(&mut self.trees, self.block).map(Anchor::Tree);
        tree.or_else(|| pop(&mut self.solo, self.block).map(Anchor::Solo))
    }
}

impl Anchors {
    /// The next anchor or block. If `masks` compare capacity approximately ([`Precision::Approximate`]), some solo anchors do
    /// not fit.
    pub(super) fn next(
        &mut self,
        world: &World,
        query: &Query,
        masks: &mut Masks,
        steps: &mut Steps,
    ) -> Next<AnchorGroup> {
        self.next_among(world, query, masks, steps, |_, slots| slots)
    }

    /// The same, but with only those solo anchors of each block that `among` keeps.
    pub(super) fn next_among(
        &mut self,
        world: &World,
        query: &Query,
        masks: &mut Masks,
        steps: &mut Steps,
        mut among: impl FnMut(u32, Words) -> Words,
    ) -> Next<AnchorGroup> {
        loop {
            match self.stage {
                Stage::Start => self.start(world, query),
                Stage::Signatures => match self.signatures.pop() {
                    Some(signature) => {
                        return Next::Found(AnchorGroup::One(Anchor::Shared(signature)));
                    }
                    None => self.stage = self.first_of_trees(query),
                },
                Stage::Only(root) => {
                    self.stage = Stage::End;
                    if query.anchor.admits(root) {
                        return Next::Found(AnchorGroup::One(Anchor::Tree(root)));
                    }
                }
                Stage::Blocks(from) => match world.roots().next(from) {
                    Some(_) if !steps.take(BLOCK_STEPS * (1 + query.parts.len())) => {
                        return Next::Paused;
                    }
                    Some(root) => {
                        let block = root / BLOCK;
                        self.stage = Stage::Blocks((block + 1) * BLOCK);
                        let block = self.block(world, query, masks, block, &mut among);
                        return Next::Found(AnchorGroup::Block(block));
                    }
                    None => self.stage = Stage::Large(0),
                },
                Stage::Large(from) => match world.large().next(from) {
                    Some(root) => {
                        self.stage = Stage::Large(root + 1);
                        if query.anchor.admits(root) {
                            return Next::Found(AnchorGroup::One(Anchor::Tree(root)));
                        }
                    }
                    None => self.stage = Stage::End,
                },
                Stage::End => return Next::Exhausted,
            }
        }
    }

    fn start(&mut self, world: &World, query: &Query) {
        if query.hopeless {
            self.stage = Stage::End;
            return;
        }
        let sharable = |part: &Part| query.sharing.iter().any(|slot| part.may_share(world, slot));
        self.sharable = query.parts.iter().map(sharable).collect();
        if self.sharable.iter().all(|&sharable| sharable) {
            self.signatures = world.signatures().map(|(id, _)| id).collect();
            self.signatures.sort_unstable_by(|left, right| right.cmp(left));
        }
        self.stage = Stage::Signatures;
    }

    /// A part that is restricted to a tree, and that no sharing provider can supply, restricts the
    /// search to this tree.
    fn first_of_trees(&self, query: &Query) -> Stage {
        let mut parts = query.parts.iter().zip(&self.sharable);
        let only = parts.find_map(|(part, sharable)| part.tree.filter(|_| !sharable));
        only.map_or(Stage::Blocks(0), |(root, _)| Stage::Only(root))
    }

    /// Returns about `count` blocks with their anchors, spread over the world, as a sample.
    pub(super) fn sample(
        &mut self,
        world: &World,
        query: &Query,
        masks: &mut Masks,
        count: u32,
    ) -> Vec<AnchorBlock> {
        self.start(world, query);
        let blocks = world.end().div_ceil(BLOCK);
        let step = (blocks / count).max(1) as usize;
        let sampled = (0..blocks).step_by(step);
        sampled.map(|block| self.block(world, query, masks, block, &mut |_, slots| slots)).collect()
    }

    fn block(
        &self,
        world: &World,
        query: &Query,
        masks: &mut Masks,
        block: u32,
        among: &mut impl FnMut(u32, Words) -> Words,
    ) -> AnchorBlock {
        let roots = query.anchor.words(block, world.roots().words(block));
        let lone = and(roots, world.lone().words(block));
        let mut apart = and_not(lone, query.sharing.words(block));
        if self.sharable.contains(&true) {
            apart = and_not(apart, world.anchored().words(block));
        }
        let mut found = AnchorBlock { block, ..AnchorBlock::default() };
        if !query.keeps_apart() && apart != [0; 4] {
            found.solo = solo(query, block, among(block, apart), masks.precision());
        }
        let mut rest = and_not(and_not(roots, apart), world.large().words(block));
        if rest != [0; 4] {
            let own = masks.of(&query.parts, block);
            // First all trees of one provider, then the others one by one.
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

    /// Returns whether the tree has an option for each part that no sharing provider can supply, and for one part
    /// at least.
    fn may_serve(&self, own: &[Words], tree: Words) -> bool {
        let has = |words: &Words| and(*words, tree) != [0; 4];
        let mut parts = own.iter().zip(&self.sharable);
        parts.all(|(words, &sharable)| sharable || has(words)) && own.iter().any(has)
    }
}

/// The providers, among the given ones that are alone in their trees, that are candidates.
pub(super) fn solo(query: &Query, block: u32, mut words: Words, precision: Precision) -> Words {
    for clause in &query.together {
        let reached = clause.iter().fold([0; 4], |words, set| or(words, set.words(block)));
        words = and(words, reached);
    }
    for part in &query.parts {
        words = part.spanning.words(block, words);
        words = part.anchor.words(block, words);
        words = part.words(block, words, precision);
    }
    for Amount { units, column, .. } in &query.contended {
        words = match precision {
            Precision::Exact => column.fitting_sum(block, words, *units),
            Precision::Approximate => column.reaching(block, words, *units),
        };
    }
    words
}
