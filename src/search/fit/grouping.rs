//! Divides hosts by the traits or aggregates of the roots of their trees. A host can be in several groups.

use std::collections::HashMap;

use uuid::Uuid;

use super::count::Count;
use super::parameters::GroupBy;
use super::result::GroupFit;
use crate::model::TraitId;
use crate::search::funnel::is_host;
use crate::world::{Provider, World};

/// A trait, an aggregate, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum GroupKey {
    Trait(TraitId),
    Aggregate(Uuid),
    None,
}

/// The hosts of a group.
#[derive(Debug)]
struct Group {
    name: Option<String>,
    hosts: usize,
    /// Positions of its trees where the request may fit, including those with sharing providers only.
    members: Vec<usize>,
}

/// The groups.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

impl Groups {
    /// The groups of all counted hosts.
    pub(super) fn of(world: &World, by: &GroupBy, count: &Count<'_>) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut numbers: HashMap<GroupKey, usize> = HashMap::new();
        let chosen: HashMap<TraitId, bool> = match by {
            GroupBy::Aggregate => HashMap::new(),
            GroupBy::TraitPrefix(prefix) => {
                let traits = world.catalogue().traits.iter();
                traits.map(|(id, entry)| (*id, entry.name.starts_with(prefix))).collect()
            }
        };
        let is_host = is_host(world);
        let mut found = count.hosts().iter().enumerate().peekable();
        for root in world.trees().filter(|root| !count.is_lost(root.slot())) {
            let position = found.next_if(|(_, host)| host.root == root.slot());
            let is_host = position.map_or_else(|| is_host(&root), |(_, counted)| counted.is_host);
            if position.is_none() && !is_host {
                continue;
            }
            for key in keys(&root, by, &chosen) {
                let number = *numbers.entry(key).or_insert_with(|| {
                    groups.push(Group { name: key.name(world), hosts: 0, members: Vec::new() });
                    groups.len() - 1
                });
                if let Some(group) = groups.get_mut(number) {
                    group.hosts += usize::from(is_host);
                    group.members.extend(position.map(|(position, _)| position));
                }
            }
        }
        Self(groups)
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The count of each group; at most `most` groups, best first. Also returns whether the work stayed within its
    /// limit.
    pub(super) fn counted(
        self,
        count: &mut Count<'_>,
        most: usize,
        is_enough: &mut impl FnMut(usize) -> bool,
    ) -> (Vec<GroupFit>, bool) {
        let mut all = Vec::with_capacity(self.0.len());
        let mut are_complete = true;
        for Group { name, hosts, members } in self.0 {
            let (fits, is_complete) = count.total(Some(&members), is_enough);
            let fitting = members.iter().filter_map(|nth| count.hosts().get(*nth));
            let fitting = fitting.filter(|it| it.is_host && it.fits.at_least > 0).count();
            all.push(GroupFit { group: name, hosts, fitting, fits });
            are_complete &= is_complete && !is_enough(members.len() + 8);
            if !are_complete {
                break;
            }
        }
        all.sort_by(|one, other| {
            let key = |it: &GroupFit| (it.fits.at_least, it.fits.at_most);
            key(other).cmp(&key(one)).then_with(|| one.group.cmp(&other.group))
        });
        all.truncate(most);
        (all, are_complete)
    }
}

/// The groups of a host.
fn keys(root: &Provider<'_>, by: &GroupBy, chosen: &HashMap<TraitId, bool>) -> Vec<GroupKey> {
    let mut keys: Vec<GroupKey> = match by {
        GroupBy::Aggregate => root.aggregates().iter().copied().map(GroupKey::Aggregate).collect(),
        GroupBy::TraitPrefix(_) => {
            let traits = root.traits().iter().copied();
            traits.filter(|id| chosen.get(id) == Some(&true)).map(GroupKey::Trait).collect()
        }
    };
    if keys.is_empty() {
        keys.push(GroupKey::None);
    }
    keys
}

impl GroupKey {
    fn name(self, world: &World) -> Option<String> {
        match self {
            Self::Trait(id) => Some(world.name_of_trait(id).to_owned()),
            Self::Aggregate(uuid) => Some(uuid.to_string()),
            Self::None => None,
        }
    }
}
