//! `/reshaper`: moving inventory and allocations in one step, as docs/api/reshaper.md specifies it.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::{ApiResponse, Berth};
use crate::support::cloud::{Host, claim_body};

/// A host whose GPU becomes a provider below it, and a consumer with allocations of both.
struct Cloud {
    /// Sends requests as a caller with the role `service`.
    berth: Berth,
    host: Host,
    gpu: Host,
    consumer: Uuid,
}

impl Cloud {
    async fn new() -> Self {
        let berth = Berth::new().await.header("x-roles", "admin,service");
        let host = berth.host("host", &[("VCPU", 8), ("VGPU", 1)]).await;
        let gpu = berth.child("gpu", Some(host), &[]).await;
        let consumer = Uuid::new_v4();
        berth.claim(consumer, None, &[(host, "VCPU", 2), (host, "VGPU", 1)]).await.expect(204);
        Self { berth, host, gpu, consumer }
    }

    /// Returns the inventories after the move.
    async fn inventories(&self) -> Value {
        let of = async |host, totals: Value| {
            json!({"resource_provider_generation": self.berth.generation(host).await,
                   "inventories": totals})
        };
        json!({self.host.0.to_string(): of(self.host, json!({"VCPU": {"total": 8}})).await,
               self.gpu.0.to_string(): of(self.gpu, json!({"VGPU": {"total": 1}})).await})
    }

    /// Returns the allocations after the move, with this generation of the consumer.
    fn allocations(&self, generation: i64) -> Value {
        let wants = [(self.host, "VCPU", 2), (self.gpu, "VGPU", 1)];
        json!({self.consumer.to_string(): claim_body(Some(generation), &wants)})
    }

    async fn reshape(&self, inventories: Value, allocations: Value) -> ApiResponse {
        let body = json!({"inventories": inventories, "allocations": allocations});
        self.berth.post("/reshaper", body).await
    }

    /// Returns the state that a refused request must not change.
    async fn state(&self) -> (Value, Value, Value) {
        let berth = &self.berth;
        (
            berth.usages(self.host).await,
            berth.usages(self.gpu).await,
            berth.held(self.consumer).await,
        )
    }
}

#[tokio::test]
async fn inventory_moves_with_its_allocations() {
    let cloud = Cloud::new().await;
    cloud.reshape(cloud.inventories().await, cloud.allocations(1)).await.expect(204);
    assert_eq!(cloud.berth.usages(cloud.host).await, json!({"VCPU": 2}));
    assert_eq!(cloud.berth.usages(cloud.gpu).await, json!({"VGPU": 1}));
    let held = cloud.berth.held(cloud.consumer).await;
    assert_eq!(held[cloud.gpu.0.to_string()]["resources"], json!({"VGPU": 1}));
    cloud.berth.assert_consistent().await;
}

#[tokio::test]
async fn a_class_that_remains_allocated_is_not_removed() {
    let cloud = Cloud::new().await;
    let before = cloud.state().await;
    let refused = cloud.reshape(cloud.inventories().await, json!({})).await.expect(409);
    assert_eq!(refused.code(), "placement.inventory.inuse");
    assert_eq!(cloud.state().await, before);
}

#[tokio::test]
async fn generations_of_providers_and_consumers_are_checked() {
    let cloud = Cloud::new().await;
    let before = cloud.state().await;
    let refused = cloud.reshape(cloud.inventories().await, cloud.allocations(7)).await.expect(409);
    assert_eq!(refused.code(), "placement.concurrent_update");
    let mut inventories = cloud.inventories().await;
    inventories[cloud.gpu.0.to_string()]["resource_provider_generation"] = json!(7);
    let refused = cloud.reshape(inventories, cloud.allocations(1)).await.expect(409);
    assert_eq!(refused.code(), "placement.concurrent_update");
    assert_eq!(cloud.state().await, before);
}

#[tokio::test]
async fn allocations_must_fit_the_new_inventories() {
    let cloud = Cloud::new().await;
    let before = cloud.state().await;
    let mut allocations = cloud.allocations(1);
    let held = &mut allocations[cloud.consumer.to_string()]["allocations"];
    held[cloud.host.0.to_string()]["resources"]["VCPU"] = json!(9);
    let refused = cloud.reshape(cloud.inventories().await, allocations).await.expect(409);
    assert_eq!(refused.code(), "placement.undefined_code");
    assert_eq!(cloud.state().await, before);
}

#[tokio::test]
async fn callers_without_the_role_and_unknown_providers_are_refused() {
    let cloud = Cloud::new().await;
    let body = json!({"inventories": cloud.inventories().await, "allocations": {}});
    let admin = cloud.berth.header("x-roles", "admin");
    admin.post("/reshaper", body.clone()).await.expect(403);
    cloud.berth.at("1.29").post("/reshaper", body).await.expect(404);
    let nowhere =
        json!({Uuid::new_v4().to_string(): {"resource_provider_generation": 0, "inventories": {}}});
    let refused = cloud.reshape(nowhere, json!({})).await.expect(400);
    assert_eq!(refused.code(), "placement.resource_provider.not_found");
    cloud.reshape(json!({}), json!({})).await.expect(400);
}
