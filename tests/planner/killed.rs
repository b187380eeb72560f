//! A server that is killed in the middle of its work: acknowledged changes are complete afterwards, and unfinished
//! ones have left nothing.

#![expect(clippy::print_stdout, reason = "who repeats a run needs its seed")]

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::dice::{Dice, seed};
use crate::requests::{PROJECT, claim, claimable, plan, resources, server_in, text};
use crate::support::process::{Server, free_port, signal};
use crate::support::served::PATIENCE;
use crate::truth::{Known, faults};

const KILLS: usize = 4;
const CLIENTS: u64 = 4;
const HOSTS: usize = 6;

/// The planner of a server that may be gone at any moment: an answer, or none.
async fn ask(
    address: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Option<(u16, Value)> {
    // Connections do not outlive a server, nor the runtime of a test.
    static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| {
        reqwest::Client::builder().timeout(PATIENCE).pool_max_idle_per_host(0).build().unwrap()
    });
    let request = CLIENT
        .request(method.parse().unwrap(), format!("http://{address}{path}"))
        .header("openstack-api-version", "placement 1.39")
        .header("x-auth-token", format!("admin:{PROJECT}"));
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    let text = answer.text().await.ok()?;
    Some((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
}

async fn build(placement: &str) {
    for nth in 0..HOSTS {
        let id = Uuid::new_v4();
        let body = json!({"name": format!("h{nth}"), "uuid": id});
        let made = ask(placement, "POST", "/resource_providers", Some(&body)).await;
        assert_eq!(made.unwrap().0, 200);
        let total = json!({"total": 100_000});
        let body = json!({"resource_provider_generation": 0, "inventories":
                          {"VCPU": total, "MEMORY_MB": {"total": 10_000_000}, "DISK_GB": total}});
        let path = format!("/resource_providers/{id}/inventories");
        assert_eq!(ask(placement, "PUT", &path, Some(&body)).await.unwrap().0, 200);
    }
}

/// The responses of clients: the locations of a plan by its stack, or its deletion, and instances that have
/// arrived. A request without a response may have been carried out: its stack does not count any more.
#[derive(Clone, Debug, Default)]
struct Acknowledged {
    plans: Vec<(String, Value)>,
    deleted: Vec<String>,
    arrived: Vec<(Uuid, Value)>,
}

#[derive(Clone)]
struct Client {
    placement: String,
    planner: String,
    acknowledged: Arc<Mutex<Acknowledged>>,
    name: String,
    dice: Dice,
}

impl Client {
    /// Makes plans, changes them, brings their instances and ends some, until the server is gone.
    async fn run(mut self) {
        for nth in 0.. {
            if self.stack(&format!("{}-{nth}", self.name)).await.is_none() {
                return;
            }
        }
    }

    async fn stack(&mut self, stack: &str) -> Option<()> {
        let ids: Vec<String> =
            (0..=self.dice.below(3)).map(|nth| format!("{stack}-{nth}")).collect();
        let wanted = ids.iter().map(|id| (id.as_str(), server_in(1, &[])));
        let body = plan(stack, resources(wanted));
        let (status, mut stored) = self.plan("POST", "/v1/plans", &body).await?;
        assert_eq!(status, 201, "{stored}");
        let path = format!("/v1/plans/{stack}");
        if self.dice.happens(50) {
            self.acknowledge(stack, &stored);
            let added = format!("{stack}-added");
            let body = json!({"plan_name": stack, "stack_id": stack, "resources": {},
                              "resources_update": {added: server_in(2, &[])}});
            self.forget(stack);
            stored = self.plan("PUT", &path, &body).await?.1;
        }
        if self.dice.happens(50) {
            let path = format!("/v1/placements/{}", ids[0]);
            let found = ask(&self.planner, "GET", &path, None).await?.1;
            let id = text(&found["id"]).to_owned();
            let held = ask(&self.placement, "GET", &format!("/allocations/{id}"), None).await?.1;
            let held = claimable(&held["allocations"]);
            let instance = Uuid::new_v4();
            let body = json!({"resource_id": instance});
            let path = format!("/v1/placements/{id}");
            ask(&self.planner, "POST", &path, Some(&body)).await?;
            let body = claim(held.clone(), None);
            let path = format!("/allocations/{instance}");
            let (status, why) = ask(&self.placement, "PUT", &path, Some(&body)).await?;
            assert_eq!(status, 204, "{why}");
            self.acknowledged.lock().unwrap().arrived.push((instance, held));
        }
        if self.dice.happens(30) {
            let (status, _) = ask(&self.planner, "DELETE", &path, None).await?;
            assert_eq!(status, 204);
            self.acknowledged.lock().unwrap().deleted.push(stack.to_owned());
            return Some(());
        }
        self.acknowledge(stack, &stored);
        Some(())
    }

    async fn plan(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        ask(&self.planner, method, path, Some(body)).await.filter(|(status, _)| *status != 503)
    }

    fn acknowledge(&self, stack: &str, plan: &Value) {
        self.acknowledged
            .lock()
            .unwrap()
            .plans
            .push((stack.to_owned(), plan["placements"].clone()));
    }

    fn forget(&self, stack: &str) {
        self.acknowledged.lock().unwrap().plans.retain(|(other, _)| other != stack);
    }
}

/// Connects to its private PostgreSQL, as a user that may.
async fn session(server: &Server) -> PgConnection {
    let options = PgConnectOptions::new_without_pgpass()
        .socket(server.directory.join("data"))
        .username("berth")
        .database("berth");
    PgConnection::connect_with(&options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_leaves_nothing_half_done() {
    let seed = seed();
    println!("STORM_SEED={seed}");
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let planner = format!("127.0.0.1:{}", free_port());
    let options = ["--planner-listen", planner.as_str()];
    let mut server = Server::start_with(directory.path(), &options).await;
    build(&server.address).await;
    let acknowledged = Arc::new(Mutex::new(Acknowledged::default()));
    for round in 0..KILLS {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|nth| {
                let client = Client {
                    placement: server.address.clone(),
                    planner: planner.clone(),
                    acknowledged: Arc::clone(&acknowledged),
                    name: format!("stack-{round}-{nth}"),
                    dice: Dice(
                        seed.wrapping_add(nth).wrapping_mul(u64::try_from(1 + round).unwrap()),
                    ),
                };
                tokio::spawn(client.run())
            })
            .collect();
        while acknowledged.lock().unwrap().arrived.len() < 3 * (round + 1) {
            assert!(clients.iter().all(|client| !client.is_finished()));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        signal("KILL", &server.pid());
        for client in clients {
            client.await.unwrap();
        }
        drop(server);
        server = Server::start_with(directory.path(), &options).await;
        let found = faults(&mut session(&server).await, Known::default).await;
        assert!(found.is_empty(), "{found:#?}");
        let acknowledged = acknowledged.lock().unwrap().clone();
        assert_acknowledged(&server.address, &planner, &acknowledged).await;
    }
    let acknowledged = acknowledged.lock().unwrap();
    println!(
        "{} plans, {} deleted, {} arrivals",
        acknowledged.plans.len(),
        acknowledged.deleted.len(),
        acknowledged.arrived.len()
    );
}

async fn assert_acknowledged(placement: &str, planner: &str, acknowledged: &Acknowledged) {
    for (stack, placements) in &acknowledged.plans {
        let (status, plan) =
            ask(planner, "GET", &format!("/v1/plans/{stack}"), None).await.unwrap();
        assert_eq!((status, &plan["placements"]), (200, placements), "{stack}");
    }
    for stack in &acknowledged.deleted {
        let answer = ask(planner, "GET", &format!("/v1/plans/{stack}"), None).await;
        assert_eq!(answer.unwrap().0, 404, "{stack}");
    }
    for (instance, held) in &acknowledged.arrived {
        let path = format!("/allocations/{instance}");
        let now = ask(placement, "GET", &path, None).await.unwrap().1;
        assert_eq!(claimable(&now["allocations"]), *held, "{instance}");
    }
}

/// As root, the private PostgreSQL runs as another user, who must be able to get there.
fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}
