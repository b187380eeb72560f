//! The choice of ways for one server on one host, prepared for packing, and the variants of a bundle
//! of such servers: what it draws on pools that other hosts draw on as well.
//!
//! *Example.* A server takes 4 VCPU from one of two NUMA nodes, and 10 of disk from the host or from
//! a shared pool. The second part has two *sources* of shared draws: none, and 10 of the shared
//! pool. So a bundle of three such servers has four variants: 0 to 3 of them use the shared pool.
//! The search decides the variant; packing decides all else. Variants are numbered, and never
//! listed.

#![expect(clippy::indexing_slicing, reason = "parts and sources are numbered densely")]

use std::borrow::Cow;

use crate::solver::problem::{Choice, Draws, Part, Pool, Supply, Way, merged};

/// The ways of one server on one host that fit there by themselves.
#[derive(Debug)]
pub(in crate::solver) struct ServerChoice<'p> {
    /// The parts with their conditions; `None` if there is a single way.
    pub(in crate::solver) choice: Option<&'p Choice>,
    /// The parts.
    pub(in crate::solver) parts: Vec<PartChoice<'p>>,
}

/// The ways of one part.
#[derive(Debug)]
pub(in crate::solver) struct PartChoice<'p> {
    /// The ways.
    pub(in crate::solver) ways: Vec<PackableWay<'p>>,
    /// The distinct draws on shared pools.
    pub(in crate::solver) sources: Cow<'static, [Draws]>,
}

/// The sources of a part whose ways draw on no shared pool.
static ONLY_OWN: [Draws; 1] = [Draws::new_const()];

/// A way of a part.
#[derive(Debug)]
pub(in crate::solver) struct PackableWay<'p> {
    /// The position among the ways of the part in the problem.
    pub(in crate::solver) position: usize,
    /// All draws, ascending by pool.
    pub(in crate::solver) draws: Cow<'p, [(usize, u64)]>,
    /// The position of its shared draws among the sources.
    pub(in crate::solver) source: usize,
    /// The number of the provider.
    pub(in crate::solver) provider: u32,
}

impl<'p> ServerChoice<'p> {
    /// The choice on a host with this supply; `None` if some part has no way that fits.
    pub(in crate::solver) fn of(
        supply: &'p Supply,
        pools: &[Pool],
        shared: &[bool],
    ) -> Option<Self> {
        let part = |ways: &mut dyn ExactSizeIterator<Item = (&'p Draws, u32)>| {
            let ways_max = ways.len();
            let mut part = PartChoice {
                ways: Vec::with_capacity(ways_max),
                sources: Cow::Borrowed(&ONLY_OWN[..0]),
            };
            for (position, (draws, provider)) in ways.enumerate() {
                part.add(position, draws, provider, (pools, shared));
            }
            if part.ways.is_empty() { None } else { Some(part) }
        };
        match supply {
            Supply::One(draws) => {
                let parts = vec![part(&mut std::iter::once((draws, 0)))?];
                Some(Self { choice: None, parts })
            }
            Supply::Choice(choice) => {
                let way = |way: &'p Way| (&way.draws, way.provider);
                let parts = choice.parts.iter().map(|Part(ways)| part(&mut ways.iter().map(way)));
                Some(Self { choice: Some(choice), parts: parts.collect::<Option<_>>()? })
            }
        }
    }

    /// Whether the choice for one part restricts that for others, apart from capacity.
    pub(in crate::solver) fn is_coupled(&self) -> bool {
        self.choice.is_some_and(Choice::is_coupled)
    }

    /// Whether the ways that are chosen, by their position in [`PartChoice::ways`], can be part of
    /// a choice that meets the conditions.
    pub(in crate::solver) fn can_hold(&self, chosen: &[Option<usize>]) -> bool {
        let Some(choice) = self.choice else { return true };
        let position =
            |(part, way): (&PartChoice<'_>, &Option<usize>)| way.map(|way| part.ways[way].position);
        let chosen: Vec<_> = self.parts.iter().zip(chosen).map(position).collect();
        choice.can_hold(&chosen)
    }

    /// Adds what conditions depend on if a way is chosen for a part. Providers for which this is the
    /// same are interchangeable as far as conditions are concerned.
    pub(in crate::solver) fn describe(&self, part: usize, way: usize, into: &mut Vec<u64>) {
        let Some(choice) = self.choice else { return };
        let Some(way) = self.parts.get(part).and_then(|it| it.ways.get(way)) else { return };
        let Some(way) = choice.parts.get(part).and_then(|it| it.0.get(way.position)) else {
            return;
        };
        into.push(way.source as u64);
        into.extend(way.meets.iter().map(|meets| u64::from(*meets)));
        let limit = |(pool, _): &(usize, u64)| choice.limits.iter().find(|it| it.0 == *pool);
        into.extend(way.draws.iter().map(|it| limit(it).map_or(u64::MAX, |it| it.1)));
        if choice.conditions.subtrees.is_empty() {
            return;
        }
        if way.last > way.provider {
            // It may be an ancestor of others, and is like no other provider.
            into.push(u64::from(way.provider));
        }
        let mut ancestors: Vec<u32> = choice
            .parts
            .iter()
            .flat_map(|Part(ways)| ways)
            .filter(|it| it.provider < way.provider && way.provider <= it.last)
            .map(|it| it.provider)
            .collect();
        ancestors.sort_unstable();
        ancestors.dedup();
        into.push(u64::MAX);
        into.extend(ancestors.into_iter().map(u64::from));
    }

    /// The positions, in the problem, of the ways that are chosen.
    pub(in crate::solver) fn positions(&self, chosen: &[usize]) -> Vec<usize> {
        if self.choice.is_none() {
            return Vec::new();
        }
        self.parts.iter().zip(chosen).map(|(part, way)| part.ways[*way].position).collect()
    }

    /// The number of combinations of sources, one for each part.
    fn profiles(&self) -> usize {
        self.parts.iter().fold(1, |count, part| count.saturating_mul(part.sources.len()))
    }

    /// A combination of sources by its number: for each part, the position of the source.
    fn profile(&self, number: usize) -> Vec<usize> {
        let mut rest = number;
        let digit = |part: &PartChoice<'_>| {
            let source = rest % part.sources.len();
            rest /= part.sources.len();
            source
        };
        self.parts.iter().map(digit).collect()
    }

    /// The numbers it takes in memory.
    pub(super) fn size(&self) -> usize {
        let ways = self.parts.iter().flat_map(|part| &part.ways);
        8 + ways.map(|way| 10 + 2 * way.draws.len()).sum::<usize>()
    }
}

impl<'p> PartChoice<'p> {
    /// Adds a way, if its draws are there and differ from those of the other ways with this
    /// provider.
    fn add(
        &mut self,
        position: usize,
        draws: &'p Draws,
        provider: u32,
        (pools, shared): (&[Pool], &[bool]),
    ) {
        let is_merged = draws.is_sorted_by(|one, other| one.0 < other.0)
            && draws.iter().all(|(_, amount)| *amount > 0);
        let draws = if is_merged {
            Cow::Borrowed(draws.as_slice())
        } else {
            Cow::Owned(merged(draws.iter().copied()).into_vec())
        };
        let free = |pool: usize| pools.get(pool).map_or(0, |pool| pool.free);
        if draws.iter().any(|(pool, amount)| *amount > free(*pool)) {
            return;
        }
        let is_shared = |(pool, _): &(usize, u64)| shared.get(*pool) == Some(&true);
        let on_shared: Draws = draws.iter().copied().filter(is_shared).collect();
        let known = self.sources.iter().position(|source| *source == on_shared);
        let source = known.unwrap_or_else(|| {
            if self.sources.is_empty() && on_shared.is_empty() {
                // The common case takes no memory.
                self.sources = Cow::Borrowed(&ONLY_OWN);
            } else {
                self.sources.to_mut().push(on_shared);
            }
            self.sources.len() - 1
        });
        self.ways.push(PackableWay { position, draws, source, provider });
    }
}

/// The number of variants of a bundle. Servers of equal sizes stand next to each other, and are
/// interchangeable.
pub(super) fn variants(servers: &[(usize, &ServerChoice<'_>)]) -> usize {
    let mut count = 1_usize;
    for equal in servers.chunk_by(|one, other| one.0 == other.0) {
        let profiles = equal.first().map_or(1, |(_, server)| server.profiles());
        count = count.saturating_mul(multisets(profiles, equal.len()));
    }
    count
}

/// A variant by its number: for each server, for each of its parts, the position of the source.
pub(super) fn variant(servers: &[(usize, &ServerChoice<'_>)], number: usize) -> Vec<Vec<usize>> {
    let mut rest = number;
    let mut profiles = Vec::with_capacity(servers.len());
    for equal in servers.chunk_by(|one, other| one.0 == other.0) {
        let Some((_, server)) = equal.first() else { continue };
        let all = server.profiles();
        let count = multisets(all, equal.len());
        let chosen = multiset(all, equal.len(), rest % count);
        rest /= count;
        profiles.extend(chosen.into_iter().map(|profile| server.profile(profile)));
    }
    profiles
}

/// The number of multisets of some size whose elements are below `kinds`: C(kinds + size - 1, size).
fn multisets(kinds: usize, size: usize) -> usize {
    let mut count = 1_u128;
    for nth in 1..=size as u128 {
        let Some(product) = count.checked_mul(kinds as u128 + nth - 1) else { return usize::MAX };
        count = product / nth;
    }
    usize::try_from(count).unwrap_or(usize::MAX).max(1)
}

/// The multiset with a number, in lexicographic order, ascending.
fn multiset(kinds: usize, size: usize, number: usize) -> Vec<usize> {
    let mut rest = number;
    let mut element = 0;
    let mut elements = Vec::with_capacity(size);
    for nth in 0..size {
        // The multisets that begin with the element come first, then those with a larger one.
        loop {
            let with = multisets(kinds - element, size - nth - 1);
            if rest < with || element + 1 == kinds {
                break;
            }
            rest -= with;
            element += 1;
        }
        elements.push(element);
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::{multiset, multisets};

    #[test]
    fn multisets_are_numbered() {
        let all: Vec<Vec<usize>> =
            (0..multisets(3, 2)).map(|number| multiset(3, 2, number)).collect();
        assert_eq!(all, [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]]);
        assert_eq!((multisets(1, 5), multisets(5, 0), multisets(2, 20)), (1, 1, 21));
        assert_eq!(multisets(usize::MAX, 200), usize::MAX);
        assert_eq!(multiset(1, 3, 0), [0, 0, 0]);
    }
}
