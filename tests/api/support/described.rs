//! Comparison of responses with the API document.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use berth::http::Api;
use berth::http::openapi::document;
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::app::ApiResponse;

/// The validators of bodies by the pointer of their schema in the document.
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Fails if the document does not describe the response to a request.
pub fn assert_described(api: Api, method: &str, path: &str, response: &ApiResponse) {
    let Some((template, item)) = path_item(api, path.split('?').next().unwrap()) else { return };
    let method = method.to_ascii_lowercase();
    let Some(operation) = item.get(&method) else { return };
    let responses = &operation["responses"];
    let status = response.status.to_string();
    let (place, described) = if let Some(described) = responses.get(&status) {
        (format!("/paths/{}/{method}/responses/{status}", escaped(&template)), described)
    } else {
        assert!(response.status >= 400, "{method} {path}: {status} is not described");
        let pointer = responses["default"]["$ref"].as_str().unwrap().trim_start_matches('#');
        (pointer.to_owned(), document().pointer(pointer).unwrap())
    };
    let media_type = response.headers.get("content-type").map(|it| it.to_str().unwrap());
    let media_type = media_type.map(|it| it.split(';').next().unwrap());
    let (Some(contents), Some(media_type)) = (described.get("content"), media_type) else {
        let is_silent = response.body.is_empty() || response.status == 401;
        assert!(is_silent, "{method} {path}: no body is described: {}", response.text());
        return;
    };
    let is_known = contents.get(media_type).is_some();
    assert!(is_known, "{method} {path}: {media_type} is not described for {status}");
    if media_type != "application/json" {
        return;
    }
    let pointer = format!("{place}/content/application~1json/schema");
    let faults: Vec<String> = validator(&pointer)
        .iter_errors(&response.json())
        .map(|it| format!("{}: {it}", it.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{method} {path}: {faults:#?}\n{}", response.text());
}

/// Returns the template and the item of a path.
fn path_item(api: Api, path: &str) -> Option<(String, &'static Map<String, Value>)> {
    let paths = document()["paths"].as_object().unwrap();
    let fits = |template: &str| {
        let (template, path) = (template.split('/'), path.split('/'));
        template.clone().count() == path.clone().count()
            && template.zip(path).all(|(known, segment)| known == segment || known.starts_with('{'))
    };
    // A path without variables comes before one with them.
    let mut items: Vec<_> = paths.iter().filter(|(template, _)| fits(template)).collect();
    items.sort_by_key(|(template, _)| template.contains('{'));
    let of_planner = matches!(api, Api::Planner);
    let (template, item) =
        items.into_iter().find(|(_, it)| it.get("servers").is_some() == of_planner)?;
    Some((template.clone(), item.as_object().unwrap()))
}

fn escaped(path: &str) -> String {
    path.replace('~', "~0").replace('/', "~1")
}

fn validator(pointer: &str) -> Arc<Validator> {
    let mut validators = VALIDATORS.lock().unwrap();
    let validator = validators.entry(pointer.to_owned()).or_insert_with(|| {
        let mut schema = document().pointer(pointer).unwrap().clone();
        schema["components"] = json!({"schemas": document()["components"]["schemas"]});
        Arc::new(jsonschema::draft202012::new(&schema).unwrap())
    });
    Arc::clone(validator)
}
