//! Building and claiming, a line each.

use serde_json::{Value, json};
use uuid::Uuid;

use super::app::{ApiResponse, Berth};

/// A provider with inventories.
#[derive(Clone, Copy, Debug)]
pub struct Host(pub Uuid);

impl Berth {
    /// A root provider with these totals.
    pub async fn host(&self, name: &str, totals: &[(&str, i64)]) -> Host {
        self.child(name, None, totals).await
    }

    /// A provider below another.
    pub async fn child(&self, name: &str, parent: Option<Host>, totals: &[(&str, i64)]) -> Host {
        let uuid = Uuid::new_v4();
        let parent = parent.map(|parent| parent.0);
        let body = json!({"name": name, "uuid": uuid, "parent_provider_uuid": parent});
        self.at("1.39").post("/resource_providers", body).await.expect(200);
        let host = Host(uuid);
        if !totals.is_empty() {
            self.stock(host, 0, totals).await.expect(200);
        }
        host
    }

    /// Replaces a provider's inventories.
    pub async fn stock(&self, host: Host, generation: i64, totals: &[(&str, i64)]) -> ApiResponse {
        let inventories: serde_json::Map<String, Value> = totals
            .iter()
            .map(|(class, total)| ((*class).to_owned(), json!({"total": total})))
            .collect();
        let body = json!({"resource_provider_generation": generation, "inventories": inventories});
        self.put(&format!("/resource_providers/{}/inventories", host.0), body).await
    }

    /// Claims for a consumer, which is expected at a generation (`None`: not to exist).
    pub fn claim<'b>(
        &'b self,
        consumer: Uuid,
        generation: Option<i64>,
        wants: &[(Host, &str, i64)],
    ) -> impl Future<Output = ApiResponse> + use<'b> {
        let body = claim_body(generation, wants);
        async move { self.put(&format!("/allocations/{consumer}"), body).await }
    }

    /// Returns the usage of a provider by class.
    pub async fn usages(&self, host: Host) -> Value {
        let answer = self.get(&format!("/resource_providers/{}/usages", host.0)).await.expect(200);
        answer.json()["usages"].clone()
    }

    /// Returns the allocations of a consumer.
    pub async fn held(&self, consumer: Uuid) -> Value {
        self.get(&format!("/allocations/{consumer}")).await.expect(200).json()["allocations"]
            .clone()
    }

    pub async fn generation(&self, host: Host) -> i64 {
        let answer = self.get(&format!("/resource_providers/{}", host.0)).await.expect(200);
        answer.json()["generation"].as_i64().unwrap()
    }
}

/// The body of `PUT /allocations/{consumer}` at the newest microversion.
pub fn claim_body(generation: Option<i64>, wants: &[(Host, &str, i64)]) -> Value {
    let mut allocations = serde_json::Map::new();
    for (host, class, amount) in wants {
        let entry =
            allocations.entry(host.0.to_string()).or_insert_with(|| json!({"resources": {}}));
        entry["resources"][*class] = json!(amount);
    }
    json!({
        "allocations": allocations,
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    })
}
