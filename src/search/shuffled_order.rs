//! Anchors in random order: all that may have candidates are collected first, a few bits each, and checked exactly
//! when they are drawn.

#![expect(clippy::indexing_slicing, reason = "counts are kept for each batch of blocks")]

use super::anchors::{Anchor, AnchorBlock, AnchorGroup, Anchors};
use super::part::{Masks, Precision};
use super::query::Query;
use super::random::Random;
use super::steps::{ANCHOR_STEPS, Next, Steps};
use crate::world::World;

/// Number of blocks that are counted together.
const BATCH: usize = 64;

/// The anchors that are not yet drawn.
#[derive(Debug)]
pub(super) struct ShuffledOrder {
    random: Random,
    masks: Masks,
    complete: bool,
    anchors: Vec<Anchor>,
    blocks: Vec<AnchorBlock>,
    /// Number of anchors left in each batch of blocks.
    left: Vec<usize>,
}

impl ShuffledOrder {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            masks: Masks::new(Precision::Approximate),
            complete: false,
            anchors: Vec::new(),
            blocks: Vec::new(),
            left: Vec::new(),
        }
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Draws an anchor; all are equally likely.
    pub(super) fn draw(
        &mut self,
        anchors: &mut Anchors,
        world: &World,
        query: &Query,
        steps: &mut Steps,
    ) -> Next<Anchor> {
        while !self.complete {
            match anchors.next(world, query, &mut self.masks, steps) {
                Next::Found(AnchorGroup::One(anchor)) => self.anchors.push(anchor),
                Next::Found(AnchorGroup::Block(block)) => self.put(block),
                Next::Paused => return Next::Paused,
                Next::Exhausted => self.complete = true,
            }
        }
        loop {
            let all = self.anchors.len() + self.left.iter().sum::<usize>();
            if all == 0 {
                return Next::Exhausted;
            }
            if !steps.take(ANCHOR_STEPS) {
                return Next::Paused;
            }
            let nth = self.random.below(all);
            match self.take(nth) {
                Some(Anchor::Solo(slot)) if !query.fits_alone(slot) => {}
                Some(anchor) => return Next::Found(anchor),
                None => return Next::Exhausted,
            }
        }
    }

    fn put(&mut self, block: AnchorBlock) {
        if block.len() > 0 {
            if self.blocks.len().is_multiple_of(BATCH) {
                self.left.push(0);
            }
            self.left[self.blocks.len() / BATCH] += block.len();
            self.blocks.push(block);
        }
    }

    fn take(&mut self, mut nth: usize) -> Option<Anchor> {
        if nth < self.anchors.len() {
            return Some(self.anchors.swap_remove(nth));
        }
        nth -= self.anchors.len();
        for (left, blocks) in self.left.iter_mut().zip(self.blocks.chunks_mut(BATCH)) {
            if nth >= *left {
                nth -= *left;
                continue;
            }
            *left -= 1;
            for block in blocks {
                let len = block.len();
                if nth < len {
                    return block.take(nth);
                }
                nth -= len;
            }
        }
        None
    }
}
