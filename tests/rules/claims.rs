//! The judge of claims against a slow and literal reading of the rules for writing allocations:
//! rows in a list, sums by walking it, capacity as a product of doubles.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::too_many_lines,
    reason = "the oracle is to be literal, and a test that stumbles has failed"
)]

use std::collections::{BTreeMap, BTreeSet};

use berth::model::claim::{
    Claim, Consumer, ConsumerState, Fault, InventoryUsage, LockedProvider, LockedState, Owner,
    Request, Reshaping, faults, judge, reshape, reshape_faults,
};
use berth::model::{ClassId, Expected, Inventory, ProviderId, Refusal};
use proptest::prelude::*;
use uuid::Uuid;

const PROVIDERS: usize = 3;
const CLASSES: [&str; 3] = ["VCPU", "MEMORY_MB", "DISK_GB"];
const CONSUMERS: usize = 3;

fn provider(nth: usize) -> Uuid {
    Uuid::from_u128(0xb000 + nth as u128)
}

fn consumer(nth: usize) -> Uuid {
    Uuid::from_u128(0xc000 + nth as u128)
}

fn class(nth: usize) -> ClassId {
    ClassId(i32::try_from(nth).unwrap())
}

fn id(nth: usize) -> ProviderId {
    ProviderId(i64::try_from(nth).unwrap() + 1)
}

/// An allocation as a row of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    consumer: Uuid,
    provider: Uuid,
    class: String,
    used: i64,
}

/// The whole state, as tables.
#[derive(Clone, Debug, Default, PartialEq)]
struct Tables {
    inventories: BTreeMap<(Uuid, String), Inventory>,
    allocations: Vec<Row>,
    provider_generations: BTreeMap<Uuid, i64>,
    consumer_generations: BTreeMap<Uuid, i64>,
}

impl Tables {
    fn used(&self, provider: Uuid, class: &str) -> i64 {
        let rows = self.allocations.iter();
        rows.filter(|row| row.provider == provider && row.class == class).map(|row| row.used).sum()
    }

    /// Each number of a fault, counted by hand.
    fn assert_fault(&self, fault: &Fault, claims: &[Claim]) {
        let wanted = |provider: &Uuid, class: &str| -> i64 {
            let wants = claims.iter().flat_map(|claim| &claim.wants);
            wants.filter(|it| it.0 == *provider && it.1 == class).map(|it| it.2).sum()
        };
        match fault {
            Fault::ConsumerGeneration { consumer, expected, actual } => {
                assert_eq!(self.consumer_generations.get(consumer), actual.as_ref());
                assert!(!expected.met_by(*actual));
            }
            Fault::UnknownProvider(provider) => {
                assert!(!self.provider_generations.contains_key(provider));
            }
            Fault::UnknownClass(class) => assert!(!CLASSES.contains(&class.as_str())),
            Fault::NoInventory { provider, class } => {
                assert!(!self.inventories.contains_key(&(*provider, class.clone())));
            }
            Fault::Amount { provider, class, amount, terms } => {
                assert_eq!(self.inventories[&(*provider, class.clone())], *terms);
                let is_multiple = amount % i64::from(terms.step_size) == 0;
                let (least, most) = (i64::from(terms.min_unit), i64::from(terms.max_unit));
                assert!(!(is_multiple && (least..=most).contains(amount)));
            }
            Fault::Capacity { provider, class, wanted: all, given_back, used, terms } => {
                let consumers: BTreeSet<Uuid> = claims.iter().map(|it| it.consumer).collect();
                let own = self
                    .allocations
                    .iter()
                    .filter(|row| consumers.contains(&row.consumer) && row.provider == *provider);
                let own: i64 = own.filter(|row| row.class == *class).map(|row| row.used).sum();
                assert_eq!((*all, *given_back), (wanted(provider, class), own));
                assert_eq!(*used, self.used(*provider, class));
                assert!(used - own + all > terms.capacity().max(*used));
            }
            Fault::ProviderGeneration { .. }
            | Fault::Exclusive { .. }
            | Fault::InventoryInUse { .. }
            | Fault::InventoryExists { .. }
            | Fault::ProviderInUse { .. }
            | Fault::ProviderHasChildren { .. }
            | Fault::UnknownTraits(_)
            | Fault::TraitInUse { .. }
            | Fault::ClassInUse { .. } => panic!("{fault:?} is not of claims"),
        }
    }

    /// `PUT` and `POST /allocations`, step by step as they are specified.
    fn replace(&mut self, claims: &[Claim]) -> Result<(), Refusal> {
        let before = self.clone();
        for claim in claims {
            let actual = self.consumer_generations.get(&claim.consumer).copied();
            let fine = match claim.expected {
                Expected::Any => true,
                Expected::Is(given) => actual == Some(given),
                Expected::NoConsumer => actual.is_none(),
            };
            if !fine {
                let given = match claim.expected {
                    Expected::Is(given) => Some(given),
                    Expected::Any | Expected::NoConsumer => None,
                };
                return Err(Refusal::ConsumerGeneration { actual, given });
            }
        }
        for (provider, ..) in claims.iter().flat_map(|claim| &claim.wants) {
            if !self.provider_generations.contains_key(provider) {
                return Err(Refusal::AllocationProviderNotFound(*provider));
            }
        }
        for (_, class, _) in claims.iter().flat_map(|claim| &claim.wants) {
            if !CLASSES.contains(&class.as_str()) {
                return Err(Refusal::ClassNotFound(class.clone()));
            }
        }
        let settled = self.settle(claims, &before);
        if settled.is_err() {
            *self = before;
        }
        settled
    }

    fn settle(&mut self, claims: &[Claim], before: &Self) -> Result<(), Refusal> {
        let named: BTreeSet<Uuid> =
            claims.iter().flat_map(|claim| &claim.wants).map(|(provider, ..)| *provider).collect();
        let mut classes: BTreeSet<&str> = claims
            .iter()
            .flat_map(|claim| &claim.wants)
            .map(|(_, class, _)| class.as_str())
            .collect();
        let given_up: Vec<&Row> = before
            .allocations
            .iter()
            .filter(|row| {
                claims.iter().any(|claim| claim.wants.is_empty() && claim.consumer == row.consumer)
            })
            .collect();
        classes.extend(given_up.iter().map(|row| row.class.as_str()));
        self.allocations.retain(|row| !claims.iter().any(|claim| claim.consumer == row.consumer));

        let bare: Vec<Uuid> = named
            .iter()
            .copied()
            .filter(|provider| {
                !classes
                    .iter()
                    .any(|class| self.inventories.contains_key(&(*provider, (*class).to_owned())))
            })
            .collect();
        if !bare.is_empty() {
            let in_order = CLASSES.iter().filter(|class| classes.contains(*class)).copied();
            return Err(Refusal::InvalidInventory {
                provider: bare.iter().map(Uuid::to_string).collect::<Vec<_>>().join(", "),
                class: in_order.collect::<Vec<_>>().join(", "),
            });
        }
        let kept = self.clone();
        let mut request: BTreeMap<(Uuid, &str), i64> = BTreeMap::new();
        for claim in claims {
            for (provider, class, amount) in &claim.wants {
                let place = || (provider.to_string(), class.clone());
                let Some(terms) = self.inventories.get(&(*provider, class.clone())) else {
                    let (provider, class) = place();
                    return Err(Refusal::InvalidInventory { provider, class });
                };
                let (least, most) = (i64::from(terms.min_unit), i64::from(terms.max_unit));
                if *amount < least || *amount > most || amount % i64::from(terms.step_size) != 0 {
                    let (provider, class) = place();
                    return Err(Refusal::ConstraintsViolated { provider, class });
                }
                let sum = request.entry((*provider, class)).or_default();
                *sum += amount;
                let used = kept.used(*provider, class);
                let capacity =
                    (f64::from(terms.total) - f64::from(terms.reserved)) * terms.allocation_ratio;
                let over = capacity < (used + amount) as f64 || capacity < (used + *sum) as f64;
                if over && used + *sum > before.used(*provider, class) {
                    let (provider, class) = place();
                    return Err(Refusal::CapacityExceeded { provider, class });
                }
                self.allocations.push(Row {
                    consumer: claim.consumer,
                    provider: *provider,
                    class: class.clone(),
                    used: *amount,
                });
            }
        }
        let moved: BTreeSet<Uuid> =
            named.into_iter().chain(given_up.iter().map(|row| row.provider)).collect();
        for provider in moved {
            *self.provider_generations.get_mut(&provider).unwrap() += 1;
        }
        for claim in claims {
            if claim.wants.is_empty() {
                self.consumer_generations.remove(&claim.consumer);
            } else {
                *self.consumer_generations.entry(claim.consumer).or_insert(0) += 1;
            }
        }
        Ok(())
    }

    fn release(&mut self, consumer: Uuid) -> Result<(), Refusal> {
        if self.consumer_generations.remove(&consumer).is_none() {
            return Err(Refusal::NoAllocations(consumer.to_string()));
        }
        self.allocations.retain(|row| row.consumer != consumer);
        Ok(())
    }

    /// The same state as the store would lock it.
    fn state(&self) -> LockedState {
        let mut state = LockedState::default();
        for (nth, name) in CLASSES.iter().enumerate() {
            state.classes.insert((*name).to_owned(), class(nth));
        }
        for nth in 0..PROVIDERS {
            let generation = self.provider_generations[&provider(nth)];
            state.providers.insert(provider(nth), LockedProvider { id: id(nth), generation });
        }
        for ((uuid, name), terms) in &self.inventories {
            let used = self.used(*uuid, name);
            state.inventories.insert(
                place(*uuid, name),
                InventoryUsage { terms: *terms, used_before: used, used },
            );
        }
        for nth in 0..CONSUMERS {
            let consumer = consumer(nth);
            let now = self.consumer_generations.get(&consumer).map(|generation| Consumer {
                owner: OWNER,
                generation: *generation,
                holds: self
                    .allocations
                    .iter()
                    .filter(|row| row.consumer == consumer)
                    .map(|row| (place(row.provider, &row.class), row.used))
                    .collect(),
            });
            state.consumers.insert(consumer, ConsumerState { before: now.clone(), now });
        }
        state
    }

    /// Fails unless the locked state is this.
    fn assert_shown_by(&self, state: &LockedState) {
        let own = self.state();
        for (uuid, account) in &own.consumers {
            assert_eq!(account.now, state.consumers[uuid].now);
        }
        for (uuid, shelf) in &own.providers {
            assert_eq!(shelf, &state.providers[uuid]);
        }
        let inventories = |state: &LockedState| -> Vec<_> {
            state
                .inventories
                .iter()
                .map(|(place, stock)| (*place, stock.terms, stock.used))
                .collect()
        };
        assert_eq!(inventories(&own), inventories(state));
    }
}

const OWNER: Owner = Owner { project: 1, user: 2, consumer_type: Some(3) };

fn place(uuid: Uuid, name: &str) -> (ProviderId, ClassId) {
    let nth = (0..PROVIDERS).find(|nth| provider(*nth) == uuid).unwrap();
    (id(nth), class(CLASSES.iter().position(|class| *class == name).unwrap()))
}

fn terms() -> impl Strategy<Value = Inventory> {
    let ratio = prop_oneof![Just(1.0), Just(1.5), Just(0.29), Just(16.0), Just(0.0)];
    (1..12_i32, 0..4_i32, 1..3_i32, 1..10_i32, 1..3_i32, ratio).prop_map(
        |(total, reserved, min_unit, max_unit, step_size, allocation_ratio)| Inventory {
            total,
            reserved,
            min_unit,
            max_unit,
            step_size,
            allocation_ratio,
        },
    )
}

fn tables() -> impl Strategy<Value = Tables> {
    prop::collection::btree_map((0..PROVIDERS, 0..CLASSES.len()), terms(), 0..9).prop_map(
        |inventories| Tables {
            inventories: inventories
                .into_iter()
                .map(|((nth, class), terms)| ((provider(nth), CLASSES[class].to_owned()), terms))
                .collect(),
            provider_generations: (0..PROVIDERS).map(|nth| (provider(nth), 7)).collect(),
            ..Tables::default()
        },
    )
}

fn claim(nth: usize) -> impl Strategy<Value = Claim> {
    let expected = prop_oneof![
        4 => Just(Expected::Any),
        2 => Just(Expected::NoConsumer),
        2 => (1..4_i64).prop_map(Expected::Is),
    ];
    // One provider and one class too many: unknown ones.
    let wants = prop::collection::btree_map((0..=PROVIDERS, 0..=CLASSES.len()), 1..8_i64, 0..4);
    (expected, wants).prop_map(move |(expected, wants)| Claim {
        consumer: consumer(nth),
        expected,
        owner: OWNER,
        wants: wants
            .into_iter()
            .map(|((nth, class), amount)| {
                let class = CLASSES.get(class).copied().unwrap_or("CUSTOM_UNKNOWN");
                (provider(nth), class.to_owned(), amount)
            })
            .collect(),
    })
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    prop::sample::subsequence((0..CONSUMERS).collect::<Vec<_>>(), 1..=CONSUMERS)
        .prop_flat_map(|nths| nths.into_iter().map(claim).collect::<Vec<_>>())
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        5 => claims().prop_map(Request::Replace),
        1 => (0..CONSUMERS).prop_map(|nth| Request::Release(consumer(nth))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// A batch judged in order is the requests carried out one after the other, with inventories
    /// that change (and may be overcommitted by it) in between.
    #[test]
    fn a_batch_is_its_requests_one_after_the_other(
        start in tables(),
        shrink in prop::collection::vec((0..9_usize, 1..4_i32), 0..3),
        batches in prop::collection::vec(prop::collection::vec(request(), 1..6), 1..4),
    ) {
        let mut tables = start;
        for batch in batches {
            let mut state = tables.state();
            for request in &batch {
                let tables_before = tables.clone();
                let expected = match request {
                    Request::Replace(claims) => tables.replace(claims),
                    Request::Release(consumer) => tables.release(*consumer),
                };
                if let Request::Replace(claims) = request {
                    let found = faults(&state, claims);
                    prop_assert_eq!(found.count > 0, expected.is_err());
                    prop_assert_eq!(found.listed.len(), found.count);
                    for fault in &found.listed {
                        tables_before.assert_fault(fault, claims);
                    }
                }
                prop_assert_eq!(judge(&mut state, request), expected);
                tables.assert_shown_by(&state);
            }
            for (nth, total) in &shrink {
                if let Some(terms) = tables.inventories.values_mut().nth(*nth) {
                    terms.total = *total;
                }
            }
        }
    }

    /// Nothing is ever sold that is not there: beyond capacity, usage only falls.
    #[test]
    fn usage_beyond_capacity_never_grows(
        tables in tables(),
        requests in prop::collection::vec(request(), 1..12),
    ) {
        let mut state = tables.state();
        for request in requests {
            let before = state.clone();
            let verdict = judge(&mut state, &request);
            for (place, stock) in &state.inventories {
                let old = before.inventories[place];
                prop_assert!(stock.used <= stock.terms.capacity().max(old.used));
                prop_assert!(verdict.is_ok() || stock.used == old.used);
            }
        }
    }
}

fn plain(total: i32) -> Inventory {
    Inventory {
        total,
        reserved: 0,
        min_unit: 1,
        max_unit: i32::MAX,
        step_size: 1,
        allocation_ratio: 1.0,
    }
}

fn wants(nth: usize, expected: Expected, wants: &[(usize, &str, i64)]) -> Claim {
    let wants = wants
        .iter()
        .map(|(nth, class, amount)| (provider(*nth), (*class).to_owned(), *amount))
        .collect();
    Claim { consumer: consumer(nth), expected, owner: OWNER, wants }
}

fn stocked(total: i32) -> Tables {
    Tables {
        inventories: [((provider(0), "VCPU".to_owned()), plain(total))].into(),
        provider_generations: (0..PROVIDERS).map(|nth| (provider(nth), 1)).collect(),
        ..Tables::default()
    }
}

/// A provider that holds more than its capacity may be relieved or left as full as it is.
#[test]
fn an_overcommit_may_be_reduced_or_kept_but_not_grow() {
    let mut tables = stocked(4);
    tables.replace(&[wants(0, Expected::Any, &[(0, "VCPU", 4)])]).unwrap();
    tables.inventories.insert((provider(0), "VCPU".to_owned()), plain(2));
    let claimed = |amount| {
        let claims = vec![wants(0, Expected::Any, &[(0, "VCPU", amount)])];
        judge(&mut tables.state(), &Request::Replace(claims))
    };
    assert_eq!(claimed(3), Ok(()));
    assert_eq!(claimed(4), Ok(()));
    assert!(matches!(claimed(5), Err(Refusal::CapacityExceeded { .. })));
}

/// D8 of the reference: an unknown provider leaves a consumer behind.
#[test]
fn a_refused_claim_leaves_no_consumer() {
    let mut state = stocked(4).state();
    let claims = vec![wants(0, Expected::NoConsumer, &[(9, "VCPU", 1)])];
    assert!(judge(&mut state, &Request::Replace(claims)).is_err());
    assert_eq!(state.consumers[&consumer(0)].now, None);
}

/// Inventory moves from a parent to its child, with what is allocated of it: the generations move
/// once for each step that touches a provider.
#[test]
fn a_reshaping_moves_inventory_with_its_allocations() {
    let mut tables = stocked(4);
    tables.replace(&[wants(0, Expected::Any, &[(0, "VCPU", 3)])]).unwrap();
    let mut state = tables.state();
    let seen = |nth: usize| tables.provider_generations[&provider(nth)];
    let reshapings = [
        Reshaping { provider: provider(0), expected_generation: seen(0), inventories: Vec::new() },
        Reshaping {
            provider: provider(1),
            expected_generation: seen(1),
            inventories: vec![("VCPU".to_owned(), plain(4))],
        },
    ];
    let moved = [wants(0, Expected::Is(1), &[(1, "VCPU", 3)])];
    reshape(&mut state, &reshapings, &moved).unwrap();
    assert!(!state.inventories.contains_key(&(id(0), class(0))));
    assert_eq!(state.inventories[&(id(1), class(0))].used, 3);
    assert_eq!(state.providers[&provider(0)].generation, seen(0) + 1, "emptied");
    assert_eq!(state.providers[&provider(1)].generation, seen(1) + 3, "stocked, claimed, final");
    assert_eq!(state.consumers[&consumer(0)].now.as_ref().unwrap().generation, 2);

    let mut state = tables.state();
    let left_behind = reshape(&mut state, &reshapings, &[]);
    let refusal = left_behind.unwrap_err();
    assert!(matches!(refusal, Refusal::InventoryInUse { .. }));
    let found = reshape_faults(&state, &reshapings, &[], &refusal);
    let used = vec![("VCPU".to_owned(), 3)];
    assert_eq!(found.listed, [Fault::InventoryInUse { provider: provider(0), used }]);
    let mut state = tables.state();
    let outdated = [Reshaping { expected_generation: 0, ..reshapings[0].clone() }];
    let refused = reshape(&mut state, &outdated, &moved);
    let refusal = refused.unwrap_err();
    assert!(matches!(refusal, Refusal::ProviderGeneration { actual: 2, given: 0, .. }));
    let found = reshape_faults(&state, &outdated, &moved, &refusal);
    let expected = Fault::ProviderGeneration { provider: provider(0), given: 0, actual: 2 };
    assert_eq!(found.listed, [expected]);

    // Two more than the new inventory has, and the capacity that the claim gives back is elsewhere.
    let mut state = tables.state();
    let large = [wants(0, Expected::Is(1), &[(1, "VCPU", 6)])];
    let refusal = reshape(&mut state, &reshapings, &large).unwrap_err();
    let found = reshape_faults(&state, &reshapings, &large, &refusal);
    let (class, terms) = ("VCPU".to_owned(), plain(4));
    let (wanted, given_back, used) = (6, 0, 0);
    let expected =
        Fault::Capacity { provider: provider(1), class, wanted, given_back, used, terms };
    assert_eq!(found.listed, [expected]);

    // The new inventory is not known yet when generations are compared.
    let mut state = tables.state();
    let outrun = [wants(0, Expected::Is(7), &[(1, "VCPU", 3), (9, "VCPU", 1)])];
    let refusal = reshape(&mut state, &reshapings, &outrun).unwrap_err();
    let found = reshape_faults(&state, &reshapings, &outrun, &refusal);
    let (consumer, expected, actual) = (consumer(0), Expected::Is(7), Some(1));
    let unmet = Fault::ConsumerGeneration { consumer, expected, actual };
    assert_eq!(found.listed, [unmet, Fault::UnknownProvider(provider(9))]);
}
