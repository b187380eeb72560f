//! Packing of one host: chooses ways of its servers that fit together, by depth-first search with a
//! memory of failed situations.

#![expect(clippy::indexing_slicing, reason = "members, ways and pools are numbered densely")]

use std::collections::HashSet;

use crate::solver::budget::Budget;
use crate::solver::model::ServerOptions;

/// The maximum number of failed situations that are remembered; others may be explored again.
const FAILED_MAX: usize = 50_000;

/// Chooses a way for each server, by its position among the server's ways, so that all together
/// draw no more than is left. Takes nothing.
///
/// The search is exact: it finds such a choice whenever there is one, unless the budget is spent.
pub(super) fn pack(
    members: &[&ServerOptions],
    left: &mut [u64],
    budget: &mut Budget<'_>,
) -> Option<Vec<usize>> {
    // The largest servers come first, and equal servers one after the other.
    let mut order: Vec<usize> = (0..members.len()).collect();
    let most = |nth: &usize| {
        let ways = members[*nth].ways.iter();
        ways.map(|(_, draws)| draws.iter().map(|(_, amount)| u128::from(*amount)).sum()).max()
    };
    budget.is_spent_after(members.iter().map(|member| 8 * member.ways.len()).sum());
    order.sort_by_cached_key(|nth| {
        (std::cmp::Reverse(most(nth).unwrap_or(0_u128)), &members[*nth].ways)
    });
    let mut packing = Packing {
        pools: pools(members),
        members: order.iter().map(|nth| members[*nth]).collect(),
        chosen: Vec::new(),
        failed: HashSet::new(),
    };
    let is_packed = packing.run(left, budget);
    for (nth, way) in packing.chosen.iter().enumerate() {
        give(left, &packing.members[nth].ways[*way].1);
    }
    let mut chosen = vec![0; members.len()];
    order.iter().zip(&packing.chosen).for_each(|(nth, way)| chosen[*nth] = *way);
    is_packed.then_some(chosen)
}

/// Whether as much is left as is drawn.
pub(super) fn is_left(left: &[u64], draws: &[(usize, u64)]) -> bool {
    draws.iter().all(|(pool, amount)| *amount <= left[*pool])
}

/// Takes what is drawn.
pub(super) fn take(left: &mut [u64], draws: &[(usize, u64)]) {
    for (pool, amount) in draws {
        left[*pool] -= amount;
    }
}

/// Gives back what was drawn.
pub(super) fn give(left: &mut [u64], draws: &[(usize, u64)]) {
    for (pool, amount) in draws {
        left[*pool] += amount;
    }
}

struct Packing<'m> {
    /// The pools that the members draw on.
    pools: Vec<usize>,
    members: Vec<&'m ServerOptions>,
    /// The ways of the first members.
    chosen: Vec<usize>,
    /// Situations without a solution: the number of servers that had a way, the first way that the
    /// next server tries, and what was left.
    failed: HashSet<(usize, usize, Vec<u64>)>,
}

impl Packing<'_> {
    fn run(&mut self, left: &mut [u64], budget: &mut Budget<'_>) -> bool {
        let mut from = 0;
        while self.chosen.len() < self.members.len() {
            let nth = self.chosen.len();
            if budget.is_spent_after(4 * self.pools.len()) {
                return false;
            }
            let ways = &self.members[nth].ways;
            let way = (from..ways.len()).find(|way| is_left(left, &ways[*way].1));
            if let Some(way) = way {
                take(left, &ways[way].1);
                self.chosen.push(way);
                from = self.first_way();
                if !self.failed.contains(&self.situation(from, left)) {
                    continue;
                }
            } else {
                let situation = self.situation(self.first_way(), left);
                if self.failed.len() < FAILED_MAX {
                    self.failed.insert(situation);
                }
            }
            let Some(last) = self.chosen.pop() else { return false };
            give(left, &self.members[self.chosen.len()].ways[last].1);
            from = last + 1;
        }
        true
    }

    /// The first way that the next server tries: equal servers can be exchanged.
    fn first_way(&self) -> usize {
        let nth = self.chosen.len();
        match (self.chosen.last(), self.members.get(nth)) {
            (Some(last), Some(next)) if self.members[nth - 1] == *next => *last,
            _ => 0,
        }
    }

    fn situation(&self, from: usize, left: &[u64]) -> (usize, usize, Vec<u64>) {
        (self.chosen.len(), from, self.pools.iter().map(|pool| left[*pool]).collect())
    }
}

fn pools(members: &[&ServerOptions]) -> Vec<usize> {
    let ways = members.iter().flat_map(|member| &member.ways);
    let mut pools: Vec<usize> = ways.flat_map(|(_, draws)| draws).map(|(pool, _)| *pool).collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}
