//! Ways to find the cause of a problem: warnings of slow requests, the options of a running server, and the bundle of
//! `berth debug`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::held::hold;
use crate::support::cluster::until;
use crate::support::postgres::database;
use crate::support::process::{Server, free_port, signal};

/// Runs a command, and returns its standard output.
async fn berth(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_request_is_logged_with_where_its_time_went() {
    const SLOW: Duration = Duration::from_millis(200);
    let directory = tempfile::tempdir().unwrap();
    let options = ["--slow-request", "0.2", "--log-format", "json", "--log", "debug"];
    let server = Server::start_with(directory.path(), &options).await;
    let provider = Uuid::new_v4();
    let body = json!({"name": "host", "uuid": provider});
    server.ask("POST", "/resource_providers", Some(&body)).await.unwrap();

    let mut stranger = server.session().await;
    let held = hold(&mut stranger, "providers", provider).await;
    let path = format!("/resource_providers/{provider}/traits");
    let body = json!({"resource_provider_generation": 0, "traits": []});
    let change = server.ask("PUT", &path, Some(&body));
    let release = async {
        server.logged("waits for a lock").await;
        let began = Instant::now();
        until("it is slow", async || began.elapsed() > SLOW).await;
        held.commit().await.unwrap();
    };
    let (response, ()) = tokio::join!(change, release);
    assert_eq!(response.unwrap().0, 200);

    let begin = format!("slow request: PUT {path}: change ");
    let line: Value = serde_json::from_str(&server.logged(&begin).await).unwrap();
    assert_eq!((&line["level"], &line["status"]), (&json!("WARN"), &json!(200)), "{line}");
    assert!(line["took_ms"].as_f64().unwrap() >= 200.0, "{line}");
    assert!(line["span"]["request_id"].as_str().unwrap().starts_with("req-"), "{line}");
    let times = line["message"].as_str().unwrap().split_once(": change ").unwrap().1;
    for name in [", commit ", ", send ", ", other "] {
        assert!(times.contains(name), "{name}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_options_of_a_running_server_are_shown_with_their_sources() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("berth.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "log = \"info\"\nkeystone-password = \"s3cret\"\n").unwrap();
    let options = ["--config", path, "--max-requests", "77"];
    let server = Server::start_with(directory.path(), &options).await;
    let url = format!("http://{}", server.address);
    let show = ["config", "show", "--url", &url, "--token", "admin"];
    let shown = berth(&show).await;
    for line in [
        "max-requests = 77 (flag)".to_owned(),
        format!("log = info ({path}, line 1)"),
        format!("keystone-password = (set) ({path}, line 2)"),
        "slow-request = 1 (default)".to_owned(),
    ] {
        assert!(shown.lines().any(|it| it == line), "{line}: {shown}");
    }
    assert!(!shown.contains("s3cret"));

    // What a reload applies is in force; the rest is not.
    std::fs::write(&file, "max-requests = 1\n\nlog = \"warn\"\n").unwrap();
    signal("HUP", &server.pid());
    let now = format!("log = warn ({path}, line 3)");
    until("the level is in force", async || berth(&show).await.lines().any(|it| it == now)).await;
    let shown = berth(&show).await;
    assert!(shown.contains("max-requests = 77 (flag)\n"), "{shown}");

    let request = server.client.get(format!("{url}/-/v1/options"));
    let refused = request.header("x-auth-token", "user:project").send().await.unwrap();
    assert_eq!(refused.status(), 403);
}

/// Returns the files of a bundle with their texts.
pub(crate) fn unpacked(file: &Path) -> BTreeMap<String, String> {
    let mut archive =
        tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()));
    let mut parts = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        parts.insert(name, text);
    }
    parts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_has_everything_that_support_needs_and_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "s3cret-of-metrics\n").unwrap();
    let admin = format!("127.0.0.1:{}", free_port());
    let database = sqlx::ConnectOptions::to_url_lossy(&database().await).to_string();
    let options = [
        ["--admin-listen", &admin],
        ["--admin-token-file", token.to_str().unwrap()],
        ["--database-url", &database],
    ];
    let server = Server::start_with(directory.path(), &options.concat()).await;
    let (url, file) = (format!("http://{}", server.address), directory.path().join("debug.tar.gz"));
    let bundle = [
        ["--output", file.to_str().unwrap()],
        ["--interval", "1"],
        ["--config", "/dev/null"],
        ["--keystone-password", "s3cret-of-keystone"],
        ["--listen", &server.address],
        ["--planner-listen", "none"],
        ["--url", &url],
        ["--token", "admin"],
    ];
    let printed = berth(&[&["debug"], &*bundle.concat(), &*options.concat()].concat()).await;
    assert!(printed.contains("debug.tar.gz is complete; read it"), "{printed}");

    let mut parts = unpacked(&file);
    for (name, text) in &parts {
        assert!(!text.contains("s3cret"), "{name}: {text}");
    }
    for (name, text) in [
        ("README.txt", "metrics-2.txt"),
        ("check.txt", "is ready"),
        ("options-server.txt", "admin-token-file = "),
        ("options-here.txt", "keystone-password = (set) (flag)"),
        ("members.txt", server.address.as_str()),
        ("database.txt", "\"relname\":\"providers\""),
        ("log.txt", ""),
        ("system.txt", "MemTotal"),
        ("metrics-1.txt", "berth_ready 1"),
        ("metrics-2.txt", "berth_ready 1"),
    ] {
        let part = parts.remove(name);
        assert!(part.as_ref().is_some_and(|it| it.contains(text)), "{name}: {part:?}");
    }
    assert!(parts.is_empty(), "{parts:?}");
}
