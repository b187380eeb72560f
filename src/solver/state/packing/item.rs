//! The servers to be packed, and the remainder of their pools.

#![expect(clippy::indexing_slicing, reason = "parts, ways and pools are numbered densely")]

use crate::solver::model::{PartChoice, ServerChoice};

/// A server to be packed.
#[derive(Clone, Debug)]
pub(in crate::solver::state) struct Item<'m> {
    /// Its size: items of one size on one host have the same ways.
    pub(super) size: usize,
    pub(super) server: ServerChoice<'m>,
    /// For each part, the source of its draws on shared pools; `None`: any.
    pub(super) sources: Option<Vec<usize>>,
}

impl<'m> Item<'m> {
    pub(in crate::solver::state) fn new(
        size: usize,
        server: ServerChoice<'m>,
        sources: Option<Vec<usize>>,
    ) -> Self {
        Self { size, server, sources }
    }

    /// A server that has these ways and keeps its draws on shared pools.
    pub(in crate::solver::state) fn keeping_sources(
        size: usize,
        server: ServerChoice<'m>,
        ways: &[usize],
    ) -> Self {
        let parts = server.parts().zip(ways);
        let sources = parts.map(|(part, way)| part.source(*way)).collect();
        Self { size, server, sources: Some(sources) }
    }

    /// Its draws if these ways are chosen for its parts.
    pub(in crate::solver::state) fn draws<'w>(
        &'w self,
        ways: &'w [usize],
    ) -> impl Iterator<Item = &'w (usize, u64)> {
        let parts = self.server.parts().zip(ways);
        parts.flat_map(|(part, way)| part.ways[*way].draws.iter())
    }

    /// Takes its draws.
    pub(in crate::solver::state) fn take(&self, left: &mut [u64], ways: &[usize]) {
        self.draws(ways).for_each(|(pool, amount)| left[*pool] -= amount);
    }

    /// Returns its draws.
    pub(in crate::solver::state) fn give(&self, left: &mut [u64], ways: &[usize]) {
        self.draws(ways).for_each(|(pool, amount)| left[*pool] += amount);
    }

    pub(super) fn parts(&self) -> impl ExactSizeIterator<Item = PartChoice<'m>> + use<'m> {
        self.server.parts()
    }

    pub(super) fn part(&self, part: usize) -> PartChoice<'m> {
        self.server.part(part)
    }

    /// Whether a way of a part may be chosen.
    pub(super) fn allows(&self, part: usize, way: usize) -> bool {
        let source = self.part(part).source(way);
        self.sources.as_ref().is_none_or(|sources| sources[part] == source)
    }
}

/// The sum left in the pools after these draws; `None` if one has too little.
pub(in crate::solver::state) fn rest(left: &[u64], draws: &[(usize, u64)]) -> Option<u128> {
    let rest = draws.iter().map(|(pool, amount)| left[*pool].checked_sub(*amount).map(u128::from));
    rest.sum::<Option<u128>>()
}

/// Returns whether the pools have enough for the draws.
pub(in crate::solver::state) fn is_left(left: &[u64], draws: &[(usize, u64)]) -> bool {
    draws.iter().all(|(pool, amount)| *amount <= left[*pool])
}

/// Takes the draws.
pub(in crate::solver::state) fn take(left: &mut [u64], draws: &[(usize, u64)]) {
    for (pool, amount) in draws {
        left[*pool] -= amount;
    }
}

/// Returns the draws.
pub(in crate::solver::state) fn give(left: &mut [u64], draws: &[(usize, u64)]) {
    for (pool, amount) in draws {
        left[*pool] += amount;
    }
}
