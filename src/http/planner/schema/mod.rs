//! Validation of request bodies.
//!
//! A body is an object with known keys and no others. The messages have the form of the first
//! implementation's validation.

use serde_json::{Value, json};

use super::problem::Problem;
use crate::http::api::json::has_nul;
use crate::http::api::operation::{Described, DescribedForm, VersionBounds};
use crate::http::api::python::{repr, text_repr};
use crate::http::api::text::shortened;
use crate::model::Bug;
pub(super) use crate::planner::json::{NAME_MAX, Object, text_fault};

/// Maximum length of a description, in characters.
pub(super) const DESCRIPTION_MAX: usize = 65_535;
/// Maximum length of a value in a message, in characters.
const SHOWN_MAX: usize = 300;

/// The JSON Schema of a list of strings.
pub(super) const TEXTS: &str = r#"{"type": "array", "items": {"type": "string"}}"#;

/// A key of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyKey {
    pub(super) name: &'static str,
    /// The check of its value.
    pub(super) check: Check,
    pub(super) required: bool,
}

/// The check of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// A string of at most this many characters.
    Text(usize),
    /// A string of at least one character, and at most this many.
    Name(usize),
    /// The same, or null.
    TextOrNull(usize),
    /// Any object.
    Dictionary,
    /// A named check, which returns a message if the value fails it.
    /// The text is its JSON Schema, for the API document.
    Custom(&'static str, fn(&Value) -> Result<(), String>, &'static str),
}

pub(super) const fn required(name: &'static str, check: Check) -> BodyKey {
    BodyKey { name, check, required: true }
}

pub(super) const fn optional(name: &'static str, check: Check) -> BodyKey {
    BodyKey { name, check, required: false }
}

/// Parses a body as an object, whatever its media type.
pub(super) fn read(body: &[u8]) -> Result<Object, Problem> {
    if body.trim_ascii().is_empty() {
        return Err(Problem::bad_request("No JSON object could be decoded"));
    }
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request(format!("The body is not JSON: {error}")))?;
    if has_nul(&value) {
        return Err(Problem::bad_request("NUL characters are not allowed"));
    }
    let Value::Object(object) = value else {
        let shown = shown(&value);
        return Err(Problem::bad_request(format!(
            "-> top level -> {shown} did not pass validation against callable: dictionary (not of \
             type dictionary)"
        )));
    };
    Ok(object)
}

/// Checks a body. `keys` are the allowed keys, in alphabetical order.
pub(super) fn check(body: &Object, keys: &[BodyKey]) -> Result<(), Problem> {
    fault(body, keys).map_or(Ok(()), |fault| Err(Problem::bad_request(fault)))
}

/// Returns the message for a body, if it is invalid.
fn fault(body: &Object, keys: &[BodyKey]) -> Option<String> {
    if body.is_empty() {
        return Some("-> top level has no data to validate against schema".to_owned());
    }
    let missing = keys.iter().find(|key| key.required && !body.contains_key(key.name));
    let missing = missing.map(|key| {
        format!("key did not match schema  (required key in data is missing: {})", key.name)
    });
    if missing.is_some() && body.len() < keys.iter().filter(|key| key.required).count() {
        return missing;
    }
    unexpected(body, keys)
        .or(missing)
        .or_else(|| keys.iter().find_map(|key| key.check.fault(key.name, body.get(key.name)?)))
}

/// Returns the message for the first key, in alphabetical order, that is not allowed.
fn unexpected(body: &Object, keys: &[BodyKey]) -> Option<String> {
    let strangers =
        body.iter().filter(|(name, _)| keys.iter().all(|key| key.name != name.as_str()));
    let (name, value) = strangers.min_by_key(|(name, _)| name.as_str())?;
    if keys.len() == 1 {
        return Some("key did not match {} (unexpected extra items)".to_owned());
    }
    let expected = keys.iter().find(|key| key.required && key.name > name.as_str());
    Some(match expected {
        Some(key) => format!("-> {} key did not match '{}'", cut(name), key.name),
        None => format!(
            "-> top level has unexpected item in data: ({}, {})",
            cut(&text_repr(name)),
            cut(&repr(value))
        ),
    })
}

impl Check {
    /// Returns the message for the value of a key, if it is invalid.
    fn fault(self, key: &str, value: &Value) -> Option<String> {
        let (check, reason) = match self {
            Self::Name(most) => {
                let empty = value.as_str().is_some_and(str::is_empty);
                let reason = if empty { Some("is empty".to_owned()) } else { None };
                ("string", reason.or_else(|| text_fault(value, most))?)
            }
            Self::TextOrNull(_) if value.is_null() => return None,
            Self::Text(most) | Self::TextOrNull(most) => ("string", text_fault(value, most)?),
            Self::Dictionary if value.is_object() => return None,
            Self::Dictionary => {
                return Some(format!(
                    "-> {key} key did not pass validation against callable: dictionary"
                ));
            }
            Self::Custom(name, rule, _) => (name, rule(value).err()?),
        };
        let shown = shown(value);
        Some(format!(
            "-> {key} -> {shown} did not pass validation against callable: {check} ({reason})"
        ))
    }
}

impl Check {
    /// Returns the JSON Schema of the value.
    fn schema(self) -> Value {
        match self {
            Self::Text(most) => json!({"type": "string", "maxLength": most}),
            Self::Name(most) => json!({"type": "string", "minLength": 1, "maxLength": most}),
            Self::TextOrNull(most) => json!({"type": ["string", "null"], "maxLength": most}),
            Self::Dictionary => json!({"type": "object"}),
            Self::Custom(name, _, schema) => serde_json::from_str(schema)
                .unwrap_or_else(|error| Bug::raise(format!("the schema of {name}: {error}"))),
        }
    }
}

impl<const N: usize> Described for [BodyKey; N] {
    fn forms(&self) -> Vec<DescribedForm> {
        let members = self.iter().map(|key| (key.name.to_owned(), key.check.schema()));
        let members: Object = members.collect();
        let required: Vec<&str> =
            self.iter().filter(|key| key.required).map(|key| key.name).collect();
        let mut schema = json!({
            "type": "object",
            "properties": members,
            "additionalProperties": false,
        });
        if let (false, Some(schema)) = (required.is_empty(), schema.as_object_mut()) {
            schema.insert("required".to_owned(), json!(required));
        }
        vec![DescribedForm { versions: VersionBounds::default(), schema }]
    }
}

/// Formats a value for a message.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            cut(&repr(value))
        }
    }
}

fn cut(text: &str) -> String {
    shortened(text, SHOWN_MAX)
}

#[cfg(test)]
mod tests;
