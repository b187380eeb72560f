//! `berth group`, beside a server.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{create, server, stored};

async fn group(site: &Site, arguments: &[&str]) -> Result<String, String> {
    site.command("group", arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn r89_groups_are_managed_by_commands() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 999, 99]).await;
    let made = ["create", "vault", "--type", "exclusivity", "--description", "ours"];
    let made: Value = serde_json::from_str(&group(&site, &made).await.unwrap()).unwrap();
    assert_eq!((&made["name"], &made["level"]), (&json!("vault"), &json!("host")));
    let shown = site.admin().get("/v1/groups/vault").await.expect(200).json();
    assert_eq!(shown["group"], made);

    let [one, two] = [Uuid::new_v4().to_string(), Uuid::new_v4().simple().to_string()];
    let id = made["id"].as_str().unwrap();
    group(&site, &["add-members", id, &one, &two, &one]).await.unwrap();
    let shown = site.admin().get("/v1/groups/vault").await.expect(200).json();
    assert_eq!(shown["group"]["members"], json!([one, two]));
    group(&site, &["describe", "vault", "all ours"]).await.unwrap();
    let shown: Value =
        serde_json::from_str(&group(&site, &["show", "vault"]).await.unwrap()).unwrap();
    assert_eq!(shown["description"], "all ours");

    let tenant = site.tenant(&one);
    let resources = json!({"a": server("a", 1), "g": stored("vault", &["a"])});
    create(&tenant, "s", resources).await;
    let why = group(&site, &["remove-members", "vault", &two, &one]).await.unwrap_err();
    assert!(why.contains("has servers in group \"vault\""), "{why}");
    // All of them leave, or none.
    let shown = site.admin().get("/v1/groups/vault").await.expect(200).json();
    assert_eq!(shown["group"]["members"], json!([one, two]));
    tenant.delete("/v1/plans/s").await.expect(204);
    let why = group(&site, &["delete", "vault"]).await.unwrap_err();
    assert!(why.contains("Unable to delete a Group with members."), "{why}");
    group(&site, &["remove-members", "vault", &two, &one]).await.unwrap();
    assert_eq!(group(&site, &["delete", "vault"]).await, Ok(String::new()));
    site.admin().get("/v1/groups/vault").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn r89_groups_are_listed() {
    let site = Site::new().await;
    for (name, kind, level) in [("b", "affinity", "rack"), ("a", "diversity", "cluster")] {
        let arguments = ["create", name, "--type", kind, "--level", level];
        group(&site, &arguments).await.unwrap();
    }
    let table = group(&site, &["list"]).await.unwrap();
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(lines[0], ["name", "type", "level", "members"]);
    assert_eq!(lines[1], ["b", "affinity", "rack", "0"]);
    assert_eq!(lines[2], ["a", "diversity", "cluster", "0"]);
    let listed = group(&site, &["list", "--format", "json"]).await.unwrap();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r89_what_makes_no_sense_is_refused() {
    let site = Site::new().await;
    group(&site, &["create", "a", "--type", "affinity"]).await.unwrap();
    for (arguments, words) in [
        (&["create", "a", "--type", "affinity"][..], "already exists"),
        (&["create", "a b", "--type", "affinity"], "must contain only"),
        (&["create", "c", "--type", "friendship"], "must be affinity"),
        (&["create", "c", "--type", "affinity", "--level", "room"], "must be host"),
        (&["add-members", "a", "somebody"], "UUID"),
        (&["add-members", "a"], "PROJECT"),
        (&["remove-members", "a", "somebody"], "Member not found"),
        (&["show", "gone"], "Group not found"),
        (&["delete", "gone"], "Group not found"),
    ] {
        let why = group(&site, arguments).await.unwrap_err();
        assert!(why.contains(words), "{arguments:?}: {why}");
    }
}
