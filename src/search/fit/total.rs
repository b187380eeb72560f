//! Bounds for trees that compete for the same sharing providers.
//!
//! Trees that are connected by sharing providers are counted together. The lower bound claims candidates of one
//! tree after the other. The upper bound is, for each part, the maximum flow from trees, each limited by its own
//! bound, to the pools of the part.

#![expect(clippy::indexing_slicing, reason = "trees and pools are numbered densely")]

use crate::search::query::QueryInWorld;
use std::collections::{BTreeMap, HashMap};

use super::super::query::Query;
use super::flow::{Source, max_flow};
use super::packing::{Order, Packer};
use super::result::Bounds;
use super::stock::{Stock, Supply};
use super::upper_bound::of_classes;

/// A tree that uses sharing providers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharer {
    /// Its number.
    pub(super) tree: usize,
    /// Number of requests that fit on it alone.
    pub(super) alone: Bounds,
}

/// Bounds for these trees together. Also returns whether the work stayed within its limit; if not, only the lower
/// bound is right.
pub(super) fn shared_bounds(
    stock: &mut Stock,
    packer: &mut Packer,
    context: QueryInWorld<'_>,
    sharers: Vec<Sharer>,
    is_enough: &mut impl FnMut(usize) -> bool,
) -> (Bounds, bool) {
    let mut sum = Bounds::default();
    for mut sharers in connected(stock, sharers) {
        if let [alone] = sharers.as_slice() {
            sum = sum.plus(alone.alone);
            continue;
        }
        let (at_most, mut is_stopped) = upper_bound(stock, context.query, &sharers, is_enough);
        // Trees with the fewest sharing providers come first.
        sharers.sort_by_key(|it| (shared(stock, it.tree).count(), it.tree));
        let mut at_least = 0;
        for order in Order::ALL {
            if is_stopped || at_least >= at_most {
                break;
            }
            for sharer in &sharers {
                stock.refill(sharer.tree);
            }
            let mut number: u64 = 0;
            for sharer in &sharers {
                number = number.saturating_add(packer.pack(stock, context, sharer.tree, order));
                is_stopped = is_enough(packer.take_work());
                if is_stopped {
                    break;
                }
            }
            at_least = at_least.max(number);
        }
        sum = sum.plus(Bounds { at_least, at_most });
        if is_stopped {
            return (sum, false);
        }
    }
    (sum, true)
}

/// The options of a tree at sharing providers.
fn shared(stock: &Stock, tree: usize) -> impl Iterator<Item = &Supply> {
    stock.parts(tree).flatten().filter(|supply| supply.is_shared)
}

/// The trees, in groups connected by sharing providers.
fn connected(stock: &Stock, sharers: Vec<Sharer>) -> Vec<Vec<Sharer>> {
    let mut leaders: Vec<usize> = (0..sharers.len()).collect();
    let mut first: HashMap<u32, usize> = HashMap::new();
    for (position, sharer) in sharers.iter().enumerate() {
        for supply in shared(stock, sharer.tree) {
            let other = *first.entry(supply.slot).or_insert(position);
            let (one, other) = (leader(&mut leaders, position), leader(&mut leaders, other));
            leaders[one.max(other)] = one.min(other);
        }
    }
    let mut all: BTreeMap<usize, Vec<Sharer>> = BTreeMap::new();
    for (position, sharer) in sharers.into_iter().enumerate() {
        all.entry(leader(&mut leaders, position)).or_default().push(sharer);
    }
    all.into_values().collect()
}

fn leader(leaders: &mut [usize], mut position: usize) -> usize {
    while leaders[position] != position {
        leaders[position] = leaders[leaders[position]];
        position = leaders[position];
    }
    position
}

/// The upper bound for connected trees. Also returns whether the limit on the work was reached before all parts
/// were examined.
fn upper_bound(
    stock: &Stock,
    query: &Query,
    sharers: &[Sharer],
    is_enough: &mut impl FnMut(usize) -> bool,
) -> (u64, bool) {
    let sum = sharers.iter().map(|it| it.alone.at_most).fold(0, u64::saturating_add);
    let trees: Vec<usize> = sharers.iter().map(|it| it.tree).collect();
    let mut least = sum.min(of_classes(stock, query, &trees));
    if is_enough(sharers.len() * query.parts.len() * 8) {
        return (least, true);
    }
    for (part, it) in query.parts.iter().enumerate() {
        if !it.amounts.is_empty() {
            let (bound, more) = of_part(stock, part, sharers);
            least = least.min(bound);
            if is_enough(more) {
                return (least, true);
            }
        }
    }
    (least, false)
}

/// The maximum flow from trees to the pools of a part.
fn of_part(stock: &Stock, part: usize, sharers: &[Sharer]) -> (u64, usize) {
    let mut own: u64 = 0;
    let mut sinks: HashMap<u32, usize> = HashMap::new();
    let mut capacities = Vec::new();
    // Trees with the same sinks are one source.
    let mut sources: BTreeMap<Vec<usize>, u64> = BTreeMap::new();
    for sharer in sharers {
        let (mut mine, mut reached): (u64, Vec<usize>) = (0, Vec::new());
        for supply in stock.part(sharer.tree, part) {
            let Some(times) = stock.times(supply) else { continue };
            if supply.is_shared {
                reached.push(*sinks.entry(supply.slot).or_insert_with(|| {
                    capacities.push(times);
                    capacities.len() - 1
                }));
            } else {
                mine = mine.saturating_add(times);
            }
        }
        let mine = mine.min(sharer.alone.at_most);
        own = own.saturating_add(mine);
        reached.sort_unstable();
        let rest = sources.entry(reached).or_insert(0);
        *rest = rest.saturating_add(sharer.alone.at_most - mine);
    }
    let sources: Vec<Source> =
        sources.into_iter().map(|(sinks, amount)| Source { amount, sinks }).collect();
    let (flow, work) = max_flow(&sources, &capacities);
    (own.saturating_add(flow), work)
}
