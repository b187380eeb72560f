//! What is answered.

use crate::model::ProviderId;

/// How many more requests fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Whether all hosts were examined. If not, the work was more than it may be, and only the lower
    /// bounds are right.
    pub is_complete: bool,
    /// In total.
    pub total: Bounds,
    /// The hosts where at least one fits.
    pub fitting: usize,
    /// The hosts where most fit, best first. Each number is that of the host alone: hosts that share
    /// something may have more together than there is.
    pub hosts: Vec<HostFit>,
    /// The number of groups.
    pub group_count: usize,
    /// The groups in which most fit, best first.
    pub groups: Vec<GroupFit>,
}

/// A number between two others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// So many fit: a way was found.
    pub at_least: u64,
    /// No more fit.
    pub at_most: u64,
}

/// What fits on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFit {
    /// The key of the root of its tree.
    pub root: ProviderId,
    /// How often the request fits.
    pub fits: Bounds,
}

/// What fits on a group of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFit {
    /// The trait or aggregate; `None` for the hosts that have none.
    pub group: Option<String>,
    /// The hosts in it.
    pub hosts: usize,
    /// Those of them where at least one fits.
    pub fitting: usize,
    /// How often the request fits.
    pub fits: Bounds,
}

impl Bounds {
    /// A number that is known.
    pub fn exactly(number: u64) -> Self {
        Self { at_least: number, at_most: number }
    }

    /// Whether the number is known.
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
