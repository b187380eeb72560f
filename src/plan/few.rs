//! How little room hosts can come to that are in few racks, one for each bundle of a diversity.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts and racks are numbered densely")]

use super::Level;
use super::clock::Clock;
use super::limits::Limits;
use super::state::State;

/// Hosts that are looked for at the most.
const HOSTS_MAX: usize = 200;
/// Racks that they may be in at the most.
const RACKS_MAX: usize = 4;
/// There are not that many hosts.
const NONE: u64 = u64::MAX;

/// For so many racks and so many hosts in them, how little room those come to, whichever racks they
/// are.
#[derive(Clone, Debug, Default)]
pub(super) struct InRacks(Vec<Vec<u64>>);

/// Hosts in racks that have been come to, and in some more.
#[derive(Debug)]
pub(super) struct Few {
    known: Vec<u64>,
    more: Vec<u64>,
}

impl InRacks {
    /// Of hosts where one of these kinds can be, before anything has been placed, and that count.
    pub(super) fn of(
        state: &State<'_>,
        kinds: &[usize],
        counts: impl Fn(usize) -> bool,
        clock: &mut Clock<'_>,
    ) -> Self {
        let setting = state.setting;
        let hosts: usize = kinds.iter().map(|kind| setting.kinds[*kind].bundles.len()).sum();
        if !(2..=HOSTS_MAX).contains(&hosts) {
            return Self::default();
        }
        let mut one = vec![NONE; hosts + 1];
        for rack in 0..setting.units.count(Level::Rack) {
            let all = setting.units.hosts(Level::Rack, rack);
            if clock.is_up_after(all.len() * (4 + kinds.len())) {
                return Self::default();
            }
            let open = all.iter().copied().filter(|host| counts(*host));
            for (least, sum) in one.iter_mut().zip(sums(state, kinds, open, hosts)) {
                *least = sum.min(*least);
            }
        }
        let mut racks = vec![one.clone()];
        while let (true, Some(last)) = (racks.len() < RACKS_MAX, racks.last()) {
            clock.is_up_after(hosts * hosts);
            let more = (0..=hosts).map(|hosts| together(last, &one, hosts)).collect();
            racks.push(more);
        }
        Self(racks)
    }
}

impl Few {
    /// With so many more racks, if that is known.
    pub(super) fn of(
        state: &State<'_>,
        limits: &Limits,
        (rule, (racks, only_in_use)): (usize, (u64, bool)),
        clock: &mut Clock<'_>,
    ) -> Option<Self> {
        let tables = if only_in_use { &limits.in_use.few } else { &limits.all.few };
        let InRacks(tables) = tables.get(rule)?;
        let more = tables.get(usize::try_from(racks).ok()?.checked_sub(1)?)?;
        let setting = state.setting;
        let kinds: Vec<usize> =
            (0..setting.kinds.len()).filter(|kind| limits.crowds[*kind] == Some(rule)).collect();
        let in_racks = state.racks.iter().map(|it| setting.units.hosts(Level::Rack, *it).len());
        let hosts = in_racks.sum::<usize>() + limits.rackless.len();
        if clock.is_up_after(setting.kinds.len() + hosts * (2 + kinds.len())) {
            return None;
        }
        let racks = state.racks.iter().flat_map(|it| setting.units.hosts(Level::Rack, *it));
        let hosts = racks.chain(&limits.rackless).copied();
        let hosts = hosts.filter(|host| !only_in_use || state.domains.is_at_hand(*host));
        Some(Self { known: sums(state, &kinds, hosts, more.len() - 1), more: more.clone() })
    }

    /// How little room a host for each of these bundles comes to, of which it is known how many
    /// servers they have, those with the most first. `None` if there are not that many hosts.
    pub(super) fn least(&self, servers: &[u64]) -> Option<u64> {
        let Some(fewest) = servers.last() else { return Some(0) };
        let all = together(&self.known, &self.more, servers.len());
        let one = together(&self.known, &self.more, 1);
        if all == NONE || one == NONE {
            return None;
        }
        // Where the larger ones are is not known: at the least where there is the least room.
        let larger = servers.iter().map(|it| it - fewest).sum::<u64>();
        Some(all * fewest + one * larger)
    }
}

/// How little room so many hosts come to, of these that are open to one of these kinds: from none to
/// as many as there are.
fn sums(
    state: &State<'_>,
    kinds: &[usize],
    hosts: impl Iterator<Item = usize>,
    most: usize,
) -> Vec<u64> {
    let is_open = |host: &usize| kinds.iter().any(|kind| state.domains.is_open(*kind, *host));
    let rooms = hosts.filter(is_open).map(|host| state.setting.rooms[host]);
    let mut rooms: Vec<u64> = rooms.collect();
    rooms.sort_unstable();
    rooms.truncate(most);
    let sums = rooms.into_iter().scan(0, |sum, room| {
        *sum += room;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

/// How little so many come to, some of one and some of the other.
fn together(one: &[u64], other: &[u64], count: usize) -> u64 {
    let split = (0..=count).filter_map(|of_one| {
        let one = one.get(of_one).filter(|sum| **sum != NONE)?;
        let other = other.get(count - of_one).filter(|sum| **sum != NONE)?;
        Some(one + other)
    });
    split.min().unwrap_or(NONE)
}
