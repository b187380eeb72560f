//! The ladder of each route: the same request at 1.0 to 1.39, and the versions at which its answer
//! changes, in status, members or what comes with it.

use std::collections::BTreeSet;
use std::fmt::Write;

use axum::http::Method;
use serde_json::{Value, json};
use uuid::{Uuid, uuid};

use crate::support::app::{ApiResponse, Berth};
use crate::support::cloud::{Host, claim_body};

const AGGREGATE: Uuid = uuid!("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901");
const CONSUMER: Uuid = uuid!("0e4f7d1c-6f4c-4a8e-9a53-3f6f5be3d001");
const NEVER: &str = "d0b1f2c3-0f6d-4c8f-8a57-0a4b5f2f9c11";

/// A root with CPUs, a trait and an aggregate, a child with memory, and a consumer of both.
async fn cloud() -> (Berth, Host) {
    let berth = Berth::new().await;
    let root = berth.host("root", &[("VCPU", 8)]).await;
    let child = berth.child("child", Some(root), &[("MEMORY_MB", 1024)]).await;
    let seen = berth.generation(root).await;
    let body = json!({"resource_provider_generation": seen, "traits": ["HW_CPU_X86_VMX"]});
    berth.put(&format!("/resource_providers/{}/traits", root.0), body).await.expect(200);
    let body = json!([AGGREGATE]);
    let path = format!("/resource_providers/{}/aggregates", root.0);
    berth.at("1.18").put(&path, body).await.expect(200);
    berth.claim(CONSUMER, None, &[(root, "VCPU", 1), (child, "MEMORY_MB", 64)]).await.expect(204);
    (berth, root)
}

/// The parts of a response that depend on the version: status, content, members, headers.
fn outline(answer: &ApiResponse) -> String {
    let mut text = answer.status.to_string();
    for name in ["location", "last-modified", "cache-control"] {
        if answer.headers.contains_key(name) {
            write!(text, " +{name}").unwrap();
        }
    }
    if !answer.body.is_empty() {
        let mut paths = BTreeSet::new();
        members(&answer.json(), String::new(), &mut paths);
        write!(text, " {}", paths.into_iter().collect::<Vec<_>>().join(" ")).unwrap();
    }
    text
}

/// The paths of all members that hold no others. Keys that are UUIDs or names of classes are alike.
fn members(value: &Value, path: String, paths: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                members(item, format!("{path}[]"), paths);
            }
        }
        Value::Object(object) if !object.is_empty() => {
            for (key, member) in object {
                let upper = key.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
                let key = match key.as_str() {
                    _ if Uuid::try_parse(key).is_ok() => "UUID",
                    "" => "''",
                    _ if upper => "NAME",
                    other => other,
                };
                members(member, format!("{path}.{key}"), paths);
            }
        }
        Value::Array(_) | Value::Object(_) => {
            paths.insert(format!("{path}=empty"));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            paths.insert(path);
        }
    }
}

/// The versions at which the outline of the answer changes, with the outline.
async fn ladder(berth: &Berth, method: &str, path: &str, body: Option<&Value>) -> String {
    let mut rungs = String::new();
    let mut last = String::new();
    for minor in 0..40 {
        let method: Method = method.parse().unwrap();
        let body = body.map(|body| body.to_string().into_bytes());
        let answer = berth.at(&format!("1.{minor}")).ask(method, path, body).await;
        let outline = outline(&answer);
        if outline != last {
            writeln!(rungs, "1.{minor} {outline}").unwrap();
            last = outline;
        }
    }
    rungs
}

#[tokio::test]
async fn responses_by_version() {
    let (berth, root) = cloud().await;
    let provider = format!("/resource_providers/{}", root.0);
    for (name, path) in [
        ("root", "/".to_owned()),
        ("provider", provider.clone()),
        ("provider_aggregates", format!("{provider}/aggregates")),
        ("provider_allocations", format!("{provider}/allocations")),
        ("provider_inventories", format!("{provider}/inventories")),
        ("provider_inventory", format!("{provider}/inventories/VCPU")),
        ("provider_traits", format!("{provider}/traits")),
        ("provider_usages", format!("{provider}/usages")),
        ("consumer", format!("/allocations/{CONSUMER}")),
        ("consumer_unknown", format!("/allocations/{NEVER}")),
        ("resource_class", "/resource_classes/VCPU".to_owned()),
        ("trait", "/traits/HW_CPU_X86_VMX".to_owned()),
        ("usages", "/usages?project_id=project".to_owned()),
        ("candidates", "/allocation_candidates?resources=VCPU:1".to_owned()),
        ("not_found", format!("/resource_providers/{NEVER}")),
    ] {
        insta::assert_snapshot!(name, ladder(&berth, "GET", &path, None).await);
    }
}

#[tokio::test]
async fn syntax_by_version() {
    let (berth, root) = cloud().await;
    let mut text = String::new();
    for query in [
        "/resource_providers?name=root".to_owned(),
        format!("/resource_providers?member_of={AGGREGATE}"),
        format!("/resource_providers?member_of={AGGREGATE}&member_of={AGGREGATE}"),
        format!("/resource_providers?member_of=!{AGGREGATE}"),
        "/resource_providers?resources=VCPU:1".to_owned(),
        format!("/resource_providers?in_tree={}", root.0),
        "/resource_providers?required=HW_CPU_X86_VMX".to_owned(),
        "/resource_providers?required=!HW_CPU_X86_VMX".to_owned(),
        "/resource_providers?required=in:HW_CPU_X86_VMX,HW_CPU_X86_SSE".to_owned(),
        "/usages?project_id=project&consumer_type=INSTANCE".to_owned(),
        "/allocation_candidates?resources1=VCPU:1".to_owned(),
        "/allocation_candidates?resources_A=VCPU:1".to_owned(),
    ] {
        let mut last = 0;
        let mut statuses = Vec::new();
        for minor in 0..40 {
            let answer = berth.at(&format!("1.{minor}")).get(&query).await;
            if answer.status != last {
                statuses.push(format!("1.{minor} {}", answer.status));
                last = answer.status;
            }
        }
        let query = query.replace(&root.0.to_string(), "ROOT");
        writeln!(text, "{query}: {}", statuses.join(", ")).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn writes_by_version() {
    let (berth, root) = cloud().await;
    for (name, method, path, body) in [
        ("create_without_name", "POST", "/resource_providers".to_owned(), Some(json!({}))),
        ("ensure_trait", "PUT", "/traits/CUSTOM_A".to_owned(), None),
        ("ensure_class", "PUT", "/resource_classes/CUSTOM_A".to_owned(), None),
        (
            "rename_class",
            "PUT",
            "/resource_classes/CUSTOM_A".to_owned(),
            Some(json!({"name": "CUSTOM_A"})),
        ),
        ("delete_class", "DELETE", "/resource_classes/CUSTOM_NEVER".to_owned(), None),
        ("reshape_nothing", "POST", "/reshaper".to_owned(), Some(json!({}))),
        ("claim_nothing", "POST", "/allocations".to_owned(), Some(json!({}))),
    ] {
        let berth = berth.header("x-roles", "admin,service");
        insta::assert_snapshot!(name, ladder(&berth, method, &path, body.as_ref()).await);
    }
    // From when on the newest body of a claim is understood.
    let claim = claim_body(None, &[(root, "VCPU", 1)]);
    let mut accepted = Vec::new();
    for minor in 0..40 {
        let path = format!("/allocations/{}", Uuid::new_v4());
        let answer = berth.at(&format!("1.{minor}")).put(&path, claim.clone()).await;
        if answer.status == 204 {
            accepted.push(minor);
            berth.delete(&path).await.expect(204);
        }
    }
    assert_eq!(accepted, [38, 39]);
}
