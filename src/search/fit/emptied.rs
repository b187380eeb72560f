//! Finds the trees where a request would fit if nothing were allocated, and checks whether it fits on one host.

use super::super::query::Query;
use super::count::Count;
use super::offers::Offers;
use super::packing::{Order, Packer};
use super::parameters::Excluded;
use super::stock::Stock;
use crate::search::query::QueryInWorld;
use crate::world::World;
use crate::world::set::Set;

/// Trees where a request would fit.
pub(in crate::search) struct Empty {
    /// The slot of the root of a tree where it fits now.
    pub(in crate::search) fitting: Option<u32>,
    /// The slots of the roots of all trees where it would fit if nothing were allocated.
    pub(in crate::search) roots: Vec<u32>,
    /// Whether all trees were examined, and decided as to whether the request fits now.
    pub(in crate::search) is_complete: bool,
}

/// Finds the trees.
pub(in crate::search) fn count_empty(
    world: &World,
    query: &Query,
    excluded: &Excluded,
    is_enough: &mut impl FnMut(usize) -> bool,
) -> Empty {
    let mut count = Count::new(world, query, excluded);
    let mut is_complete = count.all(is_enough);
    let is_decided = count.is_decided();
    let fitting = count.hosts().iter().find(|host| host.fits.at_least > 0);
    let fitting = fitting.map(|host| host.root);
    let mut roots = Vec::new();
    if fitting.is_none() && is_complete {
        let query = emptied(query);
        let mut count = Count::new(world, &query, excluded);
        is_complete = count.all(is_enough);
        roots.extend(count.hosts().iter().map(|host| host.root));
    }
    Empty { fitting, roots, is_complete: is_complete && is_decided }
}

/// The query in a world without allocations.
fn emptied(query: &Query) -> Query {
    let mut query = query.clone();
    let amounts = query.parts.iter_mut().flat_map(|part| &mut part.amounts);
    for amount in amounts.chain(&mut query.contended) {
        amount.column = amount.column.emptied();
    }
    query
}

/// Returns whether the request fits on the tree with this root; `None` if the limit on the work for one tree was
/// reached.
pub(in crate::search) fn fits_on(world: &World, query: &Query, root: u32) -> Option<bool> {
    if query.hopeless || !query.anchor.admits(root) {
        return Some(false);
    }
    let mut offers = Offers::new();
    let (Some(offer), _) = offers.collect(world, query, root, &Set::default()) else {
        return Some(false);
    };
    let mut stock = Stock::default();
    let tree = stock.add(world, query, &offer);
    let mut packer = Packer::default();
    let fits = packer.pack(&mut stock, QueryInWorld { world, query }, tree, Order::Spread) > 0;
    (fits || !packer.gave_up()).then_some(fits)
}
