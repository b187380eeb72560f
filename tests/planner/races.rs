//! Pairs of concurrent requests: in either order, the outcome is consistent.

use std::time::{Duration, Instant};

use berth::http::app::Options;
use serde_json::{Value, json};
use tokio::join;
use uuid::Uuid;

use crate::requests::{
    PROJECT, claim, claim_on, claimable, group, plan, resources, server, server_in, text,
};
use crate::site::Site;
use crate::truth::Known;

/// Number of runs of each race.
const ROUNDS: usize = 12;

fn none() -> Known {
    Known::default()
}

/// Returns a server with these `VCPU` in these groups that must be on one of these hosts.
fn pinned(vcpu: i64, groups: &[&str], hosts: &[&str]) -> Value {
    let mut server = server_in(vcpu, groups);
    server["locations"] = json!(hosts);
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_of_one_stack_make_one_plan() {
    let site = Site::new().await;
    site.racks(1, 4, [64, 65_536, 1000]).await;
    let other = Site::over(&site.database, Options::default()).await;
    for round in 0..ROUNDS {
        let (stack, id) = (format!("stack-{round}"), format!("server-{round}"));
        let create = |site: &Site| {
            let body = plan(&stack, resources([(id.as_str(), server(1))]));
            let planner = site.planner();
            async move { planner.post("/v1/plans", body).await.expect(201).json() }
        };
        let (one, two, three, four) =
            join!(create(&site), create(&other), create(&site), create(&other));
        assert!([&two, &three, &four].iter().all(|it| **it == one), "{one} {two} {three} {four}");
    }
    let plans = site.admin().get("/v1/plans").await.expect(200).json();
    assert_eq!(plans.as_array().unwrap().len(), ROUNDS);
    site.assert_true(&none()).await;
}

/// Checks that the instance has the capacity of its hold, and nothing else is held.
async fn assert_handed_over(site: &Site, before: &Value, held: &Value, instance: Uuid) {
    let after = site.placement_of(text(&before["id"])).await;
    assert_eq!(after["reserved"], true);
    assert_eq!(after["location"], before["location"]);
    assert_eq!(claimable(&site.held_by(instance).await), claimable(held));
    assert_eq!(site.held_by(text(&before["id"])).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_and_the_arrival_count_once() {
    let site = Site::new().await;
    site.racks(1, 2, [64, 65_536, 1000]).await;
    let other = Site::over(&site.database, Options::default()).await;
    for round in 0..ROUNDS {
        let id = format!("server-{round}");
        site.planned(&format!("stack-{round}"), resources([(id.as_str(), server(2))])).await;
        let placement = site.placement_of(&id).await;
        let held = site.held_by(text(&placement["id"])).await;
        let instance = Uuid::new_v4();
        let (reserved, arrived) = join!(
            site.reserves(&placement, instance),
            other.claims(instance, claim(claimable(&held), None))
        );
        reserved.expect(201);
        arrived.expect(204);
        assert_handed_over(&site, &placement, &held, instance).await;
    }
    site.assert_true(&none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_plan_leaves_nothing_but_its_instances() {
    let site = Site::new().await;
    site.racks(1, 2, [64, 65_536, 1000]).await;
    let other = Site::over(&site.database, Options::default()).await;
    let mut instances = Vec::new();
    for round in 0..ROUNDS * 3 {
        let (stack, id) = (format!("stack-{round}"), format!("server-{round}"));
        site.planned(&stack, resources([(id.as_str(), server(2))])).await;
        let placement = site.placement_of(&id).await;
        let held = site.held_by(text(&placement["id"])).await;
        let instance = Uuid::new_v4();
        let path = format!("/v1/plans/{stack}");
        let planner = site.planner();
        let deletion = planner.delete(&path);
        let (deleted, second) = match round % 3 {
            0 => join!(deletion, other.reserves(&placement, instance)),
            1 => {
                site.reserves(&placement, instance).await.expect(201);
                instances.push(instance);
                join!(deletion, other.claims(instance, claim(claimable(&held), None)))
            }
            _ => {
                let body = json!({"plan_name": stack, "stack_id": stack, "resources": {},
                                  "resources_update": resources([("another", server(1))])});
                let planner = other.planner();
                join!(deletion, async { planner.put(&path, body).await })
            }
        };
        deleted.expect(204);
        let status = second.status;
        let allowed: &[u16] = if round % 3 == 1 { &[204] } else { &[201, 404, 409] };
        assert!(allowed.contains(&status), "{}", second.text());
        planner.get(&format!("/v1/plans/{stack}")).await.expect(404);
        assert_eq!(site.held_by(text(&placement["id"])).await, json!({}));
        assert_eq!(
            site.held_by(instance).await.as_object().unwrap().len(),
            usize::from(round % 3 == 1)
        );
    }
    site.assert_true(&none()).await;
    for instance in instances {
        site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    }
    site.assert_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_and_a_plan_that_wants_the_host_alone_do_not_both_come() {
    let site = Site::new().await;
    let hosts = site.racks(1, 2, [64, 65_536, 1000]).await;
    let other = Site::over(&site.database, Options::default()).await;
    group(&site, "alone", "exclusivity", "host").await;
    for round in 0..ROUNDS * 2 {
        let (stack, id) = (format!("stack-{round}"), format!("server-{round}"));
        let wanted = resources([(id.as_str(), pinned(1, &["alone"], &["r01h01"]))]);
        let (planner, stranger) = (site.planner(), Uuid::new_v4());
        let (created, claimed) = join!(
            planner.post("/v1/plans", plan(&stack, wanted)),
            other.claims(stranger, claim_on(hosts[0], 1))
        );
        let outcome = (created.status, claimed.status);
        assert!([(201, 409), (409, 204)].contains(&outcome), "{outcome:?} {}", created.text());
        site.assert_true(&none()).await;
        planner.delete(&format!("/v1/plans/{stack}")).await;
        site.placement().delete(&format!("/allocations/{stranger}")).await;
        site.assert_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_a_diversity_group_are_on_different_hosts() {
    let site = Site::new().await;
    site.racks(2, 2, [64, 65_536, 1000]).await;
    let other = Site::over(&site.database, Options::default()).await;
    group(&site, "apart", "diversity", "host").await;
    for round in 0..ROUNDS {
        let create = |site: &Site, nth: usize| {
            let (planner, id) = (site.planner(), format!("server-{nth}"));
            let body = plan(&id, resources([(id.as_str(), server_in(1, &["apart"]))]));
            async move { planner.post("/v1/plans", body).await.status }
        };
        // One more than there are hosts.
        let nth = 5 * round;
        let (one, two, three, four, five) = join!(
            create(&site, nth),
            create(&other, nth + 1),
            create(&site, nth + 2),
            create(&other, nth + 3),
            create(&site, nth + 4)
        );
        let mut outcome = [one, two, three, four, five];
        outcome.sort_unstable();
        assert_eq!(outcome, [201, 201, 201, 201, 409]);
        site.assert_true(&none()).await;
        for nth in nth..nth + 5 {
            site.planner().delete(&format!("/v1/plans/server-{nth}")).await;
        }
        site.assert_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_not_deleted_under_a_plan() {
    let site = Site::new().await;
    site.racks(1, 4, [64, 65_536, 1000]).await;
    for round in 0..ROUNDS {
        let (stack, id) = (format!("stack-{round}"), format!("server-{round}"));
        let name = format!("apart-{round}");
        group(&site, &name, "diversity", "host").await;
        let body = plan(&stack, resources([(id.as_str(), server_in(1, &[&name]))]));
        let (planner, path) = (site.planner(), format!("/v1/groups/{name}"));
        let began = Instant::now();
        let (created, deleted) = join!(planner.post("/v1/plans", body), planner.delete(&path));
        let outcome = (created.status, deleted.status);
        assert!([(201, 409), (409, 204)].contains(&outcome), "{outcome:?} {}", created.text());
        if created.status == 409 {
            // The group is looked up again, and its absence is the reason.
            assert_eq!(created.explanation(409), format!("Valet error: Group '{name}' not found"));
            // The two seconds of the plan are ten on the site's watch.
            assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        }
    }
    site.assert_true(&none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_does_not_leave_a_group_under_its_plan() {
    let site = Site::new().await;
    site.racks(3, 4, [64, 65_536, 1000]).await;
    for round in 0..ROUNDS {
        let (stack, id) = (format!("stack-{round}"), format!("server-{round}"));
        let name = format!("alone-{round}");
        group(&site, &name, "exclusivity", "host").await;
        let body = plan(&stack, resources([(id.as_str(), server_in(1, &[&name]))]));
        let (planner, path) = (site.planner(), format!("/v1/groups/{name}/members/{PROJECT}"));
        let (created, left) = join!(planner.post("/v1/plans", body), planner.delete(&path));
        let outcome = (created.status, left.status);
        assert!([(201, 409), (409, 204)].contains(&outcome), "{outcome:?} {}", created.text());
        planner.delete(&format!("/v1/plans/{stack}")).await;
    }
    site.assert_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_takes_over_a_host_that_its_hold_has_filled() {
    let site = Site::new().await;
    let hosts = site.racks(1, 1, [8, 4096, 40]).await;
    let other = Site::over(&site.database, Options::default()).await;
    for round in 0..ROUNDS {
        let (stack, id) = (format!("stack-{round}"), format!("server-{round}"));
        site.planned(&stack, resources([(id.as_str(), server(8))])).await;
        let placement = site.placement_of(&id).await;
        let held = site.held_by(text(&placement["id"])).await;
        let (instance, stranger) = (Uuid::new_v4(), Uuid::new_v4());
        site.reserves(&placement, instance).await.expect(201);
        let (arrived, refused) = join!(
            site.claims(instance, claim(claimable(&held), None)),
            other.claims(stranger, claim_on(hosts[0], 8))
        );
        arrived.expect(204);
        refused.expect(409);
        assert_handed_over(&site, &placement, &held, instance).await;
        site.assert_true(&none()).await;
        site.planner().delete(&format!("/v1/plans/{stack}")).await.expect(204);
        site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    }
    site.assert_empty().await;
}
