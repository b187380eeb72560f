//! Components: parts that have to be packed together, because they draw on common pools or because
//! a condition binds them.

#![expect(clippy::indexing_slicing, reason = "variables, ways and pools are numbered densely")]

use std::collections::HashMap;

use super::item::Item;
use crate::solver::budget::Budget;
use crate::solver::union_find::UnionFind;

/// A part of a server, for which a way is chosen.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) item: usize,
    pub(super) part: usize,
    /// Variables of one sort have the same ways: equal parts of servers of one size.
    pub(super) sort: usize,
    /// The ways, by position in the part.
    pub(super) ways: Vec<usize>,
}

/// The components of some servers. In each, the parts of a server are adjacent, large servers come first, and equal
/// ones follow each other.
pub(super) fn components(items: &[Item<'_>], budget: &mut Budget<'_>) -> Vec<Vec<Variable>> {
    let mut sorts = HashMap::new();
    let mut variables: Vec<Variable> = Vec::new();
    for (nth, item) in items.iter().enumerate() {
        for part in 0..item.parts().len() {
            let source = item.sources.as_ref().map(|sources| sources[part]);
            let next = sorts.len();
            let sort = *sorts.entry((item.size, part, source)).or_insert(next);
            let ways = 0..item.part(part).ways.len();
            budget.is_spent_after(8 + 4 * ways.len());
            let ways = ways.filter(|way| item.allows(part, *way)).collect();
            variables.push(Variable { item: nth, part, sort, ways });
        }
    }
    let most = |item: &Item<'_>| {
        let ways = item.parts().flat_map(|part| part.ways);
        ways.flat_map(|way| way.draws.iter()).map(|(_, amount)| *amount).max()
    };
    variables.sort_by_cached_key(|it| {
        let item = &items[it.item];
        (std::cmp::Reverse(most(item)), item.size, item.sources.clone(), it.item, it.part)
    });
    let leaders = leaders(items, &variables);
    let mut components: Vec<Vec<Variable>> = Vec::new();
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    for (variable, leader) in variables.into_iter().zip(leaders) {
        let next = components.len();
        let number = *numbers.entry(leader).or_insert(next);
        if number == next {
            components.push(Vec::new());
        }
        components[number].push(variable);
    }
    components
}

/// For each variable, a representative of its component.
fn leaders(items: &[Item<'_>], variables: &[Variable]) -> Vec<usize> {
    let mut joined = UnionFind::new(variables.len());
    let mut of_pool: HashMap<usize, usize> = HashMap::new();
    let mut of_item: HashMap<usize, usize> = HashMap::new();
    for (nth, variable) in variables.iter().enumerate() {
        let item = &items[variable.item];
        let ways = variable.ways.iter().map(|way| &item.part(variable.part).ways[*way]);
        let mut others: Vec<usize> = ways
            .flat_map(|way| way.draws.iter())
            .map(|(pool, _)| *of_pool.entry(*pool).or_insert(nth))
            .collect();
        if item.server.is_coupled() {
            others.push(*of_item.entry(variable.item).or_insert(nth));
        }
        for other in others {
            joined.join(nth, other);
        }
    }
    (0..variables.len()).map(|nth| joined.find(nth)).collect()
}
