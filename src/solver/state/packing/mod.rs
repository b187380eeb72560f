//! Packing of one host: chooses a way for each part of each server on it, so that all fit together.
//!
//! The problem is divided into independent [components](mod@components): parts that draw on no common pool,
//! directly or through others, are independent unless a condition binds them. A component whose parts draw equal
//! amounts is a bipartite [matching](crate::solver::matching); any other one is a [search](backtracking) that
//! treats interchangeable providers (see [`sites`]) as one, and remembers failures. So nothing grows with the
//! number of combinations that differ only in the names of providers.
//!
//! *Example.* 17 servers of one GPU each on a host with 24 GPUs are a matching of 17 parts to 24 providers. Servers
//! of 2 and 3 VCPU on 8 NUMA nodes are a search in which all nodes with equal remainders are one.

#![expect(clippy::indexing_slicing, reason = "items, parts, ways and pools are numbered densely")]

mod backtracking;
mod components;
mod item;
mod relaxation;
mod sites;

use self::backtracking::solve;
use self::components::components;
pub(super) use self::item::{Item, give, is_left, rest, take};
use crate::solver::budget::Budget;
use crate::solver::model::{PoolTable, ServerChoices};
use crate::solver::problem::{Pool, Supply};

/// Chooses a way for each part of each server so that all together draw no more than is left. Takes
/// nothing.
///
/// The search is exact: it finds such a choice whenever there is one, unless the budget is spent.
pub(super) fn pack(
    items: &[Item<'_>],
    pools: &[Pool],
    left: &mut [u64],
    budget: &mut Budget<'_>,
) -> Option<Vec<Vec<usize>>> {
    if let Some(chosen) = pack_greedily(items, left, budget) {
        return Some(chosen);
    }
    let mut chosen: Vec<Vec<usize>> = items.iter().map(|it| vec![0; it.parts().len()]).collect();
    for component in components(items, budget) {
        let ways = solve(items, &component, pools, left, budget)?;
        for (variable, way) in component.iter().zip(ways) {
            chosen[variable.item][variable.part] = way;
        }
    }
    if budget.is_spent() { None } else { Some(chosen) }
}

/// The same without backtracking: large servers first, each part where it fits best. `None` proves nothing.
pub(super) fn pack_greedily(
    items: &[Item<'_>],
    left: &mut [u64],
    budget: &mut Budget<'_>,
) -> Option<Vec<Vec<usize>>> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    let amounts = |item: &usize| {
        let ways = items[*item].parts().filter_map(|part| part.ways.first());
        ways.flat_map(|way| way.draws.iter()).map(|(_, amount)| u128::from(*amount)).sum::<u128>()
    };
    if items.len() > 1 {
        order.sort_by_cached_key(|item| std::cmp::Reverse(amounts(item)));
    }
    let mut chosen: Vec<Vec<Option<usize>>> =
        items.iter().map(|item| vec![None; item.parts().len()]).collect();
    let mut is_packed = true;
    'items: for nth in &order {
        let (item, ways) = (&items[*nth], &mut chosen[*nth]);
        for (number, part) in item.parts().enumerate() {
            budget.is_spent_after(2 + 4 * part.ways.len());
            let open = (0..part.ways.len()).filter(|way| item.allows(number, *way));
            let best = open
                .filter_map(|way| Some((rest(left, &part.ways[way].draws)?, way)))
                .filter(|(_, way)| {
                    ways[number] = Some(*way);
                    !item.server.is_coupled() || item.server.can_hold(ways)
                })
                .min();
            ways[number] = best.map(|(_, way)| way);
            let Some((_, way)) = best else {
                is_packed = false;
                break 'items;
            };
            take(left, &part.ways[way].draws);
        }
    }
    for (item, ways) in items.iter().zip(&chosen) {
        for (part, way) in item.parts().zip(ways) {
            if let Some(way) = way {
                give(left, &part.ways[*way].draws);
            }
        }
    }
    let complete = || chosen.into_iter().map(|ways| ways.into_iter().collect()).collect();
    if is_packed { complete() } else { None }
}

/// Returns whether a host can supply a server alone. `left` is the content of the pools, and is not changed.
pub(in crate::solver) fn fits_alone(
    supply: &Supply,
    pools: &[Pool],
    left: &mut [u64],
    budget: &mut Budget<'_>,
) -> bool {
    budget.is_spent_after(4 * supply.size());
    if let Supply::One(draws) = supply {
        return draws.iter().all(|(pool, amount)| left.get(*pool).is_some_and(|it| amount <= it));
    }
    let mut choices = ServerChoices::new();
    let number = choices.add(supply, PoolTable { pools, shared: &[] });
    let Some(server) = number.and_then(|number| choices.get(number)) else { return false };
    pack(&[Item::new(0, server, None)], pools, left, budget).is_some()
}

#[cfg(test)]
mod tests;
