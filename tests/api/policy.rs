//! Policy files of a running server: changes take effect, and errors are reported and change nothing.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::process::{Server, signal};
use crate::support::served::PATIENCE;

async fn becomes(server: &Server, status: u16) {
    let began = Instant::now();
    while server.ask("GET", "/traits", None).await.unwrap().0 != status {
        assert!(began.elapsed() < PATIENCE, "no {status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_taken_and_faults_leave_the_rules_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.yaml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("placement:traits:list: '@'\nplacement:trait:list: '!'\n");
    let options = ["--policy-file", file.to_str().unwrap()];
    let server = Server::start_with(directory.path(), &options).await;
    assert_eq!(server.ask("GET", "/traits", None).await.unwrap().0, 200);
    server.logged("policy.yaml:2: no operation uses the rule").await;

    write("placement:traits:list: '!'\n");
    becomes(&server, 403).await;
    let (_, output) = server.ask("GET", "/traits", None).await.unwrap();
    assert!(output.contains("Policy does not allow placement:traits:list to be performed."));

    write("placement:traits:list: '@'\nmine: rule:nowhere\n");
    signal("HUP", &server.pid());
    server.logged("policy.yaml:2: rule \"mine\": there is no rule \"nowhere\"").await;
    server.logged("the rules before stay in force").await;
    assert_eq!(server.ask("GET", "/traits", None).await.unwrap().0, 403);

    write("placement:traits:list: '@'\n");
    signal("HUP", &server.pid());
    becomes(&server, 200).await;
}

#[test]
fn a_server_does_not_start_with_faults() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.yaml");
    std::fs::write(&file, "a: '@'\nb: role:x or (role:y\n").unwrap();
    let commands: [&[&str]; 3] =
        [&["serve"], &["config", "check"], &["policy", "check", "--roles", "admin"]];
    for command in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(command)
            .arg("--policy-file")
            .arg(&file)
            .output()
            .unwrap();
        assert!(!output.status.success());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(words.contains("policy.yaml:2: rule \"b\": a \")\" is missing"));
    }
}
