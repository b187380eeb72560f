//! Exclusive units of groups, for as long as instances of theirs run there, even if no plan has these instances any
//! more.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::requests::{
    claim, claim_on, claimable, group, plan, resources, server, server_in, text,
};
use crate::site::Site;

/// The way in which an instance loses its placement.
#[derive(Clone, Copy, Debug)]
enum Leave {
    DeletePlan,
    UpdatePlan,
    DeletePlacement,
}

/// Plans one server of the group on the host, and has its instance arrive. The plan has another server, too.
async fn settle(site: &Site, stack: &str, host: &str, groups: &[&str]) -> Uuid {
    let id = format!("{stack}-server");
    let other = format!("{stack}-other");
    let mut member = server_in(1, groups);
    member["locations"] = json!([host]);
    let servers = [(id.as_str(), member), (other.as_str(), server_in(1, &[]))];
    site.planned(stack, resources(servers)).await;
    let placement = site.placement_of(&id).await;
    let held = site.held_by(text(&placement["id"])).await;
    let instance = Uuid::new_v4();
    site.reserves(&placement, instance).await.expect(201);
    site.claims(instance, claim(claimable(&held), None)).await.expect(204);
    instance
}

/// Removes the placement of the instance. The instance keeps its allocations.
async fn leave(site: &Site, stack: &str, how: Leave) {
    let other = format!("{stack}-other");
    let path = format!("/v1/plans/{stack}");
    match how {
        Leave::DeletePlan => site.planner().delete(&path).await.expect(204),
        Leave::UpdatePlan => {
            let body = replacement(resources([(other.as_str(), server_in(1, &[]))]));
            site.planner().put(&path, body).await.expect(201)
        }
        Leave::DeletePlacement => {
            let path = format!("/v1/placements/{stack}-server");
            site.planner().delete(&path).await.expect(204)
        }
    };
}

/// The body that gives a plan these resources and no others.
fn replacement(resources: Value) -> Value {
    let mut body = json!({"action": "update", "timeout": "2 sec"});
    body["resources"] = resources;
    body
}

/// The instance gives up all its allocations.
async fn gone(site: &Site, instance: Uuid) {
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
}

/// A stranger claims on a host, and gives up again what it got.
async fn stranger(site: &Site, host: Uuid, status: u16) {
    let stranger = Uuid::new_v4();
    let answer = site.claims(stranger, claim_on(host, 1)).await.expect(status);
    if status == 204 {
        gone(site, stranger).await;
    } else {
        assert!(answer.text().contains("is kept for the exclusivity group"), "{}", answer.text());
    }
}

/// A host, a rack or a cluster stays reserved for an instance without a placement, until its last allocation ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_unit_is_kept_for_a_running_instance_whose_plan_is_gone() {
    let site = Site::new().await;
    // Three racks of two hosts; the first two hosts of each are one cluster.
    let hosts = site.racks(3, 2, [8, 65_536, 1000]).await;
    let placement = site.placement();
    placement.put("/traits/CUSTOM_CLUSTER_C1", json!({})).await.expect(201);
    for host in &hosts[..2] {
        let path = format!("/resource_providers/{host}/traits");
        let mut body = placement.get(&path).await.expect(200).json();
        body["traits"].as_array_mut().unwrap().push(json!("CUSTOM_CLUSTER_C1"));
        placement.put(&path, body).await.expect(200);
    }
    for level in ["host", "rack", "cluster"] {
        group(&site, level, "exclusivity", level).await;
        // The hosts that are in the unit, of the first two, which are in the same rack and cluster.
        let kept = if level == "host" { &hosts[..1] } else { &hosts[..2] };
        for how in [Leave::DeletePlan, Leave::UpdatePlan, Leave::DeletePlacement] {
            let stack = format!("{level}-{how:?}");
            let instance = settle(&site, &stack, "r01h01", &[level]).await;
            leave(&site, &stack, how).await;
            for host in kept {
                stranger(&site, *host, 409).await;
            }
            // The instance is as welcome as before: it may be resized.
            let held = site.held_by(instance).await;
            let mut resized = claimable(&held);
            resized[hosts[0].to_string()]["resources"]["VCPU"] = json!(2);
            site.claims(instance, claim(resized, Some(1))).await.expect(204);
            stranger(&site, kept[kept.len() - 1], 409).await;
            gone(&site, instance).await;
            for host in kept {
                stranger(&site, *host, 204).await;
            }
            if !matches!(how, Leave::DeletePlan) {
                site.planner().delete(&format!("/v1/plans/{stack}")).await.expect(204);
            }
            site.assert_empty().await;
        }
    }
}

/// An instance without a placement leaves the unit by going to another host: then the unit is free, unless a
/// placement of the same group is still there.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_the_tenants_frees_the_unit() {
    let site = Site::new().await;
    let hosts = site.racks(1, 2, [8, 65_536, 1000]).await;
    group(&site, "alone", "exclusivity", "host").await;
    let first = settle(&site, "first", "r01h01", &["alone"]).await;
    let second = settle(&site, "second", "r01h01", &["alone"]).await;
    leave(&site, "first", Leave::DeletePlan).await;
    leave(&site, "second", Leave::UpdatePlan).await;
    gone(&site, first).await;
    stranger(&site, hosts[0], 409).await;
    // A further server of the group finds its host, and no other server does.
    let third = settle(&site, "third", "r01h01", &["alone"]).await;
    let mut other = server(1);
    other["locations"] = json!(["r01h01"]);
    let body = plan("strange", resources([("strange", other)]));
    site.planner().post("/v1/plans", body).await.expect(409);
    gone(&site, third).await;
    stranger(&site, hosts[0], 409).await;
    // The instance moves.
    let moved = claim_on(hosts[1], 1)["allocations"].clone();
    site.claims(second, claim(moved, Some(1))).await.expect(204);
    stranger(&site, hosts[0], 204).await;
    stranger(&site, hosts[1], 204).await;
    gone(&site, second).await;
    for stack in ["second", "third"] {
        site.planner().delete(&format!("/v1/plans/{stack}")).await.expect(204);
    }
    site.assert_empty().await;
}

/// A plan without the group that has the instance next does not end what the group has.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_without_the_group_that_has_the_instance_next_leaves_the_unit_kept() {
    let site = Site::new().await;
    let hosts = site.racks(1, 2, [8, 65_536, 1000]).await;
    group(&site, "alone", "exclusivity", "host").await;
    let instance = settle(&site, "first", "r01h01", &["alone"]).await;
    leave(&site, "first", Leave::DeletePlan).await;
    let mut next = server(1);
    next["locations"] = json!(["r01h02"]);
    site.planned("second", resources([("second", next)])).await;
    site.reserves(&site.placement_of("second").await, instance).await.expect(201);
    // It stays where it is, and the hold on the other host ends.
    let allocations = claimable(&site.held_by(instance).await);
    site.claims(instance, claim(allocations, Some(1))).await.expect(204);
    stranger(&site, hosts[1], 204).await;
    stranger(&site, hosts[0], 409).await;
    gone(&site, instance).await;
    stranger(&site, hosts[0], 204).await;
    site.planner().delete("/v1/plans/second").await.expect(204);
    site.assert_empty().await;
}

/// Where strangers are only reported, the unit is kept as long, and the report says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_unit_is_kept_as_long_where_strangers_are_only_reported() {
    let site = Site::reporting().await;
    let hosts = site.racks(1, 2, [8, 65_536, 1000]).await;
    group(&site, "alone", "exclusivity", "host").await;
    let instance = settle(&site, "stack", "r01h01", &["alone"]).await;
    leave(&site, "stack", Leave::DeletePlan).await;
    let stranger = Uuid::new_v4();
    site.claims(stranger, claim_on(hosts[0], 1)).await.expect(204);
    let kept = "select count(*) from exclusive_units";
    let units = || async {
        sqlx::query_scalar::<_, i64>(kept).fetch_one(&mut site.session().await).await.unwrap()
    };
    assert_eq!(units().await, 1);
    gone(&site, instance).await;
    assert_eq!(units().await, 0);
    gone(&site, stranger).await;
    site.assert_empty().await;
}
