//! The servers of a stack on their racks and hosts, with their groups.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::http::console::amounts::amounts_text;
use crate::planner::draft::Draft;
use crate::planner::stack::{Group, Stack};
use crate::planner::topology::Topology;
use crate::solver::groups::Member;
use crate::world::World;

/// Number of colours of groups.
const COLOURS: usize = 8;

/// A stack on racks and hosts.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    pub(super) groups: Vec<DrawnGroup>,
    pub(super) racks: Vec<Rack>,
    /// Servers without a host.
    pub(super) others: Vec<DrawnServer>,
}

/// A rack, or all hosts without one.
#[derive(Debug)]
pub(super) struct Rack {
    pub(super) name: Option<String>,
    pub(super) hosts: Vec<Host>,
}

/// A host with servers of the stack.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: String,
    /// The root of its tree, if it still exists.
    pub(super) uuid: Option<Uuid>,
    pub(super) servers: Vec<DrawnServer>,
}

/// A server.
#[derive(Clone, Debug)]
pub(super) struct DrawnServer {
    pub(super) name: String,
    pub(super) amounts: String,
    /// Its groups, each with its colour.
    pub(super) groups: Vec<(String, usize)>,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct DrawnGroup {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) level: &'static str,
    pub(super) colour: usize,
    pub(super) members: Vec<String>,
}

impl Drawing {
    /// Draws the servers of a draft. `places` has the name of the host of each, with what it uses there.
    pub(super) fn of(
        draft: &Draft,
        places: impl Iterator<Item = Option<(String, Vec<(Uuid, String, i64)>)>>,
        world: &World,
        topology: &Topology,
    ) -> Self {
        let stack = &draft.stack;
        let mut others = Vec::new();
        let mut racks: BTreeMap<Option<String>, BTreeMap<String, Host>> = BTreeMap::new();
        for ((nth, server), place) in draft.servers.iter().enumerate().zip(places) {
            let amounts = place.iter().flat_map(|(_, amounts)| amounts);
            let amounts: Vec<(String, i64)> =
                amounts.map(|(_, class, amount)| (class.clone(), *amount)).collect();
            let server = DrawnServer {
                name: server.entry.name.clone(),
                amounts: amounts_text(&amounts),
                groups: groups_of(stack, nth),
            };
            let Some((name, amounts)) = place else {
                others.push(server);
                continue;
            };
            let providers = amounts.iter().filter_map(|(provider, ..)| world.provider(*provider));
            let root = topology.host(providers);
            let rack = root.as_ref().and_then(|root| topology.location(root).rack);
            let hosts = racks.entry(rack.map(|rack| rack.to_string())).or_default();
            let host = hosts.entry(name.clone()).or_insert_with(|| Host {
                name,
                uuid: root.map(|root| root.uuid()),
                servers: Vec::new(),
            });
            host.servers.push(server);
        }
        let racks = racks.into_iter();
        let racks = racks.map(|(name, hosts)| Rack { name, hosts: hosts.into_values().collect() });
        let groups = stack.groups.iter().enumerate().map(|(nth, group)| drawn(stack, nth, group));
        Self { groups: groups.collect(), racks: racks.collect(), others }
    }
}

/// Returns the groups of which a server is a member, each with its colour.
fn groups_of(stack: &Stack, server: usize) -> Vec<(String, usize)> {
    let of = |group: &Group| group.members.contains(&Member::Server(server));
    let groups = stack.groups.iter().enumerate().filter(|(_, group)| of(group));
    groups.map(|(nth, group)| (group.name.clone(), nth % COLOURS)).collect()
}

fn drawn(stack: &Stack, nth: usize, group: &Group) -> DrawnGroup {
    let name = |member: &Member| match member {
        Member::Server(nth) => stack.servers.get(*nth).map(|server| server.name.clone()),
        Member::Group(nth) => stack.groups.get(*nth).map(|group| group.name.clone()),
    };
    DrawnGroup {
        name: group.name.clone(),
        kind: group.kind.name(),
        level: group.level.name(),
        colour: nth % COLOURS,
        members: group.members.iter().filter_map(name).collect(),
    }
}
