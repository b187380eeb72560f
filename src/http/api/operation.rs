//! Descriptions of the operations in a table of routes. The [API document](crate::http::openapi) is made of them.

use std::any::type_name;
use std::marker::PhantomData;

use axum::http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Description of a row in a table of routes.
pub(in crate::http) struct Operation {
    /// The path of the handler's type, which ends with its module and its name.
    handler: &'static str,
    /// One sentence about the operation.
    pub(in crate::http) summary: &'static str,
    /// Parameters of the query, in one or more parts.
    pub(in crate::http) query: Vec<&'static dyn Described>,
    /// Alternative forms of the body.
    pub(in crate::http) bodies: Vec<&'static dyn Described>,
    /// Responses to successful requests.
    pub(in crate::http) responses: Vec<DescribedResponse>,
}

/// Description of a successful response.
pub(in crate::http) struct DescribedResponse {
    pub(in crate::http) status: StatusCode,
    /// The media type and the schema of the body, if there is one.
    pub(in crate::http) content: Option<(&'static str, MakeSchema)>,
}

/// Makes a schema, and adds the schemas that it refers to to a generator.
pub(in crate::http) type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// A value with a JSON Schema, which may have several forms in successive versions.
pub(in crate::http) trait Described: Sync {
    /// Returns the forms, in the order of their versions.
    fn forms(&self) -> Vec<DescribedForm>;
}

/// The schema of a range of versions.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::http) struct DescribedForm {
    pub(in crate::http) versions: VersionBounds,
    pub(in crate::http) schema: Value,
}

/// The first and the last version of a range; `None`: it has no bound of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct VersionBounds {
    pub(in crate::http) first: Option<String>,
    pub(in crate::http) last: Option<String>,
}

impl Operation {
    pub(super) fn of_handler<H>() -> Self {
        Self {
            handler: type_name::<H>(),
            summary: "",
            query: Vec::new(),
            bodies: Vec::new(),
            responses: Vec::new(),
        }
    }

    /// Returns the module and the name of the handler.
    pub(in crate::http) fn handler(&self) -> (&'static str, &'static str) {
        let mut parts = self.handler.rsplit("::");
        match (parts.next(), parts.next()) {
            (Some(name), Some(module)) => (module, name),
            _ => ("", self.handler),
        }
    }
}

/// Returns the description of a body that is parsed into a type.
pub(in crate::http) fn json_of<T: JsonSchema + 'static>() -> &'static dyn Described {
    &ParsedAs::<T>(PhantomData)
}

/// A body that is parsed into a type.
struct ParsedAs<T>(PhantomData<fn() -> T>);

impl<T: JsonSchema> Described for ParsedAs<T> {
    fn forms(&self) -> Vec<DescribedForm> {
        let mut settings = schemars::generate::SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        let schema = settings.into_generator().into_root_schema_for::<T>();
        vec![DescribedForm { versions: VersionBounds::default(), schema: schema.into() }]
    }
}

/// A parameter of a query.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Parameter {
    pub(in crate::http) name: &'static str,
    pub(in crate::http) kind: ParameterKind,
    /// One sentence about the parameter.
    pub(in crate::http) about: &'static str,
}

/// Values of a parameter.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) enum ParameterKind {
    Text,
    /// Any number of texts.
    Texts,
    Uuid,
    /// A number from the first to the second, if there is a second.
    Number(usize, Option<usize>),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any of these words, separated by commas.
    Words(&'static [&'static str]),
}

impl Parameter {
    pub(in crate::http) const fn new(
        name: &'static str,
        kind: ParameterKind,
        about: &'static str,
    ) -> Self {
        Self { name, kind, about }
    }
}

impl ParameterKind {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Self::Uuid => json!({"type": "string", "format": "uuid"}),
            Self::Number(least, None) => json!({"type": "integer", "minimum": least}),
            Self::Number(least, Some(most)) => {
                json!({"type": "integer", "minimum": least, "maximum": most})
            }
            Self::Word(words) => json!({"type": "string", "enum": words}),
            Self::Words(words) => {
                let word = words.join("|");
                json!({"type": "string", "pattern": format!("^({word})(,({word}))*$")})
            }
        }
    }
}

impl<const N: usize> Described for [Parameter; N] {
    fn forms(&self) -> Vec<DescribedForm> {
        let member = |parameter: &Parameter| {
            let mut schema = parameter.kind.schema();
            if let Some(schema) = schema.as_object_mut() {
                schema.insert("description".to_owned(), parameter.about.into());
            }
            (parameter.name.to_owned(), schema)
        };
        let members: Map<String, Value> = self.iter().map(member).collect();
        let schema = json!({"type": "object", "properties": members});
        vec![DescribedForm { versions: VersionBounds::default(), schema }]
    }
}
