//! Drawing places at random: all that may be candidates are collected as words of bits first, and
//! looked at closely when drawn.

#![expect(clippy::indexing_slicing, reason = "counts are kept for each batch of lots")]

use super::anchors::{Ahead, Anchors, Lot, Place};
use super::engine::{Next, PLACE_STEPS, Steps};
use super::part::{Look, Masks};
use super::plan::Plan;
use super::random::Random;
use crate::world::World;

/// Lots that are counted together.
const BATCH: usize = 64;

/// What is still to be drawn.
#[derive(Debug)]
pub(super) struct Hat {
    random: Random,
    masks: Masks,
    complete: bool,
    places: Vec<Place>,
    lots: Vec<Lot>,
    /// Places left in each batch of lots.
    left: Vec<usize>,
}

impl Hat {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            masks: Masks::new(Look::Quick),
            complete: false,
            places: Vec::new(),
            lots: Vec::new(),
            left: Vec::new(),
        }
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Draws a place, each with the same chance.
    pub(super) fn draw(
        &mut self,
        anchors: &mut Anchors,
        world: &World,
        plan: &Plan,
        steps: &mut Steps,
    ) -> Next {
        while !self.complete {
            match anchors.next(world, plan, &mut self.masks, steps) {
                Ahead::Place(place) => self.places.push(place),
                Ahead::Lot(lot) => self.put(lot),
                Ahead::Paused => return Next::Paused,
                Ahead::End => self.complete = true,
            }
        }
        loop {
            let all = self.places.len() + self.left.iter().sum::<usize>();
            if all == 0 {
                return Next::End;
            }
            if !steps.take(PLACE_STEPS) {
                return Next::Paused;
            }
            let nth = self.random.below(all);
            match self.take(nth) {
                Some(Place::Solo(slot)) if !plan.fits_alone(slot) => {}
                Some(place) => return Next::Place(place),
                None => return Next::End,
            }
        }
    }

    fn put(&mut self, lot: Lot) {
        if lot.len() > 0 {
            if self.lots.len().is_multiple_of(BATCH) {
                self.left.push(0);
            }
            self.left[self.lots.len() / BATCH] += lot.len();
            self.lots.push(lot);
        }
    }

    fn take(&mut self, mut nth: usize) -> Option<Place> {
        if nth < self.places.len() {
            return Some(self.places.swap_remove(nth));
        }
        nth -= self.places.len();
        for (left, lots) in self.left.iter_mut().zip(self.lots.chunks_mut(BATCH)) {
            if nth >= *left {
                nth -= *left;
                continue;
            }
            *left -= 1;
            for lot in lots {
                let len = lot.len();
                if nth < len {
                    return lot.take(nth);
                }
                nth -= len;
            }
        }
        None
    }
}
