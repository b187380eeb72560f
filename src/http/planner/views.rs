//! Views of plans and placements.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::model::{Goal, Level, PlacementPolicy};
use crate::planner::draft::CurrentPlan;
use crate::planner::draw::Draw;
use crate::planner::group::StoredGroup;
use crate::planner::json::Object;
use crate::planner::plan::{Placement, PlanHead};
use crate::planner::template::Ignored;
use crate::planner::{Alternative, BrokenRule, ConditionCount, Demand, HostCounts, Spent};
use crate::planning::{Failure, ListedPlan, Planned};
use crate::search::funnel::{Closest, Counted, Limit, Shortage};
use crate::solver::{Cost, Counts};
use crate::store;

/// Maximum length of a list in a header, in bytes: proxies limit headers.
const LIST_MAX: usize = 4096;
/// Bytes reserved for the number of resources that do not fit into the list.
const REST_MAX: usize = 32;
/// Maximum number of entries in the counts of servers: they are in a header, too.
const COUNTS_MAX: usize = 32;
/// Maximum length of a type in the list, in characters.
const KIND_MAX: usize = 100;

/// Members of a server in a plan that Valet does not have.
const PLACEMENT_ID: &str = "id";
const ALLOCATIONS: &str = "allocations";

/// Removes what Valet does not show from a plan.
pub(super) fn strip(mut plan: Value) -> Value {
    let servers = plan.get_mut("placements").and_then(Value::as_object_mut);
    for server in servers.into_iter().flat_map(Map::values_mut) {
        if let Some(server) = server.as_object_mut() {
            server.retain(|name, _| ![PLACEMENT_ID, ALLOCATIONS].contains(&name.as_str()));
        }
    }
    plan
}

/// A server of a plan: its orchestration id, name and host, and the capacity that it draws on.
type ServerView<'p> = (&'p str, &'p str, Option<&'p str>, Option<&'p Draw>);

/// Renders a plan: its servers by the ids of the orchestrator.
fn plan<'p>(plan: &PlanHead, servers: impl Iterator<Item = ServerView<'p>>) -> Value {
    let placements: Map<String, Value> = servers
        .map(|(id, name, host, draw)| {
            let mut view = json!({"name": name, "location": host});
            if let (Some(draw), Some(view)) = (draw, view.as_object_mut()) {
                view.insert(PLACEMENT_ID.to_owned(), json!(draw.placement));
                view.insert(ALLOCATIONS.to_owned(), allocations(draw));
            }
            (id.to_owned(), view)
        })
        .collect();
    json!({
        "id": plan.id,
        "name": plan.name,
        "stack_id": plan.stack_id,
        "placements": placements,
    })
}

/// Renders allocations in the form of the Placement API.
fn allocations(draw: &Draw) -> Value {
    let mut by_provider: BTreeMap<Uuid, Map<String, Value>> = BTreeMap::new();
    for (provider, class, amount) in &draw.amounts {
        by_provider.entry(*provider).or_default().insert(class.clone(), json!(amount));
    }
    let views = by_provider.into_iter();
    views
        .map(|(provider, amounts)| (provider.to_string(), json!({"resources": amounts})))
        .collect::<Map<_, _>>()
        .into()
}

/// Renders a stored plan.
pub(super) fn current(it: &CurrentPlan) -> Value {
    let rows = it.placements.iter();
    let places: Vec<(Option<String>, Draw)> =
        rows.clone().map(|row| (it.location(row), Draw::of(row, &it.world))).collect();
    let servers = rows.zip(&places).map(|(row, (host, draw))| {
        (row.orchestration_id.as_str(), row.name.as_str(), host.as_deref(), Some(draw))
    });
    plan(&it.plan.head(), servers)
}

/// Renders a plan whose hosts were just chosen.
pub(super) fn planned(it: &Planned) -> Value {
    let places = it.hosts.iter().zip(&it.draws);
    let servers = it.draft.servers.iter().zip(places).map(|(server, (host, draw))| {
        (server.entry.id.as_str(), server.entry.name.as_str(), host.as_deref(), Some(draw))
    });
    let mut view = plan(&it.draft.plan.head(), servers);
    if it.draft.stack.alternatives > 0
        && let Some(view) = view.as_object_mut()
    {
        let all = it.solution.iter().flat_map(|solution| &solution.alternatives);
        let all: Vec<Value> = all.map(|other| alternative(it, other)).collect();
        view.insert("alternatives".to_owned(), all.into());
    }
    view
}

/// Renders an alternative placement of a plan.
fn alternative(it: &Planned, other: &Alternative) -> Value {
    let servers = it.draft.servers.iter().zip(&other.hosts).map(|(server, host)| {
        let view = json!({"name": server.entry.name, "location": host});
        (server.entry.id.clone(), view)
    });
    let policy = it.draft.stack.policy;
    json!({
        "placements": servers.collect::<Map<_, _>>(),
        "optimal": other.stopped.is_none(),
        "stopped": stopped(other.stopped),
        "cost": cost(&other.cost, policy),
        "bound": cost(&other.bound, policy),
    })
}

/// Renders a plan in a list.
pub(super) fn listed(it: &ListedPlan) -> Value {
    let placements = it.placements.iter();
    let placements = placements.map(|(row, host)| {
        (row.orchestration_id.as_str(), row.name.as_str(), host.as_deref(), None)
    });
    plan(&it.plan, placements)
}

/// Renders the recommended host of a consumer without a plan; `id` is the client's id of it.
pub(super) fn unplanned(host: Option<&str>, id: &str) -> Value {
    json!({
        "id": null,
        "plan_id": null,
        "name": null,
        "orchestration_id": null,
        "resource_id": id,
        "location": host,
        "reserved": null,
    })
}

pub(super) fn placement(row: &Placement, location: Option<&str>) -> Value {
    let mut view = json!({
        "id": row.id,
        "plan_id": row.plan,
        "name": row.name,
        "orchestration_id": row.orchestration_id,
        "location": location,
        "reserved": row.reserved,
    });
    if let (Some(resource_id), Some(view)) = (&row.resource_id, view.as_object_mut()) {
        view.insert("resource_id".to_owned(), json!(resource_id));
    }
    view
}

pub(super) fn group(group: &StoredGroup) -> Value {
    let mut view = json!({
        "description": group.description,
        "type": group.kind.name(),
        "id": group.id,
        "members": group.members,
        "name": group.name,
    });
    if let (Some(level), Some(view)) = (group.level, view.as_object_mut()) {
        view.insert("level".to_owned(), level.name().into());
    }
    view
}

/// Renders one of the conflicting demands.
pub(super) fn demand(demand: &Demand) -> Value {
    json!({
        "constraint": demand.constraint,
        "name": demand.name,
        "group": demand.group,
        "level": demand.level,
        "servers": demand.servers,
        "server_count": demand.server_count,
        "needed": demand.needed,
        "available": demand.available,
        "units": demand.units,
        "hosts_eliminated": demand.hosts_eliminated,
    })
}

/// Renders the number of hosts that each condition of equal servers rules out.
pub(super) fn host_counts(counts: &HostCounts) -> Value {
    let funnel = &counts.funnel;
    let closest = |most: &Closest| {
        let Shortage { available, capacity, used, total, reserved, limit } = most.shortage;
        let (limit, value) = match limit {
            Limit::Free => ("free", capacity - used),
            Limit::MaxUnit(value) => ("max_unit", value),
            Limit::MinUnit(value) => ("min_unit", value),
            Limit::StepSize(value) => ("step_size", value),
        };
        json!({
            "host": most.host, "available": available, "capacity": capacity, "used": used,
            "total": total, "reserved": reserved, "limit": limit, "value": value,
        })
    };
    let condition = |it: &Counted<ConditionCount>| {
        json!({
            "constraint": it.condition.constraint,
            "name": it.condition.name,
            "group": it.condition.group,
            "needed": it.condition.needed,
            "hosts": it.hosts,
            "only": it.only,
            "without_inventory": it.absent,
            "most": it.most.as_ref().map(closest),
        })
    };
    let ruling = funnel.conditions.iter().filter(|it| it.hosts > 0);
    let near = funnel.near_misses.iter().filter_map(|it| {
        let condition = &funnel.conditions.get(it.condition)?.condition;
        Some(json!({
            "host": it.host, "constraint": condition.constraint, "name": condition.name,
            "group": condition.group, "missing": it.missing,
        }))
    });
    json!({
        "servers": counts.servers,
        "server_count": counts.server_count,
        "hosts": funnel.hosts,
        "fitting": funnel.fitting,
        "undecided": funnel.undecided,
        "conditions": ruling.map(condition).collect::<Vec<Value>>(),
        "near_miss_count": funnel.near,
        "near_misses": near.collect::<Vec<Value>>(),
    })
}

/// Renders the quality of a plan: a JSON object on one line.
pub(super) fn quality(it: &Planned, hold_seconds: Option<u32>) -> Option<String> {
    let solution = it.solution.as_ref()?;
    let policy = it.draft.stack.policy;
    let cost = |it: &Cost| cost(it, policy);
    let quality = json!({
        "policy": {"name": policy.goal.name(), "level": policy.level.name()},
        "optimal": solution.stopped.is_none(),
        "stopped": stopped(solution.stopped),
        "cost": cost(&solution.cost),
        "bound": cost(&solution.bound),
        "hold_seconds": hold_seconds,
    });
    Some(quality.to_string())
}

/// The name of the reason why a search ended.
fn stopped(why: Option<Spent>) -> &'static str {
    match why {
        None => "proven",
        Some(Spent::Idle) => "no_improvement",
        Some(Spent::Time) => "timeout",
        Some(Spent::Enough) => "others_wait",
        Some(Spent::Memory) => "memory",
    }
}

/// Returns the cost components of a policy, in the order in which they are compared.
fn cost(cost: &Cost, policy: PlacementPolicy) -> Value {
    let level = policy.level.name();
    let mut view = Map::from_iter([("moved".to_owned(), json!(cost.moved))]);
    let mut show = |key: &str, value: Value| drop(view.insert(key.to_owned(), value));
    show("violations", json!(cost.violations));
    let is_above = policy.level > Level::Host;
    match policy.goal {
        Goal::Pack => {
            if is_above {
                show(&format!("{level}s"), json!(cost.units));
            }
            show("new_hosts", json!(cost.new_hosts));
            show("room", json!(cost.fit));
        }
        Goal::Spread => {
            show(&format!("servers_per_{level}"), counts(&cost.per_unit));
            if is_above {
                show("servers_per_host", counts(&cost.per_host));
            }
            show("room", json!(cost.fit));
        }
        Goal::Balance => {
            show(&format!("{level}_load"), json!(cost.load));
            if is_above {
                show("host_load", json!(cost.host_load));
            }
        }
    }
    Value::Object(view)
}

/// Renders pairs of a number of units and their number of servers, most servers first.
fn counts(counts: &Counts) -> Value {
    let pairs = counts.by_count().iter().take(COUNTS_MAX);
    pairs.map(|(servers, units)| json!([servers, units])).collect()
}

/// Renders the resources that the plan ignores, for a header; `None` if it follows all.
pub(super) fn ignored(it: &Planned) -> Option<String> {
    let item = |it: &Ignored| {
        let kind: String = it.kind.chars().take(KIND_MAX).collect();
        json!({"resource": it.id, "type": kind, "why": it.why})
    };
    list(it.draft.ignored.iter().map(item))
}

/// Renders the rules that fixed servers break, for a header; `None` if all are kept.
pub(super) fn broken(it: &Planned) -> Option<String> {
    let item = |it: &BrokenRule| {
        let (kind, level) = (it.kind.name(), it.level.name());
        json!({"resource": it.server, "type": kind, "level": level, "group": it.group})
    };
    list(it.solution.iter().flat_map(|solution| &solution.broken).map(item))
}

/// Renders a JSON array on one line of ASCII; `None`: it is empty. If there are too many items, the last one is the
/// number of the others.
fn list(all: impl Iterator<Item = Value>) -> Option<String> {
    let mut items: Vec<String> = Vec::new();
    let (mut bytes, mut more) = (REST_MAX, 0);
    for item in all {
        let item = ascii(&item.to_string());
        bytes += item.len() + 1;
        if bytes > LIST_MAX {
            more += 1;
        } else {
            items.push(item);
        }
    }
    if more > 0 {
        items.push(json!({"more": more}).to_string());
    }
    (!items.is_empty()).then(|| format!("[{}]", items.join(",")))
}

/// Escapes all characters of JSON that a header cannot have.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if c == ' ' || c.is_ascii_graphic() {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

/// Parses the metadata of a placement.
pub(in crate::http) fn metadata(row: &Placement) -> Result<Object, Failure> {
    serde_json::from_str(&row.metadata).map_err(|error| {
        store::Error::inconsistent("placements", "metadata", format!("{}: {error}", row.id)).into()
    })
}

#[cfg(test)]
mod tests {
    use super::ascii;

    #[test]
    fn characters_that_a_header_cannot_have_are_escaped() {
        assert_eq!(ascii(r#"["a b", "ä\n😀"#), r#"["a b", "\u00e4\n\ud83d\ude00"#);
        assert_eq!(ascii("\u{7f}"), r"\u007f");
    }
}
