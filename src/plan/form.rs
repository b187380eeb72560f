//! What a host looks like to the servers of a problem: hosts of one form are like each other.

#![expect(clippy::indexing_slicing, reason = "sizes and pools are numbered densely")]

use std::collections::HashMap;

use super::Way;
use super::load::Sizes;

/// Pools of one host in the order in which they come.
#[derive(Default)]
struct Own {
    pools: Vec<usize>,
    numbers: HashMap<usize, usize>,
}

impl Sizes<'_> {
    /// The ways of every size on a host in one row of numbers, with numbers of their own for the pools
    /// that no other host draws on, and what is free there. Of hosts with the same form, one is like
    /// the other.
    pub(super) fn form(&self, host: usize) -> Vec<u64> {
        let mut own = Own::default();
        let mut form = Vec::new();
        for (size, server) in self.first.iter().enumerate() {
            let ways = self.problem.servers[*server].ways.on(host);
            if ways.is_empty() {
                continue;
            }
            form.extend([size as u64, ways.len() as u64]);
            for Way(draws) in ways {
                form.push(draws.len() as u64);
                for (pool, amount) in draws {
                    form.extend([self.renamed(*pool, &mut own), *amount]);
                }
            }
        }
        // No size: what follows is what is free.
        form.push(self.first.len() as u64);
        for pool in own.pools.iter().filter_map(|pool| self.problem.pools.get(*pool)) {
            form.extend([pool.class as u64, pool.free]);
        }
        form
    }

    fn renamed(&self, pool: usize, own: &mut Own) -> u64 {
        if self.shared.get(pool).is_none_or(|shared| *shared) {
            return pool as u64;
        }
        let next = own.pools.len();
        let known = *own.numbers.entry(pool).or_insert(next);
        if known == next {
            own.pools.push(pool);
        }
        (self.shared.len() + known) as u64
    }
}
