//! `berth ls`, `berth show` and others: what a service shows, for people.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::process::Server;

fn uuid(nth: u32) -> String {
    format!("00000000-0000-0000-0000-00000000000{nth}")
}

/// Runs a command of `berth` against a server: whether it succeeds, and what it prints.
async fn run(server: &Server, command: &str, arguments: &[&str]) -> (bool, String) {
    let url = format!("http://{}", server.address);
    let mut program = Command::new(env!("CARGO_BIN_EXE_berth"));
    program.args([command, "--url", &url]).args(arguments).env("NO_COLOR", "1");
    let output = tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap();
    let message = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(message).unwrap())
}

async fn send(server: &Server, method: &str, path: &str, body: Value) {
    let (status, output) = server.ask(method, path, Some(&body)).await.unwrap();
    assert!((200..300).contains(&status), "{method} {path}: {status} {output}");
}

/// `host-a` with two NUMA nodes of 8 VCPU, of which 5 are used; `host-b` with 8 VCPU and a GPU, all free; and a
/// provider without inventory.
async fn cloud(server: &Server) {
    for (nth, name, parent) in [
        (1, "host-a", None),
        (2, "numa-0", Some(1)),
        (3, "numa-1", Some(1)),
        (4, "host-b", None),
        (5, "empty", None),
    ] {
        let parent = parent.map(uuid);
        let body = json!({"name": name, "uuid": uuid(nth), "parent_provider_uuid": parent});
        send(server, "POST", "/resource_providers", body).await;
    }
    let vcpu = json!({"VCPU": {"total": 8}});
    for (nth, inventories) in
        [(2, vcpu.clone()), (3, vcpu), (4, json!({"VCPU": {"total": 8}, "VGPU": {"total": 4}}))]
    {
        let body = json!({"resource_provider_generation": 0, "inventories": inventories});
        send(server, "PUT", &format!("/resource_providers/{}/inventories", uuid(nth)), body).await;
    }
    let body = json!({"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX"]});
    send(server, "PUT", &format!("/resource_providers/{}/traits", uuid(2)), body).await;
    for (consumer, allocations) in [
        (8, json!({uuid(2): {"resources": {"VCPU": 3}}, uuid(3): {"resources": {"VCPU": 1}}})),
        (9, json!({uuid(2): {"resources": {"VCPU": 1}}})),
    ] {
        let body = json!({
            "allocations": allocations, "project_id": "p", "user_id": "u",
            "consumer_generation": null, "consumer_type": "INSTANCE",
        });
        send(server, "PUT", &format!("/allocations/{}", uuid(consumer)), body).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_listed_by_free_room() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    assert_eq!(run(&server, "ls", &[]).await.1, "There are no such hosts.\n");
    cloud(&server).await;
    let all = "\
HOST    PROVIDERS  VCPU FREE          VGPU FREE
host-b  1          ░░░░░░░░ 8 of 8    ░░░░░░░░ 4 of 4
host-a  3          ██░░░░░░ 11 of 16
";
    assert_eq!(run(&server, "ls", &[]).await, (true, all.to_owned()));
    let some = "\
HOST    PROVIDERS  VCPU FREE
host-a  3          ██░░░░░░ 11 of 16
1 of 2 hosts
";
    let sorted = run(&server, "ls", &["--sort", "VCPU", "--classes", "VCPU", "--top", "1"]).await;
    assert_eq!(sorted, (true, some.to_owned()));
    let first = async |arguments: &[&str]| {
        let (_, message) = run(&server, "ls", arguments).await;
        message.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned()
    };
    assert_eq!(first(&["--sort", "name"]).await, "host-a");
    assert_eq!(first(&["--sort", "name", "--reverse"]).await, "host-b");
    // A provider of the tree has the trait.
    assert_eq!(first(&["required=HW_CPU_X86_AVX"]).await, "host-a");
    let (_, message) = run(&server, "ls", &["--json", "required=HW_CPU_X86_AVX"]).await;
    let message: Value = serde_json::from_str(&message).unwrap();
    let expected = json!([{
        "name": "host-a", "uuid": uuid(1), "providers": 3,
        "classes": {"VCPU": {"capacity": 16, "used": 5, "free": 11}},
    }]);
    assert_eq!(message, expected);
    for (arguments, expected) in [
        (["required=NOBODY_KNOWS"].as_slice(), "NOBODY_KNOWS"),
        (&["--limit", "1"], "there are 2 hosts: see --top, or raise --limit"),
        (&["--sort", "VCPUS"], "no host has inventory of \"VCPUS\"; there is VCPU, VGPU"),
        (&["--classes", "VCPU,"], "no host has inventory of \"\""),
    ] {
        let (succeeds, message) = run(&server, "ls", arguments).await;
        assert!(!succeeds && message.contains(expected), "{message}");
    }
    // A list that is cut off must not look whole.
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["ls", "--url", &format!("http://{}", server.address)]);
    command.stdout(std::fs::File::create("/dev/full").unwrap());
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let message = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && message.contains("standard output: "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_shown_with_its_consumers_and_a_consumer_with_its_providers() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    cloud(&server).await;

    let (succeeds, output) = run(&server, "show", &["numa-0"]).await;
    assert!(succeeds, "{output}");
    for expected in [
        "numa-0  00000000-0000-0000-0000-000000000002\n  generation: 4\n",
        "  parent: 00000000-0000-0000-0000-000000000001\n",
        "  VCPU  ██████████░░░░░░░░░░  4 of 8\n  traits: HW_CPU_X86_AVX\n",
        "2 of 2 consumers:\n",
        "00000000-0000-0000-0000-000000000008  INSTANCE  VCPU:3  p        u     ",
        "00000000-0000-0000-0000-000000000009  INSTANCE  VCPU:1  p        u     ",
    ] {
        assert!(output.contains(expected), "{expected}: {output}");
    }
    assert!(output.contains(" GMT"), "since when: {output}");
    let (_, output) = run(&server, "show", &["numa-0", "--limit", "1"]).await;
    assert!(output.contains("1 of 2 consumers:"), "{output}");
    let (_, output) = run(&server, "show", &["empty"]).await;
    assert!(output.contains("It has no allocations."), "{output}");

    let (succeeds, output) = run(&server, "show", &[&uuid(8)]).await;
    assert!(succeeds, "{output}");
    for expected in [
        "consumer 00000000-0000-0000-0000-000000000008\n  type: INSTANCE\n  project: p\n  user: u\n",
        "numa-0    00000000-0000-0000-0000-000000000002  VCPU:3\n",
        "numa-1    00000000-0000-0000-0000-000000000003  VCPU:1\n",
    ] {
        assert!(output.contains(expected), "{expected}: {output}");
    }
    let (_, output) = run(&server, "show", &[&uuid(8), "--json"]).await;
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(output["consumer"]["allocations"][uuid(3)], json!({"VCPU": 1}));
    let (_, output) = run(&server, "show", &["numa-1", "--json"]).await;
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (&output["consumer_count"], &output["consumers"][0]["uuid"]),
        (&json!(1), &json!(uuid(8)))
    );

    let (succeeds, output) = run(&server, "show", &["nobody"]).await;
    assert!(
        !succeeds && output.contains("there is no resource provider and no consumer nobody"),
        "{output}"
    );
}

/// All of a cloud is read at once from Berth, and in many requests from services that do not allow it to the caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_bulk_rights_reads_by_the_published_api() {
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.yaml");
    std::fs::write(&policy, "berth:providers:list: '!'\n").unwrap();
    let options = ["--policy-file", policy.to_str().unwrap()];
    let denying = Server::start_with(directory.path(), &options).await;
    let other = tempfile::tempdir().unwrap();
    let allowing = Server::start(other.path()).await;
    for server in [&denying, &allowing] {
        cloud(server).await;
    }
    let (status, _) = denying.ask("GET", "/-/v1/providers", None).await.unwrap();
    assert_eq!(status, 403);
    for (command, arguments) in [
        ("ls", ["--json"].as_slice()),
        ("ls", &["required=HW_CPU_X86_AVX"]),
        ("tree", &["--json"]),
        ("tree", &["numa-0"]),
    ] {
        let output = run(&denying, command, arguments).await;
        assert!(output.0, "{command} {arguments:?}: {}", output.1);
        assert_eq!(output, run(&allowing, command, arguments).await, "{command} {arguments:?}");
    }
    // The limit counts the items read by one, and the items shown by the other.
    let few = ["--limit", "2", "--top", "1"];
    let (succeeds, output) = run(&denying, "ls", &few).await;
    assert!(!succeeds && output.contains("there are 5 providers"), "{output}");
    assert!(run(&allowing, "ls", &few).await.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_of_clients_without_keystone_names_the_service() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    cloud(&server).await;
    let url = format!("http://{}", server.address);
    let run = async |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        let ours = |name: &str| name.starts_with("OS_") || name.starts_with("BERTH_");
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command.args(arguments).envs(environment.iter().copied());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let message = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(message).unwrap())
    };
    for environment in [
        [("OS_AUTH_TYPE", "none"), ("OS_ENDPOINT", &url)].as_slice(),
        &[("OS_AUTH_TYPE", "none"), ("OS_PLACEMENT_ENDPOINT_OVERRIDE", &url)],
        &[("OS_AUTH_TYPE", "admin_token"), ("OS_TOKEN", "admin"), ("OS_ENDPOINT", &url)],
    ] {
        let (succeeds, message) = run(&["ls"], environment).await;
        assert!(succeeds && message.contains("host-a"), "{environment:?}: {message}");
    }
    for (environment, expected) in [
        ([("OS_USERNAME", "nova")], "which placement service?"),
        ([("OS_AUTH_TYPE", "none")], "OS_ENDPOINT is missing"),
        ([("OS_ENDPOINT", &url)], "OS_AUTH_URL is missing"),
    ] {
        let (succeeds, message) = run(&["ls"], &environment).await;
        assert!(!succeeds && message.contains(expected), "{environment:?}: {message}");
    }
    // A command that writes needs a name, whatever answers on this machine.
    let (succeeds, message) = run(&["release", "--yes", &uuid(9)], &[]).await;
    assert!(!succeeds && message.contains("which placement service?"), "{message}");
}

/// Length of the longest line of the recording, in characters.
const COLUMNS: usize = 118;

/// The commands of the recording print what it shows: `make pictures` was run after the last change.
#[tokio::test(flavor = "multi_thread")]
async fn the_recording_shows_the_output_of_commands() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let url = format!("http://{}", server.address);
    let programs = Path::new(env!("CARGO_BIN_EXE_berth")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let shell = async |command: &str| {
        let mut program = Command::new("sh");
        program.args(["-c", command]).env("BERTH_PLACEMENT_URL", &url);
        program.env("PATH", format!("{}:{path}", programs.display()));
        let output = tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap();
        let message = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{command}: {message}");
        message
    };
    let sample = format!("samples/cloud.sh {url}");
    assert!(shell(&sample).await.contains("has 40 hosts now"));
    assert!(shell(&sample).await.contains("there already"));
    let recording = include_str!("../../docs/pictures/recording.svg");
    let mut screens: Vec<(String, Vec<String>)> = Vec::new();
    let elements =
        recording.split("</text>").filter(|it| it.contains("<text") && !it.contains("\"title\""));
    for element in elements {
        let text = element.rsplit('>').next().unwrap().replace("&#x27;", "'");
        let text = text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
        let text = text.replace("&amp;", "&");
        match (text.strip_prefix("$ "), screens.last_mut()) {
            (Some(command), _) => screens.push((command.to_owned(), Vec::new())),
            (None, Some((_, lines))) => lines.push(text),
            (None, None) => panic!("the first line is no command: {text}"),
        }
    }
    assert!(screens.len() > 3);
    for (command, lines) in screens {
        let output = shell(&command).await;
        let shown = output.trim_end().lines().map(|line| match line.chars().count() {
            0..=COLUMNS => line.to_owned(),
            _ => line.chars().take(COLUMNS - 1).chain(['…']).collect(),
        });
        assert_eq!(lines, shown.collect::<Vec<_>>(), "{command}");
    }
}
