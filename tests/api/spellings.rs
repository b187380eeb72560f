//! Spellings of clients: aggregates are returned as they were sent, and prefixes of names of traits match as in
//! `SQLite`.

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::Host;

async fn put(berth: &Berth, host: Host, spellings: &[String]) -> Value {
    let generation = berth.generation(host).await;
    let body = json!({"aggregates": spellings, "resource_provider_generation": generation});
    let path = format!("/resource_providers/{}/aggregates", host.0);
    berth.put(&path, body).await.expect(200).json()["aggregates"].clone()
}

async fn get(berth: &Berth, host: Host) -> Vec<String> {
    let path = format!("/resource_providers/{}/aggregates", host.0);
    let answer = berth.get(&path).await.expect(200).json();
    let mut shown: Vec<String> = serde_json::from_value(answer["aggregates"].clone()).unwrap();
    shown.sort();
    shown
}

async fn members(berth: &Berth, spelling: &str) -> usize {
    let path = format!("/resource_providers?member_of={spelling}");
    let answer = berth.get(&path).await.expect(200).json();
    answer["resource_providers"].as_array().unwrap().len()
}

#[tokio::test]
async fn an_aggregate_comes_back_as_it_was_sent() {
    let berth = Berth::new().await;
    let other = berth.replica().await;
    let host = berth.host("host", &[]).await;
    let uuid = Uuid::new_v4();
    let usual = uuid.to_string();
    let spellings =
        [usual.clone(), uuid.simple().to_string(), usual.to_uppercase(), format!("{{{usual}}}")];
    for spelling in &spellings {
        assert_eq!(put(&berth, host, std::slice::from_ref(spelling)).await, json!([spelling]));
        for replica in [&berth, &other, &berth.replica().await] {
            assert_eq!(get(replica, host).await, std::slice::from_ref(spelling));
            for asked in [&usual, &spellings[1], &spellings[2]] {
                assert_eq!(members(replica, asked).await, 1, "{asked} for {spelling}");
            }
        }
    }
    // Two spellings are two entries of the list, in the order that was sent.
    let both = [spellings[2].clone(), usual.clone()];
    assert_eq!(put(&berth, host, &both).await, json!(both));
    let mut sorted = both.clone();
    sorted.sort();
    for replica in [&berth, &other, &berth.replica().await] {
        assert_eq!(get(replica, host).await, sorted);
    }
    assert_eq!(members(&berth, &usual).await, 1);
    put(&berth, host, &spellings[1..2]).await;
    assert_eq!(get(&other, host).await, [spellings[1].clone()]);
    put(&berth, host, &[]).await;
    assert_eq!(get(&other, host).await, Vec::<String>::new());
    assert_eq!(members(&berth, &usual).await, 0);
    berth.audit().await;
}

/// Replicas of the version before write and read no spellings while they are being replaced.
#[tokio::test]
async fn aggregates_of_the_version_before_are_shown_in_the_usual_spelling() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let uuid = Uuid::new_v4();
    let mut conn = PgConnection::connect_with(&berth.database).await.unwrap();
    sqlx::query(
        "insert into provider_aggregates (provider_id, aggregate) select id, $1 from providers
         on conflict do nothing",
    )
    .bind(uuid)
    .execute(&mut conn)
    .await
    .unwrap();
    assert_eq!(get(&berth.replica().await, host).await, [uuid.to_string()]);
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
