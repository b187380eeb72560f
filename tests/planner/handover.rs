//! From a hold to an instance: one transaction, and nothing counts twice or gets lost on the way.

use serde_json::{Value, json};
use sqlx::Connection;
use tokio::join;
use uuid::Uuid;

use crate::crowd::Crowd;
use crate::requests::{claim, claim_on, claimable, resources, server, text};
use crate::site::Site;
use crate::support::cluster::until;
use crate::truth::Known;

fn none() -> Known {
    Known::default()
}

/// A server that has to be on this host.
fn pinned(vcpu: i64, host: &str) -> Value {
    let mut server = server(vcpu);
    server["locations"] = json!([host]);
    server
}

/// The generation of a consumer.
async fn generation(site: &Site, consumer: Uuid) -> Option<i64> {
    let path = format!("/allocations/{consumer}");
    site.placement().get(&path).await.expect(200).json()["consumer_generation"].as_i64()
}

/// An instance that is elsewhere is reserved for, and then may not come: its hold stays.
#[tokio::test(flavor = "multi_thread")]
async fn refused_requests_are_not_arrivals() {
    let site = Site::new().await;
    let hosts = site.racks(1, 2, [8, 65_536, 1000]).await;
    let instance = Uuid::new_v4();
    site.claims(instance, claim_on(hosts[1], 1)).await.expect(204);
    site.planned("stack", resources([("server", pinned(8, "r01h01"))])).await;
    let placement = site.placement_of("server").await;
    let held = site.held_by(text(&placement["id"])).await;
    site.reserves(&placement, instance).await.expect(201);

    let wrong = Some(generation(&site, instance).await.unwrap() + 1);
    site.claims(instance, claim(claimable(&held), wrong)).await.expect(409);
    site.assert_true(&none()).await;
    assert_eq!(claimable(&site.held_by(text(&placement["id"])).await), claimable(&held));

    // The other server's claim comes at the same time, and is the same transaction's.
    let right = generation(&site, instance).await;
    let (arrived, refused) = join!(
        site.claims(instance, claim(claimable(&held), right)),
        site.claims(Uuid::new_v4(), claim_on(hosts[0], 1))
    );
    arrived.expect(204);
    refused.expect(409);
    assert_eq!(site.held_by(text(&placement["id"])).await, json!({}));
    site.assert_true(&none()).await;
}

/// The explanation of a claim counts the hold that ends with it, as the claim does.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_explained_with_the_hold_that_it_takes_over() {
    let site = Site::new().await;
    let hosts = site.racks(1, 1, [8, 65_536, 1000]).await;
    let (instance, stranger) = (Uuid::new_v4(), Uuid::new_v4());
    site.planned("stack", resources([("server", pinned(8, "r01h01"))])).await;
    let placement = site.placement_of("server").await;
    let held = claimable(&site.held_by(text(&placement["id"])).await);
    site.reserves(&placement, instance).await.expect(201);
    let explained = async |consumer: Uuid, body: Value| {
        let path = format!("/-/v1/explain?consumer={consumer}");
        site.placement().post(&path, body).await.expect(200).json()
    };
    let expected = explained(instance, claim(held.clone(), None)).await;
    assert_eq!((&expected["allowed"], &expected["count"]), (&json!(true), &json!(0)));
    let refused = explained(stranger, claim_on(hosts[0], 1)).await;
    assert_eq!((&refused["allowed"], &refused["faults"][0]["missing"]), (&json!(false), &json!(1)));
    let holder = &refused["inventories"][0]["holders"][0];
    assert_eq!((&holder["consumer"], &holder["amount"]), (&placement["id"], &json!(8)));
    site.claims(stranger, claim_on(hosts[0], 1)).await.expect(409);
    site.claims(instance, claim(held, None)).await.expect(204);
    site.assert_true(&none()).await;
}

/// One instance is one server: a second placement cannot be reserved for it, wherever it is.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_takes_over_one_placement() {
    let site = Site::new().await;
    let hosts = site.racks(1, 3, [8, 65_536, 1000]).await;
    let servers = ["one", "two", "three"].map(|id| (id, pinned(1, "r01h01")));
    site.planned("stack", resources(servers)).await;
    let (one, two) = (site.placement_of("one").await, site.placement_of("two").await);
    let three = site.placement_of("three").await;
    let instance = Uuid::new_v4();
    site.reserves(&one, instance).await.expect(201);
    site.reserves(&two, instance).await.expect(409);
    let held = site.held_by(text(&one["id"])).await;
    site.claims(instance, claim(claimable(&held), None)).await.expect(204);
    site.reserves(&two, instance).await.expect(409);
    let body = claim(claim_on(hosts[2], 1)["allocations"].clone(), Some(1));
    site.claims(instance, body).await.expect(204);
    site.reserves(&two, instance).await.expect(409);
    // Nor for the hold of another placement.
    let other: Uuid = text(&three["id"]).parse().unwrap();
    site.reserves(&two, other).await.expect(409);
    let body = claim(claim_on(hosts[1], 1)["allocations"].clone(), Some(2));
    site.claims(instance, body).await.expect(204);
    site.assert_true(&none()).await;
}

/// A placement is reserved on the very host on which its instance is already: there is no hold then.
#[tokio::test(flavor = "multi_thread")]
async fn a_placement_that_moves_to_its_instance_is_handed_over() {
    let site = Site::new().await;
    let hosts = site.racks(1, 2, [8, 65_536, 1000]).await;
    site.planned("stack", resources([("server", server(2))])).await;
    let placement = site.placement_of("server").await;
    let (name, host) =
        if placement["location"] == "r01h01" { ("r01h02", hosts[1]) } else { ("r01h01", hosts[0]) };
    let instance = Uuid::new_v4();
    site.claims(instance, claim_on(host, 2)).await.expect(204);
    let path = format!("/v1/placements/{}", text(&placement["id"]));
    let body = json!({"resource_id": instance, "locations": [name]});
    let reserved = site.planner().post(&path, body).await.expect(201).json();
    assert_eq!(reserved["location"], name);
    assert_eq!(site.held_by(text(&placement["id"])).await, json!({}));
    site.assert_true(&none()).await;
}

/// Two hosts that draw on one shared disk are two hosts.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_elsewhere_has_not_arrived_by_its_shared_disk() {
    let site = Site::new().await;
    let crowd = Crowd::new(&site).await;
    let [.., one, two] = crowd.hosts.as_slice() else { panic!() };
    let instance = Uuid::new_v4();
    let wanted = |host: Uuid| {
        json!({
            host.to_string(): {"resources": {"VCPU": 1, "MEMORY_MB": 512}},
            crowd.disk.to_string(): {"resources": {"DISK_GB": 5}},
        })
    };
    site.claims(instance, claim(wanted(two.0), None)).await.expect(204);
    site.planned("stack", resources([("server", pinned(1, &one.1))])).await;
    let placement = site.placement_of("server").await;
    let held = site.held_by(text(&placement["id"])).await;
    assert_eq!(claimable(&held), wanted(one.0));
    let reserved = site.reserves(&placement, instance).await.expect(201).json();
    assert_eq!(reserved["location"], one.1.as_str());
    let still_held = site.held_by(text(&placement["id"])).await;
    assert_eq!(claimable(&still_held), claimable(&held));
    site.claims(instance, claim(wanted(one.0), Some(1))).await.expect(204);
    assert_eq!(site.held_by(text(&placement["id"])).await, json!({}));
    site.assert_true(&none()).await;
}

/// An instance that comes and goes at once, maybe in one transaction, has come.
#[tokio::test(flavor = "multi_thread")]
async fn an_arrival_that_leaves_at_once_counts() {
    let site = Site::new().await;
    site.racks(1, 1, [64, 65_536, 1000]).await;
    for round in 0..20 {
        let (stack, id) = (format!("stack-{round}"), format!("server-{round}"));
        site.planned(&stack, resources([(id.as_str(), server(1))])).await;
        let placement = site.placement_of(&id).await;
        let held = claimable(&site.held_by(text(&placement["id"])).await);
        let instance = Uuid::new_v4();
        site.reserves(&placement, instance).await.expect(201);
        // The first keeps the writer busy while the others queue.
        let (api, path) = (site.placement(), format!("/allocations/{instance}"));
        let (first, arrived, gone) = join!(
            site.claims(Uuid::new_v4(), claim(held.clone(), None)),
            site.claims(instance, claim(held.clone(), None)),
            api.delete(&path)
        );
        first.expect(204);
        arrived.expect(204);
        assert!([204, 404].contains(&gone.status), "{}", gone.text());
        site.assert_true(&none()).await;
    }
}

/// An instance takes nothing over from a placement whose hold was deleted, if the placement is reserved for another
/// one at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_that_goes_to_another_instance_meanwhile_is_not_mistaken() {
    let site = Site::new().await;
    let hosts = site.racks(1, 2, [8, 65_536, 1000]).await;
    site.planned("stack", resources([("server", pinned(2, "r01h01"))])).await;
    let placement = site.placement_of("server").await;
    let id: Uuid = text(&placement["id"]).parse().unwrap();
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    site.reserves(&placement, first).await.expect(201);
    site.placement().delete(&format!("/allocations/{id}")).await.expect(204);

    // The last statement of the second reservation has been run, and is not committed yet.
    let mut reservation = site.session().await;
    let mut reservation = reservation.begin().await.unwrap();
    sqlx::query(
        "update placements set ticket = $2, resource_id = $3, resource_key = $3 where id = $1",
    )
    .bind(id)
    .bind(second)
    .bind(second.to_string())
    .execute(&mut *reservation)
    .await
    .unwrap();
    let arrival = async {
        site.claims(first, claim_on(hosts[1], 1)).await.expect(204);
    };
    let commit = async {
        let mut session = site.session().await;
        until("the arrival waits for the placement", async || {
            sqlx::query_scalar::<_, bool>(
                "select exists (select from pg_locks join pg_stat_activity using (pid)
                                where not granted and datname = current_database())",
            )
            .fetch_one(&mut session)
            .await
            .unwrap()
        })
        .await;
        reservation.commit().await.unwrap();
    };
    join!(arrival, commit);
    let stored: (Uuid, Option<Uuid>) =
        sqlx::query_as("select consumer, ticket from placements where id = $1")
            .bind(id)
            .fetch_one(&mut site.session().await)
            .await
            .unwrap();
    assert_eq!(stored, (id, Some(second)));
}
