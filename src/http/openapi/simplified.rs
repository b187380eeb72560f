//! Other forms of schemas that mean the same, and that generators of clients know.

use serde_json::{Map, Value, json};

/// Rewrites objects whose members all have names of one pattern, and texts that are one of several words.
pub(super) fn simplify(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.values_mut().for_each(simplify);
            name_members(object);
            list_words(object);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn name_members(object: &mut Map<String, Value>) {
    let is_closed = object.get("additionalProperties") == Some(&Value::Bool(false));
    let patterns = object.get("patternProperties").and_then(Value::as_object);
    let only = patterns.filter(|it| is_closed && it.len() == 1).and_then(|it| it.iter().next());
    let Some((pattern, member)) = only else { return };
    let (names, member) = (json!({ "pattern": pattern }), member.clone());
    object.shift_remove("patternProperties");
    object.insert("propertyNames".to_owned(), names);
    object.insert("additionalProperties".to_owned(), member);
}

fn list_words(object: &mut Map<String, Value>) {
    let Some(forms) = object.get("oneOf").and_then(Value::as_array) else { return };
    let words: Option<Vec<Value>> = forms.iter().map(|form| form.get("const").cloned()).collect();
    let Some(words) = words else { return };
    object.shift_remove("oneOf");
    object.insert("type".to_owned(), json!("string"));
    object.insert("enum".to_owned(), words.into());
}
