//! Filters the hosts for a server by conditions other than free capacity: its zone, the locations that the client
//! allows, the hosts of its groups, and the units that groups have exclusively.

#![expect(clippy::indexing_slicing, reason = "hosts and servers are numbered densely")]

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::stack::{Holder, HostNames, Stack, Surroundings};
use super::topology::{HostEntry, Topology, is_in_use, zone_name};
use crate::model::exclusive::{admits, may_take};
use crate::model::{ExclusiveHost, GroupKind, Level, ProviderId};
use crate::solver::{AllowedHosts, Budget, Ways};
use crate::world::World;

/// A reason why a server may not be on a host, apart from its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Obstacle {
    /// It is not in the availability zone.
    Zone,
    /// The metadata of its aggregates do not meet the demands of the flavor.
    Aggregates,
    /// The client did not list it among the locations.
    Location,
    /// The client excluded it.
    Excluded,
    /// A stored group of the server. Affinity: other members are elsewhere. Diversity: other members are there.
    /// Exclusivity: non-members use the unit.
    Group(Uuid),
    /// Another stored group has the host exclusively.
    Holder(Uuid),
}

/// The demands of a server on its host apart from capacity: a zone, metadata of aggregates, lists of hosts that it
/// must be on, lists of hosts that it must not be on, and its stored groups. Lists are identified by their
/// addresses, because servers share them, and comparing them for each server would be slow.
pub(super) type Demands<'f> =
    (Option<&'f str>, &'f BTreeMap<String, String>, Vec<usize>, Vec<usize>, &'f BTreeSet<Uuid>);

/// The conditions on hosts, computed once for all servers.
pub(super) struct HostFilter<'s> {
    stack: &'s Stack,
    hosts: &'s [HostEntry],
    /// The stored groups of each server.
    groups_of: Vec<BTreeSet<Uuid>>,
    /// For each host, the groups that have it exclusively.
    holders: Vec<BTreeSet<Uuid>>,
    /// For each host, the groups that keep it exclusively even if all movable servers leave. A server that stays on
    /// its host but leaves its group is checked against these only.
    lasting_holders: Vec<BTreeSet<Uuid>>,
    /// For all demands of flavors on aggregates, the hosts that meet them.
    aggregates: HashMap<&'s BTreeMap<String, String>, Vec<bool>>,
    /// Whether each stored group allows each host.
    verdicts: HashMap<Uuid, Vec<bool>>,
}

impl<'s> HostFilter<'s> {
    /// Creates the filter for a stack; `groups_of` has the stored groups of each server. It is incomplete if the
    /// budget is spent.
    pub(super) fn new(
        context: &FilterContext<'s>,
        stack: &'s Stack,
        groups_of: Vec<BTreeSet<Uuid>>,
        budget: &mut Budget<'_>,
    ) -> Self {
        let mut verdicts = HashMap::new();
        for group in &stack.groups {
            if budget.is_spent_after(1) {
                break;
            }
            let Some(stored) = group.stored.filter(|stored| !verdicts.contains_key(stored)) else {
                continue;
            };
            budget.is_spent_with(context.hosts.len() / 8);
            verdicts.insert(stored, context.verdicts(stored, group.kind, group.level, budget));
        }
        let own = context.own_units(stack, &groups_of, budget);
        let mut occupied: HashMap<(Uuid, Level), HashSet<String>> = HashMap::new();
        let (mut holders, mut lasting_holders) = (Vec::new(), Vec::new());
        for host in context.hosts {
            if budget.is_spent_after(8) {
                break;
            }
            let mut all = BTreeSet::new();
            let mut lasting = BTreeSet::new();
            for holder in context.holders(host.root) {
                let taken = occupied
                    .entry((holder.group, holder.level))
                    .or_insert_with(|| context.occupied(holder.group, holder.level, budget));
                all.insert(holder.group);
                if context.stays(holder, taken, &own) {
                    lasting.insert(holder.group);
                }
            }
            holders.push(all);
            lasting_holders.push(lasting);
        }
        let aggregates = context.aggregates(stack, budget);
        let hosts = context.hosts;
        Self { stack, hosts, groups_of, holders, lasting_holders, aggregates, verdicts }
    }

    /// Everything that [`Self::open_to`] depends on, except for ways and home.
    pub(super) fn demands(&self, server: usize, locations: &[HostNames]) -> Demands<'_> {
        let it = &self.stack.servers[server];
        let addresses =
            |lists: &[HostNames]| lists.iter().map(|it| Arc::as_ptr(it).addr()).collect();
        let groups = &self.groups_of[server];
        (it.zone.as_deref(), &it.aggregates, addresses(locations), addresses(&it.excluded), groups)
    }

    /// Returns whether a server that is on the host now may stay there although others may not be placed there.
    pub(super) fn tells_homes_apart(&self, host: usize) -> bool {
        self.holders[host] != self.lasting_holders[host]
    }

    /// The allowed hosts of a server with these demands. The result is incomplete if the budget is spent.
    pub(super) fn open_to(
        &self,
        demands: &HostDemands<'_>,
        ways: &Ways,
        home: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> AllowedHosts {
        budget.is_spent_with(self.hosts.len() / 8);
        let mut open = vec![false; self.hosts.len()];
        for (nth, _) in ways.by_host() {
            if budget.is_spent_after(demands.work()) {
                break;
            }
            // Most servers have no demands apart from capacity, on hosts that no group has.
            let is_free = demands.is_empty() && self.holders(nth, home).is_empty();
            open[nth] = is_free || self.obstacles(demands, nth, home).next().is_none();
        }
        open.into()
    }

    /// The demands of a server whose host must be in these lists, to be checked for one host after the other.
    pub(super) fn demands_of_hosts<'f>(
        &'f self,
        server: usize,
        locations: &'f [HostNames],
    ) -> HostDemands<'f> {
        let it = &self.stack.servers[server];
        HostDemands {
            zone: it.zone.as_deref().map(zone_name),
            aggregates: self.aggregates.get(&it.aggregates).map(Vec::as_slice),
            locations,
            excluded: &it.excluded,
            groups: &self.groups_of[server],
            may_stay: it.present.as_ref().is_some_and(|it| it.holder == Holder::Mover),
        }
    }

    /// The obstacles to placing a server whose current host is `home` on a host.
    pub(super) fn obstacles<'f>(
        &'f self,
        demands: &'f HostDemands<'f>,
        nth: usize,
        home: Option<usize>,
    ) -> impl Iterator<Item = Obstacle> + use<'f> {
        let host = &self.hosts[nth];
        let name = &*host.name;
        let HostDemands { zone, aggregates, locations, excluded, groups, may_stay } = demands;
        let stays = *may_stay && home == Some(nth);
        let is_in_others = aggregates.is_some_and(|meet| meet.get(nth) != Some(&true));
        let is_outside = zone.as_ref().is_some_and(|zone| !host.location.is_in_zone(zone));
        let is_unnamed = locations.iter().any(|list| !list.contains(name));
        let is_excluded = excluded.iter().any(|list| list.contains(name));
        let of_lists = [
            (is_outside, Obstacle::Zone),
            (is_in_others, Obstacle::Aggregates),
            (is_unnamed, Obstacle::Location),
            (is_excluded, Obstacle::Excluded),
        ];
        let of_lists = of_lists.into_iter().filter_map(|(is, obstacle)| is.then_some(obstacle));
        let of_lists = of_lists.filter(move |it| !stays || *it == Obstacle::Excluded);
        let holders = self.holders(nth, home).iter();
        let holders = holders.filter(move |holder| !stays && !admits([**holder], groups));
        let verdicts = groups
            .iter()
            .filter(move |group| self.verdicts.get(group).is_some_and(|verdicts| !verdicts[nth]))
            .filter(move |_| !stays);
        let verdicts = verdicts.map(|group| Obstacle::Group(*group));
        of_lists.chain(holders.map(|holder| Obstacle::Holder(*holder))).chain(verdicts)
    }
}

/// The demands of a server on hosts apart from capacity.
pub(super) struct HostDemands<'f> {
    zone: Option<String>,
    /// Whether each host meets the demands on its aggregates.
    aggregates: Option<&'f [bool]>,
    locations: &'f [HostNames],
    excluded: &'f [HostNames],
    groups: &'f BTreeSet<Uuid>,
    /// Whether only exclusion makes it leave its host.
    may_stay: bool,
}

impl HostDemands<'_> {
    /// Returns whether there are no demands.
    fn is_empty(&self) -> bool {
        let is_anywhere = self.zone.is_none() && self.aggregates.is_none();
        is_anywhere
            && self.locations.is_empty()
            && self.excluded.is_empty()
            && self.groups.is_empty()
    }

    /// The work of checking one host, in units of the budget.
    pub(super) fn work(&self) -> usize {
        8 + 8 * self.locations.len() + 8 * self.excluded.len() + 4 * self.groups.len()
    }
}

impl HostFilter<'_> {
    /// The groups that have a host, for a server whose current host is `home`.
    fn holders(&self, host: usize, home: Option<usize>) -> &BTreeSet<Uuid> {
        if home == Some(host) { &self.lasting_holders[host] } else { &self.holders[host] }
    }
}

/// The name of the unit of a host at a level.
fn unit(host: &HostEntry, level: Level) -> Option<&str> {
    host.location.unit(level, &host.name)
}

/// Units by group and level.
type OwnUnits = HashMap<(Uuid, Level), HashSet<String>>;

/// The hosts and their surroundings.
pub(super) struct FilterContext<'s> {
    world: &'s World,
    topology: &'s Topology,
    around: &'s Surroundings,
    hosts: &'s [HostEntry],
    exclusive: HashMap<ProviderId, Vec<&'s ExclusiveHost>>,
    /// Whether each host has allocations, once that is known.
    in_use: OnceCell<Vec<bool>>,
}

impl<'s> FilterContext<'s> {
    /// Creates the context for these hosts; `in_use`: whether each has allocations, if that is known.
    pub(super) fn new(
        world: &'s World,
        topology: &'s Topology,
        around: &'s Surroundings,
        hosts: &'s [HostEntry],
        in_use: Option<Vec<bool>>,
    ) -> Self {
        let mut exclusive: HashMap<ProviderId, Vec<&ExclusiveHost>> = HashMap::new();
        for host in &around.exclusive {
            exclusive.entry(host.root).or_default().push(host);
        }
        let in_use = in_use.map_or_else(OnceCell::new, OnceCell::from);
        Self { world, topology, around, hosts, exclusive, in_use }
    }

    /// For all demands of the stack's flavors on aggregates, the hosts that meet them.
    fn aggregates(
        &self,
        stack: &'s Stack,
        budget: &mut Budget<'_>,
    ) -> HashMap<&'s BTreeMap<String, String>, Vec<bool>> {
        let mut found: HashMap<&BTreeMap<String, String>, Vec<bool>> = HashMap::new();
        for demands in stack.servers.iter().map(|server| &server.aggregates) {
            if demands.is_empty() || found.contains_key(demands) {
                continue;
            }
            let mut meet = Vec::with_capacity(self.hosts.len());
            for host in self.hosts {
                if budget.is_spent_after(8 + 64 * demands.len()) {
                    break;
                }
                let root = host.root(self.world);
                meet.push(root.is_some_and(|root| self.around.aggregates.meets(&root, demands)));
            }
            found.insert(demands, meet);
        }
        found
    }

    /// The units of the fixed servers of the stack, by their groups.
    fn own_units(
        &self,
        stack: &Stack,
        groups_of: &[BTreeSet<Uuid>],
        budget: &mut Budget<'_>,
    ) -> OwnUnits {
        let mut own = OwnUnits::new();
        for (server, groups) in stack.servers.iter().zip(groups_of) {
            if budget.is_spent_after(1 + 8 * groups.len()) {
                break;
            }
            let (present, groups) = match &server.present {
                Some(present) if server.is_fixed() => (present, groups),
                // Its instance stays in the groups that it was in, while the server gets another hold.
                Some(present) if server.resized && !present.is_released() => {
                    (present, &present.groups)
                }
                Some(_) | None => continue,
            };
            let host = self.topology.host_of(self.world, &present.holds);
            let Some(root) = host.filter(|_| !groups.is_empty()) else { continue };
            for level in Level::ALL {
                let Some(unit) = self.topology.unit(&root, level) else { continue };
                for group in groups {
                    own.entry((*group, level)).or_default().insert(unit.clone());
                }
            }
        }
        own
    }

    /// Returns whether a group keeps its unit even if all movable servers leave it: members of other stacks are
    /// there, or fixed servers.
    fn stays(&self, host: &ExclusiveHost, occupied: &HashSet<String>, own: &OwnUnits) -> bool {
        let own = own.get(&(host.group, host.level));
        !self.around.known.contains(&host.group)
            || occupied.contains(&host.unit)
            || own.is_some_and(|units| units.contains(&host.unit))
    }

    /// The groups that have a host exclusively, by its root.
    fn holders(&self, root: ProviderId) -> impl Iterator<Item = &'s ExclusiveHost> {
        self.exclusive.get(&root).into_iter().flatten().copied()
    }

    /// For each host, whether the group can be there.
    fn verdicts(
        &self,
        group: Uuid,
        kind: GroupKind,
        level: Level,
        budget: &mut Budget<'_>,
    ) -> Vec<bool> {
        budget.is_spent_after(8 * self.hosts.len());
        let taken = self.occupied(group, level, budget);
        match kind {
            GroupKind::Affinity if self.is_nowhere(group) => vec![true; self.hosts.len()],
            GroupKind::Affinity => {
                let there = |host| unit(host, level).is_some_and(|unit| taken.contains(unit));
                self.hosts.iter().map(there).collect()
            }
            GroupKind::Diversity => {
                let free = |host| unit(host, level).is_some_and(|unit| !taken.contains(unit));
                self.hosts.iter().map(free).collect()
            }
            GroupKind::Exclusivity if level == Level::Host => {
                let in_use = self.in_use(budget);
                let hosts = self.hosts.iter().zip(in_use);
                hosts
                    .map(|(host, in_use)| self.may_take(group, level, host.root, || *in_use))
                    .collect()
            }
            GroupKind::Exclusivity => {
                let closed = self.closed(group, level, budget);
                let open = |host| unit(host, level).is_some_and(|unit| !closed.contains(unit));
                self.hosts.iter().map(open).collect()
            }
        }
    }

    /// The units with members of other stacks.
    fn occupied(&self, group: Uuid, level: Level, budget: &mut Budget<'_>) -> HashSet<String> {
        let servers = self.around.occupied.get(&group).into_iter().flatten();
        servers
            .take_while(|providers| !budget.is_spent_after(8 + 8 * providers.len()))
            .filter_map(|providers| {
                let providers = providers.iter().filter_map(|id| self.world.provider_by_id(*id));
                self.topology.unit(&self.topology.host(providers)?, level)
            })
            .collect()
    }

    fn is_nowhere(&self, group: Uuid) -> bool {
        self.around.occupied.get(&group).is_none_or(Vec::is_empty)
    }

    /// Returns whether a group [may take](may_take) the unit of a host as far as that host is concerned.
    fn may_take(
        &self,
        group: Uuid,
        level: Level,
        root: ProviderId,
        is_in_use: impl FnOnce() -> bool,
    ) -> bool {
        let holder = self.holders(root).find(|it| it.level == level);
        may_take(group, holder.map(|it| it.group), is_in_use)
    }

    /// Whether each host has allocations. All of them do if the budget is spent.
    fn in_use(&self, budget: &mut Budget<'_>) -> &[bool] {
        self.in_use.get_or_init(|| {
            let in_use = |host: &HostEntry| {
                let root = host.root(self.world);
                budget.is_spent_after(16) || root.is_none_or(|root| is_in_use(&root))
            };
            self.hosts.iter().map(in_use).collect()
        })
    }

    /// The units that a group [may not take](may_take).
    fn closed(&self, group: Uuid, level: Level, budget: &mut Budget<'_>) -> HashSet<String> {
        let trees = self.world.trees().take_while(|_| !budget.is_spent_after(16));
        let closed =
            trees.filter(|root| !self.may_take(group, level, root.id(), || is_in_use(root)));
        closed.filter_map(|root| self.topology.unit(&root, level)).collect()
    }
}
