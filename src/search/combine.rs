//! One choice per part at one anchor: an iterator over all that go together.
//!
//! Choices are made in depth, the part with the fewest options first, and a choice that can no
//! longer lead anywhere is taken back at once. Nothing is kept but the choices themselves.

#![expect(clippy::indexing_slicing, reason = "depths and positions are those of the lists indexed")]

use super::capacity::{Capacity, Choice, PartOptions};
use super::part::{Masks, pop, range};
use super::plan::Plan;
use super::random::Random;
use super::shared::Shared;
use super::steps::{BLOCK_STEPS, Progress, Steps};
use crate::world::World;
use crate::world::set::BLOCK;
use crate::world::slot_data::NOWHERE;

/// When every option was tried this often on average and nothing was found, each choice is looked
/// at more closely.
const FRUITLESS_MAX: usize = 8;
/// There are at least as many tries.
const TRIES_MIN: usize = 512;

/// A part with its options.
#[derive(Clone, Copy, Debug)]
struct Level {
    part: usize,
    /// Its options are these of `choices`.
    from: usize,
    to: usize,
    /// The option to try next.
    next: usize,
    /// What the choices at this level and below could meet and whether one of them is bound.
    reach: (u64, bool),
    /// What the choices above and at this level meet and whether one of them is bound.
    have: (u64, bool),
}

/// The iterator. It is opened for an anchor, advanced, and opened again for another.
#[derive(Debug, Default)]
pub(super) struct Combination {
    anchor: u32,
    choices: Vec<Choice>,
    /// One per part, in the order in which choices are made.
    levels: Vec<Level>,
    depth: usize,
    /// The slot chosen for each part, by position of the part; [`NOWHERE`]: none yet.
    picks: Vec<u32>,
    capacity: Capacity,
    /// Tries since something was found.
    fruitless: usize,
}

/// What [`Combination::open`] needs beside the anchor.
pub(super) struct Sources<'a> {
    pub(super) world: &'a World,
    pub(super) plan: &'a Plan,
    pub(super) masks: &'a Masks,
    pub(super) shared: &'a mut Shared,
    pub(super) random: Option<&'a mut Random>,
}

impl Combination {
    /// The slot chosen for each part, after [`Progress::Found`].
    pub(super) fn picks(&self) -> &[u32] {
        &self.picks
    }

    /// Collects the options for each part at an anchor; whether every part has any.
    pub(super) fn open(
        &mut self,
        anchor: u32,
        sources: &mut Sources<'_>,
        steps: &mut Steps,
    ) -> bool {
        self.clear(anchor);
        let Sources { world, plan, masks, shared, .. } = sources;
        let end = anchor + world.place(anchor).len;
        let signature = world.signature_of(anchor);
        for (position, part) in plan.parts.iter().enumerate() {
            let from = self.choices.len();
            if part.anchor.admits(anchor) {
                let spanned = part.spanning.admits(anchor);
                for block in anchor / BLOCK..end.div_ceil(BLOCK) {
                    let tree = range(block, anchor, end);
                    let mut words = masks.within(&plan.parts, position, block, tree);
                    steps.take(BLOCK_STEPS);
                    while let Some(slot) = pop(&mut words, block) {
                        if spanned || part.spanning.admits(slot) {
                            let bound =
                                !plan.sharing.contains(slot) || !part.may_share(world, slot);
                            self.choices.push(Choice { slot, site: 0, bound, meets: 0 });
                        }
                    }
                }
                if let Some(signature) = signature {
                    let foreign = shared.options(world, plan, signature)[position].iter().copied();
                    let foreign = foreign.filter(|slot| !(anchor..end).contains(slot));
                    let choice = |slot| Choice { slot, site: 0, bound: false, meets: 0 };
                    self.choices.extend(foreign.map(choice));
                }
            }
            if from == self.choices.len() {
                return false;
            }
            self.add_level(position, from);
        }
        self.levels.iter().any(|level| self.options(level).iter().any(|it| it.bound))
            && self.prepare(sources, true)
    }

    /// Collects the options for each part among given sharing providers.
    pub(super) fn open_shared(&mut self, options: &[Vec<u32>], sources: &mut Sources<'_>) -> bool {
        self.clear(NOWHERE);
        for (position, slots) in options.iter().enumerate() {
            let from = self.choices.len();
            let choice = |&slot: &u32| Choice { slot, site: 0, bound: false, meets: 0 };
            self.choices.extend(slots.iter().map(choice));
            self.add_level(position, from);
        }
        options.iter().all(|slots| !slots.is_empty()) && self.prepare(sources, false)
    }

    fn clear(&mut self, anchor: u32) {
        self.anchor = anchor;
        self.choices.clear();
        self.levels.clear();
        self.depth = 0;
        self.fruitless = 0;
    }

    fn add_level(&mut self, part: usize, from: usize) {
        let to = self.choices.len();
        let none = (0, false);
        let level = Level { part, from, to, next: from, reach: none, have: none };
        self.levels.push(level);
    }

    fn options(&self, level: &Level) -> &[Choice] {
        &self.choices[level.from..level.to]
    }

    /// Whether this is a tree's own combination: at least one choice must be bound then.
    fn own(&self) -> bool {
        self.anchor != NOWHERE
    }

    /// Orders the levels and computes what can be reached from each.
    fn prepare(&mut self, sources: &mut Sources<'_>, own: bool) -> bool {
        let Sources { plan, random, .. } = sources;
        self.picks.clear();
        self.picks.resize(plan.parts.len(), NOWHERE);
        self.levels.sort_unstable_by_key(|level| (level.to - level.from, level.part));
        self.capacity.survey(plan, &mut self.choices);
        if self.capacity.matters() {
            let Self { capacity, levels, choices, .. } = self;
            let parts = parts(plan, levels, choices);
            if !capacity.has_total(plan, &parts) || !capacity.may_serve(plan, parts) {
                return false;
            }
        }
        let clauses = &plan.together[..plan.together.len().min(64)];
        let mut reach = (0, false);
        for level in self.levels.iter_mut().rev() {
            let choices = &mut self.choices[level.from..level.to];
            if let Some(random) = random {
                random.shuffle(choices);
            }
            for choice in choices {
                if plan.parts[level.part].spread {
                    for (nth, clause) in clauses.iter().enumerate() {
                        let meets = clause.iter().any(|set| set.contains(choice.slot));
                        choice.meets |= u64::from(meets) << nth;
                    }
                }
                reach = (reach.0 | choice.meets, reach.1 | choice.bound);
            }
            level.reach = reach;
        }
        reach.0 == all(clauses.len()) && (reach.1 || !own)
    }

    /// Goes on to the next combination.
    pub(super) fn advance(&mut self, world: &World, plan: &Plan, steps: &mut Steps) -> Progress {
        if self.depth == self.levels.len() && !self.step_back(plan) {
            return Progress::Exhausted;
        }
        // Looking for the top of a subtree may mean looking at all choices.
        let effort = if plan.subtrees.is_empty() { 1 } else { 1 + self.choices.len() / 8 };
        loop {
            if !steps.take(effort) {
                return Progress::Paused;
            }
            let level = &mut self.levels[self.depth];
            if level.next == level.to {
                level.next = level.from;
                if !self.step_back(plan) {
                    return Progress::Exhausted;
                }
                continue;
            }
            let choice = self.choices[level.next];
            level.next += 1;
            self.fruitless += 1;
            if self.place(world, plan, choice) {
                self.depth += 1;
                if self.depth == self.levels.len() {
                    self.fruitless = 0;
                    return Progress::Found;
                }
                if self.capacity.matters()
                    && self.fruitless > TRIES_MIN.max(self.choices.len() * FRUITLESS_MAX)
                {
                    steps.take(self.choices.len());
                    let Self { capacity, levels, choices, depth, .. } = self;
                    if !capacity.may_serve(plan, parts(plan, &levels[*depth..], choices)) {
                        self.step_back(plan);
                    }
                }
            }
        }
    }

    /// Takes back the last choice; whether there was one.
    fn step_back(&mut self, plan: &Plan) -> bool {
        let Some(depth) = self.depth.checked_sub(1) else { return false };
        self.depth = depth;
        let level = self.levels[depth];
        self.capacity.release(plan, &plan.parts[level.part], self.choices[level.next - 1].site);
        self.picks[level.part] = NOWHERE;
        true
    }

    /// Makes a choice at the present depth, if it can go with those above.
    fn place(&mut self, world: &World, plan: &Plan, choice: Choice) -> bool {
        let depth = self.depth;
        let position = self.levels[depth].part;
        let part = &plan.parts[position];
        let above = if depth == 0 { (0, false) } else { self.levels[depth - 1].have };
        let have = (above.0 | choice.meets, above.1 | choice.bound);
        let below = self.levels.get(depth + 1).map_or((0, false), |level| level.reach);
        if have.0 | below.0 != self.levels[0].reach.0 || self.own() && !(have.1 | below.1) {
            return false;
        }
        if !plan.nested && !part.amounts.is_empty() && self.beside(world, plan, choice.slot) {
            return false;
        }
        if !self.capacity.take(plan, part, choice.site) {
            return false;
        }
        self.levels[depth].have = have;
        self.picks[position] = choice.slot;
        let fine = self.below_one_of_them(world, plan, part.group)
            && (depth + 1 < self.levels.len() || self.meets_the_rest(plan));
        if !fine {
            self.picks[position] = NOWHERE;
            self.capacity.release(plan, part, choice.site);
        }
        fine
    }

    /// Whether resources come from another provider of the same tree.
    fn beside(&self, world: &World, plan: &Plan, slot: u32) -> bool {
        let root = world.place(slot).root;
        self.levels[..self.depth].iter().any(|level| {
            let other = self.picks[level.part];
            other != slot
                && !plan.parts[level.part].amounts.is_empty()
                && world.place(other).root == root
        })
    }

    /// Whether, in each `same_subtree` set with this group, one of the providers chosen or still
    /// to be chosen has all of those chosen below it.
    fn below_one_of_them(&self, world: &World, plan: &Plan, group: usize) -> bool {
        let mut sets = plan.subtrees.iter().filter(|set| set.contains(&group));
        sets.all(|set| {
            let parts = || set.iter().flat_map(|&group| plan.groups[group].parts.clone());
            let chosen = || parts().map(|part| self.picks[part]).filter(|&pick| pick != NOWHERE);
            let (Some(first), Some(last)) = (chosen().min(), chosen().max()) else { return true };
            let spans = |slot: u32| slot <= first && last < slot + world.place(slot).len;
            // Of the providers chosen only the first one can be above the others.
            spans(first)
                || self.levels[self.depth + 1..].iter().any(|level| {
                    parts().any(|part| part == level.part)
                        && self.options(level).iter().any(|choice| spans(choice.slot))
                })
        })
    }

    /// Whether the clauses of required traits beyond the first 64 are met.
    fn meets_the_rest(&self, plan: &Plan) -> bool {
        plan.together.iter().skip(64).all(|clause| {
            let parts = plan.parts.iter().zip(&self.picks).filter(|(part, _)| part.spread);
            parts.into_iter().any(|(_, &slot)| clause.iter().any(|set| set.contains(slot)))
        })
    }
}

/// The parts of some levels.
fn parts<'a>(
    plan: &'a Plan,
    levels: &'a [Level],
    choices: &'a [Choice],
) -> impl Iterator<Item = PartOptions<'a>> + Clone {
    levels.iter().map(|level| PartOptions {
        part: &plan.parts[level.part],
        options: &choices[level.from..level.to],
    })
}

/// That many bits.
fn all(clauses: usize) -> u64 {
    match clauses {
        64.. => !0,
        some => (1 << some) - 1,
    }
}
