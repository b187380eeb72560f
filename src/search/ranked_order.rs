//! Anchors by their score. The best anchors that may have candidates are selected, as many as may be needed, and
//! checked exactly on their turn. If they are not enough, the next best are selected, more each time.
//!
//! A sample of blocks estimates the score of the best, so that only a few anchors of each block need be examined.

#![expect(clippy::indexing_slicing, reason = "positions in a block are below its length")]

use std::cmp::Reverse;

use super::anchors::{Anchor, AnchorGroup, Anchors};
use super::part::{Masks, Precision, pop};
use super::query::Query;
use super::score::{Scorer, Scores};
use super::steps::{ANCHOR_STEPS, Next, Steps};
use crate::world::World;
use crate::world::set::{BLOCK, Words};

/// The cost of scoring a block by one column, in steps.
const SCORE_STEPS: usize = 4;
/// The cost of examining one provider of a tree, in steps.
const MEMBER_STEPS: usize = 2;
/// Growth factor of the number selected in each further round.
const GROWTH: usize = 8;
/// Number of sampled blocks.
const SAMPLED: u32 = 32;
/// Minimum number of anchors for a meaningful sample.
const SAMPLE_MIN: usize = 500;

/// Sorts the best first.
type RankKey = (Reverse<i64>, u32);

/// The anchors that are not yet visited.
#[derive(Debug)]
pub(super) struct RankedOrder {
    masks: Masks,
    anchors: Anchors,
    stage: Stage,
    /// Number of anchors to select in this round.
    most: usize,
    /// Minimum score of an anchor that is examined in this round.
    least: f64,
    /// Whether there are more, or may be.
    has_more: bool,
    /// The last of those selected before.
    last: Option<RankKey>,
    /// The best of those dropped because enough are better.
    worst: Option<RankKey>,
    /// Those selected: in no order at first, and then ascending, the best at the end.
    chosen: Vec<(RankKey, Anchor)>,
    /// The anchors that are not trees. They come last.
    shared: Vec<Anchor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sample,
    /// The best are being selected, for the first time or again.
    Choose {
        is_first: bool,
    },
    /// The selected ones are returned.
    Give,
}

impl RankedOrder {
    /// `bound`: the maximum number of candidates, if there is one.
    pub(super) fn new(bound: Option<usize>) -> Self {
        // A few will not fit.
        let most = bound.map_or(usize::MAX, |it| it.saturating_add(it / 8).saturating_add(16));
        Self {
            masks: Masks::new(Precision::Approximate),
            anchors: Anchors::default(),
            stage: Stage::Sample,
            most,
            least: f64::NEG_INFINITY,
            has_more: false,
            last: None,
            worst: None,
            chosen: Vec::new(),
            shared: Vec::new(),
        }
    }

    /// The best anchor that was not returned before.
    pub(super) fn next(
        &mut self,
        scorer: &Scorer,
        world: &World,
        query: &Query,
        steps: &mut Steps,
    ) -> Next<Anchor> {
        loop {
            match self.stage {
                Stage::Sample => {
                    self.sample(scorer, world, query, steps);
                    self.anchors = Anchors::default();
                    self.stage = Stage::Choose { is_first: true };
                }
                Stage::Choose { is_first } => {
                    if !self.choose_all(scorer, world, query, steps, is_first) {
                        return Next::Paused;
                    }
                    self.stage = Stage::Give;
                }
                Stage::Give => {
                    if !steps.take(ANCHOR_STEPS) {
                        return Next::Paused;
                    }
                    match self.chosen.pop() {
                        Some((_, Anchor::Solo(slot))) if !query.fits_alone(slot) => {}
                        Some((_, anchor)) => return Next::Found(anchor),
                        None if self.has_more => {
                            self.has_more = false;
                            self.least = f64::NEG_INFINITY;
                            self.most = self.most.saturating_mul(GROWTH);
                            self.anchors = Anchors::default();
                            self.stage = Stage::Choose { is_first: false };
                        }
                        None => return self.shared.pop().map_or(Next::Exhausted, Next::Found),
                    }
                }
            }
        }
    }

    /// Estimates the score of the best.
    fn sample(&mut self, scorer: &Scorer, world: &World, query: &Query, steps: &mut Steps) {
        let blocks = world.end().div_ceil(BLOCK);
        if blocks < 2 * SAMPLED || self.most == usize::MAX {
            return;
        }
        let mut found = Vec::new();
        let sampled = self.anchors.sample(world, query, &mut self.masks, SAMPLED);
        let (parts, count) = (blocks as usize, sampled.len());
        for mut sample in sampled {
            steps.take(SCORE_STEPS * (1 + scorer.len() + query.parts.len()));
            if sample.solo != [0; 4] {
                let each = scorer.of_block(sample.block);
                found.extend(
                    std::iter::from_fn(|| pop(&mut sample.solo, sample.block))
                        .map(|slot| each[(slot % BLOCK) as usize]),
                );
            }
        }
        // A few more than needed, because this is an estimate.
        let rank = self.most.saturating_add(self.most / 4).saturating_mul(count) / parts;
        if found.len() >= SAMPLE_MIN && rank < found.len() / 2 {
            let (_, least, _) =
                found.select_nth_unstable_by(rank, |one, other| other.total_cmp(one));
            self.least = *least;
            self.has_more = true;
        }
    }

    /// Selects the best. Returns whether it is done; if not, call it again.
    fn choose_all(
        &mut self,
        scorer: &Scorer,
        world: &World,
        query: &Query,
        steps: &mut Steps,
        is_first: bool,
    ) -> bool {
        let mut each: Scores = [0.0; BLOCK as usize];
        loop {
            let bounds = self.bounds();
            let among = |block: u32, slots: Words| {
                each = scorer.of_block(block);
                worth(slots, &each, bounds)
            };
            let next = self.anchors.next_among(world, query, &mut self.masks, steps, among);
            match next {
                Next::Found(AnchorGroup::Block(mut found)) => {
                    steps.take(SCORE_STEPS * (1 + scorer.len()));
                    while let Some(slot) = pop(&mut found.solo, found.block) {
                        self.choose(each[(slot % BLOCK) as usize], Anchor::Solo(slot), slot);
                    }
                    while let Some(root) = pop(&mut found.trees, found.block) {
                        self.choose_tree(root, scorer, world, steps);
                    }
                }
                Next::Found(AnchorGroup::One(Anchor::Tree(root))) => {
                    self.choose_tree(root, scorer, world, steps);
                }
                Next::Found(AnchorGroup::One(anchor)) if is_first => self.shared.push(anchor),
                Next::Found(AnchorGroup::One(_)) => {}
                Next::Paused => return false,
                Next::Exhausted => break,
            }
        }
        self.leave_worst();
        self.worst = None;
        self.chosen.sort_unstable_by_key(|(key, _)| Reverse(*key));
        self.last = self.chosen.first().map(|(key, _)| *key).or(self.last);
        if is_first {
            // They are returned in the order in which they were found.
            self.shared.reverse();
        }
        true
    }

    /// The minimum score of an anchor that is examined, and whether it must be exceeded.
    fn bounds(&self) -> (f64, bool) {
        match self.worst {
            // Blocks come in order of their slots, of which the first is the best if scores are equal.
            #[expect(clippy::cast_precision_loss, reason = "it was a float")]
            Some((Reverse(worst), _)) => (worst as f64, true),
            None => (self.least, false),
        }
    }

    fn choose_tree(&mut self, root: u32, scorer: &Scorer, world: &World, steps: &mut Steps) {
        let members = world.place(root).len as usize;
        steps.take(MEMBER_STEPS * members * (1 + scorer.len()));
        self.choose(scorer.of_tree(world, root), Anchor::Tree(root), root);
    }

    /// Keeps an anchor if it is worse than those returned before, and among the best of the others.
    fn choose(&mut self, score: f64, anchor: Anchor, slot: u32) {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number far below 2^53")]
        let key = (Reverse(score as i64), slot);
        let is_given = self.last.is_some_and(|last| key <= last);
        let is_left_out = self.worst.is_some_and(|worst| key >= worst) || score < self.least;
        if is_given || is_left_out {
            return;
        }
        self.chosen.push((key, anchor));
        if self.chosen.len() >= self.most.saturating_mul(2) {
            self.leave_worst();
        }
    }

    /// Drops the worst beyond the number to select.
    fn leave_worst(&mut self) {
        if self.chosen.len() > self.most {
            let (_, (worst, _), _) =
                self.chosen.select_nth_unstable_by_key(self.most, |(key, _)| *key);
            self.worst = Some(*worst);
            self.chosen.truncate(self.most);
            self.has_more = true;
        }
    }
}

/// The slots of a block whose scores are high enough.
fn worth(slots: Words, each: &Scores, (least, exceeds): (f64, bool)) -> Words {
    if least == f64::NEG_INFINITY {
        return slots;
    }
    // In two loops, so that each compares several scores at once.
    let (words, _) = each.as_chunks::<64>();
    std::array::from_fn(|nth| {
        let bits = |passes: fn(f64, f64) -> bool| {
            let scores = words[nth].iter().enumerate();
            scores.fold(0, |bits, (at, score)| bits | u64::from(passes(*score, least)) << at)
        };
        slots[nth]
            & if exceeds {
                bits(|score, least| score > least)
            } else {
                bits(|score, least| score >= least)
            }
    })
}
