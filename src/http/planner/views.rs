//! Plans and placements as clients see them.

use serde_json::{Map, Value, json};

use super::settle::Settled;
use crate::planner::Demand;
use crate::solver::Cost;
use crate::store::planner::plans::{PlacementRow, PlanRow};

/// A plan: names and hosts by the ids of the orchestrator.
pub(super) fn plan<'p>(
    plan: &PlanRow,
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

/// A plan that has just been settled.
pub(super) fn settled(it: &Settled) -> Value {
    let slots = it.draft.slots.iter().zip(&it.hosts);
    let placements = slots
        .map(|(slot, host)| (slot.entry.id.as_str(), slot.entry.name.as_str(), host.as_deref()));
    plan(&it.draft.plan, placements)
}

/// A placement.
pub(super) fn placement(row: &PlacementRow, location: Option<&str>) -> Value {
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
pub(super) fn quality(it: &Settled) -> Option<String> {
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
