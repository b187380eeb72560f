//! How much work drafts are, counted in allocations: they are made on threads of their own, where
//! the tests of whole requests do not count.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Current;
use crate::http::planner::document::Document;
use crate::http::planner::ledger;
use crate::http::planner::schema::Object;
use crate::http::planner::settle::new_plan;
use crate::http::planner::template::{ServerEntry, Template};
use crate::http::planner::wishes::Wish;
use crate::planner::topology::Topology;
use crate::store::planner::plans::PlacementRow;
use crate::world::World;

/// Entries of resources by their ids.
type Resources = Vec<(String, Value)>;

fn object(resources: Resources) -> Object {
    resources.into_iter().collect::<Map<_, _>>()
}

fn volumes(count: usize, from: &str) -> Resources {
    let volume = json!({"type": "OS::Cinder::Volume"});
    (0..count).map(|nth| (format!("{from}{nth}"), volume.clone())).collect()
}

fn servers(count: usize) -> Resources {
    let server = json!({"type": "OS::Nova::Server", "properties": {"resources": {"VCPU": 1}}});
    (0..count).map(|nth| (format!("s{nth}"), server.clone())).collect()
}

fn group(id: &str, kind: &str, members: &[String]) -> (String, Value) {
    let properties = json!({"group_type": kind, "resources": members});
    (id.to_owned(), json!({"type": "OS::Valet::GroupAssignment", "properties": properties}))
}

/// Servers that are all in one group.
fn bound(count: usize, kind: &str) -> Resources {
    let members: Vec<String> = (0..count).map(|nth| format!("s{nth}")).collect();
    servers(count).into_iter().chain([group("g", kind, &members)]).collect()
}

/// Servers in affinity groups of two, of which each shares one with the next.
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

fn row(plan: Uuid, nth: usize, entry: &ServerEntry) -> PlacementRow {
    let id = Uuid::from_u128(1 + nth as u128);
    PlacementRow {
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
        holds: Vec::new(),
    }
}

/// A plan of these resources, with a placement for each server.
fn current(resources: Resources) -> Current {
    let mut document = Document { resources: object(resources), ..Document::default() };
    let template = document.template().unwrap();
    document.measure(&template, &Template::default(), &[]).unwrap();
    let plan = new_plan("p", "p", ("project", "user"));
    let entries = template.servers.iter().enumerate();
    let placements = entries.map(|(nth, entry)| row(plan.id, nth, entry)).collect();
    let world = Arc::new(World::default());
    let topology = Topology::of(&world, false);
    let (leaving, stored) = (Vec::new(), Vec::new());
    Current { plan, document, template, placements, leaving, stored, world, topology }
}

/// Allocations, and bytes of them, while a draft is made, completed and written down.
fn effort(current: &Current, wish: &Wish) -> (u64, u64) {
    let counted = allocation_counter::measure(|| {
        let document = wish.document(current);
        let mut draft = wish.draft(current, document, &[]).unwrap();
        draft.complete(&current.world, &current.topology).unwrap();
        drop(ledger::booking(&draft, None, &current.world).unwrap());
    });
    (counted.count_total, counted.bytes_total)
}

/// A plan of some size, and what is wanted of it.
fn case(nth: usize, count: usize) -> Option<(&'static str, Current, Wish)> {
    let replace = |resources| Wish::Replace(object(resources));
    Some(match nth {
        0 => {
            let (resources, update) = (object(volumes(count, "w")), object(volumes(count, "v")));
            ("an addition", current(volumes(count, "v")), Wish::Add { resources, update })
        }
        1 => ("the same servers", current(servers(count)), replace(servers(count))),
        2 => ("other servers", current(servers(count)), replace(volumes(count, "v"))),
        3 => {
            let affinity = replace(bound(count, "affinity"));
            ("another group", current(bound(count, "diversity")), affinity)
        }
        4 => ("linked servers", current(linked(count)), replace(linked(count))),
        5 => {
            let (server, excluded) = ("s0".to_owned(), hosts(count));
            let wish = Wish::Migrate { server, excluded, locations: None, with_mates: true };
            ("a migration", current(linked(count)), wish)
        }
        6 => {
            let wish = Wish::Repeat { locations: Some(hosts(count)) };
            ("a repetition", current(servers(count)), wish)
        }
        7 => {
            let wish = Wish::Drop(Uuid::from_u128(1));
            ("a deletion", current(bound(count, "affinity")), wish)
        }
        8 => {
            let (placement, locations) = (Uuid::from_u128(1), Some(hosts(count)));
            let wish = Wish::Reserve { placement, resource_id: None, locations, replan: true };
            ("a reservation", current(servers(count)), wish)
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
