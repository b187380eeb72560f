//! Answers with many allocation candidates, or with a search that would not end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody, to_bytes};
use axum::http::{Request, Response};
use berth::fairness::turns::Requester;
use berth::fairness::watch::Watch;
use berth::http::Options;
use serde_json::Value;

use crate::support::app::Berth;
use crate::support::cloud::Host;
use crate::support::cluster::until;
use crate::support::postgres::database;

/// Creates a host with `count` devices of `each` units.
async fn devices(berth: &Berth, count: usize, each: i64) -> Host {
    devices_of(berth, &vec![each; count]).await
}

/// A host with devices of these amounts.
async fn devices_of(berth: &Berth, amounts: &[i64]) -> Host {
    let host = berth.host("host", &[]).await;
    for (nth, amount) in amounts.iter().enumerate() {
        berth.child(&format!("device-{nth}"), Some(host), &[("VGPU", *amount)]).await;
    }
    host
}

/// Asks for groups of these amounts.
async fn ask(berth: &Berth, amounts: &[i64], further: &str) -> Response<Body> {
    let groups = (1..).zip(amounts).map(|(nth, amount)| format!("resources{nth}=VGPU:{amount}"));
    let groups = groups.collect::<Vec<_>>().join("&");
    let request =
        Request::get(format!("/allocation_candidates?group_policy=none&{groups}{further}"))
            .header("host", "localhost")
            .header("x-auth-token", "admin")
            .header("openstack-api-version", "placement 1.39");
    berth.answer(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn candidates_come_whole_if_few_and_in_parts_if_many() {
    let berth = Berth::new().await;
    devices(&berth, 8, 1).await;
    for (further, count) in [("&limit=1000", 1000), ("", 20_160)] {
        let answer = ask(&berth, &[1; 6], further).await;
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.body().size_hint().exact().is_some(), count == 1000);
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let json: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(json["allocation_requests"].as_array().map(Vec::len), Some(count));
        assert_eq!(json["provider_summaries"].as_object().map(serde_json::Map::len), Some(9));
    }
}

/// Devices of odd amounts, and even amounts that leave 8 units: there is no way to supply them, and very many to
/// try, of which no two are alike.
fn puzzle() -> (Vec<i64>, Vec<i64>) {
    let mut wanted: Vec<i64> = (0..30).map(|nth| 40 + 2 * nth).collect();
    wanted[7] += 22;
    ((0..10).map(|nth| 201 + 2 * nth).collect(), wanted)
}

#[tokio::test]
async fn a_search_that_finds_nothing_is_given_up() {
    let options = Options { search_timeout: Duration::from_millis(50), ..Options::default() };
    let berth = Berth::with(&database().await, options).await;
    let (devices, wanted) = puzzle();
    devices_of(&berth, &devices).await;
    let answer = ask(&berth, &wanted, "").await;
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.contains("found nothing for 50ms"), "{body}");
}

/// A watch on which a millisecond passes with each look at it.
fn counting() -> Watch {
    let (began, looks) = (Instant::now(), AtomicU32::new(0));
    Watch::of(move || began + Duration::from_millis(1) * looks.fetch_add(1, Ordering::Relaxed))
}

/// The candidates found so far are sent, and the response is visibly incomplete.
#[tokio::test]
async fn a_search_that_finds_no_more_is_cut_short() {
    let options = Options { search_timeout: Duration::from_millis(50), ..Options::default() };
    let berth = Berth::with(&database().await, options).await.with_watch(counting());
    berth.host("other", &[("VGPU", 3000)]).await;
    let (devices, wanted) = puzzle();
    devices_of(&berth, &devices).await;
    let answer = ask(&berth, &wanted, "").await;
    assert_eq!(answer.status(), 200);
    assert!(to_bytes(answer.into_body(), usize::MAX).await.is_err());
}

/// Each keeps a world in memory, so there is a bounded number of them, of one project all but one.
#[tokio::test]
async fn large_responses_are_sent_in_a_bounded_number_at_once() {
    let moment = Duration::from_millis(1);
    let options = Options { streams_max: 2, stream_wait: moment, ..Options::default() };
    let berth = Berth::with(&database().await, options).await;
    devices(&berth, 8, 1).await;
    let streams = berth.app().streams;
    let first = ask(&berth, &[1; 6], "").await;
    assert_eq!((first.status().as_u16(), streams.held()), (200, 1));
    let second = ask(&berth, &[1; 6], "").await;
    assert_eq!(second.status(), 503);
    assert!(second.headers().contains_key("retry-after"));
    let small = ask(&berth, &[1; 6], "&limit=1").await;
    assert_eq!(small.status(), 200);
    let other = berth.app().streams.turn_now(Requester::named("other"));
    assert!(other.is_some());
    drop((first, other));
    while streams.held() > 0 {
        tokio::task::yield_now().await;
    }
    let third = to_bytes(ask(&berth, &[1; 6], "").await.into_body(), usize::MAX).await.unwrap();
    let json: Value = serde_json::from_slice(&third).unwrap();
    assert_eq!(json["allocation_requests"].as_array().map(Vec::len), Some(20_160));
}

/// Without an end to it, a client that takes in nothing would keep the world as it was for good.
#[tokio::test]
async fn a_slow_client_does_not_keep_an_old_world() {
    let options = Options { stream_timeout: Duration::from_millis(1), ..Options::default() };
    let berth = Berth::with(&database().await, options).await;
    devices(&berth, 8, 1).await;
    let answer = ask(&berth, &[1; 6], "").await;
    let old = Arc::downgrade(&berth.app().store.world().await.unwrap());
    berth.host("new", &[]).await;
    drop(berth.app().store.world().await.unwrap());
    until("the world of before is gone", async || old.upgrade().is_none()).await;
    assert_eq!(berth.app().streams.held(), 0);
    // The candidates found in time are sent, and the response is visibly incomplete.
    assert!(to_bytes(answer.into_body(), usize::MAX).await.is_err());
}

/// Before 1.29 one candidate has one provider of a tree. Whatever the limit, the summaries tell of the
/// others in its tree that are in candidates as well, and of no others.
#[tokio::test]
async fn summaries_before_1_29_tell_of_the_trees_of_the_candidates_that_were_kept() {
    let berth = Berth::new().await;
    let aggregate = uuid::Uuid::new_v4();
    for tree in ["one", "two"] {
        let root = berth.host(tree, &[("VCPU", 8)]).await;
        let child = berth.child(&format!("{tree}-child"), Some(root), &[("VCPU", 8)]).await;
        berth.child(&format!("{tree}-grandchild"), Some(child), &[("VCPU", 8)]).await;
        // These are in no candidate.
        berth.child(&format!("{tree}-small"), Some(root), &[("VCPU", 1)]).await;
        berth.child(&format!("{tree}-disk"), Some(root), &[("DISK_GB", 8)]).await;
        let body =
            serde_json::json!({"aggregates": [aggregate], "resource_provider_generation": 1});
        berth.put(&format!("/resource_providers/{}/aggregates", root.0), body).await.expect(200);
    }
    let storage = berth.host("storage", &[]).await;
    for pool in ["pool", "other-pool"] {
        let pool = berth.child(pool, Some(storage), &[("IPV4_ADDRESS", 100)]).await;
        let url = format!("/resource_providers/{}", pool.0);
        let body =
            serde_json::json!({"aggregates": [aggregate], "resource_provider_generation": 1});
        berth.put(&format!("{url}/aggregates"), body).await.expect(200);
        let traits = ["MISC_SHARES_VIA_AGGREGATE"];
        let body = serde_json::json!({"traits": traits, "resource_provider_generation": 2});
        berth.put(&format!("{url}/traits"), body).await.expect(200);
    }
    for (version, resources, limit, found, message) in [
        ("1.28", "VCPU:2", 1, 1, 3),
        ("1.16", "VCPU:2", 1, 1, 3),
        ("1.28", "VCPU:2", 100, 6, 6),
        ("1.28", "VCPU:2,IPV4_ADDRESS:1", 1, 1, 5),
        ("1.28", "IPV4_ADDRESS:1", 1, 1, 2),
        ("1.29", "VCPU:2", 1, 1, 5),
    ] {
        let path = format!("/allocation_candidates?resources={resources}&limit={limit}");
        let answer = berth.at(version).get(&path).await.expect(200).json();
        let counts = (
            answer["allocation_requests"].as_array().map(Vec::len),
            answer["provider_summaries"].as_object().map(serde_json::Map::len),
        );
        assert_eq!(counts, (Some(found), Some(message)), "{version} {resources} {limit}: {answer}");
    }
}
