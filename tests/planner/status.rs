//! The status of the planner.

use serde_json::json;

use crate::site::{Host, Site};

#[tokio::test(flavor = "multi_thread")]
async fn r26_head_of_the_status() {
    let site = Site::new().await;
    let answer = site.tenant("p").ask("HEAD", "/v1/status", None).await.expect(204);
    assert!(answer.body.is_empty());
    site.execute("alter table placements rename to elsewhere").await;
    let answer = site.tenant("p").ask("HEAD", "/v1/status", None).await.expect(500);
    assert!(answer.body.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn r27_status_of_each_subsystem() {
    let site = Site::new().await;
    let tenant = site.tenant("p");
    site.hosts(&[Host { name: "h", size: [1, 1, 1], traits: &["CUSTOM_RACK_R01"] }]).await;
    let well = json!({"type": "ok", "message": "ping"});
    let expected = json!({"status": {
        "ostro": {
            "status": well,
            "resources": {"plans": 0, "placements": 0, "expired_holds": 0},
        },
        "placement": {"status": well, "resources": {"resource_providers": 1}},
    }});
    assert_eq!(tenant.get("/v1/status").await.expect(200).json(), expected);
    site.execute(
        "insert into plans (id, name, stack_id, stack_key, project, user_id, document) \
             values (gen_random_uuid(), 'p', 's', 's', 'p', 'u', '{}'); \
         insert into placements (id, plan_id, position, orchestration_id, orchestration_key, name, \
                                 consumer, expired_at) \
             select gen_random_uuid(), plans.id, nth, nth::text, nth::text, 'a', gen_random_uuid(), \
                    case when nth > 1 then now() end from plans, generate_series(1, 3) nth",
    )
    .await;
    let kept = tenant.get("/v1/status").await.expect(200).json()["status"]["ostro"].clone();
    let expected = json!({"plans": 1, "placements": 3, "expired_holds": 2});
    assert_eq!(kept["resources"], expected);
    // The failed part is named, without the reason.
    site.execute("alter table placements rename to elsewhere").await;
    let why = tenant.get("/v1/status").await.explanation(500);
    assert_eq!(why, "The subsystem ostro does not answer.");
}
