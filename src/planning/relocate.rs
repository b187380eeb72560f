//! Finds the moves that empty hosts, or make room for more servers: of plans and of consumers outside of them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::budget::Budget;
use super::context::{PlanRef, Planning, Terms};
use super::failure::{Failure, Work};
use super::offload::run;
use crate::model::ProviderId;
use crate::model::consumer::ConsumerRow;
use crate::observe::spans;
use crate::planner::draft::{CurrentPlan, DraftServer};
use crate::planner::plan::Placement;
use crate::planner::rejection::Rejection;
use crate::planner::relocation::combination::{
    Combination, Extent, KeptProperties, Origin, Room, without_shared,
};
use crate::planner::relocation::{Relocation, relocate};
use crate::planner::stack::Stack;
use crate::planner::topology::Topology;
use crate::planner::{Explanation, Placed};
use crate::store::holders::HoldersMax;
use crate::store::planner::plans::Scope;
use crate::world::{Provider, World};

/// Maximum numbers of plans and consumers that are examined.
const PLANS_MAX: u32 = 200;
const HOLDERS_MAX: HoldersMax = HoldersMax { consumers: 5000, allocations: 200_000 };
/// Maximum numbers of servers and groups of plans whose servers need not move, together with the others.
const SERVERS_MAX: usize = 5000;
const GROUPS_MAX: usize = 500;
/// Maximum number of hosts from which servers may move that need not.
const HOSTS_MAX: usize = 64;

/// A request for moves.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The roots of the hosts that all servers leave.
    pub(crate) drained: Vec<ProviderId>,
    /// The servers for which there is to be room.
    pub(crate) room: Option<Room>,
    /// The common properties of the old and the new host of a consumer outside of plans.
    pub(crate) keep: KeptProperties,
}

/// Moves that were found.
#[derive(Clone, Debug)]
pub(crate) struct Relocated {
    /// The steps, each with all that moves in it.
    pub(crate) steps: Vec<Step>,
    /// The hosts with room for the additional servers, one for each of them.
    pub(crate) room: Vec<String>,
    /// Whether it is proven that no fewer moves suffice.
    pub(crate) is_proven: bool,
    /// Number of servers that move from hosts that need not be left.
    others: usize,
    /// Numbers of plans and of consumers outside of plans that were examined.
    pub(crate) plans: usize,
    pub(crate) consumers: usize,
}

/// A step: one request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A consumer outside of plans moves.
    Consumer(Box<ConsumerRow>, ServerMove),
    /// Servers of a plan move.
    Plan(PlanName, Vec<(ServerName, ServerMove)>),
}

/// The move of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerMove {
    /// The names of the hosts.
    pub(crate) from: String,
    pub(crate) to: String,
    /// The new allocations: provider, class and amount.
    pub(crate) allocations: Vec<(Uuid, String, i64)>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanName {
    pub(crate) id: Uuid,
    pub(crate) project: String,
}

/// A server of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerName {
    /// Its orchestration id.
    pub(crate) id: String,
    /// The consumer of its allocations.
    pub(crate) consumer: Option<Uuid>,
}

/// A plan as far as its servers can move.
struct PlanPart {
    plan: PlanName,
    servers: Vec<ServerName>,
    stack: Stack,
    placements: Vec<Uuid>,
    groups: Vec<Uuid>,
    /// Reserved placements whose servers have left the plan.
    leaving: Vec<Placement>,
}

/// Everything that may move, and all that it is bound to.
#[derive(Default)]
struct Involved {
    plans: Vec<PlanPart>,
    consumers: Vec<ConsumerRow>,
    /// Whether nothing was left out.
    are_all: bool,
}

impl Planning {
    /// Finds the fewest moves of servers by which all leave some hosts, or by which there is room for others. First only
    /// those move that have to; if that is not possible, all may move that are examined.
    ///
    /// # Errors
    /// `NoPlaces`: there are no such moves; `Rejected`: too many servers are bound to the hosts; `OutOfTime`, `NoTurn`,
    /// `Store`.
    pub(crate) async fn relocate(
        &self,
        wanted: Wanted,
        terms: Terms,
    ) -> Result<Relocated, Failure> {
        let wanted = Arc::new(wanted);
        let must = self.involved(&wanted.drained, terms).await?;
        if !must.are_all {
            return Err(Failure::Rejected(Rejection::Invalid(format!(
                "servers of more than {PLANS_MAX} plans, or more than {} consumers, are on these hosts; drain fewer at \
                 a time",
                HOLDERS_MAX.consumers
            ))));
        }
        let must_move: HashSet<Uuid> = must.plans.iter().map(|plan| plan.plan.id).collect();
        let is_impossible = match self.relocate_within(&wanted, must, false, terms).await {
            // Each of them has to move, so none can be saved.
            Ok(Some(found)) => return Ok(Relocated { is_proven: true, ..found }),
            Ok(None) | Err(Failure::OutOfTime) => false,
            Err(Failure::NoPlaces(_)) => true,
            Err(failure) => return Err(failure),
        };
        let world = self.store.world().await?;
        let turn = self.read_turn(terms.requester).await?;
        let same = Arc::clone(&wanted);
        let hosts = run(turn, move || Ok(near_hosts(&world, &same.drained))).await?;
        let involved = self.involved(&hosts.roots, terms).await?.bounded(&must_move);
        let are_all = hosts.are_all && involved.are_all;
        let found = self.relocate_within(&wanted, involved, true, terms).await?;
        let found = found.ok_or_else(|| {
            let sentence = "there are places for all servers, but no order of moves was found in which each is \
                            possible";
            Failure::NoPlaces(Explanation { sentence: sentence.to_owned(), ..Explanation::default() })
        })?;
        let is_least = is_impossible && found.others == 1;
        Ok(Relocated { is_proven: is_least || found.is_proven && are_all, ..found })
    }

    /// The plans and the consumers with something on hosts, by their roots.
    async fn involved(&self, hosts: &[ProviderId], terms: Terms) -> Result<Involved, Failure> {
        if hosts.is_empty() {
            return Ok(Involved { are_all: true, ..Involved::default() });
        }
        let world = self.store.world().await?;
        let roots = hosts.iter().filter_map(|root| world.provider_by_id(*root));
        let providers: Vec<ProviderId> =
            roots.flat_map(|root| root.tree()).map(|provider| provider.id()).collect();
        let limit = HOLDERS_MAX.allocations;
        let mut ids = self.store.plans_on(&providers, limit, PLANS_MAX + 1).await?;
        let are_all_plans = ids.len() <= PLANS_MAX as usize;
        ids.truncate(PLANS_MAX as usize);
        let mut plans = Vec::with_capacity(ids.len());
        for id in ids {
            let scope = Scope { project: "", all: true };
            let current =
                match self.read(PlanRef { key: &id.to_string(), scope }, terms.requester).await {
                    Ok(current) => current,
                    // It was deleted in the meantime.
                    Err(Failure::PlanNotFound) => continue,
                    Err(failure) => return Err(failure),
                };
            let turn = self.read_turn(terms.requester).await?;
            plans.push(run(turn, move || part(&current)).await?);
        }
        let holders = self.store.holders(&providers, HOLDERS_MAX).await?;
        let are_all = are_all_plans && holders.are_all;
        Ok(Involved { plans, consumers: holders.consumers, are_all })
    }

    /// Finds the moves among these plans and consumers; `None` if no order of moves was found.
    async fn relocate_within(
        &self,
        wanted: &Arc<Wanted>,
        involved: Involved,
        others_may_move: bool,
        terms: Terms,
    ) -> Result<Option<Relocated>, Failure> {
        let Involved { plans, consumers, .. } = involved;
        let count = plans.iter().map(|plan| plan.servers.len()).sum::<usize>() + consumers.len();
        let turn = Budget::new(self, terms).turn(self, count).await?;
        let own: Vec<Uuid> = plans.iter().flat_map(|plan| plan.placements.clone()).collect();
        let groups: BTreeSet<Uuid> = plans.iter().flat_map(|plan| plan.groups.clone()).collect();
        let groups: Vec<Uuid> = groups.into_iter().collect();
        let of_room = wanted.room.as_ref().is_some_and(|room| !room.aggregates.is_empty());
        let metadata = of_room || plans.iter().any(|plan| plan.stack.demands_aggregates());
        let around = self.surroundings(&own, &groups, metadata).await?;
        // Read last, so that it has every provider of the servers.
        let world = self.store.world().await?;
        let topology = self.topology(&world);
        let (wanted, headroom) = (Arc::clone(wanted), self.headroom.clone());
        let _guard = turn.guard();
        let work = move || -> Result<Option<Relocated>, Failure> {
            let closed = wanted.drained.iter().copied().collect();
            let world = without_shared(headroom.left_free(&world), &closed);
            let drained: HashSet<String> = names(&world, &wanted.drained).collect();
            stay_behind(&world, &topology, &plans, &drained)?;
            let extent = Extent { drained: Arc::new(drained), others_may_move, keep: wanted.keep };
            let mut combination = Combination::new(topology, extent);
            for (nth, plan) in plans.iter().enumerate() {
                combination.add_plan(nth, &plan.stack, &world)?;
            }
            combination.join_groups();
            for (nth, consumer) in consumers.iter().enumerate() {
                combination.add_consumer(nth, consumer, &world)?;
            }
            if let Some(room) = &wanted.room {
                combination.add_room(room);
            }
            let found = relocate(&world, &combination, &around, &turn)?;
            Ok(found.map(|found| relocated(found, &combination, &plans, &consumers)))
        };
        let done = spans::spawn_blocking(work).await;
        done.map_err(|panic| Failure::Panicked(Work::Solving, panic.to_string()))?
    }
}

impl Involved {
    /// Leaves out plans whose servers need not move, beyond the size of one stack.
    fn bounded(mut self, must_move: &HashSet<Uuid>) -> Self {
        self.plans.sort_by_key(|plan| !must_move.contains(&plan.plan.id));
        let (mut servers, mut groups) = (0, 0);
        let count = self.plans.len();
        self.plans.retain(|plan| {
            servers += plan.servers.len();
            groups += plan.stack.groups.len();
            must_move.contains(&plan.plan.id) || servers <= SERVERS_MAX && groups <= GROUPS_MAX
        });
        self.are_all &= self.plans.len() == count;
        self
    }
}

/// The part of a plan that decides where its servers can be.
fn part(current: &CurrentPlan) -> Result<PlanPart, Failure> {
    let mut draft = current.draft()?;
    draft.skip_lost(&BTreeSet::new());
    let server = |server: &DraftServer| ServerName {
        id: server.entry.id.clone(),
        consumer: server.placement.as_ref().map(|placement| placement.consumer),
    };
    let plan = &current.plan;
    Ok(PlanPart {
        plan: PlanName { id: plan.id, project: plan.project.clone() },
        servers: draft.servers.iter().map(server).collect(),
        placements: draft.decided_placements(),
        groups: draft.stored_groups(),
        stack: draft.stack,
        leaving: current.leaving.clone(),
    })
}

/// Refuses to drain hosts of placements that no plan can move.
fn stay_behind(
    world: &World,
    topology: &Topology,
    plans: &[PlanPart],
    drained: &HashSet<String>,
) -> Result<(), Failure> {
    for plan in plans {
        for left in &plan.leaving {
            let host = topology.host_of(world, &left.holds);
            let Some(host) = host.filter(|host| drained.contains(host.name())) else { continue };
            let sentence = format!(
                "placement {} of '{}' is on {}, but its server has left plan {}: delete the placement first",
                left.id,
                left.name,
                host.name(),
                plan.plan.id
            );
            return Err(Failure::NoPlaces(Explanation { sentence, ..Explanation::default() }));
        }
    }
    Ok(())
}

/// Hosts whose servers may move.
struct NearHosts {
    roots: Vec<ProviderId>,
    /// Whether these are all hosts.
    are_all: bool,
}

/// The drained hosts, and those with the largest share of free capacity.
fn near_hosts(world: &World, drained: &[ProviderId]) -> NearHosts {
    let drained: HashSet<ProviderId> = drained.iter().copied().collect();
    let mut others: Vec<(u64, ProviderId)> = Vec::new();
    for root in world.trees().filter(|root| !drained.contains(&root.id())) {
        others.push((used_share(&root), root.id()));
    }
    let are_all = others.len() <= HOSTS_MAX;
    others.sort_unstable();
    others.truncate(HOSTS_MAX);
    let others = others.into_iter().map(|(_, root)| root);
    NearHosts { roots: drained.into_iter().chain(others).collect(), are_all }
}

/// The used share of a host's capacity in millionths, the mean of all inventories.
fn used_share(root: &Provider<'_>) -> u64 {
    let shares = root.tree().flat_map(|it| it.inventories()).map(|row| {
        let capacity = row.terms.capacity().max(1);
        row.used.clamp(0, capacity).unsigned_abs() * 1_000_000 / capacity.unsigned_abs()
    });
    let shares: Vec<u64> = shares.collect();
    shares.iter().sum::<u64>() / shares.len().max(1) as u64
}

fn names(world: &World, roots: &[ProviderId]) -> impl Iterator<Item = String> {
    let roots = roots.iter().filter_map(|root| world.provider_by_id(*root));
    roots.map(|root| root.name().to_owned())
}

/// The moves, with the names of all that move.
fn relocated(
    found: Relocation,
    combination: &Combination,
    plans: &[PlanPart],
    consumers: &[ConsumerRow],
) -> Relocated {
    let moves = found.steps.iter().flatten();
    let others = moves.filter(|moved| !combination.is_drained(&moved.from)).count();
    let is_proven = found.is_proven && combination.is_complete;
    let mut steps = Vec::with_capacity(found.steps.len());
    for step in found.steps {
        let mut of_plan: Option<(PlanName, Vec<(ServerName, ServerMove)>)> = None;
        for moved in step {
            let Placed { host, wants, .. } = moved.to;
            let (from, allocations) = (moved.from, wants.into_iter().flatten().collect());
            let server_move = ServerMove { from, to: host, allocations };
            match combination.origins.get(moved.server) {
                Some(Origin::Consumer(nth)) => {
                    let consumer = consumers.get(*nth).cloned();
                    steps.extend(consumer.map(|it| Step::Consumer(Box::new(it), server_move)));
                }
                Some(Origin::Planned(plan, server)) => {
                    let Some(part) = plans.get(*plan) else { continue };
                    let Some(server) = part.servers.get(*server) else { continue };
                    let (_, moves) = of_plan.get_or_insert_with(|| (part.plan.clone(), Vec::new()));
                    moves.push((server.clone(), server_move));
                }
                Some(Origin::Room) | None => {}
            }
        }
        steps.extend(of_plan.map(|(plan, moves)| Step::Plan(plan, moves)));
    }
    let (room, plans, consumers) = (found.room, plans.len(), consumers.len());
    Relocated { steps, room, is_proven, others, plans, consumers }
}
