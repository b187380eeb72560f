//! The minimum draws of servers, by resource class: on all pools, and on private ones.

#![expect(clippy::indexing_slicing, reason = "pools and classes are numbered densely")]

use super::server_choice::{PartChoice, PoolTable};

/// Amounts by class: of all pools, and of private ones.
pub(super) type Sums = [Vec<u64>; 2];

/// By class, the minimum draw over all hosts.
pub(super) struct LeastDraws {
    pub(super) found: Sums,
    is_first: bool,
    /// The draws on the current host, and of the current part and way there.
    sums: Sums,
    of_part: Sums,
    of_way: Sums,
}

impl LeastDraws {
    pub(super) fn new(classes: usize) -> Self {
        let zeros = || [vec![0; classes], vec![0; classes]];
        let [found, sums, of_part, of_way] = [zeros(), zeros(), zeros(), zeros()];
        Self { found, is_first: true, sums, of_part, of_way }
    }

    /// Starts a host.
    pub(super) fn start_host(&mut self) {
        clear(&mut self.sums);
    }

    /// Adds unconditional draws.
    pub(super) fn add(&mut self, draws: &[(usize, u64)], pools: PoolTable<'_>) {
        sum_by_class(&mut self.sums, draws, pools);
    }

    /// The same for existing sums: first for all pools, then for private ones.
    pub(super) fn add_sums(&mut self, draws: &[u64]) {
        for (sum, it) in self.sums.iter_mut().flatten().zip(draws) {
            *sum = sum.saturating_add(*it);
        }
    }

    /// Adds the minimum draw of a part, over its ways.
    pub(super) fn add_part(&mut self, part: PartChoice<'_>, pools: PoolTable<'_>) {
        let Self { sums, of_part, of_way, .. } = self;
        let mut before: Option<&[(usize, u64)]> = None;
        for (nth, way) in part.ways.iter().enumerate() {
            // Most ways draw the same amounts from another provider.
            if before.replace(&way.draws).is_some_and(|before| are_alike(before, &way.draws, pools))
            {
                continue;
            }
            clear(of_way);
            sum_by_class(of_way, &way.draws, pools);
            lower(of_part, of_way, nth == 0);
        }
        let of_part = of_part.iter().filter(|_| !part.ways.is_empty()).flatten();
        for (sum, it) in sums.iter_mut().flatten().zip(of_part) {
            *sum = sum.saturating_add(*it);
        }
    }

    /// The draws on the current host: first on all pools, then on private ones.
    pub(super) fn sums(&self) -> impl Iterator<Item = u64> {
        self.sums.iter().flatten().copied()
    }

    /// Ends the current host.
    pub(super) fn end_host(&mut self) {
        lower(&mut self.found, &self.sums, self.is_first);
        self.is_first = false;
    }
}

fn sum_by_class(
    [all, own]: &mut Sums,
    draws: &[(usize, u64)],
    PoolTable { pools, shared }: PoolTable<'_>,
) {
    for (pool, amount) in draws {
        let class = pools[*pool].class;
        all[class] = all[class].saturating_add(*amount);
        if !shared[*pool] {
            own[class] = own[class].saturating_add(*amount);
        }
    }
}

/// Returns whether the draws are equal, on pools of the same classes, of which the same ones are private.
fn are_alike(
    one: &[(usize, u64)],
    other: &[(usize, u64)],
    PoolTable { pools, shared }: PoolTable<'_>,
) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.1 == other.1
                && pools[one.0].class == pools[other.0].class
                && shared[one.0] == shared[other.0]
        })
}

fn clear(sums: &mut Sums) {
    for sums in sums {
        sums.fill(0);
    }
}

/// Lowers each element to that of `other`, if that is less or this is the first time.
fn lower(least: &mut Sums, other: &Sums, is_first: bool) {
    for (least, other) in least.iter_mut().flatten().zip(other.iter().flatten()) {
        *least = if is_first { *other } else { *other.min(least) };
    }
}
