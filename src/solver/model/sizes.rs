//! The sizes of servers: servers of one size draw the same on every host that they may be on.

#![expect(clippy::indexing_slicing, reason = "pools, hosts and sizes are numbered densely")]

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::by_host::ByHost;
use super::least_draws::LeastDraws;
use super::server_choice::ServerChoice;
use crate::solver::budget::Budget;
use crate::solver::parallel::{map_items, map_shares};
use crate::solver::problem::{Draws, Part, PlacementProblem, Server, Supply, Ways};

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
    /// The choices on hosts where some size has one, and by size and host the position of each; empty if
    /// there are none.
    choices: Vec<ServerChoice<'p>>,
    choice_of: Vec<Option<NonZeroU32>>,
    /// For each choice, the least that it draws by class: of all pools, then of private ones.
    least_of_choice: Vec<u64>,
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
        let mut sizes = Self {
            problem,
            of,
            first,
            shared,
            drawn_by: Vec::new(),
            has_choice,
            classes,
            choices: Vec::new(),
            choice_of: Vec::new(),
            least_of_choice: Vec::new(),
        };
        sizes.find_shared(budget);
        sizes.find_choices(budget);
        sizes
    }

    /// The number of sizes.
    pub(in crate::solver) fn count(&self) -> usize {
        self.first.len()
    }

    /// How a host supplies a size.
    pub(super) fn supply(&self, size: usize, host: usize) -> Option<&'p Supply> {
        self.problem.servers[self.first[size]].ways.on(host)
    }

    /// For which hosts there may be a supply of a size.
    pub(super) fn ways(&self, size: usize) -> &'p Ways {
        &self.problem.servers[self.first[size]].ways
    }

    /// The choice of ways for a size on a host where some size has a choice. `None` if the size
    /// does not fit there.
    pub(in crate::solver) fn choice(&self, size: usize, host: usize) -> Option<&ServerChoice<'p>> {
        self.choices.get(self.choice_number(size, host)?)
    }

    /// What that choice draws at least, by class: of all pools, then of private ones.
    pub(super) fn least_choice(&self, size: usize, host: usize) -> Option<&[u64]> {
        let from = 2 * self.classes * self.choice_number(size, host)?;
        self.least_of_choice.get(from..from + 2 * self.classes)
    }

    fn choice_number(&self, size: usize, host: usize) -> Option<usize> {
        let number = (*self.choice_of.get(size * self.problem.hosts.len() + host)?)?;
        Some(number.get() as usize - 1)
    }

    /// Finds for each pool the first host that draws on it, and whether others do.
    fn find_shared(&mut self, budget: &mut Budget<'_>) {
        let sizes: Vec<usize> = (0..self.first.len()).collect();
        let hosts = self.problem.hosts.len();
        let found = map_shares(&sizes, hosts, budget, |sizes, budget| {
            let mut drawn_by = vec![None; self.shared.len()];
            let mut shared = vec![false; self.shared.len()];
            self.each_draw(sizes, budget, |host, pool, amount| {
                if let Some(first) = drawn_by.get_mut(pool).filter(|_| amount > 0) {
                    shared[pool] |= *first.get_or_insert(host) != host;
                }
            });
            (drawn_by, shared)
        });
        self.drawn_by = vec![None; self.shared.len()];
        // The budget is spent if some sizes are left out.
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
        let sizes: Vec<usize> = (0..self.first.len()).collect();
        let found = map_items(&sizes, hosts, budget, |size, budget| self.choices_of(*size, budget));
        self.choice_of = vec![None; self.first.len() * hosts];
        for (size, found) in found.into_iter().enumerate() {
            // The budget is spent if a size is left out.
            let Some((choices, least)) = found else { return };
            for (host, choice) in choices {
                self.choices.push(choice);
                let number = u32::try_from(self.choices.len()).ok().and_then(NonZeroU32::new);
                self.choice_of[size * hosts + host] = number;
            }
            self.least_of_choice.extend(least);
        }
    }

    /// The choices for a size, by host, and the least that each draws. They are not all if the budget is spent.
    fn choices_of(
        &self,
        size: usize,
        budget: &mut Budget<'_>,
    ) -> (Vec<(usize, ServerChoice<'p>)>, Vec<u64>) {
        let (mut choices, mut least_of_choice) = (Vec::new(), Vec::new());
        let mut least = LeastDraws::new(self.classes);
        for (host, supply) in self.ways(size).by_host() {
            if budget.is_spent_after(1) {
                break;
            }
            if self.has_choice.get(host) != Some(&true) {
                continue;
            }
            budget.is_spent_after(4 * supply.size());
            let choice = ServerChoice::of(supply, &self.problem.pools, &self.shared);
            if let Some(choice) = choice {
                budget.is_spent_with(choice.size() + 2 * self.classes);
                least.begin_host();
                for part in &choice.parts {
                    budget.is_spent_after((self.classes + 2) * part.ways.len());
                    least.add_part(part, (&self.problem.pools, &self.shared));
                }
                least_of_choice.extend(least.sums());
                choices.push((host, choice));
            }
        }
        (choices, least_of_choice)
    }

    /// For each pool that several hosts draw on, these hosts; for other pools, none.
    pub(super) fn sharing(&self, budget: &mut Budget<'_>) -> Vec<Vec<usize>> {
        let mut sharing = vec![Vec::new(); self.shared.len()];
        if !self.shared.contains(&true) {
            return sharing;
        }
        let sizes: Vec<usize> = (0..self.first.len()).collect();
        self.each_draw(&sizes, budget, |host, pool, _| {
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

    /// Calls a function with the host, the pool and the amount of every draw of some sizes, until the
    /// budget is spent.
    fn each_draw(
        &self,
        sizes: &[usize],
        budget: &mut Budget<'_>,
        mut of: impl FnMut(usize, usize, u64),
    ) {
        for size in sizes {
            for (host, supply) in self.ways(*size).by_host() {
                let mut count = 2;
                let mut each = |draws: &Draws| {
                    for (pool, amount) in draws {
                        of(host, *pool, *amount);
                    }
                    count += draws.len();
                };
                match supply {
                    Supply::One(draws) => each(draws),
                    Supply::Choice(choice) => {
                        let ways = choice.parts.iter().flat_map(|Part(ways)| ways);
                        ways.map(|way| &way.draws).for_each(each);
                    }
                }
                if budget.is_spent_after(count) {
                    return;
                }
            }
        }
    }
}

/// For each host that a server may be on, how it supplies the server.
fn open(server: &Server) -> impl DoubleEndedIterator<Item = (usize, Option<&Supply>)> {
    server.allowed_hosts.hosts().map(|host| (host, server.ways.on(host)))
}

/// A quick hash of a server: the first and the last host that it may be on, with their supply.
type Signature<'p> = [Option<(usize, Option<&'p Supply>)>; 2];

fn signature(server: &Server) -> Signature<'_> {
    [open(server).next(), open(server).next_back()]
}
