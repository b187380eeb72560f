//! One choice per part at one anchor: an iterator over all that go together.
//!
//! Choices are made in depth, the part with the fewest options first, and a choice that can no
//! longer lead anywhere is taken back at once. Nothing is kept but the choices themselves.

#![expect(clippy::indexing_slicing, reason = "depths and positions are those of the lists indexed")]

use super::part::{Amount, Masks, pop, range};
use super::plan::Plan;
use super::random::Random;
use super::shared::Shared;
use super::{Progress, Steps};
use crate::model::ClassId;
use crate::world::World;
use crate::world::resident::NOWHERE;
use crate::world::set::BLOCK;

/// One way to supply a part.
#[derive(Clone, Copy, Debug)]
struct Choice {
    slot: u32,
    /// Whether only this anchor can use it so. A candidate without any such choice consists of
    /// sharing providers that other anchors can use as well.
    bound: bool,
    /// Which clauses of the unsuffixed group's required traits it meets, the first 64, a bit each.
    meets: u64,
}

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
    /// Takings up to here are from the choices above.
    takings: usize,
}

/// An amount of a contended class that a choice takes.
#[derive(Clone, Copy, Debug)]
struct Taking {
    slot: u32,
    class: ClassId,
    units: i64,
}

/// The iterator. It is opened for an anchor, advanced, and opened again for another.
#[derive(Debug, Default)]
pub(super) struct Combination {
    anchor: u32,
    choices: Vec<Choice>,
    /// One per part, in the order in which choices are made.
    levels: Vec<Level>,
    depth: usize,
    takings: Vec<Taking>,
    /// The slot chosen for each part, by position of the part; [`NOWHERE`]: none yet.
    picks: Vec<u32>,
}

/// What [`Combination::open`] needs beside the anchor.
pub(super) struct Sources<'a> {
    pub(super) world: &'a World,
    pub(super) plan: &'a Plan,
    pub(super) masks: &'a mut Masks,
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
                    let mut words = masks.of(&plan.parts, block)[position];
                    words = super::part::and(words, range(block, anchor, end));
                    steps.take(1);
                    while let Some(slot) = pop(&mut words, block) {
                        if part.fits(slot) && (spanned || part.spanning.admits(slot)) {
                            let bound =
                                !plan.sharing.contains(slot) || !part.may_share(world, slot);
                            self.choices.push(Choice { slot, bound, meets: 0 });
                        }
                    }
                }
                if let Some(signature) = signature {
                    let foreign = shared.options(world, plan, signature)[position].iter().copied();
                    let foreign = foreign.filter(|slot| !(anchor..end).contains(slot));
                    let choice = |slot| Choice { slot, bound: false, meets: 0 };
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
            let choice = |&slot: &u32| Choice { slot, bound: false, meets: 0 };
            self.choices.extend(slots.iter().map(choice));
            self.add_level(position, from);
        }
        self.choices.iter().any(|_| true)
            && options.iter().all(|slots| !slots.is_empty())
            && self.prepare(sources, false)
    }

    fn clear(&mut self, anchor: u32) {
        self.anchor = anchor;
        self.choices.clear();
        self.levels.clear();
        self.takings.clear();
        self.depth = 0;
    }

    fn add_level(&mut self, part: usize, from: usize) {
        let to = self.choices.len();
        let none = (0, false);
        let level = Level { part, from, to, next: from, reach: none, have: none, takings: 0 };
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
        if !self.enough_in_all(plan) {
            return false;
        }
        self.levels.sort_by_key(|level| level.to - level.from);
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

    /// Whether the options together have as much of each contended class as the parts together
    /// take, and are as many as isolated groups need.
    fn enough_in_all(&self, plan: &Plan) -> bool {
        let mut slots: Vec<u32> = Vec::new();
        if plan.isolate {
            let suffixed = self.levels.iter().filter(|level| !plan.parts[level.part].spread);
            let groups = suffixed.clone().count();
            slots.extend(suffixed.flat_map(|level| self.options(level)).map(|choice| choice.slot));
            slots.sort_unstable();
            slots.dedup();
            if slots.len() < groups {
                return false;
            }
        }
        let amounts = plan.parts.iter().flat_map(|part| &part.amounts).filter(|it| it.contended);
        let mut classes: Vec<&Amount> = amounts.collect();
        classes.sort_by_key(|amount| amount.class);
        classes.chunk_by(|left, right| left.class == right.class).all(|same| {
            let class = same[0].class;
            slots.clear();
            for level in &self.levels {
                if plan.parts[level.part].amounts.iter().any(|it| it.class == class) {
                    slots.extend(self.options(level).iter().map(|choice| choice.slot));
                }
            }
            slots.sort_unstable();
            slots.dedup();
            let there = slots.iter().filter_map(|&slot| same[0].column.get(slot));
            let there = there.map(|row| row.free().min(i64::from(row.terms.max_unit)));
            let wanted: i128 = same.iter().map(|it| i128::from(it.units)).sum();
            wanted <= there.map(i128::from).sum()
        })
    }

    /// Goes on to the next combination.
    pub(super) fn advance(&mut self, world: &World, plan: &Plan, steps: &mut Steps) -> Progress {
        if self.depth == self.levels.len() && !self.step_back() {
            return Progress::Exhausted;
        }
        loop {
            if !steps.take(1) {
                return Progress::Paused;
            }
            let level = &mut self.levels[self.depth];
            if level.next == level.to {
                level.next = level.from;
                if !self.step_back() {
                    return Progress::Exhausted;
                }
                continue;
            }
            let choice = self.choices[level.next];
            level.next += 1;
            if self.place(world, plan, choice) {
                self.depth += 1;
                if self.depth == self.levels.len() {
                    return Progress::Found;
                }
            }
        }
    }

    /// Takes back the last choice; whether there was one.
    fn step_back(&mut self) -> bool {
        let Some(depth) = self.depth.checked_sub(1) else { return false };
        self.depth = depth;
        let level = self.levels[depth];
        self.takings.truncate(level.takings);
        self.picks[level.part] = NOWHERE;
        true
    }

    /// Makes a choice at the present depth, if it can go with those above.
    fn place(&mut self, world: &World, plan: &Plan, choice: Choice) -> bool {
        let depth = self.depth;
        let part = &plan.parts[self.levels[depth].part];
        let above = if depth == 0 { (0, false) } else { self.levels[depth - 1].have };
        let have = (above.0 | choice.meets, above.1 | choice.bound);
        let below = self.levels.get(depth + 1).map_or((0, false), |level| level.reach);
        if have.0 | below.0 != self.levels[0].reach.0 || self.own() && !(have.1 | below.1) {
            return false;
        }
        if plan.isolate && !part.spread && self.occupied(plan, choice.slot) {
            return false;
        }
        if !plan.nested && !part.amounts.is_empty() && self.beside(world, plan, choice.slot) {
            return false;
        }
        let takings = self.takings.len();
        for amount in part.amounts.iter().filter(|it| it.contended) {
            if !self.take(amount, choice.slot) {
                self.takings.truncate(takings);
                return false;
            }
        }
        let level = &mut self.levels[depth];
        (level.have, level.takings) = (have, takings);
        let position = level.part;
        self.picks[position] = choice.slot;
        let fine = self.below_one_of_them(world, plan, part.group)
            && (depth + 1 < self.levels.len() || self.meets_the_rest(plan));
        if !fine {
            self.picks[position] = NOWHERE;
            self.takings.truncate(takings);
        }
        fine
    }

    /// Whether another suffixed group has the provider.
    fn occupied(&self, plan: &Plan, slot: u32) -> bool {
        self.levels[..self.depth]
            .iter()
            .any(|level| !plan.parts[level.part].spread && self.picks[level.part] == slot)
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

    fn take(&mut self, amount: &Amount, slot: u32) -> bool {
        let Amount { class, units, column, .. } = amount;
        let same = self.takings.iter().filter(|it| it.slot == slot && it.class == *class);
        let sum = same.map(|it| it.units).fold(*units, i64::saturating_add);
        self.takings.push(Taking { slot, class: *class, units: *units });
        sum == *units || column.get(slot).is_some_and(|row| row.fits_sum(sum))
    }

    /// Whether, in each `same_subtree` set with this group, one of the providers chosen or still
    /// to be chosen has all of those chosen below it.
    fn below_one_of_them(&self, world: &World, plan: &Plan, group: usize) -> bool {
        let sets = plan.subtrees.iter().filter(|set| set.contains(&group));
        sets.into_iter().all(|set| {
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

/// That many bits.
fn all(clauses: usize) -> u64 {
    match clauses {
        64.. => !0,
        some => (1 << some) - 1,
    }
}
