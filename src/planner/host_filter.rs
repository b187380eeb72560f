//! Which hosts a server may be on for reasons other than what is free there: its zone, what the
//! client allows, where the groups are that it is in, and which units groups have exclusively.

#![expect(clippy::indexing_slicing, reason = "hosts and servers are numbered densely")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::stack::{HostNames, Stack, Surroundings};
use super::topology::{HostEntry, Topology, is_in_use, zone_name};
use crate::model::exclusive::{admits, may_take};
use crate::model::{ExclusiveHost, GroupKind, Level, ProviderId};
use crate::solver::{AllowedHosts, Budget, Ways};
use crate::world::{Provider, World};

/// Why a server may not be on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// There is no allocation candidate: too little is free, or a trait is missing.
    Room,
    /// It is not in the availability zone.
    Zone,
    /// The metadata of its aggregates are not what the flavor demands.
    Aggregates,
    /// The client did not name it among the locations.
    Location,
    /// The client excluded it.
    Excluded,
    /// Other members of the group are elsewhere (affinity) or there (diversity).
    Group,
    /// The exclusivity group may not take the unit.
    Exclusivity,
    /// Another group has the unit exclusively.
    OtherGroups,
}

impl Reason {
    /// What the constraint is called in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Room => "capacity",
            Self::Zone => "availability-zone",
            Self::Aggregates => "aggregate-instance-extra-specs",
            Self::Location => "locations",
            Self::Excluded => "excluded-hosts",
            Self::Group => "named-group",
            Self::Exclusivity => "exclusivity",
            Self::OtherGroups => "no-exclusivity",
        }
    }
}

/// What a server demands of its host besides room: a zone, metadata of aggregates, lists of hosts that it must be on, lists of
/// hosts that it must not be on, and its stored groups. Lists are known by their addresses, because
/// servers share them and comparing their contents would cost their length for each server.
pub(super) type Demands<'f> =
    (Option<&'f str>, &'f BTreeMap<String, String>, Vec<usize>, Vec<usize>, &'f BTreeSet<Uuid>);

/// What decides about hosts, computed once for all servers.
pub(super) struct HostFilter<'s> {
    stack: &'s Stack,
    hosts: &'s [HostEntry],
    /// The stored groups of each server.
    groups_of: Vec<BTreeSet<Uuid>>,
    /// For each host the groups that have it exclusively.
    holders: Vec<BTreeSet<Uuid>>,
    /// For each host those of them that keep it whatever becomes of the servers that may move. A server
    /// that stays on its host but leaves its group is checked against these only.
    lasting_holders: Vec<BTreeSet<Uuid>>,
    /// For all that flavors demand of aggregates, which hosts meet it.
    aggregates: HashMap<&'s BTreeMap<String, String>, Vec<bool>>,
    /// What each stored group allows of each host.
    verdicts: HashMap<Uuid, Vec<Option<Reason>>>,
}

impl<'s> HostFilter<'s> {
    /// The filter for a stack; `groups_of` has the stored groups of each server. It is incomplete if the budget
    /// is spent.
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
            verdicts.insert(stored, context.verdicts(stored, (group.kind, group.level), budget));
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

    /// All that [`Self::open_to`] depends on, except for ways and home.
    pub(super) fn demands(&self, server: usize) -> Demands<'_> {
        let it = &self.stack.servers[server];
        let addresses =
            |lists: &[HostNames]| lists.iter().map(|it| Arc::as_ptr(it).addr()).collect();
        let groups = &self.groups_of[server];
        (
            it.zone.as_deref(),
            &it.aggregates,
            addresses(&it.locations),
            addresses(&it.excluded),
            groups,
        )
    }

    /// Whether a server that is on the host now may stay there although others may not come.
    pub(super) fn tells_homes_apart(&self, host: usize) -> bool {
        self.holders[host] != self.lasting_holders[host]
    }

    /// The hosts that a server may be on, and how many hosts are ruled out for which reason; each host counts
    /// for the first reason only. The result is incomplete if the budget is spent.
    pub(super) fn open_to(
        &self,
        server: usize,
        ways: &Ways,
        home: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> (AllowedHosts, BTreeMap<Reason, usize>) {
        let mut reasons = BTreeMap::new();
        let it = &self.stack.servers[server];
        let zone = it.zone.as_deref().map(zone_name);
        let groups = &self.groups_of[server];
        let aggregates = self.aggregates.get(&it.aggregates);
        budget.is_spent_with(self.hosts.len() / 8);
        let mut open = Vec::with_capacity(self.hosts.len());
        for (nth, host) in self.hosts.iter().enumerate() {
            if budget.is_spent_after(
                8 + 8 * it.locations.len() + 8 * it.excluded.len() + 4 * groups.len(),
            ) {
                break;
            }
            let name = host.name.as_str();
            let by_groups = || {
                let verdicts = groups.iter().filter_map(|group| self.verdicts.get(group));
                verdicts.filter_map(|verdicts| verdicts[nth]).min()
            };
            let why = if zone.as_ref().is_some_and(|zone| !host.location.zones.contains(zone)) {
                Some(Reason::Zone)
            } else if aggregates.is_some_and(|meet| meet.get(nth) != Some(&true)) {
                Some(Reason::Aggregates)
            } else if it.locations.iter().any(|list| !list.contains(name)) {
                Some(Reason::Location)
            } else if it.excluded.iter().any(|list| list.contains(name)) {
                Some(Reason::Excluded)
            } else if !admits(self.holders(nth, home).iter().copied(), groups) {
                Some(Reason::OtherGroups)
            } else if let Some(why) = by_groups() {
                Some(why)
            } else if ways.on(nth).is_none() {
                Some(Reason::Room)
            } else {
                None
            };
            if let Some(why) = why {
                *reasons.entry(why).or_insert(0) += 1;
            }
            open.push(why.is_none());
        }
        (open.into(), reasons)
    }
}

impl HostFilter<'_> {
    /// The groups that have a host, for a server that is on host `home` now.
    fn holders(&self, host: usize, home: Option<usize>) -> &BTreeSet<Uuid> {
        if home == Some(host) { &self.lasting_holders[host] } else { &self.holders[host] }
    }
}

/// Units by group and level.
type OwnUnits = HashMap<(Uuid, Level), HashSet<String>>;

/// The hosts and what surrounds them.
pub(super) struct FilterContext<'s> {
    world: &'s World,
    topology: &'s Topology,
    around: &'s Surroundings,
    hosts: &'s [HostEntry],
    exclusive: HashMap<ProviderId, Vec<&'s ExclusiveHost>>,
}

impl<'s> FilterContext<'s> {
    pub(super) fn new(
        world: &'s World,
        topology: &'s Topology,
        around: &'s Surroundings,
        hosts: &'s [HostEntry],
    ) -> Self {
        let mut exclusive: HashMap<ProviderId, Vec<&ExclusiveHost>> = HashMap::new();
        for host in &around.exclusive {
            exclusive.entry(host.root).or_default().push(host);
        }
        Self { world, topology, around, hosts, exclusive }
    }

    /// For all that flavors of the stack demand of aggregates, which hosts meet it.
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
                let root = self.world.provider_by_id(host.root);
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
            let present = server.present.as_ref().filter(|_| server.is_fixed());
            let host = present.and_then(|it| self.topology.host_of(self.world, &it.holds));
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

    /// Whether a group keeps its unit even if all servers leave it that may move: members of other stacks are
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

    /// For each host, why the group cannot be there.
    fn verdicts(
        &self,
        group: Uuid,
        (kind, level): (GroupKind, Level),
        budget: &mut Budget<'_>,
    ) -> Vec<Option<Reason>> {
        budget.is_spent_after(8 * self.hosts.len());
        let unit = |host: &HostEntry| host.location.unit(level, &host.name).map(str::to_owned);
        let taken = self.occupied(group, level, budget);
        match kind {
            GroupKind::Affinity if self.is_nowhere(group) => vec![None; self.hosts.len()],
            GroupKind::Affinity => {
                let there = |host| unit(host).is_some_and(|unit| taken.contains(&unit));
                self.hosts.iter().map(|host| (!there(host)).then_some(Reason::Group)).collect()
            }
            GroupKind::Diversity => {
                let free = |host| unit(host).is_some_and(|unit| !taken.contains(&unit));
                self.hosts.iter().map(|host| (!free(host)).then_some(Reason::Group)).collect()
            }
            GroupKind::Exclusivity => {
                let closed = self.closed(group, level, budget);
                let open = |host| unit(host).is_some_and(|unit| !closed.contains(&unit));
                self.hosts.iter().map(|host| (!open(host)).then_some(Reason::Exclusivity)).collect()
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

    /// The units that a group [may not take](may_take).
    fn closed(&self, group: Uuid, level: Level, budget: &mut Budget<'_>) -> HashSet<String> {
        let is_closed = |root: &Provider<'_>| {
            let holder = self.holders(root.id()).find(|it| it.level == level);
            !may_take(group, holder.map(|it| it.group), || is_in_use(root))
        };
        let trees = self.world.trees().take_while(|_| !budget.is_spent_after(16));
        let closed = trees.filter(is_closed);
        closed.filter_map(|root| self.topology.unit(&root, level)).collect()
    }
}
