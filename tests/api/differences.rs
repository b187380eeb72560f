//! Where Berth answers otherwise than the reference, deliberately: docs/differences.md, entry by
//! entry. The races among them are in concurrency.rs and crash.rs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::{Host, claim_body};

/// Puts a provider into an aggregate, and lets it share what it has with the others in it.
async fn set(berth: &Berth, host: Host, aggregate: Uuid, traits: &[&str]) {
    let url = format!("/resource_providers/{}", host.0);
    let generation = berth.generation(host).await;
    let body = json!({"resource_provider_generation": generation, "aggregates": [aggregate]});
    berth.put(&format!("{url}/aggregates"), body).await.expect(200);
    let generation = berth.generation(host).await;
    let body = json!({"resource_provider_generation": generation, "traits": traits});
    berth.put(&format!("{url}/traits"), body).await.expect(200);
}

const SHARES: &str = "MISC_SHARES_VIA_AGGREGATE";

/// Candidates as sets of (provider, class, amount).
async fn candidates(berth: &Berth, query: &str) -> Vec<Vec<(String, String, i64)>> {
    let answer = berth.get(&format!("/allocation_candidates?{query}")).await.expect(200).json();
    let mut found: Vec<Vec<_>> = answer["allocation_requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|request| {
            let mut rows = Vec::new();
            for (provider, held) in request["allocations"].as_object().unwrap() {
                for (class, amount) in held["resources"].as_object().unwrap() {
                    rows.push((provider.clone(), class.clone(), amount.as_i64().unwrap()));
                }
            }
            rows.sort();
            rows
        })
        .collect();
    found.sort();
    found
}

fn row(host: Host, class: &str, amount: i64) -> (String, String, i64) {
    (host.0.to_string(), class.to_owned(), amount)
}

fn sorted<T: Ord>(mut rows: Vec<Vec<T>>) -> Vec<Vec<T>> {
    for rows in &mut rows {
        rows.sort();
    }
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_a_shared_disk_does_not_hide_hosts() {
    let berth = Berth::new().await;
    let room = Uuid::new_v4();
    let [one, two] =
        [berth.host("one", &[("VCPU", 8)]).await, berth.host("two", &[("VCPU", 8)]).await];
    let pool = berth.host("pool", &[("DISK_GB", 100)]).await;
    set(&berth, one, room, &[]).await;
    set(&berth, two, room, &[]).await;
    set(&berth, pool, room, &[SHARES]).await;
    assert_eq!(
        candidates(&berth, "resources=DISK_GB:10&resources1=VCPU:1").await,
        sorted(vec![
            vec![row(one, "VCPU", 1), row(pool, "DISK_GB", 10)],
            vec![row(two, "VCPU", 1), row(pool, "DISK_GB", 10)],
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_amounts_are_the_requested_ones() {
    let berth = Berth::new().await;
    let root = berth.host("root", &[("MEMORY_MB", 100)]).await;
    let one = berth.child("one", Some(root), &[("VCPU", 8)]).await;
    let two = berth.child("two", Some(root), &[("VCPU", 8)]).await;
    let memory = || row(root, "MEMORY_MB", 10);
    let expected = sorted(vec![
        vec![memory(), row(one, "VCPU", 2)],
        vec![memory(), row(two, "VCPU", 2)],
        vec![memory(), row(one, "VCPU", 1), row(two, "VCPU", 1)],
        vec![memory(), row(one, "VCPU", 1), row(two, "VCPU", 1)],
    ]);
    for policy in ["", "&group_policy=isolate", "&group_policy=none"] {
        let query = format!("resources=VCPU:1,MEMORY_MB:10&resources1=VCPU:1{policy}");
        assert_eq!(candidates(&berth, &query).await, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_a_pool_below_a_root_can_be_the_whole_answer() {
    let berth = Berth::new().await;
    let room = Uuid::new_v4();
    let storage = berth.host("storage", &[]).await;
    let pool = berth.child("pool", Some(storage), &[("DISK_GB", 100)]).await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    set(&berth, pool, room, &[SHARES]).await;
    set(&berth, host, room, &[]).await;
    assert_eq!(
        candidates(&berth, "resources=VCPU:1,DISK_GB:10").await,
        sorted(vec![vec![row(host, "VCPU", 1), row(pool, "DISK_GB", 10)]])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_a_limit_that_is_no_number_is_refused() {
    let berth = Berth::new().await;
    for query in ["limit=abc&limit=5", "limit=5&limit=abc", "limit=abc", "limit=0", "limit=-1"] {
        let path = format!("/allocation_candidates?resources=VCPU:1&{query}");
        berth.get(&path).await.expect(400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_what_is_taken_counts_when_groups_meet_on_one_provider() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VGPU", 4)]).await;
    berth.claim(Uuid::new_v4(), None, &[(host, "VGPU", 3)]).await.expect(204);
    let query = "resources1=VGPU:1&resources2=VGPU:1&group_policy=none";
    assert!(candidates(&berth, query).await.is_empty());
    assert_eq!(candidates(&berth, "resources1=VGPU:1").await, [[row(host, "VGPU", 1)]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_a_refused_write_leaves_no_consumer_behind() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let nowhere = Host(Uuid::new_v4());
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(nowhere, "VCPU", 1)]).await.expect(400);
    let many = json!({consumer.to_string(): claim_body(None, &[(nowhere, "VCPU", 1)])});
    berth.post("/allocations", many).await.expect(400);
    berth.claim(consumer, None, &[]).await.expect(204);
    berth.claim(consumer, None, &[(host, "VCPU", 9)]).await.expect(409);
    let left = async |berth: &Berth| -> (i64, i64, i64, i64) {
        let counts = "select (select count(*) from consumers), (select count(*) from projects),
                             (select count(*) from users), (select count(*) from consumer_types)";
        sqlx::query_as(counts).fetch_one(&mut berth.session().await).await.unwrap()
    };
    assert_eq!(left(&berth).await, (0, 0, 0, 0));
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
    assert_eq!(left(&berth).await, (1, 1, 1, 1));
    berth.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_deleting_allocations_deletes_the_consumer_with_them() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    for _ in 0..3 {
        berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
        berth.delete(&format!("/allocations/{consumer}")).await.expect(204);
        berth.assert_consistent().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_traits_can_be_forbidden_in_trees() {
    let berth = Berth::new().await;
    let room = Uuid::new_v4();
    let host = berth.host("root", &[("MEMORY_MB", 100)]).await;
    let fast = berth.child("fast", Some(host), &[("DISK_GB", 100)]).await;
    let slow = berth.child("slow", Some(host), &[("DISK_GB", 100)]).await;
    set(&berth, fast, room, &["STORAGE_DISK_SSD"]).await;
    set(&berth, slow, room, &["STORAGE_DISK_HDD"]).await;
    let query = "resources=MEMORY_MB:1,DISK_GB:1&required=!STORAGE_DISK_HDD";
    assert_eq!(
        candidates(&berth, query).await,
        sorted(vec![vec![row(host, "MEMORY_MB", 1), row(fast, "DISK_GB", 1)]])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_usages_are_grouped_by_consumer_type() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8), ("MEMORY_MB", 100)]).await;
    let wants = [(host, "VCPU", 1), (host, "MEMORY_MB", 10)];
    berth.claim(Uuid::new_v4(), None, &wants).await.expect(204);
    berth.claim(Uuid::new_v4(), None, &wants).await.expect(204);
    let old = json!({"allocations": {(host.0.to_string()): {"resources": {"VCPU": 1}}},
                     "project_id": "project", "user_id": "user"});
    let path = format!("/allocations/{}", Uuid::new_v4());
    berth.at("1.12").put(&path, old).await.expect(204);
    let instances = json!({"consumer_count": 2, "VCPU": 2, "MEMORY_MB": 20});
    let unknown = json!({"consumer_count": 1, "VCPU": 1});
    let usages = |query: &str| {
        let (berth, path) = (berth.clone(), format!("/usages?project_id=project{query}"));
        async move { berth.get(&path).await.expect(200).json()["usages"].clone() }
    };
    assert_eq!(usages("").await, json!({"INSTANCE": instances, "unknown": unknown}));
    assert_eq!(usages("&consumer_type=INSTANCE").await, json!({"INSTANCE": instances}));
    assert_eq!(usages("&consumer_type=unknown").await, json!({"unknown": unknown}));
    assert_eq!(usages("&consumer_type=MIGRATION").await, json!({}));
    let all = json!({"all": {"consumer_count": 3, "VCPU": 3, "MEMORY_MB": 20}});
    assert_eq!(usages("&consumer_type=all").await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_a_500_tells_the_request_id_and_nothing_of_the_database() {
    let berth = Berth::new().await;
    sqlx::raw_sql("alter table projects rename column external_id to gone")
        .execute(&mut berth.session().await)
        .await
        .unwrap();
    let answer = berth.get("/usages?project_id=project").await.expect(500);
    let error = answer.json()["errors"][0].clone();
    let id = answer.headers["x-openstack-request-id"].to_str().unwrap();
    assert_eq!(error["request_id"], id);
    for word in ["projects", "column", "external_id", "select", "SQLSTATE", "42703"] {
        assert!(!answer.text().contains(word), "{}", answer.text());
    }
}

/// Ten like devices and six groups have a million combinations; eight and eight sixteen million.
#[tokio::test(flavor = "multi_thread")]
async fn c1_a_request_with_very_many_candidates_succeeds() {
    let berth = Berth::new().await;
    let root = berth.host("root", &[]).await;
    for nth in 0..10 {
        berth.child(&format!("device-{nth}"), Some(root), &[("VGPU", 1)]).await;
    }
    let groups: Vec<String> = (1..=8).map(|nth| format!("resources{nth}=VGPU:1")).collect();
    let groups = groups.join("&");
    let path = format!("/allocation_candidates?limit=1000&group_policy=none&{groups}");
    let began = Instant::now();
    let answer = berth.get(&path).await.expect(200).json();
    let requests = answer["allocation_requests"].as_array().unwrap();
    assert_eq!(requests.len(), 1000);
    let distinct: std::collections::BTreeSet<String> =
        requests.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), 1000);
    // No timing test: the combinations would take hours.
    assert!(began.elapsed() < Duration::from_mins(1));
}

#[tokio::test]
async fn d10_a_capacity_is_a_64_bit_number() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let inventory = json!({"total": i32::MAX, "allocation_ratio": 3e38});
    let body = json!({"resource_provider_generation": 0, "inventories": {"VCPU": inventory}});
    let path = format!("/resource_providers/{}/inventories", host.0);
    berth.put(&path, body).await.expect(200);
    let found = berth.get("/allocation_candidates?resources=VCPU:1").await.expect(200).json();
    let summary = &found["provider_summaries"][host.0.to_string()]["resources"]["VCPU"];
    assert_eq!(summary["capacity"], json!(i64::MAX));
}

#[tokio::test]
async fn h1_an_update_says_when_it_was_made() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let path = format!("/resource_providers/{}", host.0);
    sqlx::query("update providers set updated_at = 'epoch'")
        .execute(&mut berth.session().await)
        .await
        .unwrap();
    let updated = berth.put(&path, json!({"name": "renamed"})).await.expect(200);
    let shown = berth.get(&path).await.expect(200);
    assert_eq!(updated.headers["last-modified"], shown.headers["last-modified"]);
    assert!(!updated.headers["last-modified"].to_str().unwrap().contains("1970"));

    // A child that was never changed, and an update that changes nothing.
    let child = json!({"name": "child", "parent_provider_uuid": host.0});
    let child = berth.post("/resource_providers", child).await.expect(200).json();
    sqlx::query("update providers set updated_at = 'epoch'")
        .execute(&mut berth.session().await)
        .await
        .unwrap();
    let path = format!("/resource_providers/{}", child["uuid"].as_str().unwrap());
    for body in [json!({"name": "child"}), json!({"name": "child", "parent_provider_uuid": host.0})]
    {
        let updated = berth.put(&path, body).await.expect(200);
        assert!(updated.headers["last-modified"].to_str().unwrap().contains("1970"));
    }
    let moved = json!({"name": "child", "parent_provider_uuid": null});
    let moved = berth.put(&path, moved).await.expect(200);
    assert!(!moved.headers["last-modified"].to_str().unwrap().contains("1970"));
}

#[tokio::test]
async fn h2_a_405_says_what_is_allowed() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[]).await;
    let path = format!("/resource_providers/{}/inventories", host.0);
    let refused = berth.at("1.4").delete(&path).await.expect(405);
    assert_eq!(refused.headers["allow"], "GET, POST, PUT");
    berth.delete(&path).await.expect(204);
}

#[tokio::test]
async fn t1_all_unknown_traits_are_named() {
    let berth = Berth::new().await;
    let path = "/resource_providers?required=CUSTOM_B,CUSTOM_A";
    let refused = berth.get(path).await.expect(400);
    assert!(refused.text().contains("No such trait(s): CUSTOM_A, CUSTOM_B."), "{}", refused.text());
}

#[tokio::test]
async fn t2_the_first_malformed_aggregate_is_named() {
    let berth = Berth::new().await;
    for (members, named) in [("b,a", "b"), ("a,b", "a"), ("a,", "a"), (",a", "")] {
        let path = format!("/allocation_candidates?resources=VCPU:1&member_of=in:{members}");
        let detail = berth.get(&path).await.expect(400).json()["errors"][0]["detail"].take();
        assert!(detail.as_str().unwrap().ends_with(&format!("Got: {named}  ")), "{detail}");
    }
}

#[tokio::test]
async fn t3_a_whole_number_has_no_decimal_point() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let body = json!({
        "allocations": {(host.0.to_string()): {"resources": {"VCPU": 1}}},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": 8.0,
        "consumer_type": "INSTANCE",
    });
    let path = format!("/allocations/{}", Uuid::new_v4());
    let refused = berth.put(&path, body).await.expect(409);
    assert!(refused.text().contains("expected null but got 8  "), "{}", refused.text());
}

#[tokio::test]
async fn t4_schema_and_value_are_on_one_line() {
    let berth = Berth::new().await;
    let name = "word ".repeat(50);
    let refused = berth.post("/resource_providers", json!({"name": name})).await.expect(400);
    let detail = refused.json()["errors"][0]["detail"].take();
    let end =
        format!("{{'type': 'string', 'maxLength': 200}}  On instance['name']:     '{name}'  ");
    assert!(detail.as_str().unwrap().ends_with(&end), "{detail}");
}

#[tokio::test]
async fn v1_a_long_value_is_cut_in_the_text_of_an_error() {
    let berth = Berth::new().await;
    let body = json!({"name": "x".repeat(20_000)});
    let refused = berth.post("/resource_providers", body).await.expect(400);
    assert!(refused.text().contains("xxx... is too long"), "{}", refused.text());
}
