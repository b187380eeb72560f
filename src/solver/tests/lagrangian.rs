//! Compares the Lagrangian bound with an exhaustive search.

use proptest::prelude::*;

use super::super::bounds::{Allowance, Effort, Lagrangian, Limits, SumBounds, bound};
use super::super::evaluation::cost;
use super::super::model::Model;
use super::super::state::State;
use super::super::{Budget, Cost, Goal, Level, PlacementPolicy, PlacementProblem};
use super::exhaustive::problems;
use super::room::Room;
use super::{broken, never};

/// All valid placements, with their cost.
fn placements(problem: &PlacementProblem) -> Vec<(Vec<usize>, Cost)> {
    let (hosts, count) = (problem.hosts.len(), problem.servers.len());
    let place = |number: usize, nth: usize| number / hosts.pow(nth as u32) % hosts;
    let all = (0..hosts.pow(count as u32))
        .map(|number| (0..count).map(|nth| place(number, nth)).collect::<Vec<usize>>());
    let mut room = Room::of(problem);
    let is_valid =
        |places: &Vec<usize>| broken(problem, places).is_none() && room.is_enough(places);
    all.filter(is_valid).map(|places| (places.clone(), cost(problem, &places))).collect()
}

fn packed(problem: PlacementProblem, level: Level) -> PlacementProblem {
    PlacementProblem { policy: PlacementPolicy { goal: Goal::Pack, level }, ..problem }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever the prices are, neither the bound nor its increases exceed the least fit of the placements that
    /// they apply to.
    #[test]
    fn it_is_never_too_high(problem in problems(), level in prop::sample::select(Level::ALL.to_vec()), steps in 0_usize..60, gap_divisor in proptest::option::of(1_i64..100)) {
        let problem = packed(problem, level);
        let mut never = never;
        let mut budget = Budget::new(&mut never);
        let Some(model) = Model::of(&problem, &mut budget) else { return Ok(()) };
        let state = State::new(&model, &mut budget);
        let limits = Limits::of(&state, &mut budget);
        let Some(first) = bound(&state, &limits, None, &mut budget) else { return Ok(()) };
        // The bound assumes that the components before the fit are met exactly.
        let all = placements(&problem);
        let is_about = |(_, cost): &&(Vec<usize>, Cost)| {
            cost.without_sums() == first.least.without_sums()
        };
        let about: Vec<_> = all.iter().filter(is_about).collect();
        if about.is_empty() || !matches!(first.rest, SumBounds::Fit(_)) {
            return Ok(());
        }
        let least = |places: &dyn Fn(&[usize]) -> bool| {
            about.iter().filter(|(it, _)| places(it)).map(|(_, cost)| cost.fit).min()
        };
        let best = least(&|_| true).unwrap_or(0);
        let mut lagrangian = Lagrangian::new(&model, &limits);
        lagrangian.set_prices_from((0..model.bundles.len()).map(|nth| 100 * nth as u64));
        let units = first.least.units as usize;
        let more = Allowance { new_hosts: first.least.new_hosts as usize, units };
        let effort = Effort { steps, gap_divisor };
        let fit = lagrangian.improve(&state, (best + 100, more), effort, &mut budget);
        prop_assert!(fit.least() <= best, "{} > {best}", fit.least());
        // The bound and its increases belong to the same prices.
        let effort = Effort { steps: 1, gap_divisor: None };
        let fit = lagrangian.improve(&state, (best + 100, more), effort, &mut budget);
        for (kind, it) in model.kinds.iter().enumerate() {
            for host in 0..problem.hosts.len() {
                let is_here = |places: &[usize]| {
                    it.bundles.iter().any(|nth| places[model.bundles[*nth].servers[0]] == host)
                };
                let at = (kind, host);
                if state.domains.is_open(kind, host) && let Some(with) = least(&is_here) {
                    let rise = lagrangian.rise_with(&state, at, i64::MAX, &mut budget);
                    prop_assert!(rise >= 0 && fit.plus(rise).least() <= with);
                }
                if let Some(without) = least(&|places| !is_here(places)) {
                    let rise = lagrangian.rise_without(&state, kind, host, &mut budget);
                    prop_assert!(rise >= 0 && fit.plus(rise).least() <= without);
                }
            }
        }
    }
}

/// A bound that ignores which servers fit together on a host is far too low here, and this one is not: each host in
/// use takes one server of 3 and one of 2, or two of 2.
#[test]
fn it_knows_what_goes_together_on_a_host() {
    let hosts: Vec<(u64, u32)> = vec![(5, 0); 4];
    let mut problem = packed(
        PlacementProblem {
            hosts: super::hosts(&hosts),
            servers: super::servers(3, 3, 4),
            ..PlacementProblem::default()
        },
        Level::Host,
    );
    problem.pools = super::pools(&problem.hosts);
    problem.servers.extend(super::servers(3, 2, 4));
    for (host, free) in problem.hosts.iter_mut().zip([5, 5, 6, 7]) {
        host.free = vec![free];
        host.in_use = true;
    }
    for (pool, free) in problem.pools.iter_mut().zip([5, 5, 6, 7]) {
        pool.free = free;
    }
    let found = super::placed(&problem).unwrap_or_else(|| panic!("it fits"));
    assert_eq!(found.cost, found.bound);
}
