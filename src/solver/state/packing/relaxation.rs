//! The relaxation of a component: each variable draws no more than the least that any variable draws at its site.
//! This leaves a matching of variables to sites with seats.

#![expect(
    clippy::indexing_slicing,
    reason = "variables, ways, sites and pools are numbered densely"
)]

use std::collections::HashMap;

use super::components::Variable;
use super::item::{Item, is_left};
use super::sites::Sites;
use crate::solver::budget::Budget;
use crate::solver::matching::serve;

/// The result of the relaxation of a component.
pub(super) enum Relaxed {
    /// It has no solution, or the budget is spent.
    Impossible,
    /// It has this solution: a way for each variable. The relaxation was exact, because all
    /// variables draw the same at each site, and nothing but capacity binds them.
    Solved(Vec<usize>),
    /// It may have a solution.
    Open,
}

/// A site, as far as the relaxation is concerned.
#[derive(Clone, Debug, Default)]
struct RelaxedSite<'d> {
    /// By pool: the minimum draw of the ways there, and the number of ways that draw on it.
    least: HashMap<usize, (u64, usize)>,
    /// The ways there, of all variables.
    ways: usize,
    /// The draws of the first way.
    draws: Option<&'d [(usize, u64)]>,
}

impl<'d> RelaxedSite<'d> {
    /// Adds a way. Returns whether it draws the same as those before.
    fn add(&mut self, draws: &'d [(usize, u64)]) -> bool {
        self.ways += 1;
        for (pool, amount) in draws {
            let (least, ways) = self.least.entry(*pool).or_insert((*amount, 0));
            *least = *amount.min(least);
            *ways += 1;
        }
        *self.draws.get_or_insert(draws) == draws
    }

    /// The maximum number of variables that the site can supply. Only a pool on which every way draws limits it.
    fn seats(&self, left: &[u64]) -> u64 {
        let limits = self.least.iter().filter(|(_, (_, ways))| *ways == self.ways);
        limits.map(|(pool, (least, _))| left[*pool] / least).min().unwrap_or(u64::MAX)
    }
}

/// Solves the relaxation of a component.
pub(super) fn relax(
    items: &[Item<'_>],
    variables: &[Variable],
    sites: &Sites,
    left: &[u64],
    budget: &mut Budget<'_>,
) -> Relaxed {
    let mut relaxed = vec![RelaxedSite::default(); sites.sites.len()];
    let mut is_exact = true;
    // For each variable that needs a site: its sites, and a way at each.
    let mut options: Vec<Vec<(usize, usize)>> = Vec::with_capacity(variables.len());
    for variable in variables {
        let item = &items[variable.item];
        is_exact &= !item.server.is_coupled();
        let ways = item.part(variable.part).ways;
        let mut needs_site = true;
        let mut own = Vec::with_capacity(variable.ways.len());
        for way in &variable.ways {
            let way_draws = &ways[*way].draws;
            budget.is_spent_after(8 + 4 * way_draws.len());
            needs_site &= !way_draws.is_empty();
            let Some((site, number)) = sites.of_way(variable.sort, *way) else { continue };
            is_exact &= relaxed[site].add(way_draws) && number == 0;
            if is_left(left, way_draws) {
                own.push((site, *way));
            }
        }
        is_exact &= needs_site;
        if needs_site {
            options.push(own);
        }
    }
    let seats: Vec<u64> = relaxed.iter().map(|site| site.seats(left)).collect();
    let takers: Vec<usize> = (0..options.len()).collect();
    let reachable = |sort: usize| options[sort].iter().map(|(site, _)| *site);
    let Some(served) = serve(reachable, &takers, &seats, budget) else {
        return Relaxed::Impossible;
    };
    if !is_exact {
        return Relaxed::Open;
    }
    let way = |(own, site): (&Vec<(usize, usize)>, usize)| {
        own.iter().find(|(it, _)| *it == site).map(|(_, way)| *way)
    };
    let ways = options.iter().zip(served).map(way).collect::<Option<Vec<usize>>>();
    ways.map_or(Relaxed::Impossible, Relaxed::Solved)
}
