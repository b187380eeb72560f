//! Texts of schema violations.
//!
//! Clients read them, so they are those of Python's jsonschema, which the reference uses: message,
//! keyword and path in the schema, the schema, path in the value, the value. Schema and value are on
//! one line each, and long values are truncated.

use serde_json::Value;

use super::validation::{Step, Violation};
use crate::http::api::python::{Shown, repr, text_repr};

/// Returns the text of a violation.
pub(super) fn text(violation: &Violation<'_>) -> String {
    format!(
        "{}\n\nFailed validating {} in {}:\n    {}\n\nOn {}:\n    {}",
        message(violation),
        text_repr(violation.keyword),
        indexed("schema", violation.schema_path()),
        repr(violation.schema),
        indexed("instance", violation.value_path()),
        repr(violation.value),
    )
}

fn message(violation: &Violation<'_>) -> String {
    let value = repr(violation.value);
    let bound = &violation.schema[violation.keyword];
    let choose = |one: &'static str, other: &'static str| if *bound == 1 { one } else { other };
    match violation.keyword {
        "additionalProperties" => unexpected_message(violation),
        "anyOf" => format!("{value} is not valid under any of the given schemas"),
        "enum" => format!("{value} is not one of {}", repr(bound)),
        "format" => format!("{value} is not a {}", repr(bound)),
        "maximum" => format!("{value} is greater than the maximum of {}", repr(bound)),
        "maxLength" => format!("{value} is too long"),
        "minimum" => format!("{value} is less than the minimum of {}", repr(bound)),
        "minItems" | "minLength" => {
            format!("{value} {}", choose("should be non-empty", "is too short"))
        }
        "minProperties" => {
            format!("{value} {}", choose("should be non-empty", "does not have enough properties"))
        }
        "pattern" => format!("{value} does not match {}", repr(bound)),
        "required" => format!("{} is a required property", listed(&violation.names)),
        "type" => format!("{value} is not of type {}", type_names(bound)),
        "uniqueItems" => format!("{value} has non-unique elements"),
        _ => format!("{value} is not valid"),
    }
}

fn unexpected_message(violation: &Violation<'_>) -> String {
    let mut names = violation.names.clone();
    names.sort_unstable();
    let one = names.len() == 1;
    let listed = listed(&names);
    let Some(patterns) = violation.schema["patternProperties"].as_object() else {
        let verb = if one { "was" } else { "were" };
        return format!("Additional properties are not allowed ({listed} {verb} unexpected)");
    };
    let mut patterns: Vec<_> = patterns.keys().map(|pattern| text_repr(pattern)).collect();
    patterns.sort();
    let verb = if one { "does" } else { "do" };
    format!("{listed} {verb} not match any of the regexes: {}", patterns.join(", "))
}

/// Joins quoted names.
fn listed(names: &[&str]) -> String {
    let mut list = Shown::default();
    for (number, name) in names.iter().enumerate() {
        if number > 0 {
            list.push(", ");
        }
        list.push_text(name);
        if list.is_cut() {
            break;
        }
    }
    list.into_text()
}

/// Joins the names of types.
fn type_names(names: &Value) -> String {
    match names {
        Value::Array(names) => names.iter().map(repr).collect::<Vec<_>>().join(", "),
        one => repr(one),
    }
}

fn indexed<'a>(container: &str, path: impl Iterator<Item = Step<'a>>) -> String {
    let mut text = container.to_owned();
    for step in path {
        let step = match step {
            Step::Member(name) => text_repr(name),
            Step::Item(number) => number.to_string(),
        };
        text.extend(["[", &step, "]"]);
    }
    text
}

#[cfg(test)]
mod tests;
