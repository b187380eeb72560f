//! Pruning: which hosts for one bundle can still lead to a placement that is cheaper than the best
//! known one.
//!
//! The bound of the state is computed once. For each candidate host, only what the host adds to the
//! cost is combined with the bound of the other bundles.

use crate::solver::bounds::Bound;
use crate::solver::bounds::Limits;
use crate::solver::solution::Cost;
use crate::solver::state::State;

/// The bound of a state, prepared for adding one bundle on any host.
#[derive(Debug)]
pub(super) struct Pruning {
    best: Cost,
    partial_cost: Cost,
    /// The bound of the state.
    least: Cost,
    /// The bound on moves without those of the bundle.
    moved: u64,
    /// The bound on the fit without that of the bundle, if the components before it meet their
    /// bounds.
    fit: u64,
    spread: Option<Spread>,
}

/// Upper bounds on what is left to spread over.
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

    /// Whether a placement cheaper than the best one may exist with the bundle on a host that adds
    /// this cost.
    pub(super) fn allows(&self, added: Cost) -> bool {
        self.least_with(added) < self.best
    }

    fn least_with(&self, added: Cost) -> Cost {
        let moved = self.moved + added.moved;
        if let Some(it) = &self.spread {
            // With spreading, an added cost of 0 means a new host or rack.
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
        // A component of the bound holds only if the components before it are met exactly.
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
    /// The maximum number of new hosts, or racks, if that of the bundle is new or not.
    fn with(&self, is_new: bool, left: u64) -> u64 {
        if is_new { 1 + self.others.min(left.saturating_sub(1)) } else { self.others.min(left) }
    }
}
