//! The search for ways of the parts of one component: depth first, with backtracking.

#![expect(clippy::indexing_slicing, reason = "variables, ways and pools are numbered densely")]

use std::collections::{HashMap, HashSet};

use super::components::Variable;
use super::item::{Item, give, rest, take};
use super::relaxation::{Relaxed, relax};
use super::sites::Sites;
use crate::solver::budget::Budget;
use crate::solver::problem::Pool;

/// Maximum size of the memory of failed situations, in numbers; others may be explored again.
const FAILED_MAX: usize = 1 << 20;

/// Chooses a way for each variable of a component. `None` if there is no such choice, or the budget is spent. Takes
/// nothing.
pub(super) fn solve(
    items: &[Item<'_>],
    variables: &[Variable],
    pools: &[Pool],
    left: &mut [u64],
    budget: &mut Budget<'_>,
) -> Option<Vec<usize>> {
    let sites = Sites::of(items, variables);
    match relax(items, variables, &sites, left, budget) {
        Relaxed::Impossible => return None,
        Relaxed::Solved(ways) => return Some(ways),
        Relaxed::Open => {}
    }
    let demand = Demand::of(items, variables, pools);
    let mut search = Search {
        items,
        variables,
        sites,
        demand,
        frames: Vec::new(),
        chosen: Vec::new(),
        failed: HashSet::new(),
        failed_numbers: 0,
    };
    search.run(left, budget)
}

/// The minimum draws of the variables, by class.
#[derive(Debug)]
struct Demand {
    /// The pools of each class.
    pools: Vec<Vec<usize>>,
    /// For each position, the minimum draws of the variables from there on, by class.
    rest: Vec<Vec<u128>>,
}

impl Demand {
    fn of(items: &[Item<'_>], variables: &[Variable], pools: &[Pool]) -> Self {
        let mut classes: HashMap<usize, usize> = HashMap::new();
        let mut of_class: Vec<Vec<usize>> = Vec::new();
        let mut known: HashSet<usize> = HashSet::new();
        let mut class_of = |pool: usize| {
            let next = classes.len();
            let class = *classes.entry(pools[pool].class).or_insert(next);
            if class == next {
                of_class.push(Vec::new());
            }
            if known.insert(pool) {
                of_class[class].push(pool);
            }
            class
        };
        let mut least: Vec<Vec<(usize, u128)>> = Vec::with_capacity(variables.len());
        for variable in variables {
            let ways = items[variable.item].part(variable.part).ways;
            let mut of_variable: HashMap<usize, (usize, u128)> = HashMap::new();
            for way in &variable.ways {
                let mut sums: HashMap<usize, u128> = HashMap::new();
                for (pool, amount) in &ways[*way].draws {
                    *sums.entry(class_of(*pool)).or_insert(0) += u128::from(*amount);
                }
                for (class, sum) in sums {
                    let (ways, least) = of_variable.entry(class).or_insert((0, sum));
                    *ways += 1;
                    *least = sum.min(*least);
                }
            }
            // A class that some way does not draw on may not be drawn on at all.
            let all = of_variable.into_iter().filter(|(_, (ways, _))| *ways == variable.ways.len());
            least.push(all.map(|(class, (_, least))| (class, least)).collect());
        }
        let mut rest = vec![vec![0; of_class.len()]; variables.len() + 1];
        for (nth, least) in least.iter().enumerate().rev() {
            let (before, after) = rest.split_at_mut(nth + 1);
            before[nth].clone_from(&after[0]);
            for (class, amount) in least {
                before[nth][*class] += amount;
            }
        }
        Self { pools: of_class, rest }
    }

    /// Returns whether the remaining capacity may be enough for the variables from a position on.
    fn may_be_met(&self, from: usize, left: &[u64]) -> bool {
        self.pools.iter().zip(&self.rest[from]).all(|(pools, need)| {
            let left: u128 = pools.iter().map(|pool| u128::from(left[*pool])).sum();
            *need <= left
        })
    }
}

/// A depth-first search over the variables of a component.
struct Search<'m> {
    items: &'m [Item<'m>],
    variables: &'m [Variable],
    sites: Sites,
    demand: Demand,
    frames: Vec<Frame>,
    /// The ways of the first variables.
    chosen: Vec<usize>,
    /// Situations without a solution: the position, and the remaining capacity.
    failed: HashSet<Vec<u64>>,
    failed_numbers: usize,
}

/// A level of the search.
struct Frame {
    /// The ways to try, the last one first.
    open: Vec<usize>,
    /// The situation, if it can be remembered.
    situation: Option<Vec<u64>>,
}

impl Search<'_> {
    /// Chooses a way for each variable. Restores the remaining capacity.
    fn run(&mut self, left: &mut [u64], budget: &mut Budget<'_>) -> Option<Vec<usize>> {
        let mut is_open = self.enter(left, budget);
        loop {
            if self.chosen.len() == self.variables.len() {
                break;
            }
            if budget.is_spent() {
                break;
            }
            if is_open && let Some(way) = self.frames.last_mut().and_then(|it| it.open.pop()) {
                take(left, self.draws(self.chosen.len(), way));
                self.chosen.push(way);
                if self.chosen.len() < self.variables.len() {
                    is_open = self.enter(left, budget);
                }
                continue;
            }
            if is_open && let Some(frame) = self.frames.pop() {
                self.remember(frame);
            }
            let Some(way) = self.chosen.pop() else { break };
            give(left, self.draws(self.chosen.len(), way));
            is_open = true;
        }
        let chosen = std::mem::take(&mut self.chosen);
        for (variable, way) in chosen.iter().enumerate() {
            give(left, self.draws(variable, *way));
        }
        (chosen.len() == self.variables.len()).then_some(chosen)
    }

    /// Adds a frame for the next variable. Returns false if it provably has no solution.
    fn enter(&mut self, left: &[u64], budget: &mut Budget<'_>) -> bool {
        let nth = self.chosen.len();
        budget.is_spent_after(16 + 8 * self.sites.sites.len());
        if !self.demand.may_be_met(nth, left) {
            return false;
        }
        let variable = &self.variables[nth];
        let is_first = nth == 0 || self.variables[nth - 1].item != variable.item;
        let is_free = is_first || !self.items[variable.item].server.is_coupled();
        let situation = is_free.then(|| {
            let mut situation = vec![nth as u64];
            situation.extend(self.sites.summary(left));
            situation
        });
        if situation.as_ref().is_some_and(|it| self.failed.contains(it)) {
            return false;
        }
        let open = self.open(nth, left, budget);
        self.frames.push(Frame { open, situation });
        true
    }

    fn remember(&mut self, frame: Frame) {
        let Some(situation) = frame.situation else { return };
        self.failed_numbers += situation.len() + 4;
        if self.failed_numbers <= FAILED_MAX {
            self.failed.insert(situation);
        }
    }

    /// The ways of a variable that fit, one of each class of interchangeable ones; the best comes last.
    fn open(&self, nth: usize, left: &[u64], budget: &mut Budget<'_>) -> Vec<usize> {
        let variable = &self.variables[nth];
        let item = &self.items[variable.item];
        let ways = item.part(variable.part).ways;
        let (mut chosen, used) = self.chosen_of(nth);
        let mut known: HashSet<Vec<u64>> = HashSet::new();
        let mut open = Vec::new();
        for way in &variable.ways {
            let draws = &ways[*way].draws;
            budget.is_spent_after(8 + 4 * draws.len());
            let Some(rest) = rest(left, draws) else { continue };
            if item.server.is_coupled() {
                chosen[variable.part] = Some(*way);
                if !item.server.can_hold(&chosen) {
                    continue;
                }
            }
            if let Some((site, number)) = self.sites.of_way(variable.sort, *way) {
                let it = &self.sites.sites[site];
                let mut sort = vec![it.class as u64, number as u64];
                sort.extend(it.pools.iter().map(|pool| left[*pool]));
                if used.contains(&site) {
                    // Conditions may distinguish it from the others of its class.
                    sort.extend([u64::MAX, site as u64]);
                }
                if !known.insert(sort) {
                    continue;
                }
            }
            open.push((rest, *way));
        }
        open.sort_unstable_by(|one, other| other.cmp(one));
        open.into_iter().map(|(_, way)| way).collect()
    }

    /// The ways chosen for the other parts of the server of a variable, and their sites.
    fn chosen_of(&self, nth: usize) -> (Vec<Option<usize>>, Vec<usize>) {
        let item = self.variables[nth].item;
        if !self.items[item].server.is_coupled() {
            return (Vec::new(), Vec::new());
        }
        let mut chosen = vec![None; self.items[item].parts().len()];
        let mut used = Vec::new();
        for (variable, way) in self.variables.iter().zip(&self.chosen).rev() {
            if variable.item != item {
                break;
            }
            chosen[variable.part] = Some(*way);
            used.extend(self.sites.of_way(variable.sort, *way).map(|(site, _)| site));
        }
        (chosen, used)
    }

    fn draws(&self, variable: usize, way: usize) -> &[(usize, u64)] {
        let variable = &self.variables[variable];
        &self.items[variable.item].part(variable.part).ways[way].draws
    }
}
