//! Explanations on hosts that are trees, with traits on some of their providers, beside a pool of volumes.

use serde_json::{Map, Value, json};

use crate::dice::Dice;
use crate::explanations::fits;
use crate::site::Site;
use crate::stack::{group, plan, server, with};
use crate::trees::provider;

const GPU_TRAITS: [&str; 2] = ["CUSTOM_V100", "CUSTOM_T4"];

/// Three hosts, two of them with graphics cards, and a pool with more disk than all of them.
async fn cloud(site: &Site) {
    let inventory = |class: &str, total: i64| json!({class: {"total": total}});
    for (name, vcpu, cards) in [
        ("h1", 8, &[("CUSTOM_V100", 2), ("CUSTOM_T4", 4)][..]),
        ("h2", 4, &[("CUSTOM_V100", 1)]),
        ("h3", 16, &[]),
    ] {
        let own = json!({"VCPU": {"total": vcpu}, "MEMORY_MB": {"total": 1000}, "DISK_GB": {"total": 1000}});
        let root = provider(site, name, None, own, &[]).await;
        for (name_of_trait, total) in cards {
            site.placement().put(&format!("/traits/{name_of_trait}"), json!({})).await;
            let card = format!("{name}-{name_of_trait}");
            provider(site, &card, Some(root), inventory("VGPU", *total), &[*name_of_trait]).await;
        }
    }
    site.placement().put("/traits/CUSTOM_STORAGE_BACKEND", json!({})).await;
    provider(site, "pool", None, inventory("DISK_GB", 9999), &["CUSTOM_STORAGE_BACKEND"]).await;
}

fn with_gpus(id: &str, vcpu: usize, gpus: usize, required: &[&str]) -> Value {
    let mut amounts = json!({"VCPU": vcpu, "MEMORY_MB": 1, "DISK_GB": 10});
    if gpus > 0 {
        amounts["VGPU"] = json!(gpus);
    }
    with(with(server(id, 1), "resources", amounts), "required", json!(required))
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_cards_of_a_kind_are_named_with_the_hosts_that_have_some() {
    let site = Site::new().await;
    cloud(&site).await;
    let servers =
        ["a", "b", "c", "d"].map(|id| (id.to_owned(), with_gpus(id, 1, 1, &["CUSTOM_V100"])));
    let resources = Value::Object(servers.into_iter().collect());
    let why = site.admin().post("/v1/plans", plan("s", resources)).await.explanation(409);
    assert!(
        why.starts_with(
            "Ostro error: 4 servers (a, b, c, d) do not fit together on the 2 hosts that one of them fits on: \
             h1, h2; "
        ),
        "{why}"
    );
    assert!(why.contains("VGPU: 4 needed") && !why.contains("DISK_GB"), "{why}");
}

fn random_stack(dice: &mut Dice) -> Map<String, Value> {
    let ids: Vec<String> = (0..=dice.below(5)).map(|nth| format!("s{nth}")).collect();
    let mut resources = Map::new();
    for id in &ids {
        let gpus = if dice.happens(60) { 1 + dice.below(3) } else { 0 };
        let kind = *dice.pick(&GPU_TRAITS).unwrap();
        let required: &[&str] = if gpus > 0 && dice.happens(70) { &[kind] } else { &[] };
        resources.insert(id.clone(), with_gpus(id, 1 + dice.below(8), gpus, required));
    }
    for nth in 0..dice.below(3) {
        let members: Vec<&str> =
            ids.iter().filter(|_| dice.happens(60)).map(String::as_str).collect();
        let kind = dice.pick(&["affinity", "diversity"]).unwrap();
        resources.insert(format!("g{nth}"), group(kind, "host", &members));
    }
    resources
}

/// The servers, groups, classes and traits that demands name. A server needs an amount of memory, of which every host
/// has far more.
fn only(resources: &Map<String, Value>, demands: &[&Value]) -> Value {
    let is_named = |constraints: &[&str], key: &str, name: &str| {
        demands
            .iter()
            .any(|it| constraints.contains(&it["constraint"].as_str().unwrap()) && it[key] == name)
    };
    let has_server = |id: &str| {
        let servers = demands.iter().filter(|it| it["constraint"] == "server");
        servers.flat_map(|it| it["servers"].as_array().unwrap()).any(|it| it == id)
    };
    let mut kept = Map::new();
    for (id, resource) in resources {
        let mut resource = resource.clone();
        let properties = resource["properties"].as_object_mut().unwrap();
        if let Some(members) = properties["resources"].as_array_mut() {
            members.retain(|it| has_server(it.as_str().unwrap()));
            if is_named(&["affinity", "diversity"], "group", id) && !members.is_empty() {
                kept.insert(id.clone(), resource);
            }
            continue;
        }
        if has_server(id) {
            let amounts = properties["resources"].as_object_mut().unwrap();
            amounts
                .retain(|class, _| is_named(&["capacity"], "name", class) || class == "MEMORY_MB");
            let required = properties["required"].as_array_mut().unwrap();
            required.retain(|it| is_named(&["required-trait"], "name", it.as_str().unwrap()));
            kept.insert(id.clone(), resource);
        }
    }
    Value::Object(kept)
}

/// The named conditions have no placement together, and have one without any single one of them. A trait counts on
/// providers that supply something, so it is one condition with the classes of its server.
#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_names_hosts_and_exactly_the_obstacles() {
    let site = Site::new().await;
    cloud(&site).await;
    let admin = site.admin();
    // Another seed makes other stacks.
    let seed = std::env::var("STORM_SEED").map_or(14, |seed| seed.parse().unwrap());
    let mut dice = Dice(seed);
    let mut refusals = 0;
    while refusals < 150 {
        let resources = random_stack(&mut dice);
        let stack = plan("s", Value::Object(resources.clone()));
        let answer = admin.post("/v1/plans?dry_run=true", stack).await;
        if answer.status == 200 {
            continue;
        }
        refusals += 1;
        let why = format!("{} (STORM_SEED={seed})\n{resources:?}", answer.explanation(409));
        assert!(!answer.text().contains("pool") && !why.contains(" 0 hosts"), "{why}");
        let body = answer.json();
        let demands: Vec<&Value> = body["detail"].as_array().unwrap().iter().collect();
        assert!(!fits(&admin, only(&resources, &demands)).await, "{why}");
        let has_trait = demands.iter().any(|it| it["constraint"] == "required-trait");
        // A trait without any class is one of any provider of a host, which no server can demand.
        if has_trait && !demands.iter().any(|it| it["name"] == "VGPU") {
            continue;
        }
        for left_out in &demands {
            let is_class = left_out["constraint"] == "capacity";
            if left_out["constraint"] == "server" || is_class && has_trait {
                continue;
            }
            let rest: Vec<&Value> = demands.iter().filter(|it| it != &left_out).copied().collect();
            assert!(fits(&admin, only(&resources, &rest)).await, "without {left_out}: {why}");
        }
    }
}
