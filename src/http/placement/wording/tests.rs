use proptest::prelude::*;
use serde_json::Value;

use crate::http::placement::schema::{
    Schema, Shape, any_of, any_type, array, integer, map, null, number, object, string, uuid,
};
use crate::http::placement::spelling::any_uuid;
use crate::model::effort::grows_evenly;

fn provider() -> Shape {
    object()
        .require("name", string().with("maxLength", 5))
        .allow("uuid", uuid())
        .allow("parent", any_of([uuid(), null()]))
        .closed()
}

fn inventories() -> Shape {
    let terms = object()
        .require("total", integer().with("maximum", i32::MAX).with("minimum", 1))
        .allow("ratio", number().with("maximum", 3.402_82e38))
        .closed();
    object()
        .require("generation", integer())
        .require("inventories", map().each("^[A-Z0-9_]+$", terms))
        .closed()
}

fn aggregates() -> Shape {
    array().of(uuid()).with("uniqueItems", true)
}

fn allocations() -> Shape {
    let by_provider = map().with("minProperties", 1).each("^[0-9a-f-]{4}$", map()).closed();
    object()
        .closed()
        .require("allocations", by_provider)
        .require("project_id", string().length(1, 5))
}

/// Names that look like numbers or paths, and empty ones, are handled like others.
fn mappings() -> Shape {
    map().each("[a-z0-9]{1,64}", array().with("minItems", 1).of(uuid()))
}

fn anything() -> Shape {
    map().each("", map().each("", array()))
}

fn policy() -> Shape {
    let limit = any_type(&["integer", "string"]).with("pattern", "^[1-9][0-9]*$");
    object()
        .allow("policy", string().with("enum", vec!["none", "isolate"]))
        .allow("limit", limit.with("minimum", 1).with("minLength", 1))
        .closed()
}

fn violation_text(schema: &Schema, json: &str) -> String {
    let value: Value = serde_json::from_str(json).unwrap();
    schema.check(&value).expect_err(json)
}

/// Schema, value, and the text of Python's jsonschema 4.26, with schema and value on one line each.
type Case = (fn() -> Shape, &'static str, &'static str);

/// The complete texts.
const WHOLE_TEXTS: &[Case] = &[
    (
        provider,
        "{}",
        "'name' is a required property

Failed validating 'required' in schema:
    {'type': 'object', 'properties': {'name': {'type': 'string', 'maxLength': 5}, 'uuid': {'type': 'string', 'format': 'uuid'}, 'parent': {'anyOf': [{'type': 'string', 'format': 'uuid'}, {'type': 'null'}]}}, 'required': ['name'], 'additionalProperties': False}

On instance:
    {}",
    ),
    (
        provider,
        r#"{"name": "a", "x": 1, "b": 2}"#,
        "Additional properties are not allowed ('b', 'x' were unexpected)

Failed validating 'additionalProperties' in schema:
    {'type': 'object', 'properties': {'name': {'type': 'string', 'maxLength': 5}, 'uuid': {'type': 'string', 'format': 'uuid'}, 'parent': {'anyOf': [{'type': 'string', 'format': 'uuid'}, {'type': 'null'}]}}, 'required': ['name'], 'additionalProperties': False}

On instance:
    {'name': 'a', 'x': 1, 'b': 2}",
    ),
    (
        provider,
        r#"{"name": "a", "parent": 5}"#,
        "5 is not valid under any of the given schemas

Failed validating 'anyOf' in schema['properties']['parent']:
    {'anyOf': [{'type': 'string', 'format': 'uuid'}, {'type': 'null'}]}

On instance['parent']:
    5",
    ),
    (
        provider,
        r#"{"name": "a", "parent": "x"}"#,
        "'x' is not a 'uuid'

Failed validating 'format' in schema[0]:
    {'type': 'string', 'format': 'uuid'}

On instance:
    'x'",
    ),
    (
        inventories,
        r#"{"generation": 1, "inventories": {"VCPU": {"total": 0}}}"#,
        "0 is less than the minimum of 1

Failed validating 'minimum' in schema['properties']['inventories']['patternProperties']['^[A-Z0-9_]+$']['properties']['total']:
    {'type': 'integer', 'maximum': 2147483647, 'minimum': 1}

On instance['inventories']['VCPU']['total']:
    0",
    ),
    (
        aggregates,
        r#"["5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901", "5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901"]"#,
        "['5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901', '5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901'] has non-unique elements

Failed validating 'uniqueItems' in schema:
    {'type': 'array', 'items': {'type': 'string', 'format': 'uuid'}, 'uniqueItems': True}

On instance:
    ['5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901', '5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901']",
    ),
    (
        allocations,
        r#"{"allocations": {"zzzz": {}, "b": 1}, "project_id": "p"}"#,
        "'b', 'zzzz' do not match any of the regexes: '^[0-9a-f-]{4}$'

Failed validating 'additionalProperties' in schema['properties']['allocations']:
    {'type': 'object', 'minProperties': 1, 'patternProperties': {'^[0-9a-f-]{4}$': {'type': 'object'}}, 'additionalProperties': False}

On instance['allocations']:
    {'zzzz': {}, 'b': 1}",
    ),
    (
        policy,
        r#"{"policy": "foo"}"#,
        "'foo' is not one of ['none', 'isolate']

Failed validating 'enum' in schema['properties']['policy']:
    {'type': 'string', 'enum': ['none', 'isolate']}

On instance['policy']:
    'foo'",
    ),
];

/// Only the message, the keyword with its path, and the path of the value.
const SHORT_TEXTS: &[Case] = &[
    (
        provider,
        r#"{"name": "abcdef"}"#,
        "'abcdef' is too long
Failed validating 'maxLength' in schema['properties']['name']:
On instance['name']:",
    ),
    (
        provider,
        r#"{"name": 5}"#,
        "5 is not of type 'string'
Failed validating 'type' in schema['properties']['name']:
On instance['name']:",
    ),
    (
        provider,
        r#"{"name": "a", "uuid": "it's"}"#,
        r#""it's" is not a 'uuid'
Failed validating 'format' in schema['properties']['uuid']:
On instance['uuid']:"#,
    ),
    (
        provider,
        r#"{"nam": 1, "x": 1}"#,
        "'name' is a required property
Failed validating 'required' in schema:
On instance:",
    ),
    (
        provider,
        "[]",
        "[] is not of type 'object'
Failed validating 'type' in schema:
On instance:",
    ),
    (
        provider,
        "null",
        "None is not of type 'object'
Failed validating 'type' in schema:
On instance:",
    ),
    (
        provider,
        r#""x""#,
        "'x' is not of type 'object'
Failed validating 'type' in schema:
On instance:",
    ),
    (
        provider,
        r#"{"name": "a", "uuid": 5, "parent": true}"#,
        "5 is not of type 'string'
Failed validating 'type' in schema['properties']['uuid']:
On instance['uuid']:",
    ),
    (
        inventories,
        r#"{"generation": 1.5, "inventories": {"VCPU": {"total": 2147483648, "x": 1}}}"#,
        "1.5 is not of type 'integer'
Failed validating 'type' in schema['properties']['generation']:
On instance['generation']:",
    ),
    (
        inventories,
        r#"{"generation": 1, "inventories": {"VCPU": {"total": 1}, "DISK_GB": {}}}"#,
        "'total' is a required property
Failed validating 'required' in schema['properties']['inventories']['patternProperties']['^[A-Z0-9_]+$']:
On instance['inventories']['DISK_GB']:",
    ),
    (
        inventories,
        r#"{"generation": 1, "inventories": {"A": {"total": -1.0, "ratio": 1e+39}}}"#,
        "-1.0 is less than the minimum of 1
Failed validating 'minimum' in schema['properties']['inventories']['patternProperties']['^[A-Z0-9_]+$']['properties']['total']:
On instance['inventories']['A']['total']:",
    ),
    (
        inventories,
        r#"{"inventories": {"A": {"total": "5"}}}"#,
        "'generation' is a required property
Failed validating 'required' in schema:
On instance:",
    ),
    (
        inventories,
        r#"{"generation": 1, "inventories": {"A": {"total": 1e+22}}}"#,
        "1e+22 is greater than the maximum of 2147483647
Failed validating 'maximum' in schema['properties']['inventories']['patternProperties']['^[A-Z0-9_]+$']['properties']['total']:
On instance['inventories']['A']['total']:",
    ),
    (
        inventories,
        "{}",
        "'generation' is a required property
Failed validating 'required' in schema:
On instance:",
    ),
    (
        aggregates,
        r#"["a"]"#,
        "'a' is not a 'uuid'
Failed validating 'format' in schema['items']:
On instance[0]:",
    ),
    (
        aggregates,
        "{}",
        "{} is not of type 'array'
Failed validating 'type' in schema:
On instance:",
    ),
    (
        aggregates,
        "[1]",
        "1 is not of type 'string'
Failed validating 'type' in schema['items']:
On instance[0]:",
    ),
    (
        mappings,
        r#"{"1": ["abc"]}"#,
        "'abc' is not a 'uuid'
Failed validating 'format' in schema['patternProperties']['[a-z0-9]{1,64}']['items']:
On instance['1'][0]:",
    ),
    (
        mappings,
        r#"{"01": ["abc"]}"#,
        "'abc' is not a 'uuid'
Failed validating 'format' in schema['patternProperties']['[a-z0-9]{1,64}']['items']:
On instance['01'][0]:",
    ),
    (
        mappings,
        r#"{"a/b~1~0": [], "": 5}"#,
        "[] should be non-empty
Failed validating 'minItems' in schema['patternProperties']['[a-z0-9]{1,64}']:
On instance['a/b~1~0']:",
    ),
    (
        anything,
        r#"{"": {"": 5}}"#,
        "5 is not of type 'array'
Failed validating 'type' in schema['patternProperties']['']['patternProperties']['']:
On instance['']['']:",
    ),
    (
        allocations,
        r#"{"allocations": {}, "project_id": ""}"#,
        "'' should be non-empty
Failed validating 'minLength' in schema['properties']['project_id']:
On instance['project_id']:",
    ),
    (
        allocations,
        r#"{"allocations": {"zz": {}}, "project_id": "p"}"#,
        "'zz' does not match any of the regexes: '^[0-9a-f-]{4}$'
Failed validating 'additionalProperties' in schema['properties']['allocations']:
On instance['allocations']:",
    ),
    (
        allocations,
        r#"{"allocations": {"abcd": {}}, "project_id": "pppppp"}"#,
        "'pppppp' is too long
Failed validating 'maxLength' in schema['properties']['project_id']:
On instance['project_id']:",
    ),
    (
        allocations,
        r#"{"x": 1}"#,
        "Additional properties are not allowed ('x' was unexpected)
Failed validating 'additionalProperties' in schema:
On instance:",
    ),
    (
        allocations,
        r#"{"allocations": {"abcd": []}, "project_id": "p"}"#,
        "[] is not of type 'object'
Failed validating 'type' in schema['properties']['allocations']['patternProperties']['^[0-9a-f-]{4}$']:
On instance['allocations']['abcd']:",
    ),
    (
        policy,
        r#"{"limit": "0"}"#,
        "'0' does not match '^[1-9][0-9]*$'
Failed validating 'pattern' in schema['properties']['limit']:
On instance['limit']:",
    ),
    (
        policy,
        r#"{"limit": 0}"#,
        "0 is less than the minimum of 1
Failed validating 'minimum' in schema['properties']['limit']:
On instance['limit']:",
    ),
    (
        policy,
        r#"{"limit": ""}"#,
        "'' does not match '^[1-9][0-9]*$'
Failed validating 'pattern' in schema['properties']['limit']:
On instance['limit']:",
    ),
    (
        policy,
        r#"{"limit": true}"#,
        "True is not of type 'integer', 'string'
Failed validating 'type' in schema['properties']['limit']:
On instance['limit']:",
    ),
];

#[test]
fn a_violation_has_the_words_of_the_reference() {
    for (shape, json, text) in WHOLE_TEXTS {
        assert_eq!(violation_text(&shape().for_bodies(), json), *text, "{json}");
    }
}

#[test]
fn of_several_violations_the_reference_choice_is_reported() {
    for (shape, json, text) in SHORT_TEXTS {
        let violation = violation_text(&shape().for_bodies(), json);
        let lines: Vec<&str> = violation.lines().collect();
        let kept = lines.iter().enumerate().filter(|(nth, line)| {
            *nth == 0 || line.starts_with("Failed ") || line.starts_with("On ")
        });
        let kept: Vec<&str> = kept.map(|(_, line)| line.trim_end_matches(':')).collect();
        assert_eq!(kept.join("\n"), text.replace(":\n", "\n").trim_end_matches(':'), "{json}");
    }
}

#[test]
fn queries_want_a_uuid_with_its_dashes() {
    let (with, without) =
        ("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901", "5c0bfa846b1c4bbd9d2f7e8a4c3de901");
    let accepts = |schema: &Schema, text: &str| schema.check(&Value::from(text)).is_ok();
    let (body, query) = (uuid().for_bodies(), uuid().for_queries());
    assert!(accepts(&body, with) && accepts(&body, without));
    assert!(accepts(&query, with) && !accepts(&query, without));
}

#[test]
fn a_name_ends_where_its_pattern_ends() {
    let name = string().with("pattern", "^[A-Z0-9_]+$").for_bodies();
    for (text, good) in [("VCPU", true), ("VCPU\n", false), ("\u{663}", false), ("", false)] {
        assert_eq!(name.check(&Value::from(text)).is_ok(), good, "{text:?}");
    }
}

#[test]
fn whole_doubles_are_integers() {
    let count = integer().for_bodies();
    for (json, good) in [("1", true), ("1.0", true), ("1e2", true), ("1.5", false), ("true", false)]
    {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(count.check(&value).is_ok(), good, "{json}");
    }
}

/// Long values are truncated.
#[test]
fn a_long_value_is_cut() {
    let long = "k".repeat(300_000);
    let items = format!(r#"{{"{long}": [{}1]}}"#, r#""a", "#.repeat(100_000));
    for json in [items.clone(), format!(r#"{{"a": {items}}}"#), format!(r#"{{"a": ["{long}"]}}"#)] {
        let text = violation_text(&mappings().for_bodies(), &json);
        assert!(text.contains("..."), "{text}");
        assert!(text.len() < 100_000, "{} bytes", text.len());
    }
    let names = (0..100_000).map(|nth| format!(r#""-{nth}": 1"#)).collect::<Vec<_>>().join(",");
    let text = violation_text(&object().closed().for_bodies(), &format!("{{{names}}}"));
    assert!(text.starts_with("Additional properties are not allowed ('-0', '-1', '-10', "));
    assert!(text.contains("... were unexpected)") && text.len() < 100_000, "{}", text.len());
}

/// The maximum number of violations in a body, at the ends of paths of the maximum length.
#[test]
fn looking_for_the_worst_takes_no_longer_than_the_value() {
    let long = "k".repeat(1000);
    let list = |parts: usize, one: &str| {
        let items = vec![one.to_owned(); parts].join(",");
        serde_json::from_str::<Value>(&format!(r#"{{"{long}": [{items}]}}"#)).unwrap()
    };
    let map = |parts: usize, one: &str| {
        let members: Vec<_> = (0..parts).map(|nth| format!(r#""{nth}": {one}"#)).collect();
        serde_json::from_str::<Value>(&format!("{{{}}}", members.join(","))).unwrap()
    };
    let run = |schema: &Schema, value: &Value| drop(schema.check(value));
    let (groups, texts) = (mappings().for_bodies(), map_of_texts().for_bodies());
    let most = 100_000;
    grows_evenly("items", most, |parts| list(parts, r#""a""#), |it| run(&groups, it));
    grows_evenly("lists", most, |parts| list(parts, "[[]]"), |it| run(&groups, it));
    grows_evenly("members", most, |parts| map(parts, "[1]"), |it| run(&groups, it));
    grows_evenly("unexpected", most, |parts| map(parts, "1"), |it| run(&texts, it));
    let set = aggregates().for_bodies();
    let numbers = |parts: usize| Value::from((0..parts).collect::<Vec<_>>());
    grows_evenly("numbers", most, numbers, |it| run(&set, it));
    let objects = |parts: usize| Value::from(vec![serde_json::json!({"a": [{}]}); parts]);
    grows_evenly("objects", most, objects, |it| run(&set, it));
    let uuids = |parts: usize| {
        let uuids = (0..parts as u128).map(|nth| uuid::Uuid::from_u128(nth).to_string());
        Value::from(uuids.collect::<Vec<_>>())
    };
    grows_evenly("uuids", 27_000, uuids, |it| assert!(set.check(it).is_ok()));
}

fn map_of_texts() -> Shape {
    map().each("^[a-z]+$", string()).closed()
}

#[test]
fn items_are_the_same_if_their_values_are() {
    let set = array().with("uniqueItems", true).for_bodies();
    for (json, unique) in [
        (r#"["a", "b"]"#, true),
        (r#"["a", "a"]"#, false),
        ("[1, 1.0]", false),
        ("[1, true]", true),
        (r#"[1, "1"]"#, true),
        (r#"[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]"#, false),
        (r#"[["a", "b"], ["a,b"]]"#, true),
        ("[[], {}, null, 0]", true),
    ] {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(set.check(&value).is_ok(), unique, "{json}");
    }
}

/// Values with names from the shapes above, mostly invalid.
fn value() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec!["", "a", "abcdef", "5c0bfa846b1c4bbd9d2f7e8a4c3de901"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        prop::sample::select(vec![0.5, 1.0, 1e22, 1e39]).prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let names = ["name", "uuid", "parent", "generation", "inventories", "allocations"];
        let names = [&names[..], &["project_id", "total", "ratio", "A", "abcd", "1", ""]].concat();
        let members = prop::collection::vec((prop::sample::select(names), inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| {
                let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
                members.collect::<serde_json::Map<_, _>>().into()
            }),
        ]
    })
}

proptest! {
    /// The verdict equals that of the crate `jsonschema`.
    #[test]
    fn the_verdict_is_that_of_jsonschema(value in value()) {
        for shape in [provider(), inventories(), aggregates(), allocations(), policy(), mappings()] {
            let validator = jsonschema::draft202012::options()
                .with_format("uuid", |text: &str| any_uuid(text).is_some())
                .should_validate_formats(true)
                .with_pattern_options(jsonschema::PatternOptions::regex())
                .build(&shape.clone().into_value())
                .unwrap();
            prop_assert_eq!(shape.for_bodies().check(&value).is_ok(), validator.is_valid(&value));
        }
    }
}
