//! Stacks as orchestrators send them, and what can be seen of them afterwards.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Asker, Site};

/// Usages by resource class, by the names of hosts.
pub type Usages = BTreeMap<String, Value>;

/// Returns a server with this number of `VCPU`.
pub fn server(name: &str, vcpu: i64) -> Value {
    json!({
        "type": "OS::Nova::Server",
        "name": name,
        "properties": {"resources": {"VCPU": vcpu}},
    })
}

/// A server of a flavor.
pub fn flavored(name: &str, flavor: &str) -> Value {
    json!({"type": "OS::Nova::Server", "name": name, "properties": {"flavor": flavor}})
}

/// A resource with one more property.
pub fn with(mut resource: Value, property: &str, value: Value) -> Value {
    resource["properties"][property] = value;
    resource
}

/// A resource with one more key of its own.
pub fn having(mut resource: Value, key: &str, value: Value) -> Value {
    resource[key] = value;
    resource
}

/// A group of this request only.
pub fn group(kind: &str, level: &str, members: &[&str]) -> Value {
    json!({
        "type": "ATT::Valet::GroupAssignment",
        "properties": {"group_type": kind, "level": level, "resources": members},
    })
}

/// A stored group, by its kind and its name.
pub fn named(kind: &str, name: &str, members: &[&str]) -> Value {
    with(group(kind, "host", members), "group_name", json!(name))
}

/// A stored group, by its id or name.
pub fn stored(group: &str, members: &[&str]) -> Value {
    json!({
        "type": "OS::Valet::GroupAssignment",
        "properties": {"group": group, "resources": members},
    })
}

/// Returns the body of a plan whose name is the id of its stack.
pub fn plan(stack: &str, resources: Value) -> Value {
    let mut body = json!({"plan_name": stack, "stack_id": stack});
    body["resources"] = resources;
    body
}

/// Makes a plan.
pub async fn create(asker: &Asker, stack: &str, resources: Value) -> Value {
    asker.post("/v1/plans", plan(stack, resources)).await.expect(201).json()
}

/// The hosts of a plan's servers, by the ids of the orchestrator.
pub fn hosts(plan: &Value) -> BTreeMap<String, String> {
    let placements = plan["placements"].as_object().unwrap().iter();
    let host = |placement: &Value| placement["location"].as_str().unwrap_or("nowhere").to_owned();
    placements.map(|(id, placement)| (id.clone(), host(placement))).collect()
}

/// Returns the number of servers of a plan on each rack or host, by the first characters of the host's name.
pub fn counts(plan: &Value, characters: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for host in hosts(plan).values() {
        *counts.entry(host[..characters].to_owned()).or_insert(0) += 1;
    }
    counts
}

/// The host of one server of a plan.
pub fn host(plan: &Value, server: &str) -> String {
    hosts(plan)[server].clone()
}

/// A plan without what its servers draw on, as Valet shows it.
pub fn bare(plan: &Value) -> Value {
    let mut plan = plan.clone();
    for placement in plan["placements"].as_object_mut().unwrap().values_mut() {
        let members = placement.as_object_mut().unwrap();
        assert!(members.remove("id").is_some() && members.remove("allocations").is_some());
    }
    plan
}

/// A plan as it is shown.
pub async fn show(asker: &Asker, stack: &str) -> Value {
    asker.get(&format!("/v1/plans/{stack}")).await.expect(200).json()
}

/// A placement as it is shown.
pub async fn placement(asker: &Asker, id: &str) -> Value {
    asker.get(&format!("/v1/placements/{id}")).await.expect(200).json()
}

/// All placements.
pub async fn placements(asker: &Asker) -> Value {
    asker.get("/v1/placements").await.expect(200).json()
}

/// Reserves a placement on one of these hosts.
pub async fn reserve(asker: &Asker, id: &str, locations: &[&str]) -> Value {
    let body = json!({"locations": locations});
    asker.post(&format!("/v1/placements/{id}"), body).await.expect(201).json()
}

/// Makes a stored group.
pub async fn store_group(site: &Site, name: &str, kind: &str, level: &str, members: &[&str]) {
    let body = json!({"name": name, "type": kind, "level": level});
    site.admin().post("/v1/groups", body).await.expect(201);
    let path = format!("/v1/groups/{name}/members");
    site.admin().put(&path, json!({"members": members})).await.expect(201);
}

/// Returns the usages of every provider, from the Placement API.
pub async fn usages(site: &Site) -> Usages {
    let placement = site.placement();
    let providers = placement.get("/resource_providers").await.expect(200).json();
    let mut usages = Usages::new();
    for provider in providers["resource_providers"].as_array().unwrap() {
        let uuid = provider["uuid"].as_str().unwrap();
        let used = placement.get(&format!("/resource_providers/{uuid}/usages")).await.expect(200);
        usages.insert(provider["name"].as_str().unwrap().to_owned(), used.json()["usages"].clone());
    }
    usages
}

/// Returns the used `VCPU` of each host with any in use.
pub async fn vcpus(site: &Site) -> BTreeMap<String, i64> {
    let used = usages(site).await.into_iter();
    let used = used.map(|(name, used)| (name, used["VCPU"].as_i64().unwrap_or(0)));
    used.filter(|(_, vcpus)| *vcpus > 0).collect()
}

/// Deletes all plans, whose names are the ids of their stacks. All is as it was before then.
pub async fn finish(site: &Site, before: &Usages) {
    let admin = site.admin();
    for plan in admin.get("/v1/plans").await.expect(200).json().as_array().unwrap() {
        admin.delete(&format!("/v1/plans/{}", plan.as_str().unwrap())).await.expect(204);
    }
    assert_eq!(placements(&admin).await, json!([]));
    assert_eq!(&usages(site).await, before);
    site.assert_consistent().await;
}

/// Returns the allocations of a consumer, by the ids of providers.
pub async fn allocations(site: &Site, consumer: &str) -> Value {
    let found = site.placement().get(&format!("/allocations/{consumer}")).await.expect(200);
    found.json()["allocations"].clone()
}

/// Returns the body with which an instance of the project `p`, as Nova does it, claims `VCPU` of a provider.
pub fn claim(provider: Uuid, vcpu: i64) -> Value {
    claim_of("p", provider, vcpu)
}

/// The same of another project.
pub fn claim_of(project: &str, provider: Uuid, vcpu: i64) -> Value {
    json!({
        "allocations": {provider.to_string(): {"resources": {"VCPU": vcpu}}},
        "project_id": project,
        "user_id": "u",
        "consumer_generation": null,
        "consumer_type": "INSTANCE",
    })
}

/// Makes an instance of the project `p` claim `VCPU` of a provider.
pub async fn arrive(site: &Site, instance: Uuid, provider: Uuid, vcpu: i64) {
    arrive_of(site, "p", instance, provider, vcpu).await;
}

/// The same of another project.
pub async fn arrive_of(site: &Site, project: &str, instance: Uuid, provider: Uuid, vcpu: i64) {
    let path = format!("/allocations/{instance}");
    site.placement().put(&path, claim_of(project, provider, vcpu)).await.expect(204);
}
