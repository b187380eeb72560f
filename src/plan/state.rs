//! A placement in the making: who is where so far, what is left, and what the rules say of the rest.

#![expect(
    clippy::indexing_slicing,
    reason = "bundles, hosts, rules and units are numbered densely"
)]

use super::bundle::Bundle;
use super::clock::Clock;
use super::cost::Cost;
use super::stock::Stock;
use super::units::Units;
use super::{Level, Problem, Rule};

/// Who is where so far.
#[derive(Debug)]
pub(super) struct State<'p> {
    problem: &'p Problem,
    units: &'p Units,
    bundles: &'p [Bundle],
    rooms: &'p [u64],
    /// The host of each bundle.
    pub(super) hosts: Vec<Option<usize>>,
    /// What is left, and who draws on it in which way.
    pub(super) stock: Stock<'p>,
    /// Bundles of the problem on each host.
    on_host: Vec<usize>,
    in_rack: Vec<usize>,
    /// For each rule and unit: how many bundles of the rule are there, of which part, and, for rules
    /// that keep others out, how many others.
    tallies: Vec<Vec<Tally>>,
    /// For each rule of one unit: where it is, and how many are there.
    gathered: Vec<(usize, usize)>,
    racks: u64,
    new_hosts: u64,
    moved: u64,
    room: u64,
    placed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    members: usize,
    part: usize,
    others: usize,
}

impl<'p> State<'p> {
    pub(super) fn new(
        problem: &'p Problem,
        units: &'p Units,
        bundles: &'p [Bundle],
        stock: Stock<'p>,
        rooms: &'p [u64],
    ) -> Self {
        let tallies = problem.rules.iter();
        let tallies = tallies.map(|rule| vec![Tally::default(); units.count(rule.level())]);
        Self {
            problem,
            units,
            bundles,
            rooms,
            hosts: vec![None; bundles.len()],
            stock,
            on_host: vec![0; problem.hosts.len()],
            in_rack: vec![0; units.count(Level::Rack)],
            tallies: tallies.collect(),
            gathered: vec![(0, 0); problem.rules.len()],
            racks: 0,
            new_hosts: 0,
            moved: 0,
            room: 0,
            placed: 0,
        }
    }

    /// Whether no bundle has been placed on a host so far.
    pub(super) fn is_untouched(&self, host: usize) -> bool {
        self.on_host[host] == 0
    }

    /// Whether a bundle can be placed on a host beside those that have been placed.
    pub(super) fn can_be(&mut self, bundle: usize, host: usize, clock: &mut Clock<'_>) -> bool {
        let it = &self.bundles[bundle];
        it.may_be_on[host]
            && self.rules_allow(it, host)
            && self.stock.has_room(it.load, host, clock)
    }

    fn rules_allow(&self, bundle: &Bundle, host: usize) -> bool {
        let mut bound = bundle.rules.iter().peekable();
        self.problem.rules.iter().enumerate().all(|(number, rule)| {
            let part = bound.next_if(|(bound, _)| *bound == number).map(|(_, part)| *part);
            let Some(unit) = self.units.unit(rule.level(), host) else {
                // Whom a rule binds needs a unit; whom it does not bind is in nobody's way.
                return part.is_none();
            };
            let tally = self.tallies[number][unit];
            match (rule, part) {
                (Rule::Together(..), Some(_)) => {
                    let (at, count) = self.gathered[number];
                    count == 0 || at == unit
                }
                (Rule::Apart(..), Some(part)) => tally.members == 0 || tally.part == part,
                (Rule::Alone(..), Some(_)) => tally.others == 0,
                (Rule::Alone(..), None) => tally.members == 0,
                (Rule::Together(..) | Rule::Apart(..), None) => true,
            }
        })
    }

    /// Places a bundle in the way of a variant, unless there is no room for that.
    pub(super) fn place(
        &mut self,
        bundle: usize,
        host: usize,
        variant: usize,
        clock: &mut Clock<'_>,
    ) -> bool {
        if !self.stock.take(bundle, host, variant, clock) {
            return false;
        }
        let it = &self.bundles[bundle];
        self.on_host[host] += 1;
        if self.on_host[host] == 1 && !self.problem.hosts[host].in_use {
            self.new_hosts += 1;
        }
        if let Some(rack) = self.units.unit(Level::Rack, host) {
            self.in_rack[rack] += 1;
            self.racks += u64::from(self.in_rack[rack] == 1);
        }
        self.moved += moves(it, host);
        self.room += self.rooms[host] * count(it);
        self.placed += count(it);
        self.tally(bundle, host, 1);
        self.hosts[bundle] = Some(host);
        true
    }

    pub(super) fn take_back(&mut self, bundle: usize, host: usize) {
        let it = &self.bundles[bundle];
        self.stock.give_back(bundle, host);
        self.on_host[host] -= 1;
        if self.on_host[host] == 0 && !self.problem.hosts[host].in_use {
            self.new_hosts -= 1;
        }
        if let Some(rack) = self.units.unit(Level::Rack, host) {
            self.in_rack[rack] -= 1;
            self.racks -= u64::from(self.in_rack[rack] == 0);
        }
        self.moved -= moves(it, host);
        self.room -= self.rooms[host] * count(it);
        self.placed -= count(it);
        self.tally(bundle, host, -1);
        self.hosts[bundle] = None;
    }

    fn tally(&mut self, bundle: usize, host: usize, change: isize) {
        let mut bound = self.bundles[bundle].rules.iter().peekable();
        for (number, rule) in self.problem.rules.iter().enumerate() {
            let part = bound.next_if(|(bound, _)| *bound == number).map(|(_, part)| *part);
            let Some(unit) = self.units.unit(rule.level(), host) else { continue };
            let tally = &mut self.tallies[number][unit];
            if let Some(part) = part {
                tally.members = tally.members.saturating_add_signed(change);
                tally.part = part;
                let (at, members) = &mut self.gathered[number];
                *members = members.saturating_add_signed(change);
                *at = unit;
            } else {
                tally.others = tally.others.saturating_add_signed(change);
            }
        }
    }

    /// What the bundles that have been placed cost.
    pub(super) fn cost(&self) -> Cost {
        self.cost_with(self.moved, 0, 0, self.room)
    }

    /// What it costs at the least if those that are left are placed as well: `moved` and `room` of
    /// theirs are known at the least.
    pub(super) fn bound(&self, moved: u64, room: u64, left: u64) -> Cost {
        if self.problem.spread {
            self.cost_with(self.moved + moved, left, left, self.room + room)
        } else {
            self.cost_with(self.moved + moved, 0, 0, self.room + room)
        }
    }

    fn cost_with(&self, moved: u64, hosts: u64, racks: u64, room: u64) -> Cost {
        let (hosts, racks) = (self.new_hosts + hosts, self.racks + racks);
        if !self.problem.spread {
            return Cost { moved, new_hosts: hosts, racks, room };
        }
        let all = u64::try_from(self.problem.servers.len()).unwrap_or(u64::MAX);
        let (new_hosts, racks) = (all.saturating_sub(hosts), all.saturating_sub(racks));
        Cost { moved, new_hosts, racks, room }
    }

    /// What placing a bundle on a host adds, for choosing what to try first.
    pub(super) fn added(&self, bundle: usize, host: usize) -> Cost {
        let it = &self.bundles[bundle];
        let is_new = self.is_untouched(host) && !self.problem.hosts[host].in_use;
        let rack = self.units.unit(Level::Rack, host);
        let is_new_rack = rack.is_some_and(|rack| self.in_rack[rack] == 0);
        let wanted = |is_new: bool| u64::from(is_new != self.problem.spread);
        Cost {
            moved: moves(it, host),
            new_hosts: wanted(is_new),
            racks: wanted(is_new_rack),
            room: self.rooms[host] * count(it),
        }
    }
}

/// How many servers of a bundle would not be where they are.
pub(super) fn moves(bundle: &Bundle, host: usize) -> u64 {
    let moved = bundle.are_on.iter().flatten().filter(|at| **at != host).count();
    u64::try_from(moved).unwrap_or(u64::MAX)
}

/// How many servers a bundle has.
pub(super) fn count(bundle: &Bundle) -> u64 {
    u64::try_from(bundle.servers.len()).unwrap_or(u64::MAX)
}
