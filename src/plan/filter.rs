//! Which places of one bundle can still lead to something better than the best placement known.

use super::bound::{Bound, fewest_moves, left};
use super::cost::Cost;
use super::limits::Limits;
use super::state::State;

/// Says for the places of one bundle whether there can be something better.
#[derive(Debug)]
pub(super) struct Filter {
    best: Cost,
    so_far: Cost,
    /// What the whole costs at the least.
    least: Cost,
    /// Moves of the others at the least, and of those so far.
    moved: u64,
    /// The room that the others come to at the least, if the first parts of the cost are no more than
    /// their bounds.
    room: u64,
    spread: Option<Spread>,
}

/// What is left to spread over.
#[derive(Debug)]
struct Spread {
    servers: u64,
    others: u64,
    hosts: u64,
    racks: u64,
}

impl Filter {
    pub(super) fn new(
        state: &State<'_>,
        limits: &Limits,
        bound: &Bound,
        best: Cost,
        kind: usize,
    ) -> Self {
        let so_far = state.so_far();
        let others = left(state).map(|(_, left)| left as u64).sum::<u64>() - 1;
        Self {
            best,
            so_far,
            least: bound.least,
            moved: bound.least.moved - fewest_moves(state, kind),
            room: so_far.room + bound.room.as_ref().map_or(0, |room| room.without(kind)),
            spread: state.setting.problem.spread.then(|| Spread {
                servers: state.setting.problem.servers.len() as u64,
                others,
                hosts: limits.unused.saturating_sub(so_far.new_hosts),
                racks: limits.with_somebody.saturating_sub(so_far.racks),
            }),
        }
    }

    /// Whether there can be something better with the bundle on a host that adds so much.
    pub(super) fn allows(&self, added: Cost) -> bool {
        self.least_with(added) < self.best
    }

    fn least_with(&self, added: Cost) -> Cost {
        let moved = self.moved + added.moved;
        if let Some(it) = &self.spread {
            // What is added here says whether a host or rack is not new.
            let hosts = self.so_far.new_hosts + it.with(added.new_hosts == 0, it.hosts);
            let racks = self.so_far.racks + it.with(added.racks == 0, it.racks);
            return Cost {
                moved,
                new_hosts: it.servers.saturating_sub(hosts),
                racks: it.servers.saturating_sub(racks),
                room: self.room + added.room,
            };
        }
        let (least, so_far) = (self.least, self.so_far);
        let mut with = Cost {
            moved,
            new_hosts: so_far.new_hosts + added.new_hosts,
            racks: so_far.racks + added.racks,
            room: so_far.room + added.room,
        };
        // Each part of the bound holds if the parts before it are no more than theirs.
        if with.moved == least.moved {
            with.new_hosts = with.new_hosts.max(least.new_hosts);
            if with.new_hosts == least.new_hosts {
                with.racks = with.racks.max(least.racks);
                if with.racks == least.racks {
                    with.room = self.room + added.room;
                }
            }
        }
        with
    }
}

impl Spread {
    /// How many new hosts, or racks, there are at the most with one that is new or not.
    fn with(&self, is_new: bool, left: u64) -> u64 {
        if is_new { 1 + self.others.min(left.saturating_sub(1)) } else { self.others.min(left) }
    }
}
