//! The combinations of one anchor: an iterator over all ways to choose one option for each part so that the options
//! are compatible.
//!
//! A depth-first search with backtracking: the part with the fewest options is assigned first, and a choice that
//! cannot lead to a combination is undone at once. After many failed tries in a row, a [`Lookahead`] detects more
//! dead ends, and explored dead ends are remembered ([`FailedSituations`]). Both skip only choices that lead to no
//! combination, so they change neither the combinations nor their order.

#![expect(clippy::indexing_slicing, reason = "depths and positions are those of the lists indexed")]

use super::capacity::{Capacity, Choice, PartOptions};
use super::failed::{FailedSituations, Shape};
use super::lookahead::{Decided, Lookahead};
use super::part::{Masks, pop, range};
use super::query::Query;
use super::random::Random;
use super::shared::Shared;
use super::steps::{BLOCK_STEPS, Progress, Steps};
use crate::search::query::QueryInWorld;
use crate::world::World;
use crate::world::set::BLOCK;
use crate::world::slot_data::NOWHERE;

/// Number of failed tries per option after which further choices are checked by a [`Lookahead`], which costs more
/// and detects more dead ends.
const FRUITLESS_MAX: usize = 8;
/// Minimum number of tries before that.
const TRIES_MIN: usize = 512;
/// With `same_subtree`, an anchor with more combinations than this is checked before any is tried.
const COMBINATIONS_FEW: usize = 64;

/// A level of the search: a part and its options.
#[derive(Clone, Copy, Debug)]
struct Level {
    part: usize,
    /// The options are `choices[from..to]`.
    from: usize,
    to: usize,
    /// The next option to try.
    next: usize,
    /// The clauses of required traits that options at this level and below could meet, and whether
    /// one of these options is bound to the anchor.
    reach: (u64, bool),
    /// The clauses that the choices at this level and above meet, and whether one of them is bound.
    have: (u64, bool),
    /// Number of combinations found and of tries made when the level was entered.
    entered: (usize, usize),
    /// Whether a situation of this level has been remembered.
    is_remembered: bool,
}

/// The iterator. It is opened for an anchor, advanced, and opened again for the next anchor.
#[derive(Debug, Default)]
pub(super) struct Combination {
    anchor: u32,
    choices: Vec<Choice>,
    /// One for each part, in the order of assignment.
    levels: Vec<Level>,
    depth: usize,
    /// The slot chosen for each part, by position of the part; [`NOWHERE`]: none yet.
    picks: Vec<u32>,
    capacity: Capacity,
    /// Number of combinations found and of tries made since the anchor was opened.
    found: usize,
    tries: usize,
    /// Number of tries at which the [`Lookahead`] runs next.
    look_at: usize,
    /// The data from which situations are derived; set when the first one is remembered.
    shape: Option<Shape>,
}

/// The detection of dead ends. All anchors of a search share it, so that its memory is bounded.
#[derive(Debug, Default)]
pub(super) struct Pruner {
    lookahead: Lookahead,
    failed: FailedSituations,
    /// Whether to check each choice and remember each dead end from the start, and not only after many failed tries
    /// in a row. This costs more, and does not change the result.
    pub(super) is_eager: bool,
}

/// The inputs of [`Combination::open`] besides the anchor.
pub(super) struct Sources<'a> {
    pub(super) world: &'a World,
    pub(super) query: &'a Query,
    pub(super) masks: &'a Masks,
    pub(super) shared: &'a mut Shared,
    pub(super) random: Option<&'a mut Random>,
}

impl Combination {
    /// The slot chosen for each part, after a combination was found.
    pub(super) fn picks(&self) -> &[u32] {
        &self.picks
    }

    /// Collects the options of each part at an anchor. Returns whether there may be a combination.
    pub(super) fn open(
        &mut self,
        anchor: u32,
        sources: &mut Sources<'_>,
        pruner: &mut Pruner,
        steps: &mut Steps,
    ) -> bool {
        self.clear(anchor);
        for position in 0..sources.query.parts.len() {
            let from = self.choices.len();
            add_options(&mut self.choices, position, anchor, sources, steps);
            if from == self.choices.len() {
                return false;
            }
            self.add_level(position, from);
        }
        self.levels.iter().any(|level| self.options(level).iter().any(|it| it.bound))
            && self.prepare(sources)
            && self.may_start(sources, pruner, steps)
    }

    /// For each part of an opened anchor, the slots of the options that may be part of a combination; `None` if
    /// there is no combination.
    pub(super) fn viable(
        &mut self,
        QueryInWorld { world, query }: QueryInWorld<'_>,
        pruner: &mut Pruner,
        steps: &mut Steps,
    ) -> Option<Vec<Vec<u32>>> {
        if !self.may_go_on(world, query, pruner, steps) {
            return None;
        }
        let slots = |part| pruner.lookahead.open(part).iter().map(|choice| choice.slot).collect();
        Some((0..query.parts.len()).map(slots).collect())
    }

    /// The same for the sharing providers of a signature.
    pub(super) fn open_shared(&mut self, options: &[Vec<u32>], sources: &mut Sources<'_>) -> bool {
        self.clear(NOWHERE);
        for (position, slots) in options.iter().enumerate() {
            let from = self.choices.len();
            let choice = |&slot: &u32| Choice { slot, site: 0, bound: false, meets: 0 };
            self.choices.extend(slots.iter().map(choice));
            self.add_level(position, from);
        }
        options.iter().all(|slots| !slots.is_empty()) && self.prepare(sources)
    }

    fn clear(&mut self, anchor: u32) {
        self.anchor = anchor;
        self.choices.clear();
        self.levels.clear();
        self.depth = 0;
        (self.found, self.tries, self.look_at) = (0, 0, 0);
        self.shape = None;
    }

    fn add_level(&mut self, part: usize, from: usize) {
        let to = self.choices.len();
        let none = (0, false);
        self.levels.push(Level {
            part,
            from,
            to,
            next: from,
            reach: none,
            have: none,
            entered: (0, 0),
            is_remembered: false,
        });
    }

    fn options(&self, level: &Level) -> &[Choice] {
        &self.choices[level.from..level.to]
    }

    /// Returns whether the anchor is a tree. One choice must then be bound to it: combinations of sharing providers
    /// alone are found once, by [`Shared`].
    fn own(&self) -> bool {
        self.anchor != NOWHERE
    }

    /// Orders the levels, and computes the reach of each.
    fn prepare(&mut self, sources: &mut Sources<'_>) -> bool {
        let Sources { world, query, random, .. } = sources;
        let own = self.own();
        self.picks.clear();
        self.picks.resize(query.parts.len(), NOWHERE);
        self.levels.sort_unstable_by_key(|level| (level.to - level.from, level.part));
        self.capacity.survey(world, query, &mut self.choices);
        if self.capacity.matters() {
            let Self { capacity, levels, choices, .. } = self;
            let parts = parts(query, levels, choices);
            if !capacity.has_total(query, &parts) || !capacity.may_serve(query, parts) {
                return false;
            }
        }
        let clauses = &query.together[..query.together.len().min(64)];
        let mut reach = (0, false);
        for level in self.levels.iter_mut().rev() {
            let choices = &mut self.choices[level.from..level.to];
            if let Some(random) = random {
                random.shuffle(choices);
            }
            for choice in choices {
                if query.parts[level.part].spread {
                    for (nth, clause) in clauses.iter().enumerate() {
                        let meets = clause.iter().any(|set| set.contains(choice.slot));
                        choice.meets |= u64::from(meets) << nth;
                    }
                }
                reach = (reach.0 | choice.meets, reach.1 | choice.bound);
            }
            level.reach = reach;
        }
        self.look_at = TRIES_MIN.max(self.choices.len() * FRUITLESS_MAX);
        reach.0 == all(clauses.len()) && (reach.1 || !own)
    }

    /// Returns whether there may be a combination. Checked only if there are many, and `same_subtree` may exclude
    /// all of them.
    fn may_start(&mut self, sources: &Sources<'_>, pruner: &mut Pruner, steps: &mut Steps) -> bool {
        let Sources { world, query, .. } = sources;
        let mut counts = self.levels.iter().map(|level| level.to - level.from);
        let combinations = counts.try_fold(1_usize, usize::checked_mul);
        let are_few = combinations.is_some_and(|count| count <= COMBINATIONS_FEW);
        !pruner.is_eager && (query.subtrees.is_empty() || are_few)
            || self.may_go_on(world, query, pruner, steps)
    }

    /// Finds the next combination.
    pub(super) fn advance(
        &mut self,
        context: QueryInWorld<'_>,
        pruner: &mut Pruner,
        steps: &mut Steps,
    ) -> Progress {
        let QueryInWorld { world, query } = context;
        if self.depth == self.levels.len() && !self.step_back(query) {
            return Progress::Exhausted;
        }
        loop {
            if !steps.take(self.effort(query)) {
                return Progress::Paused;
            }
            let level = &mut self.levels[self.depth];
            if level.next == level.to {
                level.next = level.from;
                self.remember(context, pruner, steps);
                if !self.step_back(query) {
                    return Progress::Exhausted;
                }
                continue;
            }
            let choice = self.choices[level.next];
            level.next += 1;
            self.tries += 1;
            if self.place(world, query, choice) {
                self.depth += 1;
                if self.depth == self.levels.len() {
                    self.found += 1;
                    self.look_at = self.look_at.max(self.tries + self.patience());
                    return Progress::Found(());
                }
                self.levels[self.depth].entered = (self.found, self.tries);
                let looks_ahead = pruner.is_eager || self.tries >= self.look_at;
                if self.has_failed(context, pruner, steps)
                    || looks_ahead && !self.may_go_on(world, query, pruner, steps)
                {
                    self.step_back(query);
                }
            }
        }
    }

    /// The cost of a try at the current depth, in steps: for each `same_subtree` set with the group, all choices
    /// may be examined.
    fn effort(&self, query: &Query) -> usize {
        let group = query.parts[self.levels[self.depth].part].group;
        let sets = query.subtrees.iter().filter(|set| set.contains(&group)).count();
        1 + query.subtrees.len() / 8 + sets * self.choices.len() / 8
    }

    /// Number of failed tries after which the [`Lookahead`] runs.
    fn patience(&self) -> usize {
        TRIES_MIN.max(self.choices.len() * FRUITLESS_MAX)
    }

    /// The parts that are assigned.
    fn decided<'a>(&'a self, world: &'a World, query: &'a Query) -> Decided<'a> {
        let have = self.depth.checked_sub(1).map_or((0, false), |above| self.levels[above].have);
        Decided { world, query, picks: &self.picks, have, needs_bound: self.own() }
    }

    /// Returns whether the levels from the current one on may be completed. If so, the next check follows after as
    /// many tries as this one was worth.
    fn may_go_on(
        &mut self,
        world: &World,
        query: &Query,
        Pruner { lookahead, .. }: &mut Pruner,
        steps: &mut Steps,
    ) -> bool {
        let mut capacity = std::mem::take(&mut self.capacity);
        let parts = parts(query, &self.levels[self.depth..], &self.choices);
        let may = lookahead.may_go_on(&self.decided(world, query), &mut capacity, parts);
        self.capacity = capacity;
        let work = lookahead.take_work();
        steps.take(work);
        if may {
            self.look_at = self.look_at.max(self.tries + work / self.effort(query));
        }
        may
    }

    /// Returns whether the current situation has failed before.
    fn has_failed(
        &mut self,
        context: QueryInWorld<'_>,
        pruner: &mut Pruner,
        steps: &mut Steps,
    ) -> bool {
        self.levels[self.depth].is_remembered && {
            let situation = self.situation(context, pruner, steps);
            pruner.failed.contains(situation)
        }
    }

    /// Remembers the current situation if it took more tries than remembering costs, and led to no combination.
    fn remember(&mut self, context: QueryInWorld<'_>, pruner: &mut Pruner, steps: &mut Steps) {
        let (found, tries) = self.levels[self.depth].entered;
        let is_worth_it =
            pruner.is_eager || self.tries - tries > self.choices.len() / self.effort(context.query);
        // Whether the clauses without a bit are met depends on all choices.
        if found < self.found || !is_worth_it || context.query.together.len() > 64 {
            return;
        }
        let situation = self.situation(context, pruner, steps);
        pruner.failed.add(situation);
        self.levels[self.depth].is_remembered = true;
    }

    fn situation(
        &mut self,
        QueryInWorld { world, query }: QueryInWorld<'_>,
        Pruner { failed, .. }: &mut Pruner,
        steps: &mut Steps,
    ) -> u64 {
        steps.take(2 * self.choices.len());
        let shape = self.shape.take();
        let decided = self.decided(world, query);
        let shape = shape.unwrap_or_else(|| {
            Shape::new(failed, &decided, parts(query, &self.levels, &self.choices))
        });
        let situation = shape.situation(failed, &decided, &self.capacity, self.depth);
        self.shape = Some(shape);
        situation
    }

    /// Undoes the last choice. Returns whether there was one.
    fn step_back(&mut self, query: &Query) -> bool {
        let Some(depth) = self.depth.checked_sub(1) else { return false };
        self.depth = depth;
        let level = self.levels[depth];
        self.capacity.release(query, &query.parts[level.part], self.choices[level.next - 1].site);
        self.picks[level.part] = NOWHERE;
        true
    }

    /// Makes a choice at the current depth, if it is compatible with the choices above.
    fn place(&mut self, world: &World, query: &Query, choice: Choice) -> bool {
        let depth = self.depth;
        let position = self.levels[depth].part;
        let part = &query.parts[position];
        let above = if depth == 0 { (0, false) } else { self.levels[depth - 1].have };
        let have = (above.0 | choice.meets, above.1 | choice.bound);
        let below = self.levels.get(depth + 1).map_or((0, false), |level| level.reach);
        if have.0 | below.0 != self.levels[0].reach.0 || self.own() && !(have.1 | below.1) {
            return false;
        }
        if self.decided(world, query).is_beside(position, choice.slot) {
            return false;
        }
        if !self.capacity.take(query, part, choice.site) {
            return false;
        }
        self.levels[depth].have = have;
        self.picks[position] = choice.slot;
        let fine = self.below_one_of_them(world, query, part.group)
            && (depth + 1 < self.levels.len() || self.meets_the_rest(query));
        if !fine {
            self.picks[position] = NOWHERE;
            self.capacity.release(query, part, choice.site);
        }
        fine
    }

    /// Returns whether each `same_subtree` set with this group can still be satisfied: one of the providers that
    /// are chosen, or can still be chosen, is an ancestor of all chosen ones.
    fn below_one_of_them(&self, world: &World, query: &Query, group: usize) -> bool {
        let mut sets = query.subtrees.iter().filter(|set| set.contains(&group));
        sets.all(|set| {
            let decided = self.decided(world, query);
            let Some(ends) = decided.ends(set) else { return true };
            let spans = |slot: u32| decided.spans(slot, ends);
            spans(ends.0)
                || self.levels[self.depth + 1..].iter().any(|level| {
                    set.contains(&query.parts[level.part].group)
                        && self.options(level).iter().any(|choice| spans(choice.slot))
                })
        })
    }

    /// Returns whether the clauses of required traits beyond the first 64, which have no bit, are met.
    fn meets_the_rest(&self, query: &Query) -> bool {
        query.together.iter().skip(64).all(|clause| {
            let parts = query.parts.iter().zip(&self.picks).filter(|(part, _)| part.spread);
            parts.into_iter().any(|(_, &slot)| clause.iter().any(|set| set.contains(slot)))
        })
    }
}

/// Adds the options of a part at an anchor: the providers of its tree first, then those of other
/// trees that share with it.
pub(super) fn add_options(
    choices: &mut Vec<Choice>,
    position: usize,
    anchor: u32,
    sources: &mut Sources<'_>,
    steps: &mut Steps,
) {
    let Sources { world, query, masks, shared, .. } = sources;
    let part = &query.parts[position];
    if !part.anchor.admits(anchor) {
        return;
    }
    let end = anchor + world.place(anchor).len;
    let spanned = part.spanning.admits(anchor);
    for block in anchor / BLOCK..end.div_ceil(BLOCK) {
        let tree = range(block, anchor, end);
        let mut words = masks.within(&query.parts, position, block, tree);
        steps.take(BLOCK_STEPS);
        while let Some(slot) = pop(&mut words, block) {
            if spanned || part.spanning.admits(slot) {
                let bound = !query.sharing.contains(slot) || !part.may_share(world, slot);
                choices.push(Choice { slot, site: 0, bound, meets: 0 });
            }
        }
    }
    if let Some(signature) = world.signature_of(anchor) {
        let foreign = shared.options(world, query, signature)[position].iter().copied();
        let foreign = foreign.filter(|slot| !(anchor..end).contains(slot));
        let choice = |slot| Choice { slot, site: 0, bound: false, meets: 0 };
        choices.extend(foreign.map(choice));
    }
}

/// The parts of some levels, with their options.
fn parts<'a>(
    query: &'a Query,
    levels: &'a [Level],
    choices: &'a [Choice],
) -> impl Iterator<Item = PartOptions<'a>> + Clone {
    levels.iter().map(|level| PartOptions {
        position: level.part,
        part: &query.parts[level.part],
        options: &choices[level.from..level.to],
    })
}

/// A word with one bit for each clause.
fn all(clauses: usize) -> u64 {
    match clauses {
        64.. => !0,
        some => (1 << some) - 1,
    }
}
