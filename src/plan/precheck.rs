//! Proofs that nothing can be placed, found without searching.

#![expect(clippy::indexing_slicing, reason = "bundles, hosts and units are numbered densely")]

use super::bundle::Bundle;
use super::units::Units;
use super::{Problem, Rule};

/// Whether it can be seen at once that the bundles cannot all be placed.
pub(super) fn is_hopeless(problem: &Problem, units: &Units, bundles: &[Bundle]) -> bool {
    bundles.iter().any(|bundle| !bundle.may_be_on.contains(&true))
        || lacks_room(problem, bundles)
        || problem.rules.iter().enumerate().any(|(number, rule)| match rule {
            Rule::Apart(_, parts) => !can_be_apart(problem, units, bundles, number, parts.len()),
            Rule::Together(..) | Rule::Alone(..) => false,
        })
}

/// Whether bundles that are alike are more than the hosts they may be on have room for, or all
/// bundles need more of something than there is.
fn lacks_room(problem: &Problem, bundles: &[Bundle]) -> bool {
    let alike = |bundle: &&Bundle, like: &Bundle| {
        bundle.needs == like.needs && bundle.may_be_on == like.may_be_on
    };
    let too_many = bundles.iter().any(|like| {
        let wanted = bundles.iter().filter(|bundle| alike(bundle, like)).count();
        let hosts = problem.hosts.iter().zip(&like.may_be_on).filter(|(_, may)| **may);
        let slots = hosts.map(|(host, _)| slots(&host.free, &like.needs, wanted));
        slots.fold(0, usize::saturating_add) < wanted
    });
    let classes = bundles.iter().map(|bundle| bundle.needs.len()).max().unwrap_or(0);
    too_many
        || (0..classes).any(|class| {
            let of = |values: &[u64]| u128::from(values.get(class).copied().unwrap_or(0));
            let need: u128 = bundles.iter().map(|bundle| of(&bundle.needs)).sum();
            let anywhere = |host: usize| bundles.iter().any(|bundle| bundle.may_be_on[host]);
            let hosts = problem.hosts.iter().enumerate().filter(|(nth, _)| anywhere(*nth));
            need > hosts.map(|(_, host)| of(&host.free)).sum()
        })
}

/// How many that need so much fit, `most` at the most.
fn slots(free: &[u64], needs: &[u64], most: usize) -> usize {
    let by_class = needs.iter().enumerate().filter(|(_, need)| **need > 0).map(|(class, need)| {
        let fit = free.get(class).copied().unwrap_or(0) / need;
        usize::try_from(fit).unwrap_or(most)
    });
    by_class.min().unwrap_or(most).min(most)
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
