//! Servers of plans find their planned hosts among the candidates of their own requests, although the plans hold the
//! capacity there.

use std::collections::{BTreeMap, BTreeSet};

use berth::http::app::{Options, PlannerSettings};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::crowd::Crowd;
use crate::dice::Dice;
use crate::requests::{amounts, bound, claim, plan, resources, server, text};
use crate::site::Site;

/// The path of the request of a server for candidates, as a scheduler sends it.
fn request(vcpu: i64) -> String {
    let [vcpu, memory_mb, disk_gb] = amounts(vcpu);
    format!(
        "/allocation_candidates?resources=VCPU:{vcpu},MEMORY_MB:{memory_mb},DISK_GB:{disk_gb}&limit=1000"
    )
}

/// The candidates of a server: for each, the names of the hosts that it uses, and its allocations.
async fn candidates(site: &Site, vcpu: i64) -> Vec<(BTreeSet<String>, Value)> {
    let found = site.placement().get(&request(vcpu)).await.expect(200).json();
    let mut names = BTreeMap::new();
    let providers = site.placement().get("/resource_providers").await.expect(200).json();
    for provider in providers["resource_providers"].as_array().unwrap() {
        names.insert(text(&provider["uuid"]).to_owned(), text(&provider["name"]).to_owned());
    }
    let host = |provider: &String| {
        let root = &found["provider_summaries"][provider]["root_provider_uuid"];
        names[text(root)].clone()
    };
    let requests = found["allocation_requests"].as_array().unwrap().iter();
    let used = requests.map(|candidate| {
        let allocations = &candidate["allocations"];
        let hosts = allocations.as_object().unwrap().keys().map(host);
        (hosts.filter(|name| name != "disk").collect(), allocations.clone())
    });
    used.collect()
}

/// A server that a plan has placed.
struct PlannedServer {
    name: String,
    vcpu: i64,
    host: String,
}

/// Plans stacks of three servers until 90 % of the 96 VCPU are held.
async fn fill(site: &Site, policy: &str, dice: &mut Dice) -> Vec<PlannedServer> {
    let (mut planned, mut held) = (Vec::new(), 0);
    for stack in 0.. {
        let sizes: Vec<i64> = (0..3).map(|_| *dice.pick(&[1, 2, 4]).unwrap()).collect();
        if (held + sizes.iter().sum::<i64>()) * 10 > 96 * 9 {
            break;
        }
        held += sizes.iter().sum::<i64>();
        let names: Vec<String> = (0..3).map(|nth| format!("s{stack}-{nth}")).collect();
        let servers = names.iter().zip(&sizes).map(|(name, vcpu)| (name.as_str(), server(*vcpu)));
        let mut body = plan(&format!("stack-{stack}"), resources(servers));
        body["policy"] = policy.into();
        let answer = site.planner().post("/v1/plans", body).await;
        if answer.status != 201 {
            // Nothing of this size fits any more.
            break;
        }
        for (name, vcpu) in names.into_iter().zip(sizes) {
            let host = text(&site.placement_of(&name).await["location"]).to_owned();
            planned.push(PlannedServer { name, vcpu, host });
        }
    }
    planned
}

/// Another project takes what is left, candidate after candidate.
async fn claim_as_stranger(site: &Site) -> u16 {
    let mut last = 0;
    for (_, allocations) in candidates(site, 1).await {
        let mut body = claim(allocations, None);
        body["project_id"] = "stranger".into();
        last = site.claims(Uuid::new_v4(), body).await.status;
        if last == 204 {
            break;
        }
    }
    last
}

/// Boots planned servers in random order beside strangers. Returns the number of servers, and of those whose planned
/// host was among the candidates and took them.
async fn boot(site: &Site, policy: &str) -> (usize, usize) {
    Crowd::new(site).await;
    let mut dice = Dice(7);
    let mut planned = fill(site, policy, &mut dice).await;
    let (count, mut found) = (planned.len(), 0);
    while !planned.is_empty() {
        let server = planned.swap_remove(dice.below(planned.len()));
        assert!([0, 204, 409].contains(&claim_as_stranger(site).await));
        let candidates = candidates(site, server.vcpu).await;
        let on_host = candidates.into_iter().filter(|(hosts, _)| hosts.contains(&server.host));
        let placement = site.placement_of(&server.name).await;
        let instance = Uuid::new_v4();
        site.reserves(&placement, instance).await.expect(201);
        for (_, allocations) in on_host {
            let status = site.claims(instance, claim(allocations, None)).await.status;
            assert!([204, 409].contains(&status), "{status}");
            if status == 204 {
                found += 1;
                break;
            }
        }
    }
    site.assert_consistent().await;
    (count, found)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_server_of_a_full_cloud_finds_its_planned_host() {
    for policy in ["pack", "spread"] {
        let (count, found) = boot(&Site::new().await, policy).await;
        assert!(count >= 30, "{count}");
        assert_eq!(found, count, "{policy}");
    }
}

/// Without the option, servers do not find their hosts.
#[tokio::test(flavor = "multi_thread")]
async fn an_option_hides_hosts_that_only_holds_have_room_on() {
    let planner = PlannerSettings { held_hosts: false, ..PlannerSettings::default() };
    let site = Site::with(Options { planner, ..Options::default() }).await;
    let (count, found) = boot(&site, "pack").await;
    assert!(found < count, "{found} of {count}");
}

/// Two hosts of 4 VCPU, and two servers of 2 that must be on one host.
#[tokio::test(flavor = "multi_thread")]
async fn servers_with_affinity_arrive_on_a_host_that_they_fill() {
    let site = Site::new().await;
    site.racks(1, 2, [4, 65_536, 1000]).await;
    let both = ["a".to_owned(), "b".to_owned()];
    let servers = [("a", server(2)), ("b", server(2)), ("g", bound("affinity", "host", &both))];
    site.planned("stack", resources(servers)).await;
    for name in ["a", "b"] {
        let placement = site.placement_of(name).await;
        let hosts = candidates(&site, 2).await;
        assert!(hosts.iter().any(|(hosts, _)| hosts.contains(text(&placement["location"]))));
        // Both holds together are no candidate.
        assert_eq!(candidates(&site, 4).await.len(), 1);
        let instance = Uuid::new_v4();
        let names: Vec<String> = hosts.iter().flat_map(|(hosts, _)| hosts.clone()).collect();
        let body = json!({"resource_id": instance, "locations": names});
        let path = format!("/v1/placements/{}", text(&placement["id"]));
        let reserved = site.planner().post(&path, body).await.expect(201).json();
        assert_eq!(reserved["location"], placement["location"]);
        let planned =
            hosts.into_iter().find(|(hosts, _)| hosts.contains(text(&placement["location"])));
        let (_, allocations) = planned.unwrap();
        // A stranger sees the host, too, and is refused.
        let mut stranger = claim(allocations.clone(), None);
        stranger["project_id"] = "stranger".into();
        site.claims(Uuid::new_v4(), stranger).await.expect(409);
        site.claims(instance, claim(allocations, None)).await.expect(204);
    }
    // The holds have ended, and the host is full.
    let hosts = candidates(&site, 2).await;
    let full = text(&site.placement_of("a").await["location"]).to_owned();
    assert!(!hosts.is_empty() && hosts.iter().all(|(hosts, _)| !hosts.contains(&full)));
}

/// Other replicas learn of holds as they begin and end, and a replica that starts learns of all.
#[tokio::test(flavor = "multi_thread")]
async fn every_replica_knows_the_holds() {
    let site = Site::new().await;
    let other = Site::over(&site.database, Options::default()).await;
    site.racks(1, 1, [4, 65_536, 1000]).await;
    site.planned("stack", resources([("a", server(4))])).await;
    let late = Site::over(&site.database, Options::default()).await;
    for replica in [&site, &other, &late] {
        assert_eq!(candidates(replica, 4).await.len(), 1);
        assert_eq!(candidates(replica, 2).await.len(), 0);
    }
    // What is shown is in use all the same.
    let shown = other.placement().get(&request(4)).await.json();
    let summary = shown["provider_summaries"].as_object().unwrap().values().next().unwrap();
    assert_eq!(summary["resources"]["VCPU"], json!({"capacity": 4, "used": 4}));
    let path =
        request(4).replace("/allocation_candidates", "/-/v1/explain").replace("&limit=1000", "");
    let explained = other.placement().get(&path).await.expect(200).json();
    assert_eq!(explained["fitting"], json!(1), "{explained}");
    site.planner().delete("/v1/plans/stack").await.expect(204);
    let instance = claim(candidates(&other, 4).await.remove(0).1, None);
    other.claims(Uuid::new_v4(), instance).await.expect(204);
    for replica in [&site, &other, &late] {
        assert_eq!(candidates(replica, 4).await.len(), 0);
    }
}
