//! Counts the requests that fit: in total, by host, and by group of hosts.
//!
//! A request *fits n times* if n consumers can each get one of its allocation candidates, one after the
//! other, and all of them together. Where one provider serves a host and nothing is shared, the number
//! follows from the free capacity of each class, and is exact ([`flat`]). Elsewhere providers supply parts
//! of a request in many ways, and the maximum is a packing problem. There the number has two bounds:
//! [`packing`] claims candidates until none is left, which gives a lower bound; [`upper_bound`] drops
//! conditions until the remainder can be counted. If both are equal, the number is exact.
//!
//! *Example.* A host has two NUMA nodes with 6 VCPU free each. A request for two groups of 4 VCPU fits
//! once: each node can supply one group. The sum, 12 VCPU, gives the same bound; with 7 VCPU free at each
//! node it would not.
//!
//! | module | does |
//! |---|---|
//! | [`offers`] | collects the options of a tree for each part of a request |
//! | [`stock`] | numbers the pools of trees, with their remaining capacity |
//! | [`flat`] | counts on hosts of one provider, a block of slots at a time |
//! | [`packing`] | claims candidates of a tree until none is left |
//! | [`upper_bound`] | an upper bound for trees |
//! | [`flow`] | the maximum flow from trees to their sharing providers |
//! | [`total`] | bounds for several trees, with common sharing providers |
//! | [`grouping`] | divides hosts by the traits or aggregates of their roots |
//! | [`parameters`], [`result`] | the parameters and the result |
//! | [`count`] | goes through all trees |
//! | [`fragments`] | finds free capacity that requests cannot use |
//! | [`emptied`] | finds the trees where the request would fit if nothing were allocated |

mod count;
mod emptied;
mod flat;
mod flow;
mod fragments;
mod grouping;
mod offers;
mod packing;
mod parameters;
mod result;
mod stock;
mod total;
mod upper_bound;

use self::count::{Count, HostCount};
pub(super) use self::emptied::{Empty, count_empty, fits_on};
pub use self::fragments::{
    ClassFragment, CommonFragments, Fragment, Fragmentation, HostFragments, RequestFragments,
    fragmentation,
};
use self::grouping::Groups;
pub use self::parameters::{CountParameters, Excluded, GroupBy};
pub use self::result::{Bounds, Fit, GroupFit, HostFit};
use super::engine;
use super::request::Unknown;
use crate::world::World;

/// Counts the requests that fit. `is_enough` receives the work since the last call, in numbers read; if it returns
/// true, the remaining hosts are skipped.
///
/// # Errors
/// The request names something unknown.
pub fn fit(
    world: &World,
    parameters: &CountParameters<'_>,
    mut is_enough: impl FnMut(usize) -> bool,
) -> Result<Fit, Unknown> {
    let query = engine::resolve(world, parameters.request)?;
    let mut count = Count::new(world, &query, parameters.excluded);
    let are_examined = count.all(&mut is_enough);
    let (total, is_counted) = count.total(None, &mut is_enough);
    let groups = parameters.by.map_or_else(Groups::default, |by| Groups::of(world, by, &count));
    let group_count = groups.len();
    let (groups, are_complete) = groups.counted(&mut count, parameters.names_max, &mut is_enough);
    let hosts = count.hosts().iter().filter(|it| it.is_host);
    let best = best(hosts.clone(), parameters.names_max);
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
