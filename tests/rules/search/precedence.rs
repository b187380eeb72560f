//! An unknown name is an error unless something before it makes the answer empty.

use berth::search::Unknown;

use crate::search::cloud::Cloud;

fn cloud() -> Cloud {
    Cloud::new("cn1; VCPU:8; HW_X; A\n cn2; VCPU:8 DISK_GB:10; HW_Y; B")
}

fn is_empty(query: &str) {
    assert_eq!(cloud().ask(query), Ok((Vec::new(), Vec::new())), "{query}");
}

fn is_unknown(query: &str, unknown: Unknown) {
    assert_eq!(cloud().ask(query), Err(unknown), "{query}");
}

fn class(name: &str) -> Unknown {
    Unknown::Class(name.to_owned())
}

fn traits(names: &[&str]) -> Unknown {
    Unknown::Traits(names.iter().map(|&name| name.to_owned()).collect())
}

#[test]
fn root_required_comes_before_all_groups() {
    is_unknown(
        "resources=NO_CLASS:1&root_required=NO_TRAIT",
        Unknown::RootTraits(vec!["NO_TRAIT".to_owned()]),
    );
    is_empty("resources=NO_CLASS:1&root_required=HW_Z");
    is_empty("resources=NO_CLASS:1&root_required=HW_X,!HW_X");
    is_unknown("resources=NO_CLASS:1&root_required=HW_X", class("NO_CLASS"));
}

#[test]
fn classes_of_a_group_come_before_its_aggregates() {
    is_unknown("resources=NO_CLASS:1&member_of=nobody", class("NO_CLASS"));
    is_unknown("resources=VCPU:1,NO_CLASS:1&member_of=nobody", class("NO_CLASS"));
}

#[test]
fn aggregates_of_a_group_come_before_its_traits() {
    is_empty("resources=VCPU:1&member_of=nobody&required=NO_TRAIT");
    is_empty("resources=VCPU:1&member_of=A&member_of=B&required=NO_TRAIT");
    is_unknown("resources=VCPU:1&member_of=A&required=NO_TRAIT", traits(&["NO_TRAIT"]));
    is_unknown("resources=VCPU:1&member_of=!nobody&required=NO_TRAIT", traits(&["NO_TRAIT"]));
}

#[test]
fn traits_of_a_group_come_before_its_tree_and_its_capacity() {
    is_unknown("resources=VCPU:1&required=NO_TRAIT&in_tree=nowhere", traits(&["NO_TRAIT"]));
    is_unknown("resources=VCPU:100&required=!NO_TRAIT", traits(&["NO_TRAIT"]));
    is_unknown("resources=VCPU:1&required=NO_B,!NO_A,HW_X", traits(&["NO_A", "NO_B"]));
}

#[test]
fn a_group_that_finds_nothing_hides_the_names_of_later_groups() {
    let later = "&resources2=VCPU:1&required2=NO_TRAIT&group_policy=none";
    is_unknown(&format!("resources1=VCPU:1{later}"), traits(&["NO_TRAIT"]));
    for nothing in [
        "resources1=VCPU:100",
        "resources1=VGPU:1",
        "resources1=VCPU:1&required1=HW_Z",
        "resources1=VCPU:1&member_of1=nobody",
        "resources1=VCPU:1&in_tree1=nowhere",
        "resources1=DISK_GB:1&in_tree1=cn1",
        "resources1=DISK_GB:1&required1=!HW_Y",
        "resources1=DISK_GB:1&root_required=HW_X",
        "resources=VCPU:1,DISK_GB:1&required=HW_X",
        "resources=DISK_GB:1&member_of=A",
    ] {
        is_empty(&format!("{nothing}{later}"));
    }
}

#[test]
fn a_later_group_that_finds_nothing_hides_no_earlier_name() {
    is_unknown("resources1=NO_CLASS:1&resources2=VCPU:100&group_policy=none", class("NO_CLASS"));
}

#[test]
fn groups_that_find_something_each_but_nothing_together_hide_nothing() {
    // VCPU in the tree of cn1 and disk in that of cn2: only the merge would find out.
    is_unknown(
        "resources1=VCPU:1&required1=HW_X&resources2=DISK_GB:1&resources3=NO_CLASS:1\
         &group_policy=none",
        class("NO_CLASS"),
    );
}
