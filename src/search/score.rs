//! The scores of trees, by which candidates are ordered.

#![expect(clippy::indexing_slicing, reason = "slots are taken modulo the length of a block")]

use super::part::range;
use super::ranking::{Ranking, Subject, Weight};
use crate::model::ClassId;
use crate::world::World;
use crate::world::column::{Column, FULL_SHARE, share};
use crate::world::set::{BLOCK, Set, Words};

/// The number for a weight of 1.
const ONE: f64 = 1000.0;
/// Denominator of a share: means of up to ten shares are multiples of its reciprocal.
const STEPS_OF_SHARE: u32 = 2520;

/// The scores of a block of slots. They are integers far below 2^53, so nothing is rounded; processors multiply
/// several floats at once, but not several integers of this size.
pub(super) type Scores = [f64; BLOCK as usize];

/// The contribution of a class to a score.
#[derive(Clone, Debug)]
struct Class {
    column: Column,
    /// For each part of the free capacity.
    weight: f64,
}

/// A ranking, resolved against one world.
#[derive(Clone, Debug)]
pub(super) struct Scorer {
    classes: Vec<Class>,
    /// Whether the score is the mean over the classes of a tree, and not their sum.
    is_mean: bool,
    /// Traits and aggregates, with their weights.
    sets: Vec<(Set, f64)>,
}

impl Scorer {
    /// Creates the scores of a ranking for a request of these classes, each once. Names unknown to this world add
    /// nothing.
    pub(super) fn new(world: &World, ranking: &Ranking, requested: &[ClassId]) -> Self {
        let class = |id: ClassId, weight: f64| {
            let column = world.column(id).cloned();
            column.map(|column| Class { column, weight })
        };
        let weights: &[Weight] = match ranking {
            Ranking::Pack | Ranking::Spread => {
                let weight = if *ranking == Ranking::Pack { -ONE } else { ONE };
                let classes = requested.iter().filter_map(|id| class(*id, weight)).collect();
                return Self { classes, is_mean: true, sets: Vec::new() };
            }
            Ranking::Weights(weights) => weights,
        };
        let mut scorer = Self { classes: Vec::new(), is_mean: false, sets: Vec::new() };
        for Weight { subject, thousandths } in weights {
            let weight = f64::from(*thousandths);
            match subject {
                Subject::Class(name) => {
                    let found = world.class_id(name).and_then(|id| class(id, weight));
                    scorer.classes.extend(found);
                }
                Subject::Trait(name) => {
                    let carriers = world.trait_id(name).map(|id| world.carriers(id));
                    scorer.sets.extend(carriers.map(|set| (set, weight * f64::from(FULL_SHARE))));
                }
                Subject::Aggregate(uuid) => {
                    scorer.sets.push((world.members(*uuid), weight * f64::from(FULL_SHARE)));
                }
            }
        }
        scorer
    }

    /// Number of columns and sets in a score.
    pub(super) fn len(&self) -> usize {
        self.classes.len() + self.sets.len()
    }

    /// The score of each slot of a block, if it were a tree with no other provider and with inventory of all
    /// requested classes.
    pub(super) fn of_block(&self, block: u32) -> Scores {
        let mut scores = [0.0; BLOCK as usize];
        for Class { column, weight } in &self.classes {
            if let Some(shares) = column.shares(block) {
                let weight = if self.is_mean {
                    weight * of_mean(self.classes.iter().map(|_| 1).sum())
                } else {
                    *weight
                };
                for (score, share) in scores.iter_mut().zip(shares) {
                    *score += weight * f64::from(*share);
                }
            }
        }
        for (set, weight) in &self.sets {
            add(&mut scores, set.words(block), *weight);
        }
        scores
    }

    /// The score of a tree.
    pub(super) fn of_tree(&self, world: &World, root: u32) -> f64 {
        let end = root + world.place(root).len;
        let (mut score, mut count) = (0.0, 0);
        for Class { column, weight } in &self.classes {
            let (mut free, mut capacity, mut has_any) = (0_i128, 0_i128, false);
            for entry in (root..end).filter_map(|slot| column.get(slot)) {
                let (more_free, more) = entry.free_of();
                free += i128::from(more_free);
                capacity += i128::from(more);
                has_any = true;
            }
            score += weight * f64::from(share(free, capacity));
            count += u32::from(has_any);
        }
        if self.is_mean {
            score *= of_mean(count);
        }
        let counts = |set: &Set| {
            let blocks = root / BLOCK..=(end - 1) / BLOCK;
            blocks.into_iter().any(|block| {
                let tree = range(block, root, end);
                set.words(block).iter().zip(tree).any(|(word, tree)| word & tree != 0)
            })
        };
        score
            + self.sets.iter().filter(|(set, _)| counts(set)).map(|(_, weight)| weight).sum::<f64>()
    }
}

/// The weight of each of `classes` classes in a mean.
fn of_mean(classes: u32) -> f64 {
    f64::from(STEPS_OF_SHARE / classes.max(1))
}

/// Adds a weight where a bit is set.
fn add(scores: &mut Scores, words: Words, weight: f64) {
    for (scores, mut word) in scores.chunks_mut(64).zip(words) {
        while word != 0 {
            scores[word.trailing_zeros() as usize] += weight;
            word &= word - 1;
        }
    }
}
