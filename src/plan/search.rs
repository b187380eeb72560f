//! The search: depth first, the hardest to place first, the best place first, and no further where
//! nothing better than what is known can be found.

#![expect(clippy::indexing_slicing, reason = "bundles and hosts are numbered densely")]

use std::collections::HashMap;

use super::bundle::{Bundle, bundles};
use super::clock::Clock;
use super::cost::{Cost, rooms};
use super::load::{Load, Sizes};
use super::precheck::is_hopeless;
use super::state::{State, count, moves};
use super::stock::Stock;
use super::units::Units;
use super::{Level, Problem, Way};

/// Where everything goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// Where each server goes.
    pub places: Vec<Place>,
    /// What that costs.
    pub cost: Cost,
    /// What it costs at the least: the same, if nothing better is possible.
    pub bound: Cost,
}

/// Where a server goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The host.
    pub host: usize,
    /// Which of its ways there.
    pub way: usize,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything has a place. If the bound is less than the cost, the time was up before it was
    /// known whether there is better.
    Placed(Solution),
    /// There is no way.
    Impossible,
    /// The time was up before there was an answer.
    OutOfTime,
}

/// Finds places for all servers, at the least cost that is found while `is_time_up` says no.
pub fn solve(problem: &Problem, mut is_time_up: impl FnMut() -> bool) -> Outcome {
    let mut clock = Clock::new(&mut is_time_up);
    let units = Units::of(&problem.hosts);
    let sizes = Sizes::of(problem, &mut clock);
    let known = bundles(problem, &units, &sizes, &mut clock);
    if clock.is_up() {
        return Outcome::OutOfTime;
    }
    let Some((bundles, loads)) = known else { return Outcome::Impossible };
    let is_hopeless = is_hopeless(problem, &units, &bundles, &loads, &mut clock);
    if clock.is_up() {
        return Outcome::OutOfTime;
    }
    if is_hopeless {
        return Outcome::Impossible;
    }
    let rooms = rooms(problem);
    let stock = Stock::new(problem, &sizes, &loads, &bundles);
    let mut search = Search {
        problem,
        bundles: &bundles,
        loads: &loads,
        rooms: &rooms,
        classes: classes(problem, &units, &sizes, &bundles, &mut clock),
        forbidden: vec![vec![0; problem.hosts.len()]; bundles.len()],
        state: State::new(problem, &units, &bundles, stock, &rooms),
        best: None,
        clock,
    };
    let bound = search.bound(&(0..bundles.len()).collect::<Vec<_>>(), &[]);
    search.descend();
    let stopped = search.clock.is_up();
    match (search.best, stopped) {
        (Some((cost, places)), stopped) => {
            let bound = if stopped { bound.min(cost) } else { cost };
            Outcome::Placed(Solution { places, cost, bound })
        }
        (None, true) => Outcome::OutOfTime,
        (None, false) => Outcome::Impossible,
    }
}

struct Search<'p> {
    problem: &'p Problem,
    bundles: &'p [Bundle],
    loads: &'p [Load],
    rooms: &'p [u64],
    /// Hosts of one class are alike as long as nothing has been placed on them.
    classes: Vec<usize>,
    /// For each kind of bundles and host: how often it has been ruled out because one like it has
    /// been tried there already.
    forbidden: Vec<Vec<u32>>,
    state: State<'p>,
    best: Option<(Cost, Vec<Place>)>,
    clock: Clock<'p>,
}

impl Search<'_> {
    fn descend(&mut self) {
        let left: Vec<usize> =
            (0..self.bundles.len()).filter(|it| self.state.hosts[*it].is_none()).collect();
        if self.clock.is_up_after(left.len() * self.problem.hosts.len()) {
            return;
        }
        if left.is_empty() {
            let cost = self.state.cost();
            if self.best.as_ref().is_none_or(|(best, _)| cost < *best) {
                self.best = Some((cost, self.places_now()));
            }
            return;
        }
        let places: Vec<Vec<usize>> = left.iter().map(|bundle| self.places(*bundle)).collect();
        if places.iter().any(Vec::is_empty) {
            return;
        }
        if let Some((best, _)) = &self.best
            && self.bound(&left, &places) >= *best
        {
            return;
        }
        let hardest = (0..left.len()).min_by_key(|nth| {
            let load = &self.loads[self.bundles[left[*nth]].load];
            (places[*nth].len(), u64::MAX - load.least.iter().sum::<u64>(), *nth)
        });
        let Some(hardest) = hardest else { return };
        self.try_all(left[hardest], &places[hardest]);
    }

    fn places_now(&self) -> Vec<Place> {
        let mut places = vec![Place::default(); self.problem.servers.len()];
        for (nth, host) in self.state.hosts.iter().enumerate() {
            let Some(host) = *host else { continue };
            let servers = self.bundles[nth].servers.iter();
            for (server, way) in servers.zip(self.state.stock.ways(nth, host)) {
                places[*server] = Place { host, way };
            }
        }
        places
    }

    fn try_all(&mut self, bundle: usize, places: &[usize]) {
        let kind = self.bundles[bundle].kind;
        let mut places: Vec<(Cost, usize)> =
            places.iter().map(|host| (self.state.added(bundle, *host), *host)).collect();
        places.sort_unstable();
        let mut ruled_out = Vec::new();
        for (_, host) in places {
            let alike = self.alike(host);
            for variant in 0..self.loads[self.bundles[bundle].load].variants(host) {
                if self.clock.is_up() {
                    break;
                }
                if self.state.place(bundle, host, variant, &mut self.clock) {
                    self.descend();
                    self.state.take_back(bundle, host);
                }
            }
            // Another of this kind there would be the same with the two exchanged.
            for host in &alike {
                self.forbidden[kind][*host] += 1;
            }
            ruled_out.extend(alike);
        }
        for host in ruled_out {
            self.forbidden[kind][host] -= 1;
        }
    }

    /// The hosts worth trying: of those that are alike, the first.
    fn places(&mut self, bundle: usize) -> Vec<usize> {
        let kind = self.bundles[bundle].kind;
        let mut seen = vec![false; self.problem.hosts.len()];
        let mut worth = |host: &usize| {
            if self.forbidden[kind][*host] > 0 || !self.state.can_be(bundle, *host, &mut self.clock)
            {
                return false;
            }
            let is_new = self.state.is_untouched(*host);
            !(is_new && std::mem::replace(&mut seen[self.classes[*host]], true))
        };
        (0..self.problem.hosts.len()).filter(|host| worth(host)).collect()
    }

    /// The host, and those that are like it at present.
    fn alike(&self, host: usize) -> Vec<usize> {
        if !self.state.is_untouched(host) {
            return vec![host];
        }
        let class = self.classes[host];
        let alike =
            |other: &usize| self.classes[*other] == class && self.state.is_untouched(*other);
        (0..self.problem.hosts.len()).filter(alike).collect()
    }

    /// What the whole costs at the least, with those left at the best of their places; at any, if
    /// places are not said.
    fn bound(&self, left: &[usize], places: &[Vec<usize>]) -> Cost {
        let (mut moved, mut room, mut servers) = (0, 0, 0);
        for (nth, bundle) in left.iter().enumerate() {
            let it = &self.bundles[*bundle];
            let any: Vec<usize>;
            let hosts = if let Some(hosts) = places.get(nth) {
                hosts
            } else {
                let may = |host: &usize| it.may_be_on[*host];
                any = (0..self.problem.hosts.len()).filter(may).collect();
                &any
            };
            moved += hosts.iter().map(|host| moves(it, *host)).min().unwrap_or(0);
            room += hosts.iter().map(|host| self.rooms[*host]).min().unwrap_or(0) * count(it);
            servers += count(it);
        }
        self.state.bound(moved, room, servers)
    }
}

/// What makes hosts alike: what is free, where they are, whether they are in use, which bundles may
/// be there, and the ways of each size, with pools of the host alone by what is free there.
type Likeness<'p> = (
    &'p [u64],
    (Option<usize>, Option<usize>, bool),
    Vec<bool>,
    Option<usize>,
    (Vec<(usize, u64)>, Vec<Vec<Way>>),
);

/// Numbers hosts so that those with the same number can be exchanged in every placement, as long as
/// nothing is on them.
fn classes(
    problem: &Problem,
    units: &Units,
    sizes: &Sizes<'_>,
    bundles: &[Bundle],
    clock: &mut Clock<'_>,
) -> Vec<usize> {
    let likeness = |host: usize| -> Likeness<'_> {
        let it = &problem.hosts[host];
        let open = bundles.iter().map(|bundle| bundle.may_be_on[host]).collect();
        // Whoever is at a host now makes it like no other.
        let is_home = problem.servers.iter().any(|server| server.is_on == Some(host));
        let (rack, cluster) = (units.unit(Level::Rack, host), units.unit(Level::Cluster, host));
        (&it.free, (rack, cluster, it.in_use), open, is_home.then_some(host), sizes.form(host))
    };
    let mut known: HashMap<Likeness<'_>, usize> = HashMap::new();
    let hosts = 0..problem.hosts.len();
    hosts
        .map(|host| {
            clock.is_up_after(bundles.len() + problem.servers.len());
            *known.entry(likeness(host)).or_insert(host)
        })
        .collect()
}
