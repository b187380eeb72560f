//! The clients that were released with Valet, as they speak: the Heat plugin and the Nova filter of the
//! versions of 2016 and of 2017. Their base URL is that of the second mount.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Asker, Site};
use crate::stack::{arrive, finish, usages, vcpus};

const URL: &str = "/compat/v1";

/// A client with the token of a user or of a service.
struct Client(Asker);

impl Client {
    /// Returns the content of a response, as the client does: JSON, if the status is one of success.
    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, u16> {
        let body = body.map(|body| body.to_string().into_bytes());
        let answer = self.0.ask(method, &format!("{URL}{path}"), body).await;
        match answer.status {
            204 => Ok(Value::Null),
            200..300 => Ok(answer.json()),
            status => {
                // The plugin shows both of these to the user.
                let error = answer.json();
                assert!(error["explanation"].is_string() && error["error"]["message"].is_string());
                Err(status)
            }
        }
    }
}

/// The filter passes the host whose name is the location, and no other.
fn passed<'h>(hosts: &[&'h str], placement: &Value) -> Vec<&'h str> {
    let location = placement["location"].as_str();
    hosts.iter().copied().filter(|host| Some(*host) == location).collect()
}

fn heat_server(name: &str) -> Value {
    json!({"Type": "OS::Nova::Server", "name": name, "Properties": {
        "flavor": "m1.small", "image": "cirros", "key_name": null, "networks": [{"port": "port"}],
        "availability_zone": null, "user_data_format": "HEAT_CFNTOOLS", "scheduler_hints": {},
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn r90_the_plugin_and_the_filter_of_2016() {
    let site = Site::new().await;
    let ids = site.racks(2, 2, [4, 9999, 99]).await;
    let (heat, nova) = (Client(site.tenant("p")), Client(site.admin_of("service")));
    let stack = Uuid::new_v4().to_string();
    let servers = [Uuid::new_v4().to_string(), Uuid::new_v4().to_string()];
    let body = json!({
        "plan_name": stack, "stack_id": stack, "timeout": "60 sec",
        "resources": {
            servers[0].as_str(): heat_server("one"),
            servers[1].as_str(): heat_server("two"),
            Uuid::new_v4().to_string(): {"Type": "OS::Neutron::Port", "name": "port",
                "Properties": {"network": "private"}},
            Uuid::new_v4().to_string(): {"Type": "ATT::Valet::GroupAssignment", "name": "apart",
                "Properties": {"group_type": "diversity", "level": "rack",
                               "resources": ["one", servers[1]]}},
        },
    });
    // The plugin waits five seconds for a response, and then tries again.
    for _ in 0..2 {
        heat.ask("POST", "/plans/", Some(body.clone())).await.unwrap();
    }
    let hosts = ["r01h01", "r01h02", "r02h01", "r02h02"];
    for server in &servers {
        let instance = Uuid::new_v4();
        let path = format!("/placements/{server}");
        let body = json!({"locations": hosts, "resource_id": instance});
        let answer = nova.ask("POST", &path, Some(body)).await.unwrap();
        let passed = passed(&hosts, &answer["placement"]);
        assert_eq!(passed.len(), 1, "{answer}");
        let nth = hosts.iter().position(|host| *host == passed[0]).unwrap();
        arrive(&site, instance, ids[nth], 1).await;
    }
    let used = vcpus(&site).await;
    assert_eq!(used.values().sum::<i64>(), 2);
    let racks: Vec<&str> = used.keys().map(|host| &host[..3]).collect();
    assert_eq!(racks, ["r01", "r02"]);
    // The plugin does not look at the answer.
    heat.ask("DELETE", &format!("/plans/{stack}"), None).await.unwrap();
    assert_eq!(heat.ask("DELETE", &format!("/plans/{stack}"), None).await, Err(404));
    assert_eq!(vcpus(&site).await, used);
}

#[tokio::test(flavor = "multi_thread")]
async fn r90_the_plugin_and_the_filter_of_2017() {
    let site = Site::new().await;
    let ids = site.racks(1, 3, [4, 9999, 99]).await;
    let (heat, nova) = (Client(site.tenant("p")), Client(site.admin_of("service")));
    let (stack, root) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let server = Uuid::new_v4().to_string();
    let resource = |flavor: &str| {
        json!({
            "name": "web", "type": "OS::Nova::Server",
            "properties": {"flavor": flavor, "image": "cirros", "metadata": {}},
            "metadata": {
                "heat_root_stack_id": root, "heat_stack_id": stack, "heat_stack_name": "s",
                "heat_path_in_stack": [[null, "s"], ["web", "s-web"]],
                "heat_resource_name": "web", "heat_resource_uuid": server,
            },
        })
    };
    let update = json!({
        "action": "update", "original_resources": {server.as_str(): resource("m1.small")},
        "resources": {server.as_str(): resource("m1.small")},
    });
    // A stack that was made before the plugin was there has no plan yet.
    assert_eq!(heat.ask("PUT", &format!("/plans/{stack}"), Some(update)).await, Err(404));
    let create = json!({"plan_name": "s", "stack_id": stack,
                        "resources": {server.as_str(): resource("m1.small")}});
    heat.ask("POST", "/plans", Some(create)).await.unwrap();

    // The hints have no uuid of the resource: the filter searches by the others.
    let path = "%5B%5Bnull,%20%22s%22%5D,%20%5B%22web%22,%20%22s-web%22%5D%5D";
    let query = format!(
        "/placements?heat_root_stack_id={root}&heat_resource_name=web&heat_path_in_stack={path}"
    );
    let found = nova.ask("GET", &query, None).await.unwrap();
    let placement = found["placements"][0]["id"].as_str().unwrap().to_owned();
    let instance = Uuid::new_v4();
    let hosts = ["r01h02", "r01h03"];
    let body = json!({"action": "reserve", "locations": hosts, "resource_id": instance});
    let path = format!("/placements/{placement}");
    let answer = nova.ask("POST", &path, Some(body)).await.unwrap();
    let chosen = passed(&hosts, &answer["placement"]);
    assert_eq!(chosen.len(), 1, "{answer}");
    arrive(&site, instance, ids[if chosen[0] == "r01h02" { 1 } else { 2 }], 1).await;
    assert_eq!(vcpus(&site).await, [(chosen[0].to_owned(), 1)].into());

    // The instance is built again elsewhere: the filter knows it by then.
    let query = format!("/placements?resource_id={instance}");
    let found = nova.ask("GET", &query, None).await.unwrap();
    assert_eq!(found["placements"][0]["id"], json!(placement));
    let body = json!({"action": "replan", "locations": ["r01h01"], "resource_id": instance});
    let answer = nova.ask("POST", &path, Some(body)).await.unwrap();
    assert_eq!(passed(&["r01h01"], &answer["placement"]), ["r01h01"]);
    // With no host left, it only looks the placement up.
    let answer = nova.ask("GET", &path, None).await.unwrap();
    assert_eq!(answer["placement"]["location"], "r01h01");

    let update = json!({
        "action": "update", "original_resources": {server.as_str(): resource("m1.small")},
        "resources": {server.as_str(): resource("m1.medium")},
    });
    heat.ask("PUT", &format!("/plans/{stack}"), Some(update)).await.unwrap();
    heat.ask("DELETE", &format!("/plans/{stack}"), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn r90_a_server_of_no_stack_gets_a_plan_of_its_own() {
    let site = Site::new().await;
    let ids = site.racks(1, 2, [4, 9999, 99]).await;
    let before = usages(&site).await;
    let nova = Client(site.tenant("p"));
    let instance = Uuid::new_v4();
    let body = |hosts: &[&str]| {
        json!({
            "plan_name": instance, "stack_id": instance, "locations": hosts, "timeout": "60 sec",
            "resources": {instance.to_string(): {
                "type": "OS::Nova::Server", "name": "ad_hoc_instance",
                "properties": {"flavor": "m1.small", "availability_zone": "nova"},
            }},
        })
    };
    assert_eq!(nova.ask("POST", "/plans", Some(body(&["r01h01"]))).await, Err(409));
    for id in &ids {
        let path = format!("/resource_providers/{id}/traits");
        let traits = site.placement().get(&path).await.expect(200).json();
        site.placement().put("/traits/CUSTOM_AZ_NOVA", json!({})).await;
        let mut names = traits["traits"].as_array().unwrap().clone();
        names.push(json!("CUSTOM_AZ_NOVA"));
        let generation = &traits["resource_provider_generation"];
        let body = json!({"resource_provider_generation": generation, "traits": names});
        site.placement().put(&path, body).await.expect(200);
    }
    let answer = nova.ask("POST", "/plans", Some(body(&["r01h01"]))).await.unwrap();
    let placement = &answer["plan"]["placements"][instance.to_string()];
    assert_eq!(passed(&["r01h01"], placement), ["r01h01"]);
    // The build fails, and Nova tries again with the remaining hosts.
    let answer = nova.ask("POST", "/plans", Some(body(&["r01h02"]))).await.unwrap();
    let placement = &answer["plan"]["placements"][instance.to_string()];
    assert_eq!(passed(&["r01h02"], placement), ["r01h02"]);
    // The instance takes over the hold, although it was not reserved.
    arrive(&site, instance, ids[1], 1).await;
    assert_eq!(vcpus(&site).await, [("r01h02".to_owned(), 1)].into());
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r90_a_filter_plans_with_its_own_project_for_instances_of_others() {
    let site = Site::new().await;
    let ids = site.racks(1, 2, [4, 9999, 99]).await;
    let before = usages(&site).await;
    let body = |instance: Uuid| {
        json!({
            "plan_name": instance, "stack_id": instance, "locations": ["r01h01"],
            "resources": {instance.to_string(): {
                "type": "OS::Nova::Server", "name": "ad_hoc_instance",
                "properties": {"flavor": "m1.small"},
            }},
        })
    };
    let nova = Client(site.admin_of("service"));
    let instance = Uuid::new_v4();
    nova.ask("POST", "/plans", Some(body(instance))).await.unwrap();
    arrive(&site, instance, ids[0], 1).await;
    assert_eq!(vcpus(&site).await, [("r01h01".to_owned(), 1)].into());
    // The filter knows the instance afterwards, and plans it again when it must move.
    let found = nova.ask("GET", &format!("/placements?resource_id={instance}"), None).await;
    let found = found.unwrap()["placements"][0].clone();
    assert_eq!((&found["location"], &found["reserved"]), (&json!("r01h01"), &json!(true)));
    let again = json!({"action": "replan", "locations": ["r01h02"], "resource_id": instance});
    let path = format!("/placements/{}", found["id"].as_str().unwrap());
    let answer = nova.ask("POST", &path, Some(again)).await.unwrap();
    assert_eq!(passed(&["r01h02"], &answer["placement"]), ["r01h02"]);
    nova.ask("DELETE", &format!("/plans/{instance}"), None).await.unwrap();
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    assert_eq!(usages(&site).await, before);

    // A project has no such plans for instances of others.
    let instance = Uuid::new_v4();
    let tenant = Client(site.tenant("q"));
    tenant.ask("POST", "/plans", Some(body(instance))).await.unwrap();
    arrive(&site, instance, ids[0], 1).await;
    assert_eq!(vcpus(&site).await, [("r01h01".to_owned(), 2)].into());
    let shown = tenant.ask("GET", &format!("/placements/{instance}"), None).await.unwrap();
    assert_eq!(shown["placement"]["reserved"], false);
    tenant.ask("DELETE", &format!("/plans/{instance}"), None).await.unwrap();
    site.placement().delete(&format!("/allocations/{instance}")).await.expect(204);
    finish(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r90_the_group_resource_of_heat() {
    let site = Site::new().await;
    let heat = Client(site.admin());
    let body =
        json!({"name": "vault", "type": "exclusivity", "level": "host", "description": null});
    let made = heat.ask("POST", "/groups", Some(body)).await.unwrap();
    let group = format!("/groups/{}", made["id"].as_str().unwrap());
    let [one, two] = [Uuid::new_v4().to_string(), Uuid::new_v4().to_string()];
    let members = |list: &[&String]| Some(json!({"members": list}));
    heat.ask("PUT", &format!("{group}/members"), members(&[&one])).await.unwrap();
    heat.ask("PUT", &group, Some(json!({"description": "ours"}))).await.unwrap();
    heat.ask("DELETE", &format!("{group}/members/{one}"), None).await.unwrap();
    heat.ask("PUT", &format!("{group}/members"), members(&[&two])).await.unwrap();
    let shown = heat.ask("GET", &group, None).await.unwrap();
    assert_eq!(shown["group"]["members"], json!([two]));
    heat.ask("DELETE", &format!("{group}/members"), None).await.unwrap();
    heat.ask("DELETE", &group, None).await.unwrap();
    for (method, path) in [("GET", group.clone()), ("DELETE", group.clone())] {
        assert_eq!(heat.ask(method, &path, None).await, Err(404));
    }
}
