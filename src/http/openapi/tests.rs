//! Tests of the document.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::Value;

use super::document;
use crate::http::api::dialect::{Dialect, Route};
use crate::http::{operator, placement, planner};

#[test]
fn each_operation_has_a_summary_and_a_name_of_its_own() {
    let paths = document()["paths"].as_object().unwrap();
    let mut names = BTreeSet::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            if let Some(name) = operation.get("operationId") {
                let name = name.as_str().unwrap();
                assert!(names.insert(name), "{method} {path}: {name}");
                assert_ne!(operation["summary"], "", "{method} {path}");
            }
        }
    }
    assert!(names.contains("allocation_candidates_list"), "{names:?}");
    assert!(names.contains("planner_plans_create"), "{names:?}");
    assert!(names.contains("operator_explain_show"), "{names:?}");
}

#[test]
fn each_row_of_the_tables_is_described() {
    fn assert_described<D: Dialect>(routes: Vec<Route<D>>) {
        for Route { path, rows } in routes {
            // Each path of the planner lists its methods.
            for row in rows.iter().filter(|row| row.method != Method::OPTIONS) {
                let method = row.method.as_str().to_ascii_lowercase();
                assert!(document()["paths"][path][&method].is_object(), "{method} {path}");
            }
        }
    }
    assert_described(placement::described_routes());
    assert_described(planner::described_routes());
    assert_described(operator::described_routes());
}

#[test]
fn the_versions_of_an_api_need_no_token() {
    for path in ["/", "/-"] {
        assert_eq!(document()["paths"][path]["get"]["security"], Value::Array(Vec::new()));
    }
    assert!(document()["paths"]["/usages"]["get"].get("security").is_none());
}

#[test]
fn the_parts_have_the_versions_that_have_them() {
    let mark = |pointer: &str| {
        let mark = document().pointer(&format!("{pointer}/x-openstack"));
        mark.unwrap_or(&Value::Null).to_string()
    };
    let since = |version: &str| format!(r#"{{"min-ver":"{version}"}}"#);
    for (pointer, expected) in [
        ("/paths/~1reshaper/post", since("1.30")),
        ("/paths/~1resource_providers/get", "null".to_owned()),
        ("/paths/~1resource_providers/get/parameters/3", since("1.3")),
        ("/components/schemas/ResourceProvider/properties/root_provider_uuid", since("1.14")),
        ("/components/schemas/allocations_replace_body", r#"{"max-ver":"1.7"}"#.to_owned()),
        (
            "/components/schemas/allocations_replace_body_1.38/properties/consumer_type",
            since("1.38"),
        ),
        ("/components/schemas/allocations_replace_body_1.38/properties/mappings", since("1.34")),
    ] {
        assert_eq!(mark(pointer), expected, "{pointer}");
    }
    let third = &document()["paths"]["/resource_providers"]["get"]["parameters"][3]["name"];
    assert_eq!(third, "member_of");
}
