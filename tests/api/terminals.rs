//! No text from a service controls the caller's terminal, or looks like a line of a command.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::process::Server;

const HOST: &str = "00000000-0000-0000-0000-000000000001";
const CONSUMER: &str = "00000000-0000-0000-0000-000000000008";
const OTHER: &str = "00000000-0000-0000-0000-000000000009";
const REQUEST: &str = "req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901";
/// A name with characters that control a terminal: a colour in two spellings, ends of lines, right-to-left writing.
const NAME: &str = "\u{1b}[31mred\nforged\u{202e}\u{9b}1m\u{7f}\u{2028}";
const WRITTEN: &str = r"\u{1b}[31mred\nforged\u{202e}\u{9b}1m\u{7f}\u{2028}";
/// The same in JSON.
const JSON: &str = r"\u001b[31mred\nforged\u202e\u009b1m\u007f\u2028";

/// Runs a command of `berth` against a server: whether it succeeds, and what it prints.
async fn run(server: &Server, command: &str, arguments: &[&str]) -> (bool, String) {
    let url = format!("http://{}", server.address);
    let mut program = Command::new(env!("CARGO_BIN_EXE_berth"));
    program.args([command, "--url", &url]).args(arguments);
    let output = tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap();
    let message = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(message).unwrap())
}

fn claim(cores: u32) -> Value {
    json!({
        "allocations": {HOST: {"resources": {"VCPU": cores}}}, "project_id": NAME, "user_id": NAME,
        "consumer_generation": null, "consumer_type": "INSTANCE",
    })
}

/// A host with a consumer, both with names that act, a claim that was refused, and a query that found nothing.
async fn cloud(server: &Server) {
    for (method, path, body) in [
        ("POST", "/resource_providers".to_owned(), json!({"uuid": HOST, "name": NAME})),
        (
            "PUT",
            format!("/resource_providers/{HOST}/inventories"),
            json!({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}),
        ),
        ("PUT", format!("/allocations/{CONSUMER}"), claim(6)),
    ] {
        let (status, output) = server.ask(method, &path, Some(&body)).await.unwrap();
        assert!((200..300).contains(&status), "{method} {path}: {status} {output}");
    }
    let url = format!("http://{}/allocations/{OTHER}", server.address);
    let refused = server
        .client
        .put(url)
        .header("x-auth-token", "admin")
        .header("x-openstack-request-id", REQUEST)
        .header("openstack-api-version", "placement 1.39")
        .json(&claim(4));
    assert_eq!(refused.send().await.unwrap().status(), 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_do_nothing_to_a_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    cloud(&server).await;
    let file = directory.path().join("claim.json");
    std::fs::write(&file, claim(4).to_string()).unwrap();
    let file = file.to_str().unwrap();
    for (command, arguments) in [
        ("ls", ["--classes", "VCPU"].as_slice()),
        ("tree", &[]),
        ("show", &[HOST]),
        ("show", &[CONSUMER]),
        ("fit", &["resources=VCPU:1"]),
        ("fragmentation", &["resources=VCPU:3"]),
        ("candidates", &["resources=VCPU:1"]),
        ("explain", &["resources=VCPU:4"]),
        ("explain", &["--claim", file, "--consumer", OTHER]),
        ("why", &[REQUEST]),
        ("moves", &["resources=VCPU:1"]),
        ("moves", &["resources=VCPU:4", "--victim", "type:INSTANCE"]),
        ("release", &[CONSUMER, "--yes"]),
        (
            "claim",
            &[
                OTHER,
                "--on",
                HOST,
                "--resources",
                "VCPU:1",
                "--project",
                NAME,
                "--user",
                "u",
                "--type",
                "INSTANCE",
                "--yes",
            ],
        ),
    ] {
        let (succeeds, output) = run(&server, command, arguments).await;
        assert!(succeeds, "{command} {arguments:?}: {output}");
        let is_forged = output.lines().any(|line| line.starts_with("forged"));
        assert!(!output.contains(acts) && !is_forged, "{command} {arguments:?}: {output}");
        assert!(output.contains(WRITTEN), "{command} {arguments:?}: {output}");
    }
    for (command, arguments) in [
        ("ls", ["--classes", "VCPU"].as_slice()),
        ("tree", &[]),
        ("show", &[HOST]),
        ("show", &[OTHER]),
        ("fit", &["resources=VCPU:1"]),
        ("why", &[REQUEST]),
        ("moves", &["resources=VCPU:8", "--victim", "type:INSTANCE"]),
    ] {
        let arguments = [arguments, &["--format", "json"]].concat();
        let (succeeds, output) = run(&server, command, &arguments).await;
        assert!(succeeds, "{command} {arguments:?}: {output}");
        assert!(
            !output.contains(acts) && output.contains(JSON),
            "{command} {arguments:?}: {output}"
        );
        let _: Value = serde_json::from_str(&output).unwrap();
    }
}

/// Returns whether a character must not reach a terminal: controls, and the other marks in names of these tests.
fn acts(character: char) -> bool {
    matches!(character, '\u{202e}' | '\u{2028}') || character.is_control() && character != '\n'
}
