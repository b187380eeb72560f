//! Reading and writing JSON in all APIs.

use serde::Serialize;
use serde_json::Value;

use crate::model::Bug;
use crate::observe::spans::span;

/// Serializes a view. Views are plain data with text keys, so this cannot fail.
pub(in crate::http) fn written(view: &impl Serialize) -> Vec<u8> {
    let _rendering = span!("render").entered();
    serde_json::to_vec(view)
        .unwrap_or_else(|error| Bug::raise(format!("a view cannot be written: {error}")))
}

/// Appends a plain value.
pub(in crate::http) fn write(written: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(written, value)
        .unwrap_or_else(|error| Bug::raise(format!("a value cannot be written: {error}")));
}

/// Returns whether a value contains a NUL character, which PostgreSQL cannot store.
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
