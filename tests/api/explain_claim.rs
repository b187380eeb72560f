//! `POST /-/v1/explain`: what would come of a claim, without making it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::process::Server;

fn consumer(nth: u128) -> String {
    Uuid::from_u128(0xc000 + nth).to_string()
}

fn claim(wants: &[(&str, &str, i64)], generation: Option<i64>) -> Value {
    let mut allocations = json!({});
    for (provider, class, amount) in wants {
        allocations[provider]["resources"][class] = json!(amount);
    }
    json!({
        "allocations": allocations, "project_id": "web", "user_id": "alice",
        "consumer_generation": generation, "consumer_type": "INSTANCE",
    })
}

async fn explained(berth: &Berth, nth: u128, claim: &Value) -> Value {
    let path = format!("/-/v1/explain?consumer={}", consumer(nth));
    berth.post(&path, claim.clone()).await.expect(200).json()
}

async fn put(berth: &Berth, nth: u128, claim: &Value) -> (u16, String) {
    let answer = berth.put(&format!("/allocations/{}", consumer(nth)), claim.clone()).await;
    let detail = if answer.status == 204 { String::new() } else { answer.detail() };
    (answer.status, detail)
}

#[tokio::test]
async fn a_claim_that_does_not_fit_is_explained_with_who_holds_what_there() {
    let berth = Berth::new().await;
    let host = berth.host("cn1", &[("VCPU", 8), ("DISK_GB", 100)]).await.0.to_string();
    for (nth, cores) in [(1, 2), (2, 3), (3, 1)] {
        let (status, _) = put(&berth, nth, &claim(&[(&host, "VCPU", cores)], None)).await;
        assert_eq!(status, 204);
    }
    let wanted = claim(&[(&host, "VCPU", 4), (&host, "DISK_GB", 5)], None);
    let path = format!("/-/v1/explain?holders=2&consumer={}", consumer(9));
    let mut found = berth.post(&path, wanted.clone()).await.expect(200).json();
    for holder in found["inventories"][0]["holders"].as_array_mut().unwrap() {
        let since = holder["since"].take();
        assert!(since.as_str().unwrap().ends_with('Z'), "{since}");
    }
    let holder = |nth, amount| {
        json!({
            "consumer": consumer(nth), "amount": amount, "generation": 1, "consumer_type": "INSTANCE",
            "project_id": "web", "user_id": "alice", "since": null,
        })
    };
    let refusal = format!(
        "Unable to allocate inventory: Unable to create allocation for 'VCPU' on resource provider \
         '{host}'. The requested amount would exceed the capacity."
    );
    assert_eq!(
        found,
        json!({
            "allowed": false,
            "refusal": {"status": 409, "detail": refusal},
            "count": 1,
            "faults": [{
                "kind": "capacity", "provider": host, "name": "cn1", "resource_class": "VCPU",
                "wanted": 4, "given_back": 0, "used": 6, "capacity": 8, "total": 8, "reserved": 0,
                "allocation_ratio": 1.0, "missing": 2,
            }],
            "inventories": [
                {
                    "provider": host, "name": "cn1", "resource_class": "VCPU", "wanted": 4,
                    "given_back": 0, "used": 6, "capacity": 8, "total": 8, "reserved": 0,
                    "allocation_ratio": 1.0, "min_unit": 1, "max_unit": 2_147_483_647,
                    "step_size": 1, "holders_count": 3, "holders": [holder(2, 3), holder(1, 2)],
                },
                {
                    "provider": host, "name": "cn1", "resource_class": "DISK_GB", "wanted": 5,
                    "given_back": 0, "used": 0, "capacity": 100, "total": 100, "reserved": 0,
                    "allocation_ratio": 1.0, "min_unit": 1, "max_unit": 2_147_483_647,
                    "step_size": 1, "holders_count": 0, "holders": [],
                },
            ],
            "inventories_count": 2,
            "ended_holds": [],
        })
    );
    // The consumer that holds 3 of them may have 4: what it has is given back.
    let own = explained(&berth, 2, &claim(&[(&host, "VCPU", 5)], Some(1))).await;
    assert_eq!((&own["allowed"], &own["inventories"][0]["given_back"]), (&json!(true), &json!(3)));
    let many = json!({consumer(1): claim(&[], Some(1)), consumer(9): wanted});
    let many = berth.post("/-/v1/explain", many).await.expect(200).json();
    assert_eq!((&many["allowed"], &many["count"]), (&json!(true), &json!(0)));
    berth.assert_consistent().await;
}

#[tokio::test]
async fn every_kind_of_fault_is_named_at_once() {
    let berth = Berth::new().await;
    let host = berth.host("cn1", &[("VCPU", 8)]).await.0.to_string();
    put(&berth, 1, &claim(&[(&host, "VCPU", 1)], None)).await;
    let inventories = json!({"resource_provider_generation": 2, "inventories": {
        "VCPU": {"total": 8, "min_unit": 1, "max_unit": 4, "step_size": 1},
    }});
    let path = format!("/resource_providers/{host}/inventories");
    berth.put(&path, inventories).await.expect(200);
    let nobody = Uuid::from_u128(0xffff).to_string();
    let wanted = claim(
        &[
            (&nobody, "VCPU", 1),
            (&host, "CUSTOM_NOTHING", 1),
            (&host, "DISK_GB", 1),
            (&host, "VCPU", 5),
        ],
        Some(7),
    );
    let found = explained(&berth, 1, &wanted).await;
    assert_eq!((&found["allowed"], &found["count"]), (&json!(false), &json!(5)));
    assert_eq!(
        found["faults"],
        json!([
            {"kind": "consumer_generation", "consumer": consumer(1), "given": 7, "actual": 1},
            {"kind": "unknown_provider", "provider": nobody},
            {"kind": "unknown_class", "resource_class": "CUSTOM_NOTHING"},
            {"kind": "no_inventory", "provider": host, "name": "cn1", "resource_class": "DISK_GB"},
            {
                "kind": "amount", "provider": host, "name": "cn1", "resource_class": "VCPU",
                "amount": 5, "limit": "max_unit", "limit_value": 4,
            },
        ])
    );
}

/// The predicted outcome of a claim is the real one; and the prediction changes nothing.
#[tokio::test]
async fn the_explanation_of_a_claim_predicts_its_outcome() {
    let berth = Berth::new().await;
    let mut hosts = Vec::new();
    for (name, cores) in [("cn1", 4), ("cn2", 6)] {
        let host = berth.host(name, &[("VCPU", cores), ("MEMORY_MB", 512)]).await;
        hosts.push(host.0.to_string());
    }
    hosts.push(Uuid::from_u128(0xffff).to_string());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let (mut allowed, mut refused) = (0, 0);
    for _ in 0..150 {
        let mut wants = Vec::new();
        for _ in 0..=next(2) {
            // Seldom a host or a class that is not there.
            let host = if next(20) == 0 { 2 } else { usize::try_from(next(2)).unwrap() };
            let class = ["VCPU", "VCPU", "VCPU", "MEMORY_MB", "MEMORY_MB", "VGPU"];
            let class = class[usize::try_from(next(6)).unwrap()];
            wants.push((hosts[host].as_str(), class, i64::try_from(next(4)).unwrap() + 1));
        }
        let nth = u128::from(next(4));
        let held = berth.get(&format!("/allocations/{}", consumer(nth))).await.expect(200).json();
        let generation = held["consumer_generation"].as_i64();
        let generation = if next(8) == 0 { Some(99) } else { generation };
        let wanted = claim(&wants, generation);
        let message = explained(&berth, nth, &wanted).await;
        let after = berth.get(&format!("/allocations/{}", consumer(nth))).await.expect(200).json();
        assert_eq!(after, held, "nothing is written");
        let (status, detail) = put(&berth, nth, &wanted).await;
        assert_eq!(message["allowed"], status == 204, "{message} {detail}");
        assert_eq!(message["count"] == 0, status == 204, "{message} {detail}");
        if status == 204 {
            allowed += 1;
        } else {
            refused += 1;
            assert_eq!(message["refusal"]["status"], status);
            let text = message["refusal"]["detail"].as_str().unwrap();
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words(&detail).contains(&words(text)), "{detail} {text}");
        }
    }
    assert!(allowed > 20 && refused > 20, "{allowed} {refused}");
    berth.assert_consistent().await;
}

#[tokio::test]
async fn no_more_is_named_than_may_be() {
    let berth = Berth::new().await;
    let mut hosts = Vec::new();
    for nth in 0..60 {
        let host = berth.host(&format!("cn{nth:02}"), &[("VCPU", 4)]).await;
        hosts.push(host.0.to_string());
    }
    let short = hosts[40].clone();
    let wants: Vec<_> = hosts
        .iter()
        .map(|host| (host.as_str(), "VCPU", if *host == short { 5 } else { 1 }))
        .collect();
    let found = explained(&berth, 1, &claim(&wants, None)).await;
    let inventories = found["inventories"].as_array().unwrap();
    assert_eq!((inventories.len(), &found["inventories_count"]), (50, &json!(60)));
    assert_eq!(inventories[0]["provider"], short, "what is in the way comes first");
    let wants: Vec<_> = hosts.iter().map(|host| (host.as_str(), "VGPU", 1)).collect();
    let two = json!({
        consumer(1): claim(&wants, None), consumer(2): claim(&wants, None),
    });
    let found = berth.post("/-/v1/explain", two).await.expect(200).json();
    assert_eq!(found["faults"].as_array().unwrap().len(), 100);
    assert_eq!(found["count"], 120);
}

#[tokio::test]
async fn faults_of_a_request_are_named() {
    let berth = Berth::new().await;
    let host = berth.host("cn1", &[("VCPU", 8)]).await.0.to_string();
    let fine = claim(&[(&host, "VCPU", 1)], None);
    for (query, body, expected) in [
        ("", json!({}), "JSON does not validate"),
        ("?consumer=nobody", fine.clone(), "Malformed consumer_uuid: nobody"),
        ("?nonsense=1", fine.clone(), "nonsense is not one of the parameters consumer, holders"),
        ("?holders=0", fine.clone(), "holders must be a number from 1 to 1000, not 0"),
    ] {
        let refused = berth.post(&format!("/-/v1/explain{query}"), body).await.expect(400);
        assert!(refused.detail().contains(expected), "{query}: {}", refused.detail());
    }
    let path = format!("/-/v1/explain?consumer={}", consumer(1));
    // Before 1.12, allocations are a list.
    let listed = json!({"allocations": [
        {"resource_provider": {"uuid": host}, "resources": {"VCPU": 1}},
    ]});
    berth.at("1.7").post(&path, listed.clone()).await.expect(200);
    berth.at("1.12").post(&path, listed).await.expect(400);
    berth.without("openstack-api-version").post(&path, fine.clone()).await.expect(200);
    let denied =
        berth.header("x-auth-token", "someone").post(&path, fine.clone()).await.expect(403);
    assert!(denied.detail().contains("berth:explain:show"), "{}", denied.detail());
    berth.without("x-auth-token").post(&path, fine).await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_judge_a_claim_in_a_file_and_one_that_was_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let url = format!("http://{}", server.address);
    let berth = async |arguments: &[&str], input: String| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args([arguments[0], "--url", &url]).args(&arguments[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = move || {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let message = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(message).unwrap())
    };
    let send = async |method: &str, path: &str, body: &Value| {
        let request = server.client.request(method.parse().unwrap(), format!("{url}{path}"));
        let request = request.header("x-auth-token", "admin");
        let request = request.header("openstack-api-version", "placement 1.39");
        request.json(body).send().await.unwrap()
    };
    let host = Uuid::from_u128(1).to_string();
    send("POST", "/resource_providers", &json!({"name": "cn1", "uuid": host})).await;
    let inventories = json!({"resource_provider_generation": 0, "inventories": {
        "VCPU": {"total": 4},
    }});
    send("PUT", &format!("/resource_providers/{host}/inventories"), &inventories).await;
    let held = claim(&[(&host, "VCPU", 3)], None);
    let made = send("PUT", &format!("/allocations/{}", consumer(1)), &held).await;
    assert_eq!(made.status(), 204);
    let wanted = claim(&[(&host, "VCPU", 2)], None);
    let (second, text) = (consumer(2), wanted.to_string());
    let (code, message) =
        berth(&["explain", "--claim", "-", "--consumer", &second], text.clone()).await;
    assert_eq!(code, Some(0), "{message}");
    for words in [
        "The claim would be refused now with 409:\nUnable to allocate inventory",
        "VCPU: 1 short: 2 wanted, 3 of 4 used (total 4, reserved 0, allocation ratio 1)",
        "\nPROVIDER  CLASS  WANTED  GIVEN BACK  USED  CAPACITY  HOLDERS\ncn1       VCPU   2       0           3     4         1\n",
        "is held by (1 of 1):",
        &consumer(1),
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    let file = directory.path().join("claim.json");
    std::fs::write(&file, json!({&second: claim(&[(&host, "VCPU", 1)], None)}).to_string())
        .unwrap();
    let (code, message) =
        berth(&["explain", "--claim", file.to_str().unwrap()], String::new()).await;
    assert!(code == Some(0) && message.starts_with("The claim would be allowed now."), "{message}");
    let (code, message) = berth(&["explain", "--claim", "-"], text).await;
    assert!(code == Some(1) && message.contains("name the consumer with --consumer"), "{message}");

    let refused = send("PUT", &format!("/allocations/{second}"), &wanted).await;
    assert_eq!(refused.status(), 409);
    let id = refused.headers()["x-openstack-request-id"].to_str().unwrap().to_owned();
    let (_, message) = berth(&["why", &id], String::new()).await;
    assert!(message.contains("\nTHEN\ncn1"), "{message}");
    assert!(message.contains("\nNOW\nThe claim would be refused now with 409"), "{message}");
    send("DELETE", &format!("/allocations/{}", consumer(1)), &Value::Null).await;
    let (_, message) = berth(&["why", &id], String::new()).await;
    assert!(message.contains("\nNOW\nThe claim would be allowed now."), "{message}");
}
