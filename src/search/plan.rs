//! From names to sets: a request made ready for searching one world.

use std::collections::{BTreeMap, HashMap};

use super::part::{Amount, Part, SetFilter, carriers, members};
use super::request::{Group, Policy, Request, Strategy, Unknown};
use crate::model::ClassId;
use crate::world::World;
use crate::world::set::Set;

/// Whether a plan has no candidate, which takes a search to know.
pub(super) type IsVoid<'v> = &'v dyn Fn(&World, &Plan) -> bool;

/// A request group, as far as a found candidate needs it.
#[derive(Clone, Debug)]
pub(super) struct PlannedGroup {
    pub(super) suffix: String,
    /// Positions of its parts.
    pub(super) parts: std::ops::Range<usize>,
}

/// What to search for.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a request asks for")]
pub(super) struct Plan {
    pub(super) groups: Vec<PlannedGroup>,
    pub(super) parts: Vec<Part>,
    /// Conditions on the anchor for the whole request (`root_required`).
    pub(super) anchor: SetFilter,
    /// Required traits of the unsuffixed group: met by its providers together.
    pub(super) together: Vec<Vec<Set>>,
    /// The classes that several parts ask for, each with the sum of all amounts.
    pub(super) contended: Vec<Amount>,
    /// Whether suffixed groups may not meet on a provider.
    pub(super) isolate: bool,
    /// Groups, by position, whose providers lie below one of themselves.
    pub(super) subtrees: Vec<Vec<usize>>,
    /// Whether one candidate may use several providers of a tree.
    pub(super) nested: bool,
    /// Candidates to give at the most.
    pub(super) bound: Option<usize>,
    /// Candidates to generate at the most, whatever the limit of the request.
    pub(super) most: Option<usize>,
    /// Whether the bound is the limit of the request, and not that of the operator.
    pub(super) limited: bool,
    /// Whether only summaries are worked for: see `Engine::survey`.
    pub(super) surveying: bool,
    pub(super) strategy: Strategy,
    pub(super) seed: Option<u64>,
    /// The slots of all sharing providers.
    pub(super) sharing: Set,
    /// Whether it is clear already that nothing can be found.
    pub(super) hopeless: bool,
}

impl Plan {
    /// Resolves the names of a request, in the reference's order: an unknown name is told unless
    /// something before it makes the answer empty.
    pub(super) fn new(
        world: &World,
        request: &Request,
        is_void: IsVoid<'_>,
    ) -> Result<Self, Unknown> {
        let mut plan = Self {
            isolate: request.policy == Policy::Isolate,
            nested: request.nested,
            bound: request.limit.into_iter().chain(request.max_candidates).min(),
            most: request.max_candidates,
            limited: request
                .limit
                .is_some_and(|limit| request.max_candidates.is_none_or(|most| limit < most)),
            strategy: request.strategy,
            seed: request.random_seed,
            sharing: world.sharing(),
            hopeless: request.groups.is_empty(),
            ..Self::default()
        };
        plan.anchor_traits(world, request)?;
        for group in &request.groups {
            if let Err(unknown) = plan.add(world, group) {
                if plan.finds_nothing(world, is_void) {
                    plan.hopeless = true;
                    return Ok(plan);
                }
                return Err(unknown);
            }
        }
        let suffixes = request.groups.iter().map(|group| &group.suffix).zip(0..);
        let positions: HashMap<&String, usize> = suffixes.collect();
        let position = |suffix: &String| positions.get(suffix).copied();
        let subtrees = request.same_subtree.iter();
        plan.subtrees = subtrees.map(|set| set.iter().filter_map(position).collect()).collect();
        plan.mark_contended();
        Ok(plan)
    }

    fn anchor_traits(&mut self, world: &World, request: &Request) -> Result<(), Unknown> {
        let names = request.root_required.iter().chain(&request.root_forbidden);
        let unknown = unknown_traits(world, names);
        if !unknown.is_empty() {
            return Err(Unknown::RootTraits(unknown));
        }
        let carriers = |name: &String| world.trait_id(name).map(|id| world.carriers(id));
        let required = request.root_required.iter().filter_map(carriers);
        self.anchor.all = required.map(|carriers| vec![carriers]).collect();
        self.anchor.none = request.root_forbidden.iter().filter_map(carriers).collect();
        Ok(())
    }

    /// Adds a group. On an error the groups before it are all there is, and `hopeless` tells
    /// whether this one would have found nothing before the unknown name came up.
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
        let unknown = unknown_traits(world, names);
        if !unknown.is_empty() {
            self.hopeless |= !member_of.admits_somebody();
            return Err(Unknown::Traits(unknown));
        }
        let tree = group.in_tree.map(|uuid| world.provider(uuid));
        self.hopeless |= matches!(tree, Some(None));
        let tree = tree.flatten().map(|provider| {
            let root = provider.root().slot();
            (root, root + world.place(root).len)
        });
        let suffixed = !group.suffix.is_empty();
        let without = amounts.is_empty();
        // Without resources only a positive condition makes a provider match.
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
        self.groups.push(PlannedGroup { suffix: group.suffix.clone(), parts });
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

    /// Whether a provider has room for all parts together.
    pub(super) fn fits_alone(&self, slot: u32) -> bool {
        let sums = |it: &Amount| it.column.get(slot).is_some_and(|row| it.units <= row.available());
        self.parts.iter().all(|part| part.fits(slot)) && self.contended.iter().all(sums)
    }

    /// Whether several suffixed groups are to be kept apart.
    pub(super) fn keeps_apart(&self) -> bool {
        self.isolate && self.parts.iter().filter(|part| !part.spread).count() > 1
    }

    /// Whether the groups added so far, each looked at by itself, already make the answer empty.
    fn finds_nothing(&self, world: &World, is_void: IsVoid<'_>) -> bool {
        let filtered = !self.anchor.all.is_empty() || !self.anchor.none.is_empty();
        self.hopeless
            || filtered && !self.anchor.admits_any(world.roots())
            || (0..self.groups.len()).any(|group| is_void(world, &self.alone(group)))
    }

    /// The plan for one group by itself.
    fn alone(&self, group: usize) -> Self {
        let spread = |part: &Part| part.spread;
        let mut parts: Vec<Part> =
            self.parts.iter().filter(|part| part.group == group).cloned().collect();
        for part in &mut parts {
            part.group = 0;
        }
        let together = parts.iter().any(spread).then(|| self.together.clone());
        Self {
            groups: vec![PlannedGroup { suffix: String::new(), parts: 0..parts.len() }],
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

/// The names among these that no trait has, ascending.
pub(super) fn unknown_traits<'a>(
    world: &World,
    names: impl Iterator<Item = &'a String>,
) -> Vec<String> {
    let mut unknown: Vec<String> =
        names.filter(|name| world.trait_id(name).is_none()).cloned().collect();
    unknown.sort_unstable();
    unknown.dedup();
    unknown
}
