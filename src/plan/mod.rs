//! The planner's solver: where a whole set of servers can go at once.
//!
//! A [`Problem`] is plain data: hosts with what is free on them, servers with what they need and where
//! they may be, and rules that bind servers to each other. [`solve`] is a function of it: complete (if
//! there is a way it is found, if there is none that is proven) as long as its time lasts, and the
//! same answer for the same problem. [`units`] are what rules are about, [`bundle`] joins servers that
//! can only be placed as one, [`state`] is a placement in the making, and [`search`] goes through
//! them. [`explain`](mod@explain) says which demands contradict each other. [`groups`] are what
//! clients say, and come to rules.

mod bundle;
mod cost;
mod explain;
pub mod groups;
mod precheck;
mod search;
mod state;
mod units;

pub use self::cost::Cost;
pub use self::explain::{Conflict, explain};
pub use self::search::{Outcome, Solution, solve};

/// What is to be placed, and where it can be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Where servers can be.
    pub hosts: Vec<Host>,
    /// What is to be placed.
    pub servers: Vec<Server>,
    /// What binds servers to each other.
    pub rules: Vec<Rule>,
    /// Whether servers are spread over hosts instead of packed.
    pub spread: bool,
}

/// A place for servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// How much is free, by resource class, in the units of its inventories.
    pub free: Vec<u64>,
    /// The rack it is in, if that is known.
    pub rack: Option<u32>,
    /// The cluster it is in, if that is known.
    pub cluster: Option<u32>,
    /// Whether something else is on it already.
    pub in_use: bool,
}

/// Something to be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// How much it needs, by resource class, in the units of inventories.
    pub needs: Vec<u64>,
    /// For each host, whether it may be there as far as it alone is concerned.
    pub may_be_on: Vec<bool>,
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
