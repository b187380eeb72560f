//! The remaining capacity of the pools, and the ways in which bundles draw on them.

#![expect(clippy::indexing_slicing, reason = "bundles, hosts and pools are numbered densely")]

use super::packing::{Item, give, is_left, pack, pack_greedily, rest, take};
use crate::solver::budget::Budget;
use crate::solver::model::{ByHost, Demand, Model};
use crate::solver::parallel::map_shares;
use crate::solver::problem::Draws;

/// The remaining capacity of the pools.
///
/// Whenever a bundle is placed on a host, the ways of the other bundles there may change to make room. So whether a
/// bundle fits depends on the bundles on the host, and not on their current ways. The draws of a bundle on shared
/// pools are its variant, which only the search changes.
///
/// *Example.* A host has two NUMA nodes with 3 VCPU each. Servers of 1 VCPU are on both nodes, so 2 are left on
/// each. For a server of 3 VCPU, one of them moves to the node of the other.
#[derive(Clone, Debug)]
pub(super) struct Capacity<'p> {
    model: &'p Model<'p>,
    left: Vec<u64>,
    /// For each shared pool, the maximum draw of one bundle.
    most: Vec<u64>,
    /// The shared pools that had less left than that before or after the last change: the slots of their hosts must
    /// be computed again.
    pub(super) tight: Vec<usize>,
    /// The bundles on each host that have a choice.
    with_choice: Vec<Vec<usize>>,
    /// For each bundle that has a choice and is placed, for each server, the way of each part.
    chosen: Vec<Vec<Vec<usize>>>,
    /// The amounts that [`Self::fits_greedily`] takes temporarily.
    taken: Vec<(usize, u64)>,
}

impl<'p> Capacity<'p> {
    pub(super) fn new(model: &'p Model<'p>, budget: &mut Budget<'_>) -> Self {
        let pools = &model.problem.pools;
        let mut most = vec![0; pools.len()];
        if model.sizes.shared.contains(&true) {
            for load in &model.loads {
                model.sizes.most(load, &mut most, budget);
            }
        }
        Self {
            model,
            left: model.problem.free(),
            most,
            tight: Vec::new(),
            with_choice: vec![Vec::new(); model.problem.hosts.len()],
            chosen: vec![Vec::new(); model.bundles.len()],
            taken: Vec::new(),
        }
    }

    /// The [slots](Self::slots) of each load on each host, load by load, while nothing has been drawn. They are
    /// incomplete if the budget is spent.
    pub(super) fn all_slots(&self, own_left: &ByHost, budget: &mut Budget<'_>) -> Vec<u16> {
        let (hosts, loads) = (self.model.problem.hosts.len(), self.model.loads.len());
        let all: Vec<usize> = (0..hosts).collect();
        // Each thread has a capacity of its own, to try ways on. The capacity of hosts is read once for all loads.
        let found = map_shares(&all, hosts, budget, |hosts, budget| {
            let mut capacity = self.clone();
            let mut slots = Vec::with_capacity(loads * hosts.len());
            for host in hosts {
                for load in 0..loads {
                    if budget.is_spent_after(8) {
                        return slots;
                    }
                    slots.push(capacity.slots(load, *host, (&own_left[*host], true), budget));
                }
            }
            slots
        });
        let mut slots = vec![0; loads * hosts];
        let by_host = found.iter().flatten().flat_map(|found| found.chunks_exact(loads.max(1)));
        for (host, of_host) in by_host.enumerate() {
            for (load, it) in of_host.iter().enumerate() {
                slots[load * hosts + host] = *it;
            }
        }
        slots
    }

    /// An upper bound on the number of bundles of a load that fit on a host, which is zero exactly if not even one
    /// fits. `own_left` is the remainder of private pools there, by class; `is_first`: nothing has been drawn so
    /// far.
    pub(super) fn slots(
        &mut self,
        load: usize,
        host: usize,
        (own_left, is_first): (&[u128], bool),
        budget: &mut Budget<'_>,
    ) -> u16 {
        let model = self.model;
        let needs = || model.loads[load].least_own.iter().zip(own_left);
        // The bundle draws at least this on private pools on any host.
        if needs().any(|(need, left)| u128::from(*need) > *left) {
            return 0;
        }
        let slots = self.slots_of_pools(load, host, is_first, budget);
        if slots != u16::MAX {
            return slots;
        }
        let fit = needs().filter(|(need, _)| **need > 0);
        let fit = fit.map(|(need, left)| left / u128::from(*need)).min();
        let fit = fit.and_then(|fit| u16::try_from(fit).ok());
        fit.map_or(slots, |fit| fit.max(1))
    }

    /// The same, for each pool alone.
    fn slots_of_pools(
        &mut self,
        load: usize,
        host: usize,
        is_first: bool,
        budget: &mut Budget<'_>,
    ) -> u16 {
        match self.model.loads[load].at(host) {
            Demand::Never => 0,
            Demand::Plain(draws) => {
                if !is_left(&self.left, draws) {
                    return 0;
                }
                // Shared pools change too often to be counted here.
                let own = draws.iter().filter(|(pool, _)| !self.model.sizes.shared[*pool]);
                let slots = own.map(|(pool, amount)| self.left[*pool] / amount).min();
                slots_of(slots.unwrap_or(u64::MAX))
            }
            Demand::Choice(sizes) => {
                budget.is_spent_after(2 * sizes.len());
                let known = if is_first { self.fit_at_first(sizes, host) } else { None };
                if known == Some(false) {
                    return 0;
                }
                if known.is_none() && !self.fits_greedily(sizes, host, budget) {
                    let servers = self.model.sizes.servers(sizes, host);
                    let own = servers.iter().map(|(size, server)| Item::new(*size, *server, None));
                    if self.ways_beside(own.collect(), host, budget).is_none() {
                        return 0;
                    }
                }
                let most = if is_first {
                    self.most_at_first(sizes, host)
                } else {
                    self.most_in_parts(load, sizes, host, budget)
                };
                most.max(1)
            }
        }
    }

    /// Returns whether servers of these sizes fit on a host while nothing has been drawn, if that is known.
    fn fit_at_first(&self, sizes: &[usize], host: usize) -> Option<bool> {
        let (first, others) = sizes.split_first()?;
        if others.iter().any(|size| size != first) {
            return None;
        }
        self.model.sizes.choice(*first, host)?.fit_at_first(sizes.len())
    }

    /// The result of [`Self::most_in_parts`] while nothing has been drawn.
    fn most_at_first(&self, sizes: &[usize], host: usize) -> u16 {
        let equal = sizes.chunk_by(|one, other| one == other);
        let most = equal.filter_map(|equal| {
            let server = self.model.sizes.choice(*equal.first()?, host)?;
            Some(server.most_at_first() / equal.len() as u64)
        });
        slots_of(most.fold(u64::MAX, u64::min))
    }

    /// Returns whether servers of these sizes fit if the ways of the bundles on the host stay as they are, and each
    /// part in turn takes the way that leaves least. `false` proves nothing. It needs no memory, so it is tried
    /// first.
    fn fits_greedily(&mut self, sizes: &[usize], host: usize, budget: &mut Budget<'_>) -> bool {
        let sizes = sizes.iter().map(|size| self.model.sizes.choice(*size, host));
        let mut fits = true;
        for server in sizes {
            let Some(server) = server.filter(|server| fits && !server.is_coupled()) else {
                fits = false;
                break;
            };
            for part in server.parts() {
                budget.is_spent_after(2 + 4 * part.ways.len());
                let ways = part.ways.iter();
                let ways = ways.filter_map(|way| Some((rest(&self.left, &way.draws)?, way)));
                let Some((_, way)) = ways.min_by_key(|(rest, _)| *rest) else {
                    fits = false;
                    break;
                };
                take(&mut self.left, &way.draws);
                self.taken.extend_from_slice(&way.draws);
            }
        }
        give(&mut self.left, &self.taken);
        self.taken.clear();
        fits
    }

    /// An upper bound on the number of further bundles that fit: by the part of a server with the least supply, if
    /// no other load were on the host.
    fn most_in_parts(
        &mut self,
        load: usize,
        sizes: &[usize],
        host: usize,
        budget: &mut Budget<'_>,
    ) -> u16 {
        let others = self.others(host);
        for (item, ways) in &others {
            item.give(&mut self.left, ways);
        }
        let mut most = u64::MAX;
        for equal in sizes.chunk_by(|one, other| one == other) {
            let Some(server) = equal.first().and_then(|it| self.model.sizes.choice(*it, host))
            else {
                continue;
            };
            for part in server.parts() {
                budget.is_spent_after(4 * part.ways.len());
                let times = |draws: &[(usize, u64)]| {
                    draws.iter().map(|(pool, amount)| self.left[*pool] / amount).min()
                };
                let supplied = part.ways.iter().map(|way| times(&way.draws).unwrap_or(u64::MAX));
                let supplied = supplied.fold(0_u64, u64::saturating_add);
                most = most.min(supplied / equal.len() as u64);
            }
        }
        for (item, ways) in &others {
            item.take(&mut self.left, ways);
        }
        let model = self.model;
        let of_load = self.with_choice[host].iter();
        let placed = of_load.filter(|bundle| model.bundles[**bundle].load == load).count();
        slots_of(most.saturating_sub(placed as u64))
    }

    /// Takes the draws of a variant of a bundle. Returns false if it does not fit.
    pub(super) fn take(
        &mut self,
        bundle: usize,
        host: usize,
        variant: usize,
        budget: &mut Budget<'_>,
    ) -> bool {
        self.tight.clear();
        match self.demand(bundle, host) {
            Demand::Never => false,
            Demand::Plain(draws) => {
                let fits = is_left(&self.left, draws);
                if fits {
                    take(&mut self.left, draws);
                    self.find_tight(draws);
                }
                fits
            }
            Demand::Choice(sizes) => {
                let servers = self.model.sizes.servers(sizes, host);
                budget.is_spent_after(8 * servers.len());
                let sources = self.model.sizes.variant(sizes, host, variant);
                let own = servers.iter().zip(sources);
                let own = own.map(|((size, server), it)| Item::new(*size, *server, Some(it)));
                let own: Vec<Item<'_>> = own.collect();
                let Some(mut ways) = self.ways_beside(own.clone(), host, budget) else {
                    return false;
                };
                let others = ways.split_off(own.len());
                self.choose_again(host, others);
                own.iter().zip(&ways).for_each(|(item, ways)| item.take(&mut self.left, ways));
                self.chosen[bundle] = ways;
                self.with_choice[host].push(bundle);
                self.find_tight(&self.shared_draws(bundle, host));
                true
            }
        }
    }

    /// Returns the draws of a bundle.
    pub(super) fn give_back(&mut self, bundle: usize, host: usize) {
        self.tight.clear();
        match self.demand(bundle, host) {
            Demand::Never => {}
            Demand::Plain(draws) => {
                self.find_tight(draws);
                give(&mut self.left, draws);
            }
            Demand::Choice(_) => {
                self.find_tight(&self.shared_draws(bundle, host));
                for (item, ways) in self.items(bundle, host) {
                    item.give(&mut self.left, &ways);
                }
                self.chosen[bundle].clear();
                self.with_choice[host].retain(|other| *other != bundle);
            }
        }
    }

    /// For each server of a placed bundle, the ways of its parts, by position in the problem.
    pub(super) fn ways(&self, bundle: usize, host: usize) -> Vec<Vec<usize>> {
        match self.demand(bundle, host) {
            Demand::Choice(sizes) => {
                let servers = self.model.sizes.servers(sizes, host);
                let chosen = servers.iter().zip(&self.chosen[bundle]);
                chosen.map(|((_, server), ways)| server.positions(ways)).collect()
            }
            Demand::Never | Demand::Plain(_) => {
                vec![Vec::new(); self.model.bundles[bundle].servers.len()]
            }
        }
    }

    /// Ways for some servers together with the bundles on the host. If the ways of these bundles must change, they
    /// follow in the result.
    fn ways_beside(
        &mut self,
        own: Vec<Item<'p>>,
        host: usize,
        budget: &mut Budget<'_>,
    ) -> Option<Vec<Vec<usize>>> {
        let pools = &self.model.problem.pools;
        if self.with_choice[host].is_empty() {
            return pack(&own, pools, &mut self.left, budget);
        }
        if let Some(ways) = pack_greedily(&own, &mut self.left, budget) {
            return Some(ways);
        }
        let others = self.others(host);
        for (item, ways) in &others {
            item.give(&mut self.left, ways);
        }
        let mut all = own;
        all.extend(others.iter().map(|(item, _)| item.clone()));
        let packed = pack(&all, pools, &mut self.left, budget);
        for (item, ways) in &others {
            item.take(&mut self.left, ways);
        }
        packed
    }

    /// Changes the ways of the servers on a host to these; an empty list changes nothing.
    fn choose_again(&mut self, host: usize, ways: Vec<Vec<usize>>) {
        if ways.is_empty() {
            return;
        }
        for (item, ways) in self.others(host) {
            item.give(&mut self.left, &ways);
        }
        let mut ways = ways.into_iter();
        for nth in 0..self.with_choice[host].len() {
            let bundle = self.with_choice[host][nth];
            let servers = self.chosen[bundle].len();
            self.chosen[bundle] = ways.by_ref().take(servers).collect();
            for (item, ways) in self.items(bundle, host) {
                item.take(&mut self.left, &ways);
            }
        }
    }

    /// The servers of the bundles on a host that have a choice, with their ways.
    fn others(&self, host: usize) -> Vec<(Item<'p>, Vec<usize>)> {
        let bundles = self.with_choice[host].iter();
        bundles.flat_map(|bundle| self.items(*bundle, host)).collect()
    }

    /// The servers of a placed bundle with their ways. Their draws on shared pools stay fixed.
    fn items(&self, bundle: usize, host: usize) -> Vec<(Item<'p>, Vec<usize>)> {
        let Demand::Choice(sizes) = self.demand(bundle, host) else { return Vec::new() };
        let servers = self.model.sizes.servers(sizes, host).into_iter().zip(&self.chosen[bundle]);
        let item = |((size, server), ways): ((usize, _), &Vec<usize>)| {
            (Item::keeping_sources(size, server, ways), ways.clone())
        };
        servers.map(item).collect()
    }

    /// The draws of a placed bundle on shared pools.
    fn shared_draws(&self, bundle: usize, host: usize) -> Draws {
        let items = self.items(bundle, host);
        let draws = items.iter().flat_map(|(item, ways)| item.draws(ways));
        draws.filter(|(pool, _)| self.model.sizes.shared[*pool]).copied().collect()
    }

    fn demand(&self, bundle: usize, host: usize) -> Demand<'p> {
        self.model.loads[self.model.bundles[bundle].load].at(host)
    }

    fn find_tight(&mut self, draws: &[(usize, u64)]) {
        let is_tight = |pool: &usize| self.left[*pool] < self.most[*pool];
        self.tight.extend(draws.iter().map(|(pool, _)| *pool).filter(is_tight));
    }
}

/// The slots for a number of bundles. They are an upper bound, and more are never needed.
fn slots_of(bundles: u64) -> u16 {
    u16::try_from(bundles).unwrap_or(u16::MAX)
}
