//! Input that no client means, and UUIDs however they are spelled: refused or understood, never a
//! 500, and nothing is changed by what is refused.

use axum::http::Method;
use berth::http::Options;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::{ApiResponse, Berth};
use crate::support::cloud::claim_body;
use crate::support::postgres;

/// Posts exactly this text, called JSON.
async fn post_text(berth: &Berth, path: &str, text: &str) -> ApiResponse {
    berth.ask(Method::POST, path, Some(text.as_bytes().to_vec())).await
}

/// Puts exactly this text, called JSON.
async fn put_text(berth: &Berth, path: &str, text: &str) -> ApiResponse {
    berth.ask(Method::PUT, path, Some(text.as_bytes().to_vec())).await
}

#[tokio::test]
async fn u1_a_uuid_is_the_same_in_any_case() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let (upper, simple) = (host.0.to_string().to_uppercase(), host.0.simple());
    berth.get(&format!("/resource_providers/{upper}")).await.expect(200);
    // Where the original needs dashes, so does Berth.
    berth.get(&format!("/resource_providers/{simple}")).await.expect(404);
    let count = |answer: ApiResponse| answer.json()["resource_providers"].as_array().unwrap().len();
    let listed = berth.get(&format!("/resource_providers?uuid={upper}")).await.expect(200);
    assert_eq!(count(listed), 1);
    berth.get(&format!("/resource_providers?uuid={simple}")).await.expect(400);

    let aggregate = Uuid::new_v4();
    let generation = berth.generation(host).await;
    let body =
        json!({"aggregates": [aggregate.simple()], "resource_provider_generation": generation});
    let path = format!("/resource_providers/{}/aggregates", host.0);
    let put = berth.put(&path, body).await.expect(200);
    assert_eq!(put.json()["aggregates"], json!([aggregate.simple()]));
    let upper_aggregate = aggregate.to_string().to_uppercase();
    let listed = berth.get(&format!("/resource_providers?member_of={upper_aggregate}")).await;
    assert_eq!(count(listed.expect(200)), 1);

    let consumer = Uuid::new_v4();
    let mut claim = claim_body(None, &[(host, "VCPU", 1)]);
    let wants = claim["allocations"][host.0.to_string()].take();
    claim["allocations"] = json!({ upper: wants });
    berth.put(&format!("/allocations/{}", consumer.simple()), claim).await.expect(204);
    let misplaced = format!("{}----", consumer.simple());
    for spelled in [consumer.to_string(), consumer.to_string().to_uppercase(), misplaced] {
        let held = berth.get(&format!("/allocations/{spelled}")).await.expect(200).json();
        assert_eq!(held["allocations"][host.0.to_string()]["resources"], json!({"VCPU": 1}));
    }
}

#[tokio::test]
async fn u1_a_consumer_is_the_same_wherever_its_dashes_stand() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    let misplaced = format!("-{}---", consumer.simple());
    let claim = |generation| claim_body(generation, &[(host, "VCPU", 1)]);
    berth.post("/allocations", json!({ misplaced.clone(): claim(None) })).await.expect(204);
    berth.put(&format!("/allocations/{misplaced}"), claim(Some(1))).await.expect(204);
    let reshaping = json!({
        "inventories": {(host.0.to_string()): {
            "resource_provider_generation": berth.generation(host).await,
            "inventories": {"VCPU": {"total": 8}},
        }},
        "allocations": { misplaced.clone(): claim(Some(2)) },
    });
    let service = berth.header("x-roles", "admin,service");
    service.post("/reshaper", reshaping).await.expect(204);
    for spelled in [misplaced.clone(), consumer.to_string()] {
        let held = berth.get(&format!("/allocations/{spelled}")).await.expect(200).json();
        assert_eq!(held["consumer_generation"], json!(3), "{spelled}");
    }
    // A provider needs its dashes in their places, as in the reference.
    let provider = format!("{}----", host.0.simple());
    berth.get(&format!("/resource_providers/{provider}")).await.expect(404);
    berth.delete(&format!("/allocations/{misplaced}")).await.expect(204);
    berth.delete(&format!("/allocations/{consumer}")).await.expect(404);
}

#[tokio::test]
async fn b1_a_nul_is_refused_in_text_path_and_query() {
    let berth = Berth::new().await;
    post_text(&berth, "/resource_providers", r#"{"name": "a\u0000"}"#).await.expect(400);
    for path in ["/traits/%00", "/resource_providers?name=%00", "/usages?project_id=a%00b"] {
        berth.get(path).await.expect(400);
    }
    let mut claim = claim_body(None, &[]);
    claim["project_id"] = json!("a\0");
    berth.put(&format!("/allocations/{}", Uuid::new_v4()), claim).await.expect(400);
}

#[tokio::test]
async fn b2_bytes_that_are_no_text_are_refused() {
    let berth = Berth::new().await;
    for path in [
        "/traits/%ff",
        "/traits/%ED%A0%80",
        "/%ff",
        "/resource_providers?name=%ff",
        "/resource_providers?%C3=x",
        "/usages?project_id=%ff",
        "/allocation_candidates?resources=VCPU:1&required=%ff",
    ] {
        berth.get(path).await.expect(400);
    }
    berth
        .ask(Method::POST, "/resource_providers", Some(b"{\"name\": \"\xff\"}".to_vec()))
        .await
        .expect(400);
}

#[tokio::test]
async fn b3_json_nested_too_deep_is_refused() {
    let berth = Berth::new().await;
    for open in ["[", "{\"a\":"] {
        let answer = post_text(&berth, "/resource_providers", &open.repeat(10_000)).await;
        assert!(answer.expect(400).detail().contains("Malformed JSON: "));
    }
}

#[tokio::test]
async fn b4_integers_beyond_64_bits_are_refused_in_bodies() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let thousands = "9".repeat(5000);
    for number in ["9223372036854775808", "-9223372036854775809", "1e300", &thousands] {
        let text = format!("{{\"resource_provider_generation\": {number}, \"inventories\": {{}}}}");
        put_text(&berth, &format!("/resource_providers/{}/inventories", host.0), &text)
            .await
            .expect(400);
        let claim = claim_body(None, &[(host, "VCPU", 1)]).to_string();
        let claim = claim.replace("\"VCPU\":1", &format!("\"VCPU\":{number}"));
        put_text(&berth, &format!("/allocations/{}", Uuid::new_v4()), &claim).await.expect(400);
    }
    let path = format!("/allocation_candidates?resources=VCPU:{thousands}");
    let found = berth.get(&path).await.expect(200).json();
    assert_eq!(found["allocation_requests"], json!([]));
}

#[tokio::test]
async fn b5_numbers_that_are_not_finite_are_refused() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    for ratio in ["NaN", "Infinity", "-Infinity", "1e999", "1e300"] {
        let text = format!(
            "{{\"resource_class\": \"VCPU\", \"total\": 1, \"allocation_ratio\": {ratio}}}"
        );
        post_text(&berth, &format!("/resource_providers/{}/inventories", host.0), &text)
            .await
            .expect(400);
    }
    assert_eq!(berth.usages(host).await, json!({}));
}

#[tokio::test]
async fn b6_half_a_surrogate_is_refused() {
    let berth = Berth::new().await;
    for half in [r"\ud800", r"\udc00", r"\ud800\ud800"] {
        let text = format!("{{\"name\": \"a{half}\"}}");
        post_text(&berth, "/resource_providers", &text).await.expect(400);
    }
    post_text(&berth, "/resource_providers", r#"{"name": "\ud83d\ude00"}"#).await.expect(200);
}

#[tokio::test]
async fn b7_a_name_does_not_end_in_a_line_break() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    berth.post("/resource_classes", json!({"name": "CUSTOM_X\n"})).await.expect(400);
    berth.ask(Method::PUT, "/resource_classes/CUSTOM_X%0A", None).await.expect(400);
    berth.ask(Method::PUT, "/traits/CUSTOM_X%0A", None).await.expect(400);
    let body = json!({"resource_class": "VCPU\n", "total": 1});
    berth.post(&format!("/resource_providers/{}/inventories", host.0), body).await.expect(400);
    let mut claim = claim_body(None, &[(host, "VCPU", 1)]);
    claim["consumer_type"] = json!("INSTANCE\n");
    berth.put(&format!("/allocations/{}", Uuid::new_v4()), claim).await.expect(400);
}

#[tokio::test]
async fn b8_only_ascii_digits_are_digits() {
    let berth = Berth::new().await;
    for query in ["resources=VCPU:%D9%A3", "resources=VCPU:1&limit=%D9%A3", "resources=VCPU:1_0"] {
        berth.get(&format!("/allocation_candidates?{query}")).await.expect(400);
    }
    for version in ["1.\u{663}", "1.1_0", "1_.1"] {
        berth.at(version).get("/").await.expect(400);
    }
}

#[tokio::test]
async fn b10_a_header_with_underscores_is_another_header() {
    let berth = Berth::new().await;
    let nobody = berth.without("x-auth-token").header("x_auth_token", "admin");
    nobody.get("/resource_providers").await.expect(401);
}

#[tokio::test]
async fn b11_a_body_has_a_bound() {
    let options = Options { max_body_bytes: 1000, ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    let long = json!({ "name": "x".repeat(1000) });
    let answer = berth.post("/resource_providers", long).await.expect(413);
    assert_eq!(answer.json()["errors"][0]["title"], "Request Entity Too Large");
    assert_eq!(berth.get("/resource_providers").await.json(), json!({"resource_providers": []}));
}

#[tokio::test]
async fn b12_a_path_and_its_query_have_a_bound() {
    let options = Options { max_uri_bytes: 2000, ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    let ask = |length| {
        let path = format!("/resource_providers?name={}", "x".repeat(length));
        let berth = berth.clone();
        async move { berth.get(&path).await }
    };
    ask(2000).await.expect(414);
    // It is the length that the client sent, not that of what it means.
    berth.get(&format!("/traits/{}", "%41".repeat(700))).await.expect(414);
    assert_eq!(ask(1000).await.expect(200).json()["resource_providers"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn b14_an_inventory_is_an_object_whatever_its_class_is_called() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let path = format!("/resource_providers/{}/inventories", host.0);
    let before = berth.get(&path).await.json();
    for (inventories, message) in [
        (json!({"a": 1}), "invalid type: integer `1`, expected an object"),
        (json!({"": {"total": [1]}}), "invalid type: sequence, expected a JSON number"),
        (
            json!({"": {"total": 8, "reserved": 2_147_483_648_i64}}),
            "2147483648 is greater than the maximum of 2147483647",
        ),
    ] {
        let body = json!({
            "resource_provider_generation": before["resource_provider_generation"],
            "inventories": inventories,
        });
        let detail = berth.put(&path, body).await.expect(400).detail();
        assert!(detail.contains(message), "{detail}");
        assert_eq!(berth.get(&path).await.json(), before);
    }
}

#[tokio::test]
async fn b15_a_consumer_that_is_no_uuid_is_refused() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    for name in ["0".repeat(36), "-".repeat(36), format!("{}-", "0".repeat(35))] {
        let body = json!({ name.clone(): claim_body(None, &[(host, "VCPU", 1)]) });
        let refused = berth.post("/allocations", body).await.expect(400);
        assert!(refused.text().contains(&format!("Malformed consumer_uuid: {name}")));
    }
    assert_eq!(berth.usages(host).await, json!({"VCPU": 0}));
}

#[tokio::test]
async fn b16_an_aggregate_is_not_spelled_at_length() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let path = format!("/resource_providers/{}/aggregates", host.0);
    let uuid = Uuid::new_v4();
    for (spelling, status) in [
        (format!("urn:uuid:{{{uuid}}}"), 200),
        (format!("{uuid}{}", "-".repeat(28)), 200),
        (format!("{uuid}{}", "-".repeat(29)), 400),
    ] {
        let generation = berth.generation(host).await;
        let body = json!({"aggregates": [spelling], "resource_provider_generation": generation});
        let answer = berth.put(&path, body).await.expect(status);
        assert_eq!(answer.text().contains("is too long"), status == 400);
    }
}
