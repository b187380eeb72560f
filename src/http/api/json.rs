//! JSON as both APIs read and write it.

use serde::Serialize;
use serde_json::Value;

use crate::model::Bug;
use crate::observe::spans::span;

/// A view as JSON. Views are plain data with text keys, which can always be written.
pub(in crate::http) fn written(view: &impl Serialize) -> Vec<u8> {
    let _rendering = span!("render").entered();
    serde_json::to_vec(view)
        .unwrap_or_else(|error| Bug::raise(format!("a view cannot be written: {error}")))
}

/// Writes a plain value behind what is written.
pub(in crate::http) fn write(written: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(written, value)
        .unwrap_or_else(|error| Bug::raise(format!("a value cannot be written: {error}")));
}

/// Whether a NUL, which cannot be stored, is anywhere in a value.
pub(in crate::http) fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => {
            members.iter().any(|(name, member)| name.contains('\0') || has_nul(member))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
