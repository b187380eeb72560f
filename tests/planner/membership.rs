//! Members of groups.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::groups::create;
use crate::site::{Asker, Site};

const A: &str = "b7d0e9b175294b649464caa3411adb3f";
const A_DASHED: &str = "b7d0e9b1-7529-4b64-9464-caa3411adb3f";
const B: &str = "65c3e5ee5ee0428caa5e5275c58ead61";

/// A group `g` with these members.
async fn group(admin: &Asker, members: &[&str]) -> Value {
    create(admin, "g").await;
    admin.put("/v1/groups/g/members", json!({"members": members})).await.expect(201).json()
}

async fn members(admin: &Asker) -> Value {
    admin.get("/v1/groups/g").await.expect(200).json()["group"]["members"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn r20_members_are_added_to_those_there_are() {
    let site = Site::new().await;
    let admin = site.admin();
    let updated = group(&admin, &[B]).await;
    assert_eq!(updated["members"], json!([B]));
    assert_eq!(updated["name"], "g");
    let added = json!({"members": [A_DASHED, B, A]});
    let updated = admin.put("/v1/groups/g/members", added).await.expect(201).json();
    // In the order in which they came, each as it was spelled first.
    assert_eq!(updated["members"], json!([B, A_DASHED]));
    assert_eq!(members(&admin).await, updated["members"]);
    let same = admin.put("/v1/groups/g/members", json!({"members": []})).await.expect(201);
    assert_eq!(same.json(), updated);
    let why = admin.put("/v1/groups/no/members", json!({"members": [A]})).await.explanation(404);
    assert_eq!(why, "Group not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn r20_members_that_come_at_once_are_all_added() {
    let site = Site::new().await;
    let admin = site.admin();
    create(&admin, "g").await;
    let request = (0..20_u128).map(|nth| {
        let admin = admin.clone();
        // Half of them are another spelling of the other half.
        let id = Uuid::from_u128(0xfeed + nth / 2);
        let id = if nth % 2 == 0 { id.to_string() } else { id.simple().to_string() };
        tokio::spawn(async move {
            admin.put("/v1/groups/g/members", json!({"members": [id]})).await.expect(201);
        })
    });
    for answer in request.collect::<Vec<_>>() {
        answer.await.unwrap();
    }
    assert_eq!(members(&admin).await.as_array().unwrap().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_members_are_projects() {
    let site = Site::new().await;
    let admin = site.admin();
    group(&admin, &[B]).await;
    for bad in ["test_member", "", "68f61b2-26f3-cbc1-7981-5f52c937c0cd", &format!("{{{A}}}")] {
        // One that is not is enough.
        let body = json!({"members": [A, bad]});
        let why = admin.put("/v1/groups/g/members", body).await.explanation(409);
        assert_eq!(why, "Member list contains invalid tenant IDs");
    }
    assert_eq!(members(&admin).await, json!([B]));
    for bad in [json!("x"), json!(A), json!({}), json!(null), json!(1), json!([1]), json!([null])] {
        let body = json!({"members": bad});
        let why = admin.put("/v1/groups/g/members", body).await.explanation(400);
        assert!(why.starts_with("-> members -> "), "{why}");
        assert!(why.contains("callable: array ("), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_verify_a_member() {
    let site = Site::new().await;
    let admin = site.admin();
    group(&admin, &[A]).await;
    for spelling in [A, A_DASHED, &A.to_uppercase()] {
        let path = format!("/v1/groups/g/members/{spelling}");
        assert!(admin.get(&path).await.expect(204).body.is_empty());
    }
    for missing in [B, "x", "%C3%A4"] {
        let why = admin.get(&format!("/v1/groups/g/members/{missing}")).await.explanation(404);
        assert_eq!(why, "Member not found in group");
    }
    let why = admin.get(&format!("/v1/groups/no/members/{A}")).await.explanation(404);
    assert_eq!(why, "Group not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_delete_a_member() {
    let site = Site::new().await;
    let admin = site.admin();
    group(&admin, &[A, B]).await;
    let path = format!("/v1/groups/g/members/{A_DASHED}");
    assert!(admin.delete(&path).await.expect(204).body.is_empty());
    assert_eq!(members(&admin).await, json!([B]));
    assert_eq!(admin.delete(&path).await.explanation(404), "Member not found in group");
    let why = admin.delete(&format!("/v1/groups/no/members/{A}")).await.explanation(404);
    assert_eq!(why, "Group not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn r24_delete_all_members() {
    let site = Site::new().await;
    let admin = site.admin();
    group(&admin, &[A, B]).await;
    for _ in 0..2 {
        assert!(admin.delete("/v1/groups/g/members").await.expect(204).body.is_empty());
        assert_eq!(members(&admin).await, json!([]));
    }
    assert_eq!(admin.delete("/v1/groups/no/members").await.explanation(404), "Group not found");
}

/// Puts two servers of a project into the group `g`: one with a known id of its own, and one that is not there
/// yet.
async fn servers(site: &Site, project: &str) {
    let plan = Uuid::new_v4();
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    site.execute(&format!(
        "insert into plans (id, name, stack_id, stack_key, project, user_id, document) \
             values ('{plan}', 'p', '{plan}', '{plan}', '{project}', 'u', '{{}}'); \
         insert into placements (id, plan_id, position, orchestration_id, orchestration_key, name, \
                                 resource_id, consumer) \
             values ('{first}', '{plan}', 1, 'o1', 'o1', 'a', 'r1', '{first}'), \
                    ('{second}', '{plan}', 2, 'o2', 'o2', 'b', null, '{second}'); \
         insert into placement_groups (placement_id, group_id) \
             select p.id, g.id from placements p, planner_groups g where g.name = 'g'"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r25_a_member_with_servers_stays() {
    let site = Site::new().await;
    let admin = site.admin();
    group(&admin, &[A, B]).await;
    servers(&site, A_DASHED).await;
    let expected = format!("Tenant Member {A} has servers in group \"g\": [r1, o2]");
    for path in [format!("/v1/groups/g/members/{A}"), "/v1/groups/g/members".to_owned()] {
        assert_eq!(admin.delete(&path).await.explanation(409), expected);
    }
    assert_eq!(members(&admin).await, json!([A, B]));
    admin.delete(&format!("/v1/groups/g/members/{B}")).await.expect(204);
    site.execute("delete from plans").await;
    admin.delete(&format!("/v1/groups/g/members/{A}")).await.expect(204);
    admin.delete("/v1/groups/g").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_servers_stays_even_without_members() {
    let site = Site::new().await;
    let admin = site.admin();
    group(&admin, &[]).await;
    servers(&site, A).await;
    let why = admin.delete("/v1/groups/g").await.explanation(409);
    assert_eq!(why, "Unable to delete a Group with placements: [r1, o2]");
}

/// Repeats the functional tests of the first implementation, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_from_its_beginning_to_its_end() {
    let site = Site::new().await;
    let admin = site.admin_of(A);
    admin.delete(&format!("/v1/groups/{}", Uuid::new_v4())).await.explanation(404);
    let body = json!({"name": "group_name", "type": "exclusivity", "level": "host",
                      "description": null});
    let group = admin.post("/v1/groups", body).await.expect(201).json();
    let path = format!("/v1/groups/{}", group["id"].as_str().unwrap());
    let members = format!("{path}/members");
    admin.put(&members, json!({"members": ["test_member"]})).await.explanation(409);
    admin.put(&path, json!({"description": "new_description"})).await.expect(201);
    admin.put(&members, json!({"members": [A]})).await.expect(201);
    admin.delete(&format!("{members}/test_member")).await.explanation(404);
    admin.delete(&format!("{members}/{A}")).await.expect(204);
    let more: Vec<String> = (0..4).map(|_| Uuid::new_v4().simple().to_string()).collect();
    let updated = admin.put(&members, json!({"members": more})).await.expect(201).json();
    assert_eq!((&updated["members"], &updated["level"]), (&json!(more), &json!("host")));
    admin.delete(&members).await.expect(204);
    admin.delete(&path).await.expect(204);
}

/// In either order, no server is in a group that its project has left.
#[tokio::test(flavor = "multi_thread")]
async fn r25_a_plan_and_a_member_that_leaves_do_not_pass_each_other() {
    let site = Site::new().await;
    let (admin, tenant) = (site.admin(), site.tenant(A));
    site.racks(1, 1, [64, 65536, 640]).await;
    group(&admin, &[A]).await;
    for nth in 0..20 {
        let name = format!("s{nth}");
        let resources = json!({
            "o": {"name": "n", "type": "OS::Nova::Server", "properties": {"flavor": "m1.tiny"}},
            "g": {"name": "g", "type": "ATT::Valet::GroupAssignment", "properties": {
                "group_type": "exclusivity", "level": "host", "group_name": "g",
                "resources": ["o"]}},
        });
        let plan = json!({"plan_name": name, "stack_id": name, "resources": resources});
        let member = format!("/v1/groups/g/members/{A}");
        let (planned, left) = tokio::join!(tenant.post("/v1/plans", plan), admin.delete(&member));
        let outcome = (planned.status, left.status);
        assert!([(201, 409), (409, 204)].contains(&outcome), "{outcome:?} {}", planned.text());
        if planned.status == 201 {
            tenant.delete(&format!("/v1/plans/{name}")).await.expect(204);
        } else {
            admin.put("/v1/groups/g/members", json!({"members": [A]})).await.expect(201);
        }
    }
    site.assert_consistent().await;
}
