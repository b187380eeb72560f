//! The document as it is made, API by API.

use axum::http::StatusCode;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::simplified::simplify;
use super::versions::{add_mark, mark_new_members, parameters};
use crate::http::api::dialect::{Dialect, Route, Row};
use crate::http::api::json::JSON;
use crate::http::api::operation::{DescribedForm, DescribedResponse, Operation};
use crate::http::api::status::title;

/// One of the APIs.
pub(super) struct Section {
    /// Name of its tag.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Default address, if it is not that of the document.
    pub(super) server: Option<&'static str>,
    /// Prefix of the names of its operations.
    pub(super) operation_prefix: &'static str,
    /// Whether requests have the header with a microversion.
    pub(super) has_microversions: bool,
    /// The path that needs no token, if there is one.
    pub(super) open: Option<&'static str>,
    /// Makes the schema of its errors.
    pub(super) error: fn(&mut SchemaGenerator) -> Schema,
}

/// The document as far as it is made.
pub(super) struct Document {
    tags: Vec<Value>,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
    responses: Map<String, Value>,
    generator: SchemaGenerator,
}

impl Document {
    /// Starts a document.
    pub(super) fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12().for_serialize();
        "/components/schemas".clone_into(settings.definitions_path.to_mut());
        Self {
            tags: Vec::new(),
            paths: Map::new(),
            schemas: Map::new(),
            responses: Map::new(),
            generator: settings.into_generator(),
        }
    }

    /// Adds an API.
    pub(super) fn add<D: Dialect>(&mut self, section: &Section, routes: Vec<Route<D>>) {
        self.tags.push(json!({"name": section.name, "description": section.about}));
        let error = (section.error)(&mut self.generator);
        self.responses.insert(
            section.name.to_owned() + "Error",
            json!({
                "description": "An error",
                "content": {
                    JSON: {"schema": error},
                    "text/html": {"schema": {"type": "string"}},
                    "text/plain": {"schema": {"type": "string"}},
                },
            }),
        );
        for Route { path, rows } in routes {
            let item = self.path_item(section, path, &rows);
            self.paths.insert(path.to_owned(), Value::Object(item));
        }
    }

    fn path_item<D: Dialect>(
        &mut self,
        section: &Section,
        path: &str,
        rows: &[Row<D>],
    ) -> Map<String, Value> {
        let mut item = Map::new();
        if let Some(server) = section.server {
            item.insert("servers".to_owned(), json!([{ "url": server }]));
        }
        let parameters: Vec<Value> = path_parameters(path).map(path_parameter).collect();
        if !parameters.is_empty() {
            item.insert("parameters".to_owned(), parameters.into());
        }
        for row in rows {
            let method = row.method.as_str().to_ascii_lowercase();
            if row.operation.summary.is_empty() || item.contains_key(&method) {
                continue;
            }
            let same: Vec<&Row<D>> = rows.iter().filter(|it| it.method == row.method).collect();
            let mut operation = self.operation(section, &same);
            if section.open == Some(path) {
                operation.insert("security".to_owned(), json!([]));
            }
            item.insert(method, Value::Object(operation));
        }
        item
    }

    /// Describes a method, which may have a row for each of several ranges of versions, oldest first.
    fn operation<D: Dialect>(&mut self, section: &Section, rows: &[&Row<D>]) -> Map<String, Value> {
        let Some(latest) = rows.last() else { return Map::new() };
        let name = name(section, &latest.operation);
        let mut described = Map::new();
        described.insert("operationId".to_owned(), json!(name));
        described.insert("tags".to_owned(), json!([section.name]));
        described.insert("summary".to_owned(), json!(latest.operation.summary));
        let earlier = rows.iter().rev().skip(1).filter_map(|row| {
            let last = D::bounds(&row.versions).last?;
            Some(format!("Until {last}: {}", row.operation.summary))
        });
        let earlier: Vec<String> = earlier.collect();
        if !earlier.is_empty() {
            described.insert("description".to_owned(), json!(earlier.join(" ")));
        }
        let mut bounds = D::bounds(&latest.versions);
        bounds.first = rows.first().and_then(|row| D::bounds(&row.versions).first);
        add_mark(&mut described, &bounds);
        let rules: Vec<&str> = latest.rules.iter().map(|rule| rule.name()).collect();
        if !rules.is_empty() {
            described.insert("x-policy-rules".to_owned(), json!(rules));
        }
        let parameters = query_parameters(section, rows);
        if !parameters.is_empty() {
            described.insert("parameters".to_owned(), parameters.into());
        }
        if let Some(body) = self.body(&name, rows) {
            described.insert("requestBody".to_owned(), body);
        }
        described.insert("responses".to_owned(), self.responses(section, rows).into());
        described
    }

    /// Describes the body: the forms of all rows, newest first.
    fn body<D: Dialect>(&mut self, name: &str, rows: &[&Row<D>]) -> Option<Value> {
        let mut schemas = Vec::new();
        for row in rows {
            for body in &row.operation.bodies {
                let mut forms = body.forms();
                mark_new_members(&mut forms);
                schemas.extend(forms.into_iter().map(|form| self.body_schema(name, form)));
            }
        }
        schemas.reverse();
        let schema = if schemas.len() > 1 { json!({"anyOf": schemas}) } else { schemas.pop()? };
        let is_required = rows.iter().all(|row| !row.operation.bodies.is_empty());
        Some(json!({"required": is_required, "content": {JSON: {"schema": schema}}}))
    }

    /// Adds a form of a body to the schemas, unless they have it, and returns a reference to it.
    fn body_schema(&mut self, name: &str, form: DescribedForm) -> Value {
        let DescribedForm { versions, mut schema } = form;
        if let Some(schema) = schema.as_object_mut() {
            add_mark(schema, &versions);
        }
        let known = self.schemas.iter().find(|(_, known)| **known == schema);
        let component = known.map_or_else(
            || self.new_name(name, versions.first.as_deref()),
            |(component, _)| component.clone(),
        );
        self.schemas.entry(component.clone()).or_insert(schema);
        json!({"$ref": format!("#/components/schemas/{component}")})
    }

    /// Returns a name for the form of a body from a version on.
    fn new_name(&self, name: &str, first: Option<&str>) -> String {
        let name = match first {
            Some(first) => format!("{name}_body_{first}"),
            None => format!("{name}_body"),
        };
        let mut free = name.clone();
        for number in 2.. {
            if !self.schemas.contains_key(&free) {
                break;
            }
            free = format!("{name}_{number}");
        }
        free
    }

    fn responses<D: Dialect>(&mut self, section: &Section, rows: &[&Row<D>]) -> Map<String, Value> {
        let mut responses: Map<String, Value> = Map::new();
        for DescribedResponse { status, content } in
            rows.iter().flat_map(|row| &row.operation.responses)
        {
            let key = status.as_str().to_owned();
            let description = title(*status);
            let response = responses.entry(key).or_insert(json!({"description": description}));
            if let (Some((media_type, make)), Some(response)) = (content, response.as_object_mut())
            {
                let schema = make(&mut self.generator);
                let contents = response.entry("content").or_insert(json!({}));
                if let Some(contents) = contents.as_object_mut() {
                    contents.insert((*media_type).to_owned(), json!({"schema": schema}));
                }
            }
        }
        let error = format!("#/components/responses/{}Error", section.name);
        if section.has_microversions || rows.iter().any(|row| !row.rules.is_empty()) {
            let unauthorized = StatusCode::UNAUTHORIZED.as_str().to_owned();
            responses
                .insert(unauthorized, json!({"description": "The token is missing or invalid"}));
        }
        responses.insert("default".to_owned(), json!({ "$ref": error }));
        responses
    }

    /// Returns the document.
    pub(super) fn finished(mut self) -> Value {
        let made = self.generator.take_definitions(true);
        self.schemas.extend(made);
        self.schemas.sort_keys();
        let mut document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Berth",
                "summary": "Resource placement: who has what, who holds what, and where the next thing can go.",
                "description": "Parameters, members and operations that only some microversions have are marked with `x-openstack`: `min-ver` is the first, `max-ver` the last.",
                "version": env!("CARGO_PKG_VERSION"),
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{"token": []}],
            "tags": self.tags,
            "paths": self.paths,
            "components": {
                "securitySchemes": {
                    "token": {
                        "type": "apiKey", "in": "header", "name": "X-Auth-Token",
                        "description": "A token of Keystone.",
                    },
                },
                "parameters": {
                    "microversion": {
                        "name": "OpenStack-API-Version", "in": "header", "required": false,
                        "description": "The microversion; without it, the Placement API uses 1.0, and the operator API the latest.",
                        "schema": {
                            "type": "string",
                            "pattern": "^placement (1\\.(0|[1-9][0-9]?)|latest)$",
                            "examples": ["placement 1.39"],
                        },
                    },
                },
                "responses": self.responses,
                "schemas": self.schemas,
            },
        });
        simplify(&mut document);
        document
    }
}

/// Returns the name of an operation: those of the module and the function that handle it.
fn name(section: &Section, operation: &Operation) -> String {
    let (module, function) = operation.handler();
    let prefix = section.operation_prefix;
    if prefix.trim_end_matches('_') == module {
        return format!("{prefix}{function}");
    }
    format!("{prefix}{module}_{function}")
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(name: &str) -> Value {
    let mut schema = json!({"type": "string", "minLength": 1});
    if let (true, Some(schema)) = (name == "uuid", schema.as_object_mut()) {
        schema.insert("format".to_owned(), json!("uuid"));
    }
    json!({"name": name, "in": "path", "required": true, "schema": schema})
}

fn query_parameters<D: Dialect>(section: &Section, rows: &[&Row<D>]) -> Vec<Value> {
    let mut described = Vec::new();
    if section.has_microversions {
        described.push(json!({"$ref": "#/components/parameters/microversion"}));
    }
    for query in rows.iter().flat_map(|row| &row.operation.query) {
        let (parameters, patterns) = parameters(&query.forms());
        for mut parameter in parameters {
            let about =
                parameter.schema.as_object_mut().and_then(|it| it.shift_remove("description"));
            let mut object = Map::new();
            object.insert("name".to_owned(), json!(parameter.name));
            object.insert("in".to_owned(), json!("query"));
            if let Some(about) = about {
                object.insert("description".to_owned(), about);
            }
            object.insert("required".to_owned(), json!(parameter.is_required));
            add_mark(&mut object, &parameter.versions);
            object.insert("schema".to_owned(), parameter.schema);
            described.push(Value::Object(object));
        }
        if let Some(patterns) = patterns {
            described.push(json!({
                "name": "groups",
                "in": "query",
                "description": "Parameters of further groups, each with the suffix of its group.",
                "required": false,
                "style": "form",
                "explode": true,
                "schema": {
                    "type": "object",
                    "patternProperties": patterns,
                    "additionalProperties": false,
                },
            }));
        }
    }
    described
}
