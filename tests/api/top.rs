//! `berth top`: what a server does at present.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::process::{Server, free_port};

#[tokio::test(flavor = "multi_thread")]
async fn the_activity_of_a_server_is_json() {
    let directory = tempfile::tempdir().unwrap();
    let admin = format!("127.0.0.1:{}", free_port());
    let server = Server::start_with(directory.path(), &["--admin-listen", &admin]).await;
    let uuid = "00000000-0000-0000-0000-000000000001";
    let path = format!("/resource_providers/{uuid}/inventories");
    let body = json!({"name": "host", "uuid": uuid});
    server.ask("POST", "/resource_providers", Some(&body)).await.unwrap();
    let write = async |generation: i64| {
        let inventories = json!({"VCPU": {"total": 1000, "reserved": generation}});
        let body = json!({"resource_provider_generation": generation, "inventories": inventories});
        let (status, message) = server.ask("PUT", &path, Some(&body)).await.unwrap();
        assert_eq!(status, 200, "{message}");
    };
    // Routes have figures from their first request on.
    write(0).await;

    let top = async |admin: String| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args([
            "top",
            "--json",
            "--interval",
            "3",
            "--url",
            &format!("http://{}", server.address),
        ]);
        command.args(["--admin-url", &format!("http://{admin}")]);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let message = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str::<Value>(&message).unwrap_or_else(|why| panic!("{why}: {message}"))
    };
    let writing = async {
        for generation in 1.. {
            write(generation).await;
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let message = tokio::select! {
        message = top(admin.clone()) => message,
        () = writing => unreachable!(),
    };
    assert_eq!(message["server_unknown"], Value::Null);
    assert_eq!(message["server"]["is_ready"], true);
    assert_eq!(message["server"]["providers"], 1.0);
    assert_eq!(message["server"]["version"], env!("CARGO_PKG_VERSION"));
    let routes = message["server"]["routes"].as_array().unwrap();
    let put = routes.iter().find(|it| it["method"] == "PUT").unwrap();
    assert_eq!(put["route"], "/resource_providers/{uuid}/inventories");
    assert!(put["timing"]["per_second"].as_f64().unwrap() > 0.0, "{put}");
    assert!(put["timing"]["p99"].as_f64().unwrap() > 0.0, "{put}");
    assert!(message["server"]["refresh"]["per_second"].as_f64().unwrap() > 0.0, "{message}");
    assert!(message["server"]["turns"].as_array().unwrap().iter().any(|it| it["kind"] == "plan"));
    assert!(message["server"]["pool"][1].as_f64().unwrap() > 0.0, "{message}");
    assert_eq!(message["classes"][0]["name"], "VCPU");
    assert_eq!(message["hottest"][0]["name"], "host");

    // Without the listener, the figures of the API are shown nevertheless.
    let message = top(format!("127.0.0.1:{}", free_port())).await;
    assert!(message["server_unknown"].as_str().unwrap().contains("--admin-listen"), "{message}");
    assert_eq!(message["classes"][0]["name"], "VCPU");
}
