use super::described::described;
use super::listing::shortened;
use super::{PresentOutcome, RequestReasons, ids_of};
use crate::cli::page::Page;
use crate::cli::terminal::Colours;
use crate::http::operator::views::claim::{ClaimFault, ClaimFaults};
use crate::http::operator::views::refused::{RefusedDetails, RefusedRequest};

const ID: &str = "req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901";
const OTHER: &str = "req-0c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de902";

#[test]
fn ids_can_be_copied_from_a_log() {
    assert_eq!(ids_of(ID), [ID]);
    let line =
        format!("2026-11-23 07:00:00.000 7 INFO nova.scheduler.manager [None {ID} {OTHER} u p]");
    assert_eq!(ids_of(&line), [ID, OTHER]);
    assert_eq!(ids_of(&format!("{ID} {ID}")), [ID]);
    assert_eq!(ids_of("re q-5/../x"), ["req-5x"], "nothing that leads to another path");
}

#[test]
fn a_text_is_made_to_fit_a_line() {
    assert_eq!(shortened("a\nb", 80), "a b");
    assert_eq!(shortened("abcdefgh", 6), "abc...");
}

/// A request with its reasons, as text.
fn text(then: RefusedDetails, now: PresentOutcome) -> String {
    let mut page = Page::new(Colours::None);
    described(&mut page, &RequestReasons { replica: String::new(), then, now });
    page.finish()
}

fn refused() -> RefusedDetails {
    RefusedDetails {
        request: RefusedRequest {
            request_id: ID.to_owned(),
            global_request_id: Some(OTHER.to_owned()),
            at: "2026-11-23T07:00:00Z".to_owned(),
            kind: "claim".to_owned(),
            method: "PUT".to_owned(),
            path: "/allocations/c1".to_owned(),
            microversion: "1.36".to_owned(),
            project_id: Some("service".to_owned()),
            user_id: None,
            status: 409,
            error: Some("Unable to allocate inventory".to_owned()),
        },
        body: None,
        body_bytes: 0,
        explanation: None,
        faults: None,
        left_out: None,
    }
}

#[test]
fn a_refused_claim_is_shown_with_its_faults() {
    let short = ClaimFault::Capacity {
        provider: "p1".to_owned(),
        name: Some("cn1".to_owned()),
        resource_class: "VCPU".to_owned(),
        wanted: 8,
        given_back: 2,
        used: 14,
        capacity: 16,
        total: 4,
        reserved: 0,
        allocation_ratio: 4.0,
        missing: 4,
    };
    let faults = ClaimFaults {
        count: 3,
        faults: vec![
            ClaimFault::ConsumerGeneration {
                consumer: "c1".to_owned(),
                given: Some(1),
                actual: Some(2),
            },
            short,
        ],
    };
    let then = RefusedDetails { faults: Some(faults), ..refused() };
    insta::assert_snapshot!(text(then, PresentOutcome::NotAsked), @"
    2026-11-23T07:00:00Z  req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901
    on behalf of req-0c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de902
    project service, user none
    PUT /allocations/c1
    at microversion 1.36, answered with 409
    Unable to allocate inventory

    THEN
    consumer c1: the claim expects generation 1, and it is at generation 2
    cn1 (p1): VCPU: 4 short: 8 wanted, 14 of 16 used, 2 of them by the claiming consumers (total 4, reserved 0, allocation ratio 4)
    and 1 more
    ");
}

#[test]
fn unknown_facts_are_stated() {
    for (left_out, words) in [
        ("pending", "being counted"),
        ("busy", "at the same time"),
        ("too_large", "too large"),
        ("not_counted", "did not exist"),
        ("failed", "unknown"),
    ] {
        let then = RefusedDetails { left_out: Some(left_out.to_owned()), ..refused() };
        let text = text(then, PresentOutcome::Unknown("gone".to_owned()));
        assert!(text.contains(words) && text.ends_with("NOW\ngone\n"), "{text}");
    }
}
