//! Improves prices by subgradient ascent with momentum.

#![expect(clippy::indexing_slicing, reason = "kinds, rules and racks are numbered densely")]

use super::prices::{FitBoundScaled, Prices, SCALE, signed};
use super::{Allowance, Effort, Lagrangian};
use crate::solver::budget::Budget;
use crate::solver::state::State;

/// Denominator of the step length. Steps start at 1: the whole gap to the best fit.
const STEP_UNIT: i64 = 1024;
/// Number of steps without a higher bound after which steps are shortened by a factor, in tenths.
const IDLE_MAX: u32 = 20;
const SHORTER: i64 = 6;
/// The share of the last direction in the next one, in tenths.
const MOMENTUM: i64 = 7;
/// The slope of one bundle, a multiple so that directions can be divided.
const SLOPE: i64 = 1000;

/// The direction in which prices change.
struct Direction {
    kinds: Vec<i64>,
    racks: Vec<Vec<i64>>,
}

impl Lagrangian<'_> {
    /// Improves the prices. Returns the highest bound on the fit of the completions of a
    /// state that take no more than `more` into use; it ends early if no fit less than `best` is
    /// possible. The result must not be used once the budget is spent.
    pub(in crate::solver) fn improve(
        &mut self,
        state: &State<'_>,
        (best, more): (u64, Allowance),
        Effort { steps, gap_divisor }: Effort,
        budget: &mut Budget<'_>,
    ) -> FitBoundScaled {
        let gap_min = gap_divisor.map_or(0, |divisor| signed(best) * SCALE / divisor).max(SCALE);
        // The result always belongs to the stored prices: rises are relative to these.
        let mut highest: Option<FitBoundScaled> = None;
        let mut kept = self.prices.clone();
        let mut direction = Direction::none(&self.prices);
        let (mut length, mut idle) = (STEP_UNIT, 0);
        for _ in 0..steps.max(1) {
            let bound = FitBoundScaled(self.evaluate(state, more, budget));
            if budget.is_spent_after(8 * self.prices.size()) {
                break;
            }
            if highest.is_none_or(|highest| bound > highest) {
                (highest, idle) = (Some(bound), 0);
                kept.clone_from(&self.prices);
            } else {
                idle += 1;
            }
            let is_enough = highest.is_some_and(|highest| highest.excludes_less_than(best));
            if is_enough || length == 0 {
                break;
            }
            if idle >= IDLE_MAX {
                length = length * SHORTER / 10;
                idle = 0;
                direction = Direction::none(&self.prices);
                self.prices.clone_from(&kept);
                continue;
            }
            let is_balanced = !self.turn(state, &mut direction);
            if is_balanced {
                // The hosts together take every bundle exactly once, which is a placement.
                break;
            }
            self.step(&direction, bound.to_exclude(best).max(gap_min), length);
        }
        self.prices = kept;
        highest.unwrap_or(FitBoundScaled(signed(state.fit) * SCALE))
    }

    /// Turns the direction towards bundles that are not taken, and away from those taken too often. Returns whether
    /// there are any.
    fn turn(&self, state: &State<'_>, direction: &mut Direction) -> bool {
        let mut is_any = false;
        let mut turn = |direction: &mut i64, slope: i64| {
            is_any |= slope != 0;
            *direction = *direction * MOMENTUM / 10 + slope * SLOPE;
        };
        for (kind, direction) in direction.kinds.iter_mut().enumerate() {
            let left = signed(state.unplaced[kind].len() as u64);
            turn(direction, left - signed(self.taken.kinds[kind]));
        }
        for (rule, racks) in direction.racks.iter_mut().enumerate() {
            for (rack, direction) in racks.iter_mut().enumerate() {
                let (least, most) = self.places(state, rule, rack);
                let taken = signed(self.taken.racks[rule][rack]);
                let slope = match self.prices.racks[rule][rack].signum() {
                    1 => taken - most,
                    -1 => taken - least,
                    _ => taken - taken.clamp(least, most.max(least)),
                };
                turn(direction, slope);
                // A price leaves zero only because of what hosts take now.
                if self.prices.racks[rule][rack] == 0 && direction.signum() != slope.signum() {
                    *direction = 0;
                }
            }
        }
        is_any
    }

    /// Changes the prices by a step towards a bound that is higher by `gap` (Polyak).
    fn step(&mut self, direction: &Direction, gap: i64, length: i64) {
        let all = || direction.kinds.iter().chain(direction.racks.iter().flatten());
        let norm: i128 = all().map(|it| i128::from(*it) * i128::from(*it)).sum();
        if norm == 0 {
            return;
        }
        let factor = i128::from(gap) * i128::from(SLOPE) * i128::from(length);
        let change = |direction: i64| {
            let change = factor * i128::from(direction) / (norm * i128::from(STEP_UNIT));
            i64::try_from(change).unwrap_or(gap)
        };
        for (price, direction) in self.prices.kinds.iter_mut().zip(&direction.kinds) {
            *price += change(*direction);
        }
        for (prices, direction) in self.prices.racks.iter_mut().zip(&direction.racks) {
            for (price, direction) in prices.iter_mut().zip(direction) {
                let next = *price + change(*direction);
                // The number of places that is refunded changes at zero.
                *price = if price.signum() * next.signum() < 0 { 0 } else { next };
            }
        }
    }
}

impl Direction {
    fn none(prices: &Prices) -> Self {
        Self {
            kinds: vec![0; prices.kinds.len()],
            racks: prices.racks.iter().map(|racks| vec![0; racks.len()]).collect(),
        }
    }
}
