//! The capacity of hosts by class, and the free amount of each pool.

use std::collections::BTreeSet;
use std::ops::Range;

use super::candidates::Pools;
use super::failure::{Failure, in_time};
use super::topology::HostEntry;
use crate::model::provider::InventoryRow;
use crate::model::{ClassId, ProviderId};
use crate::solver::{Budget, Pool, map_items};
use crate::world::{Provider, World};

/// Number of hosts, and of pools, that one thread processes at once.
const HOSTS_AT_ONCE: usize = 1024;
const POOLS_AT_ONCE: usize = 8192;

/// Numbers of the classes of a problem, in ascending order of their ids. There are few, so a linear search is
/// faster than a map.
pub(super) struct ClassNumbers(Vec<ClassId>);

impl ClassNumbers {
    pub(super) fn of(pools: &[(ProviderId, ClassId)]) -> Self {
        let classes: BTreeSet<ClassId> = pools.iter().map(|(_, class)| *class).collect();
        Self(classes.into_iter().collect())
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn number(&self, class: ClassId) -> Option<usize> {
        self.0.iter().position(|other| *other == class)
    }
}

/// The capacity of a host, over its whole tree. Amounts are by the number of their class.
pub(super) struct HostRoom {
    pub(super) free: Vec<u64>,
    pub(super) capacity: Vec<u64>,
    /// Whether it has allocations of any class.
    pub(super) is_in_use: bool,
}

impl HostRoom {
    fn of(root: &Provider<'_>, classes: &ClassNumbers, budget: &mut Budget<'_>) -> Self {
        let none = vec![0_u64; classes.count()];
        let mut all = Self { free: none.clone(), capacity: none, is_in_use: false };
        for row in root.tree().flat_map(|it| it.inventories()) {
            budget.is_spent_after(4);
            all.is_in_use |= row.used > 0;
            let Some(class) = classes.number(row.class) else { continue };
            if let Some(sum) = all.free.get_mut(class) {
                *sum = sum.saturating_add(free(&row));
            }
            if let Some(sum) = all.capacity.get_mut(class) {
                *sum = sum.saturating_add(row.terms.capacity().try_into().unwrap_or(0));
            }
        }
        budget.is_spent_with(8 + 2 * all.free.len());
        all
    }
}

/// The capacity of each host.
///
/// # Errors
/// The budget is spent, or a host is not in the world.
pub(super) fn rooms(
    world: &World,
    hosts: &[HostEntry],
    classes: &ClassNumbers,
    budget: &mut Budget<'_>,
) -> Result<Vec<HostRoom>, Failure> {
    let some: Vec<&[HostEntry]> = hosts.chunks(HOSTS_AT_ONCE).collect();
    let found = map_items(&some, hosts.len(), budget, |some, budget| {
        let mut rooms = Vec::with_capacity(some.len());
        for host in *some {
            if budget.is_spent() {
                break;
            }
            let missing = || Failure::bug(format!("host {} is not in its world", host.name));
            let root = host.root(world).ok_or_else(missing)?;
            rooms.push(HostRoom::of(&root, classes, budget));
        }
        Ok::<_, Failure>(rooms)
    });
    all_of(found, budget)
}

/// The pools of a problem, with their free amounts.
///
/// # Errors
/// The budget is spent, or a pool is of a class without a number.
pub(super) fn free_pools(
    world: &World,
    pools: &Pools,
    classes: &ClassNumbers,
    budget: &mut Budget<'_>,
) -> Result<Vec<Pool>, Failure> {
    let pool = |(class, row): (ClassId, Option<InventoryRow>)| {
        let missing = || Failure::bug(format!("class {} has no number", class.0));
        let number = classes.number(class).ok_or_else(missing)?;
        Ok(Pool { class: number, free: row.map_or(0, |row| free(&row)) })
    };
    let count = pools.list.len();
    let some: Vec<Range<usize>> = (0..count)
        .step_by(POOLS_AT_ONCE)
        .map(|from| from..count.min(from + POOLS_AT_ONCE))
        .collect();
    let found = map_items(&some, count, budget, |some, budget| {
        budget.is_spent_after(4 * some.len());
        pools.inventories(world, some.clone()).map(pool).collect::<Result<Vec<Pool>, Failure>>()
    });
    all_of(found, budget)
}

/// Joins the results of all threads.
///
/// # Errors
/// The budget is spent, or something could not be found.
fn all_of<T>(
    found: Vec<Option<Result<Vec<T>, Failure>>>,
    budget: &mut Budget<'_>,
) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    for some in found {
        all.extend(some.ok_or_else(|| Failure::of_end(budget))??);
    }
    in_time(budget)?;
    Ok(all)
}

/// The free amount of an inventory; 0 if it is overused.
fn free(row: &InventoryRow) -> u64 {
    u64::try_from(row.terms.capacity() - row.used).unwrap_or(0)
}
