//! Ordered candidates are all candidates, sorted by the scores of their trees.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth::model::provider::ProviderRow;
use berth::model::{ClassId, ProviderId};
use berth::search::ranking::{Ranking, Subject, Weight};
use berth::search::{Order, Request, Strategy as Generation};
use berth::world::World;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use uuid::Uuid;

use crate::search::cloud::{Cloud, request as request_of, uuid};
use crate::search::generate::{bounds, catalogue, flat_rows, request, rows};
use crate::search::oracle::{Candidate, Oracle};
use crate::search::properties::{cases, countable, search};

/// A whole share.
const WHOLE: i128 = 32_768;

/// The share of a class that is free in a tree, in parts of the whole, or `None` without inventory.
fn share(tree: &[&ProviderRow], class: ClassId) -> Option<i128> {
    let rows = tree.iter().flat_map(|row| &row.inventories).filter(|it| it.class == class);
    let each = rows.map(|row| {
        let capacity = i128::from(row.terms.capacity()).max(0);
        ((capacity - i128::from(row.used)).clamp(0, capacity), capacity)
    });
    let sums = each.reduce(|sum, it| (sum.0 + it.0, sum.1 + it.1))?;
    Some(if sums.1 == 0 { 0 } else { sums.0 * WHOLE / sums.1 })
}

/// Returns the score of a tree, written literally after the documentation.
fn score(oracle: &Oracle<'_>, root: ProviderId, request: &Request, ranking: &Ranking) -> i128 {
    let tree: Vec<&ProviderRow> =
        oracle.rows.iter().filter(|row| oracle.root(row.id) == root).collect();
    let class = |name: &str| {
        oracle.catalogue.classes.iter().find(|(_, it)| it.name == name).map(|(id, _)| *id)
    };
    let mean = || {
        let names = request.groups.iter().flat_map(|group| &group.resources);
        let classes: BTreeSet<ClassId> = names.filter_map(|(name, _)| class(name)).collect();
        let shares: Vec<i128> = classes.into_iter().filter_map(|it| share(&tree, it)).collect();
        let count = i128::try_from(shares.len()).unwrap().max(1);
        shares.iter().sum::<i128>() * (2520 / count)
    };
    match ranking {
        Ranking::Pack => -mean(),
        Ranking::Spread => mean(),
        Ranking::Weights(weights) => {
            let part = |Weight { subject, thousandths }: &Weight| {
                let counted = match subject {
                    Subject::Class(name) => {
                        class(name).and_then(|id| share(&tree, id)).unwrap_or_default()
                    }
                    Subject::Trait(name) => {
                        let id = oracle.catalogue.traits.iter().find(|(_, it)| it.name == *name);
                        let id = *id.unwrap().0;
                        WHOLE * i128::from(tree.iter().any(|row| row.traits.contains(&id)))
                    }
                    Subject::Aggregate(uuid) => {
                        WHOLE * i128::from(tree.iter().any(|row| row.aggregates.contains(uuid)))
                    }
                };
                i128::from(*thousandths) * counted
            };
            weights.iter().map(part).sum()
        }
    }
}

/// The tree of a candidate; `None` if sharing providers supply it alone.
fn tree_of(oracle: &Oracle<'_>, candidate: &Candidate) -> Option<ProviderId> {
    let uuids = candidate.allocations.keys().map(|(uuid, _)| uuid);
    let all = uuids.chain(candidate.mappings.values().flatten());
    let mut rows = all.map(|uuid| oracle.rows.iter().find(|row| row.uuid == *uuid).unwrap());
    let own = rows.find(|row| !oracle.shares(row.id) || row.aggregates.is_empty());
    own.map(|row| oracle.root(row.id))
}

/// The candidates of trees, one of each in turn.
fn in_turn(oracle: &Oracle<'_>, all: &[Candidate]) -> Vec<Candidate> {
    let round = |nth: &usize| {
        let tree = tree_of(oracle, &all[*nth]);
        all[..*nth].iter().filter(|it| tree_of(oracle, it) == tree).count()
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(round);
    order.into_iter().map(|nth| all[nth].clone()).collect()
}

fn ranking() -> impl Strategy<Value = Ranking> {
    let names = catalogue();
    let classes: Vec<String> = names.classes.values().map(|it| it.name.clone()).collect();
    let traits: Vec<String> = names.traits.values().map(|it| it.name.clone()).collect();
    let subject = prop_oneof![
        3 => prop::sample::select(classes).prop_map(Subject::Class),
        1 => prop::sample::select(traits).prop_map(Subject::Trait),
        1 => (0..4_u128).prop_map(|it| Subject::Aggregate(Uuid::from_u128(it))),
    ];
    let weight = (subject, -2000..2000_i32)
        .prop_map(|(subject, thousandths)| Weight { subject, thousandths });
    prop_oneof![
        Just(Ranking::Pack),
        Just(Ranking::Spread),
        vec(weight, 1..4).prop_map(|weights| Ranking::Weights(weights.into())),
    ]
}

fn check(
    rows: &[ProviderRow],
    request: &Request,
    ranking: &Ranking,
    limit: usize,
) -> TestCaseResult {
    let catalogue = catalogue();
    let world = Arc::new(World::build(catalogue.clone(), rows.to_vec()));
    let oracle = Oracle { catalogue: &catalogue, rows };
    let Ok((unordered, _)) = search(&world, request) else { return Ok(()) };
    let ordered = Request { order: Order::Ranked(ranking.clone()), ..request.clone() };
    let (all, _) = search(&world, &ordered).unwrap();
    let set = |list: &[Candidate]| list.iter().cloned().collect::<BTreeSet<_>>();
    prop_assert_eq!(set(&all), set(&unordered));
    prop_assert_eq!(all.len(), unordered.len());
    let trees: Vec<ProviderId> = all.iter().filter_map(|it| tree_of(&oracle, it)).collect();
    let scores: Vec<i128> =
        trees.iter().map(|root| score(&oracle, *root, request, ranking)).collect();
    prop_assert!(scores.is_sorted_by(|one, next| one >= next), "{scores:?}");

    let limited = Request { limit: Some(limit), ..ordered };
    let first = |list: &[Candidate]| list.iter().take(limit).cloned().collect::<Vec<_>>();
    prop_assert_eq!(search(&world, &limited).unwrap().0, first(&all));
    if trees.len() == all.len() {
        let broad = Request { strategy: Generation::BreadthFirst, ..limited };
        prop_assert_eq!(search(&world, &broad).unwrap().0, first(&in_turn(&oracle, &all)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn the_order_is_that_of_a_full_sort(
        rows in rows(8), request in request(), ranking in ranking(), bounds in bounds()
    ) {
        prop_assume!(countable(&rows, &request));
        let mut request = request;
        for group in &mut request.groups {
            // A sharing provider that only its own tree may use is no candidate of its own.
            (group.in_tree, group.member_of) = (None, Vec::new());
        }
        let request = Request { max_candidates: None, ..request };
        check(&rows, &request, &ranking, bounds.limit.unwrap_or(3))?;
    }

}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_order_of_flat_hosts_is_that_of_a_full_sort(
        rows in flat_rows(600), request in request(), ranking in ranking(), limit in 1..40_usize
    ) {
        let request = Request { groups: request.groups.into_iter().take(1).collect(), ..request };
        check(&rows, &Request { same_subtree: Vec::new(), ..request }, &ranking, limit)?;
    }
}

/// The hosts of the candidates, in order.
fn hosts(cloud: &Cloud, query: &str, ranking: Ranking) -> Vec<String> {
    let request = Request { order: Order::Ranked(ranking), ..request_of(query) };
    let (found, _) = search(&cloud.world(), &request).unwrap();
    found.iter().map(|it| cloud.allocations(it)).collect()
}

#[test]
fn the_fullest_or_the_emptiest_host_comes_first() {
    let cloud = Cloud::new("a; VCPU:8\n b; VCPU:16\n c; VCPU:32\n d; VCPU:8");
    let cloud = cloud
        .with("a", "VCPU", |it| it.used = 4)
        .with("b", "VCPU", |it| it.used = 2)
        .with("c", "VCPU", |it| it.used = 24)
        .with("d", "VCPU", |it| it.used = 8);
    let query = "resources=VCPU:1";
    assert_eq!(hosts(&cloud, query, Ranking::Pack), ["c:VCPU:1", "a:VCPU:1", "b:VCPU:1"]);
    assert_eq!(hosts(&cloud, query, Ranking::Spread), ["b:VCPU:1", "a:VCPU:1", "c:VCPU:1"]);
}

#[test]
fn weights_of_classes_traits_and_aggregates_add_up() {
    let lines = "a; VCPU:8 VGPU:4\n b; VCPU:8; HW_X\n c; VCPU:8; ; X\n d; VCPU:8";
    let cloud = Cloud::new(lines).with("d", "VCPU", |it| it.used = 4);
    let weights = ["VCPU=1", "VGPU=-2", "trait:HW_X=0.25"].map(|it| it.parse().unwrap());
    let aggregate = Weight { subject: Subject::Aggregate(uuid("X")), thousandths: 500 };
    let weights: Vec<Weight> = weights.into_iter().chain([aggregate]).collect();
    let found = hosts(&cloud, "resources=VCPU:1", Ranking::Weights(weights.into()));
    assert_eq!(found, ["c:VCPU:1", "b:VCPU:1", "d:VCPU:1", "a:VCPU:1"]);
}

/// Returns more hosts than are examined, in use to various shares; those for which `is_narrow` holds allow only one
/// unit at once, so that they do not fit although they have room.
fn many(is_narrow: impl Fn(usize) -> bool) -> Vec<ProviderRow> {
    let template = Cloud::new("a; VCPU:16 MEMORY_MB:64").rows.remove(0);
    let host = |nth: usize| {
        let mut row = template.clone();
        row.id = ProviderId(nth as i64 + 1);
        (row.root, row.uuid, row.name) =
            (row.id, Uuid::from_u128(nth as u128 + 1), format!("host-{nth}"));
        for (from, inventory) in (1..).zip(&mut row.inventories) {
            let total = inventory.terms.total as usize;
            inventory.used = (nth * 7919 * from % (total * 3 / 4)) as i64;
            if is_narrow(inventory.used as usize * 64 / total) {
                inventory.terms.max_unit = 1;
            }
        }
        row
    };
    (0..20_000).map(host).collect()
}

#[test]
fn the_best_of_many_hosts_are_found_without_a_look_at_all() {
    // With the emptiest or the fullest hosts narrow, the first ones that are chosen do not fit.
    for is_narrow in [|_: usize| false, |used| used < 20, |used| used > 30] {
        let rows = many(is_narrow);
        let world = Arc::new(World::build(Cloud::catalogue(), rows));
        for ranking in [Ranking::Pack, Ranking::Spread] {
            let order = Order::Ranked(ranking.clone());
            let request = Request { order, ..request_of("resources=VCPU:2,MEMORY_MB:3") };
            let (all, _) = search(&world, &request).unwrap();
            for limit in [1, 50, 3000] {
                let limited = Request { limit: Some(limit), ..request.clone() };
                let (found, _) = search(&world, &limited).unwrap();
                assert!(found[..] == all[..limit.min(all.len())], "{ranking:?} {limit}");
            }
        }
    }
}
