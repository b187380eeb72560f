//! `/-/v1/explain`: why nothing fits, to who may know it.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::app::Berth;
use crate::support::process::Server;

/// Three hosts, none of which has 8 VCPU and the trait.
async fn cloud() -> Berth {
    let berth = Berth::new().await;
    berth.host("cn1", &[("VCPU", 8), ("DISK_GB", 100)]).await;
    for (name, cores) in [("cn2", 4), ("cn3", 2)] {
        let host = berth.host(name, &[("VCPU", cores), ("DISK_GB", 100)]).await;
        let traits = json!({"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX"]});
        berth.put(&format!("/resource_providers/{}/traits", host.0), traits).await.expect(200);
    }
    berth
}

async fn explained(berth: &Berth, query: &str) -> Value {
    berth.get(&format!("/-/v1/explain?{query}")).await.expect(200).json()
}

#[tokio::test]
async fn a_query_that_finds_nothing_is_explained() {
    let berth = cloud().await;
    let query = "resources=VCPU:8&required=HW_CPU_X86_AVX";
    let candidates = berth.get(&format!("/allocation_candidates?{query}")).await.expect(200);
    assert_eq!(candidates.json()["allocation_requests"], json!([]));
    assert_eq!(
        explained(&berth, query).await,
        json!({
            "providers": 3,
            "hosts": 3,
            "complete": true,
            "fitting": 0,
            "undecided": 0,
            "conditions": [
                {
                    "condition": "resources=VCPU:8",
                    "kind": "resources",
                    "group": "",
                    "providers": 1,
                    "left": 1,
                    "ruled_out": 2,
                    "fitting_without": 2,
                    "amount": {
                        "resource_class": "VCPU",
                        "requested": 8,
                        "without_inventory": 0,
                        "closest": {
                            "host": "cn2", "available": 4, "capacity": 4, "used": 0,
                            "total": 4, "reserved": 0, "limit": "free", "limit_value": null,
                        },
                    },
                },
                {
                    "condition": "required=HW_CPU_X86_AVX",
                    "kind": "required",
                    "group": "",
                    "providers": 2,
                    "left": 0,
                    "ruled_out": 1,
                    "fitting_without": 1,
                },
                {
                    "condition": "all conditions of group '' at once",
                    "kind": "group",
                    "group": "",
                    "providers": null,
                    "left": 0,
                    "ruled_out": 0,
                    "fitting_without": 0,
                },
            ],
            "conflict": {
                "conditions": ["resources=VCPU:8", "required=HW_CPU_X86_AVX"],
                "smallest": true,
            },
            "near_misses": {
                "count": 3,
                "hosts": [
                    {"host": "cn2", "condition": "resources=VCPU:8", "missing": 4},
                    {"host": "cn3", "condition": "resources=VCPU:8", "missing": 6},
                    {"host": "cn1", "condition": "required=HW_CPU_X86_AVX", "missing": null},
                ],
            },
        })
    );
}

#[tokio::test]
async fn a_query_that_finds_something_is_explained_as_well() {
    let berth = cloud().await;
    let found = explained(&berth, "resources=VCPU:4&limit=1").await;
    assert_eq!((&found["fitting"], &found["conflict"]), (&json!(2), &Value::Null));
}

#[tokio::test]
async fn reserved_amounts_are_named_with_the_closest_host() {
    let berth = Berth::new().await;
    let host = berth.host("cn1", &[("VCPU", 8)]).await;
    let inventories = json!({
        "resource_provider_generation": 1,
        "inventories": {"VCPU": {"total": 8, "reserved": 8}},
    });
    berth
        .put(&format!("/resource_providers/{}/inventories", host.0), inventories)
        .await
        .expect(200);
    let found = explained(&berth, "resources=VCPU:1").await;
    let closest = &found["conditions"][0]["amount"]["closest"];
    assert_eq!(
        closest,
        &json!({
            "host": "cn1", "available": 0, "capacity": 0, "used": 0, "total": 8, "reserved": 8,
            "limit": "free", "limit_value": null,
        })
    );
}

#[tokio::test]
async fn a_query_is_understood_at_the_version_that_the_client_names() {
    let berth = cloud().await;
    let query = "/-/v1/explain?resources=VCPU:1&required=in:HW_CPU_X86_AVX,HW_CPU_X86_AVX2";
    berth.without("openstack-api-version").get(query).await.expect(200);
    berth.at("1.39").get(query).await.expect(200);
    let refused = berth.at("1.38").get(query).await.expect(400);
    assert!(refused.detail().contains("since microversion 1.39"), "{}", refused.detail());
}

#[tokio::test]
async fn faults_of_a_query_are_named() {
    let berth = cloud().await;
    for (query, expected) in [
        ("", "at least one resources"),
        ("resources=VCPU:none", "expected positive integer amount"),
        ("resources=NO_SUCH:1", "No such resource class NO_SUCH"),
        ("resources=VCPU:1&required=NO_SUCH", "No such trait(s): NO_SUCH"),
        (
            "resources=VCPU:1&near_misses=many",
            "near_misses must be a number from 0 to 1000, not many",
        ),
        (
            "resources=VCPU:1&near_misses=1001",
            "near_misses must be a number from 0 to 1000, not 1001",
        ),
        ("resources=VCPU:1&nonsense=1", "nonsense"),
    ] {
        let refused = berth.get(&format!("/-/v1/explain?{query}")).await.expect(400);
        assert!(refused.detail().contains(expected), "{query}: {}", refused.detail());
    }
    let traits: Vec<String> = (0..130).map(|nth| format!("!CUSTOM_{nth}")).collect();
    for name in &traits {
        berth.put(&format!("/traits/{}", &name[1..]), json!({})).await.expect(201);
    }
    let many = format!("/-/v1/explain?resources=VCPU:1&required={}", traits.join(","));
    let refused = berth.get(&many).await.expect(400);
    assert!(refused.detail().contains("at most 128 can be explained"), "{}", refused.detail());
}

/// A client of the Placement API finds the same codes here.
#[tokio::test]
async fn errors_have_the_codes_of_the_placement_api() {
    let berth = cloud().await;
    for (path, status, code) in [
        ("explain?resources=VCPU:none", 400, "placement.undefined_code"),
        ("fit?resources=VCPU:1&hosts=1&hosts=2", 400, "placement.query.duplicate_key"),
        (
            "explain?resources=VCPU:1&near_misses=1&near_misses=2",
            400,
            "placement.query.duplicate_key",
        ),
        ("refused/req-1", 404, "placement.undefined_code"),
        ("no/such/path", 404, "placement.undefined_code"),
    ] {
        let refused = berth.get(&format!("/-/v1/{path}")).await.expect(status);
        assert_eq!(refused.code(), code, "{path}");
    }
    let refused = berth.delete("/-/v1/fit").await.expect(405);
    assert_eq!(refused.code(), "placement.undefined_code");
    let denied = berth.header("x-auth-token", "someone").get("/-/v1/refused").await.expect(403);
    assert_eq!(denied.code(), "placement.undefined_code");
}

/// Conflicting values are refused, because it would be unclear which one counts.
#[tokio::test]
async fn no_parameter_is_ignored() {
    const ONE: &str = "resources=VCPU:1";
    let berth = cloud().await;
    for (path, expected) in [
        (
            format!("explain?{ONE}&near_misses=1&near_misses=2"),
            "near_misses can be given only once",
        ),
        (
            format!("allocation_candidates?{ONE}&order=pack&order=spread"),
            "order can be given only once, not 2 times",
        ),
        (
            format!("allocation_candidates?{ONE}&order=weights&weight=NO_SUCH=1"),
            "weight: there is no resource class NO_SUCH",
        ),
        (
            format!("allocation_candidates?{ONE}&order=weights&weight=trait:NO_SUCH=1"),
            "weight: there is no trait NO_SUCH",
        ),
        (format!("fit?{ONE}&hosts=1&hosts=2"), "hosts can be given only once"),
        (format!("fit?{ONE}&by=aggregate&by=trait:X"), "by can be given only once"),
        (format!("fragmentation?{ONE}&hosts=1&hosts=2"), "hosts can be given only once"),
        (
            "moves?make-room-for=resources%3DVCPU:1&keep=traits&keep=nothing".to_owned(),
            "keep can be given only once",
        ),
        (
            "moves?make-room-for=resources%3DVCPU:1&keep=nothing&victim=type:X".to_owned(),
            "those of victim do not",
        ),
        ("providers?name=cn1&name=cn2".to_owned(), "name can be given only once"),
        (
            format!("providers?tree={0}&in_tree={0}", uuid::Uuid::from_u128(1)),
            "tree and in_tree are synonyms",
        ),
        ("consumers?project=a&project=b".to_owned(), "project can be given only once"),
        ("consumers?limit=1&limit=2".to_owned(), "limit can be given only once"),
        ("refused?kind=claim&kind=reshape".to_owned(), "kind can be given only once"),
        ("refused/req-1?then=1".to_owned(), "takes no query parameters"),
    ] {
        let refused = berth.get(&format!("/-/v1/{path}")).await.expect(400);
        assert!(refused.detail().contains(expected), "{path}: {}", refused.detail());
    }
    for (path, expected) in [
        ("explain?holders=1&holders=2", "holders can be given only once"),
        ("allocations/get?consumers=1", "takes no query parameters"),
    ] {
        let body = json!({"consumers": []});
        let refused = berth.post(&format!("/-/v1/{path}"), body).await.expect(400);
        assert!(refused.detail().contains(expected), "{path}: {}", refused.detail());
    }
}

#[tokio::test]
async fn only_administrators_and_services_see_the_cloud() {
    let berth = cloud().await;
    let path = "/-/v1/explain?resources=VCPU:8";
    let denied = berth.header("x-auth-token", "someone").get(path).await.expect(403);
    assert!(denied.detail().contains("berth:explain:show"), "{}", denied.detail());
    berth.without("x-auth-token").get(path).await.expect(401);
}

#[tokio::test]
async fn the_path_lists_the_versions() {
    let berth = Berth::new().await;
    // Without a token, the response shows only that the API exists, and its URL.
    let nobody = berth.without("x-auth-token");
    let links = json!([{"rel": "self", "href": "http://localhost/-/v1"}]);
    let versions = json!({"versions": [{"id": "v1", "status": "CURRENT", "links": links}]});
    for path in ["/-", "/-/"] {
        let answer = nobody.get(path).await.expect(200);
        assert_eq!(answer.json(), versions);
        assert!(answer.headers.get("server").is_none());
        nobody.post(path, json!({})).await.expect(405);
    }
    for path in ["/-/v1", "/-/v1/", "/-/v1/providers", "/-/v1/nothing", "/-/v2", "/--", "/-x"] {
        nobody.get(path).await.expect(401);
    }
    berth.get("/-/v1/nothing").await.expect(404);
    let refused = berth.delete("/-/v1/explain").await.expect(405);
    assert_eq!(refused.headers["allow"], "GET, POST");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_asks_a_running_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let url = format!("http://{}", server.address);
    let explain = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["explain", "--url", &url]).args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let message = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(message).unwrap())
    };
    let (code, message) = explain(&["GET /allocation_candidates?resources=VCPU:1 200"]).await;
    assert_eq!(code, Some(0), "{message}");
    assert!(message.starts_with("0 of 0 hosts fit (0 providers).\n"), "{message}");
    let (code, message) = explain(&["resources=VCPU:1", "--format", "json"]).await;
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!((code, &message["hosts"]), (Some(0), &json!(0)));
    let (code, message) = explain(&["resources=NOTHING:1"]).await;
    assert_eq!(code, Some(1));
    assert!(message.contains("400 Bad Request: Invalid resource class"), "{message}");
    let (code, message) = explain(&["resources=VCPU:1", "--url", "http://127.0.0.1:1"]).await;
    assert!(code == Some(2) && message.contains("--url"), "{message}");
}
