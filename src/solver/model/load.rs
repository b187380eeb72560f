//! Loads: what bundles draw on each host, combined from the ways of their servers.

#![expect(clippy::indexing_slicing, reason = "pools, classes and sizes are numbered densely")]

use std::ops::Range;

use super::server_choice::{self, ServerChoice};
use super::sizes::Sizes;
use crate::solver::budget::Budget;
use crate::solver::problem::{Draws, Supply, merged};

/// The draws of the servers of a bundle on each host. Bundles with servers of the same sizes share
/// it.
#[derive(Debug)]
pub(in crate::solver) struct Load {
    /// The sizes of the servers, ascending.
    sizes: Vec<usize>,
    /// The draws on hosts with one way, host by host.
    plain: Draws,
    /// The hosts in `at`, if it does not contain all.
    sparse: Option<Vec<usize>>,
    at: Vec<StoredDemand>,
    /// By class, the minimum that is drawn on any host.
    pub(in crate::solver) least: Vec<u64>,
    /// By class, the minimum that is drawn from private pools on any host.
    pub(in crate::solver) least_own: Vec<u64>,
}

#[derive(Clone, Debug)]
enum StoredDemand {
    Never,
    Plain(Range<usize>),
    Choice,
}

/// What a load draws on a host.
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

impl<'p> Sizes<'p> {
    /// The load of servers of these sizes, which are in ascending order.
    pub(in crate::solver) fn load(&self, sizes: &[usize], budget: &mut Budget<'_>) -> Load {
        let mut load = Load {
            sizes: sizes.to_vec(),
            plain: Vec::new(),
            sparse: self.sparse(sizes),
            at: Vec::new(),
            least: Vec::new(),
            least_own: Vec::new(),
        };
        let (mut least, mut own) = (None, None);
        let sparse = load.sparse.clone();
        for nth in 0..sparse.as_ref().map_or(self.problem.hosts.len(), Vec::len) {
            let host = sparse.as_ref().map_or(nth, |sparse| sparse[nth]);
            let before = load.plain.len();
            budget.is_spent_after(4 * sizes.len() + self.classes);
            let demand = self.demand_on(sizes, host, &mut load.plain);
            load.at.push(demand);
            if budget.is_spent_with(4 + 2 * (load.plain.len() - before)) {
                break;
            }
            match load.at(host) {
                Demand::Never => {}
                Demand::Plain(draws) => {
                    lower(&mut least, self.by_class(draws));
                    let is_own = |(pool, _): &&(usize, u64)| !self.shared[*pool];
                    lower(&mut own, self.by_class(draws.iter().filter(is_own)));
                }
                Demand::Choice(sizes) => {
                    let servers = self.servers(sizes, host);
                    lower(&mut least, self.least_of(&servers, true, budget));
                    lower(&mut own, self.least_of(&servers, false, budget));
                }
            }
        }
        load.least = least.unwrap_or_else(|| vec![0; self.classes]);
        load.least_own = own.unwrap_or_else(|| vec![0; self.classes]);
        load
    }

    /// The choices of servers of these sizes on a host where all of them have one.
    pub(in crate::solver) fn servers(
        &self,
        sizes: &[usize],
        host: usize,
    ) -> Vec<(usize, &ServerChoice<'p>)> {
        sizes.iter().filter_map(|size| Some((*size, self.choice(*size, host)?))).collect()
    }

    /// The number of variants of a load on a host, from which the search chooses.
    pub(in crate::solver) fn variants(&self, load: &Load, host: usize) -> usize {
        match load.at(host) {
            Demand::Never => 0,
            Demand::Plain(_) => 1,
            Demand::Choice(sizes) => server_choice::variants(&self.servers(sizes, host)),
        }
    }

    /// A variant of the load of servers of these sizes, by its number: for each server, for each of
    /// its parts, the source of its draws on shared pools.
    pub(in crate::solver) fn variant(
        &self,
        sizes: &[usize],
        host: usize,
        number: usize,
    ) -> Vec<Vec<usize>> {
        server_choice::variant(&self.servers(sizes, host), number)
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
            let servers = self.servers(sizes, host);
            let parts = servers.iter().flat_map(|(_, server)| &server.parts);
            let draws = parts.flat_map(|part| part.sources.iter().flatten()).copied();
            // More than any variant draws: it uses one source of each part.
            let draws = merged(draws);
            budget.is_spent_after(1 + 4 * draws.len());
            for (pool, amount) in draws {
                most[pool] = most[pool].max(amount);
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

    fn demand_on(&self, sizes: &[usize], host: usize, plain: &mut Draws) -> StoredDemand {
        if self.has_choice[host] {
            let all = sizes.iter().all(|size| self.choice(*size, host).is_some());
            return if all { StoredDemand::Choice } else { StoredDemand::Never };
        }
        let draws = |size: &usize| match self.supply(*size, host)? {
            Supply::One(draws) => Some(draws),
            Supply::Choice(_) => None,
        };
        let from = plain.len();
        if let [size] = sizes
            && let Some(draws) = draws(size)
            && draws.is_sorted_by(|one, other| one.0 < other.0)
        {
            // The common case: nothing has to be combined.
            if !self.is_there(draws) {
                return StoredDemand::Never;
            }
            plain.extend(draws.iter().filter(|(_, amount)| *amount > 0));
            return StoredDemand::Plain(from..plain.len());
        }
        let Some(all) = sizes.iter().map(draws).collect::<Option<Vec<&Draws>>>() else {
            return StoredDemand::Never;
        };
        let all = merged(all.into_iter().flatten().copied());
        if !self.is_there(&all) {
            return StoredDemand::Never;
        }
        plain.extend(all);
        StoredDemand::Plain(from..plain.len())
    }

    fn is_there(&self, draws: &[(usize, u64)]) -> bool {
        let free = |pool: usize| self.problem.pools.get(pool).map_or(0, |pool| pool.free);
        draws.iter().all(|(pool, amount)| *amount <= free(*pool))
    }

    /// Sums draws by class.
    fn by_class<'d>(&self, draws: impl IntoIterator<Item = &'d (usize, u64)>) -> Vec<u64> {
        let mut sums = vec![0_u64; self.classes];
        for (pool, amount) in draws {
            let sum = &mut sums[self.problem.pools[*pool].class];
            *sum = sum.saturating_add(*amount);
        }
        sums
    }

    /// By class, no more than any choice of ways draws, with or without shared pools.
    fn least_of(
        &self,
        servers: &[(usize, &ServerChoice<'_>)],
        with_shared: bool,
        budget: &mut Budget<'_>,
    ) -> Vec<u64> {
        let mut sums = vec![0_u64; self.classes];
        for part in servers.iter().flat_map(|(_, server)| &server.parts) {
            budget.is_spent_after((self.classes + 2) * part.ways.len());
            let mut of_part = None;
            for way in &part.ways {
                let counts = |(pool, _): &&(usize, u64)| with_shared || !self.shared[*pool];
                lower(&mut of_part, self.by_class(way.draws.iter().filter(counts)));
            }
            for (sum, it) in sums.iter_mut().zip(of_part.unwrap_or_default()) {
                *sum = sum.saturating_add(it);
            }
        }
        sums
    }
}

/// Lowers each element to that of `other`, if it is less.
fn lower(least: &mut Option<Vec<u64>>, other: Vec<u64>) {
    match least {
        None => *least = Some(other),
        Some(least) => {
            for (least, other) in least.iter_mut().zip(other) {
                *least = other.min(*least);
            }
        }
    }
}
