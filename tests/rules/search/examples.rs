//! Worked examples of the rules, observed on the reference where it is right.

use crate::search::cloud::Cloud;

const NONE: [&str; 0] = [];

/// Two hosts and a disk that both can use.
pub(crate) fn shared_disk() -> Cloud {
    Cloud::new(
        "cn1; VCPU:8; ; A
         cn2; VCPU:8; ; A
         ss1; DISK_GB:1000; MISC_SHARES_VIA_AGGREGATE; A",
    )
}

/// Hosts with local disk and their processors in a child, and a shared disk.
fn spanning() -> Cloud {
    Cloud::new(
        "cn1; MEMORY_MB:1024 DISK_GB:100; ; A B
         n11 < cn1; VCPU:8
         cn2; MEMORY_MB:1024 DISK_GB:100; ; A
         n21 < cn2; VCPU:8; ; B
         ss1; DISK_GB:1000; MISC_SHARES_VIA_AGGREGATE; A",
    )
}

#[test]
fn e1_a_shared_disk_goes_with_every_host() {
    let cloud = shared_disk();
    let both = ["cn1:VCPU:1 ss1:DISK_GB:10", "cn2:VCPU:1 ss1:DISK_GB:10"];
    assert_eq!(cloud.candidates("resources=VCPU:1,DISK_GB:10"), both);
    let apart = "resources1=DISK_GB:10&resources2=VCPU:1&group_policy=isolate";
    assert_eq!(cloud.candidates(apart), both);
}

#[test]
fn e1_a_shared_disk_alone_is_one_candidate() {
    assert_eq!(shared_disk().candidates("resources=DISK_GB:10"), ["ss1:DISK_GB:10"]);
    assert_eq!(shared_disk().candidates("resources1=DISK_GB:10"), ["ss1:DISK_GB:10"]);
}

#[test]
fn e2_an_aggregate_of_the_root_spans_its_tree() {
    let cloud = spanning();
    let all = [
        "cn1:DISK_GB:10 n11:VCPU:1",
        "cn2:DISK_GB:10 n21:VCPU:1",
        "n11:VCPU:1 ss1:DISK_GB:10",
        "n21:VCPU:1 ss1:DISK_GB:10",
    ];
    let query = "resources=VCPU:1,DISK_GB:10";
    assert_eq!(cloud.candidates(query), all);
    assert_eq!(cloud.candidates(&format!("{query}&member_of=A")), all);
    // B on cn1 spans; B on n21 does not span cn2; ss1 is not in B.
    assert_eq!(cloud.candidates(&format!("{query}&member_of=B")), ["cn1:DISK_GB:10 n11:VCPU:1"]);
    // The tree of cn1 is out by its root, n21 is out itself.
    assert_eq!(cloud.candidates(&format!("{query}&member_of=!B")), NONE);
}

#[test]
fn e2_an_aggregate_of_the_root_does_not_span_for_a_suffixed_group() {
    let cloud = spanning();
    assert_eq!(cloud.candidates("resources1=VCPU:1&member_of1=A"), NONE);
    assert_eq!(cloud.candidates("resources1=VCPU:1&member_of1=B"), ["n21:VCPU:1"]);
    assert_eq!(cloud.candidates("resources1=VCPU:1&member_of1=!B"), ["n11:VCPU:1"]);
}

#[test]
fn e2_two_halves_of_member_of_are_met_by_one_provider() {
    let cloud = Cloud::new("cn; MEMORY_MB:1024; ; A\n n < cn; VCPU:8; ; B");
    assert_eq!(cloud.candidates("resources=VCPU:1&member_of=A"), ["n:VCPU:1"]);
    assert_eq!(cloud.candidates("resources=VCPU:1&member_of=B"), ["n:VCPU:1"]);
    assert_eq!(cloud.candidates("resources=VCPU:1&member_of=A&member_of=B"), NONE);
    assert_eq!(cloud.candidates("resources=VCPU:1&member_of=in:A,C"), ["n:VCPU:1"]);
}

#[test]
fn e3_in_tree_names_the_tree_by_any_member_and_excludes_sharing() {
    let cloud = spanning();
    let query = "resources=VCPU:1,DISK_GB:10&in_tree=n11";
    assert_eq!(cloud.candidates(query), ["cn1:DISK_GB:10 n11:VCPU:1"]);
}

#[test]
fn e3_in_tree_of_a_suffixed_group_says_where_its_provider_lives() {
    let query = "resources=VCPU:1&resources1=DISK_GB:10&in_tree1=ss1";
    let both = ["n11:VCPU:1 ss1:DISK_GB:10", "n21:VCPU:1 ss1:DISK_GB:10"];
    assert_eq!(spanning().candidates(query), both);
}

#[test]
fn e3_in_tree_of_the_unsuffixed_group_keeps_even_a_sharing_provider_to_its_tree() {
    let cloud = shared_disk();
    assert_eq!(cloud.candidates("resources=DISK_GB:10&in_tree=ss1"), ["ss1:DISK_GB:10"]);
    assert_eq!(cloud.candidates("resources=DISK_GB:10&in_tree=ss1&resources1=VCPU:1"), NONE);
    assert_eq!(cloud.candidates("resources=DISK_GB:10&in_tree=cn1"), NONE);
}

#[test]
fn e4_traits_are_met_by_those_who_contribute_together() {
    let query = "resources=VCPU:1,DISK_GB:10&required=MISC_SHARES_VIA_AGGREGATE";
    let both = ["n11:VCPU:1 ss1:DISK_GB:10", "n21:VCPU:1 ss1:DISK_GB:10"];
    assert_eq!(spanning().candidates(query), both);
    // A trait of a root that supplies nothing does not count, neither way.
    let cloud = Cloud::new("cn; MEMORY_MB:1024; HW_X\n n < cn; VCPU:8; HW_Y");
    assert_eq!(cloud.candidates("resources=VCPU:1&required=HW_X"), NONE);
    assert_eq!(cloud.candidates("resources=VCPU:1&required=!HW_X"), ["n:VCPU:1"]);
    let both = "resources=VCPU:1,MEMORY_MB:1&required=HW_X,HW_Y";
    assert_eq!(cloud.candidates(both), ["cn:MEMORY_MB:1 n:VCPU:1"]);
    assert_eq!(cloud.candidates("resources=VCPU:1&required=in:HW_X,HW_Y"), ["n:VCPU:1"]);
}

/// Two hosts with local disk, and a shared disk.
fn local_disk() -> Cloud {
    Cloud::new(
        "cn1; VCPU:8 DISK_GB:100; ; A
         cn2; VCPU:8 DISK_GB:100; ; A
         ss1; DISK_GB:1000; MISC_SHARES_VIA_AGGREGATE; A",
    )
}

#[test]
fn e5_root_required_looks_at_the_anchor_and_not_at_sharing_providers() {
    let cloud = local_disk();
    let query = "resources=DISK_GB:10&root_required=";
    assert_eq!(
        cloud.candidates(&format!("{query}!MISC_SHARES_VIA_AGGREGATE")),
        ["cn1:DISK_GB:10", "cn2:DISK_GB:10", "ss1:DISK_GB:10"]
    );
    let shares = cloud.candidates(&format!("{query}MISC_SHARES_VIA_AGGREGATE"));
    assert_eq!(shares, ["ss1:DISK_GB:10"]);
}

#[test]
fn e6_an_aggregate_of_a_child_anchors_its_root() {
    let cloud = Cloud::new(
        "ss1; DISK_GB:1000; MISC_SHARES_VIA_AGGREGATE; A
         cn1; MEMORY_MB:1024
         n11 < cn1; VCPU:8; ; A",
    );
    let query = "resources=MEMORY_MB:1,DISK_GB:10";
    assert_eq!(cloud.candidates(query), ["cn1:MEMORY_MB:1 ss1:DISK_GB:10"]);
}

/// Two sharing providers beside a host's child.
fn several() -> Cloud {
    Cloud::new(
        "cn1; MEMORY_MB:1024
         n11 < cn1; VCPU:8; ; A
         ss1; DISK_GB:1000; MISC_SHARES_VIA_AGGREGATE; A
         ss2; DISK_GB:1000 VGPU:4; MISC_SHARES_VIA_AGGREGATE; A",
    )
}

#[test]
fn e7_several_sharing_providers_go_together_without_a_host() {
    let query = "resources=VGPU:1,DISK_GB:10";
    assert_eq!(
        several().candidates(query),
        ["ss1:DISK_GB:10 ss2:VGPU:1", "ss2:DISK_GB:10 ss2:VGPU:1"]
    );
    assert_eq!(several().summarised(query), ["ss1", "ss2"], "the anchor's tree supplies nothing");
}

#[test]
fn e8_a_sharing_provider_is_in_no_subtree_of_another_tree() {
    let cloud = spanning();
    let query = "resources_A=VCPU:1&resources_B=DISK_GB:1&group_policy=none&same_subtree=_A,_B";
    assert_eq!(cloud.candidates(query), ["cn1:DISK_GB:1 n11:VCPU:1", "cn2:DISK_GB:1 n21:VCPU:1"]);
    let query = "resources_A=DISK_GB:1&required_B=MISC_SHARES_VIA_AGGREGATE&group_policy=none\
                 &same_subtree=_A,_B";
    assert_eq!(
        several().mapped(query),
        ["ss1:DISK_GB:1 | _A=ss1 _B=ss1", "ss2:DISK_GB:1 | _A=ss2 _B=ss2"]
    );
}

#[test]
fn e9_before_1_29_no_two_providers_of_a_tree_go_together() {
    let cloud = spanning();
    let query = "old&resources=VCPU:1,DISK_GB:10";
    let both = ["n11:VCPU:1 ss1:DISK_GB:10", "n21:VCPU:1 ss1:DISK_GB:10"];
    assert_eq!(cloud.candidates(query), both);
    assert_eq!(cloud.summarised(query), ["n11", "n21", "ss1"]);
    assert_eq!(cloud.candidates("old&resources=VCPU:1"), ["n11:VCPU:1", "n21:VCPU:1"]);
}

/// A host with memory and two NUMA nodes.
pub(crate) fn two_nodes() -> Cloud {
    Cloud::new("cn; MEMORY_MB:1024\n n0 < cn; VCPU:8\n n1 < cn; VCPU:8")
}

#[test]
fn e10_amounts_of_groups_that_meet_are_added_up() {
    let query = "resources=VCPU:1,MEMORY_MB:10&resources1=VCPU:1&group_policy=none";
    assert_eq!(
        two_nodes().mapped(query),
        [
            "cn:MEMORY_MB:10 n0:VCPU:1 n1:VCPU:1 | =cn,n0 1=n1",
            "cn:MEMORY_MB:10 n0:VCPU:1 n1:VCPU:1 | =cn,n1 1=n0",
            "cn:MEMORY_MB:10 n0:VCPU:2 | =cn,n0 1=n0",
            "cn:MEMORY_MB:10 n1:VCPU:2 | =cn,n1 1=n1",
        ]
    );
}

#[test]
fn e10_the_sum_must_fit_into_what_is_free_and_into_max_unit() {
    let query = "resources1=VGPU:1&resources2=VGPU:1&resources3=VGPU:1&group_policy=none";
    let host = || Cloud::new("cn; VGPU:8");
    assert_eq!(host().candidates(query), ["cn:VGPU:3"]);
    let limited = host().with("cn", "VGPU", |it| it.terms.max_unit = 2);
    assert_eq!(limited.candidates(query), NONE);
    let full = host().with("cn", "VGPU", |it| it.used = 6);
    assert_eq!(full.candidates(query), NONE);
    let nearly = host().with("cn", "VGPU", |it| it.used = 5);
    assert_eq!(nearly.candidates(query), ["cn:VGPU:3"]);
}

#[test]
fn e10_steps_and_least_amounts_hold_for_each_group_and_not_for_the_sum() {
    let cloud = Cloud::new("cn; VGPU:8").with("cn", "VGPU", |it| it.terms.min_unit = 2);
    let two = "resources1=VGPU:2&resources2=VGPU:2&group_policy=none";
    assert_eq!(cloud.candidates(two), ["cn:VGPU:4"]);
    assert_eq!(cloud.candidates("resources1=VGPU:1&resources2=VGPU:2&group_policy=none"), NONE);
}

#[test]
fn e11_isolated_groups_keep_apart_even_without_resources() {
    let cloud = Cloud::new(
        "cn; MEMORY_MB:1024
         pf1 < cn; CUSTOM_VF:8; HW_X
         pf2 < cn; CUSTOM_VF:8",
    );
    let query = "resources_PORT1=CUSTOM_VF:8&required_PORT2=HW_X&same_subtree=_PORT1,_PORT2";
    let none = format!("{query}&group_policy=none");
    assert_eq!(cloud.mapped(&none), ["pf1:CUSTOM_VF:8 | _PORT1=pf1 _PORT2=pf1"]);
    assert_eq!(cloud.mapped(&format!("{query}&group_policy=isolate")), NONE);
    // The unsuffixed group may meet any other.
    let meets = "resources=CUSTOM_VF:4&resources1=CUSTOM_VF:4&required1=HW_X&group_policy=isolate";
    assert_eq!(cloud.candidates(meets), ["pf1:CUSTOM_VF:4 pf2:CUSTOM_VF:4", "pf1:CUSTOM_VF:8"]);
}

#[test]
fn e12_two_subtrees_are_stricter_than_their_union() {
    let cloud = Cloud::new(
        "cn; VCPU:16
         nic1 < cn; ; CUSTOM_NIC
         pf11 < nic1; CUSTOM_VF:4
         pf12 < nic1; CUSTOM_VF:4
         nic2 < cn; ; CUSTOM_NIC
         pf21 < nic2; CUSTOM_VF:4
         pf22 < nic2; CUSTOM_VF:4",
    );
    let query = "resources_COMPUTE=VCPU:1&required_NIC=CUSTOM_NIC&resources_PORT=CUSTOM_VF:1\
                 &group_policy=none";
    let two = format!("{query}&same_subtree=_NIC,_COMPUTE&same_subtree=_NIC,_PORT");
    let one = format!("{query}&same_subtree=_NIC,_COMPUTE,_PORT");
    assert_eq!(
        cloud.mapped(&two),
        [
            "cn:VCPU:1 pf11:CUSTOM_VF:1 | _COMPUTE=cn _NIC=nic1 _PORT=pf11",
            "cn:VCPU:1 pf12:CUSTOM_VF:1 | _COMPUTE=cn _NIC=nic1 _PORT=pf12",
            "cn:VCPU:1 pf21:CUSTOM_VF:1 | _COMPUTE=cn _NIC=nic2 _PORT=pf21",
            "cn:VCPU:1 pf22:CUSTOM_VF:1 | _COMPUTE=cn _NIC=nic2 _PORT=pf22",
        ]
    );
    // The compute group may be the common ancestor of a NIC and a port that are unrelated.
    assert_eq!(cloud.mapped(&one).len(), 8);
}

#[test]
fn a_common_parent_that_serves_no_group_does_not_make_a_subtree() {
    let query = "resources_A=VCPU:1&resources_B=VCPU:1&group_policy=isolate";
    assert_eq!(two_nodes().candidates(query).len(), 2);
    assert_eq!(two_nodes().candidates(&format!("{query}&same_subtree=_A,_B")), NONE);
}

#[test]
fn summaries_are_of_whole_trees_even_with_a_limit() {
    let cloud = two_nodes();
    assert_eq!(cloud.candidates("resources=VCPU:1&limit=1").len(), 1);
    assert_eq!(cloud.summarised("resources=VCPU:1&limit=1"), ["cn", "n0", "n1"]);
}

#[test]
fn fractions_of_the_ratio_are_cut_off() {
    for (total, ratio, fits) in [(10, 0.29, 2), (100, 0.29, 28), (3, 1.5, 4)] {
        let cloud = Cloud::new(&format!("cn; VCPU:{total}")).with("cn", "VCPU", |it| {
            it.terms.allocation_ratio = ratio;
            it.terms.max_unit = 1000;
        });
        assert_eq!(cloud.candidates(&format!("resources=VCPU:{fits}")).len(), 1);
        assert_eq!(cloud.candidates(&format!("resources=VCPU:{}", fits + 1)), NONE);
    }
}
