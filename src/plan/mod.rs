//! The planner's solver: where a whole set of servers can go at once.
//!
//! A [`Problem`] is plain data: hosts, pools of what is free on them, servers with the ways in which
//! they can be put on each host, and rules that bind servers to each other. [`solve`] is a function of
//! it: complete (if there is a way it is found, if there is none that is proven) as long as its time
//! lasts, and the same answer for the same problem. That holds for pools that hosts share, too: what
//! is drawn on those is part of what the search decides, and ways that differ in the rest are chosen
//! anew whenever somebody comes to a host.
//!
//! Before the search, [`units`] are what rules are about, [`bundle`] joins servers that can only be
//! placed as one, [`load`] is what those draw on, [`kind`] says which of them and [`alike`] which hosts
//! stand for each other, by their [`form`], and [`setting`] is all of that. During it, [`stock`] is what is
//! left and [`packing`] how servers with a choice share a host, [`domain`] is where each kind can go,
//! and [`state`] a placement in the making. [`bound`] is what that costs at the least, by way of
//! [`limits`], [`room`] and [`few`]; [`filter`] leaves out places that are too dear, [`precheck`] sees
//! what never works. [`search`] goes in rounds of [`dive`] and [`improve`], and [`clock`] ends it.
//!
//! [`explain`](mod@explain) says which demands contradict each other. [`groups`] are what clients say,
//! and come to rules.

mod alike;
mod bound;
mod bundle;
mod clock;
mod cost;
mod dive;
mod domain;
mod explain;
mod few;
mod filter;
mod form;
pub mod groups;
mod improve;
mod kind;
mod limits;
mod load;
mod packing;
mod precheck;
mod room;
mod search;
mod setting;
mod state;
mod stock;
mod units;
mod ways;

use std::sync::Arc;

pub use self::clock::Clock;
pub use self::cost::Cost;
pub use self::explain::{Conflict, Count, explain, explain_by};
pub use self::search::{Outcome, Place, Solution, solve, solve_by};
pub use self::ways::{Open, Way, Ways};

/// What is to be placed, and where it can be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Where servers can be.
    pub hosts: Vec<Host>,
    /// What servers draw on. Hosts can share them.
    pub pools: Vec<Pool>,
    /// What is to be placed.
    pub servers: Vec<Server>,
    /// What binds servers to each other.
    pub rules: Vec<Rule>,
    /// Whether servers are spread over hosts instead of packed.
    pub spread: bool,
}

/// What is free of one class on one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The dense number of the resource class.
    pub class: usize,
    /// How much is free, in the units of the inventory.
    pub free: u64,
}

/// A place for servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// How much is free, by resource class, on its own providers together: what the best fit
    /// ([`Cost::room`]) goes by, not what decides whether a server fits.
    pub free: Vec<u64>,
    /// The rack it is in, if that is known.
    pub rack: Option<u32>,
    /// The cluster it is in, if that is known.
    pub cluster: Option<u32>,
    /// Whether something else is on it already.
    pub in_use: bool,
}

/// Something to be placed.
///
/// One that must stay where it is, and whose allocations are no longer free, may be on that host only
/// and has one way there, which draws nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// In which ways it can be put on each host, as far as room is concerned. Servers of one size
    /// share it.
    pub ways: Arc<Ways>,
    /// Where it may be for reasons other than room.
    pub may_be_on: Open,
    /// Where it is at present. To be elsewhere is a move.
    pub is_on: Option<usize>,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Hosts.
    Host,
    /// Racks. A host whose rack is not known satisfies no such rule.
    Rack,
    /// Clusters. The same holds.
    Cluster,
}

/// What binds servers to each other. Servers are named by their position in [`Problem::servers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Affinity: all are in one unit.
    Together(Level, Vec<usize>),
    /// Diversity: those of different parts are in different units.
    Apart(Level, Vec<Vec<usize>>),
    /// Exclusivity: no other server of the problem is in a unit with one of them.
    Alone(Level, Vec<usize>),
}

impl Rule {
    /// What it is about.
    pub fn level(&self) -> Level {
        match self {
            Self::Together(level, _) | Self::Apart(level, _) | Self::Alone(level, _) => *level,
        }
    }

    /// How many servers it binds.
    pub fn size(&self) -> usize {
        match self {
            Self::Together(_, servers) | Self::Alone(_, servers) => servers.len(),
            Self::Apart(_, parts) => parts.iter().map(|part| 1 + part.len()).sum(),
        }
    }

    /// Whom it binds.
    pub fn servers(&self) -> Vec<usize> {
        match self {
            Self::Together(_, servers) | Self::Alone(_, servers) => servers.clone(),
            Self::Apart(_, parts) => parts.concat(),
        }
    }
}

#[cfg(test)]
mod tests;
