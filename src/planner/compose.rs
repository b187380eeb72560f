//! From a world and a stack to a problem for the solver: the hosts, what is free on them, in which
//! ways servers of each size can be put there, and where each server may be.

#![expect(clippy::indexing_slicing, reason = "hosts, servers and pools are numbered densely")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::Failure;
use super::drift::{Stays, without_broken};
use super::filter::{Filter, Reason, Scene};
use super::flavor::Size;
use super::stack::{Server, Stack, Surroundings};
use super::topology::{Spot, Topology};
use crate::model::exclusive::EXCLUSIVE_TRAIT;
use crate::model::{ClassId, ProviderId};
use crate::plan::{self, Level, Pool, Problem, Rule, Way, Ways, groups};
use crate::search::{self, Group as RequestGroup, Next, Request, Unknown};
use crate::world::{Changes, Provider, World};

/// Ways in which a server can be put on one host, at the most. A tree may have thousands; those that
/// are left out are choices of other providers for the same amounts.
const WAYS_MAX: usize = 16;

/// The trait of hosts that are not to get anything new.
const DISABLED: &str = "COMPUTE_STATUS_DISABLED";

/// A problem, and what its numbers mean.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) problem: Problem,
    /// The world as if servers that may move held nothing.
    pub(super) world: Arc<World>,
    pub(super) hosts: Vec<HostEntry>,
    /// The provider and the class of each pool.
    pub(super) pools: Vec<(ProviderId, ClassId)>,
    /// For each rule the group that it comes from.
    pub(super) groups: Vec<usize>,
    /// The stored groups of each server.
    pub(super) memberships: Vec<BTreeSet<Uuid>>,
    /// Hosts that no server comes into question for, for want of room.
    pub(super) too_small: usize,
    /// For each server, why it may not be on how many hosts.
    pub(super) ruled_out: Vec<BTreeMap<Reason, usize>>,
}

/// A host of the problem.
#[derive(Clone, Debug)]
pub(super) struct HostEntry {
    pub(super) root: ProviderId,
    pub(super) name: String,
    pub(super) spot: Spot,
}

/// The candidates for servers of one size: the amounts from each provider, by host.
type Options = HashMap<ProviderId, Vec<Vec<(ProviderId, ClassId, i64)>>>;

/// Composes the problem.
pub(super) fn compose(
    world: &Arc<World>,
    stack: &Stack,
    around: &Surroundings,
    is_time_up: &mut dyn FnMut() -> bool,
) -> Result<Composed, Failure> {
    let rules = stack.rules().map_err(|why| Failure::Senseless(senseless(stack, why)))?;
    let (groups, all_rules): (Vec<usize>, Vec<Rule>) = rules.into_iter().unzip();
    let world = freed(world, stack);
    let topology = Topology::of(&world, around.racks_by_names);
    let mut options: HashMap<&Size, Options> = HashMap::new();
    for server in stack.servers.iter().filter(|server| !is_fixed(server)) {
        if !options.contains_key(&server.size) {
            let found = candidates(&world, &topology, &server.size, is_time_up)?;
            options.insert(&server.size, found);
        }
    }
    let homes: Vec<Option<ProviderId>> = stack
        .servers
        .iter()
        .map(|server| {
            let present = server.present.as_ref()?;
            Some(topology.host_of(&world, &present.holds)?.id())
        })
        .collect();
    let hosts = entries(&world, &topology, &options, &homes);
    let mut composer = Composer::new(&world, &hosts);
    let ways: HashMap<&Size, Arc<Ways>> =
        options.iter().map(|(size, options)| (*size, Arc::new(composer.ways(options)))).collect();
    let number: HashMap<ProviderId, usize> =
        hosts.iter().enumerate().map(|(nth, host)| (host.root, nth)).collect();
    let memberships = stored_groups(stack, &groups, &all_rules);
    let scene = Scene::new(&world, &topology, around, &hosts);
    let filter = Filter::new(&scene, stack, memberships.clone());
    let mut servers = Vec::new();
    let mut ruled_out = Vec::new();
    for (nth, server) in stack.servers.iter().enumerate() {
        let is_on = homes[nth].and_then(|home| number.get(&home).copied());
        if let (true, Some(home)) = (is_fixed(server), is_on) {
            servers.push(fixed(home, hosts.len()));
            ruled_out.push(BTreeMap::new());
            continue;
        }
        let mut ways = ways.get(&server.size).cloned().unwrap_or_default();
        let keeps = server.present.as_ref().is_some_and(|present| !present.ours);
        if let (Some(home), true) = (is_on, keeps && !server.resized) {
            // Its instance holds what it needs as long as it stays.
            let stay =
                |ways: &mut Ways| ways.get_mut(home).map(|here| here.insert(0, Way(Vec::new())));
            stay(Arc::make_mut(&mut ways));
        }
        let (may_be_on, reasons) = filter.open_to(nth, &ways, is_on);
        servers.push(plan::Server { ways, may_be_on, is_on });
        ruled_out.push(reasons);
    }
    let stays = |level| stays(stack, &homes, &hosts, &number, level);
    let rules = all_rules.into_iter().map(|rule| {
        let stays = stays(rule.level());
        without_broken(rule, &stays)
    });
    let problem = composer.problem(servers, rules.collect(), stack.spread);
    let pools = composer.pools;
    let too_small = hosts_in_all(&world, &topology).saturating_sub(hosts.len());
    Ok(Composed { problem, world, hosts, pools, groups, memberships, too_small, ruled_out })
}

/// Trees that have something of their own to give.
fn hosts_in_all(world: &World, topology: &Topology) -> usize {
    let has_own = |root: &Provider<'_>| {
        root.tree().any(|it| !topology.is_shared(&it) && it.inventories().next().is_some())
    };
    world.trees().filter(has_own).count()
}

/// Where those are who have to stay, at a level.
fn stays(
    stack: &Stack,
    homes: &[Option<ProviderId>],
    hosts: &[HostEntry],
    number: &HashMap<ProviderId, usize>,
    level: Level,
) -> Stays {
    let fixed = stack.servers.iter().enumerate().filter(|(_, server)| is_fixed(server));
    let unit = |server: usize| {
        let host = *number.get(&homes[server]?)?;
        let name = hosts[host].spot.unit(level, &hosts[host].name)?;
        // The first host of a unit stands for it.
        hosts.iter().position(|it| it.spot.unit(level, &it.name) == Some(name))
    };
    fixed.map(|(server, _)| (server, unit(server))).collect()
}

/// Whether a server has to stay where it is. One that is nowhere cannot.
pub(super) fn is_fixed(server: &Server) -> bool {
    server.fixed && server.present.as_ref().is_some_and(|present| !present.holds.is_empty())
}

/// Why groups make no sense, with their names.
fn senseless(stack: &Stack, why: groups::Senseless) -> String {
    use groups::Senseless::{AloneTwice, ApartFromItself, Cycle, HigherInside, Unknown};
    let group = |nth: usize| stack.groups.get(nth).map_or("?", |it| it.name.as_str());
    let server = |nth: usize| stack.servers.get(nth).map_or("?", |it| it.name.as_str());
    match why {
        Cycle(it) => format!("group '{}' is inside of itself", group(it)),
        Unknown(it) => format!("group '{}' has a member that does not exist", group(it)),
        HigherInside { inner, outer } => format!(
            "grouping scope: nested group's level is higher: '{}' in '{}'",
            group(inner),
            group(outer)
        ),
        ApartFromItself { server: it, group: of } => {
            format!("server '{}' is in two members of diversity group '{}'", server(it), group(of))
        }
        AloneTwice { server: it } => {
            format!("server '{}' is in more than one exclusivity group of one level", server(it))
        }
    }
}

/// The world as if servers that may move held nothing, and those that go neither.
fn freed(world: &Arc<World>, stack: &Stack) -> Arc<World> {
    let mut less: BTreeMap<ProviderId, BTreeMap<ClassId, i64>> = BTreeMap::new();
    let movers = stack.servers.iter().filter(|server| !is_fixed(server));
    let present = movers.filter_map(|server| server.present.as_ref().filter(|it| it.ours));
    let held = present.flat_map(|present| &present.holds);
    for (provider, class, amount) in held.chain(&stack.given_up) {
        *less.entry(*provider).or_default().entry(*class).or_insert(0) += amount;
    }
    if less.is_empty() {
        return Arc::clone(world);
    }
    let mut providers = Vec::new();
    for (id, less) in less {
        let Some(provider) = world.provider_by_id(id) else { continue };
        let mut row = provider.row();
        for inventory in &mut row.inventories {
            let less = less.get(&inventory.class).copied().unwrap_or(0);
            inventory.used = (inventory.used - less).max(0);
        }
        providers.push((id, Some(row)));
    }
    Arc::new(world.apply(Changes { catalogue: None, providers }))
}

/// Everywhere a server of a size can be put, exactly as allocation candidates say.
fn candidates(
    world: &Arc<World>,
    topology: &Topology,
    size: &Size,
    is_time_up: &mut dyn FnMut() -> bool,
) -> Result<Options, Failure> {
    // Hosts get this trait when a group gets them to itself, which groups say and not flavors.
    let required = size.required.iter().filter(|name| *name != EXCLUSIVE_TRAIT);
    let group = RequestGroup {
        resources: size.needs.iter().map(|(class, amount)| (class.clone(), *amount)).collect(),
        required: required.map(|name| vec![name.clone()]).collect(),
        forbidden: size.forbidden.clone(),
        ..RequestGroup::default()
    };
    let disabled = world.trait_id(DISABLED).map(|_| DISABLED.to_owned());
    let root_forbidden = disabled.into_iter().collect();
    let request =
        Request { groups: vec![group], root_forbidden, nested: true, ..Request::default() };
    let mut search = search::find(Arc::clone(world), &request).map_err(|unknown| {
        Failure::Unknown(match unknown {
            Unknown::Class(class) => format!("No such resource class {class}."),
            Unknown::Traits(traits) | Unknown::RootTraits(traits) => {
                format!("No such trait(s): {}.", traits.join(", "))
            }
        })
    })?;
    let mut options = Options::new();
    loop {
        let candidate = match search.next_candidate() {
            Next::Found(candidate) => candidate,
            Next::Paused if is_time_up() => return Err(Failure::OutOfTime),
            Next::Paused => continue,
            Next::Exhausted => return Ok(options),
        };
        let providers = candidate.allocations().map(|(provider, _)| provider);
        let Some(host) = topology.host(providers.collect::<Vec<_>>().into_iter()) else { continue };
        let ways = options.entry(host.id()).or_default();
        if ways.len() < WAYS_MAX {
            let draw = |(provider, amounts): (Provider<'_>, &[(ClassId, i64)])| {
                let id = provider.id();
                amounts.iter().map(move |(class, amount)| (id, *class, *amount)).collect::<Vec<_>>()
            };
            ways.push(candidate.allocations().flat_map(draw).collect());
        }
    }
}

/// The hosts that come into question, by name, so that the order does not depend on how they came
/// to be.
fn entries(
    world: &World,
    topology: &Topology,
    options: &HashMap<&Size, Options>,
    homes: &[Option<ProviderId>],
) -> Vec<HostEntry> {
    let roots: HashSet<ProviderId> =
        options.values().flat_map(|it| it.keys()).chain(homes.iter().flatten()).copied().collect();
    let entry = |root: ProviderId| {
        let provider = world.provider_by_id(root)?;
        let (name, spot) = (provider.name().to_owned(), topology.spot(&provider));
        Some(HostEntry { root, name, spot })
    };
    let mut hosts: Vec<HostEntry> = roots.into_iter().filter_map(entry).collect();
    hosts.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    hosts
}

/// A server that stays: it draws on nothing that is free.
fn fixed(home: usize, hosts: usize) -> plan::Server {
    let mut ways: Ways = vec![Vec::new(); hosts];
    let mut may_be_on = vec![false; hosts];
    ways[home].push(Way(Vec::new()));
    may_be_on[home] = true;
    plan::Server { ways: Arc::new(ways), may_be_on, is_on: Some(home) }
}

/// Pools and hosts in the making.
struct Composer<'w> {
    world: &'w World,
    hosts: &'w [HostEntry],
    pools: Vec<(ProviderId, ClassId)>,
    numbers: HashMap<(ProviderId, ClassId), usize>,
}

impl<'w> Composer<'w> {
    fn new(world: &'w World, hosts: &'w [HostEntry]) -> Self {
        Self { world, hosts, pools: Vec::new(), numbers: HashMap::new() }
    }

    /// What candidates draw on, by the numbers of hosts and pools.
    fn ways(&mut self, options: &Options) -> Ways {
        let mut ways: Ways = Vec::with_capacity(self.hosts.len());
        for host in self.hosts {
            let mut here: Vec<Way> = Vec::new();
            for option in options.get(&host.root).into_iter().flatten() {
                let mut draws = Vec::with_capacity(option.len());
                for (provider, class, amount) in option {
                    draws.push((self.pool(*provider, *class), u64::try_from(*amount).unwrap_or(0)));
                }
                here.push(Way(draws));
            }
            here.sort();
            ways.push(here);
        }
        ways
    }

    fn pool(&mut self, provider: ProviderId, class: ClassId) -> usize {
        let next = self.pools.len();
        let number = *self.numbers.entry((provider, class)).or_insert(next);
        if number == next {
            self.pools.push((provider, class));
        }
        number
    }

    fn problem(&self, servers: Vec<plan::Server>, rules: Vec<Rule>, spread: bool) -> Problem {
        let classes: BTreeSet<ClassId> = self.pools.iter().map(|(_, class)| *class).collect();
        let classes: Vec<ClassId> = classes.into_iter().collect();
        let dense = |class: ClassId| classes.binary_search(&class).unwrap_or(0);
        let pool = |(provider, class): &(ProviderId, ClassId)| Pool {
            class: dense(*class),
            free: self.world.provider_by_id(*provider).map_or(0, |it| free(&it, *class)),
        };
        let mut racks = Numbers::default();
        let mut clusters = Numbers::default();
        let hosts = self.hosts.iter().map(|entry| {
            let root = self.world.provider_by_id(entry.root);
            let tree = || root.iter().flat_map(Provider::tree);
            let of = |class: &ClassId| tree().map(|it| free(&it, *class)).sum();
            plan::Host {
                free: classes.iter().map(of).collect(),
                rack: entry.spot.rack.as_deref().map(|name| racks.of(name)),
                cluster: entry.spot.cluster.as_deref().map(|name| clusters.of(name)),
                // Who is to be spread has no use for hosts that are in use already.
                in_use: !spread && root.is_some_and(|root| is_in_use(&root)),
            }
        });
        let hosts = hosts.collect();
        Problem { hosts, pools: self.pools.iter().map(pool).collect(), servers, rules, spread }
    }
}

/// Numbers for names, in the order in which they come.
#[derive(Default)]
struct Numbers<'n>(HashMap<&'n str, u32>);

impl<'n> Numbers<'n> {
    fn of(&mut self, name: &'n str) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(name).or_insert(next)
    }
}

fn free(provider: &Provider<'_>, class: ClassId) -> u64 {
    let free = provider.inventory(class).map_or(0, |row| row.terms.capacity() - row.used);
    u64::try_from(free).unwrap_or(0)
}

/// Whether anybody holds anything on a host.
pub(super) fn is_in_use(root: &Provider<'_>) -> bool {
    root.tree().any(|provider| provider.inventories().any(|row| row.used > 0))
}

/// The stored groups that each server is in, directly or by way of other groups.
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
