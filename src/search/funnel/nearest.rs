//! Selects the near misses that lack the least.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::model::ProviderId;

/// A host that fails only one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The name of the host.
    pub host: String,
    /// The position of the condition that rules it out.
    pub condition: usize,
    /// The missing amount, if the condition requests capacity.
    pub missing: Option<i64>,
}

/// The missing part of a request, in proportion to the requested amount.
#[derive(Clone, Copy, Debug)]
pub(in crate::search) struct Shortfall {
    missing: i64,
    amount: i64,
}

impl Shortfall {
    /// A condition without an amount, such as a trait. It counts as much as an amount of which a host has nothing.
    pub(in crate::search) const OTHER: Self = Self { missing: 0, amount: 0 };

    /// Computes the shortfall of an amount. If enough is available, the amount violates another limit.
    pub(in crate::search) fn of(amount: i64, available: i64) -> Self {
        let missing = amount.saturating_sub(available);
        if missing > 0 && amount > 0 { Self { missing, amount } } else { Self::OTHER }
    }

    /// The missing amount.
    fn missing(self) -> Option<i64> {
        (self.amount > 0).then_some(self.missing)
    }

    /// Numerator and denominator of the missing part.
    fn part(self) -> (i128, i128) {
        if self.amount > 0 { (self.missing.into(), self.amount.into()) } else { (1, 1) }
    }
}

impl Ord for Shortfall {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((one, of_one), (two, of_two)) = (self.part(), other.part());
        (one * of_two).cmp(&(two * of_one))
    }
}

impl PartialOrd for Shortfall {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Shortfall {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Shortfall {}

/// A near miss with its rank. Hosts with equal shortfalls are in the order of their creation: all replicas have the
/// same ids.
#[derive(Clone, Debug)]
struct Placed {
    place: (Shortfall, ProviderId),
    condition: usize,
    host: String,
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place.cmp(&other.place)
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Placed {}

/// The nearest of the offered hosts, up to a maximum number.
#[derive(Clone, Debug)]
pub(in crate::search) struct Nearest {
    most: usize,
    /// The farthest is on top.
    heap: BinaryHeap<Placed>,
}

impl Nearest {
    pub(super) fn new(most: usize) -> Self {
        Self { most, heap: BinaryHeap::new() }
    }

    /// Returns whether a host with this shortfall may still be among them.
    pub(in crate::search) fn may_take(&self, shortfall: Shortfall) -> bool {
        match self.heap.peek() {
            Some(farthest) if self.heap.len() >= self.most => shortfall <= farthest.place.0,
            _ => self.most > 0,
        }
    }

    /// Offers a host that fails only one condition.
    pub(in crate::search) fn offer(
        &mut self,
        shortfall: Shortfall,
        id: ProviderId,
        condition: usize,
        host: &str,
    ) {
        let place = (shortfall, id);
        if self.heap.len() < self.most {
            self.heap.push(Placed { place, condition, host: host.to_owned() });
            return;
        }
        let Some(mut farthest) = self.heap.peek_mut().filter(|farthest| place < farthest.place)
        else {
            return;
        };
        // The string is reused: in descending order, each host is the nearest for a while.
        farthest.place = place;
        farthest.condition = condition;
        farthest.host.clear();
        farthest.host.push_str(host);
    }

    /// The near misses, nearest first.
    pub(super) fn into_sorted(self) -> Vec<NearMiss> {
        let sorted = self.heap.into_sorted_vec().into_iter();
        let near_miss = |Placed { place, condition, host }: Placed| NearMiss {
            host,
            condition,
            missing: place.0.missing(),
        };
        sorted.map(near_miss).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Nearest, Shortfall};
    use crate::model::ProviderId;

    #[test]
    fn near_misses_with_the_smallest_shortage_come_first() {
        let mut nearest = Nearest::new(4);
        for (id, shortfall) in [
            (1, Shortfall::OTHER),
            (2, Shortfall::of(8, 4)),
            (3, Shortfall::of(1 << 62, (1 << 62) - 1)),
            (4, Shortfall::of(4096, 0)),
            (5, Shortfall::of(2, 1)),
            (6, Shortfall::of(4, 9)),
        ] {
            nearest.offer(shortfall, ProviderId(id), 0, &id.to_string());
        }
        assert!(nearest.may_take(Shortfall::OTHER) && nearest.may_take(Shortfall::of(8, 1)));
        nearest.offer(Shortfall::of(8, 1), ProviderId(7), 0, "7");
        assert!(!nearest.may_take(Shortfall::OTHER));
        let found: Vec<_> =
            nearest.into_sorted().into_iter().map(|it| (it.host, it.missing)).collect();
        let expected = [("3", Some(1)), ("2", Some(4)), ("5", Some(1)), ("7", Some(7))];
        assert_eq!(found, expected.map(|(host, missing)| (host.to_owned(), missing)));
        assert!(!Nearest::new(0).may_take(Shortfall::of(8, 7)));
    }
}
