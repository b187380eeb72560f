//! Flavors: what the commands do to them, beside a server.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use sqlx::ConnectOptions;

use crate::site::Site;

/// Runs `berth flavor`, and gives what it prints, or what it says is wrong.
async fn flavor(site: &Site, arguments: &[&str]) -> Result<String, String> {
    site.command("flavor", arguments).await
}

async fn listed(site: &Site) -> Vec<Value> {
    let text = flavor(site, &["list", "--format", "json"]).await.unwrap();
    serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().clone()
}

async fn names(site: &Site) -> Vec<String> {
    listed(site).await.iter().map(|flavor| flavor["name"].as_str().unwrap().to_owned()).collect()
}

const CLASSIC: [&str; 5] = ["m1.large", "m1.medium", "m1.small", "m1.tiny", "m1.xlarge"];

#[tokio::test(flavor = "multi_thread")]
async fn the_classic_ones_are_there_from_the_start() {
    let site = Site::new().await;
    assert_eq!(names(&site).await, CLASSIC);
    let table = flavor(&site, &["list"]).await.unwrap();
    assert!(table.starts_with("name       id  vcpus  ram "), "{table}");
    let request = ["m1.tiny", "2", "no", "m1.small"].map(str::to_owned);
    let named = site.app().store.flavors_named(&request).await.unwrap();
    let named: Vec<(&str, i32)> = named.iter().map(|it| (it.name.as_str(), it.ram_mb)).collect();
    assert_eq!(named, [("m1.small", 2048), ("m1.tiny", 512)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_is_set_and_unset() {
    let site = Site::new().await;
    let gold = [
        "set",
        "gold",
        "--vcpus",
        "2",
        "--ram",
        "1024",
        "--disk",
        "10",
        "--ephemeral",
        "5",
        "--swap",
        "512",
        "--id",
        "g",
        "--property",
        "trait:CUSTOM_GOLD=required",
        "--property",
        "a=b=c",
    ];
    assert_eq!(flavor(&site, &gold).await, Ok(String::new()));
    let named = site.app().store.flavors_named(&["g".to_owned()]).await.unwrap();
    let needed = named[0].size().unwrap();
    assert_eq!(
        (needed.needs["DISK_GB"], needed.required.as_slice()),
        (16, &["CUSTOM_GOLD".to_owned()][..])
    );
    // Setting it again replaces everything except the id.
    flavor(&site, &["set", "gold", "--vcpus", "3", "--ram", "1"]).await.unwrap();
    let gold = listed(&site).await.into_iter().find(|flavor| flavor["name"] == "gold");
    let expected = json!({"name": "gold", "id": "g", "vcpus": 3, "ram": 1, "disk": 0,
                          "ephemeral": 0, "swap": 0, "properties": {}});
    assert_eq!(gold, Some(expected));
    flavor(&site, &["unset", "gold"]).await.unwrap();
    assert_eq!(names(&site).await, CLASSIC);
    assert!(flavor(&site, &["unset", "gold"]).await.unwrap_err().contains("no flavor gold"));
}

#[tokio::test(flavor = "multi_thread")]
async fn meaningless_requests_are_refused() {
    let site = Site::new().await;
    for (arguments, words) in [
        (&["set", "a", "--vcpus", "0", "--ram", "1"][..], "vcpus must be at least 1"),
        (&["set", "a", "--vcpus", "1"], "--ram"),
        (&["set", "", "--vcpus", "1", "--ram", "1"], "the name is empty"),
        (&["set", "a", "--vcpus", "1", "--ram", "1", "--id", "1"], "is that of the flavor m1.tiny"),
        (
            &["set", "a", "--vcpus", "1", "--ram", "1", "--property", "resourcesä:VCPU=1"],
            "not a valid suffix of a group",
        ),
        (&["load", "/no/such/file"], "/no/such/file"),
    ] {
        let why = flavor(&site, arguments).await.unwrap_err();
        assert!(why.contains(words), "{arguments:?}: {why}");
    }
    assert_eq!(names(&site).await, CLASSIC);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_loaded_whole_or_not_at_all() {
    let site = Site::new().await;
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/flavors.toml");
    flavor(&site, &["load", sample.to_str().unwrap()]).await.unwrap();
    let loaded = names(&site).await;
    assert_eq!(loaded.len(), CLASSIC.len() + 2);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flavors.toml");
    let load = async |text: &str| {
        std::fs::write(&file, text).unwrap();
        flavor(&site, &["load", file.to_str().unwrap()]).await
    };
    let new = "[flavors.new]\nvcpus = 1\nram = 1\n";
    for bad in [
        "[flavors.zero]\nvcpus = 0\nram = 1\n",
        "[flavors.other]\nvcpus = 1\nram = 1\nid = \"1\"\n",
        "[flavors.other]\nvcpus = 1\nram = 1\nid = \"new\"\n",
        "[flavors.other]\nvcpus = 1\nram = 1\ncolour = 1\n",
        "[flavor.other]\nvcpus = 1\nram = 1\n",
    ] {
        load(&format!("{new}{bad}")).await.unwrap_err();
        assert_eq!(names(&site).await, loaded, "{bad}");
    }
    // Ids may change hands.
    load(
        "[flavors.\"m1.tiny\"]\nvcpus = 1\nram = 1\nid = \"2\"\n\
         [flavors.\"m1.small\"]\nvcpus = 1\nram = 1\nid = \"1\"\n",
    )
    .await
    .unwrap();
    let named = site.app().store.flavors_named(&["1".to_owned()]).await.unwrap();
    assert_eq!(named[0].name, "m1.small");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_sets_those_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flavors.toml");
    std::fs::write(&file, "[flavors.new]\nvcpus = 1\nram = 1\n").unwrap();
    let option = format!("--planner-flavors={}", file.display());
    let site = Site::new().await;
    let database = format!("--database-url={}", site.database.to_url_lossy());
    let options = [option.as_str(), database.as_str()];
    let server = crate::support::process::Server::start_with(folder.path(), &options).await;
    assert!(names(&site).await.contains(&"new".to_owned()));
    drop(server);
    // A wrong file is reported before anything is served.
    std::fs::write(&file, "[flavors.new]\nvcpus = 1\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["config", "check", &option])
        .env_clear()
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("missing field `ram`"), "{words}");
}
