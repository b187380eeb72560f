//! The choice of ways for one server on one host, prepared for packing.

#![expect(clippy::indexing_slicing, reason = "parts and sources are numbered densely")]

use std::ops::Range;

use crate::solver::problem::{Choice, Draws, Pool, Supply, Way};

/// Maximum number of parts of a server for which memory is reserved in advance.
const PARTS_FEW: usize = 16;

/// The pools, and which of them more than one host draws on.
#[derive(Clone, Copy)]
pub(in crate::solver) struct PoolTable<'t> {
    pub(in crate::solver) pools: &'t [Pool],
    /// Whether each of them is shared.
    pub(in crate::solver) shared: &'t [bool],
}

/// The choices of several servers. There are many, and preparing them is a large part of the work before a search.
/// So a choice whose ways all fit and draw on no shared pool stays in the problem, and is not copied.
#[derive(Debug)]
pub(in crate::solver) struct ServerChoices<'p> {
    servers: Vec<StoredChoice<'p>>,
    /// The parts of the other choices, with their ways.
    parts: Vec<StoredPart>,
    ways: Vec<Way>,
    numbers: Vec<WayNumbers>,
    /// The first source is that of all parts whose ways draw on no shared pool.
    sources: Vec<Draws>,
    /// The memory in use, in numbers.
    size: usize,
}

#[derive(Clone, Copy, Debug)]
struct StoredChoice<'p> {
    parts: PartsOf<'p>,
    /// Whether the choice for one part restricts that for others, apart from capacity.
    is_coupled: bool,
    /// Whether the ways are known to draw on different pools.
    is_disjoint: bool,
    /// The maximum number of servers that the scarcest part can supply from the initial free capacity.
    most: u64,
}

/// The location of the parts of a server.
#[derive(Clone, Copy, Debug)]
enum PartsOf<'p> {
    /// In the problem.
    Problem(&'p Choice),
    /// Among the stored ones, of which this is the first; the choice, unless there is a single way.
    Stored(usize, Option<&'p Choice>),
}

#[derive(Clone, Debug)]
struct StoredPart {
    ways: Range<usize>,
    sources: Range<usize>,
}

/// Numbers for a way.
#[derive(Clone, Copy, Debug)]
struct WayNumbers {
    /// The position among the ways of the part in the problem.
    position: usize,
    /// The position of its shared draws among the sources.
    source: usize,
}

/// The ways of one server on one host that fit there on their own.
#[derive(Clone, Copy, Debug)]
pub(in crate::solver) struct ServerChoice<'m> {
    stored: StoredChoice<'m>,
    all: &'m ServerChoices<'m>,
}

/// The ways of one part.
#[derive(Clone, Copy, Debug)]
pub(in crate::solver) struct PartChoice<'m> {
    /// The ways.
    pub(in crate::solver) ways: &'m [Way],
    /// The distinct draws on shared pools.
    pub(in crate::solver) sources: &'m [Draws],
    /// The numbers of each way; empty if the position of each is its index, and there is one source.
    numbers: &'m [WayNumbers],
}

impl<'p> ServerChoices<'p> {
    pub(in crate::solver) fn new() -> Self {
        Self {
            servers: Vec::new(),
            parts: Vec::new(),
            ways: Vec::new(),
            numbers: Vec::new(),
            sources: vec![Draws::NONE],
            size: 0,
        }
    }

    /// Adds the choice on a host with this supply, and returns its number. `None` if some part has no way that
    /// fits.
    pub(in crate::solver) fn add(
        &mut self,
        supply: &'p Supply,
        pools: PoolTable<'_>,
    ) -> Option<usize> {
        let mut found = Survey::default();
        match supply {
            Supply::One(draws) => found.add_part(std::iter::once(draws), pools),
            Supply::Choice(choice) => {
                for ways in choice.parts.iter() {
                    found.add_part(ways.iter().map(|way| &way.draws), pools);
                }
            }
        }
        let Survey { is_possible, is_plain, is_disjoint, most, .. } = found;
        if !is_possible {
            return None;
        }
        let parts = match supply {
            Supply::One(draws) => {
                let way = [Way { draws: draws.clone(), ..Way::default() }];
                PartsOf::Stored(self.store(std::iter::once(way.as_slice()), pools), None)
            }
            Supply::Choice(choice) if is_plain => PartsOf::Problem(choice),
            Supply::Choice(choice) => {
                PartsOf::Stored(self.store(choice.parts.iter(), pools), Some(choice))
            }
        };
        let is_coupled = parts.choice().is_some_and(Choice::is_coupled);
        self.servers.push(StoredChoice { parts, is_coupled, is_disjoint, most });
        self.size += 6;
        Some(self.servers.len() - 1)
    }

    /// Stores parts with those ways whose draws are available. Returns the position of the first part.
    fn store<'w>(
        &mut self,
        parts: impl Iterator<Item = &'w [Way]>,
        PoolTable { pools, shared }: PoolTable<'_>,
    ) -> usize {
        let first = self.parts.len();
        let is_shared = |(pool, _): &&(usize, u64)| shared.get(*pool) == Some(&true);
        for ways in parts {
            let (from, first_source) = (self.ways.len(), self.sources.len());
            for (position, way) in ways.iter().enumerate() {
                if times(&way.draws, pools) == 0 {
                    continue;
                }
                let on_shared: Draws = way.draws.iter().filter(is_shared).copied().collect();
                let known = &self.sources[first_source..];
                let known = known.iter().position(|source| *source == on_shared);
                let source = known.unwrap_or_else(|| {
                    self.sources.push(on_shared);
                    self.sources.len() - 1 - first_source
                });
                self.size += 9 + 2 * way.draws.len() + way.meets.len() / 8;
                self.numbers.push(WayNumbers { position, source });
                self.ways.push(way.clone());
            }
            let is_own = matches!(&self.sources[first_source..], [only] if only.is_empty());
            if is_own {
                self.sources.truncate(first_source);
            }
            let sources = if is_own { 0..1 } else { first_source..self.sources.len() };
            self.size += 4 + 5 * sources.len();
            self.parts.push(StoredPart { ways: from..self.ways.len(), sources });
        }
        first
    }

    /// Reserves memory for `servers` further servers that are like the first and only one.
    pub(super) fn reserve(&mut self, servers: usize) {
        self.servers.reserve_exact(servers);
        if (1..=PARTS_FEW).contains(&self.parts.len()) {
            self.parts.reserve_exact(servers * self.parts.len());
        }
    }

    /// A choice by its number.
    pub(in crate::solver) fn get(&self, number: usize) -> Option<ServerChoice<'_>> {
        Some(ServerChoice { stored: *self.servers.get(number)?, all: self })
    }

    /// The memory in use, in numbers.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

/// Properties of the parts of a server.
struct Survey {
    /// A bit for each class that the parts draw.
    classes: u64,
    /// Whether the ways are known to draw on different pools.
    is_disjoint: bool,
    most: u64,
    /// Whether each part has a way.
    is_possible: bool,
    /// Whether all ways fit, and draw on no shared pool.
    is_plain: bool,
}

impl Default for Survey {
    fn default() -> Self {
        let [is_disjoint, is_possible, is_plain] = [true; 3];
        Self { classes: 0, is_disjoint, most: u64::MAX, is_possible, is_plain }
    }
}

impl Survey {
    /// Adds a part with the draws of its ways.
    fn add_part<'d>(
        &mut self,
        ways: impl Iterator<Item = &'d Draws>,
        PoolTable { pools, shared }: PoolTable<'_>,
    ) {
        let (mut classes, mut most) = (0, 0_u64);
        let mut last = None;
        for draws in ways {
            let (from, to) = (draws.first().map(|it| it.0), draws.last().map(|it| it.0));
            // Pools of a part are usually numbered in the order of its ways.
            self.is_disjoint &= from.is_none() || last < from;
            last = last.max(to);
            for (pool, _) in draws {
                self.is_plain &= shared.get(*pool) != Some(&true);
                if let Some(pool) = pools.get(*pool) {
                    // One bit represents all classes from the 64th on.
                    classes |= 1 << pool.class.min(63);
                }
            }
            let times = times(draws, pools);
            self.is_plain &= times > 0;
            most = most.saturating_add(times);
        }
        self.is_disjoint &= self.classes & classes == 0;
        self.classes |= classes;
        self.most = self.most.min(most);
        self.is_possible &= most > 0;
    }
}

/// The number of times that draws fit into the free capacity of pools. A pool that does not exist has nothing.
fn times(draws: &Draws, pools: &[Pool]) -> u64 {
    let mut times = u64::MAX;
    for (pool, amount) in draws {
        let Some(pool) = pools.get(*pool) else { return 0 };
        times = times.min(pool.free / amount);
    }
    times
}

impl PartChoice<'_> {
    /// The position of a way among the ways of the part in the problem.
    pub(in crate::solver) fn position(&self, way: usize) -> usize {
        if self.numbers.is_empty() { way } else { self.numbers[way].position }
    }

    /// The position of the shared draws of a way among the sources.
    pub(in crate::solver) fn source(&self, way: usize) -> usize {
        if self.numbers.is_empty() { 0 } else { self.numbers[way].source }
    }
}

impl<'p> PartsOf<'p> {
    /// The parts with their conditions; `None` if there is a single way.
    fn choice(self) -> Option<&'p Choice> {
        match self {
            Self::Problem(choice) => Some(choice),
            Self::Stored(_, choice) => choice,
        }
    }
}

impl<'m> ServerChoice<'m> {
    /// The parts with their conditions; `None` if there is a single way.
    fn choice(&self) -> Option<&'m Choice> {
        self.stored.parts.choice()
    }

    /// The number of parts.
    pub(in crate::solver) fn len(&self) -> usize {
        match self.choice() {
            Some(choice) => choice.parts.len(),
            None => 1,
        }
    }

    /// A part.
    pub(in crate::solver) fn part(&self, part: usize) -> PartChoice<'m> {
        let ServerChoices { parts, ways, sources, numbers, .. } = self.all;
        match self.stored.parts {
            PartsOf::Problem(choice) => {
                let ways = &choice.parts[part];
                PartChoice { ways, sources: &sources[..1], numbers: &[] }
            }
            PartsOf::Stored(first, _) => {
                let stored = &parts[first + part];
                PartChoice {
                    ways: &ways[stored.ways.clone()],
                    sources: &sources[stored.sources.clone()],
                    numbers: &numbers[stored.ways.clone()],
                }
            }
        }
    }

    /// The parts.
    pub(in crate::solver) fn parts(
        &self,
    ) -> impl ExactSizeIterator<Item = PartChoice<'m>> + use<'m> {
        let it = *self;
        (0..self.len()).map(move |part| it.part(part))
    }

    /// Whether the choice for one part restricts that for others, apart from capacity.
    pub(in crate::solver) fn is_coupled(&self) -> bool {
        self.stored.is_coupled
    }

    /// Returns whether `servers` such servers fit on the host while nothing is drawn from its pools. `None`:
    /// unknown without packing them.
    pub(in crate::solver) fn fit_at_first(&self, servers: usize) -> Option<bool> {
        // Each way supplies as many as its pools have room for, whatever the others do.
        let is_known = self.stored.is_disjoint && !self.stored.is_coupled;
        is_known.then_some(servers as u64 <= self.stored.most)
    }

    /// The maximum number of servers that the scarcest part can supply while nothing is drawn from its pools.
    pub(in crate::solver) fn most_at_first(&self) -> u64 {
        self.stored.most
    }

    /// Whether the ways that are chosen, by their position in [`PartChoice::ways`], can be part of
    /// a choice that meets the conditions.
    pub(in crate::solver) fn can_hold(&self, chosen: &[Option<usize>]) -> bool {
        let Some(choice) = self.choice() else { return true };
        let position =
            |(part, way): (PartChoice<'_>, &Option<usize>)| way.map(|way| part.position(way));
        let chosen: Vec<_> = self.parts().zip(chosen).map(position).collect();
        choice.can_hold(&chosen)
    }

    /// Adds the properties of a way that conditions depend on. Providers with equal properties are interchangeable
    /// as far as conditions are concerned.
    pub(in crate::solver) fn describe(&self, part: usize, way: usize, into: &mut Vec<u64>) {
        let Some(choice) = self.choice() else { return };
        let way = &self.part(part).ways[way];
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
            .ways()
            .iter()
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
        if self.choice().is_none() {
            return Vec::new();
        }
        self.parts().zip(chosen).map(|(part, way)| part.position(*way)).collect()
    }

    /// The number of combinations of sources, one for each part.
    pub(super) fn profiles(&self) -> usize {
        self.parts().fold(1, |count, part| count.saturating_mul(part.sources.len()))
    }

    /// A combination of sources by its number: for each part, the position of the source.
    pub(super) fn profile(&self, number: usize) -> Vec<usize> {
        let mut rest = number;
        let digit = |part: PartChoice<'_>| {
            let source = rest % part.sources.len();
            rest /= part.sources.len();
            source
        };
        self.parts().map(digit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{PoolTable, ServerChoice, ServerChoices};
    use crate::solver::problem::{Choice, Draws, Pool, Supply, Way};

    /// Pools of one class each.
    fn pools(free: &[(usize, u64)]) -> Vec<Pool> {
        free.iter().map(|(class, free)| Pool { class: *class, free: *free }).collect()
    }

    /// A server whose parts each draw one of some amounts from a pool.
    fn supply(parts: &[&[(usize, u64)]]) -> Supply {
        let way = |draws: &(usize, u64)| Way { draws: Draws::from([*draws]), ..Way::default() };
        let parts = parts.iter().map(|ways| ways.iter().map(way)).collect();
        Supply::Choice(Box::new(Choice { parts, ..Choice::default() }))
    }

    /// The choice of a server with this supply.
    fn choice<'c, 'p>(
        choices: &'c mut ServerChoices<'p>,
        supply: &'p Supply,
        pools: PoolTable<'_>,
    ) -> ServerChoice<'c> {
        let number = choices.add(supply, pools).unwrap();
        choices.get(number).unwrap()
    }

    #[test]
    fn first_fits_are_counted_without_packing() {
        let pools = pools(&[(0, 8), (0, 7), (1, 20)]);
        let mut choices = ServerChoices::new();
        let supply = supply(&[&[(0, 3), (1, 3)], &[(2, 4)]]);
        let choice = choice(&mut choices, &supply, PoolTable { pools: &pools, shared: &[] });
        // Two on either node; storage for five.
        assert_eq!(choice.most_at_first(), 4);
        assert_eq!((choice.fit_at_first(4), choice.fit_at_first(5)), (Some(true), Some(false)));
    }

    #[test]
    fn parts_that_draw_on_one_class_have_to_be_packed() {
        let pools = pools(&[(0, 4)]);
        let mut choices = ServerChoices::new();
        let supply = supply(&[&[(0, 3)], &[(0, 3)]]);
        let choice = choice(&mut choices, &supply, PoolTable { pools: &pools, shared: &[] });
        assert_eq!((choice.most_at_first(), choice.fit_at_first(1)), (1, None));
    }

    #[test]
    fn ways_that_do_not_fit_are_left_out() {
        let pools = pools(&[(0, 2), (0, 8), (1, 1)]);
        let mut choices = ServerChoices::new();
        let (some, none) = (supply(&[&[(0, 3), (1, 3)]]), supply(&[&[(1, 3)], &[(2, 4)]]));
        assert_eq!(choices.add(&none, PoolTable { pools: &pools, shared: &[] }), None);
        let choice = choice(&mut choices, &some, PoolTable { pools: &pools, shared: &[] });
        let part = choice.part(0);
        assert_eq!((part.ways.len(), part.position(0)), (1, 1));
        assert_eq!(choice.positions(&[0]), [1]);
    }

    #[test]
    fn draws_on_shared_pools_are_distinguished() {
        let pools = pools(&[(0, 9), (0, 9), (0, 9)]);
        let mut choices = ServerChoices::new();
        let supply = supply(&[&[(0, 3), (1, 3), (2, 3)], &[(0, 3)]]);
        let shared = [false, true, false];
        let choice = choice(&mut choices, &supply, PoolTable { pools: &pools, shared: &shared });
        let [first, second] = [0, 1].map(|part| choice.part(part));
        assert_eq!(first.sources, [Draws::NONE, Draws::from([(1, 3)])]);
        assert_eq!([0, 1, 2].map(|way| first.source(way)), [0, 1, 0]);
        assert_eq!((second.sources, second.source(0)), ([Draws::NONE].as_slice(), 0));
    }
}
