//! The result of the solver: an assignment for every server with its cost, or the absence of a placement.

use std::cmp::{Ordering, Reverse};

use super::budget::Spent;

/// The cost of a placement. Costs are compared lexicographically: the first component that differs decides.
/// Components that the [policy](super::PlacementPolicy) does not count are zero or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Servers that leave their current host.
    pub moved: u64,
    /// The cost of the broken [soft rules](super::SoftRule).
    pub violations: u64,
    /// Spreading: the servers of the problem in each unit of the policy's level.
    pub per_unit: Counts,
    /// Spreading over racks or clusters: the servers of the problem on each host.
    pub per_host: Counts,
    /// Packing into racks or clusters: the units with a server of the problem.
    pub units: u64,
    /// Packing: hosts that were not in use before.
    pub new_hosts: u64,
    /// Balancing: the load that the placement adds to the units.
    pub load: u64,
    /// Balancing racks or clusters: the load that it adds to the hosts.
    pub host_load: u64,
    /// Packing: best fit, the sum, over all servers, of the free capacity of the server's host before the
    /// placement, in thousandths of the largest one of any host, summed over resource classes. Spreading: the
    /// amount by which it falls short of that maximum.
    pub fit: u64,
}

impl Cost {
    /// The counted components, except fit and load, which are sums of amounts.
    pub(super) fn without_sums(&self) -> Self {
        Self { load: 0, host_load: 0, fit: 0, ..self.clone() }
    }
}

/// The numbers of servers in units with servers. They are compared by the largest count, then the next one, and so
/// on.
///
/// *Example.* 7, 7 and 6 servers are less than 8, 6 and 6.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counts {
    /// Each count, with the number of units that have it, descending. The lists compare like the descending counts
    /// of all units: when one list ends, the other one has more units.
    by_count: Vec<(u64, u64)>,
}

impl Counts {
    /// The counts of these units, in any order.
    pub fn of(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut counts: Vec<u64> = counts.into_iter().filter(|count| *count > 0).collect();
        counts.sort_unstable_by_key(|count| Reverse(*count));
        let mut by_count: Vec<(u64, u64)> = Vec::new();
        for count in counts {
            match by_count.last_mut() {
                Some((last, units)) if *last == count => *units += 1,
                Some(_) | None => by_count.push((count, 1)),
            }
        }
        Self { by_count }
    }

    /// Each count, descending, with the number of units that have it.
    pub fn by_count(&self) -> &[(u64, u64)] {
        &self.by_count
    }

    /// The counts of all units with servers, descending.
    pub fn descending(&self) -> impl Iterator<Item = u64> {
        self.by_count.iter().flat_map(|(count, units)| {
            std::iter::repeat_n(*count, usize::try_from(*units).unwrap_or(usize::MAX))
        })
    }

    /// The largest count.
    pub fn most(&self) -> u64 {
        self.by_count.first().map_or(0, |(count, _)| *count)
    }

    /// Compares a single unit with this many servers with these units.
    pub(super) fn one_cmp(count: u64, units: &Self) -> Ordering {
        match units.by_count.as_slice() {
            [] => count.cmp(&0),
            [first, others @ ..] => (count, 1).cmp(first).then_with(|| 0.cmp(&others.len())),
        }
    }
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
    /// The reason why the search ended; `None`: the placement is optimal.
    pub stopped: Option<Spent>,
}

impl Solution {
    /// The host of each server.
    pub fn hosts(&self) -> Vec<usize> {
        self.assignments.iter().map(|it| it.host).collect()
    }
}

/// The host of a server and the ways in which it is supplied there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The host, by its position in the problem.
    pub host: usize,
    /// For each part of the server, the position among its [ways](super::Parts) on that host. Empty if
    /// there is one way only.
    pub ways: Vec<usize>,
}

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every server has a host. If the bound is less than the cost, the search ended before it could exclude a
    /// cheaper placement.
    Placed(Box<Solution>),
    /// Provably no placement exists.
    Impossible,
    /// The search ended before it found a placement or excluded one.
    OutOfTime,
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::Counts;

    #[test]
    fn counts_compare_from_the_largest_on() {
        let lists: [&[u64]; 9] =
            [&[], &[1], &[1, 1], &[2], &[2, 1], &[2, 2], &[2, 2, 1, 1], &[3, 1, 1], &[3, 3]];
        for (nth, one) in lists.iter().enumerate() {
            let counts = Counts::of(one.iter().rev().copied());
            assert_eq!(counts.descending().collect::<Vec<_>>(), *one);
            assert_eq!(counts.most(), one.first().copied().unwrap_or(0));
            for other in &lists[..nth] {
                assert!(Counts::of(other.iter().copied()) < counts, "{other:?} {one:?}");
            }
            for single in 0..4 {
                let expected = Counts::of([single]).cmp(&counts);
                assert_eq!(Counts::one_cmp(single, &counts), expected, "{single} {one:?}");
            }
        }
        assert_eq!(Counts::of([0, 0]).cmp(&Counts::default()), Ordering::Equal);
    }
}
