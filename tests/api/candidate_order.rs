//! The order of allocation candidates: by an option for all, by `/-/v1/allocation_candidates` for one request.

use berth::http::app::{CandidateOrder, Options};
use berth::search::Ranking;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::postgres;

const QUERY: &str = "resources=VCPU:1";

/// Three hosts of 8 VCPU, of which 0, 6 and 3 are used.
async fn fill(berth: &Berth) -> [Uuid; 3] {
    let mut hosts = Vec::new();
    for (nth, used) in [0, 6, 3].into_iter().enumerate() {
        let host = berth.host(&format!("cn{nth}"), &[("VCPU", 8)]).await;
        if used > 0 {
            let consumer = format!("00000000-0000-4000-8000-00000000000{nth}");
            let body = json!({
                "allocations": {host.0.to_string(): {"resources": {"VCPU": used}}},
                "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE",
            });
            berth.put(&format!("/allocations/{consumer}"), body).await.expect(204);
        }
        hosts.push(host.0);
    }
    hosts.try_into().unwrap()
}

/// The hosts of an answer, in its order.
fn hosts(answer: &Value) -> Vec<Uuid> {
    let requests = answer["allocation_requests"].as_array().unwrap();
    let host =
        |it: &Value| it["allocations"].as_object().unwrap().keys().next().unwrap().parse().unwrap();
    requests.iter().map(host).collect()
}

async fn hosts_in_order(berth: &Berth, path: &str) -> Vec<Uuid> {
    hosts(&berth.get(path).await.expect(200).json())
}

#[tokio::test]
async fn the_option_orders_candidates_before_the_limit() {
    for (ranking, expected) in [(Ranking::Pack, [1, 2, 0]), (Ranking::Spread, [0, 2, 1])] {
        let order = CandidateOrder::Ranked(ranking);
        let options = Options { candidate_order: order, ..Options::default() };
        let berth = Berth::with(&postgres::database().await, options).await;
        let all = fill(&berth).await;
        let expected = expected.map(|nth| all[nth]);
        assert_eq!(
            hosts_in_order(&berth, &format!("/allocation_candidates?{QUERY}")).await,
            expected
        );
        let limited = format!("/allocation_candidates?{QUERY}&limit=2");
        assert_eq!(hosts_in_order(&berth, &limited).await, expected[..2]);
    }
}

#[tokio::test]
async fn a_request_may_choose_the_order() {
    let berth = Berth::new().await;
    let [empty, full, half] = fill(&berth).await;
    let path = format!("/-/v1/allocation_candidates?{QUERY}&limit=2");
    assert_eq!(
        hosts_in_order(&berth, &format!("{path}&order=spread")).await,
        [&empty, &half].map(|it| *it)
    );
    assert_eq!(
        hosts_in_order(&berth, &format!("{path}&order=pack")).await,
        [&full, &half].map(|it| *it)
    );
    let weighted = format!("{path}&order=weights&weight=VCPU=-1&weight=trait:HW_CPU_X86_AVX=5");
    assert_eq!(hosts_in_order(&berth, &weighted).await, [&full, &half].map(|it| *it));
    assert_eq!(hosts_in_order(&berth, &format!("{path}&order=random")).await.len(), 2);

    // Otherwise it is the answer of the Placement API, at the microversion of the header or the latest.
    let published = berth.get(&format!("/allocation_candidates?{QUERY}")).await.expect(200).json();
    let same = berth.get(&format!("/-/v1/allocation_candidates?{QUERY}")).await.expect(200).json();
    assert_eq!(same, published);

    for (query, wrong) in [
        ("order=best", "order must be none, pack, spread, random or weights, not best"),
        ("order=weights", "order=weights needs weight"),
        ("weight=VCPU=1", "weight needs order=weights"),
        ("order=pack&weight=VCPU=1", "weight needs order=weights"),
        ("order=weights&weight=VCPU", "must be CLASS=WEIGHT"),
        ("order=weights&weight=VCPU=5000", "from -1000 to 1000"),
    ] {
        let path = format!("/-/v1/allocation_candidates?{QUERY}&{query}");
        let refused = berth.get(&path).await.expect(400);
        assert!(refused.detail().contains(wrong), "{query}: {}", refused.detail());
    }
    let many = "&weight=VCPU=1".repeat(33);
    let path = format!("/-/v1/allocation_candidates?{QUERY}&order=weights{many}");
    assert!(berth.get(&path).await.expect(400).detail().contains("32 times"));
}
