//! `/resource_providers/{uuid}/aggregates`: the groups of a provider, as docs/api/aggregates.md specifies them.

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
            for request in [&usual, &spellings[1], &spellings[2]] {
                assert_eq!(members(replica, request).await, 1, "{request} for {spelling}");
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
    berth.assert_consistent().await;
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

#[tokio::test]
async fn a_list_replaces_the_one_before_and_may_be_empty() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let [one, other] = [Uuid::new_v4(), Uuid::new_v4()].map(|uuid| uuid.to_string());
    put(&berth, host, &[one.clone(), other.clone()]).await;
    put(&berth, host, std::slice::from_ref(&other)).await;
    assert_eq!(get(&berth, host).await, std::slice::from_ref(&other));
    assert_eq!((members(&berth, &one).await, members(&berth, &other).await), (0, 1));
    put(&berth, host, &[]).await;
    assert_eq!(get(&berth, host).await, [""; 0]);
}

#[tokio::test]
async fn the_generation_is_checked_from_1_19() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let path = format!("/resource_providers/{}/aggregates", host.0);
    let list = json!([Uuid::new_v4()]);
    let shown = berth.at("1.18").put(&path, list.clone()).await.expect(200).json();
    assert_eq!(shown, json!({"aggregates": list}));
    assert_eq!(berth.at("1.18").get(&path).await.expect(200).json(), shown);
    assert_eq!(berth.generation(host).await, 0);

    let body =
        |generation: i64| json!({"aggregates": list, "resource_provider_generation": generation});
    // Each PUT increases it, even one that changes nothing.
    assert_eq!(berth.at("1.19").put(&path, body(0)).await.expect(200).json(), body(1));
    assert_eq!(berth.at("1.19").get(&path).await.expect(200).json(), body(1));
    let refused = berth.at("1.23").put(&path, body(0)).await.expect(409);
    assert_eq!(refused.code(), "placement.concurrent_update");
}

#[tokio::test]
async fn anything_but_a_list_of_different_uuids_is_refused() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let path = format!("/resource_providers/{}/aggregates", host.0);
    let twice = Uuid::new_v4();
    for list in [json!(["rack"]), json!([twice, twice]), json!({}), json!([1])] {
        let body = json!({"aggregates": list, "resource_provider_generation": 0});
        berth.put(&path, body).await.expect(400);
        berth.at("1.18").put(&path, list).await.expect(400);
    }
    berth.at("1.0").put(&path, json!([])).await.expect(404);
    berth.get(&format!("/resource_providers/{twice}/aggregates")).await.expect(404);
}
