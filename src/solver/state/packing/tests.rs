//! Packs hosts with many equal providers: the work must not grow with their combinations.

use std::sync::Arc;

use super::{Item, pack};
use crate::solver::budget::Budget;
use crate::solver::model::{PoolTable, ServerChoices};
use crate::solver::{Choice, Conditions, Draws, Pool, Supply, Way};

/// A part that any of some pools can supply.
fn part(pools: std::ops::Range<u32>, amount: u64) -> Vec<Way> {
    let way = |pool: u32| Way {
        draws: Draws::from([(pool as usize, amount)]),
        provider: pool,
        last: pool,
        ..Way::default()
    };
    pools.map(way).collect()
}

fn supply(parts: Vec<Vec<Way>>, conditions: Conditions) -> Supply {
    let (parts, conditions) = (parts.into_iter().collect(), Arc::new(conditions));
    Supply::Choice(Box::new(Choice { parts, conditions, limits: Vec::new() }))
}

/// Returns whether numbers of servers of these sizes fit into pools with these free amounts; the search may check
/// the time 200 times, about ten milliseconds.
fn fits(sizes: &[(Supply, usize)], free: &[u64]) -> bool {
    let pools: Vec<Pool> = free.iter().map(|free| Pool { class: 0, free: *free }).collect();
    let mut choices = ServerChoices::new();
    for (supply, _) in sizes {
        choices.add(supply, PoolTable { pools: &pools, shared: &[] }).unwrap();
    }
    let servers = (0..sizes.len()).map(|size| choices.get(size).unwrap());
    let items: Vec<Item<'_>> = sizes
        .iter()
        .zip(servers)
        .enumerate()
        .flat_map(|(size, ((_, count), server))| vec![Item::new(size, server, None); *count])
        .collect();
    let mut looks = 0;
    let mut is_up = || {
        looks += 1;
        looks > 200
    };
    let mut budget = Budget::new(&mut is_up);
    let mut left = free.to_vec();
    let found = pack(&items, &pools, &mut left, &mut budget);
    assert!(!budget.is_spent(), "it takes too long");
    assert_eq!(left, free, "nothing is taken");
    if let Some(found) = &found {
        for (item, ways) in items.iter().zip(found) {
            item.take(&mut left, ways);
        }
    }
    found.is_some()
}

#[test]
fn single_devices_are_matched() {
    let one = || supply(vec![part(0..24, 1)], Conditions::default());
    assert!(fits(&[(one(), 24)], &[1; 24]) && !fits(&[(one(), 25)], &[1; 24]));
    // Half of the servers can use only a third of the devices.
    let picky = || supply(vec![part(0..8, 1)], Conditions::default());
    assert!(fits(&[(one(), 16), (picky(), 8)], &[1; 24]));
    assert!(!fits(&[(one(), 15), (picky(), 9)], &[1; 24]));
}

#[test]
fn parts_that_share_no_pool_are_packed_by_themselves() {
    let both = || supply(vec![part(0..2, 8), part(2..18, 1)], Conditions::default());
    let free = [vec![8; 2], vec![1; 16]].concat();
    assert!(fits(&[(both(), 2)], &free) && !fits(&[(both(), 3)], &free));
    let devices = || supply(vec![part(2..18, 1)], Conditions::default());
    assert!(fits(&[(both(), 2), (devices(), 14)], &free));
    assert!(!fits(&[(both(), 2), (devices(), 15)], &free));
}

#[test]
fn equal_nodes_are_one() {
    let node = |amount| supply(vec![part(0..16, amount)], Conditions::default());
    // Two of 3 on each of 16 nodes of 7 leave one each, which no server of 2 can use.
    assert!(!fits(&[(node(3), 32), (node(2), 1)], &[7; 16]));
    assert!(fits(&[(node(3), 32), (node(1), 16)], &[7; 16]));
    assert!(!fits(&[(node(4), 16), (node(3), 17)], &[7; 16]));
}

#[test]
fn isolated_parts_are_packed_together() {
    let isolated = || Conditions { isolated: vec![0, 1, 2], ..Conditions::default() };
    let three = || supply((0..3).map(|_| part(0..12, 1)).collect(), isolated());
    // Four servers use each of twelve devices once; five would need fifteen units.
    assert!(fits(&[(three(), 4)], &[1; 12]) && !fits(&[(three(), 5)], &[1; 12]));
    assert!(!fits(&[(three(), 1)], &[[9; 2].as_slice(), &[0; 10]].concat()));
}
