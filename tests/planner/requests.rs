//! Requests of stacks in the tests of invariants, and their results in one line each.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::site::{Asker, Site, SiteResponse};

/// The project whose stacks these are.
pub const PROJECT: &str = "5c0ff8a4-3a3d-4c4e-9f5e-2b6a0e6f1d33";

/// Returns a server with this number of `VCPU`, with memory and disk in proportion.
pub fn server(vcpu: i64) -> Value {
    server_in(vcpu, &[])
}

/// The same in stored groups.
pub fn server_in(vcpu: i64, groups: &[&str]) -> Value {
    let [class_vcpu, memory_mb, disk_gb] = amounts(vcpu);
    json!({
        "type": "OS::Nova::Server",
        "properties": {
            "resources": {"VCPU": class_vcpu, "MEMORY_MB": memory_mb, "DISK_GB": disk_gb},
            "metadata": {"valet": {"groups": groups}},
        },
    })
}

/// Returns the `VCPU`, `MEMORY_MB` and `DISK_GB` of a server with this number of `VCPU`.
pub fn amounts(vcpu: i64) -> [i64; 3] {
    [vcpu, 512 * vcpu, 5 * vcpu]
}

/// A group of one request.
pub fn bound(kind: &str, level: &str, servers: &[String]) -> Value {
    json!({
        "type": "ATT::Valet::GroupAssignment",
        "properties": {"group_type": kind, "level": level, "resources": servers},
    })
}

/// Resources by their ids.
pub fn resources<'r>(entries: impl IntoIterator<Item = (&'r str, Value)>) -> Value {
    entries.into_iter().map(|(id, entry)| (id.to_owned(), entry)).collect::<Map<_, _>>().into()
}

/// The body that creates a plan.
pub fn plan(stack: &str, resources: Value) -> Value {
    let mut body = json!({"plan_name": stack, "stack_id": stack, "timeout": "2 sec"});
    body["resources"] = resources;
    body
}

/// A claim of an instance with these allocations, which is expected at this generation.
pub fn claim(allocations: Value, generation: Option<i64>) -> Value {
    let mut body = json!({
        "project_id": PROJECT,
        "user_id": "user",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    });
    body["allocations"] = allocations;
    body
}

/// Returns a claim on one host that has all inventories itself.
pub fn claim_on(host: Uuid, vcpu: i64) -> Value {
    let [class_vcpu, memory_mb, disk_gb] = amounts(vcpu);
    let wanted = json!({"VCPU": class_vcpu, "MEMORY_MB": memory_mb, "DISK_GB": disk_gb});
    claim(json!({host.to_string(): {"resources": wanted}}), None)
}

/// Makes a stored group that the project may use.
pub async fn group(site: &Site, name: &str, kind: &str, level: &str) -> Uuid {
    let body = json!({"name": name, "type": kind, "level": level});
    let made = site.admin().post("/v1/groups", body).await.expect(201).json();
    if kind == "exclusivity" {
        let body = json!({"members": [PROJECT]});
        site.admin().put(&format!("/v1/groups/{name}/members"), body).await.expect(201);
    }
    made["id"].as_str().unwrap().parse().unwrap()
}

impl Site {
    /// Returns the planner's client for an administrator of the project of the stacks.
    pub fn planner(&self) -> Asker {
        self.admin_of(PROJECT)
    }

    /// Creates a plan.
    pub async fn planned(&self, stack: &str, resources: Value) -> Value {
        self.planner().post("/v1/plans", plan(stack, resources)).await.expect(201).json()
    }

    /// The placement of a server.
    pub async fn placement_of(&self, server: &str) -> Value {
        self.planner().get(&format!("/v1/placements/{server}")).await.expect(200).json()
    }

    /// Returns the allocations of a consumer, by provider.
    pub async fn held_by(&self, consumer: impl std::fmt::Display) -> Value {
        let path = format!("/allocations/{consumer}");
        self.placement().get(&path).await.expect(200).json()["allocations"].clone()
    }

    /// Claims for an instance.
    pub async fn claims(&self, instance: Uuid, body: Value) -> SiteResponse {
        self.placement().put(&format!("/allocations/{instance}"), body).await
    }

    /// Reserves a placement for an instance.
    pub async fn reserves(&self, placement: &Value, instance: Uuid) -> SiteResponse {
        let path = format!("/v1/placements/{}", text(&placement["id"]));
        self.planner().post(&path, json!({"resource_id": instance})).await
    }
}

/// A JSON text.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// Returns the reported allocations in the form of a claim.
pub fn claimable(held: &Value) -> Value {
    let held = held.as_object().unwrap();
    let amounts = held.iter().map(|(id, it)| (id.clone(), json!({"resources": it["resources"]})));
    amounts.collect::<Map<_, _>>().into()
}
