//! The search under way: anchors in the order of the strategy, combinations within them, bounds.

use std::collections::VecDeque;

use super::anchors::{Anchor, AnchorBlock, Anchors, NextAnchor, NextAnchors};
use super::candidate::{CandidateBuffer, Survey};
use super::combine::{Combination, Sources};
use super::part::Masks;
use super::plan::Plan;
use super::request::{Request, Strategy, Unknown};
use super::shared::Shared;
use super::shuffled_order::ShuffledOrder;
use super::steps::{ANCHOR_STEPS, Progress, STEPS, Steps};
use crate::world::World;
use crate::world::sharing::SignatureId;

/// What beginning with a signature costs, in steps.
const SIGNATURE_STEPS: usize = 64;

/// Trees open at the same time at the most, when candidates are taken from many in turn.
const OPEN_MAX: usize = 16_384;
/// As many when there is no bound that would make the order matter.
const OPEN_UNBOUNDED: usize = 1024;

/// A tree that paused this often without finding anything waits until all others are done.
const PATIENCE: usize = 8;
/// As many may wait.
const WAITING_MAX: usize = 64;

/// Resolves the names of a request and divides it into parts.
///
/// # Errors
/// A name that nothing has, unless the groups before it already make the answer empty.
pub(super) fn plan(world: &World, request: &Request) -> Result<Plan, Unknown> {
    Plan::new(world, request, &is_void)
}

/// Whether a plan has no candidate. Gives up when it is hard to tell, and then says no.
fn is_void(world: &World, plan: &Plan) -> bool {
    const PAUSES_MAX: usize = 100;
    let mut engine = Engine::default();
    (0..PAUSES_MAX)
        .map(|_| engine.advance(world, plan))
        .find(|progress| !matches!(progress, Progress::Paused))
        .is_some_and(|progress| matches!(progress, Progress::Exhausted))
}

/// An anchor that is being worked on.
#[derive(Debug)]
struct Open {
    combination: Combination,
    /// Where the combination is of sharing providers alone.
    signature: Option<SignatureId>,
    /// Pauses since it last found something.
    pauses: usize,
}

/// The state of a search.
#[derive(Debug, Default)]
pub(super) struct Engine {
    pub(super) found: CandidateBuffer,
    given: usize,
    /// Steps of all calls so far.
    steps: u64,
    anchors: Anchors,
    /// What is left of the block at hand.
    block: AnchorBlock,
    /// Of a search in random order, the anchors not yet drawn.
    order: Option<ShuffledOrder>,
    masks: Masks,
    shared: Shared,
    open: VecDeque<Open>,
    waiting: VecDeque<Open>,
    spare: Vec<Combination>,
}

impl Engine {
    /// Goes on to the next candidate, which is in `found` then.
    pub(super) fn advance(&mut self, world: &World, plan: &Plan) -> Progress {
        if plan.bound.is_some_and(|bound| self.given >= bound) {
            return Progress::Exhausted;
        }
        self.go_on(world, plan)
    }

    fn go_on(&mut self, world: &World, plan: &Plan) -> Progress {
        let mut steps = Steps::new();
        let width = width(plan);
        let progress = loop {
            if !steps.take(ANCHOR_STEPS) {
                break Progress::Paused;
            }
            if self.open.len() < width {
                match self.next_place(world, plan, &mut steps) {
                    NextAnchor::Anchor(place) => match self.enter(place, world, plan, &mut steps) {
                        Progress::Exhausted => continue,
                        progress @ (Progress::Found | Progress::Paused) => break progress,
                    },
                    NextAnchor::Paused => break Progress::Paused,
                    NextAnchor::End if self.open.is_empty() && self.waiting.is_empty() => {
                        break Progress::Exhausted;
                    }
                    NextAnchor::End => {}
                }
            }
            let Some(open) = self.open.pop_front().or_else(|| self.waiting.pop_front()) else {
                continue;
            };
            match self.work(open, world, plan, &mut steps) {
                Progress::Exhausted => {}
                progress @ (Progress::Found | Progress::Paused) => break progress,
            }
        };
        self.given += usize::from(progress == Progress::Found);
        self.steps += steps.taken();
        progress
    }

    /// Closes the anchor of the last candidate, if it was the only one open: there is nothing to be
    /// found there any more.
    pub(super) fn skip_tree(&mut self) {
        debug_assert!(self.open.len() <= 1, "trees take turns");
        self.spare.extend(self.open.pop_back().map(|open| open.combination));
    }

    /// Goes on after the limit, for the summaries alone: where a candidate may use one provider of a tree
    /// only, they are to tell of all providers that supply any candidate in a tree of those given.
    /// Pauses as a search does; otherwise it is done.
    pub(super) fn survey(&mut self, world: &World, plan: &mut Plan) -> Progress {
        if plan.nested || !plan.limited || plan.bound.is_none_or(|bound| self.given < bound) {
            return Progress::Exhausted;
        }
        if !plan.surveying {
            plan.surveying = true;
            let Survey { kept, pending } = self.found.begin_survey(world, plan);
            if !pending.iter().any(|slot| plan.sharing.contains(*slot)) {
                // Other trees have no part in this.
                plan.anchor.all.push(vec![kept]);
            }
        }
        let enough = self.steps + STEPS as u64;
        while self.found.is_surveying() && plan.most.is_none_or(|most| self.given < most) {
            if self.steps >= enough {
                return Progress::Paused;
            }
            match self.go_on(world, plan) {
                Progress::Found => {}
                Progress::Paused => return Progress::Paused,
                Progress::Exhausted => break,
            }
        }
        Progress::Exhausted
    }

    /// Steps taken so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The next anchor in the order of the search.
    fn next_place(&mut self, world: &World, plan: &Plan, steps: &mut Steps) -> NextAnchor {
        if let Some(seed) = plan.seed {
            let order = self.order.get_or_insert_with(|| ShuffledOrder::new(seed));
            return order.draw(&mut self.anchors, world, plan, steps);
        }
        loop {
            if let Some(place) = self.block.pop() {
                return NextAnchor::Anchor(place);
            }
            match self.anchors.next(world, plan, &mut self.masks, steps) {
                NextAnchors::One(place) => return NextAnchor::Anchor(place),
                NextAnchors::Block(block) => self.block = block,
                NextAnchors::Paused => return NextAnchor::Paused,
                NextAnchors::End => return NextAnchor::End,
            }
        }
    }

    /// Takes the first candidate of an anchor and keeps the anchor open for the others.
    fn enter(&mut self, place: Anchor, world: &World, plan: &Plan, steps: &mut Steps) -> Progress {
        let Self { masks, shared, order, .. } = self;
        let random = order.as_mut().map(ShuffledOrder::random);
        let mut sources = Sources { world, plan, masks, shared, random };
        let (root, signature) = match place {
            Anchor::Solo(slot) => {
                self.found.solo(plan, slot);
                return Progress::Found;
            }
            Anchor::Tree(root) => (root, None),
            Anchor::Shared(signature) => (0, Some(signature)),
        };
        let mut combination = self.spare.pop().unwrap_or_default();
        let viable = match signature {
            None => combination.open(root, &mut sources, steps),
            Some(signature) => {
                steps.take(SIGNATURE_STEPS);
                let options = sources.shared.open(world, plan, signature);
                options.is_some_and(|options| combination.open_shared(&options, &mut sources))
            }
        };
        if viable {
            self.work(Open { combination, signature, pauses: 0 }, world, plan, steps)
        } else {
            self.spare.push(combination);
            Progress::Exhausted
        }
    }

    /// Takes the next candidate of an open anchor.
    fn work(&mut self, mut open: Open, world: &World, plan: &Plan, steps: &mut Steps) -> Progress {
        loop {
            let progress = open.combination.advance(world, plan, steps);
            match progress {
                Progress::Found => {
                    let picks = open.combination.picks();
                    let first = open.signature.is_none_or(|signature| {
                        self.shared.is_first(world, plan, signature, picks)
                    });
                    if !first {
                        continue;
                    }
                    self.found.combined(world, plan, picks);
                    open.pauses = 0;
                    self.open.push_back(open);
                }
                Progress::Paused => {
                    open.pauses += 1;
                    if open.pauses.is_multiple_of(PATIENCE) && self.waiting.len() < WAITING_MAX {
                        self.waiting.push_back(open);
                    } else {
                        self.open.push_front(open);
                    }
                }
                Progress::Exhausted => self.spare.push(open.combination),
            }
            return progress;
        }
    }
}

/// How many anchors are open at the same time.
fn width(plan: &Plan) -> usize {
    if plan.surveying {
        return 1;
    }
    match (plan.seed, plan.strategy, plan.bound) {
        (None, Strategy::DepthFirst, _) | (None, Strategy::BreadthFirst, None) => 1,
        (Some(_), _, None) => OPEN_UNBOUNDED,
        (_, _, Some(bound)) => bound.clamp(1, OPEN_MAX),
    }
}
