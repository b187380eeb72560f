//! The contents of a placement service: providers and allocations.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

/// Amounts by resource class.
pub type Resources = BTreeMap<String, u64>;

/// Amounts by provider.
pub type Allocations = BTreeMap<Uuid, Resources>;

/// A provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// The root of its tree.
    pub root: Uuid,
    /// Whether it shares its inventories with other trees through an aggregate.
    pub shares: bool,
}

/// The contents of a service, from its lists by provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The address of the service.
    pub url: String,
    /// The providers by UUID.
    pub providers: HashMap<Uuid, Provider>,
    /// The consumers by UUID.
    pub consumers: HashMap<Uuid, Consumer>,
    /// The UUIDs of roots by their names.
    roots: HashMap<String, Uuid>,
    /// The UUIDs of roots by the first part of their names, where it is unique.
    short_names: HashMap<String, Option<Uuid>>,
}

/// A consumer in the lists by provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// Its allocations.
    pub allocations: Allocations,
    /// Its generation.
    pub generation: Option<i64>,
}

/// A consumer as shown on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// Its allocations and owner.
    pub held: Held,
    /// Its generation; `None` without allocations.
    pub generation: Option<i64>,
    /// Its type, if it has one and the service shows it.
    pub kind: Option<String>,
    /// Time of its last change.
    pub modified: Option<OffsetDateTime>,
}

/// A consumer's allocations and owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Its allocations.
    pub allocations: Allocations,
    /// Its project; `None` without allocations.
    pub project_id: Option<String>,
    /// Its user; `None` without allocations.
    pub user_id: Option<String>,
}

impl Held {
    /// Returns whether both have the same allocations and owner. The owner is ignored without allocations.
    pub fn is_like(&self, other: &Self) -> bool {
        self.allocations.is_empty() && other.allocations.is_empty() || self == other
    }
}

impl Placement {
    /// Indexes the data read.
    pub fn new(url: String, providers: Vec<Provider>, consumers: HashMap<Uuid, Consumer>) -> Self {
        let mut roots = HashMap::new();
        let mut short_names: HashMap<String, Option<Uuid>> = HashMap::new();
        for provider in &providers {
            if provider.root != provider.uuid {
                continue;
            }
            roots.insert(provider.name.clone(), provider.uuid);
            if let Some((short, _)) = provider.name.split_once('.') {
                short_names
                    .entry(short.to_owned())
                    .and_modify(|found| *found = None)
                    .or_insert(Some(provider.uuid));
            }
        }
        let providers = providers.into_iter().map(|provider| (provider.uuid, provider)).collect();
        Self { url, providers, consumers, roots, short_names }
    }

    /// The root provider of a host, by the first of its names that matches one. A short name matches the provider
    /// whose name begins with it, if there is only one.
    pub fn root_named(&self, names: &[String]) -> Option<Uuid> {
        let exact = names.iter().find_map(|name| self.roots.get(name).copied());
        exact
            .or_else(|| names.iter().find_map(|name| self.short_names.get(name).copied().flatten()))
    }

    /// The root of a provider's tree.
    pub fn root_of(&self, provider: &Uuid) -> Option<Uuid> {
        self.providers.get(provider).map(|provider| provider.root)
    }

    /// The name of a provider, or else its UUID.
    pub fn name_of(&self, provider: &Uuid) -> String {
        let name = self.providers.get(provider).map(|provider| provider.name.clone());
        name.unwrap_or_else(|| provider.to_string())
    }

    /// Formats allocations by provider.
    pub fn words(&self, allocations: &Allocations) -> String {
        let each = allocations.iter().map(|(provider, resources)| {
            let amounts: Vec<String> =
                resources.iter().map(|(class, amount)| format!("{class}={amount}")).collect();
            format!("{} on {}", amounts.join(" "), self.name_of(provider))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// The roots, sorted by name.
    pub fn roots(&self) -> Vec<&Provider> {
        let mut roots: Vec<&Provider> =
            self.providers.values().filter(|it| it.root == it.uuid).collect();
        roots.sort_by(|one, other| (&one.name, one.uuid).cmp(&(&other.name, other.uuid)));
        roots
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use uuid::Uuid;

    use super::{Placement, Provider};

    #[test]
    fn a_host_is_found_by_its_name_or_by_the_only_name_that_begins_with_it() {
        let root = |nth: u128, name: &str| Provider {
            uuid: Uuid::from_u128(nth),
            name: name.to_owned(),
            root: Uuid::from_u128(nth),
            shares: false,
        };
        let providers = vec![
            root(1, "a.rack1.example"),
            root(2, "b.rack1.example"),
            root(3, "b.rack2.example"),
            root(4, "c"),
        ];
        let placement = Placement::new(String::new(), providers, HashMap::new());
        let found = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            placement.root_named(&names).map(|uuid| uuid.as_u128())
        };
        assert_eq!(found(&["a"]), Some(1));
        assert_eq!(found(&["b"]), None);
        assert_eq!(found(&["b.rack2.example", "b"]), Some(3));
        assert_eq!(found(&["c"]), Some(4));
        assert_eq!(found(&["other", "c"]), Some(4));
    }
}
