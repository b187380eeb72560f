//! Which places of one bundle can still lead to something better than the best placement known.

use super::bounds::Bound;
use super::cost::Cost;
use super::limits::Limits;
use super::state::State;

/// Says for the places of one bundle whether there can be something better.
#[derive(Debug)]
pub(super) struct Pruning {
    best: Cost,
    partial_cost: Cost,
    /// What the whole costs at the least.
    least: Cost,
    /// Moves of the others at the least, and of those so far.
    moved: u64,
    /// The room that the others come to at the least, if the first parts of the cost are no more than
    /// their bounds.
    fit: u64,
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

impl Pruning {
    pub(super) fn new(
        state: &State<'_>,
        limits: &Limits,
        bound: &Bound,
        best: Cost,
        kind: usize,
    ) -> Self {
        let partial_cost = state.partial_cost();
        let others = state.unplaced_kinds().map(|(_, left)| left as u64).sum::<u64>() - 1;
        Self {
            best,
            partial_cost,
            least: bound.least,
            moved: bound.least.moved - state.fewest_moves(kind),
            fit: partial_cost.fit + bound.fit.as_ref().map_or(0, |fit| fit.without(kind)),
            spread: state.model.problem.spread.then(|| Spread {
                servers: state.model.problem.servers.len() as u64,
                others,
                hosts: limits.unused_hosts.saturating_sub(partial_cost.new_hosts),
                racks: limits.usable_racks.saturating_sub(partial_cost.racks),
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
            let hosts = self.partial_cost.new_hosts + it.with(added.new_hosts == 0, it.hosts);
            let racks = self.partial_cost.racks + it.with(added.racks == 0, it.racks);
            return Cost {
                moved,
                new_hosts: it.servers.saturating_sub(hosts),
                racks: it.servers.saturating_sub(racks),
                fit: self.fit + added.fit,
            };
        }
        let (least, partial_cost) = (self.least, self.partial_cost);
        let mut with = Cost {
            moved,
            new_hosts: partial_cost.new_hosts + added.new_hosts,
            racks: partial_cost.racks + added.racks,
            fit: partial_cost.fit + added.fit,
        };
        // Each part of the bound holds if the parts before it are no more than theirs.
        if with.moved == least.moved {
            with.new_hosts = with.new_hosts.max(least.new_hosts);
            if with.new_hosts == least.new_hosts {
                with.racks = with.racks.max(least.racks);
                if with.racks == least.racks {
                    with.fit = self.fit + added.fit;
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
