//! Groups.

use std::collections::HashSet;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Asker, Site};

/// Makes a group of the kind there is without a level.
pub async fn create(admin: &Asker, name: &str) -> Value {
    let body = json!({"name": name, "type": "exclusivity"});
    admin.post("/v1/groups", body).await.expect(201).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn r09_create_a_group() {
    let site = Site::new().await;
    let body = json!({"name": "group", "description": "My Awesome Group", "type": "exclusivity"});
    let mut group = site.admin().post("/v1/groups", body).await.expect(201).json();
    let id = group["id"].take();
    assert!(Uuid::parse_str(id.as_str().unwrap()).is_ok_and(|id| id.get_version_num() == 4));
    let expected = json!({
        "description": "My Awesome Group",
        "type": "exclusivity",
        "id": null,
        "members": [],
        "name": "group",
    });
    assert_eq!(group, expected);
    for body in [
        json!({"name": "other", "type": "exclusivity"}),
        json!({"name": "third", "type": "exclusivity", "description": null}),
    ] {
        let group = site.admin().post("/v1/groups", body).await.expect(201).json();
        assert_eq!(group.get("description"), Some(&Value::Null));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_names_are_of_unreserved_characters() {
    let site = Site::new().await;
    let admin = site.admin();
    let long = "x".repeat(255);
    for name in ["a", "A-b_c.d~9", "...", long.as_str()] {
        create(&admin, name).await;
    }
    for bad in [
        json!(""),
        json!("gro up"),
        json!("a/b"),
        json!("ä"),
        json!("a\n"),
        json!("x".repeat(256)),
        json!(1),
        json!(null),
        json!(["a"]),
    ] {
        let body = json!({"name": bad, "type": "exclusivity"});
        let why = admin.post("/v1/groups", body).await.explanation(400);
        assert!(why.contains("callable: group_name_type ("), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r11_types_that_there_are() {
    let site = Site::new().await;
    let admin = site.admin();
    for bad in [json!("affinity"), json!("diversity"), json!("x"), json!(""), json!(1), json!(null)]
    {
        let body = json!({"name": "a", "type": bad});
        let why = admin.post("/v1/groups", body).await.explanation(400);
        assert!(why.contains("callable: group_type ("), "{why}");
    }
    for kind in ["affinity", "diversity", "exclusivity"] {
        let body = json!({"name": kind, "type": kind, "level": "host"});
        let group = admin.post("/v1/groups", body).await.expect(201).json();
        assert_eq!(group["type"], kind);
    }
    let body = json!({"name": "a", "type": "x", "level": "host"});
    admin.post("/v1/groups", body).await.explanation(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn r12_name_and_type_stay() {
    let site = Site::new().await;
    let admin = site.admin();
    let group = create(&admin, "g").await;
    let path = format!("/v1/groups/{}", group["id"].as_str().unwrap());
    for (body, why) in [
        (json!({"name": "h"}), "unexpected extra items"),
        (json!({"description": "d", "name": "h"}), "unexpected extra items"),
        (json!({"description": "d", "type": "affinity"}), "unexpected extra items"),
        (json!({"description": "d", "members": []}), "unexpected extra items"),
        (json!({"description": "d", "level": "rack"}), "unexpected extra items"),
        (json!({}), "-> top level has no data to validate against schema"),
    ] {
        let output = admin.put(&path, body).await.explanation(400);
        assert!(output.contains(why), "{output}");
    }
    assert_eq!(admin.get(&path).await.expect(200).json()["group"], group);
}

#[tokio::test(flavor = "multi_thread")]
async fn r13_names_are_unique() {
    let site = Site::new().await;
    let admin = site.admin();
    create(&admin, "g").await;
    let body = json!({"name": "g", "type": "exclusivity"});
    let why = admin.post("/v1/groups", body).await.explanation(400);
    assert_eq!(why, "A group named g already exists");
    create(&admin, "G").await;
    // Once it is gone, the name is free.
    admin.delete("/v1/groups/g").await.expect(204);
    create(&admin, "g").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r13_names_are_unique_among_concurrent_requests() {
    let site = Site::new().await;
    let admin = site.admin();
    let request = (0..20).map(|_| {
        let admin = admin.clone();
        let body = json!({"name": "g", "type": "exclusivity"});
        tokio::spawn(async move { admin.post("/v1/groups", body).await })
    });
    let mut statuses = Vec::new();
    for answer in request.collect::<Vec<_>>() {
        let answer = answer.await.unwrap();
        if answer.status != 201 {
            assert_eq!(answer.explanation(400), "A group named g already exists");
        }
        statuses.push(answer.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    let groups = admin.get("/v1/groups").await.expect(200).json()["groups"].clone();
    assert_eq!(groups.as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_levels() {
    let site = Site::new().await;
    let admin = site.admin();
    assert_eq!(create(&admin, "g").await.get("level"), None);
    for level in ["host", "rack", "cluster"] {
        let body = json!({"name": level, "type": "affinity", "level": level});
        let group = admin.post("/v1/groups", body).await.expect(201).json();
        assert_eq!(group["level"], level);
        let shown = admin.get(&format!("/v1/groups/{level}")).await.expect(200).json();
        assert_eq!(shown["group"], group);
    }
    for bad in [json!("any"), json!(""), json!(1), json!(null), json!([])] {
        let body = json!({"name": "h", "type": "exclusivity", "level": bad});
        let why = admin.post("/v1/groups", body).await.explanation(400);
        assert!(why.contains("callable: group_level ("), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_list_groups() {
    let site = Site::new().await;
    let admin = site.admin();
    assert_eq!(admin.get("/v1/groups").await.expect(200).json(), json!({"groups": []}));
    let mut groups = Vec::new();
    for name in ["c", "a", "b"] {
        groups.push(create(&admin, name).await);
    }
    assert_eq!(admin.get("/v1/groups").await.expect(200).json(), json!({"groups": groups}));
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_show_a_group() {
    let site = Site::new().await;
    let admin = site.admin();
    let group = create(&admin, "g").await;
    let id = group["id"].as_str().unwrap();
    for id in [id.to_owned(), id.to_uppercase(), id.replace('-', "")] {
        let shown = admin.get(&format!("/v1/groups/{id}")).await.expect(200).json();
        assert_eq!(shown, json!({"group": group}), "{id}");
    }
    for missing in [Uuid::new_v4().to_string(), "no".to_owned(), "%C3%A4".to_owned()] {
        let why = admin.get(&format!("/v1/groups/{missing}")).await.explanation(404);
        assert_eq!(why, "Group not found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_show_by_name() {
    let site = Site::new().await;
    let admin = site.admin();
    let group = create(&admin, "g.1~x").await;
    for name in ["g.1~x", "g%2E1%7Ex"] {
        let shown = admin.get(&format!("/v1/groups/{name}")).await.expect(200).json();
        assert_eq!(shown, json!({"group": group}));
    }
    // An id comes before a name that looks like it.
    let id = group["id"].as_str().unwrap();
    create(&admin, id).await;
    let shown = admin.get(&format!("/v1/groups/{id}")).await.expect(200).json();
    assert_eq!(shown["group"], group);
    admin.delete(&format!("/v1/groups/{id}")).await.expect(204);
    let shown = admin.get(&format!("/v1/groups/{id}")).await.expect(200).json();
    assert_eq!(shown["group"]["name"], id);
}

#[tokio::test(flavor = "multi_thread")]
async fn r18_update_a_description() {
    let site = Site::new().await;
    let admin = site.admin();
    let mut group = create(&admin, "g").await;
    for (key, description) in [
        (group["id"].as_str().unwrap().to_owned(), json!("My Extra Awesome Group")),
        ("g".to_owned(), json!("")),
        ("g".to_owned(), json!(null)),
        ("g".to_owned(), json!("ä".repeat(65_535))),
    ] {
        group["description"] = description.clone();
        let path = format!("/v1/groups/{key}");
        let updated = admin.put(&path, json!({"description": description})).await.expect(201);
        assert_eq!(updated.json(), group);
        assert_eq!(admin.get(&path).await.expect(200).json()["group"], group);
    }
    let long = json!({"description": "ä".repeat(65_536)});
    admin.put("/v1/groups/g", long).await.explanation(400);
    let why = admin.put("/v1/groups/no", json!({"description": "d"})).await.explanation(404);
    assert_eq!(why, "Group not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_delete_a_group() {
    let site = Site::new().await;
    let admin = site.admin();
    let group = create(&admin, "g").await;
    let path = format!("/v1/groups/{}", group["id"].as_str().unwrap());
    let members = format!("{path}/members");
    admin.put(&members, json!({"members": [Uuid::new_v4()]})).await.expect(201);
    let why = admin.delete(&path).await.explanation(409);
    assert_eq!(why, "Unable to delete a Group with members.");
    admin.delete(&members).await.expect(204);
    let gone = admin.delete(&path).await.expect(204);
    assert!(gone.body.is_empty() && gone.headers.get("content-type").is_none());
    assert_eq!(admin.delete(&path).await.explanation(404), "Group not found");
    assert_eq!(admin.get("/v1/groups").await.expect(200).json(), json!({"groups": []}));
}

/// In either order, a member is never added to a deleted group, and a group with members is never deleted.
#[tokio::test(flavor = "multi_thread")]
async fn r19_a_deletion_and_a_new_member_do_not_pass_each_other() {
    let site = Site::new().await;
    let admin = site.admin();
    let mut outcomes = HashSet::new();
    for nth in 0..20 {
        let name = format!("g{nth}");
        create(&admin, &name).await;
        let (path, members) = (format!("/v1/groups/{name}"), format!("/v1/groups/{name}/members"));
        let body = json!({"members": [Uuid::new_v4()]});
        let (deleted, added) = tokio::join!(admin.delete(&path), admin.put(&members, body));
        let outcome = (deleted.status, added.status);
        assert!([(204, 404), (409, 201)].contains(&outcome), "{outcome:?}");
        let left = admin.get(&path).await.status;
        assert_eq!(left, if deleted.status == 204 { 404 } else { 200 });
        outcomes.insert(outcome);
    }
    assert!(!outcomes.is_empty());
}
