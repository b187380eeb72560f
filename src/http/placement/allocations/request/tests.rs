use axum::body::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::{Uuid, uuid};

use super::{AllocationsBody, ByProvider, List, REPLACE_BODY, REPLACE_MANY_BODY, claims};
use crate::http::api::json::Ordered;
use crate::http::placement::body::Body;
use crate::http::placement::body::tests::any_json;
use crate::http::placement::microversion::{
    ALLOCATIONS_BY_PROVIDER, CONSUMER_GENERATION, CONSUMER_TYPE, HISTORY, INITIAL, LATEST,
    MAPPINGS, Microversion, PROJECT_AND_USER,
};
use crate::http::placement::problem::Problem;
use crate::model::Expected;
use crate::model::effort::grows_evenly;
use crate::store::ConsumerClaim;

const CONSUMER: Uuid = uuid!("0e4f7d1c-6f4c-4a8e-9a53-3f6f5be3d001");
const A: Uuid = uuid!("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901");
const B: Uuid = uuid!("d0b1f2c3-0f6d-4c8f-8a57-0a4b5f2f9c11");

fn body(value: &Value) -> Body {
    Body(Bytes::from(value.to_string()))
}

/// The smallest body that a version accepts.
fn least(microversion: Microversion) -> Value {
    let mut body = if microversion.has(ALLOCATIONS_BY_PROVIDER) {
        json!({"allocations": {A.to_string(): {"resources": {"VCPU": 1}}}})
    } else {
        json!({"allocations": [{"resource_provider": {"uuid": A}, "resources": {"VCPU": 1}}]})
    };
    for (since, name, value) in [
        (PROJECT_AND_USER, "project_id", json!("p")),
        (PROJECT_AND_USER, "user_id", json!("u")),
        (CONSUMER_GENERATION, "consumer_generation", json!(null)),
        (CONSUMER_TYPE, "consumer_type", json!("INSTANCE")),
    ] {
        if microversion.has(since) {
            body[name] = value;
        }
    }
    body
}

fn accepts(microversion: Microversion, value: &Value) -> bool {
    REPLACE_BODY.at(microversion).check(value).is_ok()
}

#[test]
fn each_member_is_wanted_from_its_version_on_and_refused_before() {
    for (microversion, _) in HISTORY {
        let least = least(*microversion);
        assert!(accepts(*microversion, &least), "{microversion}");
        for (since, name, value) in [
            (PROJECT_AND_USER, "project_id", json!("p")),
            (PROJECT_AND_USER, "user_id", json!("u")),
            (CONSUMER_GENERATION, "consumer_generation", json!(7)),
            (CONSUMER_TYPE, "consumer_type", json!("INSTANCE")),
        ] {
            let (mut with, mut without) = (least.clone(), least.clone());
            with[name] = value;
            without.as_object_mut().unwrap().remove(name);
            assert_eq!(
                accepts(*microversion, &with),
                microversion.has(since),
                "{microversion} with {name}"
            );
            assert_eq!(
                accepts(*microversion, &without),
                !microversion.has(since),
                "{microversion} without {name}"
            );
        }
        let mut mapped = least.clone();
        mapped["mappings"] = json!({"": [A], "_NIC": [B]});
        assert_eq!(
            accepts(*microversion, &mapped),
            microversion.has(MAPPINGS),
            "{microversion} with mappings"
        );
    }
}

#[test]
fn empty_allocations_are_allowed_from_1_28_and_by_post() {
    for (microversion, _) in
        HISTORY.iter().filter(|(microversion, _)| microversion.has(ALLOCATIONS_BY_PROVIDER))
    {
        let mut nothing = least(*microversion);
        nothing["allocations"] = json!({});
        assert_eq!(
            accepts(*microversion, &nothing),
            microversion.has(CONSUMER_GENERATION),
            "{microversion}"
        );
        let many = json!({ CONSUMER.to_string(): nothing });
        assert_eq!(REPLACE_MANY_BODY.at(*microversion).check(&many), Ok(()), "{microversion}");
    }
    assert!(REPLACE_MANY_BODY.at(LATEST).check(&json!({})).is_err());
}

fn claim(microversion: Microversion, value: &Value) -> Result<ConsumerClaim, Problem> {
    let schema = REPLACE_BODY.at(microversion);
    let parsed: AllocationsBody<ByProvider> = if microversion.has(ALLOCATIONS_BY_PROVIDER) {
        body(value).parse(schema)?
    } else {
        body(value).parse::<AllocationsBody<List>>(schema)?.into()
    };
    parsed.into_claim(CONSUMER, microversion)
}

#[test]
fn a_body_becomes_a_claim() {
    let nobody = "00000000-0000-0000-0000-000000000000";
    let entry =
        |uuid, resources| json!({"resource_provider": {"uuid": uuid}, "resources": resources});
    let listed = json!({"allocations": [
        entry(A, json!({"VCPU": 1})),
        entry(B, json!({"DISK_GB": 5})),
        // The last of two entries for a provider applies.
        entry(A, json!({"VCPU": 2, "MEMORY_MB": 64.0})),
    ]});
    let expected = ConsumerClaim {
        consumer: CONSUMER,
        expected: Expected::Any,
        project: nobody.to_owned(),
        user: nobody.to_owned(),
        consumer_type: None,
        wants: vec![
            (A, "VCPU".to_owned(), 2),
            (A, "MEMORY_MB".to_owned(), 64),
            (B, "DISK_GB".to_owned(), 5),
        ],
    };
    assert_eq!(claim(INITIAL, &listed), Ok(expected));

    let keyed = json!({
        "allocations": {B.to_string(): {"generation": 3, "resources": {"DISK_GB": 5}}},
        "project_id": "p", "user_id": "u", "consumer_generation": 4, "consumer_type": "MIGRATION",
        "mappings": {"": [B]},
    });
    let expected = ConsumerClaim {
        consumer: CONSUMER,
        expected: Expected::Is(4),
        project: "p".to_owned(),
        user: "u".to_owned(),
        consumer_type: Some("MIGRATION".to_owned()),
        wants: vec![(B, "DISK_GB".to_owned(), 5)],
    };
    assert_eq!(claim(LATEST, &keyed), Ok(expected));
}

#[test]
fn the_consumer_generation_is_required_from_1_28() {
    for (microversion, _) in HISTORY {
        let expected = claim(*microversion, &least(*microversion)).unwrap().expected;
        let default = if microversion.has(CONSUMER_GENERATION) {
            Expected::NoConsumer
        } else {
            Expected::Any
        };
        assert_eq!(expected, default, "{microversion}");
    }
}

#[test]
fn a_key_that_is_no_uuid_names_no_provider() {
    let dashes = "-".repeat(36);
    let body = json!({
        "allocations": {&dashes: {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u",
    });
    let problem = claim(ALLOCATIONS_BY_PROVIDER, &body).unwrap_err().detail;
    assert_eq!(
        problem,
        format!("Allocation for resource provider '{dashes}' that does not exist.")
    );
}

#[test]
fn no_consumer_may_be_named_twice() {
    let one = least(LATEST);
    let upper = CONSUMER.to_string().to_uppercase();
    let many = body(&json!({ CONSUMER.to_string(): one, upper: one }));
    let parsed: Ordered<AllocationsBody<ByProvider>> =
        many.parse(REPLACE_MANY_BODY.at(LATEST)).unwrap();
    let problem = claims(parsed, LATEST).unwrap_err();
    assert_eq!((problem.status.as_u16(), problem.detail.contains("twice")), (400, true));
}

proptest! {
    #[test]
    fn no_body_makes_it_panic(value in any_json(), nth in 0..HISTORY.len()) {
        let microversion = HISTORY[nth].0;
        let _ = claim(microversion, &value);
        if let Ok(parsed) = body(&value).parse(REPLACE_MANY_BODY.at(microversion)) {
            let _ = claims(parsed, microversion);
        }
    }
}

/// Bodies of a megabyte of each kind, valid and with an error at the end.
#[test]
fn reading_a_body_takes_no_longer_than_the_body() {
    let uuid = |nth: usize| Uuid::from_u128(nth as u128).to_string();
    let map = |count: usize, one: &dyn Fn(usize) -> Value| -> Value {
        (0..count).map(|nth| (uuid(nth), one(nth))).collect::<serde_json::Map<_, _>>().into()
    };
    let entry = |amount: i64| json!({"resources": {"VCPU": amount}});
    let complete = |allocations: Value| {
        json!({"allocations": allocations, "project_id": "p", "user_id": "u",
               "consumer_generation": null, "consumer_type": "T"})
    };
    let one = |it: &Body| {
        let parsed = it.parse::<AllocationsBody<ByProvider>>(REPLACE_BODY.at(LATEST));
        drop(parsed.and_then(|parsed| parsed.into_claim(CONSUMER, LATEST)));
    };
    for last in [1, 0] {
        let providers = |count: usize| {
            body(&complete(map(count, &|nth| entry(if nth + 1 == count { last } else { 1 }))))
        };
        grows_evenly("providers", 12_000, providers, one);
    }
    let mapped = |count: usize| {
        let mut body = complete(json!({A.to_string(): entry(1)}));
        let groups = (0..count).map(|nth| (nth.to_string(), json!([A, "x"])));
        body["mappings"] = groups.collect::<serde_json::Map<_, _>>().into();
        self::body(&body)
    };
    grows_evenly("mappings", 15_000, mapped, one);
    let listed = |count: usize| {
        let entry = |nth| json!({"resource_provider": {"uuid": uuid(nth)}, "resources": {"A": 1}});
        body(&json!({"allocations": (0..count).map(entry).collect::<Vec<_>>()}))
    };
    grows_evenly("a list", 10_000, listed, |it| {
        let parsed: AllocationsBody<ByProvider> =
            it.parse::<AllocationsBody<List>>(REPLACE_BODY.at(INITIAL)).unwrap().into();
        parsed.into_claim(CONSUMER, INITIAL).unwrap();
    });
    let consumers = |count: usize| body(&map(count, &|_| complete(json!({}))));
    grows_evenly("consumers", 7000, consumers, |it| {
        let parsed = it.parse::<Ordered<AllocationsBody<ByProvider>>>(REPLACE_MANY_BODY.at(LATEST));
        assert!(claims(parsed.unwrap(), LATEST).is_ok());
    });
}
