//! Loads: the draws of bundles on each host, combined from the ways of their servers.

#![expect(clippy::indexing_slicing, reason = "pools, classes and sizes are numbered densely")]

use std::iter::Peekable;
use std::ops::Range;

use super::least_draws::LeastDraws;
use super::server_choice::{PoolTable, ServerChoice};
use super::sizes::Sizes;
use super::variants::{variant, variants};
use crate::solver::budget::Budget;
use crate::solver::problem::{Draws, Supply};

/// The draws of the servers of a bundle on each host. Bundles with servers of the same sizes share
/// it.
#[derive(Debug)]
pub(in crate::solver) struct Load {
    /// The sizes of the servers, ascending.
    sizes: Vec<usize>,
    /// The draws on hosts with one way, host by host.
    plain: Vec<(usize, u64)>,
    /// The hosts in `at`, if it does not contain all.
    sparse: Option<Vec<usize>>,
    at: Vec<StoredDemand>,
    /// By class, the minimum draw on any host.
    pub(in crate::solver) least: Vec<u64>,
    /// By class, the minimum draw on private pools on any host.
    pub(in crate::solver) least_own: Vec<u64>,
}

#[derive(Clone, Debug)]
enum StoredDemand {
    Never,
    Plain(Range<usize>),
    Choice,
}

/// The draws of a load on a host.
#[derive(Clone, Copy, Debug)]
pub(in crate::solver) enum Demand<'l> {
    /// The bundle cannot be there.
    Never,
    /// It has one way.
    Plain(&'l [(usize, u64)]),
    /// The ways of its servers, which have these sizes, are chosen there.
    Choice(&'l [usize]),
}

impl Load {
    pub(in crate::solver) fn at(&self, host: usize) -> Demand<'_> {
        let at = match &self.sparse {
            None => Some(host),
            Some(sparse) => sparse.binary_search(&host).ok(),
        };
        match at.and_then(|at| self.at.get(at)) {
            None | Some(StoredDemand::Never) => Demand::Never,
            Some(StoredDemand::Plain(range)) => Demand::Plain(&self.plain[range.clone()]),
            Some(StoredDemand::Choice) => Demand::Choice(&self.sizes),
        }
    }
}

impl Sizes<'_> {
    /// The load of servers of these sizes, which are in ascending order.
    pub(in crate::solver) fn load(&self, sizes: &[usize], budget: &mut Budget<'_>) -> Load {
        let sparse = self.sparse(sizes);
        let hosts = sparse.as_ref().map_or(self.problem.hosts.len(), Vec::len);
        let mut load = Load {
            sizes: sizes.to_vec(),
            plain: Vec::new(),
            sparse,
            at: Vec::with_capacity(hosts),
            least: Vec::new(),
            least_own: Vec::new(),
        };
        let mut least = LeastDraws::new(self.classes);
        let equal = sizes.chunk_by(|one, other| one == other);
        let mut supplies: Vec<(Peekable<_>, u64)> = equal
            .filter_map(|equal| {
                Some((self.ways(*equal.first()?).by_host().peekable(), equal.len() as u64))
            })
            .collect();
        for nth in 0..hosts {
            let host = load.sparse.as_ref().map_or(nth, |sparse| sparse[nth]);
            let before = load.plain.len();
            budget.is_spent_after(4 * sizes.len() + self.classes);
            let demand = if !self.has_choice[host] {
                self.plain_demand(&mut supplies, host, &mut load.plain)
            } else if sizes.iter().all(|size| self.choice(*size, host).is_some()) {
                StoredDemand::Choice
            } else {
                StoredDemand::Never
            };
            match &demand {
                StoredDemand::Never => {}
                StoredDemand::Plain(range) => {
                    least.start_host();
                    let pools = PoolTable { pools: &self.problem.pools, shared: &self.shared };
                    least.add(&load.plain[range.clone()], pools);
                    least.end_host();
                }
                StoredDemand::Choice => {
                    least.start_host();
                    for draws in sizes.iter().filter_map(|size| self.least_choice(*size, host)) {
                        least.add_sums(draws);
                    }
                    least.end_host();
                }
            }
            load.at.push(demand);
            if budget.is_spent_with(4 + 2 * (load.plain.len() - before)) {
                break;
            }
        }
        [load.least, load.least_own] = least.found;
        load
    }

    /// The choices of servers of these sizes on a host where all of them have one.
    pub(in crate::solver) fn servers(
        &self,
        sizes: &[usize],
        host: usize,
    ) -> Vec<(usize, ServerChoice<'_>)> {
        sizes.iter().filter_map(|size| Some((*size, self.choice(*size, host)?))).collect()
    }

    /// The number of variants of a load on a host, from which the search chooses.
    pub(in crate::solver) fn variants(&self, load: &Load, host: usize) -> usize {
        match load.at(host) {
            Demand::Never => 0,
            Demand::Plain(_) => 1,
            Demand::Choice(sizes) => variants(&self.servers(sizes, host)),
        }
    }

    /// A variant of the load of servers of these sizes, by its number: for each server, for each of its parts, the
    /// source of its draws on shared pools.
    pub(in crate::solver) fn variant(
        &self,
        sizes: &[usize],
        host: usize,
        number: usize,
    ) -> Vec<Vec<usize>> {
        variant(&self.servers(sizes, host), number)
    }

    /// Raises the maximum draw on each shared pool to that of a load.
    pub(in crate::solver) fn most(&self, load: &Load, most: &mut [u64], budget: &mut Budget<'_>) {
        budget.is_spent_after(load.plain.len() + load.at.len());
        for (pool, amount) in &load.plain {
            if self.shared[*pool] {
                most[*pool] = most[*pool].max(*amount);
            }
        }
        for nth in 0..load.at.len() {
            let host = load.sparse.as_ref().map_or(nth, |sparse| sparse[nth]);
            let Demand::Choice(sizes) = load.at(host) else { continue };
            let servers = sizes.iter().filter_map(|size| self.choice(*size, host));
            let parts = servers.flat_map(|server| server.parts());
            let draws = parts.flat_map(|part| part.sources.iter().flatten()).copied();
            // More than any variant draws: it uses one source of each part.
            let draws: Draws = draws.collect();
            budget.is_spent_after(1 + 4 * draws.len());
            for (pool, amount) in &draws {
                most[*pool] = most[*pool].max(*amount);
            }
        }
    }

    /// The hosts of the size with the fewest hosts, if these are few.
    fn sparse(&self, sizes: &[usize]) -> Option<Vec<usize>> {
        let fewest = sizes.iter().map(|size| self.ways(*size)).min_by_key(|ways| ways.hosts())?;
        let is_few = fewest.hosts() < self.problem.hosts.len() / 4;
        let hosts = fewest.by_host().map(|(host, _)| host);
        is_few.then(|| hosts.filter(|host| *host < self.problem.hosts.len()).collect())
    }

    /// The draws of servers with these supplies on a host without a choice of ways; each supply has its number of
    /// servers. Supplies of hosts before this one are skipped.
    fn plain_demand<'s>(
        &self,
        supplies: &mut [(Peekable<impl Iterator<Item = (usize, &'s Supply)>>, u64)],
        host: usize,
        plain: &mut Vec<(usize, u64)>,
    ) -> StoredDemand {
        let from = plain.len();
        let mut is_there = true;
        for (supplies, servers) in supplies {
            while supplies.next_if(|(other, _)| *other < host).is_some() {}
            let Some((_, Supply::One(draws))) = supplies.next_if(|(other, _)| *other == host)
            else {
                is_there = false;
                break;
            };
            let all = draws.iter().map(|(pool, amount)| (*pool, amount.saturating_mul(*servers)));
            plain.extend(all);
        }
        if is_there {
            merge_from(plain, from);
            let free = |pool: usize| self.problem.pools.get(pool).map_or(0, |pool| pool.free);
            is_there = plain[from..].iter().all(|(pool, amount)| *amount <= free(*pool));
        }
        if !is_there {
            plain.truncate(from);
            return StoredDemand::Never;
        }
        StoredDemand::Plain(from..plain.len())
    }
}

/// Sorts the draws from a position on by pool, and adds up those on one pool.
fn merge_from(draws: &mut Vec<(usize, u64)>, from: usize) {
    let tail = &mut draws[from..];
    if tail.is_sorted_by(|one, other| one.0 < other.0) {
        // The common case: there is nothing to combine.
        return;
    }
    tail.sort_unstable();
    let mut end = from;
    for at in from..draws.len() {
        let (pool, amount) = draws[at];
        if end > from && draws[end - 1].0 == pool {
            draws[end - 1].1 = draws[end - 1].1.saturating_add(amount);
        } else {
            draws[end] = (pool, amount);
            end += 1;
        }
    }
    draws.truncate(end);
}
