//! Plans that are much work: they end in their time, and what is too large is refused with words.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use berth::fairness::watch::Watch;
use berth::http::app::{App, Options};
use berth::store::Store;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::site::Site;
use crate::stack::plan;
use crate::support::app::store_at;
use crate::support::postgres;

/// A site on whose watch a millisecond passes with each look of a search at it: after a bounded amount
/// of work, whatever the machine.
async fn site() -> Site {
    let database = postgres::database().await;
    let store = Store::open(store_at(&database)).await.unwrap();
    let (began, looks) = (Instant::now(), AtomicU32::new(0));
    let moment = Duration::from_millis(1);
    let watch = Watch::of(move || began + moment * looks.fetch_add(1, Ordering::Relaxed));
    Site::serving(App::new(store, Options::default()).with_watch(watch), &database).await
}

/// Creates a host with `children` children for each class, each with one inventory of it.
async fn tree(site: &Site, name: &str, classes: &[&str], children: usize) {
    let placement = site.placement();
    let root = Uuid::new_v4();
    let body = json!({"name": name, "uuid": root});
    placement.post("/resource_providers", body).await.expect(200);
    for class in classes {
        for nth in 0..children {
            let id = Uuid::new_v4();
            let body = json!({"name": format!("{name}-{class}-{nth}"), "uuid": id,
                              "parent_provider_uuid": root});
            placement.post("/resource_providers", body).await.expect(200);
            let path = format!("/resource_providers/{id}/inventories");
            let body = json!({"resource_provider_generation": 0,
                              "inventories": {*class: {"total": 4}}});
            placement.put(&path, body).await.expect(200);
        }
    }
}

fn server(amounts: &[(&str, i64)]) -> Value {
    let amounts: Map<String, Value> =
        amounts.iter().map(|(class, amount)| ((*class).to_owned(), json!(amount))).collect();
    json!({"type": "OS::Nova::Server", "name": "a", "properties": {"resources": amounts}})
}

/// There are 16 million ways to put it on this host, of which a few are enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_very_many_ways_is_left_as_soon_as_there_are_enough() {
    let classes = [
        "VCPU",
        "MEMORY_MB",
        "DISK_GB",
        "PCI_DEVICE",
        "SRIOV_NET_VF",
        "IPV4_ADDRESS",
        "VGPU",
        "FPGA",
    ];
    let site = site().await;
    tree(&site, "many", &classes, 8).await;
    let one = server(&classes.map(|class| (class, 1)));
    let mut body = plan("s", json!({"a": one}));
    body["timeout"] = json!("1 sec");
    let made = site.tenant("p").post("/v1/plans", body).await.expect(201).json();
    assert_eq!(made["placements"]["a"]["location"], "many");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_with_very_many_sizes_is_refused() {
    let site = site().await;
    site.racks(1, 1, [9999, 9999, 9999]).await;
    let sizes = |count: i64| -> Value {
        let one = |nth: i64| (format!("s{nth}"), server(&[("VCPU", 1 + nth)]));
        Value::Object((0..count).map(one).collect())
    };
    let why = site.tenant("p").post("/v1/plans", plan("s", sizes(501))).await.explanation(400);
    assert_eq!(
        why,
        "Valet error: the servers of a plan may have at most 500 different sizes, but have 501"
    );
    // This number of servers is accepted, and there is no room for them.
    let why = site.tenant("p").post("/v1/plans", plan("s", sizes(500))).await.explanation(409);
    assert!(why.starts_with("Ostro error: "), "{why}");
}
