use uuid::Uuid;

use super::{
    Claim, Consumer, ConsumerState, InventoryUsage, LockedProvider, LockedState, Owner, Request,
    Reshaping, judge, reshape,
};
use crate::model::effort::{grows_evenly, steps_of};
use crate::model::{ClassId, Expected, Inventory, ProviderId};

const OWNER: Owner = Owner { project: 1, user: 1, consumer_type: None };

fn uuid(nth: usize) -> Uuid {
    Uuid::from_u128(nth as u128)
}

fn class(nth: usize) -> (String, ClassId) {
    (format!("CUSTOM_{nth}"), ClassId(i32::try_from(nth).unwrap()))
}

fn terms(total: i32) -> Inventory {
    Inventory {
        total,
        reserved: 0,
        min_unit: 1,
        max_unit: i32::MAX,
        step_size: 1,
        allocation_ratio: 1.0,
    }
}

/// Makes a state of providers with inventories of several classes each.
fn state(providers: usize, classes: usize) -> LockedState {
    let mut state =
        LockedState { classes: (0..classes).map(class).collect(), ..LockedState::default() };
    for nth in 0..providers {
        let id = ProviderId(i64::try_from(nth).unwrap());
        state.providers.insert(uuid(nth), LockedProvider { id, generation: 0 });
        for nth in 0..classes {
            let inventory = InventoryUsage { terms: terms(100), used_before: 0, used: 0 };
            state.inventories.insert((id, class(nth).1), inventory);
        }
    }
    state
}

/// Gives the consumer one unit of each of these.
fn hold(state: &mut LockedState, consumer: Uuid, places: &[(usize, usize)]) {
    let mut holds = std::collections::BTreeMap::new();
    for (provider, nth) in places {
        let place = (ProviderId(i64::try_from(*provider).unwrap()), class(*nth).1);
        let inventory = state.inventories.get_mut(&place).unwrap();
        (inventory.used_before, inventory.used) = (inventory.used_before + 1, inventory.used + 1);
        holds.insert(place, 1);
    }
    let held = Consumer { owner: OWNER, generation: 1, holds };
    state.consumers.insert(consumer, ConsumerState { before: Some(held.clone()), now: Some(held) });
}

fn claim(nth: usize, wants: impl Iterator<Item = (usize, usize)>) -> Claim {
    let wants = wants.map(|(provider, nth)| (uuid(provider), class(nth).0, 1)).collect();
    Claim { consumer: uuid(1_000_000 + nth), expected: Expected::Any, owner: OWNER, wants }
}

fn reshaping(provider: usize, classes: impl Iterator<Item = usize>) -> Reshaping {
    let inventories = classes.map(|nth| (class(nth).0, terms(100))).collect();
    Reshaping { provider: uuid(provider), expected_generation: 0, inventories }
}

/// Each provider's inventory of a class moves to the next provider, with the consumer that uses it.
#[test]
fn judging_a_reshaping_takes_no_longer_than_its_body() {
    type Case = (LockedState, Vec<Reshaping>, Vec<Claim>);
    let run = |(state, reshapings, claims): &Case| {
        let mut state = state.clone();
        reshape(&mut state, reshapings, claims).unwrap();
        assert_eq!(state.balance(), Ok(()));
    };
    let of_providers = |parts: usize| {
        let mut state = state(2 * parts, 1);
        let mut claims = Vec::new();
        for nth in 0..parts {
            let claim = claim(nth, [(2 * nth + 1, 0)].into_iter());
            hold(&mut state, claim.consumer, &[(2 * nth, 0)]);
            claims.push(claim);
        }
        let reshapings = (0..2 * parts).map(|nth| reshaping(nth, 0..nth % 2));
        (state, reshapings.collect(), claims)
    };
    grows_evenly("providers", 4000, of_providers, run);
    let of_classes = |parts: usize| {
        let mut state = state(2, parts);
        let claim = claim(0, (0..parts).map(|nth| (1, nth)));
        let held: Vec<_> = (0..parts).map(|nth| (0, nth)).collect();
        hold(&mut state, claim.consumer, &held);
        (state, vec![reshaping(0, 0..0), reshaping(1, 0..parts)], vec![claim])
    };
    grows_evenly("classes", 16_000, of_classes, run);
    // A consumer on each of many providers that have none of the classes the others claim.
    let of_strangers = |parts: usize| {
        let mut state = state(parts, 1);
        state.classes.extend((1..=parts).map(class));
        let id = |nth: usize| ProviderId(i64::try_from(nth).unwrap());
        let inventory = InventoryUsage { terms: terms(100), used_before: 0, used: 0 };
        state.inventories =
            (0..parts).map(|nth| ((id(nth), class(parts - nth).1), inventory)).collect();
        let claims = (0..parts).map(|nth| claim(nth, [(nth, parts - nth)].into_iter()));
        let claims = claims.collect();
        (state, Vec::new(), claims)
    };
    grows_evenly("strangers", 8000, of_strangers, run);
}

#[test]
fn judging_a_claim_of_a_batch_takes_no_longer_for_the_others() {
    let batch = |count: usize| {
        let mut state = state(count, 1);
        let requests: Vec<Request> = (0..count)
            .map(|nth| Request::Replace(vec![claim(nth, [(nth, 0)].into_iter())]))
            .collect();
        steps_of(|| requests.iter().for_each(|request| judge(&mut state, request).unwrap()))
    };
    let (few, many) = (batch(64), batch(512));
    assert!(many <= 8 * few, "{few} steps for 64, {many} for 512");
}

#[test]
fn giving_up_takes_no_longer_than_what_is_given_up() {
    let of_consumers = |parts: usize| {
        let mut state = state(parts, 1);
        let mut claims = Vec::new();
        for nth in 0..parts {
            let claim = claim(nth, [].into_iter());
            hold(&mut state, claim.consumer, &[(nth, 0)]);
            claims.push(claim);
        }
        (state, Request::Replace(claims))
    };
    grows_evenly("consumers", 7000, of_consumers, |(state, request)| {
        let mut state = state.clone();
        judge(&mut state, request).unwrap();
        assert!(state.providers.values().all(|provider| provider.generation == 1));
    });
}
