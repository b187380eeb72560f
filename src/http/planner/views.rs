//! Views of plans and placements.

use std::collections::BTreeMap;
use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::http::api::json::Ordered;
use crate::model::{Goal, Level, PlacementPolicy};
use crate::planner::draft::CurrentPlan;
use crate::planner::draw::Draw;
use crate::planner::group::StoredGroup;
use crate::planner::json::Object;
use crate::planner::plan::{Placement, PlanHead};
use crate::planner::template::Ignored;
use crate::planner::{Alternative, BrokenRule, ConditionCount, HostCounts, Spent};
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

/// A plan: its servers by the ids of the orchestrator.
#[derive(JsonSchema, Serialize)]
pub(super) struct Plan {
    id: Uuid,
    name: String,
    /// The orchestrator's id of the stack.
    stack_id: String,
    placements: Ordered<PlannedServer>,
    /// Further placements, in the response to a dry run that asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    alternatives: Option<Vec<AlternativePlacement>>,
}

/// A server of a plan.
#[derive(JsonSchema, Serialize)]
#[expect(clippy::option_option, reason = "some members are left out, others are null")]
struct PlannedServer {
    name: String,
    /// The name of its host; null if it has none.
    location: Option<String>,
    /// The id of its placement; null in a dry run. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Option<Uuid>>,
    /// The capacity that it uses, by resource provider. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocations: Option<BTreeMap<Uuid, Amounts>>,
}

/// Amounts by resource class, as in the Placement API.
#[derive(Default, JsonSchema, Serialize)]
struct Amounts {
    resources: Ordered<i64>,
}

/// Another placement of a stack.
#[derive(JsonSchema, Serialize)]
struct AlternativePlacement {
    placements: Ordered<PlacedServer>,
    /// Whether no better one exists apart from those before it.
    optimal: bool,
    /// The reason why the search ended.
    stopped: &'static str,
    cost: Object,
    bound: Object,
}

/// A server with its host.
#[derive(JsonSchema, Serialize)]
struct PlacedServer {
    name: String,
    location: Option<String>,
}

impl Plan {
    fn of(plan: &PlanHead, servers: impl Iterator<Item = (String, PlannedServer)>) -> Self {
        Self {
            id: plan.id,
            name: plan.name.clone(),
            stack_id: plan.stack_id.clone(),
            placements: Ordered(servers.collect()),
            alternatives: None,
        }
    }

    /// Removes what Valet does not show.
    pub(super) fn strip(mut self) -> Self {
        for (_, server) in &mut self.placements.0 {
            (server.id, server.allocations) = (None, None);
        }
        self
    }
}

/// Renders a server with the capacity that it draws on.
fn server(name: &str, host: Option<&str>, draw: &Draw) -> PlannedServer {
    let mut allocations: BTreeMap<Uuid, Amounts> = BTreeMap::new();
    for (provider, class, amount) in &draw.amounts {
        allocations.entry(*provider).or_default().resources.0.push((class.clone(), *amount));
    }
    PlannedServer {
        name: name.to_owned(),
        location: host.map(str::to_owned),
        id: Some(draw.placement),
        allocations: Some(allocations),
    }
}

/// Renders a stored plan.
pub(super) fn current(it: &CurrentPlan) -> Plan {
    let servers = it.placements.iter().map(|row| {
        let (host, draw) = (it.location(row), Draw::of(row, &it.world));
        (row.orchestration_id.clone(), server(&row.name, host.as_deref(), &draw))
    });
    Plan::of(&it.plan.head(), servers)
}

/// Renders a plan whose hosts were just chosen.
pub(super) fn planned(it: &Planned) -> Plan {
    let places = it.hosts.iter().zip(&it.draws);
    let servers = it.draft.servers.iter().zip(places).map(|(planned, (host, draw))| {
        let view = server(&planned.entry.name, host.as_deref(), draw);
        (planned.entry.id.clone(), view)
    });
    let mut view = Plan::of(&it.draft.plan.head(), servers);
    if it.draft.stack.alternatives > 0 {
        let all = it.solution.iter().flat_map(|solution| &solution.alternatives);
        view.alternatives = Some(all.map(|other| alternative(it, other)).collect());
    }
    view
}

/// Renders an alternative placement of a plan.
fn alternative(it: &Planned, other: &Alternative) -> AlternativePlacement {
    let servers = it.draft.servers.iter().zip(&other.hosts).map(|(server, host)| {
        let view = PlacedServer { name: server.entry.name.clone(), location: host.clone() };
        (server.entry.id.clone(), view)
    });
    let policy = it.draft.stack.policy;
    AlternativePlacement {
        placements: Ordered(servers.collect()),
        optimal: other.stopped.is_none(),
        stopped: stopped(other.stopped),
        cost: cost(&other.cost, policy),
        bound: cost(&other.bound, policy),
    }
}

/// Renders a plan in a list.
pub(super) fn listed(it: &ListedPlan) -> Plan {
    let servers = it.placements.iter().map(|(row, host)| {
        let (name, location) = (row.name.clone(), host.clone());
        let view = PlannedServer { name, location, id: None, allocations: None };
        (row.orchestration_id.clone(), view)
    });
    Plan::of(&it.plan, servers)
}

/// The host of a server.
#[derive(Default, JsonSchema, Serialize)]
#[schemars(rename = "Placement")]
#[expect(clippy::option_option, reason = "some members are left out, others are null")]
pub(super) struct PlacementView {
    /// The id of the placement; null if the server is in no plan.
    id: Option<Uuid>,
    plan_id: Option<Uuid>,
    name: Option<String>,
    /// The orchestrator's id of the server.
    orchestration_id: Option<String>,
    /// The id of the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource_id: Option<Option<String>>,
    /// The name of the host; null if it is unknown.
    location: Option<String>,
    /// Null until it is reserved.
    pub(super) reserved: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Object>,
    /// The host on which it is now, in a recommendation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current_location: Option<Option<String>>,
}

/// Renders the recommended host of a consumer without a plan; `id` is the client's id of it.
pub(super) fn unplanned(host: Option<&str>, id: &str) -> PlacementView {
    PlacementView {
        resource_id: Some(Some(id.to_owned())),
        location: host.map(str::to_owned),
        ..PlacementView::default()
    }
}

pub(super) fn placement(row: &Placement, location: Option<&str>) -> PlacementView {
    PlacementView {
        id: Some(row.id),
        plan_id: Some(row.plan),
        name: Some(row.name.clone()),
        orchestration_id: Some(row.orchestration_id.clone()),
        location: location.map(str::to_owned),
        reserved: row.reserved,
        resource_id: row.resource_id.clone().map(Some),
        ..PlacementView::default()
    }
}

/// A group of servers with a rule.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Group")]
pub(super) struct GroupView {
    pub(super) description: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
    id: Uuid,
    /// The projects that may use it.
    members: Vec<String>,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<&'static str>,
}

pub(super) fn group(group: &StoredGroup) -> GroupView {
    GroupView {
        description: group.description.clone(),
        kind: group.kind.name(),
        id: group.id,
        members: group.members.clone(),
        name: group.name.clone(),
        level: group.level.map(Level::name),
    }
}

/// The number of hosts that each condition of equal servers rules out.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "HostCounts")]
pub(super) struct HostCountsView {
    servers: Vec<String>,
    server_count: usize,
    hosts: usize,
    fitting: usize,
    undecided: usize,
    conditions: Vec<ConditionView>,
    near_miss_count: usize,
    near_misses: Vec<NearMissView>,
}

/// A condition that rules out hosts.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "RulingCondition")]
struct ConditionView {
    constraint: &'static str,
    name: Option<String>,
    group: Option<String>,
    needed: Option<i64>,
    /// Number of hosts that it rules out.
    hosts: usize,
    /// Number of hosts that it alone rules out.
    only: usize,
    without_inventory: usize,
    most: Option<MostView>,
}

/// The host that comes closest to the needed amount.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "ClosestHost")]
struct MostView {
    host: String,
    available: i64,
    capacity: i64,
    used: i64,
    total: i64,
    reserved: i64,
    limit: &'static str,
    value: i64,
}

/// A host that one condition rules out.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "HostNearMiss")]
struct NearMissView {
    host: String,
    constraint: &'static str,
    name: Option<String>,
    group: Option<String>,
    missing: Option<i64>,
}

/// Renders the number of hosts that each condition of equal servers rules out.
pub(super) fn host_counts(counts: &HostCounts) -> HostCountsView {
    let funnel = &counts.funnel;
    let closest = |most: &Closest| {
        let Shortage { available, capacity, used, total, reserved, limit } = most.shortage;
        let (limit, value) = match limit {
            Limit::Free => ("free", capacity - used),
            Limit::MaxUnit(value) => ("max_unit", value),
            Limit::MinUnit(value) => ("min_unit", value),
            Limit::StepSize(value) => ("step_size", value),
        };
        let host = most.host.clone();
        MostView { host, available, capacity, used, total, reserved, limit, value }
    };
    let condition = |it: &Counted<ConditionCount>| ConditionView {
        constraint: it.condition.constraint,
        name: it.condition.name.clone(),
        group: it.condition.group.clone(),
        needed: it.condition.needed,
        hosts: it.hosts,
        only: it.only,
        without_inventory: it.absent,
        most: it.most.as_ref().map(closest),
    };
    let ruling = funnel.conditions.iter().filter(|it| it.hosts > 0);
    let near = funnel.near_misses.iter().filter_map(|it| {
        let condition = &funnel.conditions.get(it.condition)?.condition;
        Some(NearMissView {
            host: it.host.clone(),
            constraint: condition.constraint,
            name: condition.name.clone(),
            group: condition.group.clone(),
            missing: it.missing,
        })
    });
    HostCountsView {
        servers: counts.servers.clone(),
        server_count: counts.server_count,
        hosts: funnel.hosts,
        fitting: funnel.fitting,
        undecided: funnel.undecided,
        conditions: ruling.map(condition).collect(),
        near_miss_count: funnel.near,
        near_misses: near.collect(),
    }
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
fn cost(cost: &Cost, policy: PlacementPolicy) -> Object {
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
    view
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
