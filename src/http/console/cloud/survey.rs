//! The hosts of a cloud that match, with their sums. A host is a tree of providers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use crate::http::console::amounts::{Amounts, Permille, WHOLE};
use crate::model::{ClassId, TraitId};
use crate::planner::topology::{HostLocation, Topology};
use crate::world::{Provider, World};

/// Number of digits to which numbers in names are filled up for sorting.
const WIDTH: usize = 10;
/// Minimum used fraction at which a class counts as full: what is left rarely suffices for an instance.
const FULL: Permille = 950;

/// The condition that a host has to meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Anything,
    /// A provider with this text in its name, in lower case.
    Name(String),
    /// A provider by its UUID.
    Provider(Uuid),
    /// A provider in an aggregate.
    Aggregate(Uuid),
    /// An allocation of a consumer, if it is one: its page has them.
    Consumer(Uuid),
    /// A provider with a trait.
    Trait(TraitId),
    /// A provider with an inventory of a class.
    Class(ClassId),
}

impl Wanted {
    /// Interprets a text: a UUID of a provider, of an aggregate or of a consumer, the name of a trait or of a class,
    /// or a part of the name of a provider.
    pub(super) fn of(text: &str, world: &World) -> Self {
        if text.is_empty() {
            return Self::Anything;
        }
        if let Ok(uuid) = Uuid::try_parse(text) {
            return if world.provider(uuid).is_some() {
                Self::Provider(uuid)
            } else if world.aggregate(uuid).is_some() {
                Self::Aggregate(uuid)
            } else {
                Self::Consumer(uuid)
            };
        }
        let name = text.to_uppercase();
        if let Some(id) = world.trait_id(&name) {
            return Self::Trait(id);
        }
        match world.class_id(&name) {
            Some(id) => Self::Class(id),
            None => Self::Name(text.to_lowercase()),
        }
    }

    fn matches(&self, provider: &Provider<'_>) -> bool {
        match self {
            Self::Anything => true,
            Self::Name(text) => provider.name().to_lowercase().contains(text),
            Self::Provider(uuid) => provider.uuid() == *uuid,
            Self::Aggregate(uuid) => provider.aggregates().contains(uuid),
            Self::Consumer(_) => false,
            Self::Trait(id) => provider.traits().contains(id),
            Self::Class(id) => provider.inventory(*id).is_some(),
        }
    }
}

/// The kind of areas in which hosts are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    Rack,
    Cluster,
    Zone,
    Aggregate,
}

impl Grouping {
    /// All, with their names in queries and on pages.
    pub(super) const ALL: [(Self, &str, &str); 4] = [
        (Self::Rack, "rack", "racks"),
        (Self::Cluster, "cluster", "clusters"),
        (Self::Zone, "zone", "availability zones"),
        (Self::Aggregate, "aggregate", "aggregates"),
    ];

    /// Returns the areas of a host.
    fn areas(self, root: &Provider<'_>, topology: &Topology) -> Vec<Area> {
        if self == Self::Aggregate {
            return root.aggregates().iter().copied().map(Area::Aggregate).collect();
        }
        let HostLocation { rack, cluster, zones } = topology.location(root);
        let names = match self {
            Self::Rack => rack.into_iter().collect(),
            Self::Cluster => cluster.into_iter().collect(),
            Self::Zone | Self::Aggregate => zones,
        };
        names.into_iter().map(Area::Named).collect()
    }
}

/// An area of the cloud.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Area {
    Named(Arc<str>),
    Aggregate(Uuid),
    /// Hosts in no area.
    Elsewhere,
}

impl Area {
    /// Returns its name in queries; empty for [`Area::Elsewhere`].
    pub(super) fn name(&self) -> String {
        match self {
            Self::Named(name) => name.to_string(),
            Self::Aggregate(uuid) => uuid.to_string(),
            Self::Elsewhere => String::new(),
        }
    }
}

/// A host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// The slot of the root.
    pub(super) slot: u32,
    /// The fullness of the chosen class, or of the fullest.
    pub(super) fullness: Option<Permille>,
    /// The class of this fullness.
    pub(super) class: Option<ClassId>,
    /// The free fraction of its emptiest class, if another class is full: servers that need both cannot use it.
    pub(super) stranded: Permille,
    /// Whether all inventories of its tree are shared with other trees.
    pub(super) is_pool: bool,
}

/// The hosts that match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// The hosts, ascending by slot.
    pub(super) hosts: Vec<Host>,
    /// Number of them that are pools.
    pub(super) pools: usize,
    /// Number of providers in their trees.
    pub(super) providers: usize,
    /// Number of hosts with a full class and another that is not full.
    pub(super) stranded: usize,
    /// The sums of each class.
    pub(super) classes: BTreeMap<ClassId, Amounts>,
}

/// Returns the sums of each class in a tree, ascending by class.
pub(super) fn sums(root: &Provider<'_>) -> Vec<(ClassId, Amounts)> {
    let rows = root.tree().flat_map(|provider| provider.inventories());
    let mut sums: Vec<_> = rows.map(|row| (row.class, Amounts::of(&row))).collect();
    sums.sort_by_key(|(class, _)| *class);
    sums.dedup_by(|(next, amounts), (class, sum)| {
        let is_same = next == class;
        if is_same {
            sum.merge(amounts);
        }
        is_same
    });
    let is_full = |amounts: &Amounts| amounts.fullness().is_some_and(|it| it >= FULL);
    if sums.iter().any(|(_, amounts)| is_full(amounts)) {
        for (_, amounts) in sums.iter_mut().filter(|(_, amounts)| !is_full(amounts)) {
            amounts.stranded = amounts.free().0;
        }
    }
    sums
}

/// Adds the sums of each class to others.
pub(super) fn merge(into: &mut BTreeMap<ClassId, Amounts>, from: &[(ClassId, Amounts)]) {
    for (class, amounts) in from {
        into.entry(*class).or_default().merge(amounts);
    }
}

/// Surveys the hosts that match. The fullness of a host is that of `class`, or of its fullest class.
pub(super) fn survey(
    world: &World,
    topology: &Topology,
    class: Option<ClassId>,
    matches: impl Fn(&Provider<'_>) -> bool,
) -> Survey {
    let mut survey = Survey::default();
    for root in world.trees().filter(|root| matches(root)) {
        let sums = sums(&root);
        let filled = sums.iter().filter_map(|(id, amounts)| Some((amounts.fullness()?, *id)));
        let filled: Vec<(Permille, ClassId)> = filled.collect();
        let stranded = stranded(&filled);
        survey.stranded += usize::from(stranded > 0);
        let is_pool = is_pool(&root, topology);
        survey.pools += usize::from(is_pool);
        // The first of several equally full classes.
        let chosen = filled.iter().filter(|(_, id)| class.is_none_or(|class| class == *id));
        let fullest = chosen.copied().rev().max_by_key(|(fullness, _)| *fullness);
        survey.hosts.push(Host {
            slot: root.slot(),
            fullness: fullest.map(|(fullness, _)| fullness),
            class: fullest.map(|(_, class)| class),
            stranded,
            is_pool,
        });
        survey.providers += root.tree().count();
        merge(&mut survey.classes, &sums);
    }
    survey
}

/// Returns whether all inventories of a tree are those of sharing providers.
fn is_pool(root: &Provider<'_>, topology: &Topology) -> bool {
    let is_own = |it: &Provider<'_>| !topology.is_shared(it) && it.inventories().next().is_some();
    root.tree().any(|it| topology.is_shared(&it)) && !root.tree().any(|it| is_own(&it))
}

/// Returns the free fraction of the emptiest class of a host, if another class is full.
fn stranded(filled: &[(Permille, ClassId)]) -> Permille {
    let fullness = || filled.iter().map(|(fullness, _)| *fullness);
    match (fullness().min(), fullness().max()) {
        (Some(emptiest @ ..FULL), Some(FULL..)) => WHOLE - emptiest,
        _ => 0,
    }
}

/// Returns a condition on hosts: a provider of the tree is wanted, and the host is in an area.
pub(super) fn condition<'c>(
    wanted: &'c Wanted,
    area: Option<(Grouping, &'c str)>,
    topology: &'c Topology,
) -> impl Fn(&Provider<'_>) -> bool + 'c {
    move |root: &Provider<'_>| {
        let is_there = area.is_none_or(|(grouping, name)| {
            let areas = grouping.areas(root, topology);
            if areas.is_empty() {
                name.is_empty()
            } else {
                areas.iter().any(|it| it.name() == name)
            }
        });
        is_there && (*wanted == Wanted::Anything || root.tree().any(|it| wanted.matches(&it)))
    }
}

/// Returns the first grouping that places any of the hosts.
pub(super) fn usual_grouping(world: &World, hosts: &[Host], topology: &Topology) -> Grouping {
    let places_some = |grouping: Grouping| {
        let roots = hosts.iter().filter_map(|host| world.at(host.slot));
        roots.into_iter().any(|root| !grouping.areas(&root, topology).is_empty())
    };
    let groupings = Grouping::ALL.map(|(grouping, ..)| grouping);
    groupings.into_iter().find(|grouping| places_some(*grouping)).unwrap_or(Grouping::Rack)
}

/// Returns the areas with their hosts. A host can be in several.
pub(super) fn areas(
    world: &World,
    hosts: &[Host],
    grouping: Grouping,
    topology: &Topology,
) -> Vec<(Area, Vec<Host>)> {
    let mut areas: HashMap<Area, Vec<Host>> = HashMap::new();
    for host in hosts {
        let Some(root) = world.at(host.slot) else { continue };
        let mut of_host = grouping.areas(&root, topology);
        if of_host.is_empty() {
            of_host.push(Area::Elsewhere);
        }
        for area in of_host {
            areas.entry(area).or_default().push(*host);
        }
    }
    areas.into_iter().collect()
}

/// Returns the mean fullness of hosts; pools do not count. `None`: no host has any capacity.
pub(super) fn mean_fullness(hosts: &[Host]) -> Option<Permille> {
    let filled = hosts.iter().filter(|host| !host.is_pool).filter_map(|host| host.fullness);
    let (sum, count) = filled.fold((0, 0), |(sum, count), it| (sum + u64::from(it), count + 1));
    Permille::try_from(sum.checked_div(count)?).ok()
}

/// Returns a text in whose order numbers ascend: `r2` comes before `r10`.
fn natural(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + WIDTH);
    let mut rest = name;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c: char| !c.is_ascii_digit()).map_or(from.len(), |end| end);
        let (number, after) = from.split_at(end);
        text.push_str(before);
        text.extend(std::iter::repeat_n('0', WIDTH.saturating_sub(number.len())));
        text.push_str(number);
        rest = after;
    }
    text.push_str(rest);
    text
}

/// The order of hosts and of areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListOrder {
    Name,
    Fullest,
    Emptiest,
    /// By the free capacity that a full class makes stranded.
    Stranded,
}

impl ListOrder {
    /// All, with their names in queries and on pages.
    pub(super) const ALL: [(Self, &str, &str); 4] = [
        (Self::Name, "name", "by name"),
        (Self::Fullest, "fullest", "fullest first"),
        (Self::Emptiest, "emptiest", "emptiest first"),
        (Self::Stranded, "stranded", "stranded capacity first"),
    ];

    /// Sorts hosts.
    pub(super) fn sort(self, world: &World, hosts: &mut [Host]) {
        let name = |host: &Host| world.at(host.slot).map(|root| root.name());
        match self {
            Self::Name => hosts.sort_unstable_by_key(name),
            Self::Fullest => {
                hosts.sort_unstable_by_key(|it| (Reverse(it.fullness), it.slot));
            }
            // Hosts without any capacity are neither full nor empty.
            Self::Emptiest => {
                hosts.sort_unstable_by_key(|it| (it.fullness.is_none(), it.fullness, it.slot));
            }
            Self::Stranded => {
                let key = |it: &Host| (Reverse(it.stranded), Reverse(it.fullness), it.slot);
                hosts.sort_unstable_by_key(key);
            }
        }
    }

    /// Sorts areas by name, or by the mean fullness of their hosts. [`Area::Elsewhere`] comes last.
    pub(super) fn sort_areas(self, areas: &mut [(Area, Vec<Host>)]) {
        let mean = |hosts: &[Host]| mean_fullness(hosts).map_or(0, u64::from);
        areas.sort_by_cached_key(|(area, hosts)| {
            let by = match self {
                Self::Name => 0,
                Self::Fullest => u64::MAX - mean(hosts),
                Self::Emptiest => mean(hosts),
                Self::Stranded => {
                    let stranded = hosts.iter().filter(|host| host.stranded > 0);
                    u64::MAX - ((stranded.count() as u64) << 32) - mean(hosts)
                }
            };
            (*area == Area::Elsewhere, by, natural(&area.name()))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbers_in_names_ascend() {
        let mut names = ["r10", "r2b11", "r2b3", "a", "r", "12345678901", "9"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["9", "12345678901", "a", "r", "r2b3", "r2b11", "r10"]);
    }
}
