//! A table of amounts by host and resource class.

#![expect(clippy::indexing_slicing, reason = "hosts are numbered densely")]

use std::ops::{Index, IndexMut};

/// For each host, an amount of each resource class.
#[derive(Clone, Debug)]
pub(in crate::solver) struct ByHost {
    classes: usize,
    amounts: Vec<u128>,
}

impl ByHost {
    /// The table in which all amounts are zero.
    pub(super) fn zeros(hosts: usize, classes: usize) -> Self {
        Self { classes, amounts: vec![0; hosts * classes] }
    }
}

impl Index<usize> for ByHost {
    type Output = [u128];

    fn index(&self, host: usize) -> &[u128] {
        &self.amounts[host * self.classes..][..self.classes]
    }
}

impl IndexMut<usize> for ByHost {
    fn index_mut(&mut self, host: usize) -> &mut [u128] {
        &mut self.amounts[host * self.classes..][..self.classes]
    }
}
