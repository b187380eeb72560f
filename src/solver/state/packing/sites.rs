//! Sites: groups of pools of a component, such as those of one provider. Two sites are of one class if they differ
//! only in their names: the same parts draw the same amounts there. Sites of a class with equal remainders are
//! interchangeable.

#![expect(clippy::indexing_slicing, reason = "variables, ways and pools are numbered densely")]

use std::collections::{HashMap, HashSet};

use super::components::Variable;
use super::item::Item;
use crate::solver::problem::Way;
use crate::solver::union_find::UnionFind;

/// The sites of a component.
#[derive(Debug, Default)]
pub(super) struct Sites {
    pub(super) sites: Vec<Site>,
    /// The site of each way, and its number among the ways of the variable at that site; by
    /// sort of variable and way. `None` for a way that draws nothing.
    of_way: HashMap<(usize, usize), (usize, usize)>,
}

/// A site.
#[derive(Debug, Default)]
pub(super) struct Site {
    /// Its class.
    pub(super) class: usize,
    /// Its pools, in the order in which the ways name them.
    pub(super) pools: Vec<usize>,
    /// Its providers, in the same order.
    providers: Vec<u32>,
    /// The draws of the ways there, with pools by their position in `pools`.
    signature: Vec<u64>,
}

impl Sites {
    /// The sites of some variables.
    pub(super) fn of(items: &[Item<'_>], variables: &[Variable]) -> Self {
        let by_provider = variables.iter().any(|it| items[it.item].server.is_coupled());
        let mut joined = Joined::default();
        let mut known: HashSet<usize> = HashSet::new();
        let sorts = variables.iter().filter(|variable| known.insert(variable.sort));
        let sorts: Vec<&Variable> = sorts.collect();
        for variable in &sorts {
            let part = items[variable.item].part(variable.part);
            for way in variable.ways.iter().map(|way| &part.ways[*way]) {
                let pools = way.draws.iter().map(|(pool, _)| Node::Pool(*pool));
                let provider = by_provider.then_some(Node::Provider(way.provider));
                joined.join(pools.chain(provider));
            }
        }
        let mut found = Self::default();
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        for variable in &sorts {
            let item = &items[variable.item];
            let part = item.part(variable.part);
            let mut count: HashMap<usize, usize> = HashMap::new();
            for number in &variable.ways {
                let way = &part.ways[*number];
                let node = way.draws.first().map(|(pool, _)| Node::Pool(*pool));
                let Some(node) = node.or(by_provider.then_some(Node::Provider(way.provider)))
                else {
                    continue;
                };
                let leader = joined.leader(node);
                let next = found.sites.len();
                let site = *numbers.entry(leader).or_insert(next);
                if site == next {
                    found.sites.push(Site::default());
                }
                let nth = count.entry(site).or_insert(0);
                found.of_way.insert((variable.sort, *number), (site, *nth));
                *nth += 1;
                found.sites[site].add(variable.sort, way);
                if item.server.is_coupled() {
                    let signature = &mut found.sites[site].signature;
                    item.server.describe(variable.part, *number, signature);
                }
            }
        }
        let mut classes: HashMap<Vec<u64>, usize> = HashMap::new();
        for site in &mut found.sites {
            let next = classes.len();
            site.class = *classes.entry(std::mem::take(&mut site.signature)).or_insert(next);
        }
        found
    }

    /// The site of a way of a sort of variable, and the number of the way there.
    pub(super) fn of_way(&self, sort: usize, way: usize) -> Option<(usize, usize)> {
        self.of_way.get(&(sort, way)).copied()
    }

    /// The remaining capacity, ignoring which site of a class has it.
    pub(super) fn summary(&self, left: &[u64]) -> Vec<u64> {
        let site = |site: &Site| {
            let class = std::iter::once(site.class as u64);
            class.chain(site.pools.iter().map(|pool| left[*pool])).collect::<Vec<u64>>()
        };
        let mut sites: Vec<Vec<u64>> = self.sites.iter().map(site).collect();
        sites.sort_unstable();
        sites.concat()
    }
}

impl Site {
    /// Adds a way of a sort of variable.
    fn add(&mut self, sort: usize, way: &Way) {
        let provider = position_of(way.provider, &mut self.providers);
        self.signature.extend([u64::MAX, sort as u64, provider]);
        for (pool, amount) in &way.draws {
            self.signature.extend([position_of(*pool, &mut self.pools), *amount]);
        }
    }
}

/// The position of an entry in a list, to which it is added if it is missing.
fn position_of<T: PartialEq>(entry: T, list: &mut Vec<T>) -> u64 {
    let position = list.iter().position(|known| *known == entry).unwrap_or_else(|| {
        list.push(entry);
        list.len() - 1
    });
    position as u64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    Pool(usize),
    Provider(u32),
}

/// Sets of pools and providers that form one site.
#[derive(Debug, Default)]
struct Joined {
    numbers: HashMap<Node, usize>,
    sets: UnionFind,
}

impl Joined {
    fn leader(&mut self, node: Node) -> usize {
        let Self { numbers, sets } = self;
        let number = *numbers.entry(node).or_insert_with(|| sets.add());
        sets.find(number)
    }

    fn join(&mut self, nodes: impl Iterator<Item = Node>) {
        let mut first = None;
        for node in nodes {
            let leader = self.leader(node);
            self.sets.join(*first.get_or_insert(leader), leader);
        }
    }
}
