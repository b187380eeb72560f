//! How many more requests fit: in total, by host, and by group of hosts.
//!
//! A request *fits n times* if n consumers can each get one of its allocation candidates, one after the
//! other, and all of them together. Where one provider serves a host and nothing is shared, the number
//! follows from what is free of each class, and is exact ([`flat`]). Elsewhere providers supply parts of a
//! request in many ways, and to find the most is a packing problem. There the number has two bounds:
//! [`packing`] claims candidates until none is left, so at least as many fit; [`upper_bound`] leaves
//! conditions out until what remains can be counted, so at most as many do. If both are equal, the number
//! is exact.
//!
//! *Example.* A host has two NUMA nodes with 6 VCPU free each. A request for two groups of 4 VCPU fits
//! once: each node can supply one group. The sum of what is free, 12 VCPU, would do for one as well; with
//! 7 VCPU free at each node it would not say so much.
//!
//! | module | does |
//! |---|---|
//! | [`offers`] | collects the options that a tree has for each part of a request |
//! | [`stock`] | numbers what trees can draw on, with what is left of it |
//! | [`flat`] | counts on hosts of one provider, a block of slots at a time |
//! | [`packing`] | claims candidates of a tree until none is left |
//! | [`upper_bound`] | bounds from above what trees can supply |
//! | [`flow`] | the maximum flow from trees to what is shared with them |
//! | [`total`] | bounds for several trees, which may share |
//! | [`grouping`] | divides hosts by the traits or aggregates of their roots |
//! | [`question`], [`answer`] | what is asked, and what is answered |
//! | [`count`] | goes through all trees |
//! | [`fragments`] | finds what is free, but of no use |
//! | [`emptied`] | finds where the request would fit if nothing were allocated |

mod answer;
mod count;
mod emptied;
mod flat;
mod flow;
mod fragments;
mod grouping;
mod offers;
mod packing;
mod question;
mod stock;
mod total;
mod upper_bound;

pub use self::answer::{Bounds, Fit, GroupFit, HostFit};
use self::count::{Count, HostCount};
pub(super) use self::emptied::{Empty, count_empty, fits_on};
pub use self::fragments::{
    ClassFragment, CommonFragments, Fragment, Fragmentation, HostFragments, RequestFragments,
    fragmentation,
};
use self::grouping::Groups;
pub use self::question::{Excluded, GroupBy, Question};
use super::engine;
use super::request::Unknown;
use crate::world::World;

/// Counts how often a request fits. `is_enough` is told the work that was done since the last call, in
/// numbers read; if it returns true, the rest of the hosts is left out.
///
/// # Errors
/// The request names something unknown.
pub fn fit(
    world: &World,
    question: &Question<'_>,
    mut is_enough: impl FnMut(usize) -> bool,
) -> Result<Fit, Unknown> {
    let query = engine::resolve(world, question.request)?;
    let mut count = Count::new(world, &query, question.excluded);
    let are_examined = count.all(&mut is_enough);
    let (total, is_counted) = count.total(None, &mut is_enough);
    let groups = question.by.map_or_else(Groups::default, |by| Groups::of(world, by, &count));
    let group_count = groups.len();
    let (groups, are_complete) = groups.counted(&mut count, question.names_max, &mut is_enough);
    let hosts = count.hosts().iter().filter(|it| it.is_host);
    let best = best(hosts.clone(), question.names_max);
    let host = |it: &HostCount| HostFit { root: world.occupied(it.root).id(), fits: it.fits };
    Ok(Fit {
        is_complete: are_examined && is_counted && are_complete,
        total,
        fitting: hosts.filter(|it| it.fits.at_least > 0).count(),
        hosts: best.into_iter().map(host).collect(),
        group_count,
        groups,
    })
}

/// The hosts where most fit, best first.
fn best<'c>(hosts: impl Iterator<Item = &'c HostCount>, most: usize) -> Vec<&'c HostCount> {
    let key = |it: &&HostCount| {
        let Bounds { at_least, at_most } = it.fits;
        (std::cmp::Reverse((at_least, at_most)), it.root)
    };
    let mut best: Vec<&HostCount> = hosts.collect();
    if let Some(last) = most.checked_sub(1).filter(|last| *last < best.len()) {
        best.select_nth_unstable_by_key(last, key);
    }
    best.truncate(most);
    best.sort_unstable_by_key(key);
    best
}
