//! A copy of the cloud that follows events, while replicas write at random and one is killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use uuid::Uuid;

use crate::events::{Following, replica};
use crate::support::app::Berth;
use crate::support::cloud::{Host, claim_body};
use crate::support::cluster::until;
use crate::support::postgres;
use crate::support::process::{Server, signal};
use crate::support::served::PATIENCE;

/// A copy of a cloud: what a client knows from one bulk read and the events since.
#[derive(Default)]
struct Copy {
    number: i64,
    /// Providers as in a bulk read, without usages and allocations.
    providers: BTreeMap<String, Value>,
    /// Consumers by UUID: owner, generation, allocations.
    consumers: BTreeMap<String, Value>,
}

const PARTS: &str = "include=inventories,usages,traits,aggregates,allocations";

impl Copy {
    async fn read(berth: &Berth) -> Self {
        // The snapshot waits two seconds for the lock of the numbering, which a busy machine can exceed: then the
        // response is 503, and clients try again.
        let mut response = None;
        until("a bulk read is answered", async || {
            let read = berth.get(&format!("/-/v1/providers?{PARTS}")).await;
            let is_refused = read.status == 503;
            response = Some(read);
            !is_refused
        })
        .await;
        let all = response.unwrap().expect(200).json();
        let mut copy = Self { number: all["number"].as_i64().unwrap(), ..Self::default() };
        for provider in all["providers"].as_array().unwrap() {
            let mut provider = provider.clone();
            let uuid = provider["uuid"].as_str().unwrap().to_owned();
            let members = provider.as_object_mut().unwrap();
            let usages = members.remove("usages").unwrap();
            let mut used: BTreeMap<String, i64> = BTreeMap::new();
            for (consumer, held) in members.remove("allocations").unwrap().as_object().unwrap() {
                for (class, amount) in held["resources"].as_object().unwrap() {
                    *used.entry(class.clone()).or_default() += amount.as_i64().unwrap();
                }
                let known = copy.consumers.entry(consumer.clone()).or_insert_with(|| {
                    json!({
                        "project_id": held["project_id"], "user_id": held["user_id"],
                        "consumer_type": held["consumer_type"],
                        "consumer_generation": held["consumer_generation"], "allocations": {},
                    })
                });
                known["allocations"][&uuid] = held["resources"].clone();
            }
            // The answer agrees with itself.
            for (class, amount) in usages.as_object().unwrap() {
                assert_eq!(used.remove(class).unwrap_or_default(), *amount, "{uuid} {class}");
            }
            assert_eq!(used, BTreeMap::new());
            copy.providers.insert(uuid, provider);
        }
        copy
    }

    fn apply(&mut self, event: &Value) {
        let number = event["number"].as_i64().unwrap();
        if event["kind"] == "position" {
            assert_eq!(number, self.number);
            return;
        }
        assert!(number > self.number, "{number} comes after {}", self.number);
        self.number = number;
        let uuid = event["uuid"].as_str().unwrap_or_default().to_owned();
        match event["kind"].as_str().unwrap() {
            "provider" if event["provider"].is_null() => {
                assert!(self.providers.remove(&uuid).is_some());
            }
            "provider" => drop(self.providers.insert(uuid, event["provider"].clone())),
            "consumer" => {
                let mut allocations = json!({});
                let held = event["allocations"].as_object().unwrap();
                for (provider, held) in held {
                    allocations[provider] = held["resources"].clone();
                    self.providers.get_mut(provider).unwrap()["generation"] =
                        held["generation"].clone();
                }
                for (provider, generation) in event["left"].as_object().unwrap() {
                    self.providers.get_mut(provider).unwrap()["generation"] = generation.clone();
                }
                if event["consumer_generation"].is_null() {
                    assert!(self.consumers.remove(&uuid).is_some());
                    return;
                }
                let mut consumer = json!({"allocations": allocations});
                for name in ["project_id", "user_id", "consumer_type", "consumer_generation"] {
                    consumer[name] = event[name].clone();
                }
                self.consumers.insert(uuid, consumer);
            }
            "trait" | "resource_class" => {}
            other => panic!("{other}: {event}"),
        }
    }

    /// Goes on until the number is reached.
    async fn follow(&mut self, berth: &Berth, until: i64) {
        let mut following = Following::new(berth, &format!("?since={}", self.number)).await;
        while self.number < until {
            let event = following.next().await.unwrap();
            self.apply(&event);
        }
    }

    fn assert_equals(&self, other: &Self) {
        assert_eq!(self.number, other.number);
        let keys = |copy: &Self| -> Vec<String> { copy.providers.keys().cloned().collect() };
        assert_eq!(keys(self), keys(other));
        for (uuid, provider) in &self.providers {
            assert_eq!(provider, &other.providers[uuid]);
        }
        assert_eq!(self.consumers, other.consumers);
    }
}

/// Writes at random, as several clients do, until it is stopped. Requests may be refused.
async fn write(berth: Berth, seed: u64, over: Arc<AtomicBool>) {
    let mut state = seed;
    let mut dice = move |sides: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % sides
    };
    let consumers: Vec<Uuid> = (0..20).map(|nth| Uuid::from_u128(nth + 1)).collect();
    let hosts: Vec<Host> = (0..8).map(|nth| Host(Uuid::from_u128(100 + nth))).collect();
    while !over.load(Ordering::Relaxed) {
        let host = hosts[usize::try_from(dice(8)).unwrap()];
        let other = hosts[usize::try_from(dice(8)).unwrap()];
        let consumer = consumers[usize::try_from(dice(20)).unwrap()];
        let path = format!("/resource_providers/{}", host.0);
        let found = berth.get(&path).await;
        let generation = found.json()["generation"].as_i64();
        match dice(15) {
            0 => {
                let parent = (dice(3) == 0 && other.0 != host.0).then_some(other.0);
                let name = format!("host-{}-{}", host.0.as_u128(), dice(3));
                let body = json!({"name": name, "parent_provider_uuid": parent});
                if generation.is_some() {
                    berth.put(&path, body).await;
                } else {
                    let mut body = body;
                    body["uuid"] = json!(host.0);
                    berth.post("/resource_providers", body).await;
                }
            }
            1 if dice(4) == 0 => drop(berth.delete(&path).await),
            2 | 3 => {
                let total = i64::try_from(dice(30)).unwrap() + 1;
                let generation = generation.unwrap_or_default();
                berth.stock(host, generation, &[("VCPU", total), ("DISK_GB", 50)]).await;
            }
            4 => {
                let mut traits = vec!["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"];
                traits.truncate(1 + usize::try_from(dice(2)).unwrap());
                let traits = json!({"resource_provider_generation": generation, "traits": traits});
                berth.put(&format!("{path}/traits"), traits).await;
            }
            5 => {
                let aggregates = json!({"resource_provider_generation": generation,
                                        "aggregates": [Uuid::from_u128(u128::from(dice(3)))]});
                berth.put(&format!("{path}/aggregates"), aggregates).await;
            }
            6 | 7 => drop(berth.delete(&format!("/allocations/{consumer}")).await),
            8 => {
                // Two at once, one of which gives everything up.
                let held = berth.get(&format!("/allocations/{consumer}")).await.json();
                let generation = held["consumer_generation"].as_i64();
                let mut moved = claim_body(None, &[(host, "DISK_GB", 1)]);
                moved["user_id"] = json!(format!("user-{}", dice(3)));
                let mut left = claim_body(generation, &[]);
                left["allocations"] = json!({});
                let body = json!({Uuid::new_v4().to_string(): moved, consumer.to_string(): left});
                berth.post("/allocations", body).await;
            }
            9 => reshape(&berth, consumer, (host, generation), dice(30) + 1).await,
            _ => {
                let amounts = [dice(4), dice(3), dice(3)];
                claim(&berth, consumer, (host, other), amounts).await;
            }
        }
    }
}

/// Replaces what a consumer holds: amount, project and type are as the dice fell.
async fn claim(berth: &Berth, consumer: Uuid, (host, other): (Host, Host), dice: [u64; 3]) {
    let held = berth.get(&format!("/allocations/{consumer}")).await.json();
    let generation = held["consumer_generation"].as_i64();
    let mut wants = vec![(host, "VCPU", i64::try_from(dice[0]).unwrap() + 1)];
    if other.0 != host.0 {
        wants.push((other, "DISK_GB", 1));
    }
    let mut body = claim_body(generation, &wants);
    body["project_id"] = json!(format!("project-{}", dice[1]));
    if dice[2] == 0 {
        body["consumer_type"] = json!("VOLUME");
    }
    berth.put(&format!("/allocations/{consumer}"), body).await;
}

/// Gives a host other inventories, and a consumer some of them.
async fn reshape(berth: &Berth, consumer: Uuid, (host, seen): (Host, Option<i64>), total: u64) {
    let held = berth.get(&format!("/allocations/{consumer}")).await.json();
    let generation = held["consumer_generation"].as_i64();
    let body = json!({
        "inventories": {host.0.to_string(): {
            "resource_provider_generation": seen,
            "inventories": {"VCPU": {"total": total}, "DISK_GB": {"total": 50}},
        }},
        "allocations": {consumer.to_string(): claim_body(generation, &[(host, "VCPU", 1)])},
    });
    berth.header("x-roles", "admin,service").post("/reshaper", body).await;
}

/// A replica in a process of its own, which claims until it is killed.
async fn killed(database: &PgConnectOptions) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let url = database.to_url_lossy().to_string();
    let options = ["--events", "1", "--database-url", &url];
    let server = Arc::new(Server::start_with(directory.path(), &options).await);
    let host = Host(Uuid::from_u128(200));
    let body = json!({"name": "killed", "uuid": host.0});
    assert_eq!(server.ask("POST", "/resource_providers", Some(&body)).await.unwrap().0, 200);
    let body = json!({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 9999}}});
    let path = format!("/resource_providers/{}/inventories", host.0);
    assert_eq!(server.ask("PUT", &path, Some(&body)).await.unwrap().0, 200);
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                let body = claim_body(None, &[(host, "VCPU", 1)]);
                for count in 0.. {
                    let path = format!("/allocations/{}", Uuid::new_v4());
                    match server.ask("PUT", &path, Some(&body)).await {
                        Ok((204, _)) => {}
                        Ok((503, _)) | Err(_) => return count,
                        Ok(other) => panic!("{other:?}"),
                    }
                }
                0
            })
        })
        .collect();
    let mut session = PgConnection::connect_with(database).await.unwrap();
    let claims = "select count(*) from allocations a join providers p on p.id = provider_id
                  where p.name = 'killed'";
    let began = Instant::now();
    while sqlx::query_scalar::<_, i64>(claims).fetch_one(&mut session).await.unwrap() <= 30 {
        assert!(began.elapsed() < PATIENCE, "it claims nothing");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    signal("KILL", &server.pid());
    let mut count = 0;
    for client in clients {
        count += client.await.unwrap();
    }
    count
}

/// A copy that follows events equals the cloud, after a storm of writes by four replicas, one of which is killed,
/// and at any moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_kept_by_events_is_the_cloud() {
    let database = postgres::database().await;
    let berth = replica(&database).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut first = Copy::read(&berth).await;
    let mut writers = Vec::new();
    for number in 0..3_u64 {
        let writer = replica(&database).await;
        for lane in 0..3 {
            let seed = number * 10 + lane + 1;
            writers.push(tokio::spawn(write(writer.clone(), seed, Arc::clone(&over))));
        }
    }
    let killed = tokio::spawn({
        let database = database.clone();
        async move { killed(&database).await }
    });
    let mut copies = Vec::new();
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let now = Copy::read(&berth).await;
        first.follow(&berth, now.number).await;
        first.assert_equals(&now);
        copies.push(now);
    }
    let claimed = killed.await.unwrap();
    over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let end = Copy::read(&berth).await;
    assert!(end.consumers.len() > claimed && claimed > 20 && end.providers.len() > 3);
    let other = replica(&database).await;
    for mut copy in copies {
        copy.follow(&other, end.number).await;
        copy.assert_equals(&end);
    }
    berth.assert_consistent().await;
}
