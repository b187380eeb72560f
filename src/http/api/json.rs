//! Reading and writing JSON in all APIs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::model::Bug;
use crate::observe::spans::span;

/// The media type of JSON.
pub(in crate::http) const JSON: &str = "application/json";
/// The media type of one JSON value per line.
pub(in crate::http) const LINES: &str = "application/x-ndjson";

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

/// An object whose members keep their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Ordered<T>(pub(in crate::http) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, member)| (name, member)))
    }
}

impl<T: JsonSchema> JsonSchema for Ordered<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        HashMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        HashMap::<String, T>::json_schema(generator)
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Ordered<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(map.size_hint().unwrap_or(0));
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Ordered(members))
    }
}
