//! A small cloud of every shape: three racks of four hosts, of which those of the second have two
//! nodes with processors and memory of their own, and those of the third draw on a shared disk.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Host, Site};

const VCPU: i64 = 8;
const MEMORY_MB: i64 = 8192;
const DISK_GB: i64 = 100;
const HOSTS: usize = 4;

/// The cloud.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// The roots and names of hosts, rack by rack.
    pub hosts: Vec<(Uuid, String)>,
    /// The shared disk.
    pub disk: Uuid,
}

impl Crowd {
    pub async fn new(site: &Site) -> Self {
        let mut hosts = Vec::new();
        let disk = provider(site, "disk", None, json!({"DISK_GB": {"total": 4 * DISK_GB}})).await;
        let sharing = ["MISC_SHARES_VIA_AGGREGATE".to_owned()];
        dress(site, disk, &sharing).await;
        let aggregate = Uuid::new_v4();
        gather(site, disk, aggregate).await;
        for nth in 1..=HOSTS {
            let name = format!("r01h{nth:02}");
            let all = [VCPU, MEMORY_MB, DISK_GB];
            let host = Host { name: &name, size: all, traits: &["CUSTOM_RACK_R01"] };
            hosts.push((site.hosts(&[host]).await[0], name));
        }
        for nth in 1..=HOSTS {
            let name = format!("r02h{nth:02}");
            let root = provider(site, &name, None, json!({"DISK_GB": {"total": DISK_GB}})).await;
            dress(site, root, &["CUSTOM_RACK_R02".to_owned()]).await;
            for node in 0..2 {
                let half =
                    json!({"VCPU": {"total": VCPU / 2}, "MEMORY_MB": {"total": MEMORY_MB / 2}});
                provider(site, &format!("{name}-node{node}"), Some(root), half).await;
            }
            hosts.push((root, name));
        }
        for nth in 1..=HOSTS {
            let name = format!("r03h{nth:02}");
            let own = json!({"VCPU": {"total": VCPU}, "MEMORY_MB": {"total": MEMORY_MB}});
            let root = provider(site, &name, None, own).await;
            dress(site, root, &["CUSTOM_RACK_R03".to_owned()]).await;
            gather(site, root, aggregate).await;
            hosts.push((root, name));
        }
        Self { hosts, disk }
    }
}

async fn provider(site: &Site, name: &str, parent: Option<Uuid>, inventories: Value) -> Uuid {
    let id = Uuid::new_v4();
    let placement = site.placement();
    let body = json!({"name": name, "uuid": id, "parent_provider_uuid": parent});
    placement.post("/resource_providers", body).await.expect(200);
    let path = format!("/resource_providers/{id}/inventories");
    let body = json!({"resource_provider_generation": 0, "inventories": inventories});
    placement.put(&path, body).await.expect(200);
    id
}

async fn dress(site: &Site, provider: Uuid, traits: &[String]) {
    let placement = site.placement();
    for name in traits.iter().filter(|name| name.starts_with("CUSTOM_")) {
        placement.put(&format!("/traits/{name}"), json!({})).await;
    }
    let path = format!("/resource_providers/{provider}/traits");
    let body = json!({"resource_provider_generation": 1, "traits": traits});
    placement.put(&path, body).await.expect(200);
}

async fn gather(site: &Site, provider: Uuid, aggregate: Uuid) {
    let path = format!("/resource_providers/{provider}/aggregates");
    let body = json!({"resource_provider_generation": 2, "aggregates": [aggregate]});
    site.placement().put(&path, body).await.expect(200);
}
