//! `/traits` and `/resource_providers/{uuid}/traits`: properties of providers, as docs/api/traits.md specifies them.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::Berth;
use crate::support::cloud::Host;

fn path(host: Host) -> String {
    format!("/resource_providers/{}/traits", host.0)
}

fn body(generation: i64, traits: &[&str]) -> Value {
    json!({"resource_provider_generation": generation, "traits": traits})
}

#[tokio::test]
async fn a_custom_trait_is_created_once_and_deleted_unless_a_provider_has_it() {
    let berth = Berth::new().await;
    let url = "/traits/CUSTOM_GOLD";
    berth.get(url).await.expect(404);
    let created = berth.ask(Method::PUT, url, None).await.expect(201);
    assert!(created.headers["location"].to_str().unwrap().ends_with(url));
    berth.ask(Method::PUT, url, None).await.expect(204);
    berth.get(url).await.expect(204);

    let host = berth.host("host", &[]).await;
    berth.put(&path(host), body(0, &["CUSTOM_GOLD"])).await.expect(200);
    berth.delete(url).await.expect(409);
    berth.delete(&path(host)).await.expect(204);
    berth.delete(url).await.expect(204);
    berth.delete(url).await.expect(404);
}

#[tokio::test]
async fn standard_traits_exist_and_cannot_be_deleted() {
    let berth = Berth::new().await;
    berth.get("/traits/HW_CPU_X86_AVX2").await.expect(204);
    berth.delete("/traits/HW_CPU_X86_AVX2").await.expect(400);
    for name in ["HW_CPU_X86_AVX2", "GOLD", "CUSTOM_gold", "CUSTOM_"] {
        berth.ask(Method::PUT, &format!("/traits/{name}"), None).await.expect(400);
    }
}

#[tokio::test]
async fn the_list_is_filtered_by_name_and_by_use() {
    let berth = Berth::new().await;
    for name in ["CUSTOM_FREE", "CUSTOM_USED"] {
        berth.ask(Method::PUT, &format!("/traits/{name}"), None).await.expect(201);
    }
    let host = berth.host("host", &[]).await;
    berth.put(&path(host), body(0, &["CUSTOM_USED"])).await.expect(200);
    let list = async |query: &str| {
        let shown = berth.get(&format!("/traits?{query}")).await.expect(200).json();
        serde_json::from_value::<Vec<String>>(shown["traits"].clone()).unwrap()
    };
    assert_eq!(list("name=in:CUSTOM_FREE,CUSTOM_NONE").await, ["CUSTOM_FREE"]);
    assert_eq!(list("associated=true").await, ["CUSTOM_USED"]);
    assert_eq!(list("name=startswith:CUSTOM&associated=false").await, ["CUSTOM_FREE"]);
    // Another word before the colon does not filter.
    assert!(list("name=like:CUSTOM_FREE").await.len() > 100);
    for query in ["name=CUSTOM_FREE", "associated=maybe", "nome=in:A"] {
        berth.get(&format!("/traits?{query}")).await.expect(400);
    }
    berth.at("1.5").get("/traits").await.expect(404);
}

#[tokio::test]
async fn the_generation_of_a_provider_grows_if_the_set_changes() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let avx = "HW_CPU_X86_AVX";
    let put =
        async |generation, traits: &[&str]| berth.put(&path(host), body(generation, traits)).await;
    // A trait that occurs twice counts once.
    assert_eq!(put(0, &[avx, avx]).await.expect(200).json(), body(1, &[avx]));
    assert_eq!(put(1, &[avx]).await.expect(200).json(), body(1, &[avx]));
    assert_eq!(put(0, &[]).await.expect(409).code(), "placement.concurrent_update");
    put(1, &["CUSTOM_NONE"]).await.expect(400);
    berth.delete(&path(host)).await.expect(204);
    assert_eq!(berth.get(&path(host)).await.expect(200).json(), body(2, &[]));
}

/// As the reference on `SQLite`, which hands the beginning to `like`.
#[tokio::test]
async fn beginnings_of_traits_are_patterns() {
    let berth = Berth::new().await;
    for name in ["CUSTOM_AB", "CUSTOM_AXB", "CUSTOM_B"] {
        berth.put(&format!("/traits/{name}"), json!({})).await.expect(201);
    }
    let long = "a".repeat(256);
    let many = "%25".repeat(5000) + "AXB";
    for (beginning, expected) in [
        ("CUSTOM_A", &["CUSTOM_AB", "CUSTOM_AXB"][..]),
        ("custom_a", &["CUSTOM_AB", "CUSTOM_AXB"]),
        ("CUSTOM%25B", &["CUSTOM_AB", "CUSTOM_AXB", "CUSTOM_B"]),
        ("CUSTOM_A_B", &["CUSTOM_AXB"]),
        ("CUSTOM__B", &["CUSTOM_AB"]),
        ("CUSTOMXA", &[]),
        ("CUSTOM%5C_A", &[]),
        ("%C3%A9", &[]),
        (&long, &[]),
        (&many, &["CUSTOM_AXB"]),
    ] {
        let path = format!("/traits?name=startswith:{beginning}");
        let traits = berth.get(&path).await.expect(200).json()["traits"].clone();
        let mut traits: Vec<String> = serde_json::from_value(traits).unwrap();
        traits.retain(|name| name.starts_with("CUSTOM"));
        traits.sort();
        assert_eq!(traits, expected, "{beginning}");
    }
}
