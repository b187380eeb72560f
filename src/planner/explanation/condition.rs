//! The conditions of a server on its host, and stacks without some of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use crate::model::{GroupKind, ProviderId, traits};
use crate::planner::demands::{Demands, ProviderDemands};
use crate::planner::failure::ConditionCount;
use crate::planner::host_filter::Obstacle;
use crate::planner::stack::{Server, Stack, Surroundings};
use crate::search::{Request, funnel};
use crate::world::{Changes, World};

/// A condition of one or more servers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Condition {
    /// The host is in the availability zone.
    Zone(String),
    /// The metadata of the host's aggregates meet the demands of the flavor.
    Aggregates,
    /// The host is among the locations.
    Locations,
    /// The host is not among the excluded hosts.
    Excluded,
    /// A stored group allows it, considering servers outside the plan and the units of the group.
    Group(Uuid),
    /// The host is not disabled.
    Enabled,
    /// The host has one of these traits.
    Trait(Vec<String>),
    /// The providers that the server uses do not have the trait.
    NotTrait(String),
    /// The host has the amount of the resource class.
    Class(String),
    /// Another condition of a request for candidates, in the words of the query string.
    Other(String),
    /// All properties of the host together, although it has each of them.
    AllAtOnce,
}

impl Condition {
    /// Converts a condition of a request for candidates; also returns its amount, if it has one.
    pub(super) fn of_request(condition: &funnel::Condition) -> (Self, Option<i64>) {
        if condition.is_combined() {
            return (Self::AllAtOnce, None);
        }
        if let funnel::Condition::Class { class, amount, .. } = condition {
            return (Self::Class(class.clone()), Some(*amount));
        }
        let found = if let funnel::Condition::Required { any, .. } = condition {
            Self::Trait(any.clone())
        } else if let funnel::Condition::RootRequired(name) = condition {
            Self::Trait(vec![name.clone()])
        } else if let funnel::Condition::Forbidden { name, .. } = condition {
            Self::NotTrait(name.clone())
        } else if *condition
            == funnel::Condition::RootForbidden(traits::COMPUTE_DISABLED.to_owned())
        {
            Self::Enabled
        } else {
            Self::Other(condition.to_string())
        };
        (found, None)
    }

    /// The conditions of a request for candidates, each of which can rule out hosts alone.
    pub(super) fn of_request_all(request: &Request) -> Vec<Self> {
        funnel::Condition::of(request).iter().map(|it| Self::of_request(it).0).collect()
    }

    /// The condition of a server that an obstacle violates.
    pub(super) fn of_obstacle(obstacle: Obstacle, server: &Server) -> Option<Self> {
        match obstacle {
            Obstacle::Zone => server.zone.clone().map(Self::Zone),
            Obstacle::Aggregates => Some(Self::Aggregates),
            Obstacle::Location => Some(Self::Locations),
            Obstacle::Excluded => Some(Self::Excluded),
            Obstacle::Group(group) | Obstacle::Holder(group) => Some(Self::Group(group)),
        }
    }

    /// The conditions of a server on hosts, apart from capacity and traits. `groups` are its stored groups.
    pub(super) fn on_hosts(
        server: &Server,
        groups: &BTreeSet<Uuid>,
        around: &Surroundings,
    ) -> Vec<Self> {
        let zone = server.zone.clone().map(Self::Zone);
        let aggregates = (!server.aggregates.is_empty()).then_some(Self::Aggregates);
        let locations = (!server.locations.is_empty()).then_some(Self::Locations);
        let excluded = (!server.excluded.is_empty()).then_some(Self::Excluded);
        let holders = around.exclusive.iter().map(|host| host.group);
        let groups: BTreeSet<Uuid> = groups.iter().copied().chain(holders).collect();
        let groups = groups.into_iter().map(Self::Group);
        zone.into_iter().chain(aggregates).chain(locations).chain(excluded).chain(groups).collect()
    }

    /// Its description in responses.
    pub(super) fn described(&self, names: &GroupNames<'_>, needed: Option<i64>) -> ConditionCount {
        let (constraint, name) = match self {
            Self::Zone(zone) => ("availability-zone", Some(zone.clone())),
            Self::Aggregates => ("aggregate-instance-extra-specs", None),
            Self::Locations => ("locations", None),
            Self::Excluded => ("excluded-hosts", None),
            Self::Group(group) if names.is_exclusive(*group) => ("exclusive-units", None),
            Self::Group(_) => ("named-group", None),
            Self::Enabled => ("disabled", None),
            Self::Trait(any) => ("required-trait", Some(any.join(","))),
            Self::NotTrait(name) => ("forbidden-trait", Some(name.clone())),
            Self::Class(class) => ("capacity", Some(class.clone())),
            Self::Other(text) => ("request", Some(text.clone())),
            Self::AllAtOnce => ("all-at-once", None),
        };
        let group = if let Self::Group(group) = self { names.of(*group) } else { None };
        ConditionCount { constraint, name, group, needed }
    }
}

/// The names of stored groups.
pub(super) struct GroupNames<'c> {
    pub(super) stack: &'c Stack,
    pub(super) around: &'c Surroundings,
}

impl GroupNames<'_> {
    /// Returns whether it is an exclusivity group. Of other groups, only those of the stack can rule out hosts.
    fn is_exclusive(&self, group: Uuid) -> bool {
        let own = self.stack.groups.iter().find(|it| it.stored == Some(group));
        own.is_none_or(|it| it.kind == GroupKind::Exclusivity)
    }

    pub(super) fn of(&self, group: Uuid) -> Option<String> {
        let own = self.stack.groups.iter().find(|it| it.stored == Some(group));
        own.map(|it| &it.name).or_else(|| self.around.names.get(&group)).cloned()
    }
}

/// Removes the demands of a server that are not kept, and groups that become empty.
fn keep_demands(demands: &mut Demands, keeps: &impl Fn(Condition) -> bool) {
    keep_providers("", &mut demands.providers, keeps);
    for (suffix, group) in &mut demands.groups {
        group.needs.retain(|class, _| keeps(Condition::Class(class.clone())));
        group.required.retain(|name| keeps(Condition::Trait(vec![name.clone()])));
        group.forbidden.retain(|name| keeps(Condition::NotTrait(name.clone())));
        keep_providers(suffix, &mut group.providers, keeps);
    }
    demands.root_required.retain(|name| keeps(Condition::Trait(vec![name.clone()])));
    demands.root_forbidden.retain(|name| {
        keeps(Condition::of_request(&funnel::Condition::RootForbidden(name.clone())).0)
    });
    demands.groups.retain(|_, group| group.asks_for_something());
    let groups = &demands.groups;
    let sets = std::mem::take(&mut demands.same_subtree).into_iter();
    let left = |set: BTreeSet<String>| -> BTreeSet<String> {
        set.into_iter().filter(|suffix| groups.contains_key(suffix)).collect()
    };
    demands.same_subtree = sets.map(left).filter(|set| !set.is_empty()).collect();
}

fn keep_providers(
    group: &str,
    providers: &mut ProviderDemands,
    keeps: &impl Fn(Condition) -> bool,
) {
    let group = || group.to_owned();
    let keeps_other = |condition: funnel::Condition| keeps(Condition::of_request(&condition).0);
    providers.any_of.retain(|any| keeps(Condition::Trait(any.clone())));
    providers.member_of.retain(|any| {
        keeps_other(funnel::Condition::MemberOf { group: group(), any: any.clone() })
    });
    providers.not_member_of.retain(|aggregate| {
        keeps_other(funnel::Condition::NotMemberOf { group: group(), aggregate: *aggregate })
    });
    providers.in_tree = providers.in_tree.filter(|provider| {
        keeps_other(funnel::Condition::InTree { group: group(), provider: *provider })
    });
}

/// The stack with the state in which it is planned.
pub(super) struct Scenario {
    pub(super) world: Arc<World>,
    pub(super) stack: Stack,
    pub(super) around: Surroundings,
}

impl Scenario {
    /// Drops all conditions of servers but these.
    pub(super) fn keep(&mut self, kept: &BTreeSet<Condition>) {
        let keeps = |condition: Condition| kept.contains(&condition);
        for server in self.stack.servers.iter_mut().filter(|server| !server.is_fixed()) {
            let size = &mut server.size;
            let is_volume = size.is_volume();
            size.needs.retain(|class, _| keeps(Condition::Class(class.clone())));
            size.required.retain(|name| keeps(Condition::Trait(vec![name.clone()])));
            size.root_required.retain(|name| keeps(Condition::Trait(vec![name.clone()])));
            size.forbidden.retain(|name| keeps(Condition::NotTrait(name.clone())));
            keep_demands(&mut size.demands, &keeps);
            // Without its processors, a server would fit into a pool, and without its trait, a volume on a host.
            if is_volume {
                size.root_required = vec![traits::STORAGE.to_owned()];
            } else if self.world.trait_id(traits::STORAGE).is_some() {
                size.demands.root_forbidden.insert(traits::STORAGE.to_owned());
            }
            server.zone = server.zone.take().filter(|zone| keeps(Condition::Zone(zone.clone())));
            if !keeps(Condition::Aggregates) {
                server.aggregates.clear();
            }
            if !keeps(Condition::Locations) {
                server.locations.clear();
                server.locations_if_free = None;
            }
            if !keeps(Condition::Excluded) {
                server.excluded.clear();
            }
        }
        let keeps_group = |group: &Uuid| keeps(Condition::Group(*group));
        for group in &mut self.stack.groups {
            group.stored = group.stored.filter(|stored| keeps_group(stored));
        }
        self.around.occupied.retain(|group, _| keeps_group(group));
        self.around.exclusive.retain(|host| keeps_group(&host.group));
        if !keeps(Condition::Enabled) {
            self.world = enabled(&self.world);
        }
    }

    /// Drops movable servers, except for some. Their holds stay free.
    pub(super) fn leave_out_movers_but(&mut self, kept: &BTreeSet<usize>) {
        for (number, server) in self.stack.servers.iter_mut().enumerate() {
            if server.is_fixed() || kept.contains(&number) {
                continue;
            }
            server.absent = true;
            if let Some(present) = server.present.as_ref().filter(|present| present.is_released()) {
                self.stack.given_up.extend(&present.holds);
            }
        }
    }
}

/// The world as if no host were disabled.
fn enabled(world: &Arc<World>) -> Arc<World> {
    let Some(disabled) = world.trait_id(traits::COMPUTE_DISABLED) else { return Arc::clone(world) };
    if !world.trait_in_use(disabled) {
        return Arc::clone(world);
    }
    let mut rows: HashMap<ProviderId, _> = HashMap::new();
    for root in world.trees().filter(|root| root.traits().contains(&disabled)) {
        let mut row = root.row();
        row.traits.retain(|it| *it != disabled);
        rows.insert(root.id(), Some(row));
    }
    Arc::new(world.apply(Changes { providers: rows.into_iter().collect(), ..Changes::default() }))
}
