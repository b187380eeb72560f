//! Pools, and the ways in which servers of one size draw on them on each host.
//!
//! A server has parts, each supplied by one provider: the amount of one resource class, or a numbered group. The
//! ways of a part are its possible providers. A server is placed on a host by choosing one way for each part, so
//! the number of choices is the product of the numbers of ways; only the ways themselves are stored.
//!
//! *Example.* A host has two NUMA nodes with 8 VCPU each (pools 0 and 1) and 16 devices (pools 2 to 17). A server
//! of 4 VCPU and one device has two parts, with 2 and 16 ways.

use std::ops::{Index, Range};
use std::sync::Arc;

use smallvec::SmallVec;

use super::draws::Draws;

/// The free capacity of one resource class on one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The dense number of the resource class.
    pub class: usize,
    /// The free amount, in the units of the inventory.
    pub free: u64,
}

/// A way to supply one part of a server: a provider with its draws.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Way {
    /// The draws.
    pub draws: Draws,
    /// The number of the provider: its position in the host's tree, parents first, or a larger
    /// number outside the tree.
    pub provider: u32,
    /// The number of its last descendant, or its own.
    pub last: u32,
    /// For each clause of [`Conditions::clauses`], whether this way meets it.
    pub meets: Box<[bool]>,
    /// The location of the provider.
    pub source: Source,
}

/// The location of a provider in relation to a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Source {
    /// In the tree of the host, for this host alone.
    #[default]
    Own,
    /// In the tree of the host, which shares it with others.
    OwnShared,
    /// In another tree, which shares it.
    Foreign,
}

/// The parts of a server, each with the ways in which it can be supplied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parts {
    /// The ways of all parts, part by part.
    ways: Vec<Way>,
    /// The end of each part among them.
    ends: SmallVec<[usize; 3]>,
}

/// Conditions on the ways that are chosen for the parts of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// The number of clauses, each of which is met by the way of at least one part.
    pub clauses: usize,
    /// Parts, by position, whose providers are all different.
    pub isolated: Vec<usize>,
    /// Sets of parts: in each, one of the providers is an ancestor of all others, or is the same.
    pub subtrees: Vec<Vec<usize>>,
    /// Whether a server that shared providers supply alone does not count as being on the host, unless all of them
    /// are in its tree.
    pub needs_own: bool,
}

/// The ways in which a host supplies servers of one size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Supply {
    /// A single way with these draws.
    One(Draws),
    /// One way is chosen for each part.
    Choice(Box<Choice>),
}

/// The parts of a server, and the conditions on the ways that are chosen for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The parts.
    pub parts: Parts,
    /// The conditions.
    pub conditions: Arc<Conditions>,
    /// Maximum amounts that one server draws from pools, whatever its parts need (`max_unit`): ascending by pool,
    /// each once.
    pub limits: Vec<(usize, u64)>,
}

impl Parts {
    /// Creates an empty list with memory for a number of ways.
    pub fn with_capacity(ways: usize) -> Self {
        Self { ways: Vec::with_capacity(ways), ends: SmallVec::new() }
    }

    /// Removes all parts, and keeps the memory.
    pub fn clear(&mut self) {
        self.ways.clear();
        self.ends.clear();
    }

    /// Releases unused memory.
    pub fn shrink_to_fit(&mut self) {
        self.ways.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Adds a part. Returns its ways.
    pub fn push(&mut self, ways: impl IntoIterator<Item = Way>) -> &[Way] {
        let from = self.ways.len();
        self.ways.extend(ways);
        self.ends.push(self.ways.len());
        self.ways.split_at(from).1
    }

    /// The number of parts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The ways of a part.
    pub fn get(&self, part: usize) -> Option<&[Way]> {
        (part < self.len()).then(|| &self[part])
    }

    /// The ways of each part.
    pub fn iter(&self) -> impl Iterator<Item = &[Way]> {
        (0..self.len()).map(|part| &self[part])
    }

    /// The ways of all parts, part by part.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// The same, mutable.
    pub fn ways_mut(&mut self) -> &mut [Way] {
        &mut self.ways
    }
}

impl Index<usize> for Parts {
    type Output = [Way];

    #[expect(clippy::indexing_slicing, reason = "as an index, it panics if there is no such part")]
    fn index(&self, part: usize) -> &[Way] {
        let from = if part == 0 { 0 } else { self.ends[part - 1] };
        &self.ways[from..self.ends[part]]
    }
}

/// Collects the ways of each part.
impl<W: IntoIterator<Item = Way>> FromIterator<W> for Parts {
    fn from_iter<T: IntoIterator<Item = W>>(parts: T) -> Self {
        let mut all = Self::default();
        for ways in parts {
            all.push(ways);
        }
        all
    }
}

impl Conditions {
    /// Returns whether every choice meets them.
    pub fn is_trivial(&self) -> bool {
        self.clauses == 0
            && self.isolated.len() < 2
            && self.subtrees.iter().all(|set| set.len() < 2)
            && !self.needs_own
    }
}

impl Choice {
    /// Whether the conditions can still hold if these ways are chosen, by position, and those of
    /// the other parts (`None`) are open. Exact if a way is chosen for each part.
    pub fn can_hold(&self, chosen: &[Option<usize>]) -> bool {
        let conditions = &self.conditions;
        if !self.is_coupled() {
            return true;
        }
        let ways = |part: usize| -> &[Way] {
            let Some(ways) = self.parts.get(part) else { return &[] };
            match chosen.get(part).copied().flatten() {
                Some(way) => ways.get(way..=way).unwrap_or_default(),
                None => ways,
            }
        };
        let any_way = |test: &dyn Fn(&Way) -> bool| {
            (0..self.parts.len()).any(|part| ways(part).iter().any(test))
        };
        let is_met = |clause: usize| any_way(&|way| way.meets.get(clause) == Some(&true));
        let is_inside = |part: usize| ways(part).iter().any(|way| way.source != Source::Foreign);
        (0..conditions.clauses).all(is_met)
            && self.are_apart(chosen)
            && self.is_within_limits(chosen)
            && conditions.subtrees.iter().all(|set| Self::is_subtree(set, chosen, &ways))
            && (!conditions.needs_own
                || any_way(&|way| way.source == Source::Own)
                || (0..self.parts.len()).all(is_inside))
    }

    /// Whether the choice for one part restricts that for others, apart from capacity.
    pub fn is_coupled(&self) -> bool {
        !self.conditions.is_trivial() || !self.limits.is_empty()
    }

    /// Whether the chosen ways together draw no more from a pool than one server may.
    fn is_within_limits(&self, chosen: &[Option<usize>]) -> bool {
        if self.limits.is_empty() {
            return true;
        }
        let ways = self.parts.iter().zip(chosen);
        let ways = ways.filter_map(|(ways, way)| ways.get((*way)?));
        let drawn: Draws = ways.flat_map(|way| &way.draws).copied().collect();
        let amount = |pool: usize| drawn.iter().find(|it| it.0 == pool).map_or(0, |it| it.1);
        self.limits.iter().all(|(pool, most)| amount(*pool) <= *most)
    }

    /// Whether the providers chosen for the isolated parts are all different.
    fn are_apart(&self, chosen: &[Option<usize>]) -> bool {
        let isolated = &self.conditions.isolated;
        let provider = |part: &usize| {
            let way = chosen.get(*part).copied().flatten()?;
            self.parts.get(*part)?.get(way).map(|way| way.provider)
        };
        let mut used: Vec<u32> = isolated.iter().filter_map(provider).collect();
        used.sort_unstable();
        used.windows(2).all(|pair| pair.first() != pair.last())
    }

    /// Whether one provider of a set is, or can be, an ancestor of all chosen ones.
    fn is_subtree<'c>(
        set: &[usize],
        chosen: &[Option<usize>],
        ways: &dyn Fn(usize) -> &'c [Way],
    ) -> bool {
        let is_chosen = |part: &&usize| chosen.get(**part).copied().flatten().is_some();
        let fixed = || set.iter().filter(is_chosen).flat_map(|part| ways(*part));
        let (Some(first), Some(last)) =
            (fixed().map(|way| way.provider).min(), fixed().map(|way| way.provider).max())
        else {
            return true;
        };
        let spans = |way: &Way| way.provider <= first && last <= way.last;
        set.iter().flat_map(|part| ways(*part)).any(spans)
    }
}

impl Supply {
    /// The draws of these ways, chosen by position for the parts: ascending by pool, each pool once. `None` if
    /// there are no such ways.
    pub fn drawn(&self, ways: &[usize]) -> Option<Draws> {
        match self {
            Self::One(draws) => Some(draws.clone()),
            Self::Choice(choice) if choice.parts.len() == ways.len() => {
                let chosen = choice.parts.iter().zip(ways).map(|(all, way)| all.get(*way));
                let chosen: Vec<&Way> = chosen.collect::<Option<_>>()?;
                Some(chosen.into_iter().flat_map(|way| &way.draws).copied().collect())
            }
            Self::Choice(_) => None,
        }
    }

    /// The number of ways, of all parts together.
    pub(in crate::solver) fn ways(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Choice(choice) => choice.parts.ways().len(),
        }
    }

    /// Memory in use, in numbers of eight bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::One(draws) => 4 + 2 * draws.len(),
            Self::Choice(choice) => {
                let ways = choice.parts.ways().iter();
                ways.map(|way| 10 + 2 * way.draws.len() + way.meets.len() / 8).sum::<usize>() + 8
            }
        }
    }
}

/// For each host, the supply of servers of one size. Only hosts that can supply them take memory, and clones share
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// The hosts with their supply, ascending.
    at: Arc<Vec<(usize, Supply)>>,
    /// A host whose supply differs from that in `at`.
    here: Option<(usize, Supply)>,
}

impl Ways {
    /// The ways of a server that has to stay on its host, where it draws nothing.
    pub fn staying_on(host: usize) -> Self {
        Self { at: Arc::default(), here: Some((host, Supply::One(Draws::NONE))) }
    }

    /// These ways, except for one host, where the server has its allocations: it draws these there, or nothing if the
    /// pools already lack them.
    #[must_use]
    pub fn or_staying_on(&self, host: usize, draws: Draws) -> Self {
        Self { at: Arc::clone(&self.at), here: Some((host, Supply::One(draws))) }
    }

    /// The supply on a host; `None` if the host cannot supply the server.
    pub fn on(&self, host: usize) -> Option<&Supply> {
        if let Some((_, supply)) = self.here.as_ref().filter(|(here, _)| *here == host) {
            return Some(supply);
        }
        let at = self.at.binary_search_by_key(&host, |(host, _)| *host).ok()?;
        self.at.get(at).map(|(_, supply)| supply)
    }

    /// The number of hosts that can supply the server, or one more than that.
    pub fn hosts(&self) -> usize {
        self.at.len() + usize::from(self.here.is_some())
    }

    /// The hosts that can supply the server, ascending.
    pub fn by_host(&self) -> impl Iterator<Item = (usize, &Supply)> {
        self.within(0..usize::MAX)
    }

    /// The supplies on a range of hosts.
    pub fn within(&self, hosts: Range<usize>) -> impl Iterator<Item = (usize, &Supply)> {
        let before = |to: usize| self.at.partition_point(|(other, _)| *other < to);
        let (from, to) = (before(hosts.start), before(hosts.end));
        let (all, _) = self.at.split_at(to);
        let own = self.here.as_ref().filter(|(host, _)| hosts.contains(host));
        let own = own.map(|(host, supply)| (*host, supply));
        let (first, after) = all.split_at(own.map_or(to, |(host, _)| before(host)));
        let (_, first) = first.split_at(from);
        let after = after.iter().filter(move |(host, _)| own.is_none_or(|(own, _)| own != *host));
        first.iter().map(pair).chain(own).chain(after.map(pair))
    }
}

fn pair((host, supply): &(usize, Supply)) -> (usize, &Supply) {
    (*host, supply)
}

/// Collects hosts, ascending, with their supply.
impl FromIterator<(usize, Supply)> for Ways {
    fn from_iter<T: IntoIterator<Item = (usize, Supply)>>(hosts: T) -> Self {
        Self { at: Arc::new(hosts.into_iter().collect()), here: None }
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Conditions, Draws, Source, Supply, Way, Ways};

    #[test]
    fn servers_that_may_stay_draw_only_elsewhere() {
        let one = |pool: usize| Supply::One(Draws::from([(pool, 1)]));
        let ways: Ways = [(0, one(0)), (2, one(2))].into_iter().collect();
        for host in [0, 1, 2, 9] {
            let with = ways.or_staying_on(host, Draws::NONE);
            assert_eq!(with.on(host), Some(&Supply::One(Draws::NONE)));
            let hosts: Vec<usize> = with.by_host().map(|(host, _)| host).collect();
            let mut all = vec![0, 2, host];
            all.sort_unstable();
            all.dedup();
            assert_eq!(hosts, all);
            assert!(with.by_host().all(|(host, supply)| with.on(host) == Some(supply)));
            let parts = [0..2, 2..3, 3..10];
            let in_parts = parts.into_iter().flat_map(|hosts| with.within(hosts));
            assert!(in_parts.eq(with.by_host()));
        }
        assert_eq!(Ways::staying_on(3).by_host().map(|(host, _)| host).collect::<Vec<_>>(), [3]);
        assert_eq!(ways.on(1), None);
    }

    /// Two parts with these ways, under conditions.
    fn choice(ways: [Vec<Way>; 2], conditions: Conditions) -> Choice {
        Choice {
            parts: ways.into_iter().collect(),
            conditions: conditions.into(),
            limits: Vec::new(),
        }
    }

    fn way(provider: u32, last: u32) -> Way {
        Way { provider, last, ..Way::default() }
    }

    #[test]
    fn isolated_parts_have_different_providers() {
        let conditions = Conditions { isolated: vec![0, 1], ..Conditions::default() };
        let both = vec![way(1, 1), way(2, 2)];
        let choice = choice([both.clone(), both], conditions);
        assert!(choice.can_hold(&[Some(0), Some(1)]) && choice.can_hold(&[Some(0), None]));
        assert!(!choice.can_hold(&[Some(1), Some(1)]));
    }

    #[test]
    fn one_provider_of_a_subtree_is_an_ancestor_of_the_others() {
        let conditions = Conditions { subtrees: vec![vec![0, 1]], ..Conditions::default() };
        // Provider 1 has the child 2; provider 3 is its sibling.
        let choice = choice([vec![way(2, 2), way(3, 3)], vec![way(1, 2)]], conditions);
        assert!(choice.can_hold(&[Some(0), Some(0)]) && choice.can_hold(&[Some(0), None]));
        assert!(!choice.can_hold(&[Some(1), Some(0)]));
    }

    #[test]
    fn the_ways_together_meet_every_clause() {
        let conditions = Conditions { clauses: 2, ..Conditions::default() };
        let meeting = |meets: [bool; 2]| Way { meets: meets.into(), ..Way::default() };
        let first = vec![meeting([true, false]), meeting([false, true])];
        let choice = choice([first, vec![meeting([true, false])]], conditions);
        assert!(choice.can_hold(&[Some(1), Some(0)]) && choice.can_hold(&[None, Some(0)]));
        assert!(!choice.can_hold(&[Some(0), Some(0)]) && !choice.can_hold(&[Some(0), None]));
    }

    #[test]
    fn a_server_draws_on_its_host_or_only_within_its_tree() {
        let conditions = Conditions { needs_own: true, ..Conditions::default() };
        let from = |source| Way { source, ..Way::default() };
        let all = vec![from(Source::Own), from(Source::OwnShared), from(Source::Foreign)];
        let choice = choice([all.clone(), all], conditions);
        for (ways, holds) in [([0, 2], true), ([1, 1], true), ([1, 2], false), ([2, 2], false)] {
            assert_eq!(choice.can_hold(&ways.map(Some)), holds, "{ways:?}");
        }
    }

    #[test]
    fn draws_on_one_pool_add_up() {
        let way = |pool, amount| Way { draws: Draws::from([(pool, amount)]), ..Way::default() };
        let parts = [vec![way(3, 1)], vec![way(1, 2), way(3, 4)]];
        let mut choice = choice(parts, Conditions::default());
        choice.limits = vec![(3, 4)];
        assert!(choice.can_hold(&[Some(0), Some(0)]) && choice.can_hold(&[None, Some(1)]));
        assert!(!choice.can_hold(&[Some(0), Some(1)]));
        let supply = Supply::Choice(Box::new(choice));
        assert_eq!(supply.drawn(&[0, 1]), Some(Draws::from([(3, 5)])));
        assert_eq!(supply.drawn(&[0, 0]), Some(Draws::from([(1, 2), (3, 1)])));
        assert_eq!(supply.drawn(&[0, 2]), None);
        assert_eq!(supply.drawn(&[0]), None);
    }
}
