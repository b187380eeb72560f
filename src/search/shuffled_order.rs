//! Drawing anchors at random: all that may be candidates are collected as words of bits first, and
//! looked at closely when drawn.

#![expect(clippy::indexing_slicing, reason = "counts are kept for each batch of blocks")]

use super::anchors::{Anchor, AnchorBlock, Anchors, NextAnchor, NextAnchors};
use super::part::{Look, Masks};
use super::plan::Plan;
use super::random::Random;
use super::steps::{ANCHOR_STEPS, Steps};
use crate::world::World;

/// Lots that are counted together.
const BATCH: usize = 64;

/// What is still to be drawn.
#[derive(Debug)]
pub(super) struct ShuffledOrder {
    random: Random,
    masks: Masks,
    complete: bool,
    anchors: Vec<Anchor>,
    blocks: Vec<AnchorBlock>,
    /// Anchors left in each batch of blocks.
    left: Vec<usize>,
}

impl ShuffledOrder {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            masks: Masks::new(Look::Quick),
            complete: false,
            anchors: Vec::new(),
            blocks: Vec::new(),
            left: Vec::new(),
        }
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Draws an anchor, each with the same chance.
    pub(super) fn draw(
        &mut self,
        anchors: &mut Anchors,
        world: &World,
        plan: &Plan,
        steps: &mut Steps,
    ) -> NextAnchor {
        while !self.complete {
            match anchors.next(world, plan, &mut self.masks, steps) {
                NextAnchors::One(place) => self.anchors.push(place),
                NextAnchors::Block(block) => self.put(block),
                NextAnchors::Paused => return NextAnchor::Paused,
                NextAnchors::End => self.complete = true,
            }
        }
        loop {
            let all = self.anchors.len() + self.left.iter().sum::<usize>();
            if all == 0 {
                return NextAnchor::End;
            }
            if !steps.take(ANCHOR_STEPS) {
                return NextAnchor::Paused;
            }
            let nth = self.random.below(all);
            match self.take(nth) {
                Some(Anchor::Solo(slot)) if !plan.fits_alone(slot) => {}
                Some(place) => return NextAnchor::Anchor(place),
                None => return NextAnchor::End,
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
