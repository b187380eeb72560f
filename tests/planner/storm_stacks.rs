//! Random stacks of a client in the storm: servers of every form, volumes, groups of every kind, and
//! policies.

use serde_json::{Map, Value, json};

use crate::dice::Dice;
use crate::requests::{amounts, bound, plan, server_in};

/// Stored groups: name, kind, level.
pub const STORED: [(&str, &str, &str); 6] = [
    ("apart-host", "diversity", "host"),
    ("apart-rack", "diversity", "rack"),
    ("near", "affinity", "rack"),
    ("alone-one", "exclusivity", "host"),
    ("alone-two", "exclusivity", "host"),
    ("alone-rack", "exclusivity", "rack"),
];
/// Groups of one request: kind, level.
const OWN: [(&str, &str); 4] =
    [("affinity", "host"), ("affinity", "rack"), ("diversity", "host"), ("diversity", "rack")];
/// Policies of server groups, with `max_server_per_host`.
const SERVER_GROUPS: [(&str, Option<i64>); 5] = [
    ("affinity", None),
    ("anti-affinity", None),
    ("anti-affinity", Some(2)),
    ("soft-affinity", None),
    ("soft-anti-affinity", None),
];

/// A stack that a client has requested.
#[derive(Clone, Debug)]
pub struct Stack {
    pub id: String,
    /// The ids of its servers.
    pub servers: Vec<String>,
    /// The id of its volume, if it has one.
    pub volume: Option<String>,
    /// The body that created it.
    pub body: Value,
}

impl Stack {
    pub fn of_chance(id: String, dice: &mut Dice) -> Self {
        let servers: Vec<String> =
            (0..=dice.below(3)).map(|nth| format!("{id}-server-{nth}")).collect();
        let mut resources = Map::new();
        let groups = any_groups(dice);
        for server in &servers {
            resources.insert(server.clone(), any_server(dice, &groups));
        }
        let volume = dice.happens(20).then(|| format!("{id}-volume"));
        if let Some(volume) = &volume {
            let size = 1 + dice.below(20);
            let entry = json!({"type": "OS::Cinder::Volume", "properties": {"size": size}});
            resources.insert(volume.clone(), entry);
        }
        if groups.is_empty() {
            add_own_group(&id, &servers, &mut resources, dice);
        }
        let mut body = plan(&id, resources.into());
        if dice.happens(50) {
            let policy = *dice.pick(&["pack", "spread", "balance"]).unwrap();
            let level = *dice.pick(&["host", "rack"]).unwrap();
            body["policy"] = json!({"name": policy, "level": level});
        }
        Self { id, servers, volume, body }
    }

    /// One of its servers or its volume.
    pub fn resource(&self, dice: &mut Dice) -> Option<String> {
        let volume = self.volume.as_ref().filter(|_| dice.happens(20));
        volume.or_else(|| dice.pick(&self.servers)).cloned()
    }
}

/// A server of any size, sometimes in a stored group, sometimes with a numbered group.
pub fn any_server(dice: &mut Dice, groups: &[&str]) -> Value {
    let vcpu = 1 + i64::try_from(dice.below(3)).unwrap();
    let mut server = server_in(vcpu, groups);
    if dice.happens(25) {
        let [vcpu, memory_mb, disk_gb] = amounts(vcpu);
        let properties = &mut server["properties"];
        properties["resources"] = json!({"DISK_GB": disk_gb});
        properties["numbered_groups"] =
            json!({"_NODE": {"resources": {"VCPU": vcpu, "MEMORY_MB": memory_mb}}});
    }
    server
}

pub fn any_groups(dice: &mut Dice) -> Vec<&'static str> {
    let some = dice.happens(40);
    let (name, ..) = *dice.pick(&STORED).unwrap();
    if some { vec![name] } else { Vec::new() }
}

/// Binds the servers by a group of the request, most of the time.
fn add_own_group(
    id: &str,
    servers: &[String],
    resources: &mut Map<String, Value>,
    dice: &mut Dice,
) {
    let group = format!("{id}-group");
    let (kind, level) = *dice.pick(&OWN).unwrap();
    let mut entry = match dice.below(10) {
        0..3 => bound(kind, level, servers),
        3..5 => bound("diversity", level, servers),
        5 => {
            let mut entry = bound(kind, level, servers);
            entry["properties"]["soft"] = json!(true);
            entry["properties"]["weight"] = json!(1 + dice.below(9));
            entry
        }
        6 => {
            let (policy, most) = *dice.pick(&SERVER_GROUPS).unwrap();
            for server in servers {
                resources[server]["properties"]["scheduler_hints"] = json!({"group": group});
            }
            let rules = most.map_or(json!({}), |most| json!({"max_server_per_host": most}));
            json!({"type": "OS::Nova::ServerGroup",
                   "properties": {"policies": [policy], "rules": rules}})
        }
        _ => return,
    };
    if entry["properties"]["group_type"] == "diversity" && dice.happens(40) {
        let term = *dice.pick(&["max_per_unit", "max_skew"]).unwrap();
        if entry["properties"].get("soft").is_none() {
            entry["properties"][term] = json!(1 + dice.below(2));
        }
    }
    resources.insert(group, entry);
}
