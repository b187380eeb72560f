//! Computes how each host supplies servers of one size: the providers that allocation candidates would draw on,
//! part by part.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use super::demands::ProviderDemands;
use super::failure::{Failure, in_time};
use super::flavor::Size;
use super::stack::Stack;
use crate::model::provider::InventoryRow;
use crate::model::{ClassId, ProviderId, traits};
use crate::search::funnel::{self, Failed, HostChecks};
use crate::search::trees::{Tree, TreeOption, Trees, trees};
use crate::search::{Group as RequestGroup, Next, Policy, Request, Unknown};
use crate::solver::{Budget, Choice, Conditions, Draws, Parts, Source, Supply, Way};
use crate::world::{Provider, World};

/// Maximum number of different sizes of the servers of a plan: all hosts are searched for each size.
const SIZES_MAX: usize = 500;

/// The cost of starting a search, in units of the budget.
const BEGIN_WORK: usize = 1000;

/// The supply of servers of one size by hosts, which are given by the slots of their roots in the world.
pub(super) type Supplies = Vec<(u32, Supply)>;

/// The pools of a problem: inventories, numbered in the order in which they are first drawn on.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pub(super) list: Vec<(ProviderId, ClassId)>,
    /// For each pool, its provider's slot in the world, and the previous pool of this provider.
    slots: Vec<(u32, PoolNumber)>,
    /// For each slot, its last pool.
    last: Vec<PoolNumber>,
}

/// The number of a pool, counted from one. More pools do not fit into memory.
type PoolNumber = Option<NonZeroU32>;

impl Pools {
    /// Memory in use, in numbers of eight bytes.
    pub(super) fn size(&self) -> usize {
        self.last.len() / 2 + 3 * self.list.len()
    }

    /// The number of a pool, which is new if it is drawn on for the first time.
    pub(super) fn number(&mut self, provider: &Provider<'_>, class: ClassId) -> usize {
        self.number_of(provider.slot(), (provider.id(), class))
    }

    fn number_of(&mut self, slot: u32, pool: (ProviderId, ClassId)) -> usize {
        let position = slot as usize;
        if position >= self.last.len() {
            self.last.resize(position + 1, None);
        }
        let mut at = self.last.get(position).copied().flatten();
        while let Some(number) = at {
            let number = number.get() as usize - 1;
            if self.list.get(number).is_some_and(|(_, other)| *other == pool.1) {
                return number;
            }
            at = self.slots.get(number).and_then(|(_, before)| *before);
        }
        self.list.push(pool);
        let number = self.list.len();
        let counted = u32::try_from(number).ok().and_then(NonZeroU32::new);
        let last = self.last.get_mut(position);
        let before = last.and_then(|last| std::mem::replace(last, counted));
        self.slots.push((slot, before));
        number - 1
    }

    /// Adds the pools of one size, which are numbered separately. Returns the new number of each; `None` if all
    /// keep theirs.
    pub(super) fn take_over(&mut self, own: Self) -> Option<Vec<usize>> {
        if self.list.is_empty() {
            *self = own;
            return None;
        }
        let pools = own.slots.into_iter().zip(own.list);
        let numbers: Vec<usize> =
            pools.map(|((slot, _), pool)| self.number_of(slot, pool)).collect();
        let keep_theirs = numbers.iter().enumerate().all(|(own, number)| own == *number);
        (!keep_theirs).then_some(numbers)
    }

    /// The class of each of some pools, with its inventory in the world of the pools.
    pub(super) fn inventories<'w>(
        &self,
        world: &'w World,
        some: Range<usize>,
    ) -> impl Iterator<Item = (ClassId, Option<InventoryRow>)> + use<'_, 'w> {
        let pools = self.list.iter().zip(&self.slots).skip(some.start).take(some.len());
        pools.map(|((_, class), (slot, _))| {
            (*class, world.at(*slot).and_then(|provider| provider.inventory(*class)))
        })
    }
}

/// Renumbers the pools of supplies.
///
/// # Errors
/// A supply draws on a pool without a number.
pub(super) fn renumber(supplies: &mut Supplies, numbers: &[usize]) -> Result<(), Failure> {
    let number = |pool: usize| {
        let missing = || Failure::bug(format!("pool {pool} of a size has no number"));
        numbers.get(pool).copied().ok_or_else(missing)
    };
    for (_, supply) in supplies {
        match supply {
            Supply::One(draws) => draws.renumber(number)?,
            Supply::Choice(choice) => {
                for way in choice.parts.ways_mut() {
                    way.draws.renumber(number)?;
                }
                for (pool, _) in &mut choice.limits {
                    *pool = number(*pool)?;
                }
                choice.limits.sort_unstable();
            }
        }
    }
    Ok(())
}

/// The sizes of the servers that need a host, and of those that are to be distributed evenly, in the order of the
/// servers.
pub(super) fn sizes<'s>(
    stack: &'s Stack,
    homes: &[Option<ProviderId>],
    even: &HashSet<usize>,
) -> Result<Vec<&'s Size>, Failure> {
    let mut known: HashSet<&Size> = HashSet::new();
    let mut sizes = Vec::new();
    for (nth, (server, home)) in stack.servers.iter().zip(homes).enumerate() {
        let stays = server.is_fixed() && home.is_some() && !even.contains(&nth);
        if !stays && known.insert(&server.size) {
            sizes.push(&server.size);
        }
    }
    if sizes.len() > SIZES_MAX {
        let count = sizes.len();
        return Err(Failure::Invalid(format!(
            "the servers of a plan may have at most {SIZES_MAX} different sizes, but have {count}"
        )));
    }
    Ok(sizes)
}

/// The request for candidates for a server of a size.
pub fn request(world: &World, size: &Size) -> Request {
    // Hosts get this trait when a group takes them, which follows from groups and not from flavors.
    let required = size.required.iter().filter(|name| *name != traits::EXCLUSIVE);
    let demands = &size.demands;
    let mut groups = vec![group("", &size.needs, required, &size.forbidden, &demands.providers)];
    groups.extend(demands.groups.iter().map(|(suffix, it)| {
        group(suffix, &it.needs, it.required.iter(), &it.forbidden, &it.providers)
    }));
    let (mut required, mut forbidden) = (Vec::new(), Vec::new());
    if groups.len() > 1 && size.needs.is_empty() {
        // Everything is in numbered groups. Traits outside of groups remain only where an explanation has removed
        // the resources: they are still demands on the host.
        let left = groups.remove(0);
        required = left.required.into_iter().filter(|clause| clause.len() == 1).flatten().collect();
        forbidden = left.forbidden;
    }
    let disabled =
        world.trait_id(traits::COMPUTE_DISABLED).map(|_| traits::COMPUTE_DISABLED.to_owned());
    let roots = demands.root_required.iter().filter(|name| *name != traits::EXCLUSIVE).cloned();
    required.extend(size.root_required.iter().cloned().chain(roots));
    forbidden.extend(disabled.into_iter().chain(demands.root_forbidden.clone()));
    let subtrees = demands.same_subtree.iter().map(|set| set.iter().cloned().collect());
    Request {
        groups,
        policy: if demands.isolate == Some(true) { Policy::Isolate } else { Policy::None },
        same_subtree: subtrees.collect(),
        root_required: each_once(required),
        root_forbidden: each_once(forbidden),
        nested: true,
        ..Request::default()
    }
}

/// Names in ascending order, each once.
fn each_once(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names.dedup();
    names
}

/// A group of a request.
fn group<'s>(
    suffix: &str,
    needs: &BTreeMap<String, i64>,
    required: impl Iterator<Item = &'s String>,
    forbidden: impl IntoIterator<Item = &'s String>,
    providers: &ProviderDemands,
) -> RequestGroup {
    let single = required.map(|name| vec![name.clone()]);
    RequestGroup {
        suffix: suffix.to_owned(),
        resources: needs.iter().map(|(class, amount)| (class.clone(), *amount)).collect(),
        required: single.chain(providers.any_of.iter().cloned()).collect(),
        forbidden: forbidden.into_iter().cloned().collect(),
        member_of: providers.member_of.clone(),
        not_member_of: providers.not_member_of.clone(),
        in_tree: providers.in_tree,
    }
}

/// The supply of servers of a size by each host with enough capacity.
pub(super) fn supplies(
    world: &Arc<World>,
    size: &Size,
    pools: &mut Pools,
    budget: &mut Budget<'_>,
) -> Result<Supplies, Failure> {
    budget.is_spent_after(BEGIN_WORK);
    let request = request(world, size);
    if size.amounts().is_empty() {
        return without_amounts(world, &request, budget);
    }
    let mut trees = trees(Arc::clone(world), &request).map_err(|unknown| {
        Failure::Invalid(match unknown {
            Unknown::Class(class) => format!("No such resource class {class}."),
            Unknown::Traits(traits) | Unknown::RootTraits(traits) => {
                format!("No such trait(s): {}.", traits.join(", "))
            }
        })
    })?;
    let amounts = amounts(&trees)?;
    let conditions = Arc::new(Conditions {
        clauses: trees.clauses(),
        isolated: trees.isolated(),
        subtrees: trees.subtrees(),
        needs_own: false,
    });
    let needing_own = Arc::new(Conditions { needs_own: true, ..Conditions::clone(&conditions) });
    let mut supplies = Supplies::new();
    let mut parts = Parts::default();
    let mut steps = 0;
    loop {
        budget.is_spent_after(usize::try_from(trees.steps() - steps).unwrap_or(usize::MAX));
        in_time(budget)?;
        steps = trees.steps();
        let tree = match trees.next_tree() {
            Next::Found(tree) => tree,
            Next::Paused => continue,
            Next::Exhausted => return Ok(supplies),
        };
        let Some(root) = tree.root() else { continue };
        let supply = if tree.is_solo() {
            let draw = |(class, amount): &(ClassId, u64)| (pools.number(&root, *class), *amount);
            Some(Supply::One(amounts.iter().flatten().map(draw).collect()))
        } else {
            supply(&tree, &amounts, [&conditions, &needing_own], pools, &mut parts)
        };
        if let Some(supply) = supply {
            budget.is_spent_with(4 + supply.size());
            supplies.push((root.slot(), supply));
        }
    }
}

/// The hosts that meet all other conditions of a request without amounts: a server that draws nothing has one way
/// there. Every flavor requests amounts, but explanations examine requests without them.
fn without_amounts(
    world: &World,
    request: &Request,
    budget: &mut Budget<'_>,
) -> Result<Supplies, Failure> {
    let mut checks = HostChecks::new(world, request);
    let mut supplies = Supplies::new();
    for root in funnel::hosts(world) {
        let failing = checks.failing(&root);
        let conditions = checks.conditions();
        let rules_out = |failed: &Failed| {
            conditions.get(failed.condition).is_some_and(|condition| !condition.is_combined())
        };
        if !failing.conditions.iter().any(rules_out) {
            budget.is_spent_with(8);
            supplies.push((root.slot(), Supply::One(Draws::NONE)));
        }
        budget.is_spent_after(checks.take_work());
        in_time(budget)?;
    }
    Ok(supplies)
}

/// The amounts of each part, by class.
fn amounts(trees: &Trees) -> Result<Vec<Vec<(ClassId, u64)>>, Failure> {
    let unsigned = |(class, amount): (ClassId, i64)| {
        let amount = u64::try_from(amount);
        Ok((
            class,
            amount.map_err(|_| Failure::bug("a server needs a negative amount".to_owned()))?,
        ))
    };
    (0..trees.parts()).map(|part| trees.amounts(part).map(unsigned).collect()).collect()
}

/// The supply of the parts with these amounts by a tree. `conditions` are those of the size, without and with the
/// one for a server that draws on the host itself. `parts` is reused memory.
fn supply(
    tree: &Tree<'_>,
    amounts: &[Vec<(ClassId, u64)>],
    [conditions, needing_own]: [&Arc<Conditions>; 2],
    pools: &mut Pools,
    parts: &mut Parts,
) -> Option<Supply> {
    let is_own = |option: TreeOption<'_>| option.is_inside && !option.is_shared;
    let has_own = (0..amounts.len()).any(|part| tree.options(part).any(is_own));
    parts.clear();
    let mut is_somewhere_own = false;
    for (part, amounts) in amounts.iter().enumerate() {
        let way = |option: TreeOption<'_>| {
            let provider = &option.provider;
            let draw = |(class, amount): &(ClassId, u64)| (pools.number(provider, *class), *amount);
            let source = match (option.is_inside, option.is_shared) {
                (true, false) => Source::Own,
                (true, true) => Source::OwnShared,
                (false, _) => Source::Foreign,
            };
            let draws: Draws = amounts.iter().map(draw).collect();
            let (provider, last, meets) = (option.number, option.last, option.meets.into());
            Way { draws, provider, last, meets, source }
        };
        // A server that draws only on shared providers is on a host only if all of them are in its tree.
        let ways = tree.options(part).filter(|option| has_own || option.is_inside).map(way);
        let ways = parts.push(ways);
        if ways.is_empty() {
            return None;
        }
        is_somewhere_own |= ways.iter().all(|way| way.source == Source::Own);
    }
    let conditions = if !has_own || is_somewhere_own { conditions } else { needing_own };
    let limits = if share_class(amounts) { limits(parts, pools, tree) } else { Vec::new() };
    let count = parts.ways().len();
    let is_chosen = count > parts.len();
    let next = if is_chosen { Parts::with_capacity(count) } else { Parts::default() };
    let conditions = Arc::clone(conditions);
    let mut choice = Choice { parts: std::mem::replace(parts, next), conditions, limits };
    if is_chosen {
        choice.parts.shrink_to_fit();
        return Some(Supply::Choice(Box::new(choice)));
    }
    let holds = !choice.is_coupled() || choice.can_hold(&vec![Some(0); choice.parts.len()]);
    let draws = choice.parts.ways().iter().flat_map(|way| &way.draws).copied().collect();
    *parts = choice.parts;
    holds.then_some(Supply::One(draws))
}

/// Returns whether several parts have amounts of the same class. Otherwise no two of them draw on one pool.
fn share_class(amounts: &[Vec<(ClassId, u64)>]) -> bool {
    let classes = |nth: usize| amounts.iter().skip(nth).flatten().map(|(class, _)| *class);
    amounts.iter().enumerate().any(|(nth, part)| {
        part.iter().any(|(class, _)| classes(nth + 1).any(|other| other == *class))
    })
}

/// The pools on which several parts of a server can draw, and together need more than one consumer may have of the
/// inventory, with that limit.
fn limits(parts: &Parts, pools: &Pools, tree: &Tree<'_>) -> Vec<(usize, u64)> {
    let mut drawn: HashMap<usize, (usize, u64)> = HashMap::new();
    for ways in parts.iter() {
        let of_part: HashMap<usize, u64> =
            ways.iter().flat_map(|way| &way.draws).copied().collect();
        for (pool, amount) in of_part {
            let (parts, sum) = drawn.entry(pool).or_insert((0, 0));
            *parts += 1;
            *sum = sum.saturating_add(amount);
        }
    }
    let limit = |(pool, (parts, sum)): (usize, (usize, u64))| {
        let (provider, class) = pools.list.get(pool).filter(|_| parts > 1)?;
        let row = tree.provider(*provider)?.inventory(*class)?;
        let most = u64::try_from(row.terms.max_unit).ok()?;
        (sum > most).then_some((pool, most))
    };
    let mut limits: Vec<(usize, u64)> = drawn.into_iter().filter_map(limit).collect();
    limits.sort_unstable();
    limits
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::{Pools, Supplies, renumber, supplies};
    use crate::model::inventory::Inventory;
    use crate::model::provider::{InventoryRow, ProviderRow};
    use crate::model::{ClassId, ProviderId};
    use crate::planner::flavor::Size;
    use crate::solver::Budget;
    use crate::world::{Catalogue, Name, World};

    /// Hosts with disk, and two NUMA nodes each with processors and memory, the first with less.
    fn world() -> Arc<World> {
        let name = |name: &str| Name { name: name.to_owned(), updated_at: 0 };
        let classes = ["VCPU", "MEMORY_MB", "DISK_GB"].map(name);
        let catalogue =
            Catalogue { classes: (0..).map(ClassId).zip(classes).collect(), traits: [].into() };
        let row = |id: i64, root: i64, amounts: &[(i32, i32)]| ProviderRow {
            id: ProviderId(id),
            uuid: Uuid::from_u128(id.unsigned_abs().into()),
            name: format!("provider {id}"),
            generation: 0,
            parent: (id != root).then_some(ProviderId(root)),
            root: ProviderId(root),
            updated_at: 0,
            inventories: amounts
                .iter()
                .map(|(class, total)| InventoryRow {
                    class: ClassId(*class),
                    terms: Inventory {
                        total: *total,
                        reserved: 0,
                        min_unit: 1,
                        max_unit: *total,
                        step_size: 1,
                        allocation_ratio: 1.0,
                    },
                    used: 0,
                    updated_at: 0,
                })
                .collect(),
            traits: Vec::new(),
            aggregates: Vec::new(),
            spellings: Vec::new(),
        };
        let host = |root: i64| {
            [
                row(root, root, &[(2, 100)]),
                row(root + 1, root, &[(0, 4), (1, 64)]),
                row(root + 2, root, &[(0, 8), (1, 64)]),
            ]
        };
        Arc::new(World::build(catalogue, [1, 11, 21].into_iter().flat_map(host).collect()))
    }

    #[test]
    fn pools_of_each_size_are_numbered_as_if_all_sizes_had_come_one_after_the_other() {
        let world = world();
        let size = |needs: &[(&str, i64)]| Size {
            needs: needs.iter().map(|(class, amount)| ((*class).to_owned(), *amount)).collect(),
            ..Size::default()
        };
        let sizes = [
            size(&[("VCPU", 8), ("MEMORY_MB", 8)]),
            size(&[("VCPU", 2), ("DISK_GB", 10)]),
            size(&[("VCPU", 2), ("MEMORY_MB", 8), ("DISK_GB", 10)]),
        ];
        let mut never = || false;
        let mut budget = Budget::new(&mut never);
        let mut found = |size: &Size, pools: &mut Pools| -> Supplies {
            supplies(&world, size, pools, &mut budget).unwrap()
        };
        let mut pools = Pools::default();
        let together: Vec<Supplies> = sizes.iter().map(|size| found(size, &mut pools)).collect();
        let mut taken = Pools::default();
        let apart = sizes.iter().map(|size| {
            let mut own = Pools::default();
            let mut supplies = found(size, &mut own);
            if let Some(numbers) = taken.take_over(own) {
                renumber(&mut supplies, &numbers).unwrap();
            }
            supplies
        });
        assert_eq!(apart.collect::<Vec<_>>(), together);
        assert_eq!((&taken.list, &taken.slots), (&pools.list, &pools.slots));
        assert_eq!(together.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3]);
        assert_eq!(pools.list.len(), 15);
    }
}
