//! One stack of the servers of several plans, of consumers outside of plans, and of servers to make room for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::consumer;
use crate::model::consumer::ConsumerRow;
use crate::model::{ClassId, GroupKind, ProviderId};
use crate::planner::failure::{Explanation, Failure};
use crate::planner::flavor::Size;
use crate::planner::stack::{Group, Holder, HostNames, Present, Server, Stack};
use crate::planner::topology::Topology;
pub(crate) use crate::search::moves::{KeptProperties, without_shared};
use crate::solver::groups::{Member, Terms};
use crate::world::{Provider, World};

/// The origin of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A server of a plan, with the position of the plan and its own in the plan.
    Planned(usize, usize),
    /// A consumer outside of plans, by its position.
    Consumer(usize),
    /// A server for which room is made.
    Room,
}

/// Servers of several plans, and consumers outside of plans, as one stack.
#[derive(Debug)]
pub(crate) struct Combination {
    pub(crate) stack: Stack,
    /// For each server of the stack, its origin.
    pub(crate) origins: Vec<Origin>,
    /// For each server, whether one request replaces its allocations at once.
    at_once: Vec<bool>,
    /// The positions of stored groups in the stack. Each plan has its own.
    stored: BTreeMap<Uuid, Vec<usize>>,
    topology: Topology,
    extent: Extent,
    /// By aggregates, the hosts that are in all of them.
    hosts_in: HashMap<Vec<Uuid>, HostNames>,
    /// The sizes of consumers outside of plans.
    sizes: HashSet<Size>,
    /// Whether all consumers that may move can.
    pub(crate) is_complete: bool,
}

/// Maximum number of sizes of consumers that need not move.
const SIZES_MAX: usize = 300;

/// Servers for which there is to be room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// The size of each.
    pub(crate) size: Size,
    /// Their demands on the metadata of the host's aggregates, by key.
    pub(crate) aggregates: BTreeMap<String, String>,
    /// Their number.
    pub(crate) count: usize,
    /// The names of the hosts for them; `None`: any.
    pub(crate) on: Option<HostNames>,
}

/// The extent of a relocation.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// Names of hosts that all servers leave.
    pub(crate) drained: HostNames,
    /// Whether servers of other hosts may move, too.
    pub(crate) others_may_move: bool,
    /// The common properties of the old and the new host of a consumer outside of plans.
    pub(crate) keep: KeptProperties,
}

impl Combination {
    /// Creates an empty one.
    pub(crate) fn new(topology: Topology, extent: Extent) -> Self {
        Self {
            stack: Stack::default(),
            origins: Vec::new(),
            at_once: Vec::new(),
            stored: BTreeMap::new(),
            topology,
            extent,
            hosts_in: HashMap::new(),
            sizes: HashSet::new(),
            is_complete: true,
        }
    }

    /// Adds a plan, by its position. Servers without a host are left out.
    ///
    /// # Errors
    /// `NoPlaces`: a server must leave its host, but is moving already.
    pub(crate) fn add_plan(
        &mut self,
        plan: usize,
        stack: &Stack,
        world: &World,
    ) -> Result<(), Failure> {
        let mut positions = Vec::with_capacity(stack.servers.len());
        for (nth, server) in stack.servers.iter().enumerate() {
            let present = server.present.as_ref().filter(|_| !server.absent);
            let home = present.and_then(|it| self.topology.host_of(world, &it.holds));
            let (Some(present), Some(home)) = (present, home) else {
                positions.push(None);
                continue;
            };
            self.check_shared(&server.name, &home, &present.holds, world)?;
            let mut server = server.clone();
            let may_move = self.may_move(&home, is_on_one(world, &self.topology, &present.holds));
            server.fixed = !may_move.map_err(|()| is_moving(&server.name, &home))?;
            let at_once = present.holder == Holder::Plan;
            positions.push(Some(self.push(server, Origin::Planned(plan, nth), at_once)));
        }
        let first = self.stack.groups.len();
        let member = |member: &Member| match member {
            Member::Server(server) => positions.get(*server).copied().flatten().map(Member::Server),
            Member::Group(group) => Some(Member::Group(first + group)),
        };
        for group in &stack.groups {
            if let Some(stored) = group.stored {
                self.stored.entry(stored).or_default().push(self.stack.groups.len());
            }
            let members = group.members.iter().filter_map(member).collect();
            self.stack.groups.push(Group { members, ..group.clone() });
        }
        Ok(())
    }

    /// Adds a consumer outside of plans, by its position. One that stays is left out.
    ///
    /// # Errors
    /// `NoPlaces`: it must leave its host, but is moving already.
    pub(crate) fn add_consumer(
        &mut self,
        nth: usize,
        consumer: &ConsumerRow,
        world: &World,
    ) -> Result<(), Failure> {
        let Some(home) = self.topology.host_of(world, &consumer.allocations) else { return Ok(()) };
        let id = consumer.uuid.to_string();
        self.check_shared(&id, &home, &consumer.allocations, world)?;
        let size = consumer::size(world, &self.topology, consumer, &home, self.extent.keep);
        let may_move = self.may_move(&home, size.is_some()).map_err(|()| is_moving(&id, &home))?;
        let Some(size) = size.filter(|_| may_move) else { return Ok(()) };
        // One request has limited room for sizes, which are searched one by one.
        let is_known = self.sizes.contains(&size);
        if !is_known && self.sizes.len() >= SIZES_MAX && !self.must_leave(&home) {
            self.is_complete = false;
            return Ok(());
        }
        self.sizes.insert(size.clone());
        let present = Present {
            holds: consumer.allocations.clone(),
            holder: Holder::Mover,
            groups: BTreeSet::new(),
        };
        let locations = if self.extent.keep.aggregates && !home.aggregates().is_empty() {
            vec![self.hosts_in_all_of(&home, world)]
        } else {
            Vec::new()
        };
        let server = Server {
            name: id.clone(),
            id,
            size,
            locations,
            present: Some(present),
            ..Server::default()
        };
        self.push(server, Origin::Consumer(nth), true);
        Ok(())
    }

    /// Adds servers for which there is to be room.
    pub(crate) fn add_room(&mut self, room: &Room) {
        for nth in 0..room.count {
            let name = format!("room-{nth}");
            let server = Server {
                id: name.clone(),
                name,
                size: room.size.clone(),
                aggregates: room.aggregates.clone(),
                locations: room.on.iter().cloned().collect(),
                ..Server::default()
            };
            self.push(server, Origin::Room, true);
        }
    }

    /// Joins the groups that several plans have in common. Call it when all plans have been added.
    pub(crate) fn join_groups(&mut self) {
        for (stored, positions) in std::mem::take(&mut self.stored) {
            let groups: Vec<Group> =
                positions.iter().filter_map(|it| self.stack.groups.get(*it)).cloned().collect();
            let [first, _, ..] = groups.as_slice() else { continue };
            let mut members = HashSet::new();
            let all = groups.iter().flat_map(|group| &group.members);
            let members = all.filter(|it| members.insert(**it)).copied().collect();
            self.stack.groups.push(Group { members, stored: Some(stored), ..first.clone() });
            // The groups of the plans remain as members of others, without a rule of their own.
            for position in positions {
                if let Some(group) = self.stack.groups.get_mut(position) {
                    group.kind = GroupKind::Diversity;
                    group.terms = Terms { max_per_unit: Some(u32::MAX), ..Terms::default() };
                    group.stored = None;
                }
            }
        }
    }

    /// Returns whether a request moves a server at once: the plan's holds, or the allocations of a consumer.
    pub(super) fn moves_at_once(&self, server: usize) -> bool {
        self.at_once.get(server) == Some(&true)
    }

    /// The sets of moving servers that one step can move, by their positions in `moving`: each one, then those of a plan
    /// that affinity binds together, then all of a plan.
    ///
    /// # Errors
    /// The groups are invalid.
    pub(super) fn sets(&self, moving: &[usize]) -> Result<Vec<Vec<usize>>, Failure> {
        let bound = self.stack.bound();
        let bound = bound.map_err(|why| Failure::Invalid(self.stack.describe(why)))?;
        let mut mates: BTreeMap<(usize, Option<usize>), Vec<usize>> = BTreeMap::new();
        let mut plans: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (nth, server) in moving.iter().enumerate() {
            if let Some(Origin::Planned(plan, _)) = self.origins.get(*server) {
                mates.entry((*plan, bound.get(*server).copied())).or_default().push(nth);
                plans.entry(*plan).or_default().push(nth);
            }
        }
        let mut sets: Vec<Vec<usize>> = (0..moving.len()).map(|nth| vec![nth]).collect();
        for set in mates.into_values().chain(plans.into_values()) {
            if set.len() > 1 && sets.last() != Some(&set) {
                sets.push(set);
            }
        }
        Ok(sets)
    }

    fn push(&mut self, mut server: Server, origin: Origin, at_once: bool) -> usize {
        if !server.fixed {
            server.excluded.push(Arc::clone(&self.extent.drained));
            if let Some(present) = &mut server.present {
                present.holder = Holder::Mover;
            }
        }
        self.stack.servers.push(server);
        self.origins.push(origin);
        self.at_once.push(at_once);
        self.origins.len() - 1
    }

    /// Returns whether a server may move. A host that is drained must be left, which is an error for one that cannot.
    fn may_move(&self, home: &Provider<'_>, can: bool) -> Result<bool, ()> {
        let must = self.must_leave(home);
        if must && !can { Err(()) } else { Ok(can && (must || self.extent.others_may_move)) }
    }

    /// Refuses to drain a host whose shared capacity a server of another host uses.
    fn check_shared(
        &self,
        server: &str,
        home: &Provider<'_>,
        holds: &[(ProviderId, ClassId, i64)],
        world: &World,
    ) -> Result<(), Failure> {
        let roots = holds.iter().filter_map(|(id, ..)| Some(world.provider_by_id(*id)?.root()));
        let mut others = roots.filter(|root| root != home && self.must_leave(root));
        let Some(other) = others.next().filter(|_| !self.must_leave(home)) else { return Ok(()) };
        let sentence = format!(
            "'{server}' is on {} and uses capacity that {} shares: it cannot be moved",
            home.name(),
            other.name()
        );
        Err(Failure::NoPlaces(Explanation { sentence, ..Explanation::default() }))
    }

    fn must_leave(&self, home: &Provider<'_>) -> bool {
        self.is_drained(home.name())
    }

    /// Returns whether all servers leave a host, by its name.
    pub(crate) fn is_drained(&self, host: &str) -> bool {
        self.extent.drained.contains(host)
    }

    /// The names of the hosts that are in all aggregates of a host.
    fn hosts_in_all_of(&mut self, home: &Provider<'_>, world: &World) -> HostNames {
        let all = home.aggregates();
        let is_in_all = |host: &Provider<'_>| all.iter().all(|it| host.aggregates().contains(it));
        let names = || world.trees().filter(is_in_all).map(|host| host.name().to_owned()).collect();
        Arc::clone(self.hosts_in.entry(all.to_vec()).or_insert_with(|| Arc::new(names())))
    }
}

/// Returns whether allocations are on one host, besides shared providers.
fn is_on_one(world: &World, topology: &Topology, holds: &[(ProviderId, ClassId, i64)]) -> bool {
    let own = holds.iter().filter_map(|(provider, ..)| world.provider_by_id(*provider));
    let own = own.filter(|provider| !topology.is_shared(provider));
    own.map(|provider| provider.root().id()).collect::<BTreeSet<_>>().len() <= 1
}

fn is_moving(server: &str, home: &Provider<'_>) -> Failure {
    let sentence = format!(
        "'{server}' has allocations on {} and on another host: it must finish moving first",
        home.name()
    );
    Failure::NoPlaces(Explanation { sentence, ..Explanation::default() })
}
