//! Proposals against all possibilities, on small random clouds of single providers.

use std::fmt::Write;

use proptest::prelude::*;

use super::{ANYWHERE, found, with_consumers};
use crate::search::cloud::{Cloud, request};
use crate::search::properties::cases;
use berth::search::moves::Departure;

/// Amounts of `VCPU` and `DISK_GB`.
type Amounts = (i64, i64);

/// A host: what it has, and what each of its consumers holds.
type Host = (Amounts, Vec<Amounts>);

fn add(one: Amounts, other: Amounts) -> Amounts {
    (one.0 + other.0, one.1 + other.1)
}

fn less(one: Amounts, other: Amounts) -> Amounts {
    (one.0 - other.0, one.1 - other.1)
}

fn covers(one: Amounts, other: Amounts) -> bool {
    one.0 >= other.0 && one.1 >= other.1
}

/// Returns the free amounts of a host.
fn free((all, consumers): &Host) -> Amounts {
    consumers.iter().fold(*all, |free, it| less(free, *it))
}

/// Whether all of these fit into what is free on some hosts.
fn fit(moving: &[Amounts], rooms: &mut [Amounts]) -> bool {
    let Some((first, rest)) = moving.split_first() else { return true };
    (0..rooms.len()).any(|nth| {
        if !covers(rooms[nth], *first) {
            return false;
        }
        rooms[nth] = less(rooms[nth], *first);
        let fits = fit(rest, rooms);
        rooms[nth] = add(rooms[nth], *first);
        fits
    })
}

/// The fewest consumers of one host that have to leave.
fn fewest(hosts: &[Host], request: Amounts, moves: bool) -> Option<usize> {
    let of_host = |nth: usize| {
        let (all, consumers) = &hosts[nth];
        let mut others: Vec<Amounts> = hosts
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != nth)
            .map(|it| free(it.1))
            .collect();
        let sets = (1_usize..1 << consumers.len()).filter_map(|set| {
            let is_in = |(nth, it): (usize, &Amounts)| (set >> nth & 1 == 1).then_some(*it);
            let leaving: Vec<Amounts> = consumers.iter().enumerate().filter_map(is_in).collect();
            let room = leaving.iter().fold(free(&hosts[nth]), |room, it| add(room, *it));
            let makes_room = covers(*all, request) && covers(room, request);
            (makes_room && (!moves || fit(&leaving, &mut others))).then_some(leaving.len())
        });
        sets.min()
    };
    (0..hosts.len()).filter_map(of_host).min()
}

/// The cloud and its consumers as text.
fn written(hosts: &[Host]) -> (String, String) {
    let (mut cloud, mut consumers) = (String::new(), String::new());
    for (nth, ((cores, disk), held)) in hosts.iter().enumerate() {
        writeln!(cloud, "cn{nth}; VCPU:{cores} DISK_GB:{disk}").unwrap();
        for (cores, disk) in held {
            writeln!(consumers, "cn{nth}:VCPU:{cores} cn{nth}:DISK_GB:{disk}").unwrap();
        }
    }
    (cloud, consumers)
}

fn host() -> impl Strategy<Value = Host> {
    let consumers = prop::collection::vec((1_i64..5, 1_i64..5), 0..6);
    ((5_i64..13, 5_i64..13), consumers).prop_map(|(all, consumers)| {
        let mut host = (all, Vec::new());
        for it in consumers {
            if covers(free(&host), it) {
                host.1.push(it);
            }
        }
        host
    })
}

/// Returns the proposal: the number of steps, and whether it is proven that there are no fewer, or none at all.
fn proposed(hosts: &[Host], requested: Amounts, moves: bool) -> (Option<usize>, bool) {
    let (cloud, consumers) = written(hosts);
    let (cloud, consumers) = with_consumers(Cloud::new(&cloud), &consumers);
    let victims = Departure::Victims(vec![Some(0); consumers.len()]);
    let leaving = if moves { &ANYWHERE } else { &victims };
    let requested = request(&format!("resources=VCPU:{},DISK_GB:{}", requested.0, requested.1));
    let found = found(&cloud.world(), &consumers, &requested, leaving).1;
    match found.plan {
        Some(plan) => (Some(plan.steps.len()), plan.is_proven),
        None => (None, found.is_proven),
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn the_fewest_steps_are_proposed(
        hosts in prop::collection::vec(host(), 2..6),
        request in (4_i64..13, 4_i64..13),
        moves in any::<bool>(),
    ) {
        prop_assume!(!hosts.iter().any(|host| covers(free(host), request)));
        prop_assert_eq!(proposed(&hosts, request, moves), (fewest(&hosts, request, moves), true));
    }
}

/// A case that a random cloud has found.
#[test]
fn the_lack_of_moves_for_two_is_proven() {
    let hosts: [Host; 2] = [((7, 5), vec![(1, 1), (4, 1)]), ((9, 6), vec![(1, 4), (1, 1)])];
    assert_eq!(proposed(&hosts, (4, 5), true), (None, true));
}

/// The first place of the first consumer leaves none for the second.
#[test]
fn consumers_are_placed_together() {
    let hosts: [Host; 3] =
        [((9, 9), vec![(2, 2), (4, 4)]), ((8, 8), vec![(3, 3)]), ((8, 8), vec![(4, 4), (2, 2)])];
    assert_eq!(fewest(&hosts, (9, 9), true), Some(2));
    assert_eq!(proposed(&hosts, (9, 9), true), (Some(2), true));
}
