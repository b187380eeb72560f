//! An upper bound of the number of requests that fit: it drops conditions until the remainder can be counted.
//!
//! * Each request takes one option for each part, so the options of one part bound the number.
//! * Parts that take the same class draw on the same pools, so these together bound the number.
//! * Parts that must be at different providers use each provider at most once.
//! * Each clause of required traits needs an option that meets it.

#![expect(clippy::indexing_slicing, reason = "parts are numbered densely")]

use std::collections::HashSet;

use super::super::query::Query;
use super::stock::{Stock, Supply};

/// The bound of one tree alone.
pub(super) fn of_tree(stock: &Stock, query: &Query, tree: usize) -> u64 {
    let takers = (0..query.parts.len()).filter(|part| !query.parts[*part].amounts.is_empty());
    let parts = takers.map(|part| {
        let times = stock.part(tree, part).iter().filter_map(|supply| stock.times(supply));
        times.fold(0, u64::saturating_add)
    });
    let by_part = parts.min().unwrap_or(u64::MAX);
    by_part.min(of_classes(stock, query, &[tree])).min(of_clauses(stock, query, tree))
}

/// The bound by the classes that several parts take, for trees together.
pub(super) fn of_classes(stock: &Stock, query: &Query, trees: &[usize]) -> u64 {
    let mut least = u64::MAX;
    for class in 0..query.contended.len() {
        least = least.min(of_class(stock, query, trees, class, |_| true));
        if query.keeps_apart() {
            least = least.min(of_apart(stock, query, trees, class));
        }
    }
    least
}

/// The free amounts in the pools of a contended class that parts draw on, and the amount that each part takes.
fn free(
    stock: &Stock,
    query: &Query,
    trees: &[usize],
    class: usize,
    counts: impl Fn(usize) -> bool,
) -> (Vec<u64>, Vec<u64>) {
    let mut known = HashSet::new();
    let (mut free, mut units) = (Vec::new(), Vec::new());
    for (part, it) in query.parts.iter().enumerate().filter(|(part, _)| counts(*part)) {
        let at = it.amounts.iter().position(|amount| amount.contended == Some(class));
        let Some(at) = at else { continue };
        units.push(it.amounts[at].units.max(1).unsigned_abs());
        let supplies = trees.iter().flat_map(|tree| stock.part(*tree, part));
        for draw in supplies.filter_map(|supply| stock.draws(supply).get(at)) {
            if known.insert(draw.pool) {
                free.push(stock.pool(draw.pool).free.unsigned_abs());
            }
        }
    }
    (free, units)
}

fn of_class(
    stock: &Stock,
    query: &Query,
    trees: &[usize],
    class: usize,
    counts: impl Fn(usize) -> bool,
) -> u64 {
    let (free, units) = free(stock, query, trees, class, counts);
    let piece = units.iter().copied().fold(0, greatest_divisor).max(1);
    let total: u128 = units.iter().map(|units| u128::from(*units)).sum();
    // If all take the same amount, this is the number of times that it fits.
    let usable: u128 = free.iter().map(|free| u128::from(free - free % piece)).sum();
    usable.checked_div(total).map_or(u64::MAX, saturated)
}

/// Maximum number of requests each of which uses a provider at most once.
fn of_apart(stock: &Stock, query: &Query, trees: &[usize], class: usize) -> u64 {
    let (free, units) = free(stock, query, trees, class, |part| !query.parts[part].spread);
    let Some(least) = units.iter().min().filter(|_| units.len() > 1) else { return u64::MAX };
    let times: Vec<u128> = free.iter().map(|free| u128::from(free / least)).collect();
    let parts = units.len() as u128;
    let suffices = |number: u128| {
        times.iter().map(|times| (*times).min(number)).sum::<u128>() >= parts * number
    };
    let (mut from, mut to) = (0, times.iter().sum::<u128>() / parts);
    while from < to {
        let middle = (from + to).div_ceil(2);
        if suffices(middle) { from = middle } else { to = middle - 1 }
    }
    saturated(from)
}

/// The bound by the clauses of required traits.
fn of_clauses(stock: &Stock, query: &Query, tree: usize) -> u64 {
    let clauses = 0..query.together.len().min(64);
    let of_clause = |nth: usize| {
        let spread = stock.parts(tree).zip(&query.parts).filter(|(_, part)| part.spread);
        let supplies = spread.flat_map(|(supplies, _)| supplies);
        let meeting = supplies.filter(|supply: &&Supply| supply.meets >> nth & 1 == 1);
        meeting.map(|supply| stock.times(supply).unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
    };
    clauses.map(of_clause).min().unwrap_or(u64::MAX)
}

fn greatest_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
