//! The best placement known made better, part by part: some bundles are taken from where they are,
//! and put back as well as it can be beside the others.

#![expect(clippy::indexing_slicing, reason = "bundles are numbered densely")]

use super::Level;
use super::clock::Clock;
use super::dive::Dive;
use super::state::State;

/// Bundles of a part that is chosen at random, at the most.
const PART_MAX: u64 = 12;

/// Improves the best placement until it costs no more than it has to, so many dead ends have been met
/// or the time is up. The state has nothing placed before and after, unless the time is up.
pub(super) fn improve(
    dive: &mut Dive<'_>,
    state: &mut State<'_>,
    dead_ends_max: u64,
    clock: &mut Clock<'_>,
) {
    let all: Vec<usize> = (0..state.spots.len()).collect();
    let mut random = Random(dead_ends_max);
    let mut dead_ends = 0;
    // What has been placed when the time is up must not be taken back.
    let mut is_placed = put_back(dive, state, &all, clock) && !clock.is_up();
    while is_placed && dead_ends < dead_ends_max && !dive.is_enough() {
        clock.is_up_after(4 * state.spots.len());
        let part = part(state, &mut random);
        for bundle in &part {
            state.take_back(*bundle, clock);
        }
        dive.run(state, 16 + 4 * part.len() as u64, clock);
        dead_ends += 1 + dive.dead_ends;
        is_placed = !clock.is_up() && put_back(dive, state, &part, clock) && !clock.is_up();
    }
    if clock.is_up() {
        return;
    }
    for bundle in &all {
        state.take_back(*bundle, clock);
    }
}

/// Puts bundles where the best placement has them.
fn put_back(dive: &Dive<'_>, state: &mut State<'_>, part: &[usize], clock: &mut Clock<'_>) -> bool {
    let Some(best) = &dive.best else { return false };
    part.iter().all(|bundle| !clock.is_up() && state.place(*bundle, best.spots[*bundle], clock))
}

/// Some bundles that may be better off if they change places.
fn part(state: &State<'_>, random: &mut Random) -> Vec<usize> {
    let count = state.spots.len();
    let mut part = vec![false; count];
    let kind = random.below(4);
    if kind == 0 {
        // Whoever shares a rack with one of them.
        let one = random.below(count as u64);
        for (bundle, part) in part.iter_mut().enumerate() {
            *part = unit(state, bundle, Level::Rack) == unit(state, one, Level::Rack);
        }
    } else if kind == 1 {
        for _ in 0..2 {
            let one = random.below(count as u64);
            for (bundle, part) in part.iter_mut().enumerate() {
                *part |= unit(state, bundle, Level::Host) == unit(state, one, Level::Host);
            }
        }
    }
    for _ in 0..2 + random.below(PART_MAX) {
        let (one, other) = (random.below(count as u64), random.below(count as u64));
        // Of two, the one whose place costs more, every other time.
        let is_worse = kind.is_multiple_of(2) || price(state, one) >= price(state, other);
        part[if is_worse { one } else { other }] = true;
    }
    (0..count).filter(|bundle| part[*bundle]).collect()
}

fn unit(state: &State<'_>, bundle: usize, level: Level) -> Option<usize> {
    state.spots[bundle].and_then(|(host, _)| state.setting.units.unit(level, host))
}

fn price(state: &State<'_>, bundle: usize) -> (u64, u64) {
    let setting = state.setting;
    let moves = |host| setting.kinds[setting.bundles[bundle].kind].moves(host);
    state.spots[bundle].map_or((0, 0), |(host, _)| (moves(host), setting.rooms[host]))
}

/// Numbers that look random, and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((it >> 33) % end.max(1)).unwrap_or(0)
    }
}
