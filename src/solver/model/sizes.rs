//! The sizes of servers: servers of one size draw the same on every host that they may be on.

#![expect(clippy::indexing_slicing, reason = "pools, hosts and sizes are numbered densely")]

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use super::by_host::ByHost;
use super::least_draws::LeastDraws;
use super::server_choice::{PoolTable, ServerChoice, ServerChoices};
use crate::solver::budget::Budget;
use crate::solver::parallel::{map_items, map_shares};
use crate::solver::problem::{Draws, PlacementProblem, Server, Supply, Ways};

/// The sizes of servers.
#[derive(Debug)]
pub(in crate::solver) struct Sizes<'p> {
    pub(in crate::solver) problem: &'p PlacementProblem,
    /// The size of each server.
    pub(in crate::solver) of: Vec<usize>,
    /// A server of each size.
    pub(in crate::solver) first: Vec<usize>,
    /// For each pool, whether more than one host draws on it.
    pub(in crate::solver) shared: Vec<bool>,
    /// For each pool, the first host that draws on it, if any does.
    drawn_by: Vec<Option<usize>>,
    /// For each host, whether some size has a choice there. All loads on the host are then treated
    /// as having a choice, so that they can be packed together.
    pub(super) has_choice: Vec<bool>,
    /// The number of resource classes.
    pub(in crate::solver) classes: usize,
    /// By size, and by range of [`HOSTS_AT_ONCE`] hosts, the choices on hosts where some size has one; empty if no
    /// size has a choice.
    choices: Vec<ChoicesOnHosts<'p>>,
}

/// Number of hosts for which one thread prepares the choices of a size at once.
const HOSTS_AT_ONCE: usize = 2048;

/// The choices for one size on a range of hosts.
#[derive(Debug)]
struct ChoicesOnHosts<'p> {
    choices: ServerChoices<'p>,
    /// For each host the number of the choice, counted from one.
    of_host: Vec<Option<NonZeroU32>>,
    /// For each choice, its minimum draws by class: on all pools, then on private ones.
    least: Vec<u64>,
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
                    // A new size is remembered by its pointer alone: a server that equals a known size may have
                    // other ways on hosts that it must not be on.
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
        let mut sizes = Self {
            problem,
            of,
            first,
            shared,
            drawn_by: Vec::new(),
            has_choice,
            classes,
            choices: Vec::new(),
        };
        sizes.find_shared(budget);
        sizes.find_choices(budget);
        sizes
    }

    /// The number of sizes.
    pub(in crate::solver) fn count(&self) -> usize {
        self.first.len()
    }

    /// The supply of a size on a host.
    pub(super) fn supply(&self, size: usize, host: usize) -> Option<&'p Supply> {
        self.problem.servers[self.first[size]].ways.on(host)
    }

    /// The supplies of a size by host.
    pub(super) fn ways(&self, size: usize) -> &'p Ways {
        &self.problem.servers[self.first[size]].ways
    }

    /// The choice of ways for a size on a host where some size has a choice. `None` if the size
    /// does not fit there.
    pub(in crate::solver) fn choice(&self, size: usize, host: usize) -> Option<ServerChoice<'_>> {
        let (on_hosts, number) = self.choice_number(size, host)?;
        on_hosts.choices.get(number)
    }

    /// The minimum draws of that choice, by class: on all pools, then on private ones.
    pub(super) fn least_choice(&self, size: usize, host: usize) -> Option<&[u64]> {
        let (on_hosts, number) = self.choice_number(size, host)?;
        let from = 2 * self.classes * number;
        on_hosts.least.get(from..from + 2 * self.classes)
    }

    fn choice_number(&self, size: usize, host: usize) -> Option<(&ChoicesOnHosts<'p>, usize)> {
        let ranges = self.problem.hosts.len().div_ceil(HOSTS_AT_ONCE);
        let on_hosts = self.choices.get(size * ranges + host / HOSTS_AT_ONCE)?;
        let number = (*on_hosts.of_host.get(host % HOSTS_AT_ONCE)?)?;
        Some((on_hosts, number.get() as usize - 1))
    }

    /// Finds for each pool the first host that draws on it, and whether others do.
    fn find_shared(&mut self, budget: &mut Budget<'_>) {
        let sizes: Vec<usize> = (0..self.first.len()).collect();
        let hosts = self.problem.hosts.len();
        let found = map_shares(&sizes, hosts, budget, |sizes, budget| {
            let mut drawn_by = vec![None; self.shared.len()];
            let mut shared = vec![false; self.shared.len()];
            self.each_draw(sizes, budget, |host, pool| {
                if let Some(first) = drawn_by.get_mut(pool) {
                    shared[pool] |= *first.get_or_insert(host) != host;
                }
            });
            (drawn_by, shared)
        });
        self.drawn_by = vec![None; self.shared.len()];
        // The budget is spent if some sizes are missing.
        for (drawn_by, shared) in found.into_iter().flatten() {
            for (pool, host) in drawn_by.into_iter().enumerate() {
                let Some(host) = host else { continue };
                let first = self.drawn_by[pool].get_or_insert(host);
                self.shared[pool] |= shared[pool] || *first != host;
            }
        }
    }

    /// Finds the hosts where some size has a choice, and prepares all sizes there for packing.
    fn find_choices(&mut self, budget: &mut Budget<'_>) {
        for size in 0..self.first.len() {
            for (host, supply) in self.ways(size).by_host() {
                if budget.is_spent_after(1) {
                    return;
                }
                if let (Supply::Choice(_), Some(it)) = (supply, self.has_choice.get_mut(host)) {
                    *it = true;
                }
            }
        }
        if !self.has_choice.contains(&true) {
            return;
        }
        let hosts = self.problem.hosts.len();
        if budget.is_spent_with(self.first.len() * hosts / 2) {
            return;
        }
        let ranges = (0..hosts).step_by(HOSTS_AT_ONCE);
        let ranges = ranges.map(|from| from..hosts.min(from + HOSTS_AT_ONCE));
        let all: Vec<(usize, Range<usize>)> = (0..self.first.len())
            .flat_map(|size| ranges.clone().map(move |hosts| (size, hosts)))
            .collect();
        let found = map_items(&all, hosts, budget, |(size, hosts), budget| {
            self.choices_on(*size, hosts.clone(), budget)
        });
        // The budget is spent if some are missing.
        self.choices = found.into_iter().map_while(|found| found).collect();
    }

    /// The choices for a size on a range of hosts. They are incomplete if the budget is spent.
    fn choices_on(
        &self,
        size: usize,
        hosts: Range<usize>,
        budget: &mut Budget<'_>,
    ) -> ChoicesOnHosts<'p> {
        let pools = PoolTable { pools: &self.problem.pools, shared: &self.shared };
        let mut choices = ServerChoices::new();
        let mut of_host = vec![None; hosts.len()];
        let mut least_of_all = Vec::new();
        let mut least = LeastDraws::new(self.classes);
        let mut kept = 0;
        let mut supplies = self.ways(size).within(hosts.clone());
        while let Some((host, supply)) = supplies.next() {
            if budget.is_spent_after(1) {
                break;
            }
            if !self.has_choice[host] {
                continue;
            }
            budget.is_spent_after(8 + 8 * supply.ways());
            let Some(number) = choices.add(supply, pools) else { continue };
            if let (0, (_, Some(others))) = (number, supplies.size_hint()) {
                choices.reserve(others);
                least_of_all.reserve_exact((1 + others) * 2 * self.classes);
            }
            budget.is_spent_with(choices.size() - kept + 2 * self.classes);
            kept = choices.size();
            least.start_host();
            for part in choices.get(number).iter().flat_map(ServerChoice::parts) {
                budget.is_spent_after((self.classes + 2 + part.sources.len()) * part.ways.len());
                least.add_part(part, pools);
            }
            least_of_all.extend(least.sums());
            of_host[host - hosts.start] = u32::try_from(number + 1).ok().and_then(NonZeroU32::new);
        }
        ChoicesOnHosts { choices, of_host, least: least_of_all }
    }

    /// For each shared pool, the hosts that draw on it; for other pools, an empty list. Empty if no pool is shared.
    pub(super) fn sharing(&self, budget: &mut Budget<'_>) -> Vec<Vec<usize>> {
        if !self.shared.contains(&true) {
            return Vec::new();
        }
        let mut sharing = vec![Vec::new(); self.shared.len()];
        let sizes: Vec<usize> = (0..self.first.len()).collect();
        self.each_draw(&sizes, budget, |host, pool| {
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
    pub(super) fn own_free(&self, budget: &mut Budget<'_>) -> ByHost {
        let hosts = self.problem.hosts.len();
        let mut free = ByHost::zeros(hosts, self.classes);
        budget.is_spent_after(2 * self.shared.len());
        let pools = self.problem.pools.iter().zip(&self.shared).zip(&self.drawn_by);
        for ((pool, is_shared), host) in pools {
            if let Some(host) = host.filter(|host| !is_shared && *host < hosts) {
                free[host][pool.class] += u128::from(pool.free);
            }
        }
        free
    }

    /// Calls a function with the host and the pool of every draw of some sizes, until the budget is
    /// spent.
    fn each_draw(
        &self,
        sizes: &[usize],
        budget: &mut Budget<'_>,
        mut of: impl FnMut(usize, usize),
    ) {
        for size in sizes {
            for (host, supply) in self.ways(*size).by_host() {
                let mut count = 2;
                let mut each = |draws: &Draws| {
                    for (pool, _) in draws {
                        of(host, *pool);
                    }
                    count += draws.len();
                };
                match supply {
                    Supply::One(draws) => each(draws),
                    Supply::Choice(choice) => {
                        choice.parts.ways().iter().map(|way| &way.draws).for_each(each);
                    }
                }
                if budget.is_spent_after(count) {
                    return;
                }
            }
        }
    }
}

/// For each host that a server may be on, its supply there.
fn open(server: &Server) -> impl DoubleEndedIterator<Item = (usize, Option<&Supply>)> {
    server.allowed_hosts.hosts().map(|host| (host, server.ways.on(host)))
}

/// A quick hash of a server: the first and the last host that it may be on, with their supply.
type Signature<'p> = [Option<(usize, Option<&'p Supply>)>; 2];

fn signature(server: &Server) -> Signature<'_> {
    [open(server).next(), open(server).next_back()]
}
