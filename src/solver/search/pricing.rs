//! The Lagrangian bound in branch and bound: it determines which hosts can still lead to a better placement.
//!
//! The bound of a state rises by a known amount if a bundle is placed on a host. If it reaches the cost of the best
//! placement, the host is ruled out for the kind in everything below the state (reduced cost fixing).

#![expect(clippy::indexing_slicing, reason = "kinds and hosts are numbered densely")]

use std::cmp::Reverse;
use std::sync::Arc;

use super::incumbent::{Incumbent, Preferred};
use crate::solver::bounds::{
    Allowance, Bound, Effort, FitBoundScaled, Lagrangian, Limits, Prices, SumBounds,
};
use crate::solver::budget::Budget;
use crate::solver::model::Model;
use crate::solver::problem::Goal;
use crate::solver::solution::Cost;
use crate::solver::state::State;

/// The effort for the prices of the empty placement.
const EFFORT_FIRST: Effort = Effort { steps: 2000, gap_divisor: Some(50) };
const EFFORT_LATER: Effort = Effort { steps: 50, gap_divisor: None };
/// The same for each state below it, which starts with the prices of the state before.
const EFFORT_BELOW: Effort = Effort { steps: 20, gap_divisor: None };

/// The Lagrangian bound of a state.
#[derive(Debug)]
pub(super) struct Priced {
    prices: Prices,
    /// The bound on the fit. It rises with every host that is closed.
    bound: FitBoundScaled,
    /// The kind of the next bundle.
    pub(super) kind: usize,
    /// The hosts for it that can lead to a better placement, with the increase of the bound.
    pub(super) hosts: Vec<(i64, usize)>,
    /// The kinds and hosts that are ruled out because they cannot lead to a better placement.
    closed: Vec<(usize, usize)>,
    /// By kind, the hosts that were open in the first state with such a bound.
    open: Arc<Vec<Vec<usize>>>,
    /// The memory in use before.
    kept: usize,
}

/// Kinds with hosts, each with the increase of the bound.
type Candidates = Vec<(usize, Vec<(i64, usize)>)>;

/// The Lagrangian bound of a search, with its results for the empty placement.
#[derive(Debug)]
pub(super) struct Pricing<'p> {
    model: &'p Model<'p>,
    lagrangian: Lagrangian<'p>,
    /// The prices for the empty placement, once they have been computed.
    root: Option<Prices>,
    /// The hosts by which the bound of the empty placement rises least.
    pub(super) preferred: Option<Preferred>,
    /// A lower bound on the cost of every placement.
    pub(super) least: Cost,
    /// The work for the bound in this run.
    pub(super) work: u64,
}

/// The inputs for pricing a state.
pub(super) struct PricingInputs<'k> {
    /// The bound of the state, without prices.
    pub(super) bound: &'k Bound,
    /// The best placement.
    pub(super) best: &'k Incumbent,
    /// The Lagrangian bound before the last bundle was placed.
    pub(super) before: Option<&'k Priced>,
    /// For each kind, its number of failures, plus one.
    pub(super) failures: &'k [u64],
}

impl<'p> Pricing<'p> {
    pub(super) fn new(model: &'p Model<'p>, limits: &'p Limits, least: Cost) -> Self {
        let lagrangian = Lagrangian::new(model, limits);
        Self { model, lagrangian, root: None, preferred: None, least, work: 0 }
    }

    /// Returns whether the Lagrangian bound is useful for a state with this bound without prices, and whether it
    /// may be computed: the first prices are those for the empty placement.
    pub(super) fn serves(
        &self,
        state: &State<'_>,
        bound: &Bound,
        best: &Cost,
        budget: &Budget<'_>,
    ) -> bool {
        // At most the open hosts of each kind, and the prices.
        let needed = state.unplaced_kinds().map(|(kind, _)| state.domains.of_kind(kind).hosts);
        let needed = 3 * needed.sum::<usize>() + self.lagrangian.prices().size();
        self.model.problem.policy.goal == Goal::Pack
            && matches!(bound.rest, SumBounds::Fit(_))
            && bound.least.without_sums() == best.without_sums()
            && (self.root.is_some() || state.is_empty())
            && budget.room() > needed
    }

    /// Computes the bound of a state, and rules out the hosts that cannot lead to a placement better than the best
    /// one. `None` if no host can.
    pub(super) fn price(
        &mut self,
        state: &mut State<'_>,
        known: &PricingInputs<'_>,
        budget: &mut Budget<'_>,
    ) -> Option<Priced> {
        let worked = budget.worked();
        let priced = self.priced(state, known, budget);
        self.work += budget.worked() - worked;
        priced
    }

    fn priced(
        &mut self,
        state: &mut State<'_>,
        known: &PricingInputs<'_>,
        budget: &mut Budget<'_>,
    ) -> Option<Priced> {
        let PricingInputs { bound, best, before, failures } = known;
        let kept = budget.kept();
        let units = state.model.packed().map_or(0, |_| state.score.open_units(0).len() as u64);
        let more = Allowance {
            new_hosts: usize::try_from(bound.least.new_hosts - state.new_hosts).ok()?,
            units: usize::try_from(bound.least.units - units).ok()?,
        };
        let open = before.map(|before| Arc::clone(&before.open));
        let is_root = state.is_empty();
        let effort = match (before, &self.root) {
            (Some(before), _) => {
                self.lagrangian.set_prices(&before.prices);
                EFFORT_BELOW
            }
            (None, Some(prices)) => {
                self.lagrangian.set_prices(prices);
                if is_root { EFFORT_LATER } else { EFFORT_BELOW }
            }
            (None, None) => {
                let fit = best.positions.iter().map(|(host, _)| self.model.fit_costs[*host]);
                self.lagrangian.set_prices_from(fit);
                EFFORT_FIRST
            }
        };
        let fit = self.lagrangian.improve(state, (best.cost.fit, more), effort, budget);
        if is_root {
            self.root = Some(self.lagrangian.prices().clone());
            let least = Cost { fit: fit.least().min(best.cost.fit), ..bound.least.clone() };
            self.least = least.max(self.least.clone());
        }
        if fit.excludes_less_than(best.cost.fit) || budget.is_spent() {
            return None;
        }
        let open = open.unwrap_or_else(|| Arc::new(open_hosts(state, more.new_hosts > 0, budget)));
        let (closed, kinds) = self.candidates(state, &open, fit.to_exclude(best.cost.fit), budget);
        if is_root {
            let mut preferred = vec![Vec::new(); self.model.kinds.len()];
            for (kind, hosts) in &kinds {
                let mut hosts = hosts.clone();
                hosts.sort_unstable();
                preferred[*kind] = hosts.into_iter().map(|(_, host)| host).collect();
            }
            self.preferred = Some(Arc::new(preferred));
        }
        for (kind, host) in &closed {
            state.rule_out(*kind, &[*host], true);
        }
        let hardest = kinds.into_iter().min_by_key(|(kind, hosts)| {
            let it = &self.model.kinds[*kind];
            // A kind in progress is completed first.
            let is_started = state.unplaced[*kind].len() < it.bundles.len();
            let few = ((hosts.len() as u64) << 16) / failures[*kind];
            (!is_started, few, Reverse(it.weight), *kind)
        });
        let (kind, hosts) = hardest?;
        let prices = self.lagrangian.prices().clone();
        Some(Priced { prices, bound: fit, kind, hosts, closed, open, kept })
    }

    /// The open hosts that can lead to a placement better than the best one, because the bound rises by less than
    /// `gap`; and the kinds and hosts that cannot.
    fn candidates(
        &mut self,
        state: &State<'_>,
        open: &[Vec<usize>],
        gap: i64,
        budget: &mut Budget<'_>,
    ) -> (Vec<(usize, usize)>, Candidates) {
        let (mut closed, mut kinds) = (Vec::new(), Candidates::new());
        for (kind, _) in state.unplaced_kinds() {
            let mut hosts = Vec::new();
            for host in open[kind].iter().filter(|host| state.domains.is_open(kind, **host)) {
                if budget.is_spent_after(8) {
                    return (closed, kinds);
                }
                let rise = self.lagrangian.rise_with(state, (kind, *host), gap, budget);
                if rise < gap {
                    hosts.push((rise, *host));
                } else {
                    closed.push((kind, *host));
                }
            }
            kinds.push((kind, hosts));
        }
        let hosts: usize = kinds.iter().map(|(_, hosts)| hosts.len()).sum();
        let prices = self.lagrangian.prices().size();
        budget.is_spent_with(2 * (hosts + closed.len()) + prices);
        (closed, kinds)
    }
}

impl Priced {
    /// The hosts that can lead to a placement whose fit is less than `best`.
    pub(super) fn hosts_below(&self, best: u64) -> impl Iterator<Item = (i64, usize)> {
        let is_below = move |rise: i64| !self.bound.plus(rise).excludes_less_than(best);
        // The increase of the bound is never negative.
        let hosts = if is_below(0) { self.hosts.as_slice() } else { &[] };
        hosts.iter().copied().filter(move |(rise, _)| is_below(*rise))
    }

    /// Raises the bound because no further bundle of the kind is placed on a host, which is still open to it.
    pub(super) fn close(
        &mut self,
        state: &State<'_>,
        host: usize,
        pricing: &mut Pricing<'_>,
        budget: &mut Budget<'_>,
    ) {
        let lagrangian = &mut pricing.lagrangian;
        lagrangian.set_prices(&self.prices);
        self.bound = self.bound.plus(lagrangian.rise_without(state, self.kind, host, budget));
    }

    /// Reopens the hosts that were ruled out.
    pub(super) fn reopen(self, state: &mut State<'_>, budget: &mut Budget<'_>) {
        for (kind, host) in &self.closed {
            state.rule_out(*kind, &[*host], false);
        }
        budget.is_spent_after(4 * self.closed.len());
        budget.release_to(self.kept);
    }
}

/// By kind, the hosts that are open to it and in use, or may come into use.
fn open_hosts(state: &State<'_>, may_be_new: bool, budget: &mut Budget<'_>) -> Vec<Vec<usize>> {
    let hosts = state.model.problem.hosts.len();
    let of_kind = |kind: usize| -> Vec<usize> {
        if state.unplaced[kind].is_empty() || budget.is_spent_after(2 * hosts) {
            return Vec::new();
        }
        let is_usable = |host: &usize| {
            state.domains.is_open(kind, *host) && (may_be_new || state.domains.is_in_use(*host))
        };
        let open: Vec<usize> = (0..hosts).filter(is_usable).collect();
        budget.is_spent_with(open.len());
        open
    };
    (0..state.model.kinds.len()).map(of_kind).collect()
}
