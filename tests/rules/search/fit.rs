//! As many requests fit as a brute force can claim: exactly that many on hosts of one provider, and between
//! the two bounds elsewhere.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth::model::provider::{InventoryRow, ProviderRow};
use berth::model::{ClassId, ProviderId};
use berth::search::Request;
use berth::search::fit::{
    Bounds, CountParameters, Excluded, Fit, Fragment, GroupBy, fit, fragmentation,
};
use berth::search::funnel::hosts;
use berth::world::World;
use proptest::prelude::*;
use uuid::Uuid;

use crate::search::cloud::{Cloud, request};
use crate::search::generate;
use crate::search::oracle::Oracle;
use crate::search::properties::{cases, countable};

fn fitting(world: &World, request: &Request, excluded: &Excluded, by: Option<&GroupBy>) -> Fit {
    let parameters = CountParameters { request, excluded, names_max: 1000, by };
    fit(world, &parameters, |_| false).unwrap()
}

fn counted(cloud: &Cloud, query: &str) -> Fit {
    fitting(&cloud.world(), &request(query), &Excluded::default(), None)
}

/// The bounds of the total.
fn total(cloud: &Cloud, query: &str) -> (u64, u64) {
    let Bounds { at_least, at_most } = counted(cloud, query).total;
    (at_least, at_most)
}

/// Returns the number that fits on each host, best first.
fn by_host(world: &World, found: &Fit) -> Vec<(String, u64, u64)> {
    let name = |id| world.provider_by_id(id).unwrap().name().to_owned();
    found.hosts.iter().map(|it| (name(it.root), it.fits.at_least, it.fits.at_most)).collect()
}

#[test]
fn the_scarcest_class_decides() {
    let cloud = Cloud::new(
        "cn1; VCPU:8 MEMORY_MB:64; HW_X
         cn2; VCPU:9 MEMORY_MB:16; HW_X
         cn3; VCPU:100 MEMORY_MB:4
         cn4; VCPU:100",
    );
    let found = counted(&cloud, "resources=VCPU:2,MEMORY_MB:8");
    assert_eq!(found.total, Bounds::exactly(6));
    assert_eq!(found.fitting, 2);
    assert_eq!(
        by_host(&cloud.world(), &found),
        [("cn1".to_owned(), 4, 4), ("cn2".to_owned(), 2, 2)]
    );
    assert_eq!(total(&cloud, "resources=VCPU:2&resources1=VCPU:3&required1=HW_X"), (2, 2));
    assert_eq!(total(&cloud, "resources=VCPU:2&required=!HW_X"), (100, 100));
    assert_eq!(total(&cloud, "resources1=VCPU:2&resources2=VCPU:2&group_policy=isolate"), (0, 0));
}

#[test]
fn each_request_may_take_no_more_than_max_unit_but_all_together_may() {
    let cloud = Cloud::new("cn1; VCPU:16").with("cn1", "VCPU", |row| {
        row.terms.max_unit = 4;
        row.terms.reserved = 1;
        row.terms.allocation_ratio = 2.0;
        row.used = 1;
    });
    assert_eq!(total(&cloud, "resources=VCPU:4"), (7, 7));
    assert_eq!(total(&cloud, "resources=VCPU:5"), (0, 0));
    assert_eq!(total(&cloud, "resources1=VCPU:3&resources2=VCPU:2"), (0, 0));
}

#[test]
fn pieces_of_a_tree_are_counted_as_pieces() {
    let cloud = Cloud::new(
        "cn
         n0 < cn; VCPU:6
         n1 < cn; VCPU:6",
    );
    assert_eq!(total(&cloud, "resources1=VCPU:4&resources2=VCPU:4"), (1, 1));
    assert_eq!(total(&cloud, "resources=VCPU:4"), (2, 2));
    assert_eq!(total(&cloud, "resources1=VCPU:4&resources2=VCPU:2&group_policy=isolate"), (2, 2));
    let cards = Cloud::new(
        "cn
         a < cn; SRIOV_NET_VF:4
         b < cn; SRIOV_NET_VF:4
         c < cn; SRIOV_NET_VF:4",
    );
    let query = "resources1=SRIOV_NET_VF:1&resources2=SRIOV_NET_VF:1&group_policy=isolate";
    assert_eq!(total(&cards, query), (6, 6));
}

#[test]
fn capacity_without_end_is_counted_without_overflow() {
    let endless = |row: &mut InventoryRow| row.terms.allocation_ratio = f64::MAX;
    let cloud = Cloud::new(
        "cn
         n0 < cn; VCPU:6
         n1 < cn; VCPU:6
         other; VCPU:6",
    );
    let cloud = ["n0", "n1", "other"].iter().fold(cloud, |it, name| it.with(name, "VCPU", endless));
    let (at_least, at_most) = total(&cloud, "resources=VCPU:1");
    assert!(at_least > 1 << 62 && at_most == u64::MAX, "{at_least} {at_most}");
    let apart = "resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate";
    assert!(total(&cloud, apart).0 > 1 << 60);
}

#[test]
fn shared_capacity_counts_once() {
    let cloud = Cloud::new(
        "cn1; VCPU:8; ; A
         cn2; VCPU:8; ; A B
         cn3; VCPU:8; ; B
         pool a; DISK_GB:50; MISC_SHARES_VIA_AGGREGATE; A
         pool b; DISK_GB:70; MISC_SHARES_VIA_AGGREGATE; B",
    );
    let found = counted(&cloud, "resources=VCPU:1,DISK_GB:10");
    assert_eq!(found.total, Bounds::exactly(12));
    assert_eq!(
        by_host(&cloud.world(), &found),
        [("cn2".to_owned(), 8, 8), ("cn3".to_owned(), 7, 7), ("cn1".to_owned(), 5, 5)]
    );
    // Without a pool, hosts of its aggregate have no disk.
    let world = cloud.world();
    let mut excluded = Excluded::default();
    excluded.lose(&world, world.provider(crate::search::cloud::uuid("pool a")).unwrap().id());
    let without = fitting(&world, &request("resources=VCPU:1,DISK_GB:10"), &excluded, None);
    assert_eq!(without.total, Bounds::exactly(7));
}

/// A pool is no host, though what it shares can be allocated from it alone.
#[test]
fn a_sharing_provider_alone_is_no_host() {
    let cloud = Cloud::new(
        "cn1; VCPU:8; HW_X; A
         cn2; VCPU:8; HW_X; A
         cn3; VCPU:8; HW_X; A
         pool; VGPU:9; MISC_SHARES_VIA_AGGREGATE HW_X; A
         part < pool; DISK_GB:9; MISC_SHARES_VIA_AGGREGATE
         alone; VGPU:6; MISC_SHARES_VIA_AGGREGATE HW_X",
    );
    for (query, fits, expected) in [
        ("resources=VGPU:3", 5, ["cn1", "cn2", "cn3"].as_slice()),
        ("resources=VGPU:1&resources1=VGPU:2", 5, ["cn1", "cn2", "cn3"].as_slice()),
        ("resources=VGPU:3,VCPU:1", 3, ["cn1", "cn2", "cn3"].as_slice()),
        ("resources=DISK_GB:3", 3, [].as_slice()),
    ] {
        let found = counted(&cloud, query);
        assert_eq!(
            (found.total, found.fitting),
            (Bounds::exactly(fits), expected.len()),
            "{query}"
        );
        let hosts = by_host(&cloud.world(), &found);
        let mut hosts: Vec<&str> = hosts.iter().map(|(name, ..)| name.as_str()).collect();
        hosts.sort_unstable();
        assert_eq!(hosts, expected, "{query}");
    }
    let world = cloud.world();
    let by = GroupBy::TraitPrefix("HW_".to_owned());
    let found = fitting(&world, &request("resources=VGPU:3"), &Excluded::default(), Some(&by));
    let group = &found.groups[0];
    assert_eq!((group.hosts, group.fitting, group.fits), (3, 3, Bounds::exactly(5)));
}

#[test]
fn hosts_are_grouped_by_traits_and_aggregates() {
    let cloud = Cloud::new(
        "cn1; VCPU:8; HW_X HW_Y; A
         cn2; VCPU:4; HW_Y; A B
         cn3; VCPU:0; HW_Z
         cn4; VCPU:2",
    );
    let of = |by: &GroupBy| {
        let world = cloud.world();
        let found = fitting(&world, &request("resources=VCPU:2"), &Excluded::default(), Some(by));
        let groups = found.groups.into_iter();
        groups.map(|it| (it.group, it.hosts, it.fitting, it.fits.at_least)).collect::<Vec<_>>()
    };
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(
        of(&GroupBy::TraitPrefix("HW_".to_owned())),
        [
            (some("HW_Y"), 2, 2, 6),
            (some("HW_X"), 1, 1, 4),
            (None, 1, 1, 1),
            (some("HW_Z"), 1, 0, 0)
        ]
    );
    let uuid = |name: &str| Some(crate::search::cloud::uuid(name).to_string());
    assert_eq!(
        of(&GroupBy::Aggregate),
        [(uuid("A"), 2, 2, 6), (uuid("B"), 1, 1, 2), (None, 2, 1, 1)]
    );
}

#[test]
fn leftover_capacity_is_unusable() {
    let cloud = Cloud::new(
        "cn1; VCPU:7 MEMORY_MB:64
         cn2; VCPU:3 MEMORY_MB:64
         cn3; VCPU:8; HW_X",
    );
    let world = cloud.world();
    let excluded = Excluded::default();
    let (large, small) =
        (request("resources=VCPU:4,MEMORY_MB:8&required=!HW_X"), request("resources=VCPU:2"));
    let parameters = [&large, &small].map(|request| CountParameters {
        request,
        excluded: &excluded,
        names_max: 2,
        by: None,
    });
    let found = fragmentation(&world, &parameters, || |_| false).unwrap();
    let of = |it: &Fragment| (world.name_of_class(it.class).to_owned(), it.free, it.unusable);
    let some = |class: &str, free, unusable| (class.to_owned(), free, unusable);
    let first = &found.requests[0];
    assert_eq!((first.fits, first.in_one_piece), (Bounds::exactly(1), 4));
    let classes: Vec<_> = first.classes.iter().map(|it| of(&it.fragment)).collect();
    assert_eq!(classes, [some("VCPU", 18, 14), some("MEMORY_MB", 128, 120)]);
    let hosts: Vec<_> = first
        .hosts
        .iter()
        .map(|it| {
            let name = world.provider_by_id(it.root).unwrap().name().to_owned();
            let short: Vec<&str> = it.short_of.iter().map(|id| world.name_of_class(*id)).collect();
            (name, it.classes.iter().map(of).collect::<Vec<_>>(), short.join(" "))
        })
        .collect();
    assert_eq!(
        hosts,
        [
            (
                "cn2".to_owned(),
                vec![some("VCPU", 3, 3), some("MEMORY_MB", 64, 64)],
                "VCPU".to_owned()
            ),
            (
                "cn1".to_owned(),
                vec![some("VCPU", 7, 3), some("MEMORY_MB", 64, 56)],
                "VCPU".to_owned()
            ),
        ]
    );
    assert_eq!(first.host_count, 3);
    // One VCPU of cn1 and one of cn2 is left even by the small ones; memory only by the large one.
    assert!(found.for_all.is_complete);
    let for_all: Vec<_> = found.for_all.classes.iter().map(of).collect();
    assert_eq!(for_all, [some("VCPU", 18, 2), some("MEMORY_MB", 128, 120)]);
}

/// Also those of which no host has any, or of which there is nothing at all.
#[test]
fn each_requested_class_is_marked_as_usable_or_not() {
    let cloud = Cloud::new(
        "cn1; VCPU:8; ; A
         pool; DISK_GB:9; MISC_SHARES_VIA_AGGREGATE; A",
    );
    for world in [cloud.world(), Cloud::new("").world()] {
        let (one, two) = (request("resources=VCPU:1,DISK_GB:1"), request("resources=VGPU:1"));
        let excluded = Excluded::default();
        let parameters =
            |request| CountParameters { request, excluded: &excluded, names_max: 0, by: None };
        let parameters = [parameters(&one), parameters(&two)];
        let found = fragmentation(&world, &parameters, || |_| false).unwrap();
        let classes = found.for_all.classes.iter().map(|it| world.name_of_class(it.class));
        assert_eq!(classes.collect::<BTreeSet<_>>(), BTreeSet::from(["VCPU", "DISK_GB", "VGPU"]));
        assert!(found.for_all.is_complete);
    }
}

#[test]
fn unexamined_hosts_are_not_counted() {
    let lines: Vec<String> = (0..600).map(|host| format!("cn{host}; VCPU:3")).collect();
    let world = Cloud::new(&lines.join("\n")).world();
    let excluded = Excluded::default();
    let requested = request("resources=VCPU:2");
    let parameters =
        CountParameters { request: &requested, excluded: &excluded, names_max: 1000, by: None };
    // Each request ends after some blocks of 256 hosts, the first before the second.
    let blocks = Cell::new(0);
    let budget = || {
        blocks.set(blocks.get() + 1);
        let mut left = blocks.get();
        move |_| {
            left -= 1;
            left == 0
        }
    };
    let found = fragmentation(&world, &[parameters; 3], budget).unwrap();
    let of = |nth: usize| {
        let it = &found.requests[nth];
        assert!(it.hosts.iter().all(|host| host.fits == Bounds::exactly(1)));
        (it.is_complete, it.fits.at_least, it.hosts.len(), it.host_count)
    };
    assert_eq!(of(0), (false, 256, 256, 256));
    assert_eq!(of(1), (false, 512, 512, 512));
    assert_eq!(of(2), (true, 600, 600, 600));
    assert!(!found.for_all.is_complete);
    let [Fragment { free, unusable, .. }] = found.for_all.classes[..] else { panic!() };
    assert_eq!((free, unusable), (3 * 256, 256));
}

#[test]
fn a_count_ends_when_the_work_is_enough() {
    let world = Cloud::new("cn1; VCPU:8").world();
    let excluded = Excluded::default();
    let requested = request("resources=VCPU:1");
    let parameters =
        CountParameters { request: &requested, excluded: &excluded, names_max: 1, by: None };
    assert!(fit(&world, &parameters, |_| true).unwrap().is_complete, "one block is all there is");
}

type Allocations = BTreeMap<(Uuid, ClassId), i64>;

/// The greatest number of candidates that fit together; `None` if that takes too long to find out.
struct Most<'m> {
    candidates: &'m [Allocations],
    known: HashMap<(Vec<i64>, usize), u64>,
    pools: Vec<(Uuid, ClassId)>,
    steps: usize,
}

impl Most<'_> {
    /// Finds the maximum, with these amounts left in each pool, and candidates from a position on.
    fn find(&mut self, left: &[i64], from: usize) -> Option<u64> {
        let Some(candidate) = self.candidates.get(from) else { return Some(0) };
        let key = (left.to_vec(), from);
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        self.steps = self.steps.checked_sub(1)?;
        let mut best = self.find(left, from + 1)?;
        let mut less = left.to_vec();
        for (pool, amount) in candidate {
            less[self.pools.iter().position(|it| it == pool).unwrap()] -= amount;
        }
        if less.iter().all(|left| *left >= 0) {
            best = best.max(1 + self.find(&less, from)?);
        }
        self.known.insert(key, best);
        Some(best)
    }
}

/// Returns the maximum number of claims of these candidates.
fn most(rows: &[ProviderRow], candidates: BTreeSet<Allocations>) -> Option<u64> {
    let candidates: Vec<Allocations> = candidates.into_iter().collect();
    let pools: BTreeSet<(Uuid, ClassId)> =
        candidates.iter().flat_map(BTreeMap::keys).copied().collect();
    let pools: Vec<(Uuid, ClassId)> = pools.into_iter().collect();
    let left = |(uuid, class): &(Uuid, ClassId)| {
        let row = rows.iter().find(|row| row.uuid == *uuid).unwrap();
        let row = row.inventories.iter().find(|it| it.class == *class).unwrap();
        row.terms.capacity() - row.used
    };
    let left: Vec<i64> = pools.iter().map(left).collect();
    Most { candidates: &candidates, known: HashMap::new(), pools, steps: 20_000 }.find(&left, 0)
}

/// Returns the number of claims at some anchors.
fn claimed(
    rows: &[ProviderRow],
    request: &Request,
    counts: impl Fn(ProviderId) -> bool,
) -> Option<u64> {
    let catalogue = generate::catalogue();
    let oracle = Oracle { catalogue: &catalogue, rows };
    let candidates = oracle.candidates_at(request, counts).ok()?;
    most(rows, candidates.into_iter().map(|it| it.allocations).collect())
}

/// Claims one candidate of a host after the other, until there is none left.
fn claimed_one_by_one(rows: &[ProviderRow], request: &Request, host: ProviderId) -> Option<u64> {
    let catalogue = generate::catalogue();
    let mut rows = rows.to_vec();
    let mut number = 0;
    loop {
        let oracle = Oracle { catalogue: &catalogue, rows: &rows };
        let candidates = oracle.candidates_at(request, |anchor| anchor == host).ok()?;
        let Some(candidate) = candidates.into_iter().next() else { return Some(number) };
        for ((uuid, class), amount) in candidate.allocations {
            let row = rows.iter_mut().find(|row| row.uuid == uuid).unwrap();
            row.inventories.iter_mut().find(|it| it.class == class).unwrap().used += amount;
        }
        number += 1;
    }
}

fn takes_something(request: &Request) -> bool {
    request.groups.iter().any(|group| !group.resources.is_empty())
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn on_hosts_of_one_provider_the_number_is_what_can_be_claimed(
        rows in generate::flat_rows(12),
        request in generate::request(),
    ) {
        prop_assume!(takes_something(&request));
        let world = World::build(generate::catalogue(), rows.clone());
        let excluded = Excluded::default();
        let parameters = CountParameters { request: &request, excluded: &excluded, names_max: 100, by: None };
        let Ok(found) = fit(&world, &parameters, |_| false) else { return Ok(()) };
        let mut sum = 0;
        for id in rows.iter().map(|row| row.id) {
            let Some(number) = claimed_one_by_one(&rows, &request, id) else { return Ok(()) };
            sum += number;
            let host = found.hosts.iter().find(|it| it.root == id);
            prop_assert_eq!(host.map_or(0, |it| it.fits.at_least), number, "{:?}", id);
        }
        prop_assert_eq!(found.total, Bounds::exactly(sum));
        prop_assert!(found.is_complete);
    }

    #[test]
    fn in_trees_the_number_is_between_the_bounds(
        rows in generate::rows(7),
        request in generate::request(),
    ) {
        prop_assume!(countable(&rows, &request) && takes_something(&request));
        let world = World::build(generate::catalogue(), rows.clone());
        let excluded = Excluded::default();
        let by = GroupBy::Aggregate;
        let parameters = CountParameters { request: &request, excluded: &excluded, names_max: 100, by: Some(&by) };
        let Ok(found) = fit(&world, &parameters, |_| false) else { return Ok(()) };
        prop_assert!(found.is_complete);
        let Some(number) = claimed(&rows, &request, |_| true) else { return Ok(()) };
        let Bounds { at_least, at_most } = found.total;
        prop_assert!(at_least <= number && number <= at_most, "{} in {:?}", number, found.total);
        prop_assert!(number == 0 || at_least > 0, "{} fit, and none was found", number);
        let all: BTreeSet<ProviderId> = hosts(&world).map(|root| root.id()).collect();
        prop_assert!(found.hosts.iter().all(|it| all.contains(&it.root)), "no host: {:?}", found.hosts);
        for id in all {
            let Some(number) = claimed(&rows, &request, |anchor| anchor == id) else { continue };
            let host = found.hosts.iter().find(|it| it.root == id);
            let Bounds { at_least, at_most } = host.map_or(Bounds::exactly(0), |it| it.fits);
            prop_assert!(at_least <= number && number <= at_most, "{} at {:?}", number, host);
        }
        for group in &found.groups {
            let is_member = |anchor: ProviderId| {
                let aggregates = world.provider_by_id(anchor).unwrap().aggregates();
                match &group.group {
                    Some(name) => aggregates.iter().any(|it| it.to_string() == *name),
                    None => aggregates.is_empty(),
                }
            };
            let Some(number) = claimed(&rows, &request, is_member) else { continue };
            let Bounds { at_least, at_most } = group.fits;
            prop_assert!(at_least <= number && number <= at_most, "{} in {:?}", number, group);
        }
    }

    #[test]
    fn lost_capacity_does_not_count(
        rows in generate::rows(7),
        request in generate::request(),
        nth in any::<prop::sample::Index>(),
    ) {
        prop_assume!(countable(&rows, &request) && takes_something(&request));
        let names_nothing_lost = request.groups.iter().all(|group| group.in_tree.is_none());
        prop_assume!(names_nothing_lost);
        let world = World::build(generate::catalogue(), rows.clone());
        let lost = rows[nth.index(rows.len())].root;
        let mut excluded = Excluded::default();
        excluded.lose(&world, lost);
        let parameters = CountParameters { request: &request, excluded: &excluded, names_max: 100, by: None };
        let Ok(found) = fit(&world, &parameters, |_| false) else { return Ok(()) };
        let rest: Vec<ProviderRow> = rows.into_iter().filter(|row| row.root != lost).collect();
        let Some(number) = claimed(&rest, &request, |_| true) else { return Ok(()) };
        let Bounds { at_least, at_most } = found.total;
        prop_assert!(at_least <= number && number <= at_most, "{} in {:?}", number, found.total);
    }
}

/// Most of the bounds meet: if these numbers fall, a bound has become worse.
#[test]
fn bounds_mostly_meet() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut exact, mut all) = (0, 0);
    while all < 500 {
        let rows = generate::rows(7).new_tree(&mut runner).unwrap().current();
        let request = generate::request().new_tree(&mut runner).unwrap().current();
        let world = World::build(generate::catalogue(), rows);
        let excluded = Excluded::default();
        let parameters =
            CountParameters { request: &request, excluded: &excluded, names_max: 1, by: None };
        let Ok(found) = fit(&world, &parameters, |_| false) else { continue };
        if found.total.at_most > 0 && takes_something(&request) {
            all += 1;
            exact += usize::from(found.total.is_exact());
        }
    }
    assert!(exact * 100 >= all * 80, "{exact} of {all}");
}
