//! The result of a count.

use crate::model::ProviderId;

/// The number of further requests that fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Whether all hosts were examined. If not, the limit on the work was reached, and only the lower bounds are
    /// right.
    pub is_complete: bool,
    /// In total.
    pub total: Bounds,
    /// Number of hosts where at least one fits.
    pub fitting: usize,
    /// The hosts where most fit, best first. The number of each is for that host alone: hosts that share providers
    /// may fit fewer together.
    pub hosts: Vec<HostFit>,
    /// Number of groups.
    pub group_count: usize,
    /// The groups in which most fit, best first.
    pub groups: Vec<GroupFit>,
}

/// Bounds of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Lower bound, proven by a packing.
    pub at_least: u64,
    /// Upper bound.
    pub at_most: u64,
}

/// The number of requests that fit on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFit {
    /// The key of the root of its tree.
    pub root: ProviderId,
    /// Number of requests that fit.
    pub fits: Bounds,
}

/// The number of requests that fit on a group of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFit {
    /// The trait or aggregate; `None` for the hosts without one.
    pub group: Option<String>,
    /// Number of hosts in the group.
    pub hosts: usize,
    /// Number of hosts where at least one fits.
    pub fitting: usize,
    /// Number of requests that fit.
    pub fits: Bounds,
}

impl Bounds {
    /// Bounds that are equal.
    pub fn exactly(number: u64) -> Self {
        Self { at_least: number, at_most: number }
    }

    /// Returns whether the bounds are equal.
    pub fn is_exact(self) -> bool {
        self.at_least == self.at_most
    }

    /// The sum of two numbers.
    #[must_use]
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            at_least: self.at_least.saturating_add(other.at_least),
            at_most: self.at_most.saturating_add(other.at_most),
        }
    }
}
