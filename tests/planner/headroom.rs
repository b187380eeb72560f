//! Capacity that plans leave free.

use berth::http::app::Options;
use serde_json::json;
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{arrive, create, finish, host, plan, reserve, server, usages, vcpus, with};

async fn site(shares: &[&str]) -> Site {
    let headroom = shares.iter().map(|share| share.parse().unwrap()).collect();
    Site::with(Options { headroom, ..Options::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn r72_plans_leave_a_share_free() {
    let site = site(&["VCPU=25", "MEMORY_MB=10"]).await;
    let ids = site.racks(1, 2, [8, 100, 99]).await;
    let before = usages(&site).await;
    let tenant = site.tenant("p");
    let made = create(&tenant, "s", json!({"a": server("a", 6), "b": server("b", 6)})).await;
    assert_ne!(host(&made, "a"), host(&made, "b"));
    // Six of eight are all that plans may have of a host.
    for resources in [
        json!({"a": server("a", 1)}),
        json!({"a": with(server("a", 1), "resources", json!({"MEMORY_MB": 91}))}),
    ] {
        tenant.post("/v1/plans", plan("t", resources)).await.explanation(409);
    }
    let most = json!({"a": with(server("a", 1), "resources", json!({"MEMORY_MB": 90}))});
    create(&tenant, "t", most).await;
    // Claims may have the rest, and then a plan has no more than before.
    let instance = Uuid::new_v4();
    arrive(&site, instance, ids[0], 2).await;
    assert_eq!(vcpus(&site).await["r01h01"], 8);
    tenant.post("/v1/plans", plan("u", json!({"a": server("a", 1)}))).await.explanation(409);
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r72_a_server_stays_where_it_is_without_head_room() {
    let before_option = site(&[]).await;
    before_option.racks(1, 2, [8, 100, 99]).await;
    let tenant = before_option.tenant("p");
    let made = create(&tenant, "s", json!({"a": server("a", 8)})).await;
    let headroom = vec!["VCPU=50".parse().unwrap()];
    let options = Options { headroom, ..Options::default() };
    let after = Site::over(&before_option.database, options).await;
    let tenant = after.tenant("p");
    // An existing plan stays, can be reserved, and changes beside it are made.
    let there = host(&made, "a");
    assert_eq!(reserve(&tenant, "a", &[&there]).await["location"], json!(there));
    let update =
        json!({"action": "update", "resources": {"a": server("a", 8), "b": server("b", 4)}});
    let updated = tenant.put("/v1/plans/s", update).await.expect(201).json();
    assert_eq!(host(&updated, "a"), there);
    assert_ne!(host(&updated, "b"), there);
    tenant.post("/v1/plans", plan("t", json!({"a": server("a", 1)}))).await.explanation(409);
}
