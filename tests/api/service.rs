//! What surrounds the API: request ids, a path in front, and a database that is away.

use std::time::{Duration, Instant};

use berth::http::app::Options;
use serde_json::json;
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::postgres;

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_a_request_id_of_its_own() {
    let berth = Berth::new().await;
    let one = berth.get("/").await;
    let theirs = format!("req-{}", Uuid::new_v4());
    let other = berth.header("x-openstack-request-id", &theirs).get("/nowhere").await.expect(404);
    let id = |answer: &crate::support::app::Answer| {
        answer.headers["x-openstack-request-id"].to_str().unwrap().to_owned()
    };
    assert!(id(&one).starts_with("req-"));
    assert_ne!(id(&one), id(&other));
    assert_ne!(id(&other), theirs, "a caller's own id goes to the log, not into the answer");
    assert_eq!(other.json()["errors"][0]["request_id"], id(&other));
    assert!(other.detail().contains("could not be found"));
    for answer in [one, other] {
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_served_below_a_path_too() {
    let options = Options { path_prefix: "/placement".to_owned(), ..Options::default() };
    let berth = Berth::with(&postgres::database().await, options).await;
    for prefix in ["", "/placement"] {
        berth.get(&format!("{prefix}/")).await.expect(200);
        let uuid = Uuid::new_v4();
        let body = json!({"name": format!("host{prefix}"), "uuid": uuid});
        let made = berth.post(&format!("{prefix}/resource_providers"), body).await.expect(200);
        let location = made.headers["location"].to_str().unwrap();
        assert_eq!(location, format!("http://localhost{prefix}/resource_providers/{uuid}"));
        let links = made.json()["links"].clone();
        assert_eq!(links[0]["href"], format!("{prefix}/resource_providers/{uuid}"));
    }
    berth.get("/placement").await.expect(200);
    berth.get("/placements/resource_providers").await.expect(404);
}

/// 503 with a time to come back at, within bounds, nothing half-written, and whole again at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_told_and_comes_back() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let name = berth.database.get_database().unwrap().to_owned();
    let mut elsewhere = {
        let options = berth.database.clone().database("postgres");
        <sqlx::PgConnection as sqlx::Connection>::connect_with(&options).await.unwrap()
    };
    let away = format!(
        "alter database {name} allow_connections false;
         select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(away)).execute(&mut elsewhere).await.unwrap();
    let began = Instant::now();
    let consumer = Uuid::new_v4();
    for answer in [
        berth.get(&format!("/resource_providers/{}", host.0)).await,
        berth.claim(consumer, None, &[(host, "VCPU", 1)]).await,
        berth.get(&format!("/allocations/{consumer}")).await,
        berth.post("/resource_providers", json!({"name": "other"})).await,
    ] {
        let answer = answer.expect(503);
        assert!(answer.headers.contains_key("retry-after"));
        assert!(!answer.text().contains("database \""), "{}", answer.text());
    }
    assert!(began.elapsed() < Duration::from_mins(1));
    berth.get("/").await.expect(200);

    let back = format!("alter database {name} allow_connections true");
    sqlx::raw_sql(sqlx::AssertSqlSafe(back)).execute(&mut elsewhere).await.unwrap();
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    assert_eq!(berth.usages(host).await, json!({"VCPU": 1}));
    berth.post("/resource_providers", json!({"name": "other"})).await.expect(200);
}
