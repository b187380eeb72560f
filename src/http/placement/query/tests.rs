use proptest::prelude::*;
use uuid::{Uuid, uuid};

use super::{Aggregates, Grammar, Query, Traits, in_tree, member_of, resources, traits};
use crate::http::placement::microversion::{
    ANY_TRAITS, CONSUMER_TYPE, FORBIDDEN_AGGREGATES, FORBIDDEN_TRAITS, HISTORY, INITIAL, LATEST,
    NAMED_GROUPS, REPEATED_MEMBER_OF, ROOT_REQUIRED,
};

const A: Uuid = uuid!("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901");
const B: Uuid = uuid!("d0b1f2c3-0f6d-4c8f-8a57-0a4b5f2f9c11");

fn query(text: &str) -> Query {
    Query::parse(text).unwrap()
}

#[test]
fn pairs_are_read_as_forms_write_them() {
    for (text, pairs) in [
        ("", &[][..]),
        ("a=1&b=2", &[("a", "1"), ("b", "2")]),
        ("a=1;b=2", &[("a", "1"), ("b", "2")]),
        ("&&a=1&", &[("a", "1")]),
        ("a", &[("a", "")]),
        ("a=&=b", &[("a", ""), ("", "b")]),
        ("a=b=c", &[("a", "b=c")]),
        ("a=x+y%20z", &[("a", "x y z")]),
        ("a=%2B%26%3D", &[("a", "+&=")]),
        ("a=%C3%A9", &[("a", "é")]),
        ("a=%zz%4", &[("a", "%zz%4")]),
    ] {
        assert_eq!(query(text).pairs().collect::<Vec<_>>(), pairs, "{text}");
    }
}

#[test]
fn text_that_is_none_is_refused() {
    for text in ["a=%ff", "%ff=a", "a=%00", "a=%C3", "a=%ED%A0%80"] {
        assert_eq!(Query::parse(text).unwrap_err().status, 400, "{text}");
    }
}

#[test]
fn of_a_repeated_name_all_values_are_kept() {
    let query = query("a=1&b=2&a=3");
    assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!(query.last("a"), Some("3"));
    assert_eq!(query.last("c"), None);
}

#[test]
fn each_freedom_comes_with_its_version() {
    type Freedom = fn(Grammar) -> bool;
    let freedoms: [(_, Freedom); 5] = [
        (FORBIDDEN_TRAITS, |it| it.forbidden_traits),
        (REPEATED_MEMBER_OF, |it| it.repeated_member_of),
        (FORBIDDEN_AGGREGATES, |it| it.forbidden_aggregates),
        (NAMED_GROUPS, |it| it.named_groups),
        (ANY_TRAITS, |it| it.any_traits),
    ];
    for (version, _) in HISTORY {
        for (since, has) in freedoms {
            assert_eq!(has(Grammar::at(*version)), version.has(since), "{version}");
        }
    }
}

fn clauses(required: &[&[&str]], forbidden: &[&str]) -> Traits {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    Traits {
        required: required.iter().map(|clause| owned(clause)).collect(),
        forbidden: owned(forbidden),
    }
}

#[test]
fn required_is_a_list_of_traits_and_forbidden_traits() {
    for (text, expected) in [
        ("required=A", clauses(&[&["A"]], &[])),
        ("required=A,B", clauses(&[&["A"], &["B"]], &[])),
        ("required=%20A%20,B", clauses(&[&["A"], &["B"]], &[])),
        ("required=A,!B", clauses(&[&["A"]], &["B"])),
        ("required=!!!B,!B", clauses(&[], &["B"])),
        ("required=in:A,B", clauses(&[&["A", "B"]], &[])),
        ("required=in:A,A", clauses(&[&["A"]], &[])),
        ("required=A&required=in:B,C&required=!D", clauses(&[&["A"], &["B", "C"]], &["D"])),
        ("other=A", clauses(&[], &[])),
    ] {
        assert_eq!(traits(&query(text), "", Grammar::at(ANY_TRAITS)), Ok(expected), "{text}");
    }
}

#[test]
fn before_1_39_the_last_required_counts() {
    let parsed = traits(&query("required=A&required=B"), "", Grammar::at(CONSUMER_TYPE));
    assert_eq!(parsed, Ok(clauses(&[&["B"]], &[])));
}

#[test]
fn faults_of_required_are_described() {
    let start = "Invalid query string parameters: ";
    let form = "Expected 'required' parameter value of the form: ";
    for (version, text, detail) in [
        (INITIAL, "!A", format!("{form}HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: !A")),
        (INITIAL, "A,", format!("{form}HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: A,")),
        (LATEST, "!", format!("{form}HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in: !")),
        (LATEST, "", format!("{form}HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in: ")),
        (
            LATEST,
            "in:A,,B",
            format!("{form}in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: in:A,,B"),
        ),
        (
            LATEST,
            "in:A,!B",
            "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' does not support forbidden traits. Got: \
             in:A,!B"
                .to_owned(),
        ),
        (
            CONSUMER_TYPE,
            "in:A",
            "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39. \
             Got: in:A"
                .to_owned(),
        ),
    ] {
        let problem = traits(&query(&format!("required={text}")), "", Grammar::at(version));
        assert_eq!(problem.unwrap_err().detail, format!("{start}{detail}"), "{text}");
    }
}

#[test]
fn member_of_is_one_aggregate_or_any_of_a_list() {
    let parsed = |required: &[&[Uuid]], forbidden: &[Uuid]| {
        let required = required.iter().map(|clause| clause.to_vec()).collect();
        Ok(Aggregates { required, forbidden: forbidden.to_vec() })
    };
    for (text, expected) in [
        (format!("member_of={A}"), parsed(&[&[A]], &[])),
        (format!("member_of={}", A.simple()), parsed(&[&[A]], &[])),
        (format!("member_of=in:{A},{B}"), parsed(&[&[A, B]], &[])),
        (format!("member_of=!{A}"), parsed(&[], &[A])),
        (format!("member_of=!in:{A},{B}"), parsed(&[], &[A, B])),
        (format!("member_of={A}&member_of=!{B}"), parsed(&[&[A]], &[B])),
    ] {
        assert_eq!(member_of(&query(&text), "", Grammar::at(LATEST)), expected, "{text}");
    }
}

#[test]
fn faults_of_member_of_are_described() {
    for (version, text, detail) in [
        (
            INITIAL,
            format!("member_of1={A}&member_of1={A}"),
            "Multiple member_of1 parameters are not supported".to_owned(),
        ),
        (
            ROOT_REQUIRED,
            format!("member_of1={A},{B}"),
            format!(
                "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' \
                 keyword using the valid microversion. Got: {A},{B}"
            ),
        ),
        (
            INITIAL,
            format!("member_of1=!{A}"),
            "Forbidden member_of1 parameters are not supported in the specified microversion"
                .to_owned(),
        ),
        (
            LATEST,
            format!("member_of1=in:{A},x"),
            "Invalid query string parameters: Expected 'member_of' parameter to contain valid \
             UUID(s). Got: x"
                .to_owned(),
        ),
    ] {
        let problem = member_of(&query(&text), "1", Grammar::at(version));
        assert_eq!(problem.unwrap_err().detail, detail, "{text}");
    }
}

#[test]
fn resources_are_classes_with_amounts() {
    for (text, expected) in [
        ("VCPU:1", &[("VCPU", 1)][..]),
        ("VCPU:1,DISK_GB:5", &[("VCPU", 1), ("DISK_GB", 5)]),
        ("VCPU:1,VCPU:7", &[("VCPU", 7)]),
        ("VCPU: 1 ", &[("VCPU", 1)]),
        ("VCPU:+1", &[("VCPU", 1)]),
        ("VCPU:007", &[("VCPU", 7)]),
        // More than any inventory can hold.
        ("VCPU:99999999999999999999", &[("VCPU", 2_147_483_648)]),
    ] {
        let parsed = resources(text).unwrap();
        let parsed: Vec<_> =
            parsed.iter().map(|(class, amount)| (class.as_str(), *amount)).collect();
        assert_eq!(parsed, expected, "{text}");
    }
}

#[test]
fn faults_of_resources_are_described() {
    let badly = "Badly formed resources parameter. Expected resources query string parameter in \
                 form: ?resources=VCPU:2,MEMORY_MB:1024. Got: ";
    for (text, detail) in [
        ("", format!("{badly}empty string.")),
        (" ", format!("{badly}empty string.")),
        ("VCPU", format!("{badly}VCPU.")),
        ("VCPU:1:2", format!("{badly}VCPU:1:2.")),
        ("VCPU:1,", format!("{badly}.")),
        ("VCPU:x", "Requested resource VCPU expected positive integer amount. Got: x.".to_owned()),
        ("VCPU:٣", "Requested resource VCPU expected positive integer amount. Got: ٣.".to_owned()),
        (
            "VCPU:1_0",
            "Requested resource VCPU expected positive integer amount. Got: 1_0.".to_owned(),
        ),
        ("VCPU:0", "Requested resource VCPU requires amount >= 1. Got: 0.".to_owned()),
        ("VCPU:-03", "Requested resource VCPU requires amount >= 1. Got: -3.".to_owned()),
    ] {
        assert_eq!(resources(text).unwrap_err().detail, detail, "{text:?}");
    }
}

#[test]
fn a_tree_is_named_by_any_spelling() {
    assert_eq!(in_tree(&format!(" {} ", A.simple())), Ok(A));
    assert_eq!(
        in_tree("x").unwrap_err().detail,
        "Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. \
         Got: x"
    );
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC*", nth in 0..HISTORY.len()) {
        let grammar = Grammar::at(HISTORY[nth].0);
        let _ = Query::parse(&text);
        let _ = resources(&text);
        let _ = in_tree(&text);
        let query = Query::of(vec![
            ("required".to_owned(), text.clone()),
            ("member_of".to_owned(), text.clone()),
        ]);
        let _ = traits(&query, "", grammar);
        let _ = member_of(&query, "", grammar);
    }

    #[test]
    fn no_bytes_make_the_query_panic(text in "([&=;+!:,]|%[0-9a-fA-F]{0,2}|in:|[A-Za-z_0-9]){0,30}") {
        let _ = Query::parse(&text);
    }
}
