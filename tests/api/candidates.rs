//! Answers with many allocation candidates, or with a search that would not end.

use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::http::{Request, Response};
use berth::http::Options;
use serde_json::Value;

use crate::support::app::Berth;
use crate::support::cloud::Host;
use crate::support::postgres::database;

/// A host with so many devices of so much each.
async fn devices(berth: &Berth, count: usize, each: i64) -> Host {
    let host = berth.host("host", &[]).await;
    for nth in 0..count {
        berth.child(&format!("device-{nth}"), Some(host), &[("VGPU", each)]).await;
    }
    host
}

/// Asks for groups of these amounts.
async fn ask(berth: &Berth, amounts: &[i64], further: &str) -> Response<Body> {
    let groups = (1..).zip(amounts).map(|(nth, amount)| format!("resources{nth}=VGPU:{amount}"));
    let groups = groups.collect::<Vec<_>>().join("&");
    let request =
        Request::get(format!("/allocation_candidates?group_policy=none&{groups}{further}"))
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

/// Threes and twos do not go together in fours: there is no way, and very many to try.
const PUZZLE: [i64; 13] = [3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2];

#[tokio::test]
async fn a_search_that_finds_nothing_is_given_up() {
    let options = Options { search_timeout: Duration::from_millis(50), ..Options::default() };
    let berth = Berth::with(&database().await, options).await;
    devices(&berth, 10, 4).await;
    let answer = ask(&berth, &PUZZLE, "").await;
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.contains("--search-timeout"), "{body}");
}

/// What has been found is sent, and the answer does not look whole.
#[tokio::test]
async fn a_search_that_finds_no_more_is_cut_short() {
    let options = Options { search_timeout: Duration::from_millis(50), ..Options::default() };
    let berth = Berth::with(&database().await, options).await;
    berth.host("other", &[("VGPU", 100)]).await;
    devices(&berth, 10, 4).await;
    let answer = ask(&berth, &PUZZLE, "").await;
    assert_eq!(answer.status(), 200);
    assert!(to_bytes(answer.into_body(), usize::MAX).await.is_err());
}
