//! The condition that leaves nothing is named.

use berth::search::funnel::{Condition, funnel};

use crate::cloud::{Cloud, request};

fn cloud() -> Cloud {
    Cloud::new(
        "cn1; VCPU:8 MEMORY_MB:64; HW_X; A
         cn2; VCPU:8; HW_Y; B
         n21 < cn2; MEMORY_MB:64",
    )
}

fn culprit(query: &str) -> Option<(Option<String>, Condition)> {
    let funnel = funnel(&cloud().world(), &request(query));
    funnel.culprit().map(|(suffix, condition)| (suffix.map(str::to_owned), condition.clone()))
}

#[test]
fn every_condition_can_be_the_one() {
    let of = |suffix: &str, condition| Some((Some(suffix.to_owned()), condition));
    for (query, expected) in [
        ("resources1=VCPU:9", of("1", Condition::Class("VCPU".to_owned()))),
        ("resources1=VCPU:1,VGPU:1", of("1", Condition::Class("VGPU".to_owned()))),
        ("resources1=VCPU:1,MEMORY_MB:1&member_of1=B", of("1", Condition::MemberOf)),
        ("resources1=VCPU:1&member_of1=!in:A,B", of("1", Condition::NotMemberOf)),
        ("resources1=VCPU:1&required1=HW_X,HW_Y", of("1", Condition::Required)),
        ("resources=VCPU:1&required=!HW_X,!HW_Y", of("", Condition::Forbidden)),
        ("resources1=VCPU:1&required1=HW_X&in_tree1=cn2", of("1", Condition::InTree)),
        ("resources1=VCPU:1&required1=HW_X&root_required=HW_Y", of("1", Condition::RootRequired)),
        (
            "resources1=VCPU:1&required1=HW_X&resources2=MEMORY_MB:1&required2=!HW_X",
            Some((None, Condition::Merge)),
        ),
        (
            "resources1=VCPU:1&required1=HW_X&resources2=VCPU:1&group_policy=isolate",
            Some((None, Condition::Isolate)),
        ),
        (
            "resources1=MEMORY_MB:1&resources2=MEMORY_MB:1&required2=!HW_X\
             &required3=HW_X&same_subtree=1,3",
            Some((None, Condition::Merge)),
        ),
        ("old&resources=VCPU:1,MEMORY_MB:1&required=HW_Y", Some((None, Condition::OnePerTree))),
        ("resources=VCPU:1,MEMORY_MB:1", None),
    ] {
        assert_eq!(culprit(query), expected, "{query}");
    }
}

#[test]
fn the_numbers_are_those_left() {
    let funnel =
        funnel(&cloud().world(), &request("resources1=VCPU:1&required1=HW_X&member_of1=B"));
    assert_eq!(
        funnel.to_string(),
        "group '1': VCPU left 2, member_of left 1, required left 0; together: "
    );
}
