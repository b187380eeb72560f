//! Clients of both APIs who do whatever they like, all at once.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::crowd::Crowd;
use crate::dice::Dice;
use crate::requests::{amounts, claim, claimable, group, plan, server_in, text};
use crate::site::{Host, Site, SiteResponse};
use crate::storm_stacks::{STORED, Stack, any_groups, any_server};
use crate::truth::Known;

const STACKS_MAX: usize = 12;
/// The status of an answer that does not say whether a change has happened.
const UNKNOWN: u16 = 503;

/// The state shared by all clients.
#[derive(Debug)]
pub struct Storm {
    pub crowd: Crowd,
    exclusivity: Vec<Uuid>,
    known: Mutex<Known>,
    stacks: Mutex<Vec<Stack>>,
    /// Instances with their servers; strangers are of none.
    instances: Mutex<Vec<(Uuid, Option<String>)>>,
    /// Number of responses by kind of request and status.
    pub counts: Mutex<BTreeMap<(&'static str, u16), usize>>,
}

impl Storm {
    /// Builds the cloud and the groups.
    pub async fn over(site: &Site) -> Arc<Self> {
        let crowd = Crowd::new(site).await;
        let traits = ["CUSTOM_STORAGE_BACKEND", "CUSTOM_RACK_R01"];
        site.hosts(&[Host { name: "cinder1@lvm#pool", size: [1, 1, 100], traits: &traits }]).await;
        let mut exclusivity = Vec::new();
        for (name, kind, level) in STORED {
            let id = group(site, name, kind, level).await;
            if kind == "exclusivity" {
                exclusivity.push(id);
            }
        }
        Arc::new(Self {
            crowd,
            exclusivity,
            known: Mutex::default(),
            stacks: Mutex::default(),
            instances: Mutex::default(),
            counts: Mutex::default(),
        })
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    /// Adds a stack, unless clients know it.
    fn list(&self, stack: &Stack) {
        let mut stacks = self.stacks.lock().unwrap();
        if stacks.iter().all(|known| known.id != stack.id) {
            stacks.push(stack.clone());
        }
    }

    /// Adds an instance of no stack, unless clients know it.
    pub fn find_instance(&self, instance: Uuid) {
        let mut instances = self.instances.lock().unwrap();
        if instances.iter().all(|(known, _)| *known != instance) {
            instances.push((instance, None));
        }
    }

    pub fn note(&self, what: &'static str, answer: &SiteResponse) {
        let status = answer.status;
        let fine = (200..500).contains(&status) || status == 503;
        assert!(fine, "{what}: {status} {}", answer.text());
        *self.counts.lock().unwrap().entry((what, status)).or_insert(0) += 1;
    }
}

/// One client.
pub struct Client {
    pub site: Arc<Site>,
    pub storm: Arc<Storm>,
    pub dice: Dice,
    /// Tells its stacks from those of others.
    pub number: usize,
    pub made: usize,
}

impl Client {
    /// Acts until then.
    pub async fn run(mut self, end: Instant) {
        while Instant::now() < end {
            self.act().await;
        }
    }

    async fn act(&mut self) {
        match self.dice.below(100) {
            0..18 => self.create().await,
            18..21 => self.repeat().await,
            21..27 => self.add().await,
            27..32 => self.replace().await,
            32..37 => self.migrate().await,
            37..42 => self.reserve().await,
            42..52 => self.reserve_for_instance().await,
            52..66 => self.arrive().await,
            66..70 => self.arrive_elsewhere().await,
            70..76 => self.come_as_a_stranger().await,
            76..82 => self.move_instance().await,
            82..90 => self.end_instance().await,
            90..92 => self.drop_hold().await,
            92..95 => self.drop_placement().await,
            _ => self.end_plan().await,
        }
    }

    fn stack(&mut self) -> Option<Stack> {
        let stacks = self.storm.stacks.lock().unwrap();
        self.dice.pick(&stacks).cloned()
    }

    fn server(&mut self) -> Option<(Stack, String)> {
        let stack = self.stack()?;
        let server = self.dice.pick(&stack.servers).cloned()?;
        Some((stack, server))
    }

    /// A server or a volume.
    fn resource(&mut self) -> Option<(Stack, String)> {
        let stack = self.stack()?;
        let resource = stack.resource(&mut self.dice)?;
        Some((stack, resource))
    }

    fn instance(&mut self) -> Option<(Uuid, Option<String>)> {
        let instances = self.storm.instances.lock().unwrap();
        self.dice.pick(&instances).cloned()
    }

    async fn create(&mut self) {
        if self.storm.stacks.lock().unwrap().len() >= STACKS_MAX {
            return self.end_plan().await;
        }
        self.made += 1;
        let id = format!("stack-{}-{}", self.number, self.made);
        let stack = Stack::of_chance(id, &mut self.dice);
        self.storm.list(&stack);
        let answer = self.site.planner().post("/v1/plans", stack.body.clone()).await;
        self.storm.note("create", &answer);
        self.list_made(&stack, &answer);
        if ![201, UNKNOWN].contains(&answer.status) {
            self.storm.stacks.lock().unwrap().retain(|other| other.id != stack.id);
        }
    }

    /// Lists a stack whose plan exists or may exist, so that a client ends it at some time. Another client may have
    /// tried to end it before it was made, and taken it off the list.
    fn list_made(&self, stack: &Stack, answer: &SiteResponse) {
        if [201, UNKNOWN].contains(&answer.status) {
            self.storm.list(stack);
        }
    }

    /// Requests the same plan again, sometimes elsewhere, sometimes with other servers.
    async fn repeat(&mut self) {
        let Some(stack) = self.stack() else { return };
        let mut body = stack.body.clone();
        if self.dice.happens(30) {
            let entries = stack.servers.iter().map(|id| (id.clone(), server_in(1, &[])));
            body = plan(&stack.id, entries.collect::<Map<_, _>>().into());
        }
        if self.dice.happens(50) {
            body["locations"] = self.locations();
        }
        let answer = self.site.planner().post("/v1/plans", body).await;
        self.storm.note("repeat", &answer);
        self.list_made(&stack, &answer);
    }

    fn locations(&mut self) -> Value {
        let dice = &mut self.dice;
        let hosts = self.storm.crowd.hosts.iter().filter(|_| dice.happens(40));
        hosts.map(|(_, name)| name.as_str()).collect()
    }

    /// One more server, or an old one in another size.
    async fn add(&mut self) {
        let Some((stack, mut server)) = self.server() else { return };
        if self.dice.happens(60) {
            self.made += 1;
            server = format!("{}-server-{}-{}", stack.id, self.number, self.made);
            let mut stacks = self.storm.stacks.lock().unwrap();
            let known = stacks.iter_mut().find(|it| it.id == stack.id);
            if let Some(known) = known {
                known.servers.push(server.clone());
            }
        }
        let groups = any_groups(&mut self.dice);
        let update = json!({server: any_server(&mut self.dice, &groups)});
        let body = json!({"plan_name": stack.id, "stack_id": stack.id, "resources": {},
                          "resources_update": update, "timeout": "2 sec"});
        let path = format!("/v1/plans/{}", stack.id);
        self.storm.note("add", &self.site.planner().put(&path, body).await);
    }

    /// Other sizes and groups for some of the servers, and without the rest.
    async fn replace(&mut self) {
        let Some(stack) = self.stack() else { return };
        let groups = any_groups(&mut self.dice);
        let mut resources = Map::new();
        for server in &stack.servers {
            if self.dice.happens(70) {
                resources.insert(server.clone(), any_server(&mut self.dice, &groups));
            }
        }
        let body = json!({"action": "update", "resources": resources, "timeout": "2 sec"});
        let path = format!("/v1/plans/{}", stack.id);
        self.storm.note("replace", &self.site.planner().put(&path, body).await);
    }

    async fn migrate(&mut self) {
        let Some((stack, server)) = self.resource() else { return };
        let excluded = if self.dice.happens(30) { self.locations() } else { json!([]) };
        let body = json!({"action": "migrate", "resources": [server], "excluded_hosts": excluded,
                          "timeout": "2 sec"});
        let path = format!("/v1/plans/{}", stack.id);
        self.storm.note("migrate", &self.site.planner().put(&path, body).await);
    }

    async fn reserve(&mut self) {
        let Some((_, server)) = self.resource() else { return };
        let mut body = json!({});
        if self.dice.happens(40) {
            body["locations"] = self.locations();
        }
        let path = format!("/v1/placements/{server}");
        self.storm.note("reserve", &self.site.planner().post(&path, body).await);
    }

    /// A reservation for an instance: mostly a new one, sometimes one that is somewhere already.
    async fn reserve_for_instance(&mut self) {
        let Some((stack, server)) = self.server() else { return };
        let old = self.instance().filter(|_| self.dice.happens(15)).map(|(instance, _)| instance);
        let instance = old.unwrap_or_else(Uuid::new_v4);
        {
            let mut known = self.storm.known();
            known.inhabited.insert(stack.id);
            known.former.extend(self.storm.exclusivity.iter().map(|group| (instance, *group)));
        }
        let mut body = json!({"resource_id": instance});
        if self.dice.happens(30) {
            body["locations"] = self.locations();
        }
        let path = format!("/v1/placements/{server}");
        let answer = self.site.planner().post(&path, body).await;
        self.storm.note("reserve for an instance", &answer);
        // Instances that never come would hide those that have to end one day.
        if [201, UNKNOWN].contains(&answer.status) {
            self.storm.instances.lock().unwrap().push((instance, Some(server)));
        }
    }

    /// The instance arrives on its planned host.
    async fn arrive(&mut self) {
        let Some((instance, Some(server))) = self.instance() else { return };
        let shown = self.site.planner().get(&format!("/v1/placements/{server}")).await;
        self.storm.note("show", &shown);
        if shown.status != 200 {
            return;
        }
        let held = self.site.held_by(text(&shown.json()["id"])).await;
        if held.as_object().unwrap().is_empty() {
            return;
        }
        let answer = self.put(instance, claimable(&held)).await;
        self.storm.note("arrive", &answer);
    }

    async fn put(&self, instance: Uuid, allocations: Value) -> SiteResponse {
        let path = format!("/allocations/{instance}");
        let shown = self.site.placement().get(&path).await.expect(200).json();
        let generation = shown["consumer_generation"].as_i64();
        self.site.claims(instance, claim(allocations, generation)).await
    }

    /// A place that everybody may have.
    async fn candidate(&mut self) -> Option<Value> {
        let [vcpu, memory_mb, disk_gb] = amounts(1 + i64::try_from(self.dice.below(2)).unwrap());
        let path = format!(
            "/allocation_candidates?resources=VCPU:{vcpu},MEMORY_MB:{memory_mb},DISK_GB:{disk_gb}\
             &limit=20"
        );
        let answer = self.site.placement().get(&path).await.expect(200).json();
        let found = answer["allocation_requests"].as_array().unwrap();
        self.dice.pick(found).map(|it| claimable(&it["allocations"]))
    }

    async fn arrive_elsewhere(&mut self) {
        let Some((instance, _)) = self.instance() else { return };
        let Some(place) = self.candidate().await else { return };
        let answer = self.put(instance, place).await;
        self.storm.note("arrive elsewhere", &answer);
    }

    async fn come_as_a_stranger(&mut self) {
        let Some(place) = self.candidate().await else { return };
        let stranger = Uuid::new_v4();
        self.storm.instances.lock().unwrap().push((stranger, None));
        let answer = self.site.claims(stranger, claim(place, None)).await;
        self.storm.note("come as a stranger", &answer);
    }

    /// As a compute service does: what the instance holds goes to the migration, the instance to the
    /// target, and if it may not go there, back again.
    async fn move_instance(&mut self) {
        let Some((instance, _)) = self.instance() else { return };
        let placement = self.site.placement();
        let shown = placement.get(&format!("/allocations/{instance}")).await.expect(200).json();
        let Some(generation) = shown["consumer_generation"].as_i64() else { return };
        let held = claimable(&shown["allocations"]);
        let migration = Uuid::new_v4();
        self.storm.known().migrations.insert(migration);
        let body = json!({
            instance.to_string(): claim(json!({}), Some(generation)),
            migration.to_string(): claim(held.clone(), None),
        });
        let answer = placement.post("/allocations", body).await;
        self.storm.note("begin a migration", &answer);
        if answer.status == UNKNOWN {
            self.storm.find_instance(migration);
        }
        if answer.status != 204 {
            return;
        }
        let mut arrived = false;
        if let Some(place) = self.candidate().await {
            let answer = self.site.claims(instance, claim(place, None)).await;
            self.storm.note("go to the target", &answer);
            arrived = answer.status == 204;
        }
        if !arrived {
            let body = json!({
                instance.to_string(): claim(held, None),
                migration.to_string(): claim(json!({}), Some(1)),
            });
            self.storm.note("go back", &placement.post("/allocations", body).await);
        }
        let answer = placement.delete(&format!("/allocations/{migration}")).await;
        self.storm.note("end a migration", &answer);
        if answer.status == UNKNOWN {
            self.storm.find_instance(migration);
        }
    }

    async fn end_instance(&mut self) {
        let Some((instance, _)) = self.instance() else { return };
        let answer = self.site.placement().delete(&format!("/allocations/{instance}")).await;
        self.storm.note("end an instance", &answer);
        let is_gone = answer.status == 404 || self.dice.happens(60);
        if is_gone && answer.status != UNKNOWN {
            self.storm.instances.lock().unwrap().retain(|(other, _)| *other != instance);
        }
    }

    /// Deletes the hold of a plan, as any client might.
    async fn drop_hold(&mut self) {
        let Some((_, server)) = self.resource() else { return };
        let shown = self.site.planner().get(&format!("/v1/placements/{server}")).await;
        if shown.status != 200 {
            return;
        }
        let id = text(&shown.json()["id"]).to_owned();
        self.storm.known().dropped.insert(id.parse().unwrap());
        let answer = self.site.placement().delete(&format!("/allocations/{id}")).await;
        self.storm.note("drop a hold", &answer);
    }

    async fn drop_placement(&mut self) {
        let Some((_, server)) = self.resource() else { return };
        let answer = self.site.planner().delete(&format!("/v1/placements/{server}")).await;
        self.storm.note("drop a placement", &answer);
    }

    async fn end_plan(&mut self) {
        let Some(stack) = self.stack() else { return };
        let answer = self.site.planner().delete(&format!("/v1/plans/{}", stack.id)).await;
        self.storm.note("end a plan", &answer);
        if answer.status == UNKNOWN {
            return;
        }
        self.storm.stacks.lock().unwrap().retain(|other| other.id != stack.id);
    }
}

/// Ends everything there is, and sees that nothing is left.
pub async fn calm(site: &Site) {
    let plans = site.planner().get("/v1/plans").await.expect(200).json();
    let plans: HashSet<&str> = plans.as_array().unwrap().iter().map(text).collect();
    for stack in plans {
        site.planner().delete(&format!("/v1/plans/{stack}")).await.expect(204);
    }
    site.assert_true(&Known { migrations: consumers(site).await, ..Known::default() }).await;
    for consumer in consumers(site).await {
        site.placement().delete(&format!("/allocations/{consumer}")).await.expect(204);
    }
    site.assert_empty().await;
}

async fn consumers(site: &Site) -> HashSet<Uuid> {
    let all: Vec<Uuid> = sqlx::query_scalar("select uuid from consumers")
        .fetch_all(&mut site.session().await)
        .await
        .unwrap();
    all.into_iter().collect()
}
