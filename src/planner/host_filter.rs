//! Which hosts a server may be on for reasons other than what is free there: its zone, what the
//! client allows, where the groups are that it is in, and who has units to themselves.

#![expect(clippy::indexing_slicing, reason = "hosts and servers are numbered densely")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::stack::{HostNames, KeptHost, Stack, Surroundings};
use super::topology::{HostEntry, Topology, is_in_use, zone_name};
use crate::model::ProviderId;
use crate::solver::groups::Kind;
use crate::solver::{AllowedHosts, Budget, Level, Ways};
use crate::world::{Provider, World};

/// Why a server may not be on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// There is too little room, or a trait is missing: no allocation candidate.
    Room,
    /// It is not in the availability zone.
    Zone,
    /// The client did not name it among the locations.
    Location,
    /// The client excluded it.
    Excluded,
    /// Other members of the group are elsewhere (affinity) or there (diversity).
    Group,
    /// The exclusivity group cannot have the unit to itself.
    Exclusivity,
    /// Others have the unit to themselves.
    Kept,
}

impl Reason {
    /// What the constraint is called in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Room => "capacity",
            Self::Zone => "availability-zone",
            Self::Location => "locations",
            Self::Excluded => "excluded-hosts",
            Self::Group => "named-group",
            Self::Exclusivity => "exclusivity",
            Self::Kept => "no-exclusivity",
        }
    }
}

/// What a server demands of its host besides room: a zone, lists of hosts that it must be on, lists of
/// hosts that it must not be on, and its stored groups. Lists are known by their addresses, because
/// servers share them and comparing their contents would cost their length for each server.
pub(super) type Demands<'f> = (Option<&'f str>, Vec<usize>, Vec<usize>, &'f BTreeSet<Uuid>);

/// What decides, looked up once for all servers.
pub(super) struct HostFilter<'s> {
    stack: &'s Stack,
    hosts: &'s [HostEntry],
    /// The stored groups of each server.
    groups_of: Vec<BTreeSet<Uuid>>,
    /// For each host the groups that have it to themselves.
    kept: Vec<BTreeSet<Uuid>>,
    /// For each host those of them that are there without this stack, or have servers of it there that
    /// stay. Who is there already and leaves its group has only these to fear.
    kept_by_others: Vec<BTreeSet<Uuid>>,
    /// What each stored group allows of each host.
    verdicts: HashMap<Uuid, Vec<Option<Reason>>>,
}

impl<'s> HostFilter<'s> {
    /// For a stack in its surroundings; `groups_of` are the stored groups of each server. It is of no
    /// use once the time is up.
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
        let (mut kept, mut kept_by_others) = (Vec::new(), Vec::new());
        for host in context.hosts {
            if budget.is_spent_after(8) {
                break;
            }
            let mut all = BTreeSet::new();
            let mut firm = BTreeSet::new();
            for keeper in context.keepers(host.root) {
                let taken = occupied
                    .entry((keeper.group, keeper.level))
                    .or_insert_with(|| context.occupied(keeper.group, keeper.level, budget));
                all.insert(keeper.group);
                if context.stays(keeper, taken, &own) {
                    firm.insert(keeper.group);
                }
            }
            kept.push(all);
            kept_by_others.push(firm);
        }
        Self { stack, hosts: context.hosts, groups_of, kept, kept_by_others, verdicts }
    }

    /// All that [`Self::open_to`] goes by, but for ways and home.
    pub(super) fn demands(&self, server: usize) -> Demands<'_> {
        let it = &self.stack.servers[server];
        let addresses =
            |lists: &[HostNames]| lists.iter().map(|it| Arc::as_ptr(it).addr()).collect();
        let groups = &self.groups_of[server];
        (it.zone.as_deref(), addresses(&it.locations), addresses(&it.excluded), groups)
    }

    /// Whether a host is open to who is there and closed to others.
    pub(super) fn tells_homes_apart(&self, host: usize) -> bool {
        self.kept[host] != self.kept_by_others[host]
    }

    /// The hosts where a server may be, and how many hosts are ruled out why: each host counts for the
    /// first reason there is. It is of no use once the time is up.
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
            } else if it.locations.iter().any(|list| !list.contains(name)) {
                Some(Reason::Location)
            } else if it.excluded.iter().any(|list| list.contains(name)) {
                Some(Reason::Excluded)
            } else if !self.keepers(nth, home).is_subset(groups) {
                Some(Reason::Kept)
            } else if let Some(why) = by_groups() {
                Some(why)
            } else if ways.on(nth).is_empty() {
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
    /// Who keeps a host from a server that is at home on another one, or there.
    fn keepers(&self, host: usize, home: Option<usize>) -> &BTreeSet<Uuid> {
        if home == Some(host) { &self.kept_by_others[host] } else { &self.kept[host] }
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
    kept: HashMap<ProviderId, Vec<&'s KeptHost>>,
}

impl<'s> FilterContext<'s> {
    pub(super) fn new(
        world: &'s World,
        topology: &'s Topology,
        around: &'s Surroundings,
        hosts: &'s [HostEntry],
    ) -> Self {
        let mut kept: HashMap<ProviderId, Vec<&KeptHost>> = HashMap::new();
        for host in &around.kept {
            kept.entry(host.root).or_default().push(host);
        }
        Self { world, topology, around, hosts, kept }
    }

    /// The units that servers of the stack are in who stay, by their groups.
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
            for level in [Level::Host, Level::Rack, Level::Cluster] {
                let Some(unit) = self.topology.unit(&root, level) else { continue };
                for group in groups {
                    own.entry((*group, level)).or_default().insert(unit.clone());
                }
            }
        }
        own
    }

    /// Whether a group keeps its unit whatever becomes of the servers of the stack that may move:
    /// others of it are there, or servers of the stack that stay.
    fn stays(&self, kept: &KeptHost, occupied: &HashSet<String>, own: &OwnUnits) -> bool {
        let own = own.get(&(kept.group, kept.level));
        !self.around.known.contains(&kept.group)
            || occupied.contains(&kept.unit)
            || own.is_some_and(|units| units.contains(&kept.unit))
    }

    /// Who has a host to itself, by its root.
    fn keepers(&self, root: ProviderId) -> impl Iterator<Item = &'s KeptHost> {
        self.kept.get(&root).into_iter().flatten().copied()
    }

    /// For each host why the group cannot be there.
    fn verdicts(
        &self,
        group: Uuid,
        (kind, level): (Kind, Level),
        budget: &mut Budget<'_>,
    ) -> Vec<Option<Reason>> {
        budget.is_spent_after(8 * self.hosts.len());
        let unit = |host: &HostEntry| host.location.unit(level, &host.name).map(str::to_owned);
        let taken = self.occupied(group, level, budget);
        match kind {
            Kind::Affinity if self.is_nowhere(group) => vec![None; self.hosts.len()],
            Kind::Affinity => {
                let there = |host| unit(host).is_some_and(|unit| taken.contains(&unit));
                self.hosts.iter().map(|host| (!there(host)).then_some(Reason::Group)).collect()
            }
            Kind::Diversity => {
                let free = |host| unit(host).is_some_and(|unit| !taken.contains(&unit));
                self.hosts.iter().map(|host| (!free(host)).then_some(Reason::Group)).collect()
            }
            Kind::Exclusivity => {
                let closed = self.closed(group, level, budget);
                let open = |host| unit(host).is_some_and(|unit| !closed.contains(&unit));
                self.hosts.iter().map(|host| (!open(host)).then_some(Reason::Exclusivity)).collect()
            }
        }
    }

    /// The units that members of other stacks are in.
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

    /// The units that a group can not have to itself: others are there, and it does not have them
    /// already.
    fn closed(&self, group: Uuid, level: Level, budget: &mut Budget<'_>) -> HashSet<String> {
        let is_closed = |root: &Provider<'_>| {
            let mut keepers = self.keepers(root.id()).filter(|it| it.level == level);
            match keepers.next() {
                Some(keeper) => keeper.group != group,
                None => is_in_use(root),
            }
        };
        let trees = self.world.trees().take_while(|_| !budget.is_spent_after(16));
        let closed = trees.filter(is_closed);
        closed.filter_map(|root| self.topology.unit(&root, level)).collect()
    }
}
