use serde_json::Value;

use crate::http::placement::schema::{
    Schema, Shape, any_of, any_type, array, integer, map, null, number, object, string, uuid,
};

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

fn policy() -> Shape {
    let limit = any_type(&["integer", "string"]).with("pattern", "^[1-9][0-9]*$");
    object()
        .allow("policy", string().with("enum", vec!["none", "isolate"]))
        .allow("limit", limit.with("minimum", 1).with("minLength", 1))
        .closed()
}

fn told(schema: &Schema, json: &str) -> String {
    let value: Value = serde_json::from_str(json).unwrap();
    schema.check(&value).expect_err(json)
}

/// Schema, value, and what Python's jsonschema 4.26 says of it.
type Case = (fn() -> Shape, &'static str, &'static str);

/// In full.
const WHOLE_TEXTS: &[Case] = &[
    (
        provider,
        "{}",
        "'name' is a required property

Failed validating 'required' in schema:
    {'type': 'object',
     'properties': {'name': {'type': 'string', 'maxLength': 5},
                    'uuid': {'type': 'string', 'format': 'uuid'},
                    'parent': {'anyOf': [{'type': 'string',
                                          'format': 'uuid'},
                                         {'type': 'null'}]}},
     'required': ['name'],
     'additionalProperties': False}

On instance:
    {}",
    ),
    (
        provider,
        r#"{"name": "a", "x": 1, "b": 2}"#,
        "Additional properties are not allowed ('b', 'x' were unexpected)

Failed validating 'additionalProperties' in schema:
    {'type': 'object',
     'properties': {'name': {'type': 'string', 'maxLength': 5},
                    'uuid': {'type': 'string', 'format': 'uuid'},
                    'parent': {'anyOf': [{'type': 'string',
                                          'format': 'uuid'},
                                         {'type': 'null'}]}},
     'required': ['name'],
     'additionalProperties': False}

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
    {'type': 'array',
     'items': {'type': 'string', 'format': 'uuid'},
     'uniqueItems': True}

On instance:
    ['5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901',
     '5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901']",
    ),
    (
        allocations,
        r#"{"allocations": {"zzzz": {}, "b": 1}, "project_id": "p"}"#,
        "'b', 'zzzz' do not match any of the regexes: '^[0-9a-f-]{4}$'

Failed validating 'additionalProperties' in schema['properties']['allocations']:
    {'type': 'object',
     'minProperties': 1,
     'patternProperties': {'^[0-9a-f-]{4}$': {'type': 'object'}},
     'additionalProperties': False}

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

/// The same, shortened to the message, the keyword with its place, and the place of the value.
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
fn a_violation_is_told_in_the_words_clients_know() {
    for (shape, json, text) in WHOLE_TEXTS {
        assert_eq!(told(&shape().for_bodies(), json), *text, "{json}");
    }
}

#[test]
fn of_several_violations_the_one_is_told_that_python_tells() {
    for (shape, json, text) in SHORT_TEXTS {
        let told = told(&shape().for_bodies(), json);
        let lines: Vec<&str> = told.lines().collect();
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
