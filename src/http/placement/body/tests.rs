use axum::body::Bytes;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Body, Integer};
use crate::http::api::json::Ordered;
use crate::http::placement::schema::{Schema, integer, map, object, string};

#[derive(Debug, Deserialize, PartialEq)]
struct TestBody {
    name: Option<String>,
    count: Option<Integer>,
    small: Option<Integer<i32>>,
    amounts: Option<Ordered<Integer>>,
}

fn schema() -> Schema {
    object()
        .allow("name", string())
        .allow("count", integer())
        .allow("small", integer())
        .allow("amounts", map())
        .closed()
        .for_bodies()
}

fn parse(text: impl Into<Bytes>) -> Result<TestBody, String> {
    Body(text.into()).parse(&schema()).map_err(|problem| {
        assert_eq!(problem.status, 400);
        problem.detail
    })
}

#[test]
fn a_body_that_is_not_json_is_malformed() {
    let deep = "[".repeat(100_000);
    for text in ["", "{", "{'a': 1}", "NaN", "{\"count\": -Infinity}", "{\"count\": 1e999}", &deep]
    {
        let message = parse(text.to_owned()).unwrap_err();
        assert!(message.starts_with("Malformed JSON: "), "{message}");
    }
    for bytes in [&b"{\"name\": \"\xff\"}"[..], b"{\"name\": \"\\ud800\"}", b"\xef\xbb\xbf{}"] {
        let message = parse(bytes.to_vec()).unwrap_err();
        assert!(message.starts_with("Malformed JSON: "), "{message}");
    }
}

#[test]
fn a_nul_is_refused_wherever_it_stands() {
    for text in [r#"{"name": "a\u0000"}"#, r#"{"amounts": {"a\u0000": 1}}"#] {
        let message = parse(text).unwrap_err();
        assert_eq!(message, "JSON does not validate: a NUL character is not allowed in a text");
    }
}

#[test]
fn of_a_repeated_member_the_last_counts() {
    assert_eq!(parse(r#"{"count": 1, "count": 2}"#).unwrap().count, Some(Integer(2)));
}

#[test]
fn whole_numbers_may_be_written_as_doubles() {
    for (text, expected) in [
        ("8", 8),
        ("8.0", 8),
        ("8e2", 800),
        ("-8.0", -8),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
    ] {
        let parsed = parse(format!("{{\"count\": {text}}}")).unwrap();
        assert_eq!(parsed.count, Some(Integer(expected)), "{text}");
    }
}

#[test]
fn numbers_beyond_all_bounds_are_refused() {
    for (text, message) in [
        ("9223372036854775808", "9223372036854775808 is greater than the maximum of"),
        ("1e300", "1e+300 is greater than the maximum of"),
        ("-1e300", "-1e+300 is less than the minimum of"),
    ] {
        let detail = parse(format!("{{\"count\": {text}}}")).unwrap_err();
        assert!(detail.starts_with(&format!("JSON does not validate: {message}")), "{detail}");
    }
    let detail = parse("{\"small\": 2147483648}".to_owned()).unwrap_err();
    let message = "2147483648 is greater than the maximum of 2147483647";
    assert_eq!(detail, format!("JSON does not validate: {message}"));
}

#[test]
fn members_keep_their_order() {
    let parsed = parse(r#"{"amounts": {"b": 1, "a": 2, "c": 3}}"#).unwrap();
    let names: Vec<_> = parsed.amounts.unwrap().0.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["b", "a", "c"]);
}

/// JSON of any kind, of limited depth.
pub(in crate::http::placement) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "[A-Z0-9_]{0,5}|\\PC{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((any_name(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Names of members, known and unknown.
fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "allocations",
            "resources",
            "inventories",
            "resource_provider_generation",
            "total",
            "project_id",
            "consumer_generation",
            "5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901",
            "VCPU",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,4}",
    ]
}

proptest! {
    #[test]
    fn no_body_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = parse(bytes);
    }

    #[test]
    fn no_value_makes_it_panic(value in any_json()) {
        let _ = parse(value.to_string());
    }
}
