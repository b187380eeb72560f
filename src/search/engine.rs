//! The search: visits anchors in the order of the strategy and goes through the combinations of each, until the
//! limit.

use crate::search::query::QueryInWorld;
use std::collections::VecDeque;

use super::anchors::{Anchor, AnchorBlock, AnchorGroup, Anchors};
use super::candidate::{CandidateBuffer, Survey};
use super::combine::{Combination, Pruner, Sources};
use super::part::Masks;
use super::query::Query;
use super::ranked_order::RankedOrder;
use super::request::{Request, Strategy, Unknown};
use super::shared::Shared;
use super::shuffled_order::ShuffledOrder;
use super::steps::{ANCHOR_STEPS, Next, Progress, STEPS, Steps};
use crate::world::World;
use crate::world::sharing::SignatureId;

/// The cost of opening a signature, in steps.
const SIGNATURE_STEPS: usize = 64;

/// Maximum number of trees from which candidates are taken in turn.
const OPEN_MAX: usize = 16_384;
/// The same for a search without a limit, where the order does not decide which candidates are returned.
const OPEN_UNBOUNDED: usize = 1024;

/// Number of pauses without a candidate after which a tree waits until all others are done.
const PATIENCE: usize = 8;
/// Maximum number of trees that wait.
const WAITING_MAX: usize = 64;

/// Resolves the names of a request and divides it into parts.
///
/// # Errors
/// The request names an unknown class or trait, and the groups before it do not make the result empty.
pub(super) fn resolve(world: &World, request: &Request) -> Result<Query, Unknown> {
    Query::new(world, request, &is_void)
}

/// Returns whether a query is proven to have no candidate, within a limited amount of work.
fn is_void(world: &World, query: &Query) -> bool {
    const PAUSES_MAX: usize = 100;
    let mut engine = Engine::default();
    (0..PAUSES_MAX)
        .map(|_| engine.advance(world, query))
        .find(|progress| !matches!(progress, Progress::Paused))
        .is_some_and(|progress| matches!(progress, Progress::Exhausted))
}

/// An open anchor.
#[derive(Debug)]
struct Open {
    combination: Combination,
    /// The signature, if the anchor consists of sharing providers alone.
    signature: Option<SignatureId>,
    /// Number of pauses since the last candidate.
    pauses: usize,
}

/// The state of a search.
#[derive(Debug, Default)]
pub(super) struct Engine {
    pub(super) found: CandidateBuffer,
    given: usize,
    /// The steps of all calls so far.
    steps: u64,
    anchors: Anchors,
    /// The rest of the current block.
    block: AnchorBlock,
    /// In a search in random order: the anchors that are not yet drawn.
    shuffled: Option<ShuffledOrder>,
    /// In a search by score: the anchors that are not yet visited.
    ranked: Option<RankedOrder>,
    masks: Masks,
    shared: Shared,
    pruner: Pruner,
    open: VecDeque<Open>,
    waiting: VecDeque<Open>,
    spare: Vec<Combination>,
}

impl Engine {
    /// Finds the next candidate, and puts it into `found`.
    pub(super) fn advance(&mut self, world: &World, query: &Query) -> Progress {
        if query.bound.is_some_and(|bound| self.given >= bound) {
            return Progress::Exhausted;
        }
        self.go_on(world, query)
    }

    fn go_on(&mut self, world: &World, query: &Query) -> Progress {
        let mut steps = Steps::new();
        let width = width(query);
        let progress = loop {
            if !steps.take(ANCHOR_STEPS) {
                break Progress::Paused;
            }
            if self.open.len() < width {
                match self.next_anchor(world, query, &mut steps) {
                    Next::Found(anchor) => match self.enter(anchor, world, query, &mut steps) {
                        Progress::Exhausted => continue,
                        progress @ (Progress::Found(()) | Progress::Paused) => break progress,
                    },
                    Next::Paused => break Progress::Paused,
                    Next::Exhausted if self.open.is_empty() && self.waiting.is_empty() => {
                        break Progress::Exhausted;
                    }
                    Next::Exhausted => {}
                }
            }
            let Some(open) = self.open.pop_front().or_else(|| self.waiting.pop_front()) else {
                continue;
            };
            match self.work(open, world, query, &mut steps) {
                Progress::Exhausted => {}
                progress @ (Progress::Found(()) | Progress::Paused) => break progress,
            }
        };
        self.given += usize::from(progress == Progress::Found(()));
        self.steps += steps.taken();
        progress
    }

    /// Continues after the limit, for the summaries alone. If a candidate may use only one provider of each tree,
    /// summaries contain every provider that supplies any candidate in the trees of the returned ones. Returns
    /// `Paused` if it is not done.
    pub(super) fn survey(&mut self, world: &World, query: &mut Query) -> Progress {
        if query.nested || !query.limited || query.bound.is_none_or(|bound| self.given < bound) {
            return Progress::Exhausted;
        }
        if !query.surveying {
            query.surveying = true;
            let Survey { kept, pending } = self.found.start_survey(world, query);
            if !pending.iter().any(|slot| query.sharing.contains(*slot)) {
                // No sharing provider is missing, so other trees do not matter.
                query.anchor.all.push(vec![kept]);
            }
        }
        let enough = self.steps + STEPS as u64;
        while self.found.is_surveying() && query.most.is_none_or(|most| self.given < most) {
            if self.steps >= enough {
                return Progress::Paused;
            }
            match self.go_on(world, query) {
                Progress::Found(()) => {}
                Progress::Paused => return Progress::Paused,
                Progress::Exhausted => break,
            }
        }
        Progress::Exhausted
    }

    /// Checks each choice; see [`Pruner`].
    pub(super) fn check_each_choice(&mut self) {
        self.pruner.is_eager = true;
    }

    /// The steps taken so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The next anchor in the order of the search.
    fn next_anchor(&mut self, world: &World, query: &Query, steps: &mut Steps) -> Next<Anchor> {
        if let Some(seed) = query.seed {
            let order = self.shuffled.get_or_insert_with(|| ShuffledOrder::new(seed));
            return order.draw(&mut self.anchors, world, query, steps);
        }
        if let Some(scorer) = &query.scorer {
            let order = self.ranked.get_or_insert_with(|| RankedOrder::new(query.bound));
            return order.next(scorer, world, query, steps);
        }
        loop {
            if let Some(anchor) = self.block.pop() {
                return Next::Found(anchor);
            }
            match self.anchors.next(world, query, &mut self.masks, steps) {
                Next::Found(AnchorGroup::One(anchor)) => return Next::Found(anchor),
                Next::Found(AnchorGroup::Block(block)) => self.block = block,
                Next::Paused => return Next::Paused,
                Next::Exhausted => return Next::Exhausted,
            }
        }
    }

    /// Takes the first candidate of an anchor and keeps the anchor open for the others.
    fn enter(
        &mut self,
        anchor: Anchor,
        world: &World,
        query: &Query,
        steps: &mut Steps,
    ) -> Progress {
        let Self { masks, shared, shuffled, pruner, .. } = self;
        let random = shuffled.as_mut().map(ShuffledOrder::random);
        let mut sources = Sources { world, query, masks, shared, random };
        let (root, signature) = match anchor {
            Anchor::Solo(slot) => {
                self.found.solo(query, slot);
                return Progress::Found(());
            }
            Anchor::Tree(root) => (root, None),
            Anchor::Shared(signature) => (0, Some(signature)),
        };
        let mut combination = self.spare.pop().unwrap_or_default();
        let viable = match signature {
            None => combination.open(root, &mut sources, pruner, steps),
            Some(signature) => {
                steps.take(SIGNATURE_STEPS);
                let options = sources.shared.open(world, query, signature);
                options.is_some_and(|options| combination.open_shared(&options, &mut sources))
            }
        };
        if viable {
            self.work(Open { combination, signature, pauses: 0 }, world, query, steps)
        } else {
            self.spare.push(combination);
            Progress::Exhausted
        }
    }

    /// Takes the next candidate of an open anchor.
    fn work(
        &mut self,
        mut open: Open,
        world: &World,
        query: &Query,
        steps: &mut Steps,
    ) -> Progress {
        loop {
            let progress =
                open.combination.advance(QueryInWorld { world, query }, &mut self.pruner, steps);
            match progress {
                Progress::Found(()) => {
                    let picks = open.combination.picks();
                    let first = open.signature.is_none_or(|signature| {
                        self.shared.is_first(world, query, signature, picks)
                    });
                    if !first {
                        continue;
                    }
                    if !self.found.combined(world, query, picks) {
                        continue;
                    }
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

/// Number of anchors that are open at the same time.
fn width(query: &Query) -> usize {
    if query.surveying {
        return 1;
    }
    match (query.seed, query.strategy, query.bound) {
        (None, Strategy::DepthFirst, _) | (None, Strategy::BreadthFirst, None) => 1,
        (Some(_), _, None) => OPEN_UNBOUNDED,
        (_, _, Some(bound)) => bound.clamp(1, OPEN_MAX),
    }
}
