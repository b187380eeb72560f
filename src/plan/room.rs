//! How little room those that are left can come to, in the sense of [`Cost::room`].
//!
//! [`Cost::room`]: super::Cost::room

#![expect(clippy::indexing_slicing, reason = "kinds, hosts and rules are numbered densely")]

use std::collections::HashMap;

use super::bound::{fewest_moves, left};
use super::clock::Clock;
use super::few::Few;
use super::limits::Limits;
use super::state::State;

/// Whether hosts may be gone to.
type IsUsable<'u> = &'u dyn Fn(usize) -> bool;

/// What the hosts cost at the least where those that are left go.
#[derive(Debug)]
pub(super) struct LeastRoom {
    crowds: Vec<Crowd>,
}

impl LeastRoom {
    /// All of them.
    pub(super) fn all(&self) -> u64 {
        self.crowds.iter().map(Crowd::least).sum()
    }

    /// All but one of a kind.
    pub(super) fn without(&self, kind: usize) -> u64 {
        self.crowds.iter().map(|crowd| crowd.least_without(kind)).sum()
    }
}

/// What the hosts cost at the least where those that are left go, if they go to usable hosts and no
/// more of them are moved than has to be. `None` if they cannot go there.
///
/// If it is said how many racks they come to beside those that have been come to, and whether to hosts
/// in use only, they are in no others. It is of no use once the time is up.
pub(super) fn least_room(
    state: &State<'_>,
    limits: &Limits,
    (more_racks, is_usable): (Option<(u64, bool)>, IsUsable<'_>),
    clock: &mut Clock<'_>,
) -> Option<LeastRoom> {
    clock.is_up_after(4 * state.left.len());
    let mut crowds = crowds(state, limits);
    let mut open = crowds.len();
    for host in &state.setting.by_room {
        if open == 0 || clock.is_up_after(1) {
            break;
        }
        if is_usable(*host) {
            let open_ones = crowds.iter().filter(|it| it.is_open());
            clock.is_up_after(open_ones.map(|it| 4 * it.members.len()).sum());
            let room = state.setting.rooms[*host];
            for crowd in crowds.iter_mut().filter(|it| it.is_open()) {
                open -= usize::from(crowd.fill(state, *host, room));
            }
        }
    }
    for crowd in &mut crowds {
        let few = crowd.rule.zip(more_racks);
        crowd.few = few.and_then(|(rule, racks)| Few::of(state, limits, (rule, racks), clock));
    }
    let is_there = open == 0 && crowds.iter().all(Crowd::is_in_few);
    is_there.then_some(LeastRoom { crowds })
}

/// Kinds no two bundles of which can be on one host; or one kind of others.
#[derive(Debug, Default)]
struct Crowd {
    rule: Option<usize>,
    members: Vec<Filling>,
    /// Rooms of hosts for one bundle each, and how many it takes.
    rooms: Vec<u64>,
    hosts: usize,
    /// The hosts there are if they are to be in few racks.
    few: Option<Few>,
}

/// One kind that is put where there is the least room, as if it were alone.
#[derive(Debug)]
struct Filling {
    kind: usize,
    left: usize,
    moves: u64,
    /// Servers of one bundle.
    servers: u64,
    bundles: usize,
    sum: u64,
    /// The roomiest host it takes.
    last: u64,
}

fn crowds(state: &State<'_>, limits: &Limits) -> Vec<Crowd> {
    let mut crowds: Vec<Crowd> = Vec::new();
    let mut known: HashMap<usize, usize> = HashMap::new();
    for (kind, left) in left(state) {
        let rule = limits.crowds[kind];
        let next = crowds.len();
        let at = rule.map_or(next, |rule| *known.entry(rule).or_insert(next));
        if at == next {
            crowds.push(Crowd { rule, ..Crowd::default() });
        }
        let servers = state.setting.kinds[kind].servers;
        let moves = fewest_moves(state, kind);
        let it = Filling { kind, left, moves, servers, bundles: left, sum: 0, last: 0 };
        crowds[at].members.push(it);
        crowds[at].hosts += if rule.is_some() { left } else { 0 };
    }
    crowds
}

impl Crowd {
    fn is_open(&self) -> bool {
        self.rooms.len() < self.hosts || self.members.iter().any(|it| it.left > 0)
    }

    /// Goes to a host, and says whether that was the last one needed.
    fn fill(&mut self, state: &State<'_>, host: usize, room: u64) -> bool {
        let mut can_be = false;
        for it in &mut self.members {
            if it.left == 0 && can_be {
                continue;
            }
            let kind = &state.setting.kinds[it.kind];
            if !state.domains.is_open(it.kind, host)
                || kind.settled > 0 && kind.moves(host) > it.moves
            {
                continue;
            }
            can_be = true;
            let fit = state.domains.slots(it.kind, host).min(it.left);
            if fit > 0 {
                it.last = room;
            }
            it.left -= fit;
            it.sum += room * it.servers * fit as u64;
        }
        if can_be && self.rooms.len() < self.hosts {
            self.rooms.push(room);
        }
        !self.is_open()
    }

    /// The more of what the kinds come to alone, and of what they come to with a host for each.
    fn least(&self) -> u64 {
        let alone = self.members.iter().map(|it| it.sum).sum();
        u64::max(alone, self.apart(None))
    }

    /// The same without one of a kind.
    fn least_without(&self, kind: usize) -> u64 {
        let Some(one) = self.members.iter().find(|it| it.kind == kind) else {
            return self.least();
        };
        let alone: u64 = self.members.iter().map(|it| it.sum).sum();
        u64::max(alone - one.last * one.servers, self.apart(Some(kind)))
    }

    fn apart(&self, without: Option<usize>) -> u64 {
        let servers = self.servers(without);
        let apart = self.rooms.iter().zip(&servers).map(|(room, servers)| room * servers).sum();
        u64::max(apart, self.few.as_ref().and_then(|few| few.least(&servers)).unwrap_or(0))
    }

    fn is_in_few(&self) -> bool {
        self.few.as_ref().is_none_or(|few| few.least(&self.servers(None)).is_some())
    }

    /// The servers of each bundle, without those of one of a kind.
    fn servers(&self, without: Option<usize>) -> Vec<u64> {
        let servers = self.members.iter().map(|it| {
            let bundles = it.bundles - usize::from(without == Some(it.kind));
            std::iter::repeat_n(it.servers, bundles)
        });
        let mut servers: Vec<u64> = servers.flatten().collect();
        servers.sort_unstable_by(|one, other| other.cmp(one));
        servers
    }
}
