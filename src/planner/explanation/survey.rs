//! Counts the hosts that each condition of the servers of a conflict rules out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::case::Case;
use super::condition::Condition;
use crate::model::{Level, ProviderId, traits};
use crate::planner::candidates;
use crate::planner::flavor::Size;
use crate::planner::host_filter::{Demands, FilterContext, HostFilter};
use crate::planner::stack::Holder;
use crate::planner::topology::{HostEntry, Topology};
use crate::search::funnel::{self, Counted, Failed, Failing, Funnel, HostChecks, Tally};
use crate::solver::Budget;

/// Maximum number of sorts of servers whose hosts are counted.
const SORTS_MAX: usize = 20;
/// Maximum number of near misses listed for each sort.
const NEAR_MISSES_MAX: usize = 10;

/// A condition with its amount, if it has one.
type SizedCondition = (Condition, Option<i64>);
/// A condition with the hosts that it rules out.
pub(super) type SizedConditionCount = Counted<SizedCondition>;
/// The hosts that each condition of some servers rules out.
pub(super) type SizedConditionFunnel = Funnel<SizedCondition>;

/// Equal servers.
pub(super) struct Sort {
    /// The servers, by their positions in the stack.
    pub(super) servers: Vec<usize>,
    /// Whether they keep their hosts.
    pub(super) stays: bool,
    /// The hosts that each condition rules out.
    pub(super) funnel: Option<SizedConditionFunnel>,
    /// Number of hosts by the conditions that rule them out.
    pub(super) patterns: BTreeMap<BTreeSet<Condition>, usize>,
}

/// All hosts, as the servers of a conflict see them.
pub(super) struct Survey {
    /// The number of hosts; `None` if the time was up first.
    pub(super) hosts: Option<usize>,
    /// For each level, the number of these hosts whose unit is unknown.
    pub(super) lost: Vec<(Level, usize)>,
    /// The servers of the conflict.
    pub(super) sorts: Vec<Sort>,
}

/// Checks all hosts. Sorts for which there is no time have no funnel.
pub(super) fn survey(case: &Case<'_>, budget: &mut Budget<'_>) -> Survey {
    let Case { stack, around, composed, .. } = case;
    let topology = Topology::of(&composed.world, around.racks_by_names);
    let hosts = entries(case, &topology, budget);
    let is_known = !budget.is_spent();
    let context = FilterContext::new(&composed.world, &topology, around, &hosts, None);
    let filter = HostFilter::new(&context, stack, composed.memberships.clone(), budget);
    let number: HashMap<ProviderId, usize> =
        hosts.iter().enumerate().map(|(nth, host)| (host.root, nth)).collect();
    let mut sorts = sorts(case, &filter, &number);
    if !budget.is_spent() {
        let all = AllHosts { hosts: &hosts, filter: &filter, number: &number };
        for sort in sorts.iter_mut().filter(|sort| !sort.stays).take(SORTS_MAX) {
            count(case, &all, sort, budget);
        }
    }
    let lost = |level: Level| {
        hosts.iter().filter(|host| host.location.unit(level, &host.name).is_none()).count()
    };
    let lost = Level::ALL.map(|level| (level, lost(level))).into();
    Survey { hosts: is_known.then_some(hosts.len()), lost, sorts }
}

/// All hosts of the world, and those of the problem, by name. Pools of volumes are among them only if the conflict has
/// a volume.
fn entries(case: &Case<'_>, topology: &Topology, budget: &mut Budget<'_>) -> Vec<HostEntry> {
    let world = &case.composed.world;
    let mut hosts: Vec<HostEntry> = Vec::new();
    let mut known: BTreeSet<ProviderId> = BTreeSet::new();
    let mut servers = case.conflict.servers.iter().filter_map(|it| case.stack.servers.get(*it));
    let has_volume = servers.any(|server| server.size.is_volume());
    let pools = world.trait_id(traits::STORAGE).filter(|_| !has_volume);
    for root in funnel::hosts(world) {
        if budget.is_spent_with(16) {
            return hosts;
        }
        if pools.is_some_and(|pools| root.traits().contains(&pools)) {
            continue;
        }
        known.insert(root.id());
        let (name, location) = (root.shared_name(), topology.location(&root));
        hosts.push(HostEntry { root: root.id(), slot: root.slot(), name, location });
    }
    hosts.extend(case.composed.hosts.iter().filter(|host| known.insert(host.root)).cloned());
    hosts.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    hosts
}

/// The host of a server, and whether it may stay there without a new allocation.
type Home = Option<(usize, bool)>;

/// The servers of the conflict, in groups of equals.
fn sorts(
    case: &Case<'_>,
    filter: &HostFilter<'_>,
    number: &HashMap<ProviderId, usize>,
) -> Vec<Sort> {
    type SortKey<'k> = (Option<(&'k Size, Demands<'k>)>, Home);
    let mut known: HashMap<SortKey<'_>, usize> = HashMap::new();
    let mut sorts: Vec<Sort> = Vec::new();
    for server in &case.conflict.servers {
        let Some(it) = case.stack.servers.get(*server) else { continue };
        let home = home(case, *server, number);
        let stays = it.is_fixed() && home.is_some();
        let asks = (!stays).then(|| (&it.size, filter.demands(*server, &it.locations)));
        let next = sorts.len();
        let sort = *known.entry((asks, home)).or_insert(next);
        if sort == next {
            let (funnel, patterns) = (None, BTreeMap::new());
            sorts.push(Sort { servers: Vec::new(), stays, funnel, patterns });
        }
        if let Some(sort) = sorts.get_mut(sort) {
            sort.servers.push(*server);
        }
    }
    sorts
}

fn home(case: &Case<'_>, server: usize, number: &HashMap<ProviderId, usize>) -> Home {
    let it = case.stack.servers.get(server)?;
    let home = case.composed.problem.servers.get(server)?.current_host?;
    let host = *number.get(&case.composed.hosts.get(home)?.root)?;
    let keeps = it.present.as_ref().is_some_and(|present| present.holder != Holder::Plan);
    Some((host, keeps && !it.resized))
}

/// All hosts, with the filter of the stack.
struct AllHosts<'h> {
    hosts: &'h [HostEntry],
    filter: &'h HostFilter<'h>,
    /// The position of each host.
    number: &'h HashMap<ProviderId, usize>,
}

/// Counts the hosts that each condition of a sort rules out.
fn count(
    case: &Case<'_>,
    AllHosts { hosts, filter, number }: &AllHosts<'_>,
    sort: &mut Sort,
    budget: &mut Budget<'_>,
) {
    let world = &case.composed.world;
    let Some(server) = sort.servers.first().copied() else { return };
    let Some(it) = case.stack.servers.get(server) else { return };
    let home = home(case, server, number);
    let mut checks = HostChecks::new(world, &candidates::request(world, &it.size));
    let mut conditions: Vec<SizedCondition> =
        checks.conditions().iter().map(Condition::of_request).collect();
    let requested = conditions.len();
    let Some(groups) = case.composed.memberships.get(server) else { return };
    let more = Condition::on_hosts(it, groups, case.around);
    conditions.extend(more.into_iter().map(|condition| (condition, None)));
    let position: HashMap<Condition, usize> = (requested..)
        .zip(conditions.iter().skip(requested))
        .map(|(nth, (condition, _))| (condition.clone(), nth))
        .collect();
    let demands = filter.demands_of_hosts(server, &it.locations);
    let mut tally = Tally::new(conditions.clone(), NEAR_MISSES_MAX);
    let mut patterns: HashMap<Vec<usize>, usize> = HashMap::new();
    for (nth, host) in hosts.iter().enumerate() {
        if budget.is_spent_after(demands.work() + checks.take_work()) {
            return;
        }
        let Some(root) = host.root(world) else { continue };
        let stays = home == Some((nth, true));
        let mut failing = Failing { conditions: Vec::new(), is_decided: true };
        if !stays {
            failing = checks.failing(&root);
        }
        let lacks = failing.conditions.len();
        let obstacles = filter.obstacles(&demands, nth, home.map(|(host, _)| host));
        let mut known: BTreeSet<usize> = BTreeSet::new();
        for obstacle in obstacles {
            let condition = Condition::of_obstacle(obstacle, it);
            known.extend(condition.and_then(|condition| position.get(&condition)).copied());
        }
        let dispensable: Vec<usize> = match (lacks, known.len()) {
            (0, 1) if failing.is_decided => known.iter().copied().collect(),
            (_, 0) => checks.dispensable(&root, &failing),
            _ => Vec::new(),
        };
        failing.conditions.extend(known.into_iter().map(Failed::other));
        tally.add(root.id(), &host.name, &failing, &dispensable);
        let pattern: Vec<usize> = failing.conditions.iter().map(|it| it.condition).collect();
        budget.is_spent_after(8 * pattern.len());
        *patterns.entry(pattern).or_insert(0) += 1;
    }
    for (pattern, hosts) in patterns {
        let pattern = pattern.into_iter().filter_map(|it| conditions.get(it));
        let pattern = pattern.map(|(condition, _)| condition.clone()).collect();
        *sort.patterns.entry(pattern).or_insert(0) += hosts;
    }
    sort.funnel = Some(tally.finish());
}

impl Sort {
    /// Returns whether the servers have this condition on hosts; true if it was not counted.
    pub(super) fn asks(&self, condition: &Condition) -> bool {
        self.funnel
            .as_ref()
            .is_none_or(|it| it.conditions.iter().any(|it| it.condition.0 == *condition))
    }

    /// The counts of a condition that rules out hosts.
    pub(super) fn counted(&self, condition: &Condition) -> Option<&SizedConditionCount> {
        let counted = self.funnel.as_ref()?.conditions.iter();
        counted.filter(|it| it.hosts > 0).find(|it| it.condition.0 == *condition)
    }
}
