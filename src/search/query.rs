//! A request resolved against one world: names become ids and sets, groups become parts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::part::{Amount, Part, SetFilter, carriers, members};
use super::released::Released;
use super::request::{Group, Order, Policy, Request, Strategy, Unknown};
use super::score::Scorer;
use crate::model::ClassId;
use crate::world::set::Set;
use crate::world::{Provider, World};

/// Decides whether a query is proven to have no candidate, which takes a search.
/// A query, and the world that it is about.
#[derive(Clone, Copy)]
pub(in crate::search) struct QueryInWorld<'q> {
    pub(in crate::search) world: &'q World,
    pub(in crate::search) query: &'q Query,
}

pub(super) type IsVoid<'v> = &'v dyn Fn(&World, &Query) -> bool;

/// A request group, as far as candidates refer to it.
#[derive(Clone, Debug)]
pub(super) struct ResolvedGroup {
    pub(super) suffix: String,
    /// The positions of its parts.
    pub(super) parts: std::ops::Range<usize>,
}

/// A resolved request.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one property of the request")]
pub(super) struct Query {
    pub(super) groups: Vec<ResolvedGroup>,
    pub(super) parts: Vec<Part>,
    /// Conditions on the anchor for the whole request (`root_required`).
    pub(super) anchor: SetFilter,
    /// The required traits of the unsuffixed group, which its providers have together.
    pub(super) together: Vec<Vec<Set>>,
    /// The classes that several parts request, each with the sum of the amounts.
    pub(super) contended: Vec<Amount>,
    /// Whether two suffixed groups must not use one provider.
    pub(super) isolate: bool,
    /// The sets of `same_subtree`: groups, by position.
    pub(super) subtrees: Vec<Vec<usize>>,
    /// Whether one candidate may use several providers of a tree.
    pub(super) nested: bool,
    /// Maximum number of candidates to return.
    pub(super) bound: Option<usize>,
    /// The operator's maximum number of candidates to generate, whatever the request's limit.
    pub(super) most: Option<usize>,
    /// Whether the bound is the request's limit, and not the operator's.
    pub(super) limited: bool,
    /// Whether the search continues for the summaries alone; see `Engine::survey`.
    pub(super) surveying: bool,
    pub(super) strategy: Strategy,
    /// The seed of a random order.
    pub(super) seed: Option<u64>,
    /// The scores by which trees are ordered.
    pub(super) scorer: Option<Scorer>,
    /// The slots of all sharing providers.
    pub(super) sharing: Set,
    /// Whether it is already proven that there is no candidate.
    pub(super) hopeless: bool,
    /// The released holds; `None`: none.
    pub(super) released: Option<Released>,
}

impl Query {
    /// Resolves the names of a request in the reference's order: an unknown name is an error, unless a name before
    /// it makes the result empty.
    pub(super) fn new(
        world: &World,
        request: &Request,
        is_void: IsVoid<'_>,
    ) -> Result<Self, Unknown> {
        let mut query = Self {
            isolate: request.policy == Policy::Isolate,
            nested: request.nested,
            bound: request.limit.into_iter().chain(request.max_candidates).min(),
            most: request.max_candidates,
            limited: request
                .limit
                .is_some_and(|limit| request.max_candidates.is_none_or(|most| limit < most)),
            strategy: request.strategy,
            seed: match request.order {
                Order::Random(seed) => Some(seed),
                Order::Stored | Order::Ranked(_) => None,
            },
            sharing: world.sharing(),
            hopeless: request.groups.is_empty(),
            ..Self::default()
        };
        query.anchor_traits(world, request)?;
        for group in &request.groups {
            if let Err(unknown) = query.add(world, group) {
                if query.finds_nothing(world, is_void) {
                    query.hopeless = true;
                    return Ok(query);
                }
                return Err(unknown);
            }
        }
        let suffixes = request.groups.iter().map(|group| &group.suffix).zip(0..);
        let positions: HashMap<&String, usize> = suffixes.collect();
        let position = |suffix: &String| positions.get(suffix).copied();
        let subtrees = request.same_subtree.iter();
        query.subtrees = subtrees.map(|set| set.iter().filter_map(position).collect()).collect();
        query.mark_contended();
        if let Order::Ranked(ranking) = &request.order {
            let amounts = query.parts.iter().flat_map(|part| &part.amounts);
            let classes: BTreeSet<ClassId> = amounts.map(|amount| amount.class).collect();
            let classes: Vec<ClassId> = classes.into_iter().collect();
            query.scorer = Some(Scorer::new(world, ranking, &classes));
        }
        Ok(query)
    }

    fn anchor_traits(&mut self, world: &World, request: &Request) -> Result<(), Unknown> {
        let names = request.root_required.iter().chain(&request.root_forbidden);
        check_traits(world, names).map_err(Unknown::RootTraits)?;
        let carriers = |name: &String| world.trait_id(name).map(|id| world.carriers(id));
        let required = request.root_required.iter().filter_map(carriers);
        self.anchor.all = required.map(|carriers| vec![carriers]).collect();
        self.anchor.none = request.root_forbidden.iter().filter_map(carriers).collect();
        Ok(())
    }

    /// Adds a group. On an error, the query has the groups before it, and `hopeless` says whether this group is
    /// known to find nothing even without the unknown name.
    fn add(&mut self, world: &World, group: &Group) -> Result<(), Unknown> {
        let mut amounts = Vec::new();
        for (name, amount) in &group.resources {
            let class = world.class_id(name).ok_or_else(|| Unknown::Class(name.clone()))?;
            amounts.push(Amount::new(world, class, *amount));
        }
        let member_of = SetFilter {
            all: group.member_of.iter().map(|any| members(world, any)).collect(),
            none: Vec::new(),
        };
        let names = group.required.iter().flatten().chain(&group.forbidden);
        check_traits(world, names).map_err(|unknown| {
            self.hopeless |= !member_of.admits_a_provider();
            Unknown::Traits(unknown)
        })?;
        let tree = group.in_tree.map(|uuid| world.provider(uuid));
        self.hopeless |= matches!(tree, Some(None));
        let tree = tree.flatten().map(|provider| tree_of(world, provider));
        let suffixed = !group.suffix.is_empty();
        let without = amounts.is_empty();
        // A group without resources matches only by a positive condition.
        let positive = !group.required.is_empty() || !group.member_of.is_empty();
        self.hopeless |= without && !(suffixed && positive);
        let part = Part {
            group: self.groups.len(),
            spread: !suffixed,
            tree: if without { None } else { tree },
            ..Part::default()
        };
        let first = self.parts.len();
        if suffixed {
            self.parts.push(suffixed_part(world, group, Part { amounts, ..part }, member_of));
        } else {
            self.together = group.required.iter().map(|any| carriers(world, any)).collect();
            for amount in amounts {
                let part = Part { amounts: vec![amount], ..part.clone() };
                self.parts.push(spread_part(world, group, part, member_of.clone()));
            }
        }
        let parts = first..self.parts.len();
        self.groups.push(ResolvedGroup { suffix: group.suffix.clone(), parts });
        Ok(())
    }

    fn mark_contended(&mut self) {
        let mut totals: BTreeMap<ClassId, (usize, Amount)> = BTreeMap::new();
        for amount in self.parts.iter().flat_map(|part| &part.amounts) {
            let none = Amount { units: 0, ..amount.clone() };
            let (parts, total) = totals.entry(amount.class).or_insert((0, none));
            *parts += 1;
            total.units = total.units.saturating_add(amount.units);
        }
        totals.retain(|_, (parts, _)| *parts > 1);
        let positions: HashMap<ClassId, usize> = totals.keys().copied().zip(0..).collect();
        for amount in self.parts.iter_mut().flat_map(|part| &mut part.amounts) {
            amount.contended = positions.get(&amount.class).copied();
        }
        self.contended = totals.into_values().map(|(_, total)| total).collect();
    }

    /// The amount of each class that the whole request takes.
    pub(super) fn totals(&self) -> BTreeMap<ClassId, i64> {
        let mut totals = BTreeMap::new();
        for amount in self.parts.iter().flat_map(|part| &part.amounts) {
            let sum: &mut i64 = totals.entry(amount.class).or_insert(0);
            *sum = sum.saturating_add(amount.units);
        }
        totals
    }

    /// Returns whether a provider has enough capacity for all parts together.
    pub(super) fn fits_alone(&self, slot: u32) -> bool {
        let sums = |it: &Amount| it.column.get(slot).is_some_and(|row| it.units <= row.available());
        self.parts.iter().all(|part| part.fits(slot)) && self.contended.iter().all(sums)
    }

    /// Returns whether there are several suffixed groups that must use different providers.
    pub(super) fn keeps_apart(&self) -> bool {
        self.isolate && self.parts.iter().filter(|part| !part.spread).count() > 1
    }

    /// Returns whether the choice for one part restricts that for others.
    pub(super) fn is_coupled(&self) -> bool {
        let capacity = !self.contended.is_empty() || self.keeps_apart();
        capacity || !self.subtrees.is_empty() || !self.nested || self.together.len() > 1
    }

    /// Returns whether one of the groups added so far makes the result empty.
    fn finds_nothing(&self, world: &World, is_void: IsVoid<'_>) -> bool {
        let filtered = !self.anchor.all.is_empty() || !self.anchor.none.is_empty();
        self.hopeless
            || filtered && !self.anchor.admits_any(world.roots())
            || (0..self.groups.len()).any(|group| is_void(world, &self.alone(group)))
    }

    /// The query for one group alone.
    fn alone(&self, group: usize) -> Self {
        let spread = |part: &Part| part.spread;
        let mut parts: Vec<Part> =
            self.parts.iter().filter(|part| part.group == group).cloned().collect();
        for part in &mut parts {
            part.group = 0;
        }
        let together = parts.iter().any(spread).then(|| self.together.clone());
        Self {
            groups: vec![ResolvedGroup { suffix: String::new(), parts: 0..parts.len() }],
            parts,
            anchor: self.anchor.clone(),
            together: together.unwrap_or_default(),
            nested: true,
            sharing: self.sharing.clone(),
            ..Self::default()
        }
    }
}

fn suffixed_part(world: &World, group: &Group, part: Part, member_of: SetFilter) -> Part {
    let required = group.required.iter().map(|any| carriers(world, any));
    let mut none = carriers(world, &group.forbidden);
    none.extend(members(world, &group.not_member_of));
    let all = required.chain(member_of.all).collect();
    Part { filter: SetFilter { all, none }, ..part }
}

fn spread_part(world: &World, group: &Group, part: Part, member_of: SetFilter) -> Part {
    let mut none = carriers(world, &group.forbidden);
    let outside = members(world, &group.not_member_of);
    none.extend(outside.iter().cloned());
    Part {
        filter: SetFilter { all: Vec::new(), none },
        spanning: member_of,
        anchor: SetFilter { all: Vec::new(), none: outside },
        ..part
    }
}

/// Checks that traits exist.
///
/// # Errors
/// The unknown names, ascending, each once.
pub(super) fn check_traits<'a>(
    world: &World,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), Vec<String>> {
    let unknown = names.filter(|name| world.trait_id(name).is_none());
    let unknown: BTreeSet<&String> = unknown.collect();
    if unknown.is_empty() { Ok(()) } else { Err(unknown.into_iter().cloned().collect()) }
}

/// The first slot and the end of a provider's tree.
pub(super) fn tree_of(world: &World, provider: Provider<'_>) -> (u32, u32) {
    let root = provider.root().slot();
    (root, root + world.place(root).len)
}
