//! The order of moves: each finds room on its host, and breaks no rule that holds before it, when it is carried out.

#![expect(clippy::indexing_slicing, reason = "movers, sets and rules are numbered densely")]

use std::collections::{HashMap, HashSet};

use crate::model::{ClassId, ProviderId};
use crate::solver::{PlacementProblem, Rule};
use crate::world::World;

/// Maximum number of sets that are tried as the next step.
const CHECKS_MAX: usize = 2_000_000;
/// Number of checks between two looks at the time.
const PAUSE: usize = 64;

/// A server that moves.
pub(super) struct Mover {
    /// Its position in the problem.
    pub(super) server: usize,
    /// Its current host.
    pub(super) from: usize,
    /// Its new host.
    pub(super) to: usize,
    /// Its current allocations.
    pub(super) releases: Vec<(ProviderId, ClassId, i64)>,
    /// Its new allocations.
    pub(super) takes: Vec<(ProviderId, ClassId, i64)>,
    /// Whether one transaction replaces its allocations. Otherwise it has both until it has moved.
    pub(super) at_once: bool,
}

/// The search for an order.
pub(super) struct Order<'a> {
    world: &'a World,
    problem: &'a PlacementProblem,
    movers: &'a [Mover],
    /// Movers that may move as one step.
    sets: Vec<Vec<usize>>,
    /// For each set, the rules that its moves can break.
    rules: Vec<Vec<usize>>,
    /// The present host of each server.
    places: Vec<usize>,
    /// Whether each rule holds at present.
    holds: Vec<bool>,
    /// The change of the use of inventories.
    used: HashMap<(ProviderId, ClassId), i64>,
    /// Whether each mover has moved.
    done: Vec<bool>,
}

/// A step that was taken, with the rules that held before it.
struct Taken {
    set: usize,
    held: Vec<bool>,
}

impl<'a> Order<'a> {
    /// Creates the search; `hosts` has the final host of each server, and `sets` the movers that one step can move.
    pub(super) fn new(
        world: &'a World,
        problem: &'a PlacementProblem,
        movers: &'a [Mover],
        hosts: &[usize],
        sets: Vec<Vec<usize>>,
    ) -> Self {
        let mut places = hosts.to_vec();
        for mover in movers {
            places[mover.server] = mover.from;
        }
        let mut of_server: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut of_all = Vec::new();
        for (number, rule) in problem.rules.iter().enumerate() {
            match rule {
                // It binds all others, too.
                Rule::Alone(..) => of_all.push(number),
                Rule::Together(..) | Rule::Apart(..) | Rule::AtMost(..) | Rule::Skew(_) => {
                    for server in rule.servers() {
                        of_server.entry(server).or_default().push(number);
                    }
                }
            }
        }
        let rules = sets.iter().map(|set| {
            let of_set = set.iter().filter_map(|mover| of_server.get(&movers[*mover].server));
            let mut rules: Vec<usize> = of_set.flatten().chain(&of_all).copied().collect();
            rules.sort_unstable();
            rules.dedup();
            rules
        });
        let holds = problem.rules.iter().map(|rule| rule.holds(problem, &places)).collect();
        let (rules, used, done) = (rules.collect(), HashMap::new(), vec![false; movers.len()]);
        Self { world, problem, movers, sets, rules, places, holds, used, done }
    }

    /// The movers of each step; `None` if no order was found.
    pub(super) fn steps(mut self, is_up: &mut dyn FnMut() -> bool) -> Option<Vec<Vec<usize>>> {
        let mut taken: Vec<Taken> = Vec::new();
        let mut left = self.movers.len();
        let mut failed: HashSet<Vec<bool>> = HashSet::new();
        let mut next = 0;
        let mut checks = 0;
        while left > 0 {
            checks += 1;
            if checks > CHECKS_MAX || checks % PAUSE == 0 && is_up() {
                return None;
            }
            if next < self.sets.len() {
                if let Some(step) = self.take(next) {
                    left -= self.sets[next].len();
                    taken.push(step);
                    if !failed.contains(&self.done) {
                        next = 0;
                        continue;
                    }
                } else {
                    next += 1;
                    continue;
                }
            } else {
                failed.insert(self.done.clone());
            }
            // Another step takes the place of the last one.
            let last = taken.pop()?;
            next = last.set + 1;
            left += self.sets[last.set].len();
            self.undo(last);
        }
        Some(taken.into_iter().map(|step| self.sets[step.set].clone()).collect())
    }

    /// Takes a step, if it is possible.
    fn take(&mut self, set: usize) -> Option<Taken> {
        let movers = self.movers;
        if self.sets[set].iter().any(|mover| self.done[*mover]) || !self.has_room(set) {
            return None;
        }
        for mover in &self.sets[set] {
            self.places[movers[*mover].server] = movers[*mover].to;
        }
        let rules = &self.rules[set];
        let after: Vec<bool> = rules
            .iter()
            .map(|rule| self.problem.rules[*rule].holds(self.problem, &self.places))
            .collect();
        let breaks = rules.iter().zip(&after).any(|(rule, holds)| self.holds[*rule] && !holds);
        if breaks {
            for mover in &self.sets[set] {
                self.places[movers[*mover].server] = movers[*mover].from;
            }
            return None;
        }
        let held = self.holds.clone();
        for (rule, holds) in rules.iter().zip(after) {
            self.holds[*rule] = holds;
        }
        self.change(set, 1);
        Some(Taken { set, held })
    }

    fn undo(&mut self, Taken { set, held }: Taken) {
        self.change(set, -1);
        self.holds = held;
        for mover in &self.sets[set] {
            self.places[self.movers[*mover].server] = self.movers[*mover].from;
        }
    }

    /// Marks the movers of a set as moved, or with a factor of -1 as not moved.
    fn change(&mut self, set: usize, factor: i64) {
        for mover in &self.sets[set] {
            self.done[*mover] = factor > 0;
            let mover = &self.movers[*mover];
            let takes = mover.takes.iter().map(|(provider, class, it)| (provider, class, *it));
            let releases =
                mover.releases.iter().map(|(provider, class, it)| (provider, class, -it));
            for (provider, class, amount) in takes.chain(releases) {
                *self.used.entry((*provider, *class)).or_insert(0) += factor * amount;
            }
        }
    }

    /// Returns whether the movers of a set find room.
    fn has_room(&self, set: usize) -> bool {
        let mut needed: HashMap<(ProviderId, ClassId), i64> = HashMap::new();
        for mover in self.sets[set].iter().map(|mover| &self.movers[*mover]) {
            for (provider, class, amount) in &mover.takes {
                *needed.entry((*provider, *class)).or_insert(0) += amount;
            }
            for (provider, class, amount) in mover.releases.iter().filter(|_| mover.at_once) {
                *needed.entry((*provider, *class)).or_insert(0) -= amount;
            }
        }
        needed.into_iter().filter(|(_, amount)| *amount > 0).all(|(pool, amount)| {
            let inventory = self.world.provider_by_id(pool.0).and_then(|it| it.inventory(pool.1));
            let free = inventory.map_or(0, |it| it.terms.capacity() - it.used);
            free - self.used.get(&pool).copied().unwrap_or(0) >= amount
        })
    }
}
