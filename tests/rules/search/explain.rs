//! An explanation says what each condition leaves, and which conditions contradict each other.

use berth::model::ProviderId;
use berth::search::explain::{Explanation, Unexplained, explain};
use berth::search::funnel::{Condition, HostChecks, NearMiss, funnel, hosts, without};
use berth::search::{Group, Request, Unknown};
use berth::world::World;
use proptest::prelude::*;

use crate::search::cloud::{Cloud, request};
use crate::search::generate;
use crate::search::properties::{cases, countable};

fn explained(cloud: &Cloud, query: &str) -> Explanation {
    explain(&cloud.world(), &request(query), 10, |_| false).unwrap()
}

/// For each condition: what it is, the providers that meet it, and the hosts that are left.
fn left(found: &Explanation) -> Vec<(String, Option<usize>, usize)> {
    let conditions = found.conditions.iter();
    conditions.map(|it| (it.counted.condition.to_string(), it.providers, it.left)).collect()
}

/// The conditions that contradict each other.
fn conflict(found: &Explanation) -> Vec<String> {
    let conflict = found.conflict.as_ref().unwrap();
    let conditions = conflict.conditions.iter();
    conditions.map(|nth| found.conditions[*nth].counted.condition.to_string()).collect()
}

#[test]
fn each_condition_leaves_providers_and_hosts() {
    let cloud = Cloud::new(
        "cn1; VCPU:8 DISK_GB:9; HW_X
         cn2; VCPU:4 DISK_GB:9; HW_X
         cn3; VCPU:8 DISK_GB:9; HW_Y
         cn4; VCPU:8 DISK_GB:5",
    );
    let found = explained(&cloud, "resources1=VCPU:8,DISK_GB:9&required1=HW_X&root_required=!HW_Y");
    assert_eq!(
        left(&found)[..4],
        [
            ("resources1=VCPU:8".to_owned(), Some(3), 3),
            ("resources1=DISK_GB:9".to_owned(), Some(2), 2),
            ("required1=HW_X".to_owned(), Some(1), 1),
            ("root_required=!HW_Y".to_owned(), Some(3), 1),
        ]
    );
    assert_eq!((found.providers, found.hosts, found.fitting, found.conflict), (4, 4, 1, None));
    let near = found.near_misses.iter();
    let near: Vec<_> = near.map(|it| (it.host.as_str(), it.condition, it.missing)).collect();
    assert_eq!(near, [("cn2", 0, Some(4))]);
}

#[test]
fn conditions_that_contradict_each_other_are_named() {
    let cloud = Cloud::new(
        "cn1; VCPU:8; HW_X
         cn2; VCPU:4; HW_Y
         cn3; VCPU:4; HW_X HW_Y
         n31 < cn3; MEMORY_MB:64",
    );
    let found = explained(&cloud, "resources=VCPU:8&required=HW_Y,!HW_Z");
    assert_eq!(conflict(&found), ["resources=VCPU:8", "required=HW_Y"]);
    let only: Vec<usize> = found.conditions.iter().map(|it| it.counted.only).collect();
    assert_eq!(only, [2, 1, 0, 0]);
    let one = explained(&cloud, "resources=VCPU:9&required=HW_Y");
    assert_eq!(conflict(&one), ["resources=VCPU:9"]);
    assert!(one.conflict.unwrap().is_smallest);
}

#[test]
fn unknown_names_are_no_conditions() {
    let world = Cloud::new("cn1; VCPU:8").world();
    let of = |query: &str| explain(&world, &request(query), 10, |_| false).unwrap_err();
    assert_eq!(
        of("resources=NOTHING:1"),
        Unexplained::Unknown(Unknown::Class("NOTHING".to_owned()))
    );
    assert_eq!(
        of("resources=VCPU:1&required=!NOTHING,HW_X"),
        Unexplained::Unknown(Unknown::Traits(vec!["NOTHING".to_owned()]))
    );
}

#[test]
fn an_explanation_ends_when_the_work_is_enough() {
    let world = Cloud::new("cn1; VCPU:8").world();
    let found = explain(&world, &request("resources=VCPU:9"), 10, |_| true).unwrap();
    assert!(found.is_complete, "one block is all there is");
}

/// The request with nothing but some of its conditions.
fn only(found: &Explanation, request: &Request, kept: &[usize]) -> Request {
    let others = (0..found.conditions.len()).filter(|nth| !kept.contains(nth));
    let condition = |nth: usize| &found.conditions[nth].counted.condition;
    let is_kept = |it: &&Condition| kept.iter().any(|nth| condition(*nth) == *it);
    let others = others.map(condition).filter(|it| !is_kept(it));
    others.fold(request.clone(), |request, condition| without(&request, condition))
}

/// Returns whether a request can consist of only some of the conditions, with the same meaning: steps of
/// combining conditions belong to several, and all others concern the providers of their group's classes.
fn can_stand_alone(found: &Explanation, kept: &[usize]) -> bool {
    let condition = |nth: usize| &found.conditions[nth].counted.condition;
    let has_its_classes = |nth: &usize| {
        let Some(group) = condition(*nth).group() else { return true };
        let classes = (0..found.conditions.len()).filter(
            |nth| matches!(condition(*nth), Condition::Class { group: it, .. } if it == group),
        );
        let mut classes = classes.peekable();
        classes.peek().is_some() && classes.all(|nth| kept.contains(&nth))
    };
    let has_group = kept.iter().any(|nth| condition(*nth).group().is_some());
    has_group && kept.iter().all(|nth| !condition(*nth).is_combined() && has_its_classes(nth))
}

/// Returns the near misses, all of them sorted: first those that lack the smallest part of the request. A condition
/// without an amount counts as all of one. Equal ones are in the order of their creation.
fn nearest_first(world: &World, found: &Explanation) -> Vec<NearMiss> {
    let mut all = found.near_misses.clone();
    let place = |it: &NearMiss| {
        let condition = &found.conditions[it.condition].counted.condition;
        let amount = if let Condition::Class { amount, .. } = condition { *amount } else { 1 };
        // Amounts are small here, so that millionths tell parts from each other.
        let part = it.missing.map_or(1_000_000, |missing| missing * 1_000_000 / amount);
        let root = world.trees().find(|root| root.name() == it.host).unwrap();
        (part, root.id())
    };
    all.sort_by_key(place);
    all
}

#[test]
fn the_nearest_are_named() {
    let cloud = Cloud::new(
        "cn1; VCPU:1; HW_X
         cn2; VCPU:8
         cn3; VCPU:7; HW_X
         cn4; VCPU:4; HW_X
         cn5; VCPU:7; HW_X",
    );
    let requested = request("resources=VCPU:8&required=HW_X");
    for (most, expected) in [
        (2, vec![("cn3", Some(1)), ("cn5", Some(1))]),
        (
            9,
            vec![
                ("cn3", Some(1)),
                ("cn5", Some(1)),
                ("cn4", Some(4)),
                ("cn1", Some(7)),
                ("cn2", None),
            ],
        ),
    ] {
        let found = explain(&cloud.world(), &requested, most, |_| false).unwrap();
        let near = found.near_misses.iter().map(|it| (it.host.as_str(), it.missing));
        assert_eq!(near.collect::<Vec<_>>(), expected);
        assert_eq!(found.near, 5);
    }
}

#[test]
fn the_closest_host_is_one_of_the_tree_that_the_group_asks_for() {
    let cloud = Cloud::new(
        "cn1; VCPU:2; HW_X
         cn2; VCPU:7
         cn3; DISK_GB:1
         n31 < cn3; VCPU:4
         cn4; DISK_GB:1
         n41 < cn4; VCPU:6
         cn5; DISK_GB:1",
    );
    for (tree, expected) in [
        ("cn1", Some(("cn1", 2))),
        ("cn2", Some(("cn2", 7))),
        ("cn3", Some(("cn3", 4))),
        ("n41", Some(("cn4", 6))),
        ("cn5", None),
        ("nowhere", None),
    ] {
        for suffix in ["", "1"] {
            let query = format!("resources{suffix}=VCPU:8&in_tree{suffix}={tree}");
            let requested = request(&query);
            let found = explain(&cloud.world(), &requested, 10, |_| false).unwrap();
            let counted = &found.conditions[0].counted;
            let most = counted.most.as_ref();
            let most = most.map(|most| (most.host.as_str(), most.shortage.available));
            assert_eq!((most, counted.hosts, counted.absent), (expected, 5, 1), "{query}");
            let slow = funnel(&cloud.world(), &requested, |_| false);
            assert_eq!((&slow.conditions[0].most, slow.conditions[0].absent), (&counted.most, 1));
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn the_counts_are_those_of_all_hosts(
        rows in prop_oneof![generate::rows(7), generate::flat_rows(40)],
        request in generate::request(),
    ) {
        prop_assume!(countable(&rows, &request) && !request.groups.is_empty());
        // A query cannot have an empty group.
        let asks = |group: &Group| {
            let positive = !group.required.is_empty() || !group.member_of.is_empty();
            !group.resources.is_empty() || !group.suffix.is_empty() && positive
        };
        prop_assume!(request.groups.iter().all(asks));
        let world = World::build(generate::catalogue(), rows);
        let Ok(found) = explain(&world, &request, usize::MAX, |_| false) else { return Ok(()) };
        let funnel = funnel(&world, &request, |_| false);
        prop_assert_eq!(
            (found.hosts, found.fitting, found.undecided, found.near),
            (funnel.hosts, funnel.fitting, funnel.undecided, funnel.near)
        );
        for (explained, counted) in found.conditions.iter().zip(&funnel.conditions) {
            let it = &explained.counted;
            prop_assert_eq!(&it.condition, &counted.condition);
            prop_assert_eq!(
                (it.hosts, it.only, it.absent),
                (counted.hosts, counted.only, counted.absent),
                "{}", it.condition
            );
            let available = |it: &berth::search::funnel::Counted<Condition>| {
                it.most.as_ref().map(|most| most.shortage.available)
            };
            prop_assert_eq!(available(it), available(counted));
        }
        let mut checks = HostChecks::new(&world, &request);
        let all: Vec<Vec<usize>> = hosts(&world)
            .map(|root| checks.failing(&root).conditions.iter().map(|it| it.condition).collect())
            .collect();
        for (nth, explained) in found.conditions.iter().enumerate() {
            let left = all.iter().filter(|failing| failing.iter().all(|it| *it > nth)).count();
            prop_assert_eq!(explained.left, left, "after {}", explained.counted.condition);
        }
        prop_assert_eq!(&found.near_misses, &nearest_first(&world, &found));
        for most in [0, 1, 3] {
            let some = explain(&world, &request, most, |_| false).unwrap();
            prop_assert_eq!(some.near, found.near);
            prop_assert_eq!(&some.near_misses[..], &found.near_misses[..most.min(found.near)]);
        }
        let near: Vec<ProviderId> = found.near_misses.iter().map(|it| {
            world.trees().find(|root| root.name() == it.host).unwrap().id()
        }).collect();
        prop_assert_eq!(near.len(), found.near);
        let Some(conflict) = &found.conflict else {
            prop_assert!(found.fitting > 0 || found.hosts == 0 || found.undecided > 0);
            return Ok(());
        };
        let hit = |failing: &Vec<usize>| failing.iter().any(|it| conflict.conditions.contains(it));
        prop_assert!(all.iter().all(hit));
        if !can_stand_alone(&found, &conflict.conditions) {
            return Ok(());
        }
        let rest = only(&found, &request, &conflict.conditions);
        prop_assert_eq!(explain(&world, &rest, 0, |_| false).unwrap().fitting, 0, "{:?}", rest);
    }
}
