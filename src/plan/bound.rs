//! What a placement in the making costs at the least, and when it is hopeless.
//!
//! Of what a placement costs the first difference decides. So each part of a bound may take for
//! granted that the parts before it come to no more than their bounds: if no new host is needed,
//! racks and room are looked for on hosts in use alone.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts, racks and rules are numbered densely")]

use super::clock::Clock;
use super::cost::Cost;
use super::limits::{ByRack, Limits, Racks};
use super::room::{LeastRoom, least_room};
use super::state::State;
use super::{Level, Rule};

/// What it costs at the least to place those that are left as well.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) least: Cost,
    /// What the room of those that are left comes to, if that matters.
    pub(super) room: Option<LeastRoom>,
}

/// What it costs at the least to place those that are left as well: `None` if it is seen that they
/// cannot be. What does not matter beside `best` is left out. It is of no use once the time is up.
pub(super) fn bound(
    state: &State<'_>,
    limits: &Limits,
    best: Option<Cost>,
    clock: &mut Clock<'_>,
) -> Option<Bound> {
    if is_hopeless(state, clock) {
        return None;
    }
    let mut least = state.so_far();
    let moves = |(kind, left)| fewest_moves(state, kind) * left as u64;
    least.moved += left(state).map(moves).sum::<u64>();
    if state.setting.problem.spread {
        return Some(spread(state, limits, (least, best), clock));
    }
    if !is_even(least, best, 1) {
        return Some(Bound { least, room: None });
    }
    let new_hosts = new_hosts(state, limits, clock)?;
    least.new_hosts += new_hosts;
    if !is_even(least, best, 2) {
        return Some(Bound { least, room: None });
    }
    let is_usable = |host: usize| new_hosts > 0 || state.domains.is_at_hand(host);
    let of_racks = if new_hosts > 0 { &limits.all } else { &limits.in_use };
    let racks = Known::of(state, limits, is_usable, clock).racks(state, of_racks, clock);
    least.racks += racks;
    if !is_even(least, best, 3) {
        return Some(Bound { least, room: None });
    }
    let rack_of = state.setting.units.racks();
    let is_known = |host: usize| rack_of[host].is_none_or(|it| !state.is_rack_untouched(it));
    let more_racks = Some((racks, new_hosts == 0)).filter(|_| racks > 0);
    let is_usable = |host: usize| is_usable(host) && (racks > 0 || is_known(host));
    let room = least_room(state, limits, (more_racks, &is_usable), clock);
    match &room {
        Some(room) => least.room += room.all(),
        None => least.racks += 1,
    }
    Some(Bound { least, room })
}

/// The same if servers are to be spread: then as many hosts and racks as can be are the best.
fn spread(
    state: &State<'_>,
    limits: &Limits,
    (mut most, best): (Cost, Option<Cost>),
    clock: &mut Clock<'_>,
) -> Bound {
    let left: u64 = left(state).map(|(_, left)| left as u64).sum();
    most.new_hosts += left.min(limits.unused.saturating_sub(most.new_hosts));
    most.racks += left.min(limits.with_somebody.saturating_sub(most.racks));
    let mut least = state.cost(most);
    if !is_even(least, best, 3) {
        return Bound { least, room: None };
    }
    let room = least_room(state, limits, (None, &|_| true), clock);
    least.room += room.as_ref().map_or(0, LeastRoom::all);
    Bound { least, room }
}

/// Whether the first parts of a bound leave open whether it is less than the best.
fn is_even(least: Cost, best: Option<Cost>, parts: usize) -> bool {
    let first = |it: Cost| [it.moved, it.new_hosts, it.racks].into_iter().take(parts);
    best.is_none_or(|best| first(least).eq(first(best)))
}

/// The kinds of which there are some left, and how many.
pub(super) fn left(state: &State<'_>) -> impl Iterator<Item = (usize, usize)> {
    let left = state.left.iter().map(Vec::len).enumerate();
    left.filter(|(_, left)| *left > 0)
}

/// Whether there is no room for all of one kind, or there are too few units for all parts of a rule.
fn is_hopeless(state: &State<'_>, clock: &mut Clock<'_>) -> bool {
    clock.is_up_after(4 * state.left.len());
    left(state).any(|(kind, left)| {
        let (domain, it) = (state.domains.of_kind(kind), &state.setting.kinds[kind]);
        domain.slots < left
            || it.is_apart(Level::Rack) && domain.racks < left
            || it.is_apart(Level::Cluster) && domain.clusters < left
    }) || apart(state).any(|(rule, level)| {
        let units = |(kind, _): &(usize, _)| {
            let domain = state.domains.of_kind(*kind);
            match level {
                Level::Host => domain.hosts,
                Level::Rack => domain.racks,
                Level::Cluster => domain.clusters,
            }
        };
        let needed = state.unstarted[rule];
        clock.is_up_after(state.setting.bound[rule].len());
        let most = state.setting.bound[rule].iter().map(units).max().unwrap_or(0);
        most < needed && missing_units(state, rule, |_| true, clock) > 0
    })
}

/// The rules that keep parts apart and of which there are some left.
fn apart(state: &State<'_>) -> impl Iterator<Item = (usize, Level)> {
    let rules = state.setting.problem.rules.iter().enumerate();
    rules.filter_map(|(number, rule)| match rule {
        Rule::Apart(level, _) if state.unstarted[number] > 0 => Some((number, *level)),
        Rule::Apart(..) | Rule::Together(..) | Rule::Alone(..) => None,
    })
}

/// How many parts of a rule are left that find no unit of their own with such hosts.
fn missing_units(
    state: &State<'_>,
    rule: usize,
    is_usable: impl Fn(usize) -> bool,
    clock: &mut Clock<'_>,
) -> usize {
    let setting = state.setting;
    let level = setting.problem.rules[rule].level();
    let mut missing = state.unstarted[rule];
    let mut seen = vec![false; setting.units.count(level)];
    for host in 0..setting.problem.hosts.len() {
        if missing == 0 || clock.is_up_after(2) {
            break;
        }
        let Some(unit) = setting.units.unit(level, host).filter(|unit| !seen[*unit]) else {
            continue;
        };
        let can_be = |(kind, _): &(usize, _)| {
            !state.left[*kind].is_empty() && state.domains.is_open(*kind, host)
        };
        if !is_usable(host) {
            continue;
        }
        clock.is_up_after(setting.bound[rule].len());
        if setting.bound[rule].iter().any(can_be) {
            seen[unit] = true;
            missing -= 1;
        }
    }
    missing
}

/// How many are left of the parts of a rule if each kind that is a part by itself has as many units
/// as there are for it.
fn beyond(state: &State<'_>, rule: usize, units: impl Fn(usize) -> usize) -> usize {
    let parts = state.setting.bound[rule].iter().filter(|(_, part)| part.is_none());
    parts.map(|(kind, _)| state.left[*kind].len().saturating_sub(units(*kind))).sum()
}

/// How many servers of one of a kind are moved at the least.
pub(super) fn fewest_moves(state: &State<'_>, kind: usize) -> u64 {
    let it = &state.setting.kinds[kind];
    let open = it.homes.iter().filter(|(home, _)| is_open_at(state, kind, *home));
    it.settled - open.map(|(_, stay)| *stay).max().unwrap_or(0)
}

fn is_open_at(state: &State<'_>, kind: usize, host: usize) -> bool {
    host < state.setting.problem.hosts.len() && state.domains.is_open(kind, host)
}

/// How many more hosts are needed at the least that are not in use yet.
fn new_hosts(state: &State<'_>, limits: &Limits, clock: &mut Clock<'_>) -> Option<u64> {
    let mut needed = 0;
    for (kind, left) in left(state) {
        let missing = left.saturating_sub(state.domains.of_kind(kind).slots_at_hand);
        if missing > 0 {
            let most = Some(limits.most_on_new[kind]).filter(|most| *most > 0)?;
            needed = needed.max(missing.div_ceil(most));
        }
    }
    for (class, free) in limits.new_hosts.iter().enumerate() {
        let missing = state.needed[class].saturating_sub(state.at_hand[class]);
        if missing > 0 {
            let hosts = free.partition_point(|sum| *sum < missing) + 1;
            needed = needed.max(Some(hosts).filter(|hosts| *hosts <= free.len())?);
        }
    }
    for (rule, _) in apart(state) {
        let is_at_hand = |host| state.domains.is_at_hand(host);
        needed = needed.max(missing_units(state, rule, is_at_hand, clock));
        clock.is_up_after(state.setting.bound[rule].len());
        needed = needed.max(beyond(state, rule, |kind| state.domains.of_kind(kind).slots_at_hand));
    }
    Some(needed as u64)
}

/// What there is without another rack.
struct Known {
    free: Vec<u128>,
    slots: Vec<u128>,
    parts: Vec<u128>,
}

impl Known {
    fn of(
        state: &State<'_>,
        limits: &Limits,
        is_usable: impl Fn(usize) -> bool,
        clock: &mut Clock<'_>,
    ) -> Self {
        let setting = state.setting;
        let mut known = Self {
            free: vec![0; setting.sizes.classes],
            slots: vec![0; setting.kinds.len()],
            parts: vec![0; setting.problem.rules.len()],
        };
        let usable = |hosts: &[usize]| -> Vec<usize> {
            hosts.iter().copied().filter(|host| is_usable(*host)).collect()
        };
        known.add(state, &usable(&limits.rackless), false, clock);
        for rack in &state.racks {
            if clock.is_up_after(1) {
                break;
            }
            known.add(state, &usable(setting.units.hosts(Level::Rack, *rack)), true, clock);
        }
        known
    }

    fn add(&mut self, state: &State<'_>, hosts: &[usize], is_rack: bool, clock: &mut Clock<'_>) {
        clock.is_up_after(hosts.len() * (1 + self.free.len()));
        for host in hosts {
            for (sum, free) in self.free.iter_mut().zip(&state.own_left[*host]) {
                *sum += free;
            }
        }
        for (kind, _) in left(state) {
            if clock.is_up_after(1 + hosts.len()) {
                return;
            }
            let open = hosts.iter().filter(|host| state.domains.is_open(kind, **host));
            let slots: usize = open.map(|host| state.domains.slots(kind, *host)).sum();
            let is_apart = is_rack && state.setting.kinds[kind].is_apart(Level::Rack);
            self.slots[kind] += if is_apart { slots.min(1) } else { slots } as u128;
        }
        for (rule, level) in apart(state) {
            let bound = &state.setting.bound[rule];
            if clock.is_up_after(1 + hosts.len() * bound.len()) {
                return;
            }
            let can_be =
                |host: &&usize| bound.iter().any(|(it, _)| state.domains.is_open(*it, **host));
            let parts = hosts.iter().filter(can_be).count();
            let is_apart = is_rack && level == Level::Rack;
            self.parts[rule] += if is_apart { parts.min(1) } else { parts } as u128;
        }
    }

    /// How many more racks are needed at the least.
    fn racks(&self, state: &State<'_>, limits: &Racks, clock: &mut Clock<'_>) -> u64 {
        let work = 2 + state.racks.len();
        let mut needed = 0;
        for (class, known) in self.free.iter().enumerate() {
            needed = needed.max(racks(state, &limits.free[class], state.needed[class], *known));
        }
        for (kind, left) in left(state) {
            if clock.is_up_after(work) {
                return needed;
            }
            needed = needed.max(racks(state, &limits.slots[kind], left as u128, self.slots[kind]));
        }
        for (rule, level) in apart(state) {
            if clock.is_up_after(work + state.setting.bound[rule].len()) {
                return needed;
            }
            let left = state.unstarted[rule] as u128;
            needed = needed.max(racks(state, &limits.parts[rule], left, self.parts[rule]));
            if level == Level::Rack {
                let known = |kind: usize| usize::try_from(self.slots[kind]).unwrap_or(usize::MAX);
                needed = needed.max(beyond(state, rule, known) as u64);
            }
        }
        needed
    }
}

/// How many racks that nothing is in yet it takes to have as much as is needed.
fn racks(state: &State<'_>, limits: &ByRack, needed: u128, known: u128) -> u64 {
    let mut missing = needed.saturating_sub(known);
    let mut racks = 0;
    let mut others = limits.iter().filter(|(_, rack)| state.is_rack_untouched(*rack));
    while missing > 0 {
        racks += 1;
        missing = missing.saturating_sub(others.next().map_or(missing, |(it, _)| *it));
    }
    racks
}
