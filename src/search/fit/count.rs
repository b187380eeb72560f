//! Counts the requests that fit on each tree alone.

use super::super::anchors::solo;
use super::super::funnel::is_host;
use super::super::part::{Precision, and, and_not, pop};
use super::super::query::Query;
use super::super::steps::WORK_BETWEEN;
use super::flat::Totals;
use super::offers::Offers;
use super::packing::{Order, Packer};
use super::parameters::Excluded;
use super::result::Bounds;
use super::stock::Stock;
use super::total::{Sharer, shared_bounds};
use super::upper_bound;
use crate::search::query::QueryInWorld;
use crate::world::World;
use crate::world::set::BLOCK;

/// The count of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostCount {
    /// The slot of the root of its tree.
    pub(super) root: u32,
    /// Number of requests that fit on it alone.
    pub(super) fits: Bounds,
    /// Its number among the trees that use sharing providers, if it is one of them.
    tree: Option<usize>,
    /// Whether the tree has inventory of its own that it does not share. If not, it is no host, but the request may
    /// fit on its sharing providers.
    pub(super) is_host: bool,
}

/// The count in progress.
pub(super) struct Count<'w> {
    world: &'w World,
    query: &'w Query,
    excluded: &'w Excluded,
    /// The trees where the request may fit, ascending by slot.
    hosts: Vec<HostCount>,
    /// The slot up to which trees were examined, by the slots of their roots.
    examined: u32,
    /// Whether it was decided for each examined host if the request fits.
    is_decided: bool,
    /// Whether a sharing provider can supply any part.
    are_shared: bool,
    offers: Offers,
    packer: Packer,
    /// The stock of the trees that use sharing providers.
    shared: Stock,
    /// The stock of any one other tree.
    own: Stock,
}

impl<'w> Count<'w> {
    /// Starts a count.
    pub(super) fn new(world: &'w World, query: &'w Query, excluded: &'w Excluded) -> Self {
        let there = |slot: &u32| !excluded.lost.contains(world.place(*slot).root);
        let may_share = |slot| query.parts.iter().any(|part| part.may_share(world, slot));
        Self {
            world,
            query,
            excluded,
            hosts: Vec::new(),
            examined: 0,
            is_decided: true,
            are_shared: query.sharing.iter().filter(there).any(may_share),
            offers: Offers::new(),
            packer: Packer::default(),
            shared: Stock::default(),
            own: Stock::default(),
        }
    }

    /// The trees where the request may fit, ascending by slot.
    pub(super) fn hosts(&self) -> &[HostCount] {
        &self.hosts
    }

    /// The slot up to which trees were examined, by the slots of their roots.
    pub(super) fn examined(&self) -> u32 {
        self.examined
    }

    /// Returns whether it was decided for each examined host if the request fits.
    pub(super) fn is_decided(&self) -> bool {
        self.is_decided
    }

    /// Returns whether a tree is excluded entirely.
    pub(super) fn is_lost(&self, root: u32) -> bool {
        self.excluded.lost.contains(root)
    }

    /// Counts on each tree. Returns whether all were examined.
    pub(super) fn all(&mut self, is_enough: &mut impl FnMut(usize) -> bool) -> bool {
        let end = self.world.end();
        if self.query.hopeless {
            self.examined = end;
            return true;
        }
        let totals = Totals::of(self.query);
        for block in 0..end.div_ceil(BLOCK) {
            let Some(work) = self.block(block, &totals, is_enough) else { break };
            self.examined = end.min((block + 1) * BLOCK);
            if is_enough(work) {
                break;
            }
        }
        self.hosts.sort_unstable_by_key(|host| host.root);
        self.examined == end
    }

    /// Counts on the trees whose root is in a block. Returns the work not yet reported, in numbers read; `None` if
    /// the limit was reached before the end.
    fn block(
        &mut self,
        block: u32,
        totals: &Totals,
        is_enough: &mut impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let Self { world, query, excluded, .. } = *self;
        let out = [&excluded.lost, &excluded.closed].map(|set| set.words(block));
        let roots = out.into_iter().fold(world.roots().words(block), and_not);
        let roots = query.anchor.words(block, roots);
        let lone = and(roots, world.lone().words(block));
        let mut apart = and_not(lone, query.sharing.words(block));
        if self.are_shared {
            apart = and_not(apart, world.anchored().words(block));
        }
        let mut work = 16 * (1 + query.parts.len());
        if !query.keeps_apart() {
            let fitting = solo(query, block, apart, Precision::Exact);
            let hosts = &mut self.hosts;
            work += totals.count(block, fitting, |root, number| {
                // None of these uses sharing providers.
                let fits = Bounds::exactly(number);
                hosts.push(HostCount { root, fits, tree: None, is_host: true });
            });
        }
        let mut rest = and_not(roots, apart);
        if rest != [0; 4] {
            self.offers.look_at(query, block);
        }
        while let Some(root) = pop(&mut rest, block) {
            work += self.tree(root);
            if work > WORK_BETWEEN && is_enough(std::mem::take(&mut work)) {
                return None;
            }
        }
        Some(work)
    }

    /// Counts on a tree. Returns the work.
    fn tree(&mut self, root: u32) -> usize {
        let Self { world, query, .. } = *self;
        let (offer, mut work) = self.offers.collect(world, query, root, &self.excluded.lost);
        let Some(offer) = offer else { return work };
        let (stock, is_shared) = if offer.choices.iter().any(|it| query.sharing.contains(it.slot)) {
            (&mut self.shared, true)
        } else {
            self.own.clear();
            (&mut self.own, false)
        };
        let tree = stock.add(world, query, &offer);
        let mut at_most = upper_bound::of_tree(stock, query, tree);
        let mut at_least = 0;
        for order in Order::ALL {
            if at_least < at_most {
                stock.refill(tree);
                at_least = at_least.max(self.packer.pack(
                    stock,
                    QueryInWorld { world, query },
                    tree,
                    order,
                ));
            }
        }
        work += self.packer.take_work() + 16 * offer.choices.len();
        if at_least == 0 && at_most > 0 {
            let mut found = Some(false);
            if self.packer.gave_up() {
                let of_search;
                (found, of_search) = self.offers.has_candidate(world, query, root);
                work += of_search;
            }
            // Without the excluded providers, a tree that has a candidate may have none.
            at_least = u64::from(found == Some(true) && self.excluded.lost.is_empty());
            at_most = if found == Some(false) { 0 } else { at_most };
        }
        self.is_decided &= at_least > 0 || at_most == 0;
        if at_most > 0 {
            let tree = is_shared.then_some(tree);
            let is_host = is_host(world)(&world.occupied(root));
            self.hosts.push(HostCount { root, fits: Bounds { at_least, at_most }, tree, is_host });
        }
        work
    }

    /// Bounds for all hosts together, or for some, given by position. Also returns whether the work stayed within
    /// its limit; if not, only the lower bound is right.
    pub(super) fn total(
        &mut self,
        of: Option<&[usize]>,
        is_enough: &mut impl FnMut(usize) -> bool,
    ) -> (Bounds, bool) {
        let mut sum = Bounds::default();
        let mut sharers = Vec::new();
        let mut add = |host: &HostCount| match host.tree {
            None => sum = sum.plus(host.fits),
            Some(tree) => sharers.push(Sharer { tree, alone: host.fits }),
        };
        match of {
            None => self.hosts.iter().for_each(&mut add),
            Some(some) => some.iter().filter_map(|nth| self.hosts.get(*nth)).for_each(&mut add),
        }
        if sharers.is_empty() {
            return (sum, true);
        }
        let Self { world, query, packer, shared, .. } = self;
        let (together, is_complete) =
            shared_bounds(shared, packer, QueryInWorld { world, query }, sharers, is_enough);
        (sum.plus(together), is_complete)
    }
}
