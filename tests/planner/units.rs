//! Units that groups have to themselves, while servers come and go.

use berth::http::app::Options;
use serde_json::{Value, json};
use tokio::join;
use uuid::Uuid;

use crate::requests::{
    bound, claim, claim_on, claimable, group, resources, server, server_in, text,
};
use crate::site::Site;
use crate::truth::Known;

fn none() -> Known {
    Known::default()
}

/// The body that gives a plan these resources and no others.
fn replacement(resources: Value) -> Value {
    let mut body = json!({"action": "update", "timeout": "2 sec"});
    body["resources"] = resources;
    body
}

/// A server that joins a group makes its unit exclusive, and one that leaves does not stay in it beside the others.
#[tokio::test(flavor = "multi_thread")]
async fn servers_join_and_leave_a_group_that_has_a_host_to_itself() {
    let site = Site::new().await;
    site.racks(1, 3, [8, 65_536, 1000]).await;
    group(&site, "alone", "exclusivity", "host").await;
    let planner = site.planner();
    let with = |one: &[&str], two: &[&str]| {
        replacement(resources([("one", server_in(1, one)), ("two", server_in(1, two))]))
    };
    site.planned("stack", resources([("one", server(1)), ("two", server(1))])).await;
    site.assert_true(&none()).await;
    for (one, two) in [
        (&["alone"][..], &["alone"][..]),
        (&["alone"], &[]),
        (&[], &["alone"]),
        (&["alone"], &["alone"]),
        (&[], &[]),
    ] {
        planner.put("/v1/plans/stack", with(one, two)).await.expect(201);
        site.assert_true(&none()).await;
        let at = [site.placement_of("one").await, site.placement_of("two").await];
        assert!(one == two || at[0]["location"] != at[1]["location"], "{at:?}");
    }
    planner.delete("/v1/plans/stack").await.expect(204);
    site.assert_empty().await;
}

/// A reserved server that an update leaves out keeps its hold and its group: who leaves the group by the
/// same update, or a later one, does not stay beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaving_member_avoids_reserved_servers_that_left_the_plan() {
    let site = Site::new().await;
    site.racks(1, 2, [8, 65_536, 1000]).await;
    group(&site, "alone", "exclusivity", "host").await;
    let with = |groups: &[&str]| replacement(resources([("two", server_in(1, groups))]));
    let both = |groups| [("one", server_in(1, groups)), ("two", server_in(1, groups))];
    for at_once in [true, false] {
        site.planned("stack", resources(both(&["alone"]))).await;
        let reserved = site.placement_of("one").await;
        site.planner()
            .post(&format!("/v1/placements/{}", text(&reserved["id"])), json!({}))
            .await
            .expect(201);
        if !at_once {
            site.planner().put("/v1/plans/stack", with(&["alone"])).await.expect(201);
            let stays = site.placement_of("two").await;
            assert_eq!(stays["location"], reserved["location"]);
        }
        site.planner().put("/v1/plans/stack", with(&[])).await.expect(201);
        site.assert_true(&none()).await;
        assert_ne!(site.placement_of("two").await["location"], reserved["location"]);
        site.planner().delete("/v1/plans/stack").await.expect(204);
        site.assert_empty().await;
    }
}

/// A server that joins a diversity group does not come beside a reserved server of it that has left the
/// plan.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_member_avoids_reserved_servers_that_left_the_plan() {
    let site = Site::new().await;
    site.racks(1, 2, [8, 65_536, 1000]).await;
    group(&site, "apart", "diversity", "host").await;
    let one = ("one", server_in(1, &["apart"]));
    site.planned("stack", resources([one, ("two", server(1))])).await;
    let reserved = site.placement_of("one").await;
    site.planner()
        .post(&format!("/v1/placements/{}", text(&reserved["id"])), json!({}))
        .await
        .expect(201);
    assert_eq!(site.placement_of("two").await["location"], reserved["location"]);
    let joined = replacement(resources([("two", server_in(1, &["apart"]))]));
    site.planner().put("/v1/plans/stack", joined).await.expect(201);
    assert_ne!(site.placement_of("two").await["location"], reserved["location"]);
    site.assert_true(&none()).await;
}

/// A server that joins a diversity group leaves the host on which another plan's server of it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_joins_a_diversity_group_moves_away() {
    let site = Site::new().await;
    site.racks(1, 2, [8, 65_536, 1000]).await;
    group(&site, "apart", "diversity", "host").await;
    let mut other = server_in(1, &["apart"]);
    other["locations"] = json!(["r01h01"]);
    site.planned("first", resources([("other", other)])).await;
    let mut alone = server(1);
    alone["locations"] = json!(["r01h01"]);
    site.planned("stack", resources([("server", server(1)), ("alone", alone)])).await;
    assert_eq!(site.placement_of("server").await["location"], "r01h01");
    let joined = replacement(resources([("server", server_in(1, &["apart"]))]));
    site.planner().put("/v1/plans/stack", joined).await.expect(201);
    assert_eq!(site.placement_of("server").await["location"], "r01h02");
    site.assert_true(&none()).await;
}

/// Servers of a plan that are separated do not stay together, nor do reserved ones.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_come_to_be_apart_do_not_stay_together() {
    let site = Site::new().await;
    site.racks(1, 2, [8, 65_536, 1000]).await;
    let ids = ["one".to_owned(), "two".to_owned()];
    site.planned("stack", resources(ids.iter().map(|id| (id.as_str(), server(1))))).await;
    let apart = || {
        let group = ("group", bound("diversity", "host", &ids));
        replacement(resources([("one", server(1)), ("two", server(1)), group]))
    };
    let [one, two] = [site.placement_of("one").await, site.placement_of("two").await];
    assert_eq!(one["location"], two["location"]);
    for placement in [&one, &two] {
        site.reserves(placement, Uuid::new_v4()).await.expect(201);
    }
    site.planner().put("/v1/plans/stack", apart()).await.expect(409);
    site.assert_true(&none()).await;
    site.planner().delete("/v1/plans/stack").await.expect(204);

    site.planned("stack", resources(ids.iter().map(|id| (id.as_str(), server(1))))).await;
    site.planner().put("/v1/plans/stack", apart()).await.expect(201);
    site.assert_true(&none()).await;
}

/// A handed over server keeps the stranger out as its hold did.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_keeps_the_unit_of_its_group() {
    let site = Site::new().await;
    let hosts = site.racks(1, 1, [8, 65_536, 1000]).await;
    group(&site, "alone", "exclusivity", "host").await;
    site.planned("stack", resources([("server", server_in(1, &["alone"]))])).await;
    let placement = site.placement_of("server").await;
    let held = site.held_by(text(&placement["id"])).await;
    let instance = Uuid::new_v4();
    site.claims(Uuid::new_v4(), claim_on(hosts[0], 1)).await.expect(409);
    site.reserves(&placement, instance).await.expect(201);
    site.claims(Uuid::new_v4(), claim_on(hosts[0], 1)).await.expect(409);
    site.claims(instance, claim(claimable(&held), None)).await.expect(204);
    site.claims(Uuid::new_v4(), claim_on(hosts[0], 1)).await.expect(409);
    site.assert_true(&none()).await;
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    site.claims(Uuid::new_v4(), claim_on(hosts[0], 1)).await.expect(204);
}

/// A rack is exclusive to a group whose two servers end at once, at two replicas: then it is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_unit_is_free_when_all_have_left_at_once() {
    let site = Site::new().await;
    site.racks(2, 2, [2, 65_536, 1000]).await;
    let other = Site::over(&site.database, Options::default()).await;
    group(&site, "rack", "exclusivity", "rack").await;
    for round in 0..10 {
        let mut instances = Vec::new();
        let stack = format!("stack-{round}");
        let ids = [format!("one-{round}"), format!("two-{round}")];
        let servers = ids.iter().map(|id| (id.as_str(), server_in(2, &["rack"])));
        site.planned(&stack, resources(servers)).await;
        for id in &ids {
            let placement = site.placement_of(id).await;
            let held = site.held_by(text(&placement["id"])).await;
            let instance = Uuid::new_v4();
            site.reserves(&placement, instance).await.expect(201);
            site.claims(instance, claim(claimable(&held), None)).await.expect(204);
            instances.push(format!("/allocations/{instance}"));
        }
        site.assert_true(&none()).await;
        let (one, two) = (site.placement(), other.placement());
        let (one, two) = join!(one.delete(&instances[0]), two.delete(&instances[1]));
        one.expect(204);
        two.expect(204);
        site.assert_empty().await;
        site.planner().delete(&format!("/v1/plans/{stack}")).await.expect(204);
    }
}

/// The last server of a group leaves while a plan brings the next one: the unit stays exclusive.
#[tokio::test(flavor = "multi_thread")]
async fn a_unit_stays_kept_when_one_comes_while_the_last_leaves() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 65_536, 1000]).await;
    let other = Site::over(&site.database, Options::default()).await;
    group(&site, "rack", "exclusivity", "rack").await;
    for round in 0..10 {
        let (first, second) = (format!("first-{round}"), format!("second-{round}"));
        let member = |host| {
            let mut server = server_in(1, &["rack"]);
            server["locations"] = json!([host]);
            server
        };
        site.planned(&first, resources([(first.as_str(), member("r01h01"))])).await;
        let hold = text(&site.placement_of(&first).await["id"]).to_owned();
        let known = Known { dropped: [hold.parse().unwrap()].into(), ..Known::default() };
        let path = format!("/allocations/{hold}");
        let placement = other.placement();
        let (deletion, creation) = join!(
            placement.delete(&path),
            site.planned(&second, resources([(second.as_str(), member("r01h02"))]))
        );
        deletion.expect(204);
        assert_eq!(creation["placements"][&second]["location"], "r01h02");
        site.assert_true(&known).await;
        for stack in [first, second] {
            site.planner().delete(&format!("/v1/plans/{stack}")).await.expect(204);
        }
        site.assert_empty().await;
    }
}

/// A server that gives up its exclusive host need not leave it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_leaves_its_group_may_stay_where_it_is() {
    let site = Site::new().await;
    let hosts = site.racks(1, 1, [8, 65_536, 1000]).await;
    group(&site, "alone", "exclusivity", "host").await;
    let servers =
        |groups: &[&str]| resources([("one", server_in(1, groups)), ("two", server_in(1, groups))]);
    site.planned("stack", servers(&["alone"])).await;
    site.claims(Uuid::new_v4(), claim_on(hosts[0], 1)).await.expect(409);
    site.planner().put("/v1/plans/stack", replacement(servers(&[]))).await.expect(201);
    site.claims(Uuid::new_v4(), claim_on(hosts[0], 1)).await.expect(204);
    site.assert_true(&none()).await;
}
