//! Loads: what bundles draw on each host, combined from the ways of their servers.
//!
//! *Example.* Two servers of 2 VCPU form a bundle. On a host with two NUMA nodes (pools 0 and 1)
//! and a shared disk (pool 9), each server has the ways {0: 2, 9: 10} and {1: 2, 9: 10}. The load
//! has one variant there, because all combinations draw 20 from pool 9, and for each server the
//! options {0: 2} and {1: 2}.

#![expect(clippy::indexing_slicing, reason = "pools, classes and sizes are numbered densely")]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::solver::budget::Budget;
use crate::solver::problem::Way;
use crate::solver::problem::{PlacementProblem, Server};

/// Draws as (pool, amount): ascending by pool, each pool once, no amount zero.
pub(super) type Draws = Vec<(usize, u64)>;

/// The draws of the servers of a bundle on each host. Bundles with servers of the same sizes share
/// it.
#[derive(Debug)]
pub(in crate::solver) struct Load {
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
    Choice(Vec<Variant>),
}

/// What a load draws on a host.
#[derive(Clone, Copy, Debug)]
pub(in crate::solver) enum Demand<'l> {
    /// The bundle cannot be there.
    Never,
    /// It has one way.
    Plain(&'l [(usize, u64)]),
    /// It has several ways. Those that draw the same on shared pools form one variant.
    Choice(&'l [Variant]),
}

/// Ways of a load that differ only in what they draw on private pools.
#[derive(Clone, Debug, Default)]
pub(in crate::solver) struct Variant {
    /// The draws on shared pools.
    pub(in crate::solver) shared: Draws,
    /// The ways of each server.
    pub(in crate::solver) members: Vec<ServerOptions>,
}

/// Ways of one server that draw the same on shared pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::solver) struct ServerOptions {
    /// For each way, its position, and its draws on the host's private pools.
    pub(in crate::solver) ways: Vec<(usize, Draws)>,
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
            Some(StoredDemand::Choice(variants)) => Demand::Choice(variants),
        }
    }

    /// Raises the maximum draw on each shared pool to that of this load.
    pub(in crate::solver) fn most(
        &self,
        shared: &[bool],
        most: &mut [u64],
        budget: &mut Budget<'_>,
    ) {
        budget.is_spent_after(self.plain.len() + self.at.len());
        let choices = self.at.iter().filter_map(|demand| match demand {
            StoredDemand::Choice(variants) => {
                Some(variants.iter().flat_map(|variant| &variant.shared))
            }
            StoredDemand::Never | StoredDemand::Plain(_) => None,
        });
        for (pool, amount) in self.plain.iter().chain(choices.flatten()) {
            if shared[*pool] {
                most[*pool] = most[*pool].max(*amount);
            }
        }
    }

    /// The number of variants on a host, from which the search chooses.
    pub(in crate::solver) fn variants(&self, host: usize) -> usize {
        match self.at(host) {
            Demand::Never => 0,
            Demand::Plain(_) => 1,
            Demand::Choice(variants) => variants.len(),
        }
    }
}

/// The sizes of servers: servers of one size draw the same on every host that they may be on.
#[derive(Debug)]
pub(in crate::solver) struct Sizes<'p> {
    pub(in crate::solver) problem: &'p PlacementProblem,
    /// The size of each server.
    pub(in crate::solver) of: Vec<usize>,
    /// A server of each size.
    pub(in crate::solver) first: Vec<usize>,
    /// For each pool, whether more than one host draws on it.
    pub(in crate::solver) shared: Vec<bool>,
    /// For each host, whether some size has several ways there. All loads on the host are then
    /// treated as having a choice, so that they can be packed together.
    has_choice: Vec<bool>,
    /// The number of resource classes.
    pub(in crate::solver) classes: usize,
}

impl<'p> Sizes<'p> {
    pub(in crate::solver) fn of(problem: &'p PlacementProblem, budget: &mut Budget<'_>) -> Self {
        let mut by_pointer = HashMap::new();
        let mut by_signature: HashMap<Signature<'_>, Vec<usize>> = HashMap::new();
        let (mut of, mut first) = (Vec::new(), Vec::new());
        for (nth, server) in problem.servers.iter().enumerate() {
            let pointer = Arc::as_ptr(&server.ways);
            if budget.is_spent_after(1) {
                break;
            }
            let size = by_pointer.get(&pointer).copied().unwrap_or_else(|| {
                budget.is_spent_after(4 * problem.hosts.len());
                let alike = by_signature.entry(signature(server)).or_default();
                let known = alike.iter().find(|size| {
                    let other: &usize = &first[**size];
                    budget.is_spent_after(1 + problem.hosts.len() / 4);
                    open(server).eq(open(&problem.servers[*other]))
                });
                known.copied().unwrap_or_else(|| {
                    // Only the pointer of a new size is remembered: a server that equals a known
                    // size may have other ways on hosts that it must not be on.
                    by_pointer.insert(pointer, first.len());
                    alike.push(first.len());
                    first.push(nth);
                    first.len() - 1
                })
            });
            of.push(size);
        }
        let classes = problem.pools.iter().map(|pool| pool.class + 1).max().unwrap_or(0);
        let shared = vec![false; problem.pools.len()];
        let has_choice = vec![false; problem.hosts.len()];
        let mut sizes = Self { problem, of, first, shared, has_choice, classes };
        sizes.find_shared(budget);
        sizes.find_choice(budget);
        sizes
    }

    /// The number of sizes.
    pub(in crate::solver) fn count(&self) -> usize {
        self.first.len()
    }

    fn find_shared(&mut self, budget: &mut Budget<'_>) {
        let mut owner = vec![None; self.shared.len()];
        let mut shared = vec![false; self.shared.len()];
        self.each_draw(budget, |host, pool, amount| {
            if let Some(owner) = owner.get_mut(pool).filter(|_| amount > 0) {
                shared[pool] |= *owner.get_or_insert(host) != host;
            }
        });
        self.shared = shared;
    }

    /// For each pool that several hosts draw on, these hosts; for other pools, none.
    pub(super) fn sharing(&self, budget: &mut Budget<'_>) -> Vec<Vec<usize>> {
        let mut sharing = vec![Vec::new(); self.shared.len()];
        self.each_draw(budget, |host, pool, _| {
            if self.shared.get(pool).is_some_and(|shared| *shared) {
                sharing[pool].push(host);
            }
        });
        for hosts in &mut sharing {
            hosts.sort_unstable();
            hosts.dedup();
        }
        sharing
    }

    /// The free private capacity of each host, by class.
    pub(super) fn own_free(&self, budget: &mut Budget<'_>) -> Vec<Vec<u128>> {
        let mut counted = vec![false; self.shared.len()];
        let mut free = vec![vec![0; self.classes]; self.problem.hosts.len()];
        self.each_draw(budget, |host, pool, amount| {
            let (Some(it), Some(free)) = (self.problem.pools.get(pool), free.get_mut(host)) else {
                return;
            };
            let is_own = amount > 0 && !self.shared[pool];
            if is_own && !std::mem::replace(&mut counted[pool], true) {
                free[it.class] += u128::from(it.free);
            }
        });
        free
    }

    /// Calls a function with the host, the pool and the amount of every draw of every size, until
    /// the budget is spent.
    fn each_draw(&self, budget: &mut Budget<'_>, mut of: impl FnMut(usize, usize, u64)) {
        for server in &self.first {
            for (host, ways) in self.problem.servers[*server].ways.by_host() {
                if budget.is_spent_after(1 + 2 * ways.len()) {
                    return;
                }
                ways.iter().flat_map(|Way(draws)| draws).for_each(|it| of(host, it.0, it.1));
            }
        }
    }

    /// The first way of a size on a host that fits by itself.
    pub(in crate::solver) fn first_way(&self, size: usize, host: usize) -> usize {
        self.options(size, host).first().map_or(0, |(way, _)| *way)
    }

    fn find_choice(&mut self, budget: &mut Budget<'_>) {
        let problem = self.problem;
        for size in 0..self.first.len() {
            for (host, ways) in problem.servers[self.first[size]].ways.by_host() {
                if budget.is_spent_after(1 + 8 * ways.len()) {
                    return;
                }
                if ways.len() > 1 && self.has_choice.get(host) == Some(&false) {
                    self.has_choice[host] = self.options(size, host).len() > 1;
                }
            }
        }
    }

    /// The load of servers of these sizes, which are in ascending order.
    pub(in crate::solver) fn load(&self, sizes: &[usize], budget: &mut Budget<'_>) -> Load {
        let mut load = Load {
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
            let demand = self.demand_on(sizes, host, &mut load.plain, budget);
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
                Demand::Choice(variants) => {
                    let ways = variants.iter().flat_map(|it| &it.members).map(|it| it.ways.len());
                    budget.is_spent_after(2 * (self.classes + 2) * ways.sum::<usize>());
                    lower(&mut least, self.least_of(variants, true));
                    lower(&mut own, self.least_of(variants, false));
                }
            }
        }
        load.least = least.unwrap_or_else(|| vec![0; self.classes]);
        load.least_own = own.unwrap_or_else(|| vec![0; self.classes]);
        load
    }

    /// The hosts of the size with the fewest hosts, if these are few.
    fn sparse(&self, sizes: &[usize]) -> Option<Vec<usize>> {
        let ways = |size: &usize| &self.problem.servers[self.first[*size]].ways;
        let fewest = sizes.iter().map(ways).min_by_key(|ways| ways.hosts())?;
        let is_few = fewest.hosts() < self.problem.hosts.len() / 4;
        let hosts = fewest.by_host().map(|(host, _)| host);
        is_few.then(|| hosts.filter(|host| *host < self.problem.hosts.len()).collect())
    }

    fn demand_on(
        &self,
        sizes: &[usize],
        host: usize,
        plain: &mut Draws,
        budget: &mut Budget<'_>,
    ) -> StoredDemand {
        if let [size] = sizes
            && let [Way(draws)] = self.ways(*size, host)
            && !self.has_choice[host]
            && draws.is_sorted_by(|one, other| one.0 < other.0)
        {
            // The common case: nothing has to be combined.
            if !self.is_there(draws) {
                return StoredDemand::Never;
            }
            let from = plain.len();
            plain.extend(draws.iter().filter(|(_, amount)| *amount > 0));
            return StoredDemand::Plain(from..plain.len());
        }
        let options: Vec<_> = sizes.iter().map(|size| self.options(*size, host)).collect();
        if options.iter().any(Vec::is_empty) {
            return StoredDemand::Never;
        }
        if !self.has_choice[host] {
            let from = plain.len();
            let all = options.iter().flatten().flat_map(|(_, draws)| draws).copied();
            let draws = merged(all);
            if !self.is_there(&draws) {
                return StoredDemand::Never;
            }
            plain.extend(draws);
            return StoredDemand::Plain(from..plain.len());
        }
        self.choice(sizes, options, budget)
    }

    /// All variants of servers of these sizes with these options. Their number can grow
    /// exponentially with the servers, so the budget limits it.
    fn choice(
        &self,
        sizes: &[usize],
        options: Vec<Vec<(usize, Draws)>>,
        budget: &mut Budget<'_>,
    ) -> StoredDemand {
        let mut variants = vec![(Variant::default(), 0)];
        let mut kept = 0;
        for (nth, ways) in options.into_iter().enumerate() {
            let is_same = nth > 0 && sizes[nth] == sizes[nth - 1];
            let members = self.members(ways);
            let mut longer = Vec::new();
            let mut numbers = 0;
            for (variant, last) in variants {
                // Servers of one size are interchangeable: a later server takes no earlier choice
                // than the one before it.
                let from = if is_same { last } else { 0 };
                let mut variant = Some(variant);
                for (choice, it) in members.iter().enumerate().skip(from) {
                    // The last choice needs no copy.
                    let is_last = choice + 1 == members.len();
                    let next = if is_last { variant.take() } else { variant.clone() };
                    let Some(mut next) = next else { continue };
                    next.shared = merged(next.shared.iter().chain(&it.0).copied());
                    if budget.is_spent_after(2 + next.shared.len()) {
                        return StoredDemand::Never;
                    }
                    if self.is_there(&next.shared) {
                        next.members.push(it.1.clone());
                        let of_member = 4 + 6 * it.1.ways.len();
                        let size = 8 + 2 * next.shared.len() + of_member * next.members.len();
                        if !is_last && budget.is_spent_after(size) {
                            return StoredDemand::Never;
                        }
                        numbers += size;
                        longer.push((next, choice));
                    }
                }
                // The longer variants exist together with the shorter ones, then replace them.
                if !budget.has_memory_for(numbers) {
                    return StoredDemand::Never;
                }
            }
            kept = numbers;
            variants = longer;
        }
        budget.is_spent_with(kept);
        let variants: Vec<Variant> = variants.into_iter().map(|(variant, _)| variant).collect();
        if variants.is_empty() { StoredDemand::Never } else { StoredDemand::Choice(variants) }
    }

    fn ways(&self, size: usize, host: usize) -> &'p [Way] {
        self.problem.servers[self.first[size]].ways.on(host)
    }

    /// The distinct ways of a size on a host that fit by themselves.
    fn options(&self, size: usize, host: usize) -> Vec<(usize, Draws)> {
        let mut options: Vec<(usize, Draws)> = Vec::new();
        for (nth, Way(draws)) in self.ways(size, host).iter().enumerate() {
            let draws = merged(draws.iter().copied());
            if self.is_there(&draws) && !options.iter().any(|(_, known)| *known == draws) {
                options.push((nth, draws));
            }
        }
        options
    }

    /// Groups the ways of a server by what they draw on shared pools.
    fn members(&self, ways: Vec<(usize, Draws)>) -> Vec<(Draws, ServerOptions)> {
        let mut members: Vec<(Draws, ServerOptions)> = Vec::new();
        for (nth, draws) in ways {
            let (shared, own): (Draws, Draws) =
                draws.into_iter().partition(|(pool, _)| self.shared[*pool]);
            let known = members.iter().position(|(known, _)| *known == shared);
            let at = known.unwrap_or_else(|| {
                members.push((shared, ServerOptions::default()));
                members.len() - 1
            });
            members[at].1.ways.push((nth, own));
        }
        members
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

    /// By class, the minimum that any variant draws, with or without shared pools.
    fn least_of(&self, variants: &[Variant], with_shared: bool) -> Vec<u64> {
        let mut least = None;
        for variant in variants {
            let shared = if with_shared { variant.shared.as_slice() } else { &[] };
            let mut sums = self.by_class(shared);
            for member in &variant.members {
                let mut of_member = None;
                for (_, draws) in &member.ways {
                    lower(&mut of_member, self.by_class(draws));
                }
                for (sum, it) in sums.iter_mut().zip(of_member.unwrap_or_default()) {
                    *sum = sum.saturating_add(it);
                }
            }
            lower(&mut least, sums);
        }
        least.unwrap_or_else(|| vec![0; self.classes])
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

/// For each host that a server may be on, its ways there, which may be none.
fn open(server: &Server) -> impl Iterator<Item = (usize, &[Way])> {
    server.allowed_hosts.hosts().map(|host| (host, server.ways.on(host)))
}

/// A quick hash of a server: the first and the last host that it may be on, and its ways there.
type Signature<'p> = [Option<(usize, &'p [Way])>; 2];

fn signature(server: &Server) -> Signature<'_> {
    [open(server).next(), open(server).last()]
}

/// Sorts draws by pool, and adds up those on one pool.
fn merged(draws: impl Iterator<Item = (usize, u64)>) -> Draws {
    let mut draws: Draws = draws.filter(|(_, amount)| *amount > 0).collect();
    draws.sort_unstable();
    draws.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 = earlier.1.saturating_add(later.1);
        }
        same
    });
    draws
}
