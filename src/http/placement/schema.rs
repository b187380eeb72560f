//! Schemas of bodies and queries, as JSON Schema that changes on a [`Ladder`].
//!
//! A [`Shape`] is a schema being built, keyword by keyword; the order of keywords matters, because
//! it decides which of several violations is reported. A [`Schema`] is compiled.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::microversion::{Ladder, Versions};
use super::spelling::{any_uuid, dashed_uuid};
use super::validation::{IsUuid, Node};
use super::wording;
use crate::http::api::operation::{Described, DescribedForm, VersionBounds};

/// A schema being built.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape(Map<String, Value>);

/// An object; [`Shape::allow`] and [`Shape::require`] define its members.
pub(super) fn object() -> Shape {
    kind("object").with("properties", Map::new())
}

/// An object whose members [`Shape::each`] defines.
pub(super) fn map() -> Shape {
    kind("object")
}

/// An array; [`Shape::of`] defines its items.
pub(super) fn array() -> Shape {
    kind("array")
}

pub(super) fn string() -> Shape {
    kind("string")
}

/// A string with a UUID.
pub(super) fn uuid() -> Shape {
    kind("string").with("format", "uuid")
}

pub(super) fn integer() -> Shape {
    kind("integer")
}

pub(super) fn number() -> Shape {
    kind("number")
}

pub(super) fn null() -> Shape {
    kind("null")
}

/// One of several types.
pub(super) fn any_type(types: &[&str]) -> Shape {
    Shape(Map::new()).with("type", types.to_vec())
}

/// One of several shapes.
pub(super) fn any_of(shapes: impl IntoIterator<Item = Shape>) -> Shape {
    let shapes: Vec<_> = shapes.into_iter().map(|shape| Value::Object(shape.0)).collect();
    Shape(Map::new()).with("anyOf", shapes)
}

fn kind(name: &str) -> Shape {
    Shape(Map::new()).with("type", name)
}

impl Shape {
    #[must_use]
    pub(super) fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.0.insert(keyword.to_owned(), value.into());
        self
    }

    /// Adds or replaces an optional member.
    #[must_use]
    pub(super) fn allow(mut self, name: &str, member: Shape) -> Self {
        let members = self.0.entry("properties").or_insert_with(|| Map::new().into());
        if let Value::Object(members) = members {
            members.insert(name.to_owned(), member.0.into());
        }
        self
    }

    /// Adds or replaces a required member.
    #[must_use]
    pub(super) fn require(mut self, name: &str, member: Shape) -> Self {
        self = self.allow(name, member);
        let required = self.0.entry("required").or_insert_with(|| Vec::<Value>::new().into());
        if let Value::Array(required) = required
            && !required.iter().any(|known| known == name)
        {
            required.push(name.into());
        }
        self
    }

    #[must_use]
    pub(super) fn without(mut self, name: &str) -> Self {
        if let Some(Value::Object(members)) = self.0.get_mut("properties") {
            members.shift_remove(name);
        }
        if let Some(Value::Array(required)) = self.0.get_mut("required") {
            required.retain(|known| known != name);
            if required.is_empty() {
                self.0.shift_remove("required");
            }
        }
        self
    }

    /// Adds members whose names match a pattern.
    #[must_use]
    pub(super) fn each(mut self, pattern: &str, member: Shape) -> Self {
        let patterns = self.0.entry("patternProperties").or_insert_with(|| Map::new().into());
        if let Value::Object(patterns) = patterns {
            patterns.insert(pattern.to_owned(), member.0.into());
        }
        self
    }

    /// Sets the schema of the items.
    #[must_use]
    pub(super) fn of(self, item: Shape) -> Self {
        self.with("items", item.0)
    }

    /// Rejects other members.
    #[must_use]
    pub(super) fn closed(self) -> Self {
        self.with("additionalProperties", false)
    }

    /// Limits the length, in characters.
    #[must_use]
    pub(super) fn length(self, least: usize, most: usize) -> Self {
        self.with("minLength", least).with("maxLength", most)
    }

    /// Returns the schema as JSON.
    #[cfg(test)]
    pub(super) fn into_value(self) -> Value {
        self.0.into()
    }

    /// Compiles the schema for bodies: a UUID may have any notation.
    pub(super) fn for_bodies(self) -> Schema {
        Schema::new(self.0.into(), |text| any_uuid(text).is_some())
    }

    /// Compiles the schema for queries: a UUID has dashes.
    pub(super) fn for_queries(self) -> Schema {
        Schema::new(self.0.into(), |text| dashed_uuid(text).is_some())
    }
}

/// A compiled schema.
#[derive(Debug)]
pub(super) struct Schema {
    node: Node,
    json: Value,
}

impl Schema {
    #[expect(clippy::expect_used, reason = "the schemas are constants, and tests build each")]
    fn new(json: Value, is_uuid: IsUuid) -> Self {
        Self { node: Node::new(&json, is_uuid).expect("a schema of ours is a schema"), json }
    }

    /// Checks a value. The error is in the words of the reference.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        self.node.violation(value).map_or(Ok(()), |violation| Err(wording::text(&violation)))
    }
}

impl Described for LazyLock<Schema> {
    fn forms(&self) -> Vec<DescribedForm> {
        vec![DescribedForm { versions: VersionBounds::default(), schema: self.json.clone() }]
    }
}

impl Described for LazyLock<Ladder<Schema>> {
    fn forms(&self) -> Vec<DescribedForm> {
        let ladder = Ladder::forms(self);
        let form = |(versions, schema): (Versions, &Schema)| DescribedForm {
            versions: versions.bounds(),
            schema: schema.json.clone(),
        };
        ladder.map(form).collect()
    }
}
