//! What the solver answers: an assignment for every server with its cost, or that there is none.

/// The cost of a placement. Costs are compared lexicographically: the first component that differs
/// decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Servers that are not on the host they were on.
    pub moved: u64,
    /// Hosts that were not in use before. With spreading: servers minus such hosts.
    pub new_hosts: u64,
    /// Racks with a server of the problem. With spreading: servers minus racks.
    pub racks: u64,
    /// Best fit: the sum, over all servers, of the free capacity that the server's host had before
    /// the placement, in thousandths of that of the host with the most, summed over resource
    /// classes. With spreading: the capacity that the host lacked.
    pub fit: u64,
}

/// A complete placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The assignment of each server, by the server's position in the problem.
    pub assignments: Vec<Assignment>,
    /// The cost of the placement.
    pub cost: Cost,
    /// A proven lower bound on the cost of every placement. Equal to `cost` if the placement is
    /// optimal.
    pub bound: Cost,
}

/// The host of a server and the way in which it is put there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The host, by its position in the problem.
    pub host: usize,
    /// The position among the server's [ways](super::Ways) on that host.
    pub way: usize,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every server has a host. If the bound is less than the cost, the search ended before it was
    /// known whether a cheaper placement exists.
    Placed(Solution),
    /// It is proven that no placement exists.
    Impossible,
    /// The search ended before it found a placement or proved that there is none.
    OutOfTime,
}
