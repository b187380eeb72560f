//! An operator in the storm: devices are added to hosts, moved, renamed, given traits and removed,
//! and hosts get their present inventories again.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use uuid::Uuid;

use crate::site::Site;
use crate::storm::Storm;

/// The operator of one replica.
pub struct Upkeep {
    pub site: Arc<Site>,
    pub storm: Arc<Storm>,
    /// Tells its devices from those of others.
    pub number: usize,
}

impl Upkeep {
    /// Works until then.
    pub async fn run(self, end: Instant) {
        let mut round = self.number;
        while Instant::now() < end {
            self.tend(round).await;
            round += 1;
        }
    }

    /// Adds a device to one host, moves it to the next, and removes it; then writes the present inventories of both
    /// hosts.
    async fn tend(&self, round: usize) {
        let hosts = &self.storm.crowd.hosts;
        let [one, two] = [hosts[round % hosts.len()].0, hosts[(round + 5) % hosts.len()].0];
        let (placement, device) = (self.site.placement(), Uuid::new_v4());
        let name = format!("device-{}-{round}", self.number);
        let path = format!("/resource_providers/{device}");
        let body = json!({"name": name, "uuid": device, "parent_provider_uuid": one});
        self.storm.note("create a device", &placement.post("/resource_providers", body).await);
        let body = json!({"name": name, "parent_provider_uuid": two});
        self.storm.note("move a device", &placement.put(&path, body).await);
        let body = json!({"name": format!("{name}-moved")});
        self.storm.note("rename a device", &placement.put(&path, body).await);
        for host in [two, one] {
            let host = format!("/resource_providers/{host}/inventories");
            let had = placement.get(&host).await.expect(200).json();
            self.storm.note("put inventories", &placement.put(&host, had).await);
        }
        let body = json!({"resource_provider_generation": 0, "traits": ["HW_CPU_X86_AVX2"]});
        let traits = placement.put(&format!("{path}/traits"), body).await;
        self.storm.note("give a trait", &traits);
        self.storm.note("delete a device", &placement.delete(&path).await);
        self.find_lost(one).await;
    }

    /// Makes consumers known again that hold something on a host and that no client knows any more, because
    /// one ended them while another brought them back. Otherwise they would fill the cloud.
    async fn find_lost(&self, host: Uuid) {
        let path = format!("/resource_providers/{host}/allocations");
        let placement = self.site.placement();
        let there = placement.get(&path).await.expect(200).json();
        for consumer in there["allocations"].as_object().unwrap().keys() {
            let path = format!("/allocations/{consumer}");
            let shown = placement.get(&path).await.expect(200).json();
            if shown["allocations"] != json!({}) && shown["consumer_type"] != "VALET_PLAN" {
                self.storm.find_instance(consumer.parse().unwrap());
            }
        }
    }
}
