use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::super::finding::{Change, Finding, Outcome, Remedy};
use super::super::kind::Kind;
use super::super::placement::{Allocations, Held, Placement, Provider, Resources};
use super::Plan;

fn uuid(nth: u128) -> Uuid {
    Uuid::from_u128(nth)
}

fn held(providers: &[u128]) -> Held {
    let resources = Resources::from([("VCPU".to_owned(), 2)]);
    let allocations: Allocations =
        providers.iter().map(|nth| (uuid(*nth), resources.clone())).collect();
    Held { allocations, project_id: Some("p".to_owned()), user_id: Some("u".to_owned()) }
}

fn change(consumer: u128, before: Held, after: Held) -> Change {
    let generation = (!before.allocations.is_empty()).then_some(7);
    Change { consumer: uuid(consumer), generation, before, after }
}

fn plan(findings: Vec<(Kind, Remedy)>) -> Plan {
    let provider = |nth| Provider {
        uuid: uuid(nth),
        name: format!("host-{nth}"),
        root: uuid(nth),
        shares: false,
    };
    let placement =
        Placement::new("http://p".to_owned(), (1..=40).map(provider).collect(), HashMap::new());
    let finding =
        |(kind, remedy)| Finding { kind, subject: uuid(9), evidence: "seen".to_owned(), remedy };
    let findings = findings.into_iter().map(finding).collect();
    let outcome = Outcome { findings, left: BTreeMap::new() };
    Plan::new(&placement, "list".to_owned(), &outcome, OffsetDateTime::UNIX_EPOCH)
}

fn orphan() -> Plan {
    plan(vec![(Kind::Orphan, Remedy::Change(change(9, held(&[1]), held(&[]))))])
}

#[test]
fn a_plan_says_exactly_what_is_sent() {
    let plan = orphan();
    assert_eq!(plan.service.providers.len(), 14);
    let written: Value = serde_json::from_str(&plan.json()).unwrap();
    assert_eq!(
        written["actions"][0],
        json!({
            "kind": "orphan",
            "evidence": "seen",
            "change": {
                "consumer": "00000000-0000-0000-0000-000000000009",
                "generation": 7,
                "before": {
                    "allocations": {"00000000-0000-0000-0000-000000000001": {"VCPU": 2}},
                    "project_id": "p", "user_id": "u",
                },
                "after": {"allocations": {}, "project_id": "p", "user_id": "u"},
            },
            "request": {
                "method": "PUT",
                "path": "/allocations/00000000-0000-0000-0000-000000000009",
                "microversion": "1.28",
                "body": {
                    "allocations": {}, "project_id": "p", "user_id": "u", "consumer_generation": 7,
                },
            },
        })
    );
    assert_eq!(Plan::read(plan.json().as_bytes()), Ok(plan));
}

#[test]
fn every_kind_of_action_can_be_read_again() {
    let other = Held { project_id: Some("q".to_owned()), ..held(&[1]) };
    let mut smaller = held(&[1]);
    smaller.allocations.get_mut(&uuid(1)).unwrap().insert("VCPU".to_owned(), 1);
    let nobody = Held { allocations: Allocations::new(), project_id: None, user_id: None };
    let plan = plan(vec![
        (Kind::Orphan, Remedy::Change(change(9, held(&[1]), held(&[])))),
        (Kind::DeletedServer, Remedy::Change(change(10, held(&[1]), held(&[])))),
        (Kind::SeveralHosts, Remedy::Change(change(11, held(&[1, 2]), held(&[2])))),
        (Kind::NoAllocations, Remedy::Change(change(12, nobody, held(&[2])))),
        (Kind::WrongAmounts, Remedy::Change(change(13, held(&[1]), smaller))),
        (Kind::WrongOwner, Remedy::Change(change(14, held(&[1]), other))),
        (Kind::WithoutHost, Remedy::Change(change(15, held(&[1]), held(&[])))),
        (Kind::WrongHost, Remedy::Person("either, or".to_owned())),
    ]);
    assert_eq!(plan.actions.len(), 7);
    assert_eq!(Plan::read(plan.json().as_bytes()), Ok(plan));
}

/// Refuses a plan after a manual change.
fn refused(pointer: &str, value: Value) -> String {
    let mut plan: Value = serde_json::from_str(&orphan().json()).unwrap();
    *plan.pointer_mut(pointer).unwrap() = value;
    Plan::read(plan.to_string().as_bytes()).unwrap_err()
}

#[test]
fn a_plan_that_was_changed_into_something_else_is_refused() {
    let of_two = json!({"allocations": {"00000000-0000-0000-0000-000000000002": {"VCPU": 2}},
        "project_id": "p", "user_id": "u"});
    let other = "00000000-0000-0000-0000-000000000003";
    let first = serde_json::to_value(&orphan().actions[0]).unwrap();
    for (pointer, value, named) in [
        ("/berth_heal_plan", json!(2), "another version"),
        ("/actions/0/kind", json!("everything"), "unknown variant"),
        ("/actions/0/kind", json!("several-hosts"), "not what is done about several-hosts"),
        ("/actions/0/kind", json!("wrong-host"), "not what is done about wrong-host"),
        ("/actions/0/change/after", of_two, "not what is done about orphan"),
        ("/actions/0/change/consumer", json!(other), "the request is not the one"),
        ("/actions/0/change/generation", json!(8), "the request is not the one"),
        ("/actions/0/request/path", json!("/resource_providers/x"), "the request is not the one"),
        ("/actions/0/request/method", json!("DELETE"), "the request is not the one"),
        ("/actions/0/request/body/project_id", json!("q"), "the request is not the one"),
        ("/actions/0/change/after/user_id", json!("v"), "another project or user"),
        ("/actions", json!([first, first]), "action 2: 00000000-0000-0000-0000-000000000009 is in"),
    ] {
        let why = refused(pointer, value);
        assert!(why.contains(named), "{pointer}: {why}");
    }
    assert!(Plan::read(b"{").unwrap_err().contains("not JSON"));
    assert!(Plan::read(b"{}").unwrap_err().contains("it is not a plan"));
}
