//! The locations of hosts: their racks, clusters and availability zones, from the traits of their roots, or
//! optionally from their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{ClassId, Level, ProviderId, TraitId, traits};
use crate::world::{Provider, World};

/// Letters for kinds of nodes in the names of hosts.
const NODE_LETTERS: &str = "acufops";
/// Number of characters of a region's name at the start of a host's name.
const REGION_LEN: usize = 3;

/// The location of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLocation {
    /// Its rack, if exactly one is known.
    pub rack: Option<Arc<str>>,
    /// Its cluster, if exactly one is known.
    pub cluster: Option<Arc<str>>,
    /// Its availability zones, in the form of traits.
    pub zones: Vec<Arc<str>>,
}

impl HostLocation {
    /// The name of its unit at a level; `host` is its own name.
    pub fn unit<'s>(&'s self, level: Level, host: &'s str) -> Option<&'s str> {
        match level {
            Level::Host => Some(host),
            Level::Rack => self.rack.as_deref(),
            Level::Cluster => self.cluster.as_deref(),
        }
    }

    /// Returns whether it is in an availability zone, by its name [in the form of traits](zone_name).
    pub fn is_in_zone(&self, zone: &str) -> bool {
        self.zones.iter().any(|it| **it == *zone)
    }
}

/// The location given by a trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Area {
    Rack,
    Cluster,
    Zone,
}

const PREFIXES: [(&str, Area); 3] = [
    (traits::RACK_PREFIX, Area::Rack),
    (traits::CLUSTER_PREFIX, Area::Cluster),
    (traits::ZONE_PREFIX, Area::Zone),
];

/// The locations of hosts, from the traits of a world.
#[derive(Clone, Debug)]
pub struct Topology {
    traits: BTreeMap<TraitId, (Area, Arc<str>)>,
    shares: Option<TraitId>,
    by_names: bool,
}

impl Topology {
    /// Derives the topology of a world. With `by_names`, racks are derived from the names of hosts without a trait
    /// for it.
    pub fn of(world: &World, by_names: bool) -> Self {
        let area = |name: &str| {
            PREFIXES.into_iter().find_map(|(prefix, kind)| {
                let rest = name.strip_prefix(prefix).filter(|rest| !rest.is_empty())?;
                Some((kind, Arc::from(rest.to_lowercase())))
            })
        };
        let traits = &world.catalogue().traits;
        let traits = traits.iter().filter_map(|(id, entry)| Some((*id, area(&entry.name)?)));
        Self { traits: traits.collect(), shares: world.trait_id(traits::SHARING), by_names }
    }

    /// The location of a host, by the root of its tree.
    pub fn location(&self, root: &Provider<'_>) -> HostLocation {
        let mut location = HostLocation::default();
        let (mut racks, mut clusters) = (Names::None, Names::None);
        for (kind, name) in root.traits().iter().filter_map(|id| self.traits.get(id)) {
            match kind {
                Area::Rack => racks = racks.and(name),
                Area::Cluster => clusters = clusters.and(name),
                Area::Zone => location.zones.push(Arc::clone(name)),
            }
        }
        location.rack = match racks {
            Names::None if self.by_names => rack_by_name(root.name()).map(Arc::from),
            Names::None | Names::One(_) | Names::Several => racks.only(),
        };
        location.cluster = clusters.only();
        location
    }

    /// The name of the unit of a host at a level, by the root of its tree.
    pub fn unit(&self, root: &Provider<'_>, level: Level) -> Option<String> {
        if level == Level::Host {
            return Some(root.name().to_owned());
        }
        self.location(root).unit(level, root.name()).map(str::to_owned)
    }

    /// The host of allocations from these providers: the root of their tree, ignoring sharing providers.
    pub fn host<'w>(
        &self,
        providers: impl Iterator<Item = Provider<'w>> + Clone,
    ) -> Option<Provider<'w>> {
        let own = providers.clone().find(|it| !self.is_shared(it));
        if let Some(own) = own {
            return Some(own.root());
        }
        // A host may share its resources, and use them itself.
        let mut roots = providers.map(|it| it.root());
        let first = roots.next()?;
        roots.all(|root| root == first).then_some(first)
    }

    /// Returns whether a provider shares its resources.
    pub fn is_shared(&self, provider: &Provider<'_>) -> bool {
        self.shares.is_some_and(|id| provider.traits().contains(&id))
    }

    /// The host of some allocations.
    pub fn host_of<'w>(
        &self,
        world: &'w World,
        holds: &[(ProviderId, ClassId, i64)],
    ) -> Option<Provider<'w>> {
        self.host(holds.iter().filter_map(|(id, ..)| world.provider_by_id(*id)))
    }

    /// The roots of all trees, by their unit at a level.
    pub fn units<'w>(&self, world: &'w World, level: Level) -> BTreeMap<String, Vec<Provider<'w>>> {
        let mut units: BTreeMap<String, Vec<Provider<'w>>> = BTreeMap::new();
        for root in world.trees() {
            if let Some(unit) = self.unit(&root, level) {
                units.entry(unit).or_default().push(root);
            }
        }
        units
    }
}

/// A host of the problem.
#[derive(Clone, Debug)]
pub(super) struct HostEntry {
    pub(super) root: ProviderId,
    /// The slot of the root in the world.
    pub(super) slot: u32,
    pub(super) name: Arc<str>,
    pub(super) location: HostLocation,
}

impl HostEntry {
    /// Its root. `None` if the slot belongs to another world.
    pub(super) fn root<'w>(&self, world: &'w World) -> Option<Provider<'w>> {
        world.at(self.slot).filter(|root| root.id() == self.root)
    }
}

/// Returns whether a host has allocations.
pub(super) fn is_in_use(root: &Provider<'_>) -> bool {
    root.tree().any(|provider| provider.inventories().any(|row| row.used > 0))
}

/// The name of an availability zone in its trait, in lower case.
pub fn zone_name(zone: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    zone.chars().map(letter).collect()
}

/// The names of the racks, or of the clusters, of a host.
#[derive(Clone, Copy)]
enum Names<'t> {
    None,
    One(&'t Arc<str>),
    Several,
}

impl<'t> Names<'t> {
    fn and(self, name: &'t Arc<str>) -> Self {
        match self {
            Self::None => Self::One(name),
            Self::One(_) | Self::Several => Self::Several,
        }
    }

    /// The name, if there is exactly one.
    fn only(self) -> Option<Arc<str>> {
        match self {
            Self::One(name) => Some(Arc::clone(name)),
            Self::None | Self::Several => None,
        }
    }
}

/// The rack in a name such as `pdk15r05c001`: a region of letters with a number, `r` with a number,
/// and a letter with a number for the node.
fn rack_by_name(host: &str) -> Option<String> {
    let host = host.to_lowercase();
    let region: String = host.chars().take(REGION_LEN).collect();
    let rest = host.strip_prefix(region.as_str()).filter(|_| region.len() == REGION_LEN)?;
    let rest = digits(rest)?.strip_prefix('r')?;
    let rest = digits(rest)?;
    let rack = host.strip_suffix(rest)?;
    let mut node = rest.chars();
    let letter = node.next().filter(|letter| NODE_LETTERS.contains(*letter));
    letter.and(digits(node.as_str()))?;
    Some(rack.to_owned())
}

/// The rest of a text after its leading digits, of which there must be at least one.
fn digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::{rack_by_name, zone_name};

    #[test]
    fn racks_are_read_from_names_that_follow_the_pattern() {
        for (host, rack) in [
            ("pdk15r05c001", Some("pdk15r05")),
            ("PDK15R05C001", Some("pdk15r05")),
            ("abc1r2o3", Some("abc1r2")),
            ("abc1r2o3.example.org", Some("abc1r2")),
            ("qos101", None),
            ("pdk15r05x001", None),
            ("pdk15r05", None),
            ("pdk15r05c", None),
            ("pdkr05c001", None),
            ("", None),
            ("é1r2c3", None),
        ] {
            assert_eq!(rack_by_name(host).as_deref(), rack, "{host}");
        }
    }

    #[test]
    fn zones_are_compared_as_traits_can_name_them() {
        assert_eq!(zone_name("Nova-East.1"), "nova_east_1");
    }
}
