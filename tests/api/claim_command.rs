//! `berth candidates`, `berth claim` and `berth release` by hand; they never overwrite the changes of others.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::process::Server;

const CONSUMER: &str = "00000000-0000-0000-0000-00000000c001";

fn uuid(nth: u128) -> String {
    Uuid::from_u128(nth).to_string()
}

/// Runs a command against a server: its code, and what it prints.
async fn berth(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let url = format!("http://{}", server.address);
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args([arguments[0], "--url", &url]).args(&arguments[1..]).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let message = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(message).unwrap())
}

async fn send(server: &Server, method: &str, path: &str, body: Value) {
    let (status, output) = server.ask(method, path, Some(&body)).await.unwrap();
    assert!((200..300).contains(&status), "{method} {path}: {status} {output}");
}

async fn held(server: &Server) -> Value {
    let (_, held) = server.ask("GET", &format!("/allocations/{CONSUMER}"), None).await.unwrap();
    serde_json::from_str(&held).unwrap()
}

/// Two hosts with 8 VCPU each.
async fn cloud(directory: &std::path::Path) -> Server {
    let server = Server::start(directory).await;
    for (nth, name) in [(1, "cn1"), (2, "cn2")] {
        let body = json!({"name": name, "uuid": uuid(nth)});
        send(&server, "POST", "/resource_providers", body).await;
        let body = json!({"resource_provider_generation": 0, "inventories": {
            "VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096},
        }});
        let path = format!("/resource_providers/{}/inventories", uuid(nth));
        send(&server, "PUT", &path, body).await;
    }
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_are_shown_with_what_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let server = cloud(directory.path()).await;
    let (code, output) = berth(&server, &["candidates", "resources=VCPU:2", "--limit", "1"]).await;
    assert_eq!(code, Some(0), "{output}");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 2, "{output}");
    assert!(
        lines[1].starts_with("1          cn") && lines[1].ends_with("\"\"      VCPU 8 of 8"),
        "{output}"
    );
    let (_, output) =
        berth(&server, &["candidates", "/allocation_candidates?resources=VCPU:2 200"]).await;
    assert_eq!(output.lines().count(), 3, "{output}");
    let (_, output) = berth(&server, &["candidates", "resources=VCPU:2&limit=1", "--json"]).await;
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(output["allocation_requests"].as_array().unwrap().len(), 1);
    let (code, output) = berth(&server, &["candidates", "resources=VCPU:9"]).await;
    assert!(code == Some(0) && output.starts_with("There are no candidates."), "{output}");
    let (code, output) =
        berth(&server, &["candidates", "resources=VCPU:1", "--microversion", "1.11"]).await;
    assert!(code == Some(1) && output.contains("from microversion 1.12 on"), "{output}");
    let (code, output) = berth(&server, &["candidates", "resources=NOTHING:1"]).await;
    assert!(code == Some(1) && output.contains("400 Bad Request"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_shown_and_written_and_released() {
    let directory = tempfile::tempdir().unwrap();
    let server = cloud(directory.path()).await;
    let on = ["claim", CONSUMER, "--on", "cn1", "--resources", "VCPU:4,MEMORY_MB:512"];
    let owned = ["--project", "p", "--user", "u", "--type", "INSTANCE"];
    let (code, output) = berth(&server, &[on.as_slice(), &owned].concat()).await;
    assert!(code == Some(1) && output.contains("use --yes"), "{output}");
    assert!(
        output.contains("Consumer 00000000-0000-0000-0000-00000000c001:\nPROVIDER"),
        "{output}"
    );
    let (code, output) = berth(&server, &[on.as_slice(), &["--yes"]].concat()).await;
    assert!(code == Some(1) && output.contains("its owner must be given: --project"), "{output}");
    assert_eq!(held(&server).await["allocations"], json!({}));

    let (code, output) = berth(&server, &[on.as_slice(), &owned, &["--yes"]].concat()).await;
    assert!(code == Some(0) && output.ends_with("Done.\n"), "{output}");
    let now = held(&server).await;
    let resources = &now["allocations"][uuid(1)]["resources"];
    assert_eq!(resources, &json!({"VCPU": 4, "MEMORY_MB": 512}));
    let shown = ["project_id", "user_id", "consumer_type"].map(|name| now[name].clone());
    assert_eq!(shown, [json!("p"), json!("u"), json!("INSTANCE")]);

    // Another host, by a candidate of a query; the owner stays.
    let query = format!("resources=VCPU:3&in_tree={}", uuid(2));
    let (code, output) = berth(&server, &["claim", CONSUMER, "--query", &query, "--yes"]).await;
    assert_eq!(code, Some(0), "{output}");
    let rows: Vec<Vec<&str>> =
        output.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    let (one, two) = (uuid(1), uuid(2));
    assert_eq!(rows[0], ["cn1", &one, "MEMORY_MB", "512", "-"]);
    assert_eq!(rows[1], ["cn1", &one, "VCPU", "4", "-"]);
    assert_eq!(rows[2], ["cn2", &two, "VCPU", "-", "3"]);
    let now = held(&server).await;
    assert_eq!(now["allocations"][&two]["resources"], json!({"VCPU": 3}));
    assert_eq!((&now["project_id"], &now["consumer_type"]), (&json!("p"), &json!("INSTANCE")));
    let (code, output) =
        berth(&server, &["claim", CONSUMER, "--query", &query, "--candidate", "7", "--yes"]).await;
    assert!(
        code == Some(1) && output.contains("there is no candidate 7: the query finds 1"),
        "{output}"
    );

    let (code, output) = berth(&server, &["release", CONSUMER]).await;
    assert!(code == Some(1) && output.contains("use --yes"), "{output}");
    assert_eq!(held(&server).await, now);
    let (code, output) = berth(&server, &["release", CONSUMER, "--yes"]).await;
    assert!(
        code == Some(0) && output.contains("VCPU   3    -\n") && output.ends_with("Done.\n"),
        "{output}"
    );
    assert_eq!(held(&server).await["allocations"], json!({}));
    let (code, output) = berth(&server, &["release", CONSUMER, "--yes"]).await;
    assert_eq!((code, output.as_str()), (Some(0), "The consumer has no allocations.\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_printed_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let server = cloud(directory.path()).await;
    let owned = ["--project", "p", "--user", "u", "--yes"];
    for (arguments, expected) in [
        (vec!["--on", "cn1", "--resources", "VCPU:9"], "nothing was written: PUT "),
        (vec!["--on", "cn1", "--resources", "VCPU"], "\"VCPU\" is not an amount such as VCPU:4"),
        (vec!["--on", "cn9", "--resources", "VCPU:1"], "there is no resource provider cn9"),
        (vec!["--on", "cn1", "--on", "cn2", "--resources", "VCPU:1"], "there are 2 and 1"),
        (
            vec!["--on", "cn1", "--resources", "VCPU:1", "--on", "cn1", "--resources", "VCPU:1"],
            "VCPU of cn1 is named twice",
        ),
    ] {
        let (code, output) =
            berth(&server, &[&["claim", CONSUMER], arguments.as_slice(), &owned].concat()).await;
        assert!(code == Some(1) && output.contains(expected), "{arguments:?}: {output}");
    }
    assert_eq!(held(&server).await["allocations"], json!({}));
    let arguments = ["claim", CONSUMER, "--on", "cn1", "--resources", "VCPU:9"];
    let (_, output) = berth(&server, &[arguments.as_slice(), &owned].concat()).await;
    let id = output.split("`berth why ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    let (_, output) = berth(&server, &["why", &id]).await;
    assert!(output.contains("VCPU: 1 short: 9 wanted"), "{output}");
    // A consumer without a type keeps none.
    let arguments = ["claim", CONSUMER, "--on", "cn2", "--resources", "VCPU:1"];
    let (code, output) = berth(&server, &[arguments.as_slice(), &owned].concat()).await;
    assert_eq!(code, Some(0), "{output}");
    let (code, output) = berth(&server, &[arguments.as_slice(), &["--yes"]].concat()).await;
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(held(&server).await["consumer_type"], "unknown");
    let (code, output) = berth(&server, &["release", CONSUMER, "--yes"]).await;
    assert_eq!(code, Some(0), "{output}");
}
