//! Members of responses that only later versions have.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::json;

use super::microversion::Microversion;

/// A member of a response from version `1.MINOR` on. Combine with `skip_serializing_if = "Since::is_hidden"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(in crate::http) struct Since<const MINOR: u8, T>(Option<T>);

impl<const MINOR: u8, T> Since<MINOR, T> {
    /// Returns the member in a response at this version.
    pub(in crate::http) fn at(microversion: Microversion, value: T) -> Self {
        Self(microversion.show(Microversion::of_minor(MINOR), value))
    }

    /// Returns whether the version does not have the member.
    pub(in crate::http) fn is_hidden(&self) -> bool {
        self.0.is_none()
    }
}

impl<const MINOR: u8, T> Default for Since<MINOR, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<const MINOR: u8, T: JsonSchema> JsonSchema for Since<MINOR, T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = generator.subschema_for::<T>();
        let first = Microversion::of_minor(MINOR).to_string();
        schema.insert("x-openstack".to_owned(), json!({ "min-ver": first }));
        schema
    }
}
