use proptest::prelude::*;
use uuid::{Uuid, uuid};

use super::request;
use crate::http::app::{CandidateOrder, Options};
use crate::http::placement::microversion::{
    ALLOCATION_CANDIDATES, ANY_TRAITS, CANDIDATES_IN_TREE, CANDIDATES_MEMBER_OF, FORBIDDEN_TRAITS,
    HISTORY, LATEST, LIMIT, Microversion, NAMED_GROUPS, NESTED_CANDIDATES, NUMBERED_GROUPS,
    REPARENTING, REQUIRED_TRAITS, ROOT_REQUIRED, SAME_SUBTREE,
};
use crate::http::placement::problem::{Code, Problem};
use crate::http::placement::query::Query;
use crate::model::effort::grows_evenly;
use crate::search::{self, Group, Policy, Request, Strategy as Order};

const A: Uuid = uuid!("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901");

fn parsed(microversion: Microversion, text: &str) -> Result<Request, Problem> {
    request(&Query::parse(text).unwrap(), microversion, &Options::default())
}

/// Returns the code and the detail of the error, without its constant prefix.
fn refusal(microversion: Microversion, text: &str) -> (Code, String) {
    let problem = parsed(microversion, text).expect_err(text);
    assert_eq!(problem.status, 400);
    (problem.code, problem.detail)
}

fn group(suffix: &str, resources: &[(&str, i64)]) -> Group {
    let resources =
        resources.iter().map(|(class, amount)| ((*class).to_owned(), *amount)).collect();
    Group { suffix: suffix.to_owned(), resources, ..Group::default() }
}

#[test]
fn each_parameter_comes_with_its_version() {
    for (since, parameter) in [
        (LIMIT, "limit=5"),
        (REQUIRED_TRAITS, "required=A"),
        (CANDIDATES_MEMBER_OF, "member_of=5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901"),
        (FORBIDDEN_TRAITS, "required=!A"),
        (NUMBERED_GROUPS, "resources1=VCPU:1"),
        (NUMBERED_GROUPS, "group_policy=none"),
        (CANDIDATES_IN_TREE, "in_tree=5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901"),
        (NAMED_GROUPS, "resources_A=VCPU:1"),
        (ROOT_REQUIRED, "root_required=A,!B"),
        (SAME_SUBTREE, "resources_A=VCPU:1&same_subtree=_A"),
        (ANY_TRAITS, "required=in:A,B"),
    ] {
        for (microversion, _) in
            HISTORY.iter().filter(|(microversion, _)| microversion.has(ALLOCATION_CANDIDATES))
        {
            let outcome = parsed(*microversion, &format!("resources=VCPU:1&{parameter}"));
            assert_eq!(outcome.is_ok(), microversion.has(since), "{microversion} {parameter}");
        }
    }
    assert!(parsed(LATEST, "resources=VCPU:1&other=1").is_err());
}

#[test]
fn groups_stand_in_the_order_in_which_they_are_first_named() {
    let text = "required_B=X&resources=VCPU:1,DISK_GB:5&resources_B=VCPU:2&in_tree_B=\
                5c0bfa846b1c4bbd9d2f7e8a4c3de901&member_of=!5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901";
    let named = Group {
        required: vec![vec!["X".to_owned()]],
        in_tree: Some(A),
        ..group("_B", &[("VCPU", 2)])
    };
    let unnamed = Group { not_member_of: vec![A], ..group("", &[("VCPU", 1), ("DISK_GB", 5)]) };
    assert_eq!(parsed(LATEST, text).unwrap().groups, [named, unnamed]);
}

#[test]
fn an_underscore_belongs_to_the_suffix() {
    let suffixes = |microversion, text| -> Vec<String> {
        parsed(microversion, text).unwrap().groups.into_iter().map(|group| group.suffix).collect()
    };
    assert_eq!(suffixes(LATEST, "resources_1=VCPU:1"), ["_1"]);
    assert_eq!(suffixes(LATEST, "resources-=VCPU:1"), ["-"]);
    assert_eq!(suffixes(NUMBERED_GROUPS, "resources12=VCPU:1"), ["12"]);
    let long = "x".repeat(64);
    assert_eq!(suffixes(LATEST, &format!("resources{long}=VCPU:1")), std::slice::from_ref(&long));
    assert!(parsed(LATEST, &format!("resources{long}x=VCPU:1")).is_err());
    assert!(parsed(NUMBERED_GROUPS, "resources01=VCPU:1").is_err());
}

#[test]
fn of_repeated_values_some_count_first_and_some_last() {
    let text = "resources=VCPU:1&resources=VCPU:2&limit=5&limit=6&group_policy=isolate&\
                group_policy=none";
    let request = parsed(LATEST, text).unwrap();
    assert_eq!(request.groups, [group("", &[("VCPU", 2)])]);
    assert_eq!((request.limit, request.policy), (Some(5), Policy::Isolate));
}

#[test]
fn a_limit_is_a_number_from_one() {
    for text in ["0", "-1", "x", "", "1x", "01", "٣"] {
        assert!(parsed(LATEST, &format!("resources=VCPU:1&limit={text}")).is_err(), "{text}");
        let first = parsed(LATEST, &format!("resources=VCPU:1&limit={text}&limit=5"));
        assert!(first.is_err(), "{text}");
    }
    let limit = |text| parsed(LATEST, &format!("resources=VCPU:1&limit={text}")).unwrap().limit;
    assert_eq!(limit("17"), Some(17));
    assert_eq!(limit("99999999999999999999999"), None, "as good as none");
}

#[test]
fn root_required_is_flat_and_given_once() {
    let request = parsed(LATEST, "resources=VCPU:1&root_required=A,!B,C").unwrap();
    assert_eq!(request.root_required, ["A", "C"]);
    assert_eq!(request.root_forbidden, ["B"]);
    for (text, code, detail) in [
        (
            "A&root_required=B",
            Code::DuplicateKey,
            "Query parameter 'root_required' may be specified only once.",
        ),
        (
            "B,A,!A,!B",
            Code::BadValue,
            "Conflicting required and forbidden traits found in root_required: A, B",
        ),
        (
            "in:A,B",
            Code::Undefined,
            "Invalid query string parameters: The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only \
             supported since microversion 1.39. Got: in:A,B",
        ),
    ] {
        let text = format!("resources=VCPU:1&root_required={text}");
        assert_eq!(refusal(LATEST, &text), (code, detail.to_owned()));
    }
}

#[test]
fn from_1_36_a_subtree_may_have_groups_without_resources() {
    let request =
        parsed(LATEST, "resources_A=VCPU:1&required_B=X&same_subtree=_A,_B,_A&group_policy=none");
    let request = request.unwrap();
    assert_eq!(request.same_subtree, [["_A", "_B"]]);
    assert_eq!(request.groups.len(), 2);
    for (text, code, detail) in [
        (
            "resources_A=VCPU:1&same_subtree=_A,",
            Code::BadValue,
            "Empty string (unsuffixed group) can not be specified in `same_subtree` ",
        ),
        (
            "required_A=X&same_subtree=_A",
            Code::MissingValue,
            "There must be at least one resources or resources[$S] parameter.",
        ),
        (
            "",
            Code::MissingValue,
            "There must be at least one resources or resources[$S] parameter.",
        ),
        (
            "resources_A=VCPU:1&required=X&required_B=X&same_subtree=_A",
            Code::BadValue,
            "Resourceless suffixed group request should be specified in `same_subtree` query \
             param: bad group(s) - ['', '_B'].",
        ),
        (
            "resources_A=VCPU:1&same_subtree=_A,_C&same_subtree=_C",
            Code::BadValue,
            "Real suffixes should be specified in `same_subtree`: ['_C'] not found in ['_A'].",
        ),
    ] {
        assert_eq!(refusal(LATEST, text), (code, detail.to_owned()), "{text}");
    }
}

#[test]
fn before_1_36_every_group_has_resources() {
    for (text, detail) in [
        (
            "resources=VCPU:1&required1=X&required2=X",
            "All traits parameters must be associated with resources.  Found the following \
             orphaned traits keys: required1, required2",
        ),
        (
            "member_of=5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901",
            "All member_of parameters must be associated with resources. Found the following \
             orphaned member_of keys: member_of",
        ),
        ("resources=VCPU:1&required1=!X", "All request groups must specify resources."),
        ("limit=5", "At least one request group (`resources` or `resources{$S}`) is required."),
    ] {
        assert_eq!(refusal(ROOT_REQUIRED, text), (Code::Undefined, detail.to_owned()), "{text}");
    }
}

#[test]
fn a_clause_must_not_be_forbidden_whole() {
    let text = "resources=VCPU:1&required=in:B,A&required=!A&required=!B&resources1=VCPU:1&\
                required1=C,!C&group_policy=none";
    let detail = "Conflicting required and forbidden traits found in the following traits keys: \
                  required1: (C), required: (A, B)";
    assert_eq!(refusal(LATEST, text), (Code::Undefined, detail.to_owned()));
    assert!(parsed(LATEST, "resources=VCPU:1&required=in:A,B&required=!A").is_ok());
}

#[test]
fn more_than_one_suffixed_group_needs_a_policy() {
    let two = "resources_A=VCPU:1&resources_B=VCPU:1";
    let detail = "The \"group_policy\" parameter is required when specifying more than one \
                  \"resources{N}\" parameter.";
    assert_eq!(refusal(LATEST, two), (Code::Undefined, detail.to_owned()));
    let policy = |text: &str| parsed(LATEST, text).map(|request| request.policy).ok();
    assert_eq!(policy(&format!("{two}&group_policy=none")), Some(Policy::None));
    assert_eq!(policy(&format!("{two}&group_policy=isolate")), Some(Policy::Isolate));
    assert_eq!(policy(&format!("{two}&group_policy=other")), None);
    assert_eq!(policy("resources=VCPU:1&resources_A=VCPU:1"), Some(Policy::None));
}

#[test]
fn the_options_and_the_version_set_the_rest() {
    let options = Options {
        max_allocation_candidates: Some(7),
        candidate_order: CandidateOrder::Random,
        generation_strategy: Order::BreadthFirst,
        ..Options::default()
    };
    let query = Query::parse("resources=VCPU:1").unwrap();
    let converted = request(&query, REPARENTING, &options).unwrap();
    assert_eq!((converted.max_candidates, converted.strategy), (Some(7), Order::BreadthFirst));
    assert!(matches!(converted.order, search::Order::Random(_)) && converted.nested);
    let converted = request(&query, CANDIDATES_MEMBER_OF, &Options::default()).unwrap();
    assert_eq!(
        (converted.max_candidates, converted.order, converted.nested),
        (None, search::Order::Stored, false)
    );
    assert!(parsed(NESTED_CANDIDATES, "resources=VCPU:1").unwrap().nested);
}

proptest! {
    #[test]
    fn no_query_makes_it_panic(
        pairs in proptest::collection::vec(
            ("(resources|required|member_of|in_tree|limit|same_subtree|root_required|group_policy)\
              (_A|1|_|)",
             "\\PC{0,8}|(in:|!|,|:|VCPU|_A|1|5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901){0,6}"),
            0..6,
        ),
        nth in 0..HISTORY.len(),
    ) {
        let text: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        if let Ok(query) = Query::parse(&text.join("&")) {
            let _ = request(&query, HISTORY[nth].0, &Options::default());
        }
    }
}

/// Joins `count` numbered parts.
fn parts(count: usize, separator: &str, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(separator)
}

/// Each kind of parameter alone fills the URI; the time to read it is linear in its length.
#[test]
fn reading_a_query_takes_no_longer_than_the_query() {
    type Make<'m> = &'m dyn Fn(usize) -> String;
    const LONGEST: usize = 64 * 1024;
    let resource = "resources=VCPU:1&";
    let uuid = |nth: usize| Uuid::from_u128(nth as u128).simple().to_string();
    let kinds: [(&str, usize, Make<'_>); 17] = [
        ("required", 4300, &|n| resource.to_owned() + &parts(n, "&", |i| format!("required=T{i}"))),
        ("!", 4000, &|n| resource.to_owned() + &parts(n, "&", |i| format!("required=!T{i}"))),
        ("a list", 9000, &|n| format!("{resource}required={}", parts(n, ",", |i| format!("T{i}")))),
        ("!s", 8000, &|n| format!("{resource}required={}", parts(n, ",", |i| format!("!T{i}")))),
        ("in:", 9000, &|n| format!("{resource}required=in:{}", parts(n, ",", |i| format!("T{i}")))),
        ("conflicts", 5000, &|n| {
            let forbidden = parts(n / 2, ",", |i| format!("!T{i}"));
            let required = parts(n / 2, ",", |i| format!("T{i}"));
            format!("{resource}required={forbidden}&required={required}")
        }),
        ("member_of", 1500, &|n| {
            resource.to_owned() + &parts(n, "&", |i| format!("member_of={}", uuid(i)))
        }),
        ("!member_of", 1900, &|n| format!("{resource}member_of=!in:{}", parts(n, ",", uuid))),
        ("in_tree", 1500, &|n| {
            resource.to_owned() + &parts(n, "&", |i| format!("in_tree={}", uuid(i)))
        }),
        ("classes", 8000, &|n| format!("resources={}", parts(n, ",", |i| format!("C{i}:1")))),
        ("one class", 8000, &|n| format!("resources={}", parts(n, ",", |_| "VCPU:1".to_owned()))),
        ("repeated", 3500, &|n| parts(n, "&", |i| format!("resources=C{i}:1"))),
        ("groups", 2500, &|n| {
            "group_policy=none&".to_owned() + &parts(n, "&", |i| format!("resources_{i}=VCPU:1"))
        }),
        ("groups with all", 1000, &|n| {
            let group = |i| format!("resources_{i}=VCPU:1&required_{i}=!T{i}&required_{i}=T");
            "group_policy=none&".to_owned() + &parts(n, "&", group)
        }),
        ("same_subtree", 2000, &|n| {
            let groups = parts(n, "&", |i| format!("resources_{i}=A:1"));
            format!(
                "group_policy=none&{groups}&same_subtree={}",
                parts(n, ",", |i| format!("_{i}"))
            )
        }),
        ("resourceless", 3000, &|n| {
            resource.to_owned() + &parts(n, "&", |i| format!("required_{i}=T"))
        }),
        ("root_required", 5000, &|n| {
            let forbidden = parts(n / 2, ",", |i| format!("!T{i}"));
            let required = parts(n / 2, ",", |i| format!("T{i}"));
            format!("{resource}root_required={forbidden},{required}")
        }),
    ];
    for (name, most, make) in kinds {
        assert!(make(most).len() <= LONGEST, "{name}: {}", make(most).len());
        grows_evenly(name, most, make, |text| drop(parsed(LATEST, text)));
    }
}
