//! The conditions that rule out hosts are named, with exact counts.

use std::collections::BTreeSet;

use berth::model::ProviderId;
use berth::model::provider::ProviderRow;
use berth::search::Request;
use berth::search::explain::check_names;
use berth::search::funnel::{Condition, Funnel, HostChecks, funnel, hosts, without};
use berth::world::World;
use proptest::prelude::*;

use crate::search::cloud::{Cloud, request};
use crate::search::generate;
use crate::search::oracle::{Candidate, Oracle};
use crate::search::properties::{cases, countable};

fn cloud() -> Cloud {
    Cloud::new(
        "cn1; VCPU:8 MEMORY_MB:64; HW_X; A
         cn2; VCPU:8; HW_Y; B
         n21 < cn2; MEMORY_MB:64",
    )
}

fn counted(cloud: &Cloud, query: &str) -> Funnel<Condition> {
    funnel(&cloud.world(), &request(query), |_| false)
}

/// Each condition that rules out hosts: how many, and how many of them it alone rules out.
fn counts(cloud: &Cloud, query: &str) -> Vec<(String, usize, usize)> {
    let found = counted(cloud, query).conditions.into_iter().filter(|it| it.hosts > 0);
    found.map(|it| (it.condition.to_string(), it.hosts, it.only)).collect()
}

#[test]
fn every_condition_can_rule_out_hosts() {
    let cloud = cloud();
    let uuid = |name: &str| crate::search::cloud::uuid(name);
    for (query, expected) in [
        ("resources1=VCPU:9", vec![("resources1=VCPU:9".to_owned(), 2, 2)]),
        ("resources1=VCPU:1,VGPU:1", vec![("resources1=VGPU:1".to_owned(), 2, 2)]),
        (
            "resources=VCPU:1,MEMORY_MB:1&member_of=B",
            vec![(format!("member_of=in:{}", uuid("B")), 1, 1)],
        ),
        (
            "resources1=VCPU:1&member_of1=!in:A,B",
            vec![
                (format!("member_of1=!{}", uuid("A")), 1, 1),
                (format!("member_of1=!{}", uuid("B")), 1, 1),
            ],
        ),
        (
            "resources1=VCPU:1&required1=HW_X,HW_Y",
            vec![("required1=HW_X".to_owned(), 1, 1), ("required1=HW_Y".to_owned(), 1, 1)],
        ),
        (
            "resources=VCPU:1&required=!HW_X,!HW_Y",
            vec![("required=!HW_X".to_owned(), 1, 1), ("required=!HW_Y".to_owned(), 1, 1)],
        ),
        (
            "resources1=VCPU:1&required1=HW_X&in_tree1=cn2",
            vec![("required1=HW_X".to_owned(), 1, 1), (format!("in_tree1={}", uuid("cn2")), 1, 1)],
        ),
        (
            "resources1=VCPU:9&required1=HW_X&root_required=HW_Y",
            vec![
                ("resources1=VCPU:9".to_owned(), 2, 0),
                ("required1=HW_X".to_owned(), 1, 0),
                ("root_required=HW_Y".to_owned(), 1, 0),
            ],
        ),
        (
            "resources1=VCPU:1,MEMORY_MB:1&root_required=!HW_X",
            vec![
                ("root_required=!HW_X".to_owned(), 1, 1),
                ("all conditions of group '1' at once".to_owned(), 1, 0),
            ],
        ),
        ("resources1=VCPU:5&resources2=VCPU:5", vec![("all groups at once".to_owned(), 2, 0)]),
        (
            "resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate",
            vec![("group_policy=isolate".to_owned(), 2, 2)],
        ),
        (
            "resources1=VCPU:1&resources2=MEMORY_MB:1&required2=!HW_X&same_subtree=1,2",
            vec![("required2=!HW_X".to_owned(), 1, 1)],
        ),
        ("old&resources=VCPU:1,MEMORY_MB:1", vec![("one provider of each tree".to_owned(), 1, 1)]),
        ("resources=VCPU:1,MEMORY_MB:1", vec![]),
    ] {
        assert_eq!(counts(&cloud, query), expected, "{query}");
    }
}

#[test]
fn siblings_are_no_subtree() {
    let cloud = Cloud::new(
        "cn
         a < cn; VCPU:8
         b < cn; MEMORY_MB:64",
    );
    assert_eq!(
        counts(&cloud, "resources1=VCPU:1&resources2=MEMORY_MB:1&same_subtree=1,2"),
        [("same_subtree".to_owned(), 1, 1)]
    );
}

#[test]
fn conditions_met_by_different_providers_may_be_dropped() {
    let cloud = Cloud::new(
        "cn; ; HW_X
         numa < cn; VCPU:8",
    );
    let found = counted(&cloud, "resources=VCPU:4&required=HW_X");
    let only: Vec<_> = found.conditions.iter().map(|it| (it.hosts, it.only)).collect();
    // Without its only class, there would be no group.
    assert_eq!(only, [(0, 0), (0, 1), (1, 0)]);
    assert_eq!((found.fitting, found.near), (0, 1));
    let [near] = found.near_misses.as_slice() else { panic!("{found:?}") };
    assert_eq!((near.host.as_str(), near.condition, near.missing), ("cn", 1, None));
}

#[test]
fn one_amount_may_be_what_several_conditions_are_about() {
    let cloud = Cloud::new(
        "cn; MEMORY_MB:64
         numa < cn; VCPU:8; HW_X HW_Y",
    );
    for (query, expected) in [
        // Forbidden is what the provider has that has the cores.
        ("resources=VCPU:1,MEMORY_MB:1&required=!HW_X,!HW_Y", [(0, 1), (0, 0), (1, 0), (1, 0)]),
        ("resources=VCPU:9,MEMORY_MB:1&required=!HW_X,!HW_Z", [(1, 1), (0, 0), (1, 0), (0, 0)]),
    ] {
        let found = counted(&cloud, query);
        let counts: Vec<_> = found.conditions.iter().map(|it| (it.hosts, it.only)).collect();
        assert_eq!(counts.first_chunk(), Some(&expected), "{query}");
        assert_eq!((found.fitting, found.near), (0, 1), "{query}");
    }
}

#[test]
fn a_group_without_resources_may_be_in_any_tree() {
    let cloud = Cloud::new(
        "cn1; VCPU:8; HW_X
         cn2; VCPU:8",
    );
    let found = counted(&cloud, "resources=VCPU:1&resources1=VCPU:1&required1=HW_X&in_tree1=cn2");
    let counts: Vec<_> = found.conditions.iter().map(|it| (it.hosts, it.only)).collect();
    // cn1 without the amount of group 1, or without the tree, and cn2 without the trait.
    assert_eq!(counts[..4], [(0, 0), (0, 1), (1, 1), (1, 1)]);
    assert_eq!((found.fitting, found.near), (0, 2));
}

#[test]
fn missing_amounts_are_named() {
    let cloud = cloud().with("cn1", "VCPU", |row| row.used = 5);
    let found = counted(&cloud, "resources=VCPU:7,VGPU:1");
    let [cores, vgpu, _] = found.conditions.as_slice() else { panic!("{found:?}") };
    assert_eq!((cores.hosts, cores.only, cores.absent), (1, 0, 0));
    assert_eq!((vgpu.hosts, vgpu.only, vgpu.absent), (2, 1, 2));
    assert_eq!(vgpu.most, None);
    let most = cores.most.as_ref().unwrap();
    assert_eq!(most.host, "cn1");
    assert_eq!((most.shortage.available, most.shortage.capacity, most.shortage.used), (3, 8, 5));
    assert_eq!((found.hosts, found.fitting, found.near), (2, 0, 1));
    assert_eq!(
        (found.near_misses[0].host.as_str(), found.near_misses[0].missing),
        ("cn2", Some(1))
    );
    assert_eq!(
        found.to_string(),
        "0 of 2 hosts fit; resources=VCPU:7 rules out 1, 0 would fit without it (at most 3 on cn1); \
         resources=VGPU:1 rules out 2, 1 would fit without it"
    );
}

#[test]
fn shared_capacity_counts_for_a_host() {
    let shares = "MISC_SHARES_VIA_AGGREGATE";
    let cloud = Cloud::new(&format!(
        "cn1; VCPU:8; HW_X; A
         cn2; VCPU:8; HW_X
         pool; DISK_GB:100; {shares}; A"
    ));
    // The pool is no host.
    assert_eq!(
        counts(&cloud, "resources=VCPU:1,DISK_GB:10"),
        [("resources=DISK_GB:10".to_owned(), 1, 1)]
    );
    assert_eq!(counted(&cloud, "resources=VCPU:1,DISK_GB:10").fitting, 1);
    assert_eq!(
        counts(&cloud, "resources=VCPU:1,DISK_GB:101").first(),
        Some(&("resources=DISK_GB:101".to_owned(), 2, 2))
    );
}

/// Returns whether a host has a candidate, as far as the oracle shows it: a candidate that uses only shared
/// providers may belong to other hosts only.
fn fits(
    rows: &[ProviderRow],
    oracle: &Oracle<'_>,
    request: &Request,
    root: ProviderId,
) -> Option<bool> {
    let candidates: BTreeSet<Candidate> = oracle.candidates(request).unwrap_or_default();
    let mut answer = Some(false);
    for candidate in candidates {
        let used = candidate.allocations.keys().map(|(uuid, _)| uuid);
        let used = used.chain(candidate.mappings.values().flatten());
        let used: Vec<&ProviderRow> =
            used.map(|uuid| rows.iter().find(|row| row.uuid == *uuid).unwrap()).collect();
        let is_own = |row: &ProviderRow| row.root == root;
        let is_lent = |row: &ProviderRow| oracle.shares(row.id) && !row.aggregates.is_empty();
        if used.iter().any(|row| is_own(row) && !is_lent(row)) {
            return Some(true);
        }
        let may_use = |row: &ProviderRow| {
            is_own(row) || is_lent(row) && oracle.anchors(row.id).contains(&root)
        };
        if used.iter().all(|row| may_use(row)) {
            answer = None;
        }
    }
    answer
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn the_counts_are_those_of_the_oracle(rows in generate::rows(7), request in generate::request()) {
        prop_assume!(countable(&rows, &request) && !request.groups.is_empty());
        let catalogue = generate::catalogue();
        let world = World::build(catalogue.clone(), rows.clone());
        let oracle = Oracle { catalogue: &catalogue, rows: &rows };
        let mut checks = HostChecks::new(&world, &request);
        let conditions = checks.conditions().to_vec();
        for root in hosts(&world) {
            let failing = checks.failing(&root);
            prop_assert!(failing.is_decided);
            // Names that do not exist are refused before.
            let is_known = check_names(&world, &request).is_ok();
            if let Some(fits) = fits(&rows, &oracle, &request, root.id()).filter(|_| is_known) {
                prop_assert_eq!(failing.conditions.is_empty(), fits, "{:?}: {:?}", root.name(), failing);
            }
            let dispensable = checks.dispensable(&root, &failing);
            // A group without resources may have its provider in any tree.
            let has_resources = request.groups.iter().all(|group| !group.resources.is_empty());
            for (position, condition) in conditions.iter().enumerate() {
                let rest = without(&request, condition);
                // A condition that is given twice cannot be dropped once.
                let combines = matches!(condition, Condition::Group(_) | Condition::Merge)
                    || conditions.iter().filter(|it| *it == condition).count() > 1;
                if failing.conditions.is_empty() || !has_resources || !is_known || combines || rest.groups.len() < request.groups.len() {
                    continue;
                }
                if let Some(fits) = fits(&rows, &oracle, &rest, root.id()) {
                    prop_assert_eq!(dispensable.contains(&position), fits, "{} of {:?}", condition, failing);
                }
            }
            for failed in &failing.conditions {
                let condition = &conditions[failed.condition];
                let rest = without(&request, condition);
                let stands_for_several = matches!(condition, Condition::Group(_) | Condition::Merge);
                if rest.groups.is_empty() || stands_for_several {
                    continue;
                }
                if let Some(fits) = fits(&rows, &oracle, &rest, root.id()) {
                    prop_assert_eq!(checks.fits_without(&root, failed.condition), Some(fits), "{}", condition);
                }
            }
        }
    }
}
