//! `berth tree`: what a service shows, as trees.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::process::Server;

/// Runs `berth tree` against a server: whether it succeeds, and what it prints.
async fn tree(server: &Server, arguments: &[&str]) -> (bool, String) {
    let url = format!("http://{}", server.address);
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["tree", "--url", &url]).args(arguments).env("NO_COLOR", "1");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let message = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(message).unwrap())
}

async fn send(server: &Server, method: &str, path: &str, body: Value) {
    let (status, output) = server.ask(method, path, Some(&body)).await.unwrap();
    assert!((200..300).contains(&status), "{method} {path}: {status} {output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_found_by_the_name_of_any_provider_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let (_, output) = tree(&server, &[]).await;
    assert_eq!(output, "There are no resource providers.\n");

    let uuid = |nth: u32| format!("00000000-0000-0000-0000-00000000000{nth}");
    for (nth, name, parent) in [(1, "host", None), (2, "numa & 0", Some(1)), (3, "other", None)] {
        let parent = parent.map(uuid);
        let body = json!({"name": name, "uuid": uuid(nth), "parent_provider_uuid": parent});
        send(&server, "POST", "/resource_providers", body).await;
    }
    let inventories = json!({"VCPU": {"total": 8, "reserved": 1, "allocation_ratio": 2.0}});
    let body = json!({"resource_provider_generation": 0, "inventories": inventories});
    send(&server, "PUT", &format!("/resource_providers/{}/inventories", uuid(2)), body).await;
    let body = json!({"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX"]});
    send(&server, "PUT", &format!("/resource_providers/{}/traits", uuid(2)), body).await;
    let body = json!({
        "allocations": {uuid(2): {"resources": {"VCPU": 7}}},
        "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE",
    });
    send(&server, "PUT", &format!("/allocations/{}", uuid(9)), body).await;

    let expected = "\
host  00000000-0000-0000-0000-000000000001
└─ numa & 0  00000000-0000-0000-0000-000000000002
     VCPU  ██████████░░░░░░░░░░  7 of 14 (total 8, 1 reserved, ratio 2)
     traits: HW_CPU_X86_AVX
";
    assert_eq!(tree(&server, &["numa & 0"]).await, (true, expected.to_owned()));
    assert_eq!(tree(&server, &[&uuid(1)]).await, (true, expected.to_owned()));
    let other = "other  00000000-0000-0000-0000-000000000003\n";
    assert_eq!(tree(&server, &[]).await, (true, format!("{expected}{other}")));

    let (_, output) = tree(&server, &["host", "--format", "json"]).await;
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(output[1]["usages"], json!({"VCPU": 7}));

    for (arguments, expected) in [
        (["nobody"].as_slice(), "there is no resource provider nobody"),
        (&["--limit", "2"], "there are 3 providers: name one of them, or raise --limit"),
    ] {
        let (succeeds, output) = tree(&server, arguments).await;
        assert!(!succeeds && output.contains(expected), "{output}");
    }
}
