//! What is known of a problem before the search and does not change during it.

#![expect(clippy::indexing_slicing, reason = "hosts, kinds, loads and rules are numbered densely")]

use super::alike::Alike;
use super::bundle::{Bundle, bundles};
use super::clock::Clock;
use super::cost::rooms;
use super::domain;
use super::kind::{Kind, kinds};
use super::load::{Load, Sizes};
use super::units::Units;
use super::{Problem, Rule};

/// What is known of a problem.
#[derive(Debug)]
pub(super) struct Setting<'p> {
    pub(super) problem: &'p Problem,
    pub(super) units: Units,
    pub(super) sizes: Sizes<'p>,
    pub(super) bundles: Vec<Bundle>,
    pub(super) loads: Vec<Load>,
    pub(super) kinds: Vec<Kind>,
    pub(super) kinds_of_load: Vec<Vec<usize>>,
    /// For each rule the kinds it binds, with their part, and for one that keeps others out, those.
    pub(super) bound: Vec<Vec<(usize, Option<usize>)>>,
    pub(super) kept_out: Vec<Vec<usize>>,
    /// Rules that keep others out.
    pub(super) keeping_out: Vec<usize>,
    pub(super) alike: Alike,
    /// How roomy each host is, and the hosts by that.
    pub(super) rooms: Vec<u64>,
    pub(super) by_room: Vec<usize>,
    /// For each pool the hosts that share it.
    pub(super) sharing: Vec<Vec<usize>>,
    /// What is free of each class on each host, less what is shared.
    pub(super) own_free: Vec<Vec<u128>>,
}

impl<'p> Setting<'p> {
    /// What is known of a problem. `None` if its rules contradict each other whatever the hosts are.
    /// It is of no use, be it none, once the time is up.
    pub(super) fn of(problem: &'p Problem, clock: &mut Clock<'_>) -> Option<Self> {
        let units = Units::of(&problem.hosts);
        let sizes = Sizes::of(problem, clock);
        // Several tables have an entry for each class and host.
        clock.is_up_with(8 * sizes.classes * problem.hosts.len());
        if clock.is_up() {
            return None;
        }
        let (bundles, loads) = bundles(problem, &units, &sizes, clock)?;
        let kinds = kinds(problem, &bundles, &loads, clock);
        if clock.is_up() {
            return None;
        }
        let rooms = rooms(problem);
        let mut by_room: Vec<usize> = (0..problem.hosts.len()).collect();
        by_room.sort_by_key(|host| rooms[*host]);
        let mut kinds_of_load = vec![Vec::new(); loads.len()];
        let mut bound = vec![Vec::new(); problem.rules.len()];
        for (nth, kind) in kinds.iter().enumerate() {
            kinds_of_load[kind.load].push(nth);
            kind.rules.iter().for_each(|(rule, part)| bound[*rule].push((nth, *part)));
        }
        let keeping_out: Vec<usize> = (0..problem.rules.len())
            .filter(|rule| matches!(problem.rules[*rule], Rule::Alone(..)))
            .collect();
        let kept_out = kept_out(&bound, &keeping_out, kinds.len(), clock);
        let setting = Self {
            problem,
            alike: Alike::of(problem, &units, &sizes, (&kinds, &bundles), clock),
            sharing: sizes.sharing(clock),
            own_free: sizes.own_free(clock),
            units,
            sizes,
            bundles,
            loads,
            kinds,
            kinds_of_load,
            bound,
            kept_out,
            keeping_out,
            rooms,
            by_room,
        };
        let tallies = problem.rules.iter().map(|rule| 2 * setting.units.count(rule.level())).sum();
        clock.is_up_with(tallies);
        clock.is_up_with(domain::size(&setting));
        Some(setting)
    }
}

/// For each rule that keeps others out, the kinds that it does not bind.
fn kept_out(
    bound: &[Vec<(usize, Option<usize>)>],
    keeping_out: &[usize],
    kinds: usize,
    clock: &mut Clock<'_>,
) -> Vec<Vec<usize>> {
    let mut kept_out = vec![Vec::new(); bound.len()];
    for rule in keeping_out {
        if clock.is_up_with(kinds) {
            break;
        }
        let mut is_bound = vec![false; kinds];
        bound[*rule].iter().for_each(|(kind, _)| is_bound[*kind] = true);
        kept_out[*rule] = (0..kinds).filter(|kind| !is_bound[*kind]).collect();
    }
    kept_out
}
