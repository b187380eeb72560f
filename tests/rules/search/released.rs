//! A search through holds finds what is found when no hold is released, or one that has no equal room beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth::model::provider::ProviderRow;
use berth::model::{ClassId, ConsumerId};
use berth::search::{Request, Unknown};
use berth::world::{Changes, HeldAmounts, World};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::search::generate::{catalogue, like_request, like_rows, request, rows};
use crate::search::oracle::Candidate;
use crate::search::properties::{cases, countable, search};

/// Adds amounts to the use of rows; negative ones are taken from it.
fn take(rows: &mut [ProviderRow], amounts: &HeldAmounts, sign: i64) {
    for (provider, class, amount) in amounts {
        let row = rows.iter_mut().find(|row| row.id == *provider).unwrap();
        let inventory = row.inventories.iter_mut().find(|it| it.class == *class).unwrap();
        inventory.used += sign * amount;
    }
}

fn built(rows: &[ProviderRow], holds: &[HeldAmounts]) -> Arc<World> {
    let world = World::build(catalogue(), rows.to_vec());
    let holds = holds.iter().enumerate().map(|(nth, hold)| (ConsumerId(nth as i64 + 1), hold));
    let holds = holds.map(|(consumer, hold)| (consumer, hold.clone())).collect();
    Arc::new(world.apply(Changes { holds, ..Changes::default() }))
}

fn found(world: &Arc<World>, request: &Request) -> Result<BTreeSet<Candidate>, Unknown> {
    let (all, _) = search(world, request)?;
    let distinct: BTreeSet<Candidate> = all.iter().cloned().collect();
    assert_eq!(distinct.len(), all.len(), "a candidate is given twice");
    Ok(distinct)
}

/// Whether a claim of the hold's own amounts fits beside it.
fn has_room_beside(rows: &[ProviderRow], hold: &HeldAmounts) -> bool {
    hold.iter().all(|(provider, class, amount)| {
        let row = rows.iter().find(|row| row.id == *provider).unwrap();
        let inventory = row.inventories.iter().find(|it| it.class == *class).unwrap();
        let terms = inventory.terms;
        terms.capacity() - inventory.used >= *amount && i64::from(terms.max_unit) >= *amount
    })
}

fn amounts(rows: &[ProviderRow], candidate: &Candidate) -> HeldAmounts {
    let held = candidate.allocations.iter().map(|((uuid, class), amount)| {
        let provider = rows.iter().find(|row| row.uuid == *uuid).unwrap().id;
        (provider, *class, *amount)
    });
    held.collect()
}

/// Holds are candidates of the request, and some other amounts. The search without them is the specification.
fn check(
    mut rows: Vec<ProviderRow>,
    request: &Request,
    picks: &[Index],
    odd: &[(Index, Index)],
) -> Result<(), TestCaseError> {
    let Ok(all) = found(&built(&rows, &[]), request) else { return Ok(()) };
    let all: Vec<Candidate> = all.into_iter().collect();
    prop_assume!(!all.is_empty());
    let mut holds: Vec<HeldAmounts> = Vec::new();
    for pick in picks {
        let hold = amounts(&rows, &all[pick.index(all.len())]);
        take(&mut rows, &hold, 1);
        holds.push(hold);
    }
    for (row, inventory) in odd {
        let row = &rows[row.index(rows.len())];
        if let Some(inventory) = row.inventories.get(inventory.index(row.inventories.len().max(1)))
        {
            let hold: HeldAmounts = vec![(row.id, inventory.class, 1)];
            take(&mut rows, &hold, 1);
            holds.push(hold);
        }
    }
    let mut expected = found(&built(&rows, &[]), request).unwrap();
    let sums = |amounts: &HeldAmounts| {
        let mut sums: BTreeMap<ClassId, i64> = BTreeMap::new();
        for (_, class, amount) in amounts {
            *sums.entry(*class).or_default() += amount;
        }
        sums
    };
    let wanted = sums(&amounts(&rows, &all[0]));
    for hold in &holds {
        let matches = wanted.iter().all(|(class, amount)| sums(hold).get(class) == Some(amount));
        if matches && !has_room_beside(&rows, hold) {
            take(&mut rows, hold, -1);
            expected.extend(found(&built(&rows, &[]), request).unwrap());
            take(&mut rows, hold, 1);
        }
    }
    let world = built(&rows, &holds);
    let through = Request { through_holds: true, ..request.clone() };
    prop_assert_eq!(found(&world, &through).unwrap(), expected);
    // The world that is shown is the actual one.
    let seen = berth::search::find(Arc::clone(&world), &through).unwrap();
    prop_assert!(Arc::ptr_eq(seen.world(), &world));
    Ok(())
}

fn picks() -> impl Strategy<Value = Vec<Index>> {
    vec(any::<Index>(), 1..5)
}

fn odd() -> impl Strategy<Value = Vec<(Index, Index)>> {
    vec((any::<Index>(), any::<Index>()), 0..3)
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_search_through_holds_releases_one_of_them(
        rows in rows(8), request in request(), picks in picks(), odd in odd()
    ) {
        prop_assume!(countable(&rows, &request));
        check(rows, &request, &picks, &odd)?;
    }

    #[test]
    fn a_search_through_holds_releases_one_of_them_among_like_providers(
        rows in like_rows(), request in like_request(), picks in picks(), odd in odd()
    ) {
        let request = Request { nested: true, ..request };
        prop_assume!(countable(&rows, &request));
        check(rows, &request, &picks, &odd)?;
    }
}
