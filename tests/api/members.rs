//! `berth members` and `berth maintenance`: replicas on one database, in processes of their own.

use std::process::{Command, Output};

use serde_json::{Value, json};
use sqlx::ConnectOptions;

use crate::support::cluster::until;
use crate::support::postgres::database;
use crate::support::process::Server;

/// Two replicas and their database.
struct Replicas {
    url: String,
    servers: Vec<Server>,
    _directories: Vec<tempfile::TempDir>,
}

impl Replicas {
    async fn start() -> Self {
        let url = database().await.to_url_lossy().to_string();
        let directories = vec![tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut servers = Vec::new();
        for directory in &directories {
            servers.push(Server::start_with(directory.path(), &["--database-url", &url]).await);
        }
        Self { url, servers, _directories: directories }
    }

    /// Runs a command over the database.
    async fn berth(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(arguments).args(["--config", "/dev/null", "--database-url", &self.url]);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Runs a command that succeeds, and returns its output.
    async fn carry_out(&self, arguments: &[&str]) -> String {
        let output = self.berth(arguments).await;
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    async fn members(&self) -> Vec<Value> {
        let members = self.carry_out(&["members", "--json"]).await;
        serde_json::from_str(&members).unwrap()
    }
}

async fn create(server: &Server, name: &str) -> (u16, String) {
    server.ask("POST", "/resource_providers", Some(&json!({"name": name}))).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_listed_and_one_is_drained() {
    let mut replicas = Replicas::start().await;
    let addresses: Vec<String> = replicas.servers.iter().map(|it| it.address.clone()).collect();
    until("both are ready", async || {
        let members = replicas.members().await;
        members.len() == 2 && members.iter().all(|it| it["readiness"] == "ready")
    })
    .await;
    let members = replicas.members().await;
    for member in &members {
        assert!(addresses.contains(&member["address"].as_str().unwrap().to_owned()), "{member}");
        assert!(member["version"].as_str().unwrap().starts_with("0."), "{member}");
        assert!(member["connections"].as_i64().unwrap() > 0, "{member}");
    }
    let served = replicas.servers[1].ask("GET", "/-/v1/members", None).await.unwrap();
    let served: Value = serde_json::from_str(&served.1).unwrap();
    let ids = |members: &[Value]| members.iter().map(|it| it["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(served["members"].as_array().unwrap()), ids(&members));
    let table = replicas.carry_out(&["members"]).await;
    assert!(table.starts_with("name ") && table.contains(&addresses[0]), "{table}");

    let drained = replicas.carry_out(&["members", "--drain", &addresses[0]]).await;
    assert!(drained.contains(&format!("({}) is drained", addresses[0])), "{drained}");
    let ready = async |nth: usize| replicas.servers[nth].ask("GET", "/readyz", None).await.unwrap();
    until("it is not ready", async || ready(0).await == (503, "the replica is drained\n".into()))
        .await;
    assert_eq!(ready(1).await.0, 200);
    let listen = ["--listen", addresses[0].as_str(), "--planner-listen", "none"];
    let checked = replicas.berth(&[&["check"], &listen[..]].concat()).await;
    let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
    let found = format!("warning  server         {}: the replica is drained\n", addresses[0]);
    assert!(checked.contains(&found), "{checked}");
    assert_eq!(create(&replicas.servers[0], "host").await.0, 200, "it serves what still comes");
    replicas.carry_out(&["members", "--resume", &addresses[0]]).await;
    until("it is ready again", async || ready(0).await.0 == 200).await;

    // Both are on this machine.
    let name = members[0]["name"].as_str().unwrap();
    for (wrong, why) in [("nowhere", "there is no replica nowhere"), (name, "2 replicas are named")]
    {
        let refused = replicas.berth(&["members", "--drain", wrong]).await;
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && words.contains(why), "{words}");
    }

    let mut stopped = replicas.servers.remove(0);
    crate::support::process::signal("TERM", &stopped.pid());
    assert!(stopped.wait().success());
    let left = replicas.members().await;
    assert_eq!(left.len(), 1, "a replica that stops is removed: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_maintenance_all_replicas_refuse_writes_also_after_a_restart() {
    let replicas = Replicas::start().await;
    let show = async || replicas.carry_out(&["maintenance"]).await;
    assert_eq!(show().await, "writes are accepted\n");
    let on = ["maintenance", "on", "--reason", "the rack moves"];
    assert_eq!(replicas.carry_out(&on).await, "replicas that refuse writes: 2\n");
    let shown = show().await;
    assert!(shown.starts_with("writes are refused since 20"), "{shown}");
    assert!(shown.ends_with("Z: the rack moves\n"), "{shown}");

    let directory = tempfile::tempdir().unwrap();
    let restarted = Server::start_with(directory.path(), &["--database-url", &replicas.url]).await;
    for server in replicas.servers.iter().chain([&restarted]) {
        let (status, body) = create(server, "host").await;
        assert_eq!(status, 503, "{body}");
        assert!(body.contains("Writes are refused for maintenance: the rack moves"), "{body}");
        let empty = json!({"allocations": {}, "consumer_generation": null, "project_id": "p",
                           "user_id": "u", "consumer_type": "INSTANCE"});
        let claim = "/allocations/4d1f6a8e-6f1e-4b11-9d5c-5f6c6f1b0a01";
        assert_eq!(server.ask("PUT", claim, Some(&empty)).await.unwrap().0, 503);
        assert_eq!(server.ask("DELETE", claim, None).await.unwrap().0, 503);
        assert_eq!(server.ask("GET", "/resource_providers", None).await.unwrap().0, 200);
        assert_eq!(server.ask("GET", "/readyz", None).await.unwrap().0, 200);
    }

    assert_eq!(
        replicas.carry_out(&["maintenance", "off"]).await,
        "replicas that accept writes: 3\n"
    );
    for (nth, server) in replicas.servers.iter().chain([&restarted]).enumerate() {
        assert_eq!(create(server, &format!("host-{nth}")).await.0, 200);
    }
}
