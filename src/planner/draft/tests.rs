//! The work for drafts, counted in allocations: drafts run on separate threads, which the tests of whole requests
//! do not count.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::CurrentPlan;
use crate::planner::booking;
use crate::planner::change::{Destinations, PlanChange};
use crate::planner::difference::StackRequest;
use crate::planner::document::Document;
use crate::planner::json::Object;
use crate::planner::plan::{Placement, Plan};
use crate::planner::template::{ServerEntry, Template};
use crate::planner::topology::Topology;
use crate::world::World;

/// Entries of resources by their ids.
pub(in crate::planner) type Resources = Vec<(String, Value)>;

pub(in crate::planner) fn object(resources: Resources) -> Object {
    resources.into_iter().collect::<Map<_, _>>()
}

fn volumes(count: usize, from: &str) -> Resources {
    let volume = json!({"type": "OS::Cinder::Volume"});
    (0..count).map(|nth| (format!("{from}{nth}"), volume.clone())).collect()
}

pub(in crate::planner) fn servers(count: usize) -> Resources {
    let server = json!({"type": "OS::Nova::Server", "properties": {"resources": {"VCPU": 1}}});
    (0..count).map(|nth| (format!("s{nth}"), server.clone())).collect()
}

fn group(id: &str, kind: &str, members: &[String]) -> (String, Value) {
    let properties = json!({"group_type": kind, "resources": members});
    (id.to_owned(), json!({"type": "OS::Valet::GroupAssignment", "properties": properties}))
}

/// Servers that are all in one group.
pub(in crate::planner) fn bound(count: usize, kind: &str) -> Resources {
    let members: Vec<String> = (0..count).map(|nth| format!("s{nth}")).collect();
    servers(count).into_iter().chain([group("g", kind, &members)]).collect()
}

/// Servers in affinity groups of two, each of which shares one with the next.
fn linked(count: usize) -> Resources {
    let pair = |nth: usize| {
        let members = [format!("s{nth}"), format!("s{}", nth + 1)];
        group(&format!("g{nth}"), "affinity", &members)
    };
    servers(count).into_iter().chain((0..count - 1).map(pair)).collect()
}

fn hosts(count: usize) -> Vec<String> {
    (0..count).map(|nth| format!("host-{nth}")).collect()
}

/// A placement of a plan that holds nothing.
pub(super) fn row(plan: Uuid, nth: usize, entry: &ServerEntry) -> Placement {
    let id = Uuid::from_u128(1 + nth as u128);
    Placement {
        id,
        plan,
        position: i32::try_from(nth).unwrap(),
        orchestration_id: entry.id.clone(),
        orchestration_key: entry.key.clone(),
        name: entry.name.clone(),
        resource_id: None,
        resource_key: None,
        reserved: None,
        consumer: id,
        ticket: None,
        metadata: "{}".to_owned(),
        leaving: false,
        project: "demo".to_owned(),
        groups: Vec::new(),
        planned_on: None,
        holds: Vec::new(),
    }
}

/// A plan of these resources, with a placement for each server.
pub(in crate::planner) fn current(resources: Resources) -> CurrentPlan {
    let mut document = Document { resources: object(resources), ..Document::default() };
    let template = document.template().unwrap();
    document.measure(&template, &Template::default(), &[]).unwrap();
    let plan = Plan::new("p", "p", "project", "user");
    let entries = template.servers.iter().enumerate();
    let placements = entries.map(|(nth, entry)| row(plan.id, nth, entry)).collect();
    let world = Arc::new(World::default());
    let topology = Topology::of(&world, false);
    let (leaving, groups) = (Vec::new(), Vec::new());
    CurrentPlan { plan, document, template, placements, leaving, groups, world, topology }
}

/// Allocations, and their bytes, while a draft is made, completed and written.
fn effort(current: &CurrentPlan, change: &PlanChange) -> (u64, u64) {
    let counted = allocation_counter::measure(|| {
        let document = change.document(current).unwrap();
        let mut draft = change.draft(current, document, &[]).unwrap();
        draft.complete(&current.world, &current.topology).unwrap();
        drop(booking::write_draft(&draft, None, &current.world).unwrap());
    });
    (counted.count_total, counted.bytes_total)
}

/// A plan of some size, and a change to it.
fn case(nth: usize, count: usize) -> Option<(&'static str, CurrentPlan, PlanChange)> {
    let replace = |resources| PlanChange::Replace {
        resources: object(resources),
        policy: None,
        may_migrate: true,
    };
    Some(match nth {
        0 => {
            let stack_id = "p".to_owned();
            let (resources, update) = (object(volumes(count, "w")), object(volumes(count, "v")));
            (
                "an addition",
                current(volumes(count, "v")),
                PlanChange::Add { stack_id, resources, update, policy: None, may_migrate: true },
            )
        }
        1 => ("the same servers", current(servers(count)), replace(servers(count))),
        2 => ("other servers", current(servers(count)), replace(volumes(count, "v"))),
        3 => {
            let affinity = replace(bound(count, "affinity"));
            ("another group", current(bound(count, "diversity")), affinity)
        }
        4 => ("linked servers", current(linked(count)), replace(linked(count))),
        5 => {
            let (servers, excluded) = (vec!["s0".to_owned()], hosts(count));
            let change =
                PlanChange::Migrate { servers, excluded, to: Destinations::Any, with_mates: true };
            ("a migration", current(linked(count)), change)
        }
        6 => {
            let current = current(servers(count));
            let (template, locations) = (current.template.clone(), Some(hosts(count)));
            let request = StackRequest { template, locations, ..StackRequest::default() };
            ("a repetition", current, PlanChange::Repeat(Arc::new(request)))
        }
        7 => {
            let change = PlanChange::Remove(Uuid::from_u128(1));
            ("a deletion", current(bound(count, "affinity")), change)
        }
        8 => {
            let (placement, locations) = (Uuid::from_u128(1), Some(hosts(count)));
            let change =
                PlanChange::Reserve { placement, resource_id: None, locations, replan: true };
            ("a reservation", current(servers(count)), change)
        }
        _ => return None,
    })
}

#[test]
fn a_draft_is_no_more_work_than_the_plan_is_large() {
    for nth in 0.. {
        let (Some((name, small, few)), Some((_, large, many))) = (case(nth, 450), case(nth, 900))
        else {
            assert!(nth > 8);
            return;
        };
        let (half, whole) = (effort(&small, &few), effort(&large, &many));
        assert!(
            whole.0 <= 2 * half.0 + half.0 / 4 + 100 && whole.1 <= 2 * half.1 + half.1 / 2 + 10_000,
            "{name}: {half:?} allocations and bytes for half of it, {whole:?} for all"
        );
    }
}
