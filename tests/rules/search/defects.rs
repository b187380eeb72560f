//! Defects of the reference, which Berth does not have, except for D3.

use crate::search::cloud::Cloud;
use crate::search::examples::{shared_disk, two_nodes};

const NONE: [&str; 0] = [];

#[test]
fn d1_an_unsuffixed_shared_disk_goes_with_every_host_of_a_suffixed_group() {
    // The reference returns one of the two.
    assert_eq!(
        shared_disk().candidates("resources=DISK_GB:10&resources1=VCPU:1"),
        ["cn1:VCPU:1 ss1:DISK_GB:10", "cn2:VCPU:1 ss1:DISK_GB:10"]
    );
}

#[test]
fn d2_amounts_do_not_leak_from_one_candidate_into_another() {
    // Without a policy, or with isolate, the reference returns 2 where it should be 1.
    for policy in ["", "&group_policy=isolate"] {
        let query = format!("resources=VCPU:1,MEMORY_MB:10&resources1=VCPU:1{policy}");
        assert_eq!(
            two_nodes().candidates(&query),
            [
                "cn:MEMORY_MB:10 n0:VCPU:1 n1:VCPU:1",
                "cn:MEMORY_MB:10 n0:VCPU:1 n1:VCPU:1",
                "cn:MEMORY_MB:10 n0:VCPU:2",
                "cn:MEMORY_MB:10 n1:VCPU:2",
            ]
        );
    }
}

#[test]
fn d3_a_group_without_resources_needs_a_positive_condition() {
    // The same as in the reference: no document defines the right result.
    let cloud = Cloud::new("cn; VCPU:8; HW_X; A\n n < cn; ; HW_Y");
    let with = |group: &str| {
        let query = format!("resources_A=VCPU:1&{group}&same_subtree=_A,_B&group_policy=none");
        cloud.mapped(&query)
    };
    assert_eq!(with("required_B=!HW_X"), NONE);
    assert_eq!(with("in_tree_B=cn"), NONE);
    assert_eq!(with("member_of_B=!A"), NONE);
    assert_eq!(with("required_B=HW_Y"), ["cn:VCPU:1 | _A=cn _B=n"]);
    assert_eq!(with("member_of_B=A"), ["cn:VCPU:1 | _A=cn _B=cn"]);
    assert_eq!(with("member_of_B=A&required_B=!HW_X"), NONE);
}

#[test]
fn d3_in_tree_of_a_group_without_resources_only_has_to_exist() {
    let cloud = Cloud::new("cn; VCPU:8; HW_X\n other; VCPU:8");
    let query = "resources_A=VCPU:1&required_B=HW_X&same_subtree=_A,_B&group_policy=none";
    let elsewhere = format!("{query}&in_tree_B=other");
    assert_eq!(cloud.mapped(&elsewhere), ["cn:VCPU:1 | _A=cn _B=cn"]);
    assert_eq!(cloud.mapped(&format!("{query}&in_tree_B=nowhere")), NONE);
}

#[test]
fn d4_a_sharing_provider_need_not_be_a_root() {
    // The reference fails with a KeyError.
    let cloud = Cloud::new(
        "cn; VCPU:8; ; A
         rack
         ss < rack; DISK_GB:1000; MISC_SHARES_VIA_AGGREGATE; A",
    );
    let query = "resources=VCPU:1,DISK_GB:10";
    assert_eq!(cloud.candidates(query), ["cn:VCPU:1 ss:DISK_GB:10"]);
    assert_eq!(cloud.summarised(query), ["cn", "rack", "ss"]);
    let suffixed = cloud.candidates("resources=VCPU:1&resources1=DISK_GB:10");
    assert_eq!(suffixed, ["cn:VCPU:1 ss:DISK_GB:10"]);
}

#[test]
fn d6_the_merged_amount_has_to_fit_beside_what_is_used() {
    let cloud = Cloud::new("cn; VGPU:4").with("cn", "VGPU", |it| it.used = 3);
    assert_eq!(cloud.candidates("resources1=VGPU:1"), ["cn:VGPU:1"]);
    assert_eq!(cloud.candidates("resources1=VGPU:1&resources2=VGPU:1&group_policy=none"), NONE);
}
