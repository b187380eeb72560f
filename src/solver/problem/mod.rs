//! The placement problem as plain data: hosts, pools of free capacity, servers, and the rules that
//! bind servers to each other. Everything is named by its position in the lists of the problem.

mod allowed_hosts;
mod draws;
mod rule;
mod ways;

use std::sync::Arc;

pub use self::allowed_hosts::AllowedHosts;
pub use self::draws::Draws;
pub(super) use self::rule::pairs;
pub use self::rule::{Rule, Skew, SoftRule, SoftRuleKind};
pub use self::ways::{Choice, Conditions, Parts, Pool, Source, Supply, Way, Ways};
pub use crate::model::{Goal, Level, PlacementPolicy};

/// Servers to be placed, and the hosts on which they can be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementProblem {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The pools from which servers draw. Several hosts can share a pool.
    pub pools: Vec<Pool>,
    /// The servers to place.
    pub servers: Vec<Server>,
    /// The rules that bind servers to each other.
    pub rules: Vec<Rule>,
    /// The rules that may be broken at a cost.
    pub soft_rules: Vec<SoftRule>,
    /// The order of valid placements, the best first.
    pub policy: PlacementPolicy,
}

impl PlacementProblem {
    /// The free amount of each pool.
    pub(super) fn free(&self) -> Vec<u64> {
        self.pools.iter().map(|pool| pool.free).collect()
    }
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The free capacity of the host's own providers, summed by resource class, for the best fit only
    /// ([`Cost::fit`](super::Cost::fit)); whether a server fits depends on the pools.
    pub free: Vec<u64>,
    /// The capacity, free or not, for balancing only.
    pub capacity: Vec<u64>,
    /// The rack of the host, if it is known.
    pub rack: Option<u32>,
    /// The cluster of the host, if it is known.
    pub cluster: Option<u32>,
    /// Whether the host is already in use outside of the problem.
    pub in_use: bool,
}

/// A server to be placed.
///
/// A server that has to stay on its host has exactly one allowed host and one way there, which draws nothing: the
/// pools already lack its allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// The ways in which the server fits on each host, as far as capacity is concerned. Servers of one size share
    /// the list.
    pub ways: Arc<Ways>,
    /// The hosts that are allowed for reasons other than capacity.
    pub allowed_hosts: AllowedHosts,
    /// The current host of the server. Any other host counts as a move.
    pub current_host: Option<usize>,
    /// The addition of the server to the use of its host, by resource class, for balancing only; whether a server
    /// fits depends on its ways.
    pub amounts: Arc<[u64]>,
    /// Whether the use of the current host includes the server, which then adds nothing by staying.
    pub is_counted_at_home: bool,
}

impl Server {
    /// The host to which the server adds nothing.
    pub(super) fn counted_on(&self) -> Option<usize> {
        self.current_host.filter(|_| self.is_counted_at_home)
    }
}
