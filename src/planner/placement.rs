//! Chooses a host for every server of a stack, or explains why that is impossible.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::compose::{Composed, compose};
use super::explanation::{Case, explanation};
use super::failure::{Explanation, Failure};
use super::stack::{ServerKind, Stack, Surroundings};
use super::topology::Topology;
use crate::model::{ClassId, ExclusiveHost, GroupKind, Level, PlacementPolicy, ProviderId};
use crate::solver::{
    Budget, Cost, Outcome, PlacementProblem, Progress, Solution, Spent, TwoSteps, explain_within,
    solve_other,
};
use crate::world::{Provider, World};

/// The additional time for an explanation after the time to find hosts is up.
const GRACE: Duration = Duration::from_secs(1);

/// The time and the threads for a search.
pub trait SolvingTime: Sync {
    /// Returns whether the time plus `grace` is over.
    fn is_up(&self, grace: Duration) -> bool;

    /// Returns whether `shares` of `of` equal shares of the time are over.
    fn is_share_up(&self, shares: u32, of: u32) -> bool;

    /// Returns whether the search should stop with its result before the time is up, because others wait. False if
    /// it has found nothing.
    fn is_enough(&self, found: Progress) -> bool;

    /// Number of threads that the search may use at present. All of its threads call this.
    fn threads(&self) -> usize;
}

/// Places for all servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedStack {
    /// One for each server of the stack; `None` for those that are absent.
    pub places: Vec<Option<Placed>>,
    /// Hosts that groups take, or already have.
    pub units: Vec<ExclusiveHost>,
    /// The cost.
    pub cost: Cost,
    /// A lower bound of the cost. If it equals the cost, the placement is optimal.
    pub bound: Cost,
    /// The reason why the search ended; `None`: the placement is optimal.
    pub stopped: Option<Spent>,
    /// Other placements, the best first, if requested.
    pub alternatives: Vec<Alternative>,
    /// Rules that servers break which stay on their hosts.
    pub broken: Vec<BrokenRule>,
}

/// The rule of a group that a server breaks where it is. The rule does not bind the server while it stays there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokenRule {
    /// The orchestration id of the server.
    pub server: String,
    /// The name of the group.
    pub group: String,
    /// The kind of the group.
    pub kind: GroupKind,
    /// The level of the group.
    pub level: Level,
}

/// Another placement of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The host of each server of the stack; `None` for those that are absent.
    pub hosts: Vec<Option<String>>,
    /// The cost.
    pub cost: Cost,
    /// A lower bound of the cost of every placement except the better ones.
    pub bound: Cost,
    /// The reason why the search ended; `None`: no other placement is better.
    pub stopped: Option<Spent>,
}

/// The place of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The name of its host.
    pub host: String,
    /// The root of the host's tree.
    pub root: ProviderId,
    /// The amounts to hold for it: provider, class, amount. `None`: it stays, with its current hold.
    pub wants: Option<Vec<(Uuid, String, i64)>>,
    /// Whether it was on another host before.
    pub moved: bool,
    /// The stored groups that it is in.
    pub groups: BTreeSet<Uuid>,
}

/// Finds places for all servers of a stack.
///
/// When the time is up, returns the best solution so far. `explains`: whether to explain the lack of a solution.
///
/// # Errors
/// There is no solution, or none was found in time.
pub fn places(
    world: &Arc<World>,
    stack: &Stack,
    around: &Surroundings,
    time: &dyn SolvingTime,
    explains: bool,
) -> Result<PlacedStack, Failure> {
    let (present, positions) = stack.present();
    let search = Search::new(&present, around, time);
    let First { composed, found, kept } = search.first(world, &present, around)?;
    match found {
        Some(solution) => {
            let placed = placed(&composed, &present, &solution)?;
            let units = units(&composed.world, &present, around, &placed);
            let mut all = vec![None; stack.servers.len()];
            for (position, placed) in positions.iter().zip(placed) {
                if let Some(place) = all.get_mut(*position) {
                    *place = Some(placed);
                }
            }
            let alternatives = alternatives(&composed, &positions, stack, &solution, &search)?;
            let broken = broken_rules(&composed, &present);
            let Solution { cost, bound, stopped, .. } = *solution;
            Ok(PlacedStack { places: all, units, cost, bound, stopped, alternatives, broken })
        }
        None if !explains => Err(Failure::NoPlaces(Explanation::default())),
        None => Err(search.explained(world, &present, around, (&composed, kept))),
    }
}

/// The searches for one stack, each in an equal share of the time.
pub(super) struct Search<'s> {
    /// For each server, whether it is a volume.
    is_volume: Vec<bool>,
    volume_policy: PlacementPolicy,
    time: &'s dyn SolvingTime,
    shares: u32,
}

/// Number of parts of a share, of which the last is for volumes alone.
const PARTS: u32 = 4;

/// The first search for places of a stack.
pub(super) struct First {
    pub(super) composed: Composed,
    /// The placement; `None`: none exists.
    pub(super) found: Option<Box<Solution>>,
    /// The memory in use, in units of the budget.
    pub(super) kept: usize,
}

impl<'s> Search<'s> {
    /// Creates the searches for a stack without absent servers and for its alternatives.
    pub(super) fn new(stack: &Stack, around: &Surroundings, time: &'s dyn SolvingTime) -> Self {
        let shares = u32::try_from(stack.alternatives).unwrap_or(u32::MAX).saturating_add(1);
        let is_volume = stack.servers.iter().map(|it| it.kind == ServerKind::Volume).collect();
        Self { is_volume, volume_policy: around.volume_policy, time, shares }
    }

    /// Composes the problem, and searches for a placement in the first share of the time.
    ///
    /// # Errors
    /// The stack is invalid, or the search ended before it found a placement.
    pub(super) fn first(
        &self,
        world: &Arc<World>,
        stack: &Stack,
        around: &Surroundings,
    ) -> Result<First, Failure> {
        self.in_budget(self.end(1), |budget| {
            let composed = compose(world, stack, around, budget)?;
            let found = self.run(&composed.problem, &[], 1, budget)?;
            Ok(First { composed, found, kept: budget.kept() })
        })
    }

    /// Explains why a stack has no places. `composed` is its problem, with the memory in use.
    pub(super) fn explained(
        &self,
        world: &Arc<World>,
        stack: &Stack,
        around: &Surroundings,
        (composed, kept): (&Composed, usize),
    ) -> Failure {
        let mut is_over = || self.time.is_up(GRACE);
        let mut budget = Budget::new(&mut is_over);
        // The problem is still in memory.
        budget.is_spent_with(kept);
        let conflict = explain_within(&composed.problem, &mut budget);
        let case = Case { world, stack, around, composed, conflict: &conflict };
        Failure::NoPlaces(explanation(&case, &mut budget))
    }

    /// Searches for another placement than the known ones in a share of the time. `None`: there is none, or it was not
    /// found in time.
    pub(super) fn other(
        &self,
        problem: &PlacementProblem,
        known: &[Vec<usize>],
        share: u32,
    ) -> Option<Box<Solution>> {
        let run = |budget: &mut Budget<'_>| self.run(problem, known, share, budget);
        self.in_budget(self.end(share), run).ok().flatten()
    }

    fn has_volumes(&self) -> bool {
        self.is_volume.contains(&true)
    }

    /// The end of a share, in parts of all shares, without the part that is for volumes.
    fn end(&self, share: u32) -> u32 {
        share.saturating_mul(PARTS).saturating_sub(u32::from(self.has_volumes()))
    }

    /// Works in a budget of the time until this end, in parts of all shares.
    fn in_budget<R>(&self, end: u32, work: impl FnOnce(&mut Budget<'_>) -> R) -> R {
        let mut is_up = || self.time.is_share_up(end, self.shares.saturating_mul(PARTS));
        let mut is_enough = |found| self.time.is_enough(found);
        let threads = || self.time.threads();
        work(&mut Budget::new(&mut is_up).unless_enough(&mut is_enough).on_threads(&threads))
    }

    /// Searches for a placement other than the known ones in a share of the time, and in a budget for all but its last
    /// part. `None`: no placement exists.
    ///
    /// # Errors
    /// The search ended before it found one.
    fn run(
        &self,
        problem: &PlacementProblem,
        known: &[Vec<usize>],
        share: u32,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Box<Solution>>, Failure> {
        if !self.has_volumes() {
            return found(solve_other(problem, known, budget), budget.is_full());
        }
        let kept = budget.kept();
        budget.is_spent_with(16 * (problem.hosts.len() + problem.servers.len()));
        let is_volume = |server: usize| self.is_volume.get(server) == Some(&true);
        let steps = TwoSteps::new(problem, is_volume, self.volume_policy);
        self.in_budget(share.saturating_mul(PARTS), |second| {
            second.is_spent_with(budget.kept());
            let outcome = steps.solve(known, budget, second);
            budget.release_to(kept);
            found(outcome, budget.is_full() || second.is_full())
        })
    }
}

/// The solution, or `None` if no placement exists.
///
/// # Errors
/// The search ended before it found one: the memory or the time ran out.
fn found(outcome: Outcome, is_full: bool) -> Result<Option<Box<Solution>>, Failure> {
    match outcome {
        Outcome::Placed(solution) => Ok(Some(solution)),
        Outcome::Impossible => Ok(None),
        Outcome::OutOfTime => Err(Failure::of_search(is_full)),
    }
}

/// The rules that fixed servers break, each once.
fn broken_rules(composed: &Composed, stack: &Stack) -> Vec<BrokenRule> {
    let mut found = BTreeSet::new();
    for (group, servers) in composed.groups.iter().zip(&composed.broken) {
        let Some(group) = stack.groups.get(*group) else { continue };
        let servers = servers.iter().filter_map(|server| stack.servers.get(*server));
        found.extend(servers.map(|server| BrokenRule {
            server: server.id.clone(),
            group: group.name.clone(),
            kind: group.kind,
            level: group.level,
        }));
    }
    found.into_iter().collect()
}

/// Other placements of a stack than its best, as many as requested and found in time.
fn alternatives(
    composed: &Composed,
    positions: &[usize],
    stack: &Stack,
    best: &Solution,
    search: &Search<'_>,
) -> Result<Vec<Alternative>, Failure> {
    let mut known = vec![best.hosts()];
    let mut found = Vec::new();
    for share in 2..=search.shares {
        let other = search.other(&composed.problem, &known, share);
        let Some(solution) = other else { break };
        let places = solution.hosts();
        let mut hosts = vec![None; stack.servers.len()];
        for (position, place) in positions.iter().zip(&places) {
            let host = composed.hosts.get(*place);
            let lost = || Failure::bug(format!("an alternative is on host {place}"));
            if let Some(name) = hosts.get_mut(*position) {
                *name = Some(host.ok_or_else(lost)?.name.to_string());
            }
        }
        known.push(places);
        let Solution { cost, bound, stopped, .. } = *solution;
        found.push(Alternative { hosts, cost, bound, stopped });
    }
    found.sort_by(|one, other| one.cost.cmp(&other.cost));
    Ok(found)
}

/// The places of a solution, one for each server of a stack without absent ones.
///
/// # Errors
/// The solution is of another problem.
pub(super) fn placed(
    composed: &Composed,
    stack: &Stack,
    solution: &Solution,
) -> Result<Vec<Placed>, Failure> {
    let lost = |nth: usize| Failure::bug(format!("server {nth} has no place"));
    let mut found = Vec::with_capacity(stack.servers.len());
    for (nth, server) in stack.servers.iter().enumerate() {
        let (Some(place), Some(it)) =
            (solution.assignments.get(nth), composed.problem.servers.get(nth))
        else {
            return Err(lost(nth));
        };
        let host = composed.hosts.get(place.host).ok_or_else(|| lost(nth))?;
        let supply = it.ways.on(place.host).ok_or_else(|| lost(nth))?;
        let drawn = supply.drawn(&place.ways).ok_or_else(|| lost(nth))?;
        let wants = if server.is_fixed() {
            None
        } else {
            Some(wants(composed, &drawn).ok_or_else(|| lost(nth))?)
        };
        found.push(Placed {
            host: host.name.to_string(),
            root: host.root,
            wants,
            moved: it.current_host.is_some_and(|home| home != place.host),
            groups: composed.memberships.get(nth).cloned().ok_or_else(|| lost(nth))?,
        });
    }
    Ok(found)
}

/// The amounts of a way, by provider and class.
fn wants(composed: &Composed, draws: &[(usize, u64)]) -> Option<Vec<(Uuid, String, i64)>> {
    let world = &composed.world;
    let want = |(pool, amount): &(usize, u64)| {
        let (provider, class) = composed.pools.get(*pool)?;
        let uuid = world.provider_by_id(*provider)?.uuid();
        Some((uuid, world.class_name(*class)?.to_owned(), i64::try_from(*amount).ok()?))
    };
    draws.iter().map(want).collect()
}

/// The hosts of the units for the servers of exclusivity groups. They include units that the groups already have,
/// because they may be abandoned before this is booked.
fn units(
    world: &World,
    stack: &Stack,
    around: &Surroundings,
    places: &[Placed],
) -> Vec<ExclusiveHost> {
    let topology = Topology::of(world, around.racks_by_names);
    let mut known: HashSet<ExclusiveHost> = HashSet::new();
    let mut taken: Vec<ExclusiveHost> = Vec::new();
    let mut units_at: HashMap<Level, BTreeMap<String, Vec<Provider<'_>>>> = HashMap::new();
    for group in stack.groups.iter().filter(|group| group.kind == GroupKind::Exclusivity) {
        let Some(stored) = group.stored else { continue };
        // An instance that was moved without the planner may share its host with others.
        let is_placed = |placed: &Placed| placed.wants.as_ref().is_some_and(|it| !it.is_empty());
        let members = places.iter().filter(|it| is_placed(it) && it.groups.contains(&stored));
        let hosts: BTreeSet<&str> = members.map(|placed| placed.host.as_str()).collect();
        let units =
            units_at.entry(group.level).or_insert_with(|| topology.units(world, group.level));
        for (unit, roots) in &*units {
            if !roots.iter().any(|root| hosts.contains(root.name())) {
                continue;
            }
            for root in roots {
                let root = root.id();
                let host =
                    ExclusiveHost { root, level: group.level, unit: unit.clone(), group: stored };
                if known.insert(host.clone()) {
                    taken.push(host);
                }
            }
        }
    }
    taken
}

/// Every provider of the trees of these hosts.
pub fn providers_of(world: &World, hosts: &[ExclusiveHost]) -> Vec<Uuid> {
    let roots: BTreeSet<ProviderId> = hosts.iter().map(|host| host.root).collect();
    let trees = roots.into_iter().filter_map(|root| world.provider_by_id(root));
    trees.flat_map(|root| root.tree().map(|it| it.uuid()).collect::<Vec<_>>()).collect()
}

/// The name of the host of some allocations.
pub fn location<'w>(
    world: &'w World,
    topology: &Topology,
    holds: &[(ProviderId, ClassId, i64)],
) -> Option<&'w str> {
    topology.host_of(world, holds).as_ref().map(Provider::name)
}
