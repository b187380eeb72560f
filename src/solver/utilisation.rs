//! The utilisation of units, for balancing.
//!
//! The utilisation of a unit in a class is the used share of its capacity, in hundred-thousandths. The load of a
//! unit is the sum, over classes, of its utilisation squared, times its capacity in thousandths of the largest
//! capacity of a unit. Balancing minimises the sum of the loads: since squares grow faster for larger numbers, a
//! server costs least where utilisation is least, and the weight by capacity makes units of different sizes equally
//! utilised instead of equally used.
//!
//! All numbers are integers, rounded once, when they are computed. Everything derived from them is exact.
//!
//! *Example.* Units with capacities 10 and 20 are empty, and 3 servers of 5 are placed. One on the first and two on
//! the second: both have a utilisation of a half, and the load is 500 × 0.5² + 1000 × 0.5² = 375 (times 10^10). All
//! on the second: 1000 × 0.75² = 562.5.

#![expect(clippy::indexing_slicing, reason = "units and classes are numbered densely")]

use std::sync::Arc;

use super::counted::CountedUnits;
use super::problem::PlacementProblem;

/// A utilisation of 100 %.
pub(super) const FULL: u128 = 100_000;
/// The maximum utilisation: ten times the capacity. Larger ones count as this.
pub(super) const SHARE_MAX: u64 = 1_000_000;
/// The weight of the unit with the most capacity.
const WEIGHT_MAX: u128 = 1_000;

/// Servers that add the same amounts to the use of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Addition {
    /// The amounts of one server, by class.
    pub(super) amounts: Arc<[u64]>,
    /// The host to which it adds nothing, because its use there is counted already.
    pub(super) counted_on: Option<usize>,
    /// The number of servers.
    pub(super) servers: u64,
}

/// The capacities of the units of one level, and their use before the placement.
#[derive(Clone, Debug)]
pub(super) struct Utilisation {
    classes: usize,
    /// By unit and class.
    capacity: Vec<u128>,
    weights: Vec<u64>,
    /// The utilisation before the placement.
    pub(super) initial: Vec<u64>,
}

impl Utilisation {
    pub(super) fn of(problem: &PlacementProblem, units: &CountedUnits) -> Self {
        let classes = problem.hosts.iter().map(|host| host.capacity.len()).max().unwrap_or(0);
        let mut capacity = vec![0_u128; units.count() * classes];
        let mut used = capacity.clone();
        for (nth, host) in problem.hosts.iter().enumerate() {
            let from = units.unit(nth) * classes;
            for (class, of_host) in host.capacity.iter().enumerate() {
                let free = host.free.get(class).copied().unwrap_or(0);
                capacity[from + class] += u128::from(*of_host);
                used[from + class] += u128::from(of_host.saturating_sub(free));
            }
        }
        let most = |class: usize| {
            (0..units.count()).map(|unit| capacity[unit * classes + class]).max().unwrap_or(0)
        };
        let most: Vec<u128> = (0..classes).map(most).collect();
        let weight = |(nth, capacity): (usize, &u128)| {
            let weight = (capacity * WEIGHT_MAX).checked_div(most[nth % classes]).unwrap_or(0);
            u64::try_from(weight.max(1)).unwrap_or(1)
        };
        let weights = capacity.iter().enumerate().map(weight).collect();
        let initial = used.iter().zip(&capacity).map(|(used, of)| share(*used, *of)).collect();
        Self { classes, capacity, weights, initial }
    }

    /// The number of classes.
    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    /// The capacity of a unit in a class.
    pub(super) fn capacity(&self, unit: usize, class: usize) -> u128 {
        self.capacity[unit * self.classes + class]
    }

    /// The weight of the utilisation of a unit in a class.
    pub(super) fn weight(&self, unit: usize, class: usize) -> u64 {
        self.weights[unit * self.classes + class]
    }

    /// The utilisation that one server with these amounts adds to a unit in a class.
    fn share(&self, unit: usize, class: usize, amounts: &[u64]) -> u64 {
        let amount = amounts.get(class).copied().unwrap_or(0);
        share(u128::from(amount), self.capacity[unit * self.classes + class])
    }

    /// The utilisation that some servers add to a unit in a class, without those already counted.
    pub(super) fn shares(
        &self,
        unit: usize,
        class: usize,
        additions: &[Addition],
        is_counted: impl Fn(usize) -> bool,
    ) -> u64 {
        let adds = additions.iter().filter(|it| !it.counted_on.is_some_and(&is_counted));
        adds.map(|it| self.share(unit, class, &it.amounts) * it.servers).sum()
    }

    /// The load that some servers add to a unit with this utilisation, if as many have been added `times` times
    /// since.
    pub(super) fn added(
        &self,
        (unit, used): (usize, &[u64]),
        times: u64,
        additions: &[Addition],
        is_counted: impl Fn(usize) -> bool,
    ) -> u64 {
        let from = unit * self.classes;
        let mut added = 0_u64;
        for class in 0..self.classes {
            let share = self.shares(unit, class, additions, &is_counted);
            let used = used[from + class].saturating_add(share.saturating_mul(times));
            let rise = share.saturating_mul(used.saturating_mul(2).saturating_add(share));
            added = added.saturating_add(rise.saturating_mul(self.weights[from + class]));
        }
        added
    }
}

/// An amount in parts of a capacity. A class without capacity in a unit is not part of its load.
fn share(amount: u128, capacity: u128) -> u64 {
    let share = (amount * FULL + capacity / 2).checked_div(capacity).unwrap_or(0);
    u64::try_from(share).unwrap_or(SHARE_MAX).min(SHARE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::problem::{Goal, Host, PlacementPolicy};

    #[test]
    fn utilisation_is_relative_to_capacity() {
        let host = |capacity: u64, free: u64| Host {
            capacity: vec![capacity, 0],
            free: vec![free, 0],
            ..Host::default()
        };
        let problem = PlacementProblem {
            hosts: vec![host(10, 10), host(20, 20), host(10, 4)],
            policy: PlacementPolicy::of_hosts(Goal::Balance),
            ..PlacementProblem::default()
        };
        let units = CountedUnits::of_policy(&problem);
        let it = Utilisation::of(&problem, &units[0]);
        assert_eq!(it.initial, [0, 0, 0, 0, 60_000, 0]);
        let server = |counted_on: Option<usize>| {
            [Addition { amounts: vec![5, 1].into(), counted_on, servers: 1 }]
        };
        let half = 1_000 * 25_000_u64.pow(2);
        let added = |unit: usize, times: u64| {
            it.added((unit, &it.initial), times, &server(None), |_| false)
        };
        assert_eq!((added(0, 0), added(1, 0)), (2 * half, half));
        assert_eq!(added(1, 1), 3 * half);
        // From 0.6 to 1.1 of a unit of half the size.
        assert_eq!(added(2, 0), 500 * (110_000_u64.pow(2) - 60_000_u64.pow(2)));
        let home = |host: usize| it.added((2, &it.initial), 0, &server(Some(2)), |it| it == host);
        assert_eq!((home(2), home(1)), (0, added(2, 0)));
    }
}
