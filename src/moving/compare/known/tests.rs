//! Each rule explains the differences of its number, and no similar ones.

use serde_json::{Value, json};

use super::{ComparedRequest, RULES, known, without_undefined};
use crate::moving::compare::response::{ComparedResponse, Rules, differences};

const ONE: &str = "4e8e5957-649f-477b-9e5b-f1f75b21c03c";
const OTHER: &str = "9b8e5957-649f-477b-9e5b-f1f75b21c03c";

fn answer(status: u16, body: &Value) -> ComparedResponse {
    ComparedResponse::new(status, [], body.to_string().as_bytes())
}

fn error(status: u16, detail: &str) -> ComparedResponse {
    answer(status, &json!({"errors": [{"status": status, "detail": detail}]}))
}

/// The number that explains the differences between two responses to a request; `none` if there is none, and `same`
/// if they do not differ.
fn explained(
    line: &str,
    body: &Value,
    reference: &ComparedResponse,
    berth: &ComparedResponse,
) -> &'static str {
    let (method, target) = line.split_once(' ').unwrap();
    let request = ComparedRequest::new(method, target, body.to_string().as_bytes());
    let found = differences(reference, berth, Rules::default());
    let found = without_undefined(&request, reference, berth, found);
    if found.is_empty() {
        return "same";
    }
    known(&request, reference, berth, &found).map_or("none", |rule| rule.id)
}

fn get(target: &str, reference: &ComparedResponse, berth: &ComparedResponse) -> &'static str {
    explained(&format!("GET {target}"), &Value::Null, reference, berth)
}

/// A candidate: amounts of VCPU by provider.
fn candidate(amounts: &[(&str, u64)]) -> Value {
    let resources = |amount: u64| json!({"resources": {"VCPU": amount}});
    let allocations: Value =
        amounts.iter().map(|(it, amount)| ((*it).to_owned(), resources(*amount))).collect();
    json!({"allocations": allocations})
}

fn candidates(found: &[Value], summaries: &Value) -> ComparedResponse {
    answer(200, &json!({"allocation_requests": found, "provider_summaries": summaries}))
}

#[test]
fn every_rule_is_in_the_document() {
    let document = include_str!("../../../../docs/differences.md");
    for rule in &RULES {
        let heading = format!("\n### {}: ", rule.id);
        let row = format!("\n| {} | ", rule.id);
        assert!(document.contains(&heading) || document.contains(&row), "{}", rule.id);
    }
}

#[test]
fn bad_input_is_known_by_what_was_sent() {
    let refused = error(400, "no");
    for (target, reference, expected) in [
        ("/traits/%00", error(500, "x"), "B1"),
        ("/traits/x", error(500, "x"), "none"),
        ("/traits/%ff", error(404, "x"), "B2"),
        ("/traits/CUSTOM_A%0a", answer(204, &Value::Null), "B7"),
        ("/allocation_candidates?resources=VCPU:%D9%A3", candidates(&[], &json!({})), "B8"),
        ("/allocation_candidates?resources=VCPU:1_0", candidates(&[], &json!({})), "B8"),
        ("/allocation_candidates?resources=CUSTOM_1_0:x", candidates(&[], &json!({})), "none"),
        ("/allocation_candidates?resources=VCPU:x&limit=abc&limit=5", error(500, "x"), "D5"),
        ("/allocation_candidates?resources=VCPU:x&limit=5", error(500, "x"), "none"),
        ("/traits/A%2FB", error(404, "x"), "B17"),
    ] {
        assert_eq!(get(target, &reference, &refused), expected, "{target}");
    }
    let many = format!("/allocation_candidates?resources=VCPU:{}", "9".repeat(30));
    assert_eq!(get(&many, &error(500, "x"), &candidates(&[], &json!({}))), "B4");
    let long = format!("/traits?name=in:{}", "x".repeat(70_000));
    assert_eq!(get(&long, &answer(200, &json!({"traits": []})), &error(414, "x")), "B12");
    let claims = json!({"0000000a-0000-4000-8000-0000-0000000": {}});
    let written = answer(204, &Value::Null);
    assert_eq!(explained("POST /allocations", &claims, &written, &refused), "B15");
    let aggregates = json!({"aggregates": ["-".repeat(70)]});
    let path = format!("PUT /resource_providers/{ONE}/aggregates");
    assert_eq!(explained(&path, &aggregates, &answer(200, &aggregates), &refused), "B16");
}

#[test]
fn candidates_that_the_reference_lacks_are_known_if_groups_are_merged() {
    let (one, other) = (candidate(&[(ONE, 1)]), candidate(&[(OTHER, 1)]));
    let few = candidates(std::slice::from_ref(&one), &json!({}));
    let many = candidates(&[other, one], &json!({}));
    let merged = "/allocation_candidates?resources=DISK_GB:10&resources1=VCPU:1";
    assert_eq!(get(merged, &few, &many), "D1");
    assert_eq!(get(merged, &many, &few), "none", "Berth must not lack any");
    assert_eq!(get("/allocation_candidates?resources=VCPU:1", &few, &many), "none");
}

#[test]
fn amounts_are_known_to_be_too_large_if_groups_share_a_class() {
    let right = candidates(&[candidate(&[(ONE, 3)])], &json!({}));
    let wrong = candidates(&[candidate(&[(ONE, 5)])], &json!({}));
    let shared = "/allocation_candidates?resources=VCPU:1&resources1=VCPU:2";
    assert_eq!(get(shared, &wrong, &right), "D2");
    assert_eq!(get(&format!("{shared}&group_policy=isolate"), &wrong, &right), "D2");
    assert_eq!(get(&format!("{shared}&group_policy=none"), &wrong, &right), "none");
    let apart = "/allocation_candidates?resources=DISK_GB:1&resources1=VCPU:2";
    assert_eq!(get(apart, &wrong, &right), "none");
}

#[test]
fn candidates_of_the_references_alone_are_known_if_they_do_not_fit() {
    let summaries = |used: u64| {
        json!({ONE: {"resources": {"VCPU": {"capacity": 8, "used": used}}},
               OTHER: {"resources": {"VCPU": {"capacity": 8, "used": 0}}}})
    };
    let (full, free) = (candidate(&[(ONE, 4)]), candidate(&[(OTHER, 4)]));
    let berth = candidates(std::slice::from_ref(&free), &summaries(6));
    let groups = "/allocation_candidates?resources1=VCPU:2&resources2=VCPU:2&group_policy=none";
    let reference = candidates(&[full.clone(), free.clone()], &summaries(6));
    assert_eq!(get(groups, &reference, &berth), "D6");
    let fits = candidates(&[full, free], &summaries(4));
    let berth = candidates(&[candidate(&[(OTHER, 4)])], &summaries(4));
    assert_eq!(get(groups, &fits, &berth), "none");
}

#[test]
fn the_choice_of_limited_candidates_is_undefined() {
    let (one, other) = (candidate(&[(ONE, 1)]), candidate(&[(OTHER, 1)]));
    let (one, other) = (candidates(&[one], &json!({})), candidates(&[other], &json!({})));
    let target = "/allocation_candidates?resources=VCPU:1";
    assert_eq!(get(&format!("{target}&limit=1"), &one, &other), "same");
    assert_eq!(get(&format!("{target}&limit=2"), &one, &other), "none");
    assert_eq!(get(target, &one, &other), "none");
    let none = candidates(&[], &json!({}));
    assert_eq!(get(&format!("{target}&limit=1"), &one, &none), "none");
}

#[test]
fn failures_of_the_reference_are_known_by_the_request() {
    let failed = error(500, "x");
    let found = candidates(&[candidate(&[(ONE, 1)])], &json!({}));
    for (target, berth, expected) in [
        ("/allocation_candidates?resources=DISK_GB:1", &found, "D4"),
        ("/allocation_candidates?resources1=DISK_GB:1", &found, "none"),
        ("/allocation_candidates?resources=VCPU:1&required=!HW_A", &found, "R2"),
        ("/resource_providers?required=HW_B,!HW_A", &answer(200, &json!({})), "R2"),
        ("/resource_providers?required=HW_B", &answer(200, &json!({})), "none"),
        ("/usages?project_id=p", &answer(200, &json!({"usages": {}})), "R3"),
        ("/traits", &answer(200, &json!({"traits": []})), "none"),
    ] {
        assert_eq!(get(target, &failed, berth), expected, "{target}");
    }
}

#[test]
fn a_consumer_that_was_left_behind_is_known_by_its_generation() {
    let path = format!("PUT /allocations/{ONE}");
    let written = answer(204, &Value::Null);
    let refused =
        |got: &str| error(409, &format!("consumer generation conflict - expected {got}  "));
    let ask = |berth: &ComparedResponse| explained(&path, &json!({}), &written, berth);
    assert_eq!(ask(&refused("null but got 0")), "D8");
    assert_eq!(ask(&refused("2 but got 1")), "none");
    assert_eq!(ask(&error(409, "Unable to allocate inventory")), "none");
}

#[test]
fn a_capacity_beyond_64_bits_is_known() {
    let summaries = |capacity: &str| -> ComparedResponse {
        let capacity: Value = serde_json::from_str(capacity).unwrap();
        let summaries = json!({ONE: {"resources": {"VCPU": {"capacity": capacity}}}});
        candidates(&[], &summaries)
    };
    let target = "/allocation_candidates?resources=VCPU:1";
    let greatest = summaries("9223372036854775807");
    assert_eq!(get(target, &summaries("644245094100000000000000000000"), &greatest), "D10");
    assert_eq!(get(target, &summaries("9223372036854775808"), &greatest), "D10");
    assert_eq!(get(target, &summaries("8"), &greatest), "none");
    assert_eq!(get(target, &summaries("8.5"), &greatest), "none");
    assert_eq!(get(target, &summaries("644245094100000000000000000000"), &summaries("8")), "none");
}

#[test]
fn headers_and_paths_of_checks_are_known() {
    let allow = ComparedResponse::new(405, [("allow", b"GET, POST, PUT".as_slice())], b"");
    let path = format!("DELETE /resource_providers/{ONE}/inventories");
    let silent = ComparedResponse::new(405, [], b"");
    assert_eq!(explained(&path, &Value::Null, &silent, &allow), "H2");
    assert_eq!(explained(&path, &Value::Null, &allow, &silent), "none");
    let ready = ComparedResponse::new(200, [], b"ok\n");
    assert_eq!(get("/healthz", &error(401, "x"), &ready), "H4");
    assert_eq!(get("/traits", &error(401, "x"), &ready), "none");
}

#[test]
fn words_of_errors_are_known_by_what_they_say() {
    let output = "(sqlite3.IntegrityError) UNIQUE constraint failed [SQL: INSERT INTO inventories]";
    let own = "Update conflict: the inventory exists already";
    assert_eq!(get("/x", &error(409, output), &error(409, own)), "R4");
    assert_eq!(get("/x", &error(409, output), &error(500, own)), "none");
    assert_eq!(get("/x", &error(409, own), &error(409, "another message")), "none");

    let one = error(400, "No such trait(s): CUSTOM_B.");
    let both = error(400, "No such trait(s): CUSTOM_A, CUSTOM_B.");
    assert_eq!(get("/resource_providers", &one, &both), "T1");
    assert_eq!(get("/resource_providers", &both, &one), "none");

    let point = error(409, "expected null but got 8.0  and 1.05 and v1.0x");
    let whole = error(409, "expected null but got 8  and 1.05 and v1x");
    assert_eq!(get("/x", &point, &whole), "T3");
    assert_eq!(get("/x", &whole, &point), "none");

    let begun = format!("JSON does not validate: '{}", "x".repeat(100));
    let long = error(400, &format!("{begun}{}", "x".repeat(20_000)));
    assert_eq!(get("/x", &long, &error(400, &format!("{begun}... is too long"))), "V1");
    assert_eq!(get("/x", &long, &error(400, "something else ...")), "none");
}

#[test]
fn the_order_of_names_and_the_place_in_malformed_json_are_not_defined() {
    let one = error(400, "No such trait CUSTOM_A, CUSTOM_B");
    let other = error(400, "No such trait CUSTOM_B, CUSTOM_A");
    assert_eq!(get("/x", &one, &other), "same");
    let one = error(400, "Malformed JSON: Expecting value: line 1");
    assert_eq!(get("/x", &one, &error(400, "Malformed JSON: expected value at 1")), "same");
    assert_eq!(get("/x", &one, &error(400, "Malformed body")), "none");
}

#[test]
fn another_spelling_of_a_uuid_finds_more() {
    let upper = ONE.to_uppercase();
    let shown = answer(200, &json!({"uuid": ONE}));
    let absent = error(404, "No resource provider");
    assert_eq!(get(&format!("/resource_providers/{upper}"), &absent, &shown), "U1");
    assert_eq!(get(&format!("/resource_providers/{ONE}"), &absent, &shown), "none");
    let held = answer(200, &json!({"allocations": {OTHER: {}}}));
    let nothing = answer(200, &json!({"allocations": {}}));
    assert_eq!(get(&format!("/allocations/{upper}"), &nothing, &held), "U1");
    assert_eq!(get(&format!("/allocations/{ONE}"), &nothing, &held), "none");

    let listed = |uuids: &[&str]| {
        let of = |uuid: &&str| json!({"uuid": uuid, "name": uuid});
        let found: Vec<Value> = uuids.iter().map(of).collect();
        answer(200, &json!({"resource_providers": found}))
    };
    let (few, many) = (listed(&[ONE]), listed(&[OTHER, ONE]));
    let member_of = format!("/resource_providers?member_of={OTHER}");
    assert_eq!(get(&member_of, &few, &many), "U1");
    assert_eq!(get(&member_of, &many, &few), "none");
    assert_eq!(get(&format!("/resource_providers?member_of=!{OTHER}"), &many, &few), "U1");
    assert_eq!(get("/resource_providers?name=x", &few, &many), "none");
    let by_uuid = format!("/resource_providers?uuid={upper}");
    assert_eq!(get(&by_uuid, &listed(&[]), &few), "U1");

    let claim = json!({"allocations": {upper: {"resources": {"VCPU": 1}}}});
    let path = format!("PUT /allocations/{OTHER}");
    let (written, refused) = (answer(204, &Value::Null), error(400, "x"));
    assert_eq!(explained(&path, &claim, &refused, &written), "U1");
    let claim = json!({"allocations": {ONE: {"resources": {"VCPU": 1}}}});
    assert_eq!(explained(&path, &claim, &refused, &written), "none");
}
