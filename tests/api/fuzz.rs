//! Arbitrary requests through the whole API: each gets a response, and never a 500.
//!
//! `PROPTEST_CASES=100000 cargo test --test api fuzz` runs longer.

use axum::body::Body;
use axum::http::Request;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::Berth;

/// Cases unless `PROPTEST_CASES` says otherwise.
const CASES: u32 = 600;

const METHODS: [&str; 7] = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"];
const PROVIDER: &str = "5a1f0000-0000-4000-8000-000000000001";

/// A request: method, path and query, microversion, content type, body.
type Sent = (String, String, String, Option<String>, Vec<u8>);

/// Pieces that mean something to the API, to be put together wrongly.
fn word() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "VCPU",
        "VCPU:1",
        "VCPU:1,MEMORY_MB:2",
        "CUSTOM_A",
        "CUSTOM_",
        "HW_CPU_X86_AVX2",
        "in:",
        "!",
        "!in:",
        "in:A,B",
        "-1",
        "0",
        "1",
        "2147483648",
        "9223372036854775808",
        "1e400",
        "NaN",
        PROVIDER,
        "5a1f00000000400080000000000000aa",
        "_A",
        "_A,_B",
        ",",
        "",
        "like:",
        "INSTANCE",
        "all",
        "unknown",
        "true",
        "isolate",
        "none",
        "null",
        "é",
        "\u{663}",
        "\u{0}",
        "a\n",
    ]);
    prop_oneof![3 => known.prop_map(str::to_owned), 1 => any::<String>()]
}

fn parameter() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "resources",
        "resources1",
        "resources_A",
        "required",
        "required_A",
        "member_of",
        "member_of1",
        "in_tree",
        "in_tree_A",
        "group_policy",
        "limit",
        "root_required",
        "same_subtree",
        "name",
        "uuid",
        "associated",
        "project_id",
        "user_id",
        "consumer_type",
        "x",
    ]);
    (name, prop::collection::vec(word(), 0..3), any::<bool>()).prop_map(|(name, words, raw)| {
        let value = words.concat();
        if raw {
            let plain = value.replace(|c: char| c.is_control() || " #".contains(c), "%zz");
            format!("{name}={plain}")
        } else {
            let escaped =
                percent_encoding::utf8_percent_encode(&value, percent_encoding::NON_ALPHANUMERIC);
            format!("{name}={escaped}")
        }
    })
}

fn target() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec![
        "/",
        "/resource_providers",
        "/resource_providers/{}",
        "/resource_providers/{}/inventories",
        "/resource_providers/{}/inventories/{}",
        "/resource_providers/{}/aggregates",
        "/resource_providers/{}/traits",
        "/resource_providers/{}/usages",
        "/resource_providers/{}/allocations",
        "/resource_classes",
        "/resource_classes/{}",
        "/traits",
        "/traits/{}",
        "/allocations",
        "/allocations/{}",
        "/usages",
        "/allocation_candidates",
        "/reshaper",
        "/{}",
        "//",
    ]);
    let query = prop::collection::vec(parameter(), 0..5);
    (path, word(), word(), query).prop_map(|(path, one, other, query)| {
        let escape = |word: &str| {
            percent_encoding::utf8_percent_encode(word, percent_encoding::NON_ALPHANUMERIC)
                .to_string()
        };
        let path = path.replacen("{}", &escape(&one), 1).replacen("{}", &escape(&other), 1);
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    })
}

/// Bodies of the API's shapes, with anything in the place of anything.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![-1_i64, 0, 1, 2, i64::from(i32::MAX) + 1, i64::MAX])
            .prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    let key = prop_oneof![
        4 => prop::sample::select(vec![
            "name", "uuid", "parent_provider_uuid", "resource_provider_generation", "inventories",
            "resource_class", "total", "reserved", "min_unit", "max_unit", "step_size",
            "allocation_ratio", "aggregates", "traits", "allocations", "resource_provider",
            "resources", "project_id", "user_id", "consumer_generation", "consumer_type",
            "mappings", "generation", "VCPU", "MEMORY_MB", PROVIDER,
        ])
        .prop_map(str::to_owned),
        1 => word(),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key.clone(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A request that is right, with one member replaced or added.
fn nearly_right() -> impl Strategy<Value = Value> {
    let claim = json!({"allocations": {PROVIDER: {"resources": {"VCPU": 1}}}, "project_id": "p",
                       "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"});
    let inventories = json!({"resource_provider_generation": 1,
                             "inventories": {"VCPU": {"total": 4, "allocation_ratio": 1.5}}});
    let right = prop::sample::select(vec![
        json!({"name": "n", "uuid": PROVIDER, "parent_provider_uuid": null}),
        inventories.clone(),
        json!({"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX2"]}),
        json!({"resource_provider_generation": 1, "aggregates": [PROVIDER]}),
        claim.clone(),
        json!({PROVIDER: claim.clone()}),
        json!({"inventories": {PROVIDER: inventories}, "allocations": {PROVIDER: claim}}),
        json!({"name": "CUSTOM_A"}),
        json!({"resource_class": "VCPU", "total": 1}),
    ]);
    (right, any::<prop::sample::Index>(), value()).prop_map(|(mut right, place, value)| {
        if let Value::Object(members) = &mut right {
            let keys: Vec<String> = members.keys().cloned().collect();
            members.insert(keys[place.index(keys.len())].clone(), value);
        }
        right
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => nearly_right().prop_map(|value| value.to_string().into_bytes()),
        4 => value().prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..60),
        1 => (nearly_right(), any::<prop::sample::Index>(), any::<u8>()).prop_map(
            |(value, place, byte)| {
                let mut bytes = value.to_string().into_bytes();
                let place = place.index(bytes.len());
                bytes[place] = byte;
                bytes
            },
        ),
        1 => Just(Vec::new()),
    ]
}

fn sent() -> impl Strategy<Value = Sent> {
    let version = prop_oneof![
        6 => (0..=40_u32).prop_map(|minor| format!("placement 1.{minor}")),
        1 => Just("placement latest".to_owned()),
        1 => "[ -~]{0,20}",
    ];
    let content_type = prop_oneof![
        8 => Just(Some("application/json".to_owned())),
        1 => Just(None),
        1 => "[ -~]{0,20}".prop_map(Some),
    ];
    let method = prop::sample::select(METHODS.to_vec()).prop_map(str::to_owned);
    (method, target(), version, content_type, body())
}

#[test]
fn any_request_gets_a_response_other_than_5xx() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let berth = runtime.block_on(async {
        let berth = Berth::new().await;
        let body = json!({"name": "fuzzed", "uuid": PROVIDER});
        berth.post("/resource_providers", body).await.expect(200);
        berth
    });
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let config =
        Config { cases: cases.unwrap_or(CASES), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&sent(), |sent| {
        let status = runtime.block_on(answered(&berth, &sent));
        // A target that is no URI cannot even be sent in process.
        prop_assert!(status.is_none_or(|status| status < 500), "{status:?}");
        Ok(())
    });
    runtime.block_on(berth.assert_consistent());
    outcome.unwrap();
}

async fn answered(berth: &Berth, sent: &Sent) -> Option<u16> {
    let (method, target, version, content_type, body) = sent;
    let mut request = Request::builder()
        .method(method.as_str())
        .uri(target)
        .header("host", "localhost")
        .header("x-auth-token", "admin")
        .header("x-roles", "admin,service")
        .header("openstack-api-version", version)
        .header("x-openstack-request-id", format!("req-{}", Uuid::nil()));
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    let request = request.body(Body::from(body.clone())).ok()?;
    let answer = berth.answer(request).await;
    let status = answer.status().as_u16();
    axum::body::to_bytes(answer.into_body(), usize::MAX).await.ok()?;
    Some(status)
}
