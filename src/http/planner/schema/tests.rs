use serde_json::{Value, json};

use super::{BodyKey, Check, DESCRIPTION_MAX, NAME_MAX, fault, optional, read, required};

const GROUP: [BodyKey; 3] = [
    optional("description", Check::TextOrNull(DESCRIPTION_MAX)),
    required("name", Check::Name(NAME_MAX)),
    required("type", Check::Text(NAME_MAX)),
];
fn list(value: &Value) -> Result<(), String> {
    value.as_array().map(|_| ()).ok_or_else(|| "not of type array".to_owned())
}

const ONE: [BodyKey; 1] = [required("members", Check::Custom("array", list, "{}"))];
const PLAN: [BodyKey; 4] = [
    required("plan_name", Check::Name(NAME_MAX)),
    required("resources", Check::Dictionary),
    required("stack_id", Check::Custom("id", |_| Err("must be an id".to_owned()), "{}")),
    optional("timeout", Check::Text(NAME_MAX)),
];

fn words(body: &Value, keys: &[BodyKey]) -> String {
    fault(body.as_object().unwrap(), keys).unwrap_or_default()
}

#[test]
fn valid_values_are_not_mentioned() {
    for body in [
        json!({"name": "a", "type": "b"}),
        json!({"type": "b", "name": "a", "description": null}),
        json!({"type": "", "name": "a", "description": "c"}),
    ] {
        assert_eq!(words(&body, &GROUP), "");
    }
}

#[test]
fn sentences_have_the_form_that_clients_know() {
    for (body, expected) in [
        (json!({}), "-> top level has no data to validate against schema"),
        (json!({"name": "a"}), "key did not match schema  (required key in data is missing: type)"),
        (
            json!({"name": "a", "description": "b"}),
            "key did not match schema  (required key in data is missing: type)",
        ),
        (
            json!({"name": "a", "type": 1}),
            "-> type -> 1 did not pass validation against callable: string (not of type string)",
        ),
        (
            json!({"name": "", "type": "b"}),
            "-> name ->  did not pass validation against callable: string (is empty)",
        ),
        (
            json!({"name": {"a": [null, true]}, "type": "b"}),
            "-> name -> {'a': [None, True]} did not pass validation against callable: string (not \
             of type string)",
        ),
        (json!({"name": "a", "type": "b", "aaa": 1}), "-> aaa key did not match 'name'"),
        (json!({"name": "a", "type": "b", "owner": 1}), "-> owner key did not match 'type'"),
        (
            json!({"name": "a", "type": "b", "zoo": "it's"}),
            "-> top level has unexpected item in data: ('zoo', \"it's\")",
        ),
    ] {
        assert_eq!(words(&body, &GROUP), expected);
    }
    assert_eq!(
        words(&json!({"members": [], "name": "a"}), &ONE),
        "key did not match {} (unexpected extra items)"
    );
    assert_eq!(
        words(&json!({"members": "abc"}), &ONE),
        "-> members -> abc did not pass validation against callable: array (not of type array)"
    );
    assert_eq!(
        words(&json!({"plan_name": "a", "resources": [], "stack_id": "b"}), &PLAN),
        "-> resources key did not pass validation against callable: dictionary"
    );
    assert_eq!(
        words(&json!({"plan_name": "a", "resources": {}, "stack_id": "b"}), &PLAN),
        "-> stack_id -> b did not pass validation against callable: id (must be an id)"
    );
}

#[test]
fn texts_are_bounded_in_characters_and_shown_in_part() {
    let body = |length| json!({"name": "é".repeat(length), "type": "b"});
    assert_eq!(words(&body(NAME_MAX), &GROUP), "");
    assert!(words(&body(NAME_MAX + 1), &GROUP).ends_with("(longer than 255 characters)"));
    let long = words(&body(100_000), &GROUP);
    assert!(long.chars().count() < 500, "{long}");
}

#[test]
fn a_body_is_an_object() {
    let parse = |body: &str| read(body.as_bytes()).map_err(|problem| problem.detail);
    assert_eq!(parse("{\"a\": 1}").unwrap().len(), 1);
    for empty in ["", "  \r\n"] {
        assert_eq!(parse(empty).unwrap_err(), "No JSON object could be decoded");
    }
    for bad in ["[]", "null", "1", "\"a\"", "{", "{\"a\": }", "{\"a\": \"\\u0000\"}", "{} {}"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
    assert!(parse("{\"a\": {\"b\\u0000\": 1}}").is_err());
    assert!(parse(&"[".repeat(100_000)).is_err());
}
