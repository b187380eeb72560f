//! One descent after the other: the hardest to place first, the best place first.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts and frames are numbered densely")]

use std::cmp::Reverse;

use super::bound::bound;
use super::clock::Clock;
use super::cost::Cost;
use super::filter::Filter;
use super::limits::Limits;
use super::setting::Setting;
use super::state::State;
use super::{Level, Place};

/// A placement of everything.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) cost: Cost,
    pub(super) places: Vec<Place>,
    /// For each bundle its host and the variant there.
    pub(super) spots: Vec<(usize, usize)>,
}

/// Goes through placements.
#[derive(Debug)]
pub(super) struct Dive<'p> {
    setting: &'p Setting<'p>,
    limits: &'p Limits,
    /// The best placement so far. Only better ones are looked for.
    pub(super) best: Option<Found>,
    /// The cost that is good enough.
    enough: Cost,
    /// How often each kind was what could not be placed.
    trouble: Vec<u64>,
    round: u64,
    /// Dead ends of the last run.
    pub(super) dead_ends: u64,
    frames: Vec<Frame>,
}

/// A bundle and what has been tried with it.
#[derive(Debug)]
struct Frame {
    kind: usize,
    bundle: usize,
    /// Where it is, or was last.
    at: Option<(usize, usize)>,
    /// Which places can lead to something better, if there is something.
    filter: Option<Filter>,
    /// Hosts that are ruled out for its kind, because one of it has been tried there or on one that
    /// is alike: another of this kind there would be the same with the two exchanged.
    tried: Vec<usize>,
}

impl<'p> Dive<'p> {
    pub(super) fn new(setting: &'p Setting<'p>, limits: &'p Limits, enough: Cost) -> Self {
        Self {
            setting,
            limits,
            best: None,
            enough,
            trouble: vec![1; setting.kinds.len()],
            round: 0,
            dead_ends: 0,
            frames: Vec::new(),
        }
    }

    /// Whether the best placement is good enough.
    pub(super) fn is_enough(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.cost <= self.enough)
    }

    /// Begins a round: in the odd ones, of places that cost the same but for room any is the first.
    pub(super) fn begin(&mut self, round: u64) {
        self.round = round;
    }

    /// Places all that are left in every way that may be better than the best, until so many dead
    /// ends have been met or the time is up. Says whether that was all. In the end the state is as
    /// before, unless the time is up: then nobody needs it.
    pub(super) fn run(
        &mut self,
        state: &mut State<'_>,
        dead_ends_max: u64,
        clock: &mut Clock<'_>,
    ) -> bool {
        self.dead_ends = 0;
        self.descend(state, clock);
        while !self.frames.is_empty() {
            if clock.is_up() {
                return false;
            }
            if self.dead_ends >= dead_ends_max || self.is_enough() {
                while !self.frames.is_empty() {
                    self.leave(state, clock);
                }
                return false;
            }
            if self.next(state, clock) {
                self.descend(state, clock);
            } else {
                self.leave(state, clock);
            }
        }
        !clock.is_up()
    }

    /// Looks at where the state is, and chooses whom to place next unless it is an end.
    fn descend(&mut self, state: &mut State<'_>, clock: &mut Clock<'_>) {
        clock.is_up_after(self.setting.problem.hosts.len() + 8 * self.setting.kinds.len());
        let Some(kind) = self.hardest(state) else {
            clock.is_up_after(16 * self.setting.problem.servers.len());
            self.record(state);
            return;
        };
        let best = self.best.as_ref().map(|best| best.cost);
        let bound = bound(state, self.limits, best, clock);
        if clock.is_up() {
            return;
        }
        let Some(bound) = bound else {
            self.dead_ends += 1;
            self.blame(state);
            return;
        };
        if best.is_some_and(|best| bound.least >= best) {
            self.dead_ends += 1;
            return;
        }
        let Some(bundle) = state.left[kind].last().copied() else { return };
        let filter = best.map(|best| Filter::new(state, self.limits, &bound, best, kind));
        self.frames.push(Frame { kind, bundle, at: None, filter, tried: Vec::new() });
    }

    fn record(&mut self, state: &State<'_>) {
        let cost = state.cost(state.so_far());
        if self.best.as_ref().is_none_or(|best| cost < best.cost) {
            let spots = state.spots.iter().map(|spot| spot.unwrap_or_default()).collect();
            self.best = Some(Found { cost, places: state.places(), spots });
        }
    }

    /// The kind with the fewest places, of which some are left; the more trouble it has made, the
    /// sooner.
    fn hardest(&self, state: &State<'_>) -> Option<usize> {
        let kinds = (0..self.setting.kinds.len()).filter(|kind| !state.left[*kind].is_empty());
        kinds.min_by_key(|kind| {
            let hosts = state.domains.of_kind(*kind).hosts as u64;
            let weight = self.setting.kinds[*kind].weight;
            ((hosts << 16) / self.trouble[*kind], Reverse(weight), *kind)
        })
    }

    /// Learns which kinds have too few places.
    fn blame(&mut self, state: &State<'_>) {
        for (kind, trouble) in self.trouble.iter_mut().enumerate() {
            if state.domains.of_kind(kind).slots < state.left[kind].len() {
                *trouble += 1;
            }
        }
    }

    /// Places the bundle of the last frame where it has not been yet, if there is such a place.
    fn next(&mut self, state: &mut State<'_>, clock: &mut Clock<'_>) -> bool {
        let round = self.round;
        let Some(frame) = self.frames.last_mut() else { return false };
        state.take_back(frame.bundle, clock);
        let load = &self.setting.loads[self.setting.kinds[frame.kind].load];
        loop {
            let spot = match frame.at {
                Some((host, variant)) if variant + 1 < load.variants(host) => (host, variant + 1),
                last => {
                    if let Some((host, _)) = last {
                        exhaust(state, frame, host);
                    }
                    clock.is_up_after(2 * self.setting.problem.hosts.len());
                    match next_host(state, self.limits, frame, round) {
                        Some(host) => (host, 0),
                        None => return false,
                    }
                }
            };
            frame.at = Some(spot);
            if clock.is_up() {
                return false;
            }
            if state.place(frame.bundle, spot, clock) {
                return true;
            }
        }
    }

    /// Ends the last frame, with the state as it was before.
    fn leave(&mut self, state: &mut State<'_>, clock: &mut Clock<'_>) {
        if let Some(frame) = self.frames.pop() {
            state.take_back(frame.bundle, clock);
            state.rule_out(frame.kind, &frame.tried, false);
        }
    }
}

/// Rules out a host, and those that are like it at present.
fn exhaust(state: &mut State<'_>, frame: &mut Frame, host: usize) {
    let from = frame.tried.len();
    if state.is_untouched(host) {
        let racks = state.setting.units.racks();
        let rack = racks[host];
        let is_alike = |other: &usize| {
            let is_rack_alike = racks[*other] == rack
                || rack.is_some_and(|it| state.is_rack_untouched(it))
                    && racks[*other].is_some_and(|it| state.is_rack_untouched(it));
            state.is_untouched(*other) && is_rack_alike
        };
        let group = state.setting.alike.group(host).iter();
        frame.tried.extend(group.copied().filter(is_alike));
    } else {
        frame.tried.push(host);
    }
    state.rule_out(frame.kind, &frame.tried[from..], true);
}

/// The best of the places that are left to a frame.
fn next_host(state: &State<'_>, limits: &Limits, frame: &Frame, round: u64) -> Option<usize> {
    let hosts = 0..state.setting.problem.hosts.len();
    let open = hosts.filter(|host| state.domains.is_open(frame.kind, *host));
    let key = |host: usize| {
        let added = state.added(frame.kind, host);
        if frame.filter.as_ref().is_some_and(|it| !it.allows(added)) {
            return None;
        }
        let rack = state.setting.units.unit(Level::Rack, host);
        let promise =
            rack.filter(|it| state.is_rack_untouched(*it) && !state.setting.problem.spread);
        let promise = promise.map_or(0, |rack| limits.promises[rack]);
        let room = if round % 2 == 1 { shuffled(host, round) } else { added.room };
        Some((added.moved, added.new_hosts, added.racks, Reverse(promise), room, host))
    };
    open.filter_map(key).min().map(|(.., host)| host)
}

/// A number that says nothing of the host, another one in every round.
fn shuffled(host: usize, round: u64) -> u64 {
    let mut it = (host as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(round << 32);
    it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32
}
