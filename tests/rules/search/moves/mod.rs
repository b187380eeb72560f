//! The moves that are proposed make room, each of them is possible, and no fewer suffice.

mod exhaustive;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use berth::model::consumer::ConsumerRow;
use berth::model::provider::ProviderRow;
use berth::model::{ClassId, ProviderId};
use berth::search::Request;
use berth::search::fit::Excluded;
use berth::search::moves::{
    Departure, KeptProperties, Plan, RoomOutcome, RoomParameters, Targets, plan, targets,
};
use berth::world::World;
use proptest::prelude::*;
use uuid::Uuid;

use crate::search::cloud::{Cloud, inventory, request};
use crate::search::effort::puzzle_amounts;
use crate::search::generate;
use crate::search::oracle::Oracle;
use crate::search::properties::{cases, countable};

/// Nothing has to be kept.
const ANYWHERE: Departure = Departure::Moves(KeptProperties { traits: false, aggregates: false });

fn consumer(number: u128, allocations: Vec<(ProviderId, ClassId, i64)>) -> ConsumerRow {
    ConsumerRow {
        uuid: Uuid::from_u128(number),
        generation: 1,
        project: "p".to_owned(),
        user: "u".to_owned(),
        consumer_type: None,
        allocations,
    }
}

/// A cloud with consumers, one a line: `provider:CLASS:amount ...`.
fn with_consumers(mut cloud: Cloud, lines: &str) -> (Cloud, Vec<ConsumerRow>) {
    let mut consumers = Vec::new();
    for (nth, line) in (1..).zip(lines.lines().map(str::trim).filter(|line| !line.is_empty())) {
        let mut allocations: Vec<(ProviderId, ClassId, i64)> = Vec::new();
        for word in line.split(' ') {
            let [name, class, amount] = word.split(':').collect::<Vec<_>>()[..] else { panic!() };
            let (class, amount) = (inventory(class, 0).class, amount.parse::<i64>().unwrap());
            let row = cloud.rows.iter_mut().find(|row| row.name == name).unwrap();
            row.inventories.iter_mut().find(|it| it.class == class).unwrap().used += amount;
            allocations.push((row.id, class, amount));
        }
        allocations.sort_unstable();
        consumers.push(consumer(nth, allocations));
    }
    (cloud, consumers)
}

fn found(
    world: &Arc<World>,
    consumers: &[ConsumerRow],
    requested: &Request,
    leaving: &Departure,
) -> (Targets, RoomOutcome) {
    let targets = targets(world, requested, &Excluded::default(), 64, |_| false).unwrap();
    let parameters = RoomParameters {
        request: requested,
        targets: &targets.roots,
        is_needed: targets.is_complete,
        are_all_targets: targets.is_complete && targets.count == targets.roots.len(),
        consumers,
        are_all_consumers: true,
        leaving,
    };
    let found = plan(world, &parameters, || false).unwrap();
    (targets, found)
}

/// The target, for each step the number of the consumer and where it goes, and whether it is proven.
type Proposal = (String, Vec<(usize, String)>, bool);

fn proposed(
    (cloud, consumers): &(Cloud, Vec<ConsumerRow>),
    query: &str,
    leaving: &Departure,
) -> Option<Proposal> {
    let world = cloud.world();
    let Plan { target, steps, is_proven } =
        found(&world, consumers, &request(query), leaving).1.plan?;
    let name = |id| world.provider_by_id(id).unwrap().name().to_owned();
    let steps = steps.iter().map(|step| {
        let to = step.to.map_or_else(|| "-".to_owned(), name);
        (step.consumer + 1, to)
    });
    Some((name(target), steps.collect(), is_proven))
}

fn to(name: &str) -> String {
    name.to_owned()
}

#[test]
fn one_move_makes_room() {
    let cloud = Cloud::new(
        "cn1; VCPU:8; HW_X
         cn2; VCPU:8; HW_Y
         cn3; VCPU:8; HW_X",
    );
    let cloud = with_consumers(
        cloud,
        "cn1:VCPU:4
         cn1:VCPU:2
         cn2:VCPU:6
         cn3:VCPU:5",
    );
    let keeping = Departure::Moves(KeptProperties { traits: true, aggregates: false });
    assert_eq!(proposed(&cloud, "resources=VCPU:3", &ANYWHERE), None, "it fits on cn3");
    // The consumer of 2 fits on both others, and with its traits on one of them.
    let anywhere = proposed(&cloud, "resources=VCPU:4", &ANYWHERE);
    assert_eq!(anywhere, Some((to("cn1"), vec![(2, to("cn2"))], true)));
    let kept = proposed(&cloud, "resources=VCPU:4", &keeping);
    assert_eq!(kept, Some((to("cn1"), vec![(2, to("cn3"))], true)));
    let only = proposed(&cloud, "resources=VCPU:3&required=HW_X&in_tree=cn1", &keeping);
    assert_eq!(only, Some((to("cn1"), vec![(2, to("cn3"))], true)));
}

#[test]
fn several_moves_make_room_if_one_does_not() {
    let cloud = Cloud::new(
        "cn1; VCPU:8
         cn2; VCPU:4
         cn3; VCPU:4",
    );
    let cloud = with_consumers(
        cloud,
        "cn1:VCPU:3
         cn1:VCPU:2
         cn1:VCPU:3
         cn2:VCPU:1
         cn3:VCPU:1",
    );
    let (target, steps, is_proven) = proposed(&cloud, "resources=VCPU:6", &ANYWHERE).unwrap();
    assert_eq!((target.as_str(), steps.len(), is_proven), ("cn1", 2, true));
    assert_eq!(proposed(&cloud, "resources=VCPU:8", &ANYWHERE), None);
    let (_, found) = found(&cloud.0.world(), &cloud.1, &request("resources=VCPU:8"), &ANYWHERE);
    assert_eq!(found.plan, None);
}

#[test]
fn a_consumer_keeps_what_is_shared_with_its_new_host() {
    let cloud = Cloud::new(
        "cn1; VCPU:4; ; A
         cn2; VCPU:4
         cn3; VCPU:4; ; A
         pool; DISK_GB:100; MISC_SHARES_VIA_AGGREGATE; A",
    );
    let cloud = with_consumers(
        cloud,
        "cn1:VCPU:2 pool:DISK_GB:10
         cn2:VCPU:1
         cn3:VCPU:1",
    );
    let requested = "resources=VCPU:4&in_tree=cn1";
    assert_eq!(
        proposed(&cloud, requested, &ANYWHERE),
        Some((to("cn1"), vec![(1, to("cn3"))], true))
    );
    let (_, found) = found(&cloud.0.world(), &cloud.1, &request(requested), &ANYWHERE);
    let world = cloud.0.world();
    let allocations = &found.plan.unwrap().steps[0].allocations;
    let names: Vec<(&str, i64)> = allocations
        .iter()
        .map(|(id, _, amount)| (world.provider_by_id(*id).unwrap().name(), *amount))
        .collect();
    assert_eq!(names, [("cn3", 2), ("pool", 10)]);
}

#[test]
fn a_consumer_on_two_hosts_is_left_alone() {
    let cloud = Cloud::new(
        "cn1; VCPU:4
         cn2; VCPU:4
         cn3; VCPU:4",
    );
    let cloud = with_consumers(
        cloud,
        "cn1:VCPU:2 cn2:VCPU:2
         cn3:VCPU:1",
    );
    assert_eq!(proposed(&cloud, "resources=VCPU:4&in_tree=cn1", &ANYWHERE), None);
    let other = proposed(&cloud, "resources=VCPU:4&in_tree=cn3", &ANYWHERE);
    assert_eq!(other, Some((to("cn3"), vec![(2, to("cn1"))], true)));
}

#[test]
fn groups_of_one_provider_stay_on_one_provider() {
    let cloud = Cloud::new(
        "cn1
         n10 < cn1; VCPU:4
         n11 < cn1; VCPU:4
         cn2
         n20 < cn2; VCPU:3
         n21 < cn2; VCPU:4",
    );
    let cloud = with_consumers(
        cloud,
        "n10:VCPU:1
         n11:VCPU:3
         n20:VCPU:1
         n21:VCPU:1",
    );
    let request = "resources1=VCPU:4&in_tree1=cn1";
    assert_eq!(proposed(&cloud, request, &ANYWHERE), Some((to("cn1"), vec![(1, to("cn2"))], true)));
    let both = "resources1=VCPU:4&resources2=VCPU:4&group_policy=isolate&in_tree1=cn1";
    let (target, steps, is_proven) = proposed(&cloud, both, &ANYWHERE).unwrap();
    assert_eq!((target.as_str(), steps.len(), is_proven), ("cn1", 2, true));
}

#[test]
fn victims_go_by_their_priorities() {
    let cloud = Cloud::new("cn1; VCPU:8");
    let cloud = with_consumers(
        cloud,
        "cn1:VCPU:4
         cn1:VCPU:2
         cn1:VCPU:1
         cn1:VCPU:1",
    );
    let of = |tiers: [Option<usize>; 4]| {
        let found = proposed(&cloud, "resources=VCPU:2", &Departure::Victims(tiers.to_vec()));
        found.map(|(_, steps, _)| steps.into_iter().map(|(number, _)| number).collect::<Vec<_>>())
    };
    assert_eq!(of([None, Some(0), Some(0), Some(0)]), Some(vec![2]));
    assert_eq!(of([Some(1), None, Some(0), Some(0)]), Some(vec![3, 4]));
    assert_eq!(of([Some(1), None, Some(0), None]), Some(vec![1]));
    assert_eq!(of([None, None, Some(0), None]), None);
}

#[test]
fn a_host_where_it_fits_already_is_named() {
    let world = Cloud::new("cn1; VCPU:8").world();
    let of = |query: &str| {
        targets(&world, &request(query), &Excluded::default(), 64, |_| false).unwrap()
    };
    assert!(of("resources=VCPU:8").fitting.is_some());
    let never = of("resources=VCPU:9");
    assert_eq!((never.fitting, never.count), (None, 0));
}

/// Returns a consumer on `cn1` without a place on `cn2`; there are so many combinations to try that the search
/// gives up.
fn puzzle() -> (Cloud, Vec<ConsumerRow>) {
    let (devices, wanted) = puzzle_amounts();
    let mut lines = "cn1\ncn2\n".to_owned();
    let mut held = Vec::new();
    for (nth, amount) in wanted.iter().enumerate() {
        writeln!(lines, "a{nth} < cn1; CUSTOM_VF:{amount}").unwrap();
        held.push(format!("a{nth}:CUSTOM_VF:{amount}"));
    }
    for (nth, amount) in devices.iter().enumerate() {
        writeln!(lines, "b{nth} < cn2; CUSTOM_VF:{amount}").unwrap();
    }
    with_consumers(Cloud::new(&lines), &held.join(" "))
}

#[test]
fn an_aborted_search_proves_nothing() {
    let (cloud, consumers) = puzzle();
    let world = cloud.world();
    let requested = request("resources1=CUSTOM_VF:3&in_tree1=cn1");
    let (targets, found) = found(&world, &consumers, &requested, &ANYWHERE);
    assert!(targets.is_complete);
    assert_eq!((found.plan, found.is_proven), (None, false));
}

/// Two hosts with more free in all than a host has, and consumers of which none has another place.
fn without_room() -> (Cloud, Vec<ConsumerRow>) {
    let cloud = Cloud::new(
        "cn1; VCPU:4
         cn2; VCPU:4",
    );
    with_consumers(cloud, "cn1:VCPU:2\ncn2:VCPU:3")
}

#[test]
fn hosts_that_were_not_reached_were_not_examined() {
    let (cloud, consumers) = without_room();
    let world = cloud.world();
    let requested = request("resources=VCPU:4");
    let targets = targets(&world, &requested, &Excluded::default(), 64, |_| false).unwrap();
    let parameters = RoomParameters {
        request: &requested,
        targets: &targets.roots,
        is_needed: true,
        are_all_targets: true,
        consumers: &consumers,
        are_all_consumers: true,
        leaving: &ANYWHERE,
    };
    let examined = |looks: usize| {
        let mut looks_left = looks;
        let is_enough = || {
            let Some(fewer) = looks_left.checked_sub(1) else { return true };
            looks_left = fewer;
            false
        };
        let found = plan(&world, &parameters, is_enough).unwrap();
        assert_eq!(found.plan, None);
        (found.examined, found.is_proven)
    };
    assert_eq!([examined(0), examined(1), examined(2)], [(0, false), (1, false), (2, true)]);
}

#[test]
fn a_consumer_that_holds_what_the_world_does_not_know_stays() {
    let (cloud, mut consumers) = without_room();
    let world = cloud.world();
    let host = consumers[0].allocations[0].0;
    let requested = request("resources=VCPU:4&in_tree=cn1");
    let victims = Departure::Victims(vec![Some(0); 2]);
    let of = |consumers: &[ConsumerRow], leaving| {
        let found = found(&world, consumers, &requested, leaving).1;
        (found.plan.map(|plan| plan.steps.len()), found.is_proven)
    };
    assert_eq!(of(&consumers, &victims), (Some(1), true));
    // A class, and a provider, that were created after the world was read.
    for strange in [(host, ClassId(1000), 1), (ProviderId(1000), ClassId(0), 1)] {
        consumers[0].allocations.push(strange);
        for leaving in [&victims, &ANYWHERE] {
            assert_eq!(of(&consumers, leaving), (None, false));
        }
        consumers[0].allocations.pop();
    }
}

#[test]
fn it_is_proven_that_there_is_no_way() {
    let (cloud, consumers) = without_room();
    let (_, found) = found(&cloud.world(), &consumers, &request("resources=VCPU:4"), &ANYWHERE);
    assert_eq!((found.plan, found.is_proven), (None, true));
}

/// Random consumers of what the rows say is in use: pieces of 1 or 2, each on one provider.
fn consumers(rows: &[ProviderRow]) -> Vec<ConsumerRow> {
    let mut consumers = Vec::new();
    for row in rows {
        for it in &row.inventories {
            let mut left = it.used;
            while left > 0 {
                let amount = left.min(1 + left % 2);
                left -= amount;
                let number = consumers.len() as u128 + 1;
                consumers.push(consumer(number, vec![(row.id, it.class, amount)]));
            }
        }
    }
    consumers
}

/// The rows after what a consumer holds was replaced.
fn replaced(
    mut rows: Vec<ProviderRow>,
    before: &[(ProviderId, ClassId, i64)],
    after: &[(ProviderId, ClassId, i64)],
) -> Vec<ProviderRow> {
    let signed = before.iter().map(|it| (it, -1)).chain(after.iter().map(|it| (it, 1)));
    for ((id, class, amount), sign) in signed {
        let row = rows.iter_mut().find(|row| row.id == *id).unwrap();
        row.inventories.iter_mut().find(|it| it.class == *class).unwrap().used += sign * amount;
    }
    rows
}

fn fits(rows: &[ProviderRow], request: &Request) -> bool {
    let catalogue = generate::catalogue();
    Oracle { catalogue: &catalogue, rows }.candidates(request).is_ok_and(|found| !found.is_empty())
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn the_steps_make_room_and_are_possible(
        rows in prop_oneof![generate::rows(6), generate::flat_rows(6)],
        requested in generate::request(),
        gives_up in any::<bool>(),
    ) {
        prop_assume!(countable(&rows, &requested));
        prop_assume!(requested.groups.iter().any(|group| !group.resources.is_empty()));
        let world = Arc::new(World::build(generate::catalogue(), rows.clone()));
        let consumers = consumers(&rows);
        let leaving = if gives_up {
            Departure::Victims(vec![Some(0); consumers.len()])
        } else {
            ANYWHERE
        };
        let Ok(targets) = targets(&world, &requested, &Excluded::default(), 64, |_| false) else {
            return Ok(());
        };
        prop_assert_eq!(targets.fitting.is_some(), fits(&rows, &requested));
        if targets.fitting.is_some() {
            return Ok(());
        }
        let found = found(&world, &consumers, &requested, &leaving).1;
        // Whether one consumer that leaves is enough is found out by trying each.
        let suffices = |consumer: &ConsumerRow| {
            let here = &consumer.allocations;
            let without = replaced(rows.clone(), here, &[]);
            fits(&without, &requested)
        };
        let is_shared = rows.iter().any(|row| row.traits.iter().any(|id| id.0 == 0));
        let one = !is_shared && consumers.iter().any(suffices);
        let Some(plan) = found.plan else {
            prop_assert!(!(one && gives_up), "one victim would have done");
            return Ok(());
        };
        if one && gives_up {
            prop_assert_eq!(plan.steps.len(), 1);
        }
        let mut now = rows.clone();
        let mut left: BTreeSet<usize> = BTreeSet::new();
        for step in &plan.steps {
            prop_assert!(left.insert(step.consumer), "a consumer leaves once");
            let before = &consumers[step.consumer].allocations;
            now = replaced(now, before, &step.allocations);
            for (id, class, amount) in &step.allocations {
                let root = now.iter().find(|row| row.id == *id).unwrap().root;
                prop_assert_eq!(Some(root), step.to);
                prop_assert_ne!(root, plan.target);
                let row = now.iter().find(|row| row.id == *id).unwrap();
                let it = row.inventories.iter().find(|it| it.class == *class).unwrap();
                prop_assert!(it.terms.fits(it.used - amount, *amount));
            }
            let sum = |amounts: &[(ProviderId, ClassId, i64)]| -> i64 {
                amounts.iter().map(|it| it.2).sum()
            };
            let expected = if step.to.is_some() { sum(before) } else { 0 };
            prop_assert_eq!(sum(&step.allocations), expected);
        }
        prop_assert!(fits(&now, &requested), "after {:?}", plan);
    }
}
