//! Proofs that nothing can be placed, found without searching.

#![expect(clippy::indexing_slicing, reason = "bundles, hosts and units are numbered densely")]

use super::bundle::Bundle;
use super::clock::Clock;
use super::load::Load;
use super::units::Units;
use super::{Problem, Rule};

/// Whether it can be seen at once that the bundles cannot all be placed. It is of no use once the
/// time is up.
pub(super) fn is_hopeless(
    problem: &Problem,
    units: &Units,
    bundles: &[Bundle],
    loads: &[Load],
    clock: &mut Clock<'_>,
) -> bool {
    bundles.iter().any(|bundle| !bundle.may_be_on.contains(&true))
        || lacks_room(problem, bundles, loads)
        || problem.rules.iter().enumerate().any(|(number, rule)| match rule {
            Rule::Apart(_, parts) => {
                clock.is_up_after(parts.len() * problem.hosts.len());
                !can_be_apart(problem, units, bundles, number, parts.len())
            }
            Rule::Together(..) | Rule::Alone(..) => false,
        })
}

/// Whether all bundles need more of something than there is.
fn lacks_room(problem: &Problem, bundles: &[Bundle], loads: &[Load]) -> bool {
    let classes = problem.pools.iter().map(|pool| pool.class + 1).max().unwrap_or(0);
    (0..classes).any(|class| {
        let least = |bundle: &Bundle| u128::from(loads[bundle.load].least[class]);
        let pools = problem.pools.iter().filter(|pool| pool.class == class);
        bundles.iter().map(least).sum::<u128>() > pools.map(|pool| u128::from(pool.free)).sum()
    })
}

/// Whether the parts of a rule can have a unit each: a matching, by augmenting paths.
fn can_be_apart(
    problem: &Problem,
    units: &Units,
    bundles: &[Bundle],
    number: usize,
    parts: usize,
) -> bool {
    let Some(rule) = problem.rules.get(number) else { return true };
    let level = rule.level();
    // One bundle of a part stands for it: where that cannot be, the part cannot be either.
    let units_of = |part: usize| -> Option<Vec<bool>> {
        let bundle = bundles.iter().find(|it| it.rules.contains(&(number, part)))?;
        let mut open = vec![false; units.count(level)];
        for (host, may) in bundle.may_be_on.iter().enumerate() {
            if let (true, Some(unit)) = (*may, units.unit(level, host)) {
                open[unit] = true;
            }
        }
        Some(open)
    };
    let open: Vec<Vec<bool>> = (0..parts).filter_map(units_of).collect();
    let mut taken: Vec<Option<usize>> = vec![None; units.count(level)];
    (0..open.len())
        .all(|part| find_unit(part, &open, &mut taken, &mut vec![false; units.count(level)]))
}

fn find_unit(
    part: usize,
    open: &[Vec<bool>],
    taken: &mut Vec<Option<usize>>,
    tried: &mut Vec<bool>,
) -> bool {
    for unit in 0..taken.len() {
        if !open[part][unit] || tried[unit] {
            continue;
        }
        tried[unit] = true;
        let holder = taken[unit];
        if holder.is_none_or(|holder| find_unit(holder, open, taken, tried)) {
            taken[unit] = Some(part);
            return true;
        }
    }
    false
}
