//! A placement in the making: who is where so far, and what that leaves for the rest.

#![expect(
    clippy::indexing_slicing,
    reason = "bundles, hosts, rules and units are numbered densely"
)]

use super::clock::Clock;
use super::cost::Cost;
use super::domain::Domains;
use super::setting::Setting;
use super::stock::Stock;
use super::{Level, Place, Rule};

/// Who is where so far.
#[derive(Debug)]
pub(super) struct State<'p> {
    pub(super) setting: &'p Setting<'p>,
    /// Where those that are left can go.
    pub(super) domains: Domains<'p>,
    stock: Stock<'p>,
    /// The host of each bundle, and the variant there.
    pub(super) spots: Vec<Option<(usize, usize)>>,
    /// The bundles of each kind that are left.
    pub(super) left: Vec<Vec<usize>>,
    /// Bundles of the problem on each host, and in each rack.
    on_host: Vec<usize>,
    in_rack: Vec<usize>,
    /// Racks that have been come to, in that order.
    pub(super) racks: Vec<usize>,
    /// For each rule and unit who is there.
    tallies: Vec<Vec<Tally>>,
    /// How many of each part of each rule have been placed; those of a rule without parts are one.
    placed: Vec<Vec<usize>>,
    /// Parts of each rule of which none has been placed.
    pub(super) unstarted: Vec<usize>,
    /// By class, what those that are left draw at the least of pools of their hosts alone, what hosts
    /// at hand have of it, and what is left on each host.
    pub(super) needed: Vec<u128>,
    pub(super) at_hand: Vec<u128>,
    pub(super) own_left: Vec<Vec<u128>>,
    pub(super) new_hosts: u64,
    moved: u64,
    room: u64,
}

/// How many bundles of a rule are in a unit, and, for rules that keep others out, how many others.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    members: usize,
    others: usize,
}

impl<'p> State<'p> {
    /// Nobody is anywhere.
    pub(super) fn new(setting: &'p Setting<'p>, clock: &mut Clock<'_>) -> Self {
        let (problem, units) = (setting.problem, &setting.units);
        let tallies =
            problem.rules.iter().map(|rule| vec![Tally::default(); units.count(rule.level())]);
        let parts = problem.rules.iter().map(|rule| match rule {
            Rule::Apart(_, parts) => parts.len(),
            Rule::Together(..) | Rule::Alone(..) => 1,
        });
        let unstarted = problem.rules.iter().map(|rule| match rule {
            Rule::Apart(_, parts) => parts.iter().filter(|part| !part.is_empty()).count(),
            Rule::Together(..) | Rule::Alone(..) => 1,
        });
        let mut state = Self {
            setting,
            domains: Domains::new(setting, clock),
            stock: Stock::new(setting, clock),
            spots: vec![None; setting.bundles.len()],
            left: setting.kinds.iter().map(|kind| kind.bundles.clone()).collect(),
            on_host: vec![0; problem.hosts.len()],
            in_rack: vec![0; units.count(Level::Rack)],
            racks: Vec::new(),
            tallies: tallies.collect(),
            placed: parts.map(|parts| vec![0; parts]).collect(),
            unstarted: unstarted.collect(),
            needed: vec![0; setting.sizes.classes],
            at_hand: vec![0; setting.sizes.classes],
            own_left: setting.own_free.clone(),
            new_hosts: 0,
            moved: 0,
            room: 0,
        };
        for bundle in &setting.bundles {
            add(&mut state.needed, &setting.loads[bundle.load].least_own);
        }
        for host in 0..problem.hosts.len() {
            if clock.is_up_after(8 * setting.loads.len() + setting.kinds.len()) {
                break;
            }
            state.look_for_room(host, clock);
            if !(0..setting.kinds.len()).any(|kind| state.domains.is_open(kind, host)) {
                state.own_left[host].fill(0);
            }
            if problem.hosts[host].in_use {
                sum(&mut state.at_hand, &state.own_left[host]);
            }
        }
        state
    }

    /// Whether no bundle has been placed on a host so far.
    pub(super) fn is_untouched(&self, host: usize) -> bool {
        self.on_host[host] == 0
    }

    /// Whether no bundle has been placed in a rack so far.
    pub(super) fn is_rack_untouched(&self, rack: usize) -> bool {
        self.in_rack[rack] == 0
    }

    /// Places a bundle that is left in the way of a variant, unless there is no room for that. Once
    /// the time is up, nothing of this state but places and what is drawn is to be relied on, and what
    /// was placed last must not be taken back.
    pub(super) fn place(
        &mut self,
        bundle: usize,
        (host, variant): (usize, usize),
        clock: &mut Clock<'_>,
    ) -> bool {
        if !self.stock.take(bundle, host, variant, clock) {
            return false;
        }
        let setting = self.setting;
        let it = &setting.bundles[bundle];
        let kind = &setting.kinds[it.kind];
        let least = &setting.loads[it.load].least_own;
        subtract(&mut self.needed, least);
        subtract(&mut self.own_left[host], least);
        if self.domains.is_at_hand(host) {
            subtract(&mut self.at_hand, least);
        } else {
            self.new_hosts += 1;
            self.domains.set_at_hand(host, true);
            sum(&mut self.at_hand, &self.own_left[host]);
        }
        self.on_host[host] += 1;
        if let Some(rack) = setting.units.unit(Level::Rack, host) {
            self.in_rack[rack] += 1;
            if self.in_rack[rack] == 1 {
                self.racks.push(rack);
            }
        }
        self.moved += kind.moves(host);
        self.room += setting.rooms[host] * kind.servers;
        self.left[it.kind].retain(|left| *left != bundle);
        self.spots[bundle] = Some((host, variant));
        self.tally(bundle, host, true, clock);
        self.room_changed(host, clock);
        true
    }

    /// Takes a bundle from where it has been placed.
    pub(super) fn take_back(&mut self, bundle: usize, clock: &mut Clock<'_>) {
        let Some((host, _)) = self.spots[bundle].take() else { return };
        self.stock.give_back(bundle, host);
        let setting = self.setting;
        let it = &setting.bundles[bundle];
        let kind = &setting.kinds[it.kind];
        let least = &setting.loads[it.load].least_own;
        self.on_host[host] -= 1;
        if self.on_host[host] == 0 && !setting.problem.hosts[host].in_use {
            self.new_hosts -= 1;
            self.domains.set_at_hand(host, false);
            for (at_hand, own) in self.at_hand.iter_mut().zip(&self.own_left[host]) {
                *at_hand -= own;
            }
        } else {
            add(&mut self.at_hand, least);
        }
        add(&mut self.needed, least);
        add(&mut self.own_left[host], least);
        if let Some(rack) = setting.units.unit(Level::Rack, host) {
            self.in_rack[rack] -= 1;
            if self.in_rack[rack] == 0 {
                self.racks.retain(|it| *it != rack);
            }
        }
        self.moved -= kind.moves(host);
        self.room -= setting.rooms[host] * kind.servers;
        self.left[it.kind].push(bundle);
        self.tally(bundle, host, false, clock);
        self.room_changed(host, clock);
    }

    fn room_changed(&mut self, host: usize, clock: &mut Clock<'_>) {
        self.look_for_room(host, clock);
        let setting = self.setting;
        for pool in std::mem::take(&mut self.stock.tight) {
            for other in setting.sharing[pool].iter().filter(|other| **other != host) {
                self.look_for_room(*other, clock);
            }
        }
    }

    fn look_for_room(&mut self, host: usize, clock: &mut Clock<'_>) {
        clock.is_up_after(4 * self.setting.loads.len());
        for (nth, load) in self.setting.loads.iter().enumerate() {
            if clock.is_up_after(1) {
                return;
            }
            let mut slots = self.stock.slots(nth, host, clock);
            if slots == u16::MAX {
                let needs = load.least_own.iter().zip(&self.own_left[host]);
                let fit = needs.filter(|(need, _)| **need > 0);
                let fit = fit.map(|(need, left)| left / u128::from(*need)).min();
                let fit = fit.and_then(|fit| u16::try_from(fit).ok());
                slots = fit.map_or(slots, |fit| fit.max(1));
            }
            self.domains.set_slots(nth, host, slots);
        }
    }

    /// Counts a bundle in or out for every rule, and rules hosts in or out for others.
    fn tally(&mut self, bundle: usize, host: usize, is_in: bool, clock: &mut Clock<'_>) {
        let setting = self.setting;
        let it = &setting.bundles[bundle];
        for (rule, part) in &it.rules {
            let level = setting.problem.rules[*rule].level();
            let Some(unit) = setting.units.unit(level, host) else { continue };
            let is_first = change(&mut self.tallies[*rule][unit].members, is_in);
            if change(&mut self.placed[*rule][*part], is_in) {
                self.unstarted[*rule] =
                    if is_in { self.unstarted[*rule] - 1 } else { self.unstarted[*rule] + 1 };
                if let (Rule::Together(..), true) =
                    (&setting.problem.rules[*rule], level > Level::Host)
                {
                    self.confine(*rule, (level, unit), is_in, clock);
                }
            }
            if !is_first {
                continue;
            }
            match &setting.problem.rules[*rule] {
                Rule::Together(..) => {}
                Rule::Apart(..) => {
                    let others = setting.bound[*rule].iter().filter(|(_, it)| *it != Some(*part));
                    for (kind, _) in others {
                        if clock.is_up_after(4 * setting.units.hosts(level, unit).len()) {
                            return;
                        }
                        self.rule_out(*kind, setting.units.hosts(level, unit), is_in);
                    }
                }
                Rule::Alone(..) => {
                    for kind in &setting.kept_out[*rule] {
                        if clock.is_up_after(4 * setting.units.hosts(level, unit).len()) {
                            return;
                        }
                        self.rule_out(*kind, setting.units.hosts(level, unit), is_in);
                    }
                }
            }
        }
        for rule in &setting.keeping_out {
            clock.is_up_after(1 + it.rules.len());
            if it.rules.iter().any(|(bound, _)| bound == rule) {
                continue;
            }
            let level = setting.problem.rules[*rule].level();
            let Some(unit) = setting.units.unit(level, host) else { continue };
            if change(&mut self.tallies[*rule][unit].others, is_in) {
                for (kind, _) in &setting.bound[*rule] {
                    if clock.is_up_after(4 * setting.units.hosts(level, unit).len()) {
                        return;
                    }
                    self.rule_out(*kind, setting.units.hosts(level, unit), is_in);
                }
            }
        }
    }

    /// Keeps those of a rule in one unit, or lets them go anywhere again.
    fn confine(
        &mut self,
        rule: usize,
        (level, unit): (Level, usize),
        is_in: bool,
        clock: &mut Clock<'_>,
    ) {
        let setting = self.setting;
        for (kind, _) in &setting.bound[rule] {
            if clock.is_up_after(4 * setting.problem.hosts.len()) {
                return;
            }
            for host in 0..setting.problem.hosts.len() {
                if setting.units.unit(level, host) != Some(unit) {
                    self.rule_out(*kind, &[host], is_in);
                }
            }
        }
    }

    /// Rules hosts out for a kind, or back in.
    pub(super) fn rule_out(&mut self, kind: usize, hosts: &[usize], is_out: bool) {
        for host in hosts {
            if is_out {
                self.domains.block(kind, *host);
            } else {
                self.domains.unblock(kind, *host);
            }
        }
    }

    /// What the bundles that have been placed come to, whatever is to come.
    pub(super) fn so_far(&self) -> Cost {
        let racks = u64::try_from(self.racks.len()).unwrap_or(u64::MAX);
        Cost { moved: self.moved, new_hosts: self.new_hosts, racks, room: self.room }
    }

    /// What it costs to have so many new hosts and racks in the end.
    pub(super) fn cost(&self, counted: Cost) -> Cost {
        if !self.setting.problem.spread {
            return counted;
        }
        let all = u64::try_from(self.setting.problem.servers.len()).unwrap_or(u64::MAX);
        Cost {
            new_hosts: all.saturating_sub(counted.new_hosts),
            racks: all.saturating_sub(counted.racks),
            ..counted
        }
    }

    /// What placing one of a kind on a host adds.
    pub(super) fn added(&self, kind: usize, host: usize) -> Cost {
        let it = &self.setting.kinds[kind];
        let spread = self.setting.problem.spread;
        let rack = self.setting.units.unit(Level::Rack, host);
        let is_new_rack = rack.is_some_and(|rack| self.is_rack_untouched(rack));
        Cost {
            moved: it.moves(host),
            new_hosts: u64::from(self.domains.is_at_hand(host) == spread),
            racks: u64::from(is_new_rack != spread),
            room: self.setting.rooms[host] * it.servers,
        }
    }

    /// The place of each server whose bundle has been placed.
    pub(super) fn places(&self) -> Vec<Place> {
        let mut places = vec![Place::default(); self.setting.problem.servers.len()];
        for (nth, spot) in self.spots.iter().enumerate() {
            let Some((host, _)) = *spot else { continue };
            let servers = self.setting.bundles[nth].servers.iter();
            for (server, way) in servers.zip(self.stock.ways(nth, host)) {
                places[*server] = Place { host, way };
            }
        }
        places
    }
}

/// Counts one in or out, and says whether it was the first to come or the last to go.
fn change(count: &mut usize, is_in: bool) -> bool {
    *count = if is_in { *count + 1 } else { *count - 1 };
    *count == usize::from(is_in)
}

fn sum(sums: &mut [u128], other: &[u128]) {
    sums.iter_mut().zip(other).for_each(|(sum, it)| *sum += it);
}

fn add(sums: &mut [u128], other: &[u64]) {
    sums.iter_mut().zip(other).for_each(|(sum, it)| *sum += u128::from(*it));
}

fn subtract(sums: &mut [u128], other: &[u64]) {
    sums.iter_mut().zip(other).for_each(|(sum, it)| *sum -= u128::from(*it));
}
