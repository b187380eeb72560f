//! Union-find: disjoint sets of numbered elements that are joined step by step.

#![expect(clippy::indexing_slicing, reason = "elements are numbered densely")]

/// Disjoint sets of the numbers from 0 on. The smallest number of a set represents it, so that the result does not
/// depend on the order in which sets are joined.
#[derive(Clone, Debug, Default)]
pub struct UnionFind {
    leaders: Vec<usize>,
}

impl UnionFind {
    /// Creates `elements` elements, each in a set of its own.
    pub fn new(elements: usize) -> Self {
        Self { leaders: (0..elements).collect() }
    }

    /// Adds an element in a set of its own, and returns its number.
    pub fn add(&mut self) -> usize {
        self.leaders.push(self.leaders.len());
        self.leaders.len() - 1
    }

    /// The smallest element of the set of an element.
    pub fn find(&mut self, element: usize) -> usize {
        let mut at = element;
        while self.leaders[at] != at {
            self.leaders[at] = self.leaders[self.leaders[at]];
            at = self.leaders[at];
        }
        at
    }

    /// Joins the sets of two elements.
    pub fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.leaders[one.max(other)] = one.min(other);
    }
}

#[cfg(test)]
mod tests {
    use super::UnionFind;

    #[test]
    fn the_smallest_element_stands_for_a_set() {
        let mut sets = UnionFind::new(5);
        sets.join(4, 2);
        sets.join(3, 4);
        assert_eq!([0, 1, 2, 3, 4].map(|it| sets.find(it)), [0, 1, 2, 2, 2]);
        assert_eq!(sets.add(), 5);
        sets.join(5, 3);
        sets.join(0, 5);
        assert_eq!([2, 5].map(|it| sets.find(it)), [0, 0]);
    }
}
