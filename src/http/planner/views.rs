//! Plans and placements as clients see them.

use serde_json::{Map, Value, json};

use crate::planner::Demand;
use crate::planner::draft::CurrentPlan;
use crate::planner::plan::{Placement, Plan};
use crate::planning::{Planned, Recommendation};
use crate::solver::Cost;

/// A plan: names and hosts by the ids of the orchestrator.
fn plan<'p>(
    plan: &Plan,
    placements: impl Iterator<Item = (&'p str, &'p str, Option<&'p str>)>,
) -> Value {
    let placements: Map<String, Value> = placements
        .map(|(id, name, host)| (id.to_owned(), json!({"name": name, "location": host})))
        .collect();
    json!({
        "id": plan.id,
        "name": plan.name,
        "stack_id": plan.stack_id,
        "placements": placements,
    })
}

/// A stored plan.
pub(super) fn current(it: &CurrentPlan) -> Value {
    let hosts: Vec<Option<String>> = it.placements.iter().map(|row| it.location(row)).collect();
    let placements = it
        .placements
        .iter()
        .zip(&hosts)
        .map(|(row, host)| (row.orchestration_id.as_str(), row.name.as_str(), host.as_deref()));
    plan(&it.plan, placements)
}

/// A plan whose hosts have just been chosen.
pub(super) fn planned(it: &Planned) -> Value {
    let servers = it.draft.servers.iter().zip(&it.hosts).map(|(server, host)| {
        (server.entry.id.as_str(), server.entry.name.as_str(), host.as_deref())
    });
    plan(&it.draft.plan, servers)
}

/// Where a server may move; `id` is what the caller named.
pub(super) fn recommendation(it: &Recommendation, id: &str) -> Value {
    let mut view = match &it.placement {
        Some(row) => placement(row, it.host.as_deref()),
        None => json!({
            "id": null,
            "plan_id": null,
            "name": null,
            "orchestration_id": null,
            "resource_id": id,
            "location": it.host,
            "reserved": null,
        }),
    };
    if let Some(view) = view.as_object_mut() {
        view.insert("current_location".to_owned(), json!(it.present));
    }
    view
}

/// A placement.
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

/// A demand that is part of what is in the way.
pub(super) fn demand(demand: &Demand) -> Value {
    json!({
        "constraint": demand.constraint,
        "group": demand.group,
        "level": demand.level,
        "servers": demand.servers,
        "needed": demand.needed,
        "available": demand.available,
        "units": demand.units,
        "hosts_eliminated": demand.hosts_eliminated,
    })
}

/// How good a plan is: a JSON object in one line.
pub(super) fn quality(it: &Planned) -> Option<String> {
    let answer = it.answer.as_ref()?;
    let cost = |cost: &Cost| {
        json!({
            "moved": cost.moved,
            "new_hosts": cost.new_hosts,
            "racks": cost.racks,
            "room": cost.fit,
        })
    };
    let quality = json!({
        "optimal": answer.cost == answer.bound,
        "cost": cost(&answer.cost),
        "bound": cost(&answer.bound),
    });
    Some(quality.to_string())
}
