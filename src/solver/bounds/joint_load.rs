//! A lower bound on the load that the remaining bundles add together: each class alone, with servers that can be divided
//! at will. docs/solver.md derives it.

#![expect(clippy::indexing_slicing, reason = "units and classes are numbered densely")]

use crate::solver::budget::Budget;
use crate::solver::counted::CountedUnits;
use crate::solver::state::State;
use crate::solver::utilisation::{FULL, SHARE_MAX, Utilisation};

/// Number of price units per unit of the load.
const SCALE: u128 = 1 << 20;
/// Maximum number of rounds that improve a price.
const ROUNDS_MAX: usize = 32;

/// The remaining servers that add to the use of their unit wherever they are.
struct Remaining {
    /// Their number, the sum of their amounts by class, and the largest of these.
    servers: u128,
    amounts: Vec<u128>,
    largest: Vec<u128>,
    /// The units that are open to some of them.
    units: Vec<usize>,
}

/// A unit in one class.
#[derive(Clone, Copy)]
struct Vessel {
    capacity: u128,
    weight: u128,
    used: u128,
}

/// The bound for one level that the policy counts.
pub(super) fn joint_load(state: &State<'_>, level: usize, budget: &mut Budget<'_>) -> u64 {
    let model = state.model;
    let (counted, utilisation) = (&model.counted[level], &model.utilisation[level]);
    let work = model.problem.hosts.len() * (state.unplaced_kinds().count() + utilisation.classes());
    if budget.is_spent_after(work) {
        return 0;
    }
    let remaining = Remaining::of(state, counted, utilisation);
    let used = state.score.used(level);
    let of_class = |class: usize| {
        let vessel = |unit: &usize| Vessel {
            capacity: utilisation.capacity(*unit, class),
            weight: u128::from(utilisation.weight(*unit, class)),
            used: u128::from(used[*unit * utilisation.classes() + class]),
        };
        let vessels: Vec<Vessel> = remaining.units.iter().map(vessel).collect();
        let load = filled(&vessels, remaining.demand(class, &vessels)?)?;
        u64::try_from(load).ok()
    };
    // A class that the bound does not cover adds nothing to it.
    (0..utilisation.classes()).filter_map(of_class).fold(0, u64::saturating_add)
}

impl Remaining {
    fn of(state: &State<'_>, counted: &CountedUnits, utilisation: &Utilisation) -> Self {
        let (model, classes) = (state.model, utilisation.classes());
        let mut servers = 0;
        let (mut amounts, mut largest) = (vec![0; classes], vec![0; classes]);
        let mut is_open = vec![false; counted.count()];
        for (kind, left) in state.unplaced_kinds() {
            let additions = &model.kinds[kind].additions;
            if additions.iter().any(|it| it.counted_on.is_some()) {
                continue;
            }
            for addition in additions {
                let count = u128::from(addition.servers) * left as u128;
                servers += count;
                for (class, amount) in addition.amounts.iter().enumerate() {
                    amounts[class] += count * u128::from(*amount);
                    largest[class] = largest[class].max(u128::from(*amount));
                }
            }
            for host in 0..model.problem.hosts.len() {
                is_open[counted.unit(host)] |= state.domains.is_open(kind, host);
            }
        }
        let units = (0..is_open.len()).filter(|unit| is_open[*unit]).collect();
        Self { servers, amounts, largest, units }
    }

    /// The utilisation, times the capacity of its unit, that the servers add at least; `None` if some may add nothing,
    /// because a unit has no capacity of the class, or less than they need. Utilisations are rounded: a server may add
    /// half a part less.
    fn demand(&self, class: usize, vessels: &[Vessel]) -> Option<u128> {
        let least = vessels.iter().map(|it| it.capacity).min()?;
        let most = vessels.iter().map(|it| it.capacity).max()?;
        let is_cut = self.largest[class] * FULL > least * u128::from(SHARE_MAX);
        if least == 0 || is_cut {
            return None;
        }
        (self.amounts[class] * FULL).checked_sub(self.servers * most.div_ceil(2))
    }
}

/// The least load by which vessels take in a demand; `None` if the numbers are too large.
fn filled(vessels: &[Vessel], demand: u128) -> Option<u128> {
    // The price of the demand: vessels below it are filled up to it.
    let mut active = vessels.to_vec();
    let mut price = 0;
    for _ in 0..ROUNDS_MAX {
        let (mut held, mut widths) = (demand, 0_u128);
        for it in &active {
            held = held.checked_add(it.capacity.checked_mul(it.used)?)?;
            widths = widths.checked_add(it.capacity.checked_mul(it.capacity)? / it.weight)?;
        }
        price = held.checked_mul(2 * SCALE)?.checked_div(widths)?;
        let count = active.len();
        active.retain(|it| it.depth(price).is_some());
        if active.len() == count {
            break;
        }
    }
    let mut load = price.checked_mul(demand)?;
    for it in vessels {
        let Some(depth) = it.depth(price) else { continue };
        let profit = depth.checked_mul(depth)?.div_ceil(4 * it.weight * SCALE);
        // Below zero at a bad price.
        load = load.checked_sub(profit)?;
    }
    Some(load / SCALE)
}

impl Vessel {
    /// The distance from its use to a price, as far as it is below.
    fn depth(&self, price: u128) -> Option<u128> {
        let level = price.saturating_mul(self.capacity);
        level.checked_sub(2 * self.weight * self.used * SCALE).filter(|depth| *depth > 0)
    }
}
