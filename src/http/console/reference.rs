//! The [API document](crate::http::openapi) as pages: all operations, and one with its schemas.

use std::collections::BTreeSet;

use askama::Template;
use serde_json::Value;

use super::context::Problem;
use super::page::{Shell, html};
use crate::http::api::extract::path_parts;
use crate::http::api::reply::Reply;
use crate::http::openapi::document;

path_parts! {
    Problem;
    /// The name of an operation.
    OperationPath = "operation";
}

/// The list of operations.
#[derive(Template)]
#[template(path = "console/reference.html")]
struct ReferencePage {
    shell: Shell,
    sections: Vec<Section>,
}

/// The operations of an API.
struct Section {
    name: &'static str,
    about: &'static str,
    operations: Vec<Operation>,
}

/// The page of an operation.
#[derive(Template)]
#[template(path = "console/operation.html")]
struct OperationPage {
    shell: Shell,
    operation: Operation,
    rules: Vec<&'static str>,
    parameters: Vec<Part>,
    bodies: Vec<Part>,
    responses: Vec<Part>,
    schemas: Vec<Part>,
}

/// An operation in short.
struct Operation {
    name: &'static str,
    method: String,
    path: &'static str,
    summary: &'static str,
    /// Further sentences.
    description: Option<&'static str>,
    versions: String,
    described: &'static Value,
}

/// A parameter, a body, a response or a schema.
struct Part {
    name: String,
    about: String,
    versions: String,
    schema: Option<String>,
}

/// `GET /ui/api`
pub(super) async fn list(shell: Shell) -> Result<Reply, Problem> {
    let tags = items(&document()["tags"]).filter_map(|tag| {
        let (name, about) = (text(tag, "name")?, text(tag, "description")?);
        let operations = operations();
        let of_tag = operations.filter(|it| items(&it.described["tags"]).any(|tag| tag == name));
        Some(Section { name, about, operations: of_tag.collect() })
    });
    Ok(html(&ReferencePage { shell, sections: tags.collect() }))
}

/// `GET /ui/api/{operation}`
pub(super) async fn show(
    shell: Shell,
    OperationPath(name): OperationPath,
) -> Result<Reply, Problem> {
    let missing = || Problem::not_found(format!("There is no operation {name}."));
    let operation = operations().find(|it| it.name == name).ok_or_else(missing)?;
    let described = operation.described;
    let item = document()["paths"].get(operation.path).into_iter();
    let shared = item.flat_map(|item| items(&item["parameters"]));
    let parameters = shared.chain(items(&described["parameters"])).map(resolved);
    let bodies =
        contents(&described["requestBody"]).flat_map(|(_, schema)| match schema.get("anyOf") {
            Some(forms) => items(forms).collect(),
            None => vec![schema],
        });
    let bodies: Vec<Part> = bodies.map(|schema| part(name_of(schema), resolved(schema))).collect();
    let mut schemas = referenced(described);
    schemas.retain(|it| bodies.iter().all(|body| body.name != it.name));
    let responses = described["responses"].as_object().into_iter().flatten();
    Ok(html(&OperationPage {
        shell,
        rules: items(&described["x-policy-rules"]).filter_map(Value::as_str).collect(),
        parameters: parameters.map(parameter).collect(),
        bodies,
        responses: responses.map(|(status, it)| response(status, resolved(it))).collect(),
        schemas,
        operation,
    }))
}

/// Returns all operations, in the order of the document.
fn operations() -> impl Iterator<Item = Operation> {
    let paths = document()["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.filter_map(|(method, described)| {
            Some(Operation {
                name: text(described, "operationId")?,
                method: method.to_ascii_uppercase(),
                path: path.as_str(),
                summary: text(described, "summary")?,
                description: text(described, "description"),
                versions: versions(described),
                described,
            })
        })
    })
}

fn parameter(it: &'static Value) -> Part {
    let place = text(it, "in").into_iter();
    let required = (it["required"] == true).then_some("required").into_iter();
    let about: Vec<&str> = place.chain(required).collect();
    let about = [Some(about.join(", ")), text(it, "description").map(str::to_owned)];
    Part {
        name: text(it, "name").into_iter().collect(),
        about: about.into_iter().flatten().collect::<Vec<_>>().join(". "),
        versions: versions(it),
        schema: Some(it["schema"].to_string()),
    }
}

fn response(status: &str, it: &'static Value) -> Part {
    let contents =
        contents(it).map(|(media_type, schema)| format!("{media_type}: {}", name_of(schema)));
    let about: Vec<String> =
        text(it, "description").map(str::to_owned).into_iter().chain(contents).collect();
    Part { name: status.to_owned(), about: about.join("; "), versions: String::new(), schema: None }
}

fn part(name: String, schema: &'static Value) -> Part {
    Part {
        name,
        about: text(schema, "description").into_iter().collect(),
        versions: versions(schema),
        schema: Some(format!("{schema:#}")),
    }
}

/// Returns the schemas to which a value and its schemas refer, in the order of their names.
fn referenced(value: &'static Value) -> Vec<Part> {
    let (mut names, mut waiting) = (BTreeSet::new(), vec![value]);
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                waiting.extend(object.values());
                let target = resolved(value);
                let reference = text(value, "$ref").filter(|it| names.insert(*it));
                waiting.extend(reference.map(|_| target));
            }
            Value::Array(items) => waiting.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let schemas = names.into_iter().filter_map(|reference| {
        let name = reference.strip_prefix("#/components/schemas/")?;
        Some(part(name.to_owned(), document().pointer(reference.strip_prefix('#')?)?))
    });
    schemas.collect()
}

/// Returns the value to which a reference refers, or the value itself.
fn resolved(value: &'static Value) -> &'static Value {
    let pointer = text(value, "$ref").and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document().pointer(pointer)).unwrap_or(value)
}

/// Returns the name of a schema: that of the component it refers to, or its type.
fn name_of(schema: &'static Value) -> String {
    let component = text(schema, "$ref").and_then(|it| it.rsplit('/').next());
    component.or_else(|| text(schema, "type")).into_iter().collect()
}

/// Returns the media types of a body with their schemas.
fn contents(value: &'static Value) -> impl Iterator<Item = (&'static String, &'static Value)> {
    let contents = value["content"].as_object().into_iter().flatten();
    contents.map(|(media_type, content)| (media_type, &content["schema"]))
}

/// Returns the microversions of a part, for people; empty: all.
fn versions(value: &'static Value) -> String {
    let mark = &value["x-openstack"];
    match (text(mark, "min-ver"), text(mark, "max-ver")) {
        (Some(first), Some(last)) => format!("{first} to {last}"),
        (Some(first), None) => format!("from {first}"),
        (None, Some(last)) => format!("until {last}"),
        (None, None) => String::new(),
    }
}

fn items(value: &'static Value) -> impl Iterator<Item = &'static Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &'static Value, name: &str) -> Option<&'static str> {
    value.get(name)?.as_str()
}
