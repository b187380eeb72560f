//! Composes the solver's problem from a world and a stack: the hosts, their free capacity, the ways in which
//! servers of each size fit there, and the allowed hosts of each server.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::broken_rules::{FixedServers, dropped, without_broken};
use super::candidates::{Pools, Supplies, renumber, sizes, supplies};
use super::failure::{Failure, in_time};
use super::flavor::Size;
use super::host_filter::{FilterContext, HostFilter};
use super::host_room::{ClassNumbers, HostRoom, free_pools, rooms};
use super::server_composer::ServerComposer;
use super::stack::{Holder, Server, Stack, Surroundings};
use super::topology::{HostEntry, Topology};
use crate::model::{ClassId, Level, ProviderId};
use crate::solver::groups::GroupRules;
use crate::solver::{
    self, AllowedHosts, Budget, Draws, PlacementProblem, Pool, Rule, Skew, Supply, Ways, hosts_for,
    map_items, map_owned,
};
use crate::world::{Provider, World};

/// A problem, and the meaning of its numbers.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) problem: PlacementProblem,
    /// The world without the allocations of servers that may move.
    pub(super) world: Arc<World>,
    pub(super) hosts: Vec<HostEntry>,
    /// The provider and the class of each pool.
    pub(super) pools: Vec<(ProviderId, ClassId)>,
    /// For each rule, its group.
    pub(super) groups: Vec<usize>,
    /// For each rule, the fixed servers that break it, and so do not count.
    pub(super) broken: Vec<Vec<usize>>,
    /// The stored groups of each server.
    pub(super) memberships: Vec<BTreeSet<Uuid>>,
}

/// Composes the problem.
pub(super) fn compose(
    world: &Arc<World>,
    stack: &Stack,
    around: &Surroundings,
    budget: &mut Budget<'_>,
) -> Result<Composed, Failure> {
    let GroupRules { rules, soft_rules } =
        stack.rules().map_err(|why| Failure::Invalid(stack.describe(why)))?;
    let (groups, all_rules): (Vec<usize>, Vec<Rule>) = rules.into_iter().unzip();
    let world = freed(world, stack);
    let topology = Topology::of(&world, around.racks_by_names);
    let homes: Vec<Option<ProviderId>> = stack
        .servers
        .iter()
        .map(|server| {
            let present = server.present.as_ref()?;
            Some(topology.host_of(&world, &present.holds)?.id())
        })
        .collect();
    let even = even_servers(&all_rules);
    let sizes = sizes(stack, &homes, &even)?;
    let (of_sizes, mut pools) = supplies_of(&world, &sizes, budget)?;
    let kept: Vec<Option<Draws>> =
        stack.servers.iter().map(|server| kept_draws(server, &world, &mut pools)).collect();
    let hosts = entries(&world, &topology, &of_sizes, &homes)?;
    let numbers = HostNumbers::of(&world, &hosts);
    let classes = ClassNumbers::of(&pools.list);
    let rooms = rooms(&world, &hosts, &classes, budget)?;
    let ways = ways(&sizes, of_sizes, &numbers, budget)?;
    let memberships = stored_groups(stack, &groups, &all_rules);
    let in_use = rooms.iter().map(|room| room.is_in_use).collect();
    let context = FilterContext::new(&world, &topology, around, &hosts, Some(in_use));
    let filter = HostFilter::new(&context, stack, memberships.clone(), budget);
    in_time(budget)?;
    let current_hosts = homes.iter().map(|home| numbers.of_provider(&world, (*home)?));
    let current_hosts: Vec<Option<usize>> = current_hosts.collect();
    let mut composer = ServerComposer::new(stack, (&current_hosts, &kept), &ways, &filter);
    let mut servers = composer.all(budget)?;
    let stays = Level::ALL.map(|level| fixed_servers(stack, &hosts, level, &current_hosts));
    set_amounts(&mut servers, stack, &world, &classes);
    let problem = PlacementProblem {
        hosts: hosts_of(&hosts, rooms),
        pools: with_kept(free_pools(&world, &pools, &classes, budget)?, &kept),
        servers,
        rules: Vec::new(),
        soft_rules: soft_rules.into_iter().map(|(_, soft)| soft).collect(),
        policy: stack.policy,
    };
    let mut rules = Vec::with_capacity(all_rules.len());
    for rule in all_rules {
        rules.push(match rule {
            Rule::Skew(skew) => with_domains(skew, &problem, &mut composer, &hosts, budget)?,
            Rule::Together(..) | Rule::Apart(..) | Rule::Alone(..) | Rule::AtMost(..) => rule,
        });
    }
    let (rules, broken) = kept_rules(rules, &stays, budget)?;
    let problem = PlacementProblem { rules, ..problem };
    let pools = pools.list;
    in_time(budget)?;
    Ok(Composed { problem, world, hosts, pools, groups, broken, memberships })
}

/// The draws of a server that keeps its allocations if it stays on its host: none if the world counts them anyway.
fn kept_draws(server: &Server, world: &World, pools: &mut Pools) -> Option<Draws> {
    let present = server.present.as_ref().filter(|_| !server.is_fixed() && !server.resized)?;
    match present.holder {
        Holder::Plan => None,
        Holder::Instance => Some(Draws::NONE),
        Holder::Mover => {
            let draw = |(provider, class, amount): &(ProviderId, ClassId, i64)| {
                let pool = pools.number(&world.provider_by_id(*provider)?, *class);
                Some((pool, u64::try_from(*amount).ok()?))
            };
            Some(present.holds.iter().filter_map(draw).collect())
        }
    }
}

/// The pools with room for everyone who keeps their allocations, although more may be in use than there is.
fn with_kept(mut pools: Vec<Pool>, kept: &[Option<Draws>]) -> Vec<Pool> {
    let mut sums: HashMap<usize, u64> = HashMap::new();
    for (pool, amount) in kept.iter().flatten().flat_map(|draws| draws.iter()) {
        let sum = sums.entry(*pool).or_insert(0);
        *sum = sum.saturating_add(*amount);
    }
    for (pool, sum) in sums {
        if let Some(pool) = pools.get_mut(pool) {
            pool.free = pool.free.max(sum);
        }
    }
    pools
}

/// The servers that rules of an even distribution bind.
fn even_servers(rules: &[Rule]) -> HashSet<usize> {
    let skews = rules.iter().filter_map(|rule| match rule {
        Rule::Skew(skew) => Some(&skew.servers),
        Rule::Together(..) | Rule::Apart(..) | Rule::Alone(..) | Rule::AtMost(..) => None,
    });
    skews.flatten().copied().collect()
}

/// The supply of servers of one size by hosts, with the number of each pool if the supplies have others.
struct SuppliesOfSize {
    supplies: Supplies,
    numbers: Option<Vec<usize>>,
}

/// The supply of servers of each size by hosts, and the pools drawn on.
fn supplies_of(
    world: &Arc<World>,
    sizes: &[&Size],
    budget: &mut Budget<'_>,
) -> Result<(Vec<SuppliesOfSize>, Pools), Failure> {
    let mut pools = Pools::default();
    let mut of_sizes = Vec::with_capacity(sizes.len());
    // The supply of hosts that are one provider, and use nothing shared, is found faster than its pools are
    // numbered twice.
    if 2 * world.lone().len_without(world.anchored()) > world.len() {
        for size in sizes {
            let supplies = supplies(world, size, &mut pools, budget)?;
            of_sizes.push(SuppliesOfSize { supplies, numbers: None });
        }
        budget.is_spent_with(pools.size());
        return Ok((of_sizes, pools));
    }
    let hosts = world.end() as usize;
    let found = map_items(sizes, hosts, budget, |size, budget| {
        let mut pools = Pools::default();
        let supplies = supplies(world, size, &mut pools, budget)?;
        budget.is_spent_with(pools.size());
        Ok::<_, Failure>((supplies, pools))
    });
    for of_size in found {
        let (supplies, own) = of_size.ok_or_else(|| Failure::of_end(budget))??;
        budget.is_spent_after(4 * own.list.len());
        budget.release_to(budget.kept().saturating_sub(own.size()));
        let numbers = pools.take_over(own);
        budget.is_spent_with(numbers.as_ref().map_or(0, Vec::len));
        of_sizes.push(SuppliesOfSize { supplies, numbers });
    }
    budget.is_spent_with(pools.size());
    Ok((of_sizes, pools))
}

/// The ways of each size, with hosts and pools by number.
fn ways<'s>(
    sizes: &[&'s Size],
    of_sizes: Vec<SuppliesOfSize>,
    hosts: &HostNumbers,
    budget: &mut Budget<'_>,
) -> Result<HashMap<&'s Size, Arc<Ways>>, Failure> {
    let all = map_owned(of_sizes, hosts.0.len(), budget, |of_size, budget| {
        let SuppliesOfSize { mut supplies, numbers } = of_size;
        budget.is_spent_after(16 * supplies.len());
        numbers.map_or(Ok(()), |numbers| renumber(&mut supplies, &numbers))?;
        Ok(Arc::new(hosts.ways(supplies)))
    });
    let mut ways = HashMap::new();
    for (size, of_size) in sizes.iter().zip(all) {
        ways.insert(*size, of_size.ok_or_else(|| Failure::of_end(budget))??);
    }
    Ok(ways)
}

/// The rules relaxed for the fixed servers that break them, and these servers for each rule; `stays` has the fixed
/// servers at each level.
fn kept_rules(
    all: Vec<Rule>,
    [host, rack, cluster]: &[FixedServers; 3],
    budget: &mut Budget<'_>,
) -> Result<(Vec<Rule>, Vec<Vec<usize>>), Failure> {
    let (mut rules, mut broken) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
    for rule in all {
        budget.is_spent_after(4 * rule.size());
        in_time(budget)?;
        let stays = match rule.level() {
            Level::Host => host,
            Level::Rack => rack,
            Level::Cluster => cluster,
        };
        let servers = rule.servers();
        let rule = without_broken(rule, stays);
        broken.push(dropped(servers, &rule));
        rules.push(rule);
    }
    Ok((rules, broken))
}

/// The units of a level. The first host of a unit represents the unit.
struct UnitHosts {
    /// For each host, the first one of its unit; `None` if the unit is unknown.
    first: Vec<Option<usize>>,
}

impl UnitHosts {
    fn of(hosts: &[HostEntry], level: Level) -> Self {
        let mut known: HashMap<&str, usize> = HashMap::new();
        let first = hosts.iter().enumerate().map(|(nth, host)| {
            let name = host.location.unit(level, &host.name)?;
            Some(*known.entry(name).or_insert(nth))
        });
        Self { first: first.collect() }
    }

    fn unit(&self, host: usize) -> Option<usize> {
        self.first.get(host).copied().flatten()
    }
}

/// The fixed servers of a stack, with their units of a level.
fn fixed_servers(
    stack: &Stack,
    hosts: &[HostEntry],
    level: Level,
    current_hosts: &[Option<usize>],
) -> FixedServers {
    let fixed = stack.servers.iter().zip(current_hosts).enumerate();
    let mut fixed = fixed.filter(|(_, (server, _))| server.is_fixed()).peekable();
    if fixed.peek().is_none() {
        return FixedServers::from_iter([]);
    }
    let units = UnitHosts::of(hosts, level);
    fixed.map(|(server, (_, home))| (server, home.and_then(|home| units.unit(home)))).collect()
}

/// The rule of an even distribution with its domains: all units in which one of its servers would fit as a whole, or
/// is, considering all demands except those of other servers of the plan. Servers that have to stay count like those
/// that may move, so that a rule has the same domains in a new plan and in an update.
fn with_domains(
    skew: Skew,
    problem: &PlacementProblem,
    composer: &mut ServerComposer<'_, '_>,
    hosts: &[HostEntry],
    budget: &mut Budget<'_>,
) -> Result<Rule, Failure> {
    let units = UnitHosts::of(hosts, skew.level);
    budget.is_spent_after(hosts.len());
    let mut domains = BTreeSet::new();
    let mut known = HashSet::new();
    for nth in &skew.servers {
        budget.is_spent_after(32);
        in_time(budget)?;
        if let Some(AllowedHosts::Only(home)) =
            problem.servers.get(*nth).map(|it| &it.allowed_hosts)
        {
            domains.extend(units.unit(*home));
        }
        let free = composer.if_free(*nth, budget)?;
        if known.insert((Arc::as_ptr(&free.ways), free.allowed_hosts.identity())) {
            let open = hosts_for(problem, &free, budget);
            domains.extend(open.into_iter().filter_map(|host| units.unit(host)));
        }
    }
    in_time(budget)?;
    Ok(Rule::Skew(Skew { domains: domains.into_iter().collect(), ..skew }))
}

/// The world without the allocations of servers that may move or are removed.
fn freed(world: &Arc<World>, stack: &Stack) -> Arc<World> {
    let mut changes: BTreeMap<(ProviderId, ClassId), i64> = BTreeMap::new();
    let movers = stack.servers.iter().filter(|server| !server.is_fixed());
    let present = movers.filter_map(|server| server.present.as_ref().filter(|it| it.is_released()));
    let held = present.flat_map(|present| &present.holds);
    for (provider, class, amount) in held.chain(&stack.given_up) {
        *changes.entry((*provider, *class)).or_insert(0) -= amount;
    }
    if changes.is_empty() {
        return Arc::clone(world);
    }
    // The world may be newer than the holds that were read, and have less in use.
    Arc::new(world.with_changed_use(&changes))
}

/// The hosts that can supply a server, or have one of the plan, ordered by name, so that the result does not depend
/// on the order of their creation.
fn entries(
    world: &World,
    topology: &Topology,
    of_sizes: &[SuppliesOfSize],
    homes: &[Option<ProviderId>],
) -> Result<Vec<HostEntry>, Failure> {
    let mut is_host = vec![false; world.end() as usize];
    let mut add = |slot: u32| {
        if let Some(is_host) = is_host.get_mut(slot as usize) {
            *is_host = true;
        }
    };
    let all = of_sizes.iter().flat_map(|of_size| &of_size.supplies);
    all.for_each(|(slot, _)| add(*slot));
    for home in homes.iter().flatten() {
        add(provider(world, *home)?.slot());
    }
    let slots = (0_u32..).zip(is_host).filter(|(_, is_host)| *is_host);
    let entry = |root: Provider<'_>| {
        let (name, location) = (root.shared_name(), topology.location(&root));
        HostEntry { root: root.id(), slot: root.slot(), name, location }
    };
    let mut hosts: Vec<HostEntry> =
        slots.filter_map(|(slot, _)| world.at(slot)).map(entry).collect();
    hosts.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(hosts)
}

/// Looks up a provider that must be in the world.
fn provider(world: &World, id: ProviderId) -> Result<Provider<'_>, Failure> {
    let missing = || Failure::bug(format!("provider {} is not in its world", id.0));
    world.provider_by_id(id).ok_or_else(missing)
}

/// The numbers of hosts, by the slots of their roots in the world.
struct HostNumbers(Vec<Option<usize>>);

impl HostNumbers {
    fn of(world: &World, hosts: &[HostEntry]) -> Self {
        let mut numbers = vec![None; world.end() as usize];
        for (nth, host) in hosts.iter().enumerate() {
            if let Some(number) = numbers.get_mut(host.slot as usize) {
                *number = Some(nth);
            }
        }
        Self(numbers)
    }

    fn of_slot(&self, slot: u32) -> Option<usize> {
        self.0.get(slot as usize).copied().flatten()
    }

    fn of_provider(&self, world: &World, id: ProviderId) -> Option<usize> {
        self.of_slot(world.provider_by_id(id)?.slot())
    }

    /// The ways of a size, with hosts by number.
    fn ways(&self, supplies: Supplies) -> Ways {
        let numbered = supplies.into_iter();
        let numbered = numbered.filter_map(|(slot, supply)| Some((self.of_slot(slot)?, supply)));
        let mut ways: Vec<(usize, Supply)> = numbered.collect();
        ways.sort_unstable_by_key(|(host, _)| *host);
        ways.into_iter().collect()
    }
}

/// The hosts of a problem: their capacity, and their racks and clusters by number.
fn hosts_of(entries: &[HostEntry], rooms: Vec<HostRoom>) -> Vec<solver::Host> {
    let (mut racks, mut clusters) = (Numbers::default(), Numbers::default());
    let hosts = entries.iter().zip(rooms).map(|(entry, room)| solver::Host {
        free: room.free,
        capacity: room.capacity,
        rack: entry.location.rack.as_deref().map(|name| racks.of(name)),
        cluster: entry.location.cluster.as_deref().map(|name| clusters.of(name)),
        in_use: room.is_in_use,
    });
    hosts.collect()
}

/// Sets the amounts that servers add to the use of their hosts. Equal servers share them. Those that stay add
/// nothing, because their allocations are counted already.
fn set_amounts(
    servers: &mut [solver::Server],
    stack: &Stack,
    world: &World,
    classes: &ClassNumbers,
) {
    let mut known: HashMap<&Size, Arc<[u64]>> = HashMap::new();
    for (server, it) in servers.iter_mut().zip(&stack.servers).filter(|(_, it)| !it.is_fixed()) {
        let amounts = known.entry(&it.size).or_insert_with(|| {
            let mut amounts = vec![0; classes.count()];
            for (class, amount) in it.size.amounts() {
                let class = world.class_id(class).and_then(|class| classes.number(class));
                if let Some(sum) = class.and_then(|class| amounts.get_mut(class)) {
                    *sum = u64::try_from(amount).unwrap_or(0);
                }
            }
            amounts.into()
        });
        server.amounts = Arc::clone(amounts);
    }
}

/// Numbers for names, in the order of their appearance.
#[derive(Default)]
struct Numbers<'n> {
    all: HashMap<&'n str, u32>,
    /// The previous name. Hosts of a rack are often adjacent.
    last: Option<(&'n str, u32)>,
}

impl<'n> Numbers<'n> {
    fn of(&mut self, name: &'n str) -> u32 {
        if let Some((_, number)) = self.last.filter(|(last, _)| *last == name) {
            return number;
        }
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let number = *self.all.entry(name).or_insert(next);
        self.last = Some((name, number));
        number
    }
}

/// The stored groups of each server, directly or through other groups.
fn stored_groups(stack: &Stack, groups: &[usize], rules: &[Rule]) -> Vec<BTreeSet<Uuid>> {
    let mut found = vec![BTreeSet::new(); stack.servers.len()];
    for (group, rule) in groups.iter().zip(rules) {
        let Some(stored) = stack.groups.get(*group).and_then(|it| it.stored) else { continue };
        for server in rule.servers() {
            if let Some(found) = found.get_mut(server) {
                found.insert(stored);
            }
        }
    }
    found
}
