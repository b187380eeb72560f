//! Depth-first branch and bound. Branches on the kind that is hardest to place, and tries its cheapest host first.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts and frames are numbered densely")]

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use super::incumbent::{Incumbent, Preferred, SharedIncumbent};
use super::preference::preference;
use super::pricing::{Priced, Pricing, PricingInputs};
use super::pruning::Pruning;
use super::random::shuffled;
use crate::solver::bounds::{Limits, bound, feasible};
use crate::solver::budget::{Budget, Progress};
use crate::solver::evaluation;
use crate::solver::model::Model;
use crate::solver::solution::Cost;
use crate::solver::state::State;

/// The work for the Lagrangian bound in a run, for each dead end that the run may meet. The bound takes longer for
/// larger problems, and the methods between the runs should not wait for it.
const WORK_FOR_DEAD_END: u64 = 100_000;

/// The search, with its learned weights.
#[derive(Debug)]
pub(super) struct BranchAndBound<'p> {
    model: &'p Model<'p>,
    pub(super) limits: &'p Limits,
    /// The best placement so far. The search looks only for cheaper ones.
    pub(super) best: Option<Arc<Incumbent>>,
    /// The incumbent shared with other threads, the last version seen, and the number of placements taken over.
    shared: Option<Arc<SharedIncumbent>>,
    version: u64,
    pub(super) taken_over: u64,
    /// The cost at which the search may stop.
    target: Cost,
    /// For each kind, its number of failures, plus one.
    failures: Vec<u64>,
    round: u64,
    /// The dead ends of the last run.
    pub(super) dead_ends: u64,
    frames: Vec<Frame>,
    /// Known placements to skip.
    excluded: Arc<HashSet<HostsByKind>>,
    /// The bound by Lagrangian relaxation, and whether this run uses it.
    pub(super) pricing: Pricing<'p>,
    is_priced: bool,
}

/// The hosts of the bundles of each kind: pairs of kind and host, ascending.
type HostsByKind = Vec<(usize, usize)>;

/// A level of the search: a bundle and the positions tried for it.
#[derive(Debug)]
struct Frame {
    kind: usize,
    bundle: usize,
    /// The last host and variant tried.
    at: Option<(usize, usize)>,
    /// The test for hosts that can lead to a better placement, if there is a best one already.
    pruning: Option<Pruning>,
    /// The hosts that are ruled out for its kind, because one bundle of the kind was tried there or on a symmetric
    /// host: a placement with another bundle of the kind there is the same one with the two exchanged.
    tried: Vec<usize>,
    /// The result of the Lagrangian bound, if it is used.
    priced: Option<Priced>,
}

impl<'p> BranchAndBound<'p> {
    pub(super) fn new(model: &'p Model<'p>, limits: &'p Limits, target: Cost, least: Cost) -> Self {
        Self {
            model,
            limits,
            best: None,
            shared: None,
            version: 0,
            taken_over: 0,
            target,
            failures: vec![1; model.kinds.len()],
            round: 0,
            dead_ends: 0,
            frames: Vec::new(),
            excluded: Arc::default(),
            pricing: Pricing::new(model, limits, least),
            is_priced: false,
        }
    }

    /// Excludes placements, each given by the host of each server.
    pub(super) fn exclude(&mut self, known: &[Vec<usize>], budget: &mut Budget<'_>) {
        let mut excluded = HashSet::new();
        for places in known {
            budget.is_spent_with(4 * self.model.bundles.len());
            let host = |bundle: usize| {
                let server = self.model.bundles[bundle].servers.first()?;
                places.get(*server).copied()
            };
            excluded.insert(self.hosts_by_kind(host));
        }
        self.excluded = Arc::new(excluded);
    }

    /// Shares the best placement with other threads of the search from now on.
    pub(super) fn share(&mut self) -> &Arc<SharedIncumbent> {
        self.shared.get_or_insert_with(|| Arc::new(SharedIncumbent::new(self.best.clone())))
    }

    /// The same search for another thread, which shares the best placement.
    pub(super) fn for_thread(&mut self) -> Self {
        let shared = Arc::clone(self.share());
        Self {
            best: self.best.clone(),
            shared: Some(shared),
            excluded: Arc::clone(&self.excluded),
            ..Self::new(self.model, self.limits, self.target.clone(), self.pricing.least.clone())
        }
    }

    /// Takes over the best placement of all threads, if it is better. If one of them has panicked, spends the
    /// budget.
    pub(super) fn take_over(&mut self, budget: &mut Budget<'_>) {
        let Some(shared) = &self.shared else { return };
        if shared.is_broken() {
            budget.end();
        }
        let Some(found) = shared.newer_than(&mut self.version) else { return };
        if self.best.as_ref().is_none_or(|best| found.cost < best.cost) {
            self.best = Some(found);
            self.taken_over += 1;
            budget.found(self.progress());
        }
    }

    /// The hosts that the Lagrangian bound prefers, once a thread of the search has computed them.
    pub(super) fn preferred(&self) -> Option<Preferred> {
        let own = self.pricing.preferred.as_ref();
        self.shared.as_ref().map_or_else(|| own.cloned(), |shared| shared.preferred(own))
    }

    fn hosts_by_kind(&self, host: impl Fn(usize) -> Option<usize>) -> HostsByKind {
        let bundles = self.model.bundles.iter().enumerate();
        let hosts = bundles.filter_map(|(nth, bundle)| Some((bundle.kind, host(nth)?)));
        let mut hosts: HostsByKind = hosts.collect();
        hosts.sort_unstable();
        hosts
    }

    fn is_excluded(&self, state: &State<'_>) -> bool {
        let host = |bundle: usize| state.positions[bundle].map(|(host, _)| host);
        !self.excluded.is_empty() && self.excluded.contains(&self.hosts_by_kind(host))
    }

    /// Whether the best placement is good enough.
    pub(super) fn has_reached_target(&self) -> bool {
        let best = self.best.as_ref().map(|best| &best.cost);
        best.is_some_and(|best| *best <= self.target || *best <= self.pricing.least)
    }

    /// Starts a round. In odd rounds, a pseudo-random order replaces fit among hosts of otherwise equal cost.
    pub(super) fn start_round(&mut self, round: u64) {
        self.round = round;
    }

    /// Like [`Self::run`], with the Lagrangian bound where it is useful.
    pub(super) fn run_priced(
        &mut self,
        state: &mut State<'_>,
        dead_ends_max: u64,
        budget: &mut Budget<'_>,
    ) -> bool {
        self.is_priced = true;
        let is_all = self.run(state, dead_ends_max, budget);
        self.is_priced = false;
        is_all
    }

    /// Searches all placements of the remaining bundles that may be cheaper than the best one, until it has met
    /// `dead_ends_max` dead ends, reached the target or spent the budget. Returns whether it covered all of them.
    /// Restores the state, unless the budget is spent; the state must not be used then.
    pub(super) fn run(
        &mut self,
        state: &mut State<'_>,
        dead_ends_max: u64,
        budget: &mut Budget<'_>,
    ) -> bool {
        self.dead_ends = 0;
        self.pricing.work = 0;
        let work_max = dead_ends_max.saturating_mul(WORK_FOR_DEAD_END);
        self.descend(state, budget);
        while !self.frames.is_empty() {
            if budget.is_spent() {
                return false;
            }
            let is_over = self.dead_ends >= dead_ends_max || self.pricing.work >= work_max;
            if is_over || self.has_reached_target() {
                while !self.frames.is_empty() {
                    self.leave(state, budget);
                }
                return false;
            }
            if self.next(state, budget) {
                self.descend(state, budget);
            } else {
                self.leave(state, budget);
            }
        }
        !budget.is_spent()
    }

    /// Records a complete state; otherwise computes the bound and, unless the state is a dead end,
    /// adds a frame for the next bundle.
    fn descend(&mut self, state: &mut State<'_>, budget: &mut Budget<'_>) {
        budget.is_spent_after(self.model.problem.hosts.len() + 8 * self.model.kinds.len());
        let Some(kind) = self.hardest(state) else {
            budget.is_spent_after(16 * self.model.problem.servers.len());
            self.record(state, budget);
            return;
        };
        self.take_over(budget);
        let best = self.best.clone();
        let bound = match &best {
            // Without a placement, no bound affects the search.
            None => feasible(state, self.limits, budget).map(|_| None),
            Some(best) => bound(state, self.limits, Some(&best.cost), budget).map(Some),
        };
        if budget.is_spent() {
            return;
        }
        let Some(bound) = bound else {
            self.dead_ends += 1;
            self.learn(state);
            return;
        };
        let mut priced = None;
        if let (Some(bound), Some(best)) = (&bound, &best) {
            let mut is_dead_end = bound.least >= best.cost;
            if !is_dead_end
                && self.is_priced
                && self.pricing.serves(state, bound, &best.cost, budget)
            {
                let before = self.frames.last().and_then(|frame| frame.priced.as_ref());
                let known = PricingInputs { bound, best, before, failures: &self.failures };
                priced = self.pricing.price(state, &known, budget);
                is_dead_end = priced.is_none();
            }
            if budget.is_spent() {
                return;
            }
            if is_dead_end {
                self.dead_ends += 1;
                return;
            }
        }
        let known = bound.zip(best.map(|best| best.cost.clone()));
        let kind = priced.as_ref().map_or(kind, |priced| priced.kind);
        let Some(bundle) = state.unplaced[kind].last().copied() else { return };
        let pruning = known.map(|(bound, best)| Pruning::new(state, bound, best, kind));
        self.frames.push(Frame { kind, bundle, at: None, pruning, tried: Vec::new(), priced });
    }

    /// Keeps a complete placement if it is the best one. A placement that is excluded, or not as even as required,
    /// is a dead end.
    pub(super) fn record(&mut self, state: &State<'_>, budget: &mut Budget<'_>) {
        if !state.is_even() || self.is_excluded(state) {
            self.dead_ends += 1;
            return;
        }
        let cost = state.cost();
        if self.best.as_ref().is_none_or(|best| cost < best.cost) {
            debug_assert_eq!(cost, self.evaluated(state));
            let positions =
                state.positions.iter().map(|position| position.unwrap_or_default()).collect();
            let found = Incumbent { cost, assignments: state.assignments(), positions };
            let found = Arc::new(found);
            if let Some(shared) = &self.shared {
                shared.offer(&found);
            }
            self.best = Some(found);
            budget.found(self.progress());
        }
    }

    /// The progress of the search.
    fn progress(&self) -> Progress {
        match &self.best {
            None => Progress::Nothing,
            Some(best) if best.cost.without_sums() == self.target.without_sums() => {
                Progress::AllButTheLastComponent
            }
            Some(_) => Progress::Placement,
        }
    }

    /// The cost of a complete state, computed from scratch.
    fn evaluated(&self, state: &State<'_>) -> Cost {
        let hosts: Vec<usize> = state.assignments().iter().map(|it| it.host).collect();
        evaluation::cost(self.model.problem, &hosts)
    }

    /// The kind to branch on: the one with the fewest open hosts in relation to its failures (dom/wdeg).
    fn hardest(&self, state: &State<'_>) -> Option<usize> {
        let kinds = (0..self.model.kinds.len()).filter(|kind| !state.unplaced[*kind].is_empty());
        kinds.min_by_key(|kind| {
            let hosts = state.domains.of_kind(*kind).hosts as u64;
            let weight = self.model.kinds[*kind].weight;
            ((hosts << 16) / self.failures[*kind], Reverse(weight), *kind)
        })
    }

    /// Counts a failure for each kind with too few slots.
    fn learn(&mut self, state: &State<'_>) {
        for (kind, failures) in self.failures.iter_mut().enumerate() {
            if state.domains.of_kind(kind).slots < state.unplaced[kind].len() {
                *failures += 1;
            }
        }
    }

    /// Places the bundle of the last frame at the next untried position. Returns whether there was one.
    fn next(&mut self, state: &mut State<'_>, budget: &mut Budget<'_>) -> bool {
        let round = self.round;
        // A host that is symmetric to one in an excluded placement may be in another placement.
        let is_symmetry_used = self.excluded.is_empty();
        let Some(frame) = self.frames.last_mut() else { return false };
        state.take_back(frame.bundle, budget);
        let load = &self.model.loads[self.model.kinds[frame.kind].load];
        let sizes = &self.model.sizes;
        loop {
            let position = match frame.at {
                Some((host, variant)) if variant + 1 < sizes.variants(load, host) => {
                    (host, variant + 1)
                }
                last => {
                    if let Some((host, _)) = last {
                        if let Some(priced) = &mut frame.priced {
                            priced.close(state, host, &mut self.pricing, budget);
                        }
                        exhaust(state, frame, host, is_symmetry_used, budget);
                    }
                    let best = self.best.as_ref().map(|best| best.cost.fit);
                    match next_host(state, (self.limits, best), frame, round, budget) {
                        Some(host) => (host, 0),
                        None => return false,
                    }
                }
            };
            frame.at = Some(position);
            if budget.is_spent() {
                return false;
            }
            if state.place(frame.bundle, position, budget) {
                return true;
            }
        }
    }

    /// Removes the last frame, and restores the state before it.
    fn leave(&mut self, state: &mut State<'_>, budget: &mut Budget<'_>) {
        if let Some(frame) = self.frames.pop() {
            state.take_back(frame.bundle, budget);
            state.rule_out(frame.kind, &frame.tried, false);
            if let Some(priced) = frame.priced {
                priced.reopen(state, budget);
            }
        }
    }
}

/// Rules out a host for the frame's kind, together with the untouched hosts that are symmetric to it, unless
/// symmetry is not used.
fn exhaust(
    state: &mut State<'_>,
    frame: &mut Frame,
    host: usize,
    is_symmetry_used: bool,
    budget: &mut Budget<'_>,
) {
    let from = frame.tried.len();
    if is_symmetry_used && state.is_untouched(host) {
        let symmetry = state.model.symmetry(budget);
        let racks = symmetry.racks();
        let rack = racks[host];
        let is_alike = |other: &usize| {
            let is_rack_alike = racks[*other] == rack
                || rack.is_some_and(|it| state.is_rack_untouched(it))
                    && racks[*other].is_some_and(|it| state.is_rack_untouched(it));
            state.is_untouched(*other) && is_rack_alike
        };
        let group = symmetry.group(host).iter();
        frame.tried.extend(group.copied().filter(is_alike));
    } else {
        frame.tried.push(host);
    }
    state.rule_out(frame.kind, &frame.tried[from..], true);
}

/// The cheapest remaining host for a frame.
fn next_host(
    state: &State<'_>,
    (limits, best): (&Limits, Option<u64>),
    frame: &Frame,
    round: u64,
    budget: &mut Budget<'_>,
) -> Option<usize> {
    if let (Some(priced), Some(best)) = (&frame.priced, best) {
        budget.is_spent_after(4 * priced.hosts.len());
        let open = priced.hosts_below(best).filter(|(_, host)| {
            state.domains.is_open(frame.kind, *host) && {
                let added = state.added(frame.kind, *host);
                frame.pruning.as_ref().is_none_or(|it| it.allows(&added))
            }
        });
        let key = |(rise, host): &(i64, usize)| {
            if round % 2 == 1 { (0, shuffled(*host, round), *host) } else { (*rise, 0, *host) }
        };
        return open.min_by_key(key).map(|(_, host)| host);
    }
    budget.is_spent_after(2 * state.model.problem.hosts.len());
    let hosts = 0..state.model.problem.hosts.len();
    let open = hosts.filter(|host| state.domains.is_open(frame.kind, *host));
    let key = |host: usize| {
        let added = state.added(frame.kind, host);
        if frame.pruning.as_ref().is_some_and(|it| !it.allows(&added)) {
            return None;
        }
        let mut preference = preference(state, limits, host, added);
        if round % 2 == 1 {
            preference.5 = shuffled(host, round);
        }
        Some((preference, host))
    };
    open.filter_map(key).min().map(|(_, host)| host)
}
