//! `/-/v1/fit`: how many more of a request fit, to who may know it.

use std::process::Command;

use serde_json::{Value, json};
use sqlx::Executor;

use crate::support::app::Berth;
use crate::support::cloud::Host;
use crate::support::process::Server;

const AGGREGATE: &str = "0a660000-0000-4000-8000-000000000001";

/// Two hosts in a rack, one of them in an aggregate, one host elsewhere with two NUMA nodes.
async fn cloud() -> (Berth, [Host; 3]) {
    let berth = Berth::new().await;
    for name in ["CUSTOM_RACK_1", "CUSTOM_RACK_2"] {
        berth.put(&format!("/traits/{name}"), json!({})).await.expect(201);
    }
    let one = berth.host("cn1", &[("VCPU", 8), ("MEMORY_MB", 4096)]).await;
    let two = berth.host("cn2", &[("VCPU", 6), ("MEMORY_MB", 4096)]).await;
    let tree = berth.host("cn3", &[("MEMORY_MB", 4096)]).await;
    for nth in 0..2 {
        berth.child(&format!("cn3 node {nth}"), Some(tree), &[("VCPU", 3)]).await;
    }
    for (host, rack) in [(one, "CUSTOM_RACK_1"), (two, "CUSTOM_RACK_1"), (tree, "CUSTOM_RACK_2")] {
        let traits = json!({"resource_provider_generation": 1, "traits": [rack]});
        berth.put(&format!("/resource_providers/{}/traits", host.0), traits).await.expect(200);
    }
    let body = json!({"resource_provider_generation": 2, "aggregates": [AGGREGATE]});
    berth.put(&format!("/resource_providers/{}/aggregates", one.0), body).await.expect(200);
    (berth, [one, two, tree])
}

async fn fits(berth: &Berth, query: &str) -> Value {
    berth.get(&format!("/-/v1/fit?{query}")).await.expect(200).json()
}

fn exactly(number: u64) -> Value {
    json!({"at_least": number, "at_most": number, "exact": true})
}

#[tokio::test]
async fn fitting_instances_are_counted_in_total_and_by_host() {
    let (berth, [one, two, tree]) = cloud().await;
    let host = |name: &str, host: Host, number| json!({"host": name, "uuid": host.0.to_string(), "fits": exactly(number)});
    assert_eq!(
        fits(&berth, "resources=VCPU:2,MEMORY_MB:512").await,
        json!({
            "providers": 5,
            "left_out": [],
            "requests": [{
                "request": "resources=VCPU:2,MEMORY_MB:512",
                "is_flavor": false,
                "complete": true,
                "fits": exactly(9),
                "fitting_hosts": 3,
                "hosts": [host("cn1", one, 4), host("cn2", two, 3), host("cn3", tree, 2)],
            }],
        })
    );
    let best = fits(&berth, "resources=VCPU:2&hosts=1").await;
    assert_eq!(best["requests"][0]["hosts"], json!([host("cn1", one, 4)]));
}

#[tokio::test]
async fn a_claim_leaves_less() {
    let (berth, [one, ..]) = cloud().await;
    berth.claim(uuid::Uuid::new_v4(), None, &[(one, "VCPU", 3)]).await.expect(204);
    let found = fits(&berth, "resources=VCPU:2").await;
    assert_eq!(found["requests"][0]["fits"], exactly(7));
}

#[tokio::test]
async fn hosts_are_grouped() {
    let (berth, _) = cloud().await;
    let found = fits(&berth, "resources=VCPU:2&by=trait:CUSTOM_RACK_").await;
    assert_eq!(
        found["requests"][0]["groups"],
        json!({
            "count": 2,
            "named": [
                {"group": "CUSTOM_RACK_1", "hosts": 2, "fitting_hosts": 2, "fits": exactly(7)},
                {"group": "CUSTOM_RACK_2", "hosts": 1, "fitting_hosts": 1, "fits": exactly(2)},
            ],
        })
    );
    let found = fits(&berth, "resources=VCPU:4&by=aggregate").await;
    assert_eq!(
        found["requests"][0]["groups"]["named"],
        json!([
            {"group": AGGREGATE, "hosts": 1, "fitting_hosts": 1, "fits": exactly(2)},
            {"group": null, "hosts": 2, "fitting_hosts": 1, "fits": exactly(1)},
        ])
    );
}

#[tokio::test]
async fn hosts_can_be_left_out() {
    let (berth, [one, ..]) = cloud().await;
    let found = fits(&berth, &format!("resources=VCPU:2&drain={}&drain=cn3", one.0)).await;
    assert_eq!(found["requests"][0]["fits"], exactly(3));
    assert_eq!(found["left_out"][1], json!({"parameter": "drain", "value": "cn3", "hosts": 1}));
    let found = fits(&berth, "resources=VCPU:2&without=CUSTOM_RACK_1").await;
    assert_eq!(found["requests"][0]["fits"], exactly(2));
    assert_eq!(found["left_out"][0]["hosts"], 2);
    let found = fits(&berth, &format!("resources=VCPU:2&without={AGGREGATE}")).await;
    assert_eq!(found["requests"][0]["fits"], exactly(5));
}

#[tokio::test]
async fn several_requests_are_counted_separately() {
    let (berth, _) = cloud().await;
    let mut session = berth.session().await;
    let insert = "insert into flavors (name, flavor_id, vcpus, ram_mb, root_gb, ephemeral_gb, \
                  swap_mb, extra_specs) values ('small', 'a1', 2, 512, 0, 0, 0, '{}'), \
                  ('fast', 'a2', 2, 512, 0, 0, 0, '{\"aggregate_instance_extra_specs:ssd\": \"true\"}')";
    session.execute(insert).await.unwrap();
    let insert = "insert into aggregate_metadata (aggregate, key, value) \
                  values ('0a660000-0000-4000-8000-000000000001', 'ssd', 'true')";
    session.execute(insert).await.unwrap();
    let query = "query=resources%3DVCPU:8&query=resources%3DVCPU:6&flavor=small&flavor=a2";
    let found = fits(&berth, query).await;
    let numbers: Vec<_> = found["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["request"].as_str().unwrap(), it["fits"]["at_least"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        numbers,
        [("resources=VCPU:8", 1), ("resources=VCPU:6", 2), ("small", 9), ("a2", 4)]
    );
}

#[tokio::test]
async fn unusable_capacity_is_found() {
    let (berth, [one, ..]) = cloud().await;
    berth.claim(uuid::Uuid::new_v4(), None, &[(one, "MEMORY_MB", 4000)]).await.expect(204);
    let path = "/-/v1/fragmentation?resources=VCPU:2,MEMORY_MB:512&hosts=1";
    let found = berth.get(path).await.expect(200).json();
    assert_eq!(
        found,
        json!({
            "requests": [{
                "request": "resources=VCPU:2,MEMORY_MB:512",
                "is_flavor": false,
                "complete": true,
                "fits": exactly(5),
                "in_one_piece": 10,
                "classes": [
                    {"requested": 2, "resource_class": "VCPU", "free": 20, "unusable": 10},
                    {"requested": 512, "resource_class": "MEMORY_MB", "free": 8288, "unusable": 5728},
                ],
                "host_count": 3,
                "hosts": [{
                    "host": "cn3",
                    "uuid": found["requests"][0]["hosts"][0]["uuid"],
                    "fits": exactly(2),
                    "classes": [
                        {"resource_class": "VCPU", "free": 6, "unusable": 2},
                        {"resource_class": "MEMORY_MB", "free": 4096, "unusable": 3072},
                    ],
                    "short_of": [],
                }],
            }],
            "for_all": {
                "complete": true,
                "classes": [
                    {"resource_class": "VCPU", "free": 20, "unusable": 10},
                    {"resource_class": "MEMORY_MB", "free": 8288, "unusable": 5728},
                ],
            },
        })
    );
    let denied = berth.header("x-auth-token", "someone").get(path).await.expect(403);
    assert!(denied.detail().contains("berth:fragmentation:show"), "{}", denied.detail());
    let refused = berth.get("/-/v1/fragmentation?resources=NO_SUCH:1").await.expect(400);
    assert!(refused.detail().contains("No such resource class"), "{}", refused.detail());
}

#[tokio::test]
async fn a_number_that_is_not_known_has_bounds() {
    let berth = Berth::new().await;
    let host = berth.host("cn", &[]).await;
    for (nth, total) in [7, 7, 7].into_iter().enumerate() {
        berth.child(&format!("node {nth}"), Some(host), &[("VCPU", total)]).await;
    }
    let found = fits(&berth, "resources1=VCPU:5&resources2=VCPU:2&group_policy=none").await;
    assert_eq!(found["requests"][0]["fits"], exactly(3));
    let found = fits(&berth, "resources1=VCPU:4&resources2=VCPU:2&group_policy=none").await;
    assert_eq!(found["requests"][0]["fits"], exactly(3));
    let found = fits(&berth, "resources1=VCPU:6&resources2=VCPU:4&group_policy=none").await;
    let bounds = json!({"at_least": 1, "at_most": 1, "exact": true});
    assert_eq!(found["requests"][0]["fits"], bounds);
}

#[tokio::test]
async fn faults_of_a_query_are_named() {
    let (berth, _) = cloud().await;
    let many = vec!["flavor=x"; 33].join("&");
    for (query, expected) in [
        ("", "at least one resources"),
        ("resources=VCPU:none", "expected positive integer amount"),
        ("resources=NO_SUCH:1", "No such resource class NO_SUCH"),
        ("query=resources%3DVCPU:1%26required%3DNO_SUCH", "No such trait(s): NO_SUCH"),
        (
            "query=resources%3DVCPU:1&query=resources%3DNO_SUCH:1",
            "resources=NO_SUCH:1: Invalid resource class in resources parameter: No such",
        ),
        ("resources=VCPU:1&hosts=1001", "hosts must be a number from 0 to 1000, not 1001"),
        ("resources=VCPU:1&by=rack", "by must be aggregate, or trait:PREFIX"),
        ("resources=VCPU:1&by=trait:", "by must be aggregate, or trait:PREFIX"),
        ("resources=VCPU:1&drain=nobody", "drain: there is no resource provider nobody"),
        ("resources=VCPU:1&without=NO_SUCH", "without: NO_SUCH is neither a trait nor the UUID"),
        ("resources=VCPU:1&flavor=m1", "resources must be part of the value of query"),
        ("flavor=m1.none", "there is no flavor m1.none"),
        (many.as_str(), "at most 32 requests"),
    ] {
        let refused = berth.get(&format!("/-/v1/fit?{query}")).await.expect(400);
        assert!(refused.detail().contains(expected), "{query}: {}", refused.detail());
    }
}

#[tokio::test]
async fn a_query_is_understood_at_the_version_that_the_client_names() {
    let (berth, _) = cloud().await;
    let query = "/-/v1/fit?resources=VCPU:1,MEMORY_MB:1&drain=cn1&drain=cn2";
    let number = |answer: Value| answer["requests"][0]["fits"]["at_least"].as_u64();
    let latest = berth.without("openstack-api-version").get(query).await.expect(200).json();
    assert_eq!(number(latest), Some(6));
    // Before 1.29, one provider of a tree serves the whole request.
    let old = berth.at("1.28").get(query).await.expect(200).json();
    assert_eq!(number(old), Some(0));
}

#[tokio::test]
async fn only_administrators_and_services_see_the_cloud() {
    let (berth, _) = cloud().await;
    let path = "/-/v1/fit?resources=VCPU:8";
    let denied = berth.header("x-auth-token", "someone").get(path).await.expect(403);
    assert!(denied.detail().contains("berth:fit:show"), "{}", denied.detail());
    berth.without("x-auth-token").get(path).await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_asks_a_running_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let url = format!("http://{}", server.address);
    let fit = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["fit", "--url", &url]).args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let message = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(message).unwrap())
    };
    let (code, message) = fit(&["GET /allocation_candidates?resources=VCPU:1 200"]).await;
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(message, "resources=VCPU:1 fits 0 times, on 0 hosts.\n");
    let both = ["resources=VCPU:1", "resources=VCPU:2", "--by", "aggregate", "--format", "json"];
    let (code, message) = fit(&both).await;
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!((code, &message["requests"][1]["request"]), (Some(0), &json!("resources=VCPU:2")));
    let (code, message) = fit(&["--flavor", "none"]).await;
    assert_eq!(code, Some(1));
    assert!(message.contains("there is no flavor none"), "{message}");
}
