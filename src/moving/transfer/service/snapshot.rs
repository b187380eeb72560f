//! Contents of a placement service, as rows of OpenStack Placement's tables.
//!
//! Keys are assigned in the order of the service's lists. Values that the API does not show are null: all times but
//! `Last-Modified`, and unreferenced names.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::moving::placement_client::ListedProvider;

/// A row: the columns of a table as text.
pub(in crate::moving::transfer) type Row = Vec<Option<String>>;
/// Rows, created lazily: there may be millions.
pub(in crate::moving::transfer) type Rows<'s> = Box<dyn Iterator<Item = Row> + Send + 's>;
/// Amounts by resource class.
pub(in crate::moving::transfer) type Amounts = BTreeMap<String, i64>;

/// The contents of a service.
#[derive(Debug, Default)]
pub(in crate::moving::transfer) struct Snapshot {
    pub(super) classes: Vec<String>,
    pub(super) traits: Vec<String>,
    /// In the order of the list.
    pub(super) providers: Vec<ListedProvider>,
    /// By UUID.
    pub(super) parts: HashMap<String, ProviderParts>,
    /// By UUID.
    pub(super) consumers: BTreeMap<String, Consumer>,
}

/// The parts of a provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::moving::transfer) struct ProviderParts {
    /// The generation at which all of it was read; `None` if it changed meanwhile.
    pub(in crate::moving::transfer) generation: Option<i64>,
    /// Modification time of the provider, in seconds since 1970.
    pub(in crate::moving::transfer) changed: Option<i64>,
    pub(in crate::moving::transfer) inventories: Vec<Inventory>,
    /// Modification time of the inventories.
    pub(in crate::moving::transfer) inventories_changed: Option<i64>,
    pub(in crate::moving::transfer) traits: Vec<String>,
    pub(in crate::moving::transfer) aggregates: Vec<String>,
    pub(in crate::moving::transfer) usages: Amounts,
    /// Consumers with allocations on the provider.
    pub(in crate::moving::transfer) consumers: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::moving::transfer) struct Inventory {
    pub(in crate::moving::transfer) class: String,
    /// `total`, `reserved`, `min_unit`, `max_unit` and `step_size`.
    pub(in crate::moving::transfer) units: [i64; 5],
    /// As the service formats it.
    pub(in crate::moving::transfer) allocation_ratio: String,
}

/// A consumer with its allocations and owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::moving::transfer) struct Consumer {
    pub(in crate::moving::transfer) project: String,
    pub(in crate::moving::transfer) user: String,
    /// The type, if the service shows one.
    pub(in crate::moving::transfer) kind: Option<String>,
    /// 0 if the service does not show it.
    pub(in crate::moving::transfer) generation: i64,
    /// Modification time of its allocations.
    pub(in crate::moving::transfer) changed: Option<i64>,
    /// By provider.
    pub(in crate::moving::transfer) holds: BTreeMap<String, Amounts>,
}

impl Snapshot {
    /// Allocated amounts of each provider.
    pub(super) fn held(&self) -> HashMap<&str, Amounts> {
        let mut held: HashMap<&str, Amounts> = HashMap::new();
        for (provider, amounts) in self.consumers.values().flat_map(|it| &it.holds) {
            let sums = held.entry(provider).or_default();
            for (class, used) in amounts {
                *sums.entry(class.clone()).or_insert(0) += used;
            }
        }
        held
    }

    /// The rows of a table.
    pub(in crate::moving::transfer) fn rows(&self, table: &str) -> Rows<'_> {
        match table {
            "resource_classes" => named(&self.classes, true),
            "traits" => named(&self.traits, true),
            "projects" => named(self.projects(), false),
            "users" => named(self.users(), false),
            "consumer_types" => named(self.kinds(), false),
            "placement_aggregates" => named(self.aggregates(), false),
            "resource_providers" => self.providers(),
            "resource_provider_traits" => self.members(|parts| &parts.traits, keys(&self.traits)),
            "resource_provider_aggregates" => {
                self.members(|parts| &parts.aggregates, keys(self.aggregates()))
            }
            "inventories" => self.inventories(),
            "consumers" => self.consumers(),
            "allocations" => self.allocations(),
            _ => Box::new(std::iter::empty()),
        }
    }

    fn projects(&self) -> BTreeSet<&String> {
        self.consumers.values().map(|it| &it.project).collect()
    }

    fn users(&self) -> BTreeSet<&String> {
        self.consumers.values().map(|it| &it.user).collect()
    }

    fn kinds(&self) -> BTreeSet<&String> {
        self.consumers.values().filter_map(|it| it.kind.as_ref()).collect()
    }

    fn aggregates(&self) -> BTreeSet<&String> {
        self.parts.values().flat_map(|parts| &parts.aggregates).collect()
    }

    fn provider_keys(&self) -> HashMap<&str, u64> {
        (1..).zip(&self.providers).map(|(key, it)| (it.uuid.as_str(), key)).collect()
    }

    fn providers(&self) -> Rows<'_> {
        let keys = self.provider_keys();
        let row = move |(key, it): (u64, &ListedProvider)| {
            let key_of =
                |uuid: &Option<String>| uuid.as_ref().and_then(|uuid| keys.get(uuid.as_str()));
            let changed = self.parts.get(&it.uuid).and_then(|parts| parts.changed);
            vec![
                text(key),
                Some(it.uuid.clone()),
                Some(it.name.clone()),
                text(it.generation),
                key_of(&it.root_provider_uuid).and_then(text),
                key_of(&it.parent_provider_uuid).and_then(text),
                changed.and_then(text),
            ]
        };
        Box::new((1..).zip(&self.providers).map(row))
    }

    /// Providers that were read, with their keys.
    fn having(&self) -> impl Iterator<Item = (u64, &ProviderParts)> {
        let listed = (1_u64..).zip(&self.providers);
        listed.filter_map(|(key, it)| self.parts.get(&it.uuid).map(|parts| (key, parts)))
    }

    /// Pairs of a provider's key and the key of each of its members.
    fn members<'s>(
        &'s self,
        of: impl Fn(&'s ProviderParts) -> &'s Vec<String> + Send + 's,
        keys: HashMap<&'s str, u64>,
    ) -> Rows<'s> {
        let named = self
            .having()
            .flat_map(move |(provider, parts)| of(parts).iter().map(move |name| (provider, name)));
        Box::new(named.map(move |(provider, name)| {
            vec![text(provider), keys.get(name.as_str()).and_then(text)]
        }))
    }

    fn inventories(&self) -> Rows<'_> {
        let classes = keys(&self.classes);
        let each = self.having().flat_map(|(provider, parts)| {
            parts.inventories.iter().map(move |it| (provider, parts.inventories_changed, it))
        });
        let row = move |(key, (provider, changed, it)): (u64, (u64, Option<i64>, &Inventory))| {
            let mut row =
                vec![text(key), text(provider), classes.get(it.class.as_str()).and_then(text)];
            row.extend(it.units.map(text));
            row.push(Some(it.allocation_ratio.clone()));
            row.push(changed.and_then(text));
            row
        };
        Box::new((1..).zip(each).map(row))
    }

    fn consumers(&self) -> Rows<'_> {
        let (projects, users) = (keys(self.projects()), keys(self.users()));
        let kinds = keys(self.kinds());
        let row = move |(key, (uuid, it)): (u64, (&String, &Consumer))| {
            vec![
                text(key),
                Some(uuid.clone()),
                projects.get(it.project.as_str()).and_then(text),
                users.get(it.user.as_str()).and_then(text),
                text(it.generation),
                it.kind.as_ref().and_then(|kind| kinds.get(kind.as_str())).and_then(text),
            ]
        };
        Box::new((1..).zip(&self.consumers).map(row))
    }

    fn allocations(&self) -> Rows<'_> {
        let (providers, classes) = (self.provider_keys(), keys(&self.classes));
        let each = self.consumers.iter().flat_map(|(uuid, consumer)| {
            let held = consumer.holds.iter().flat_map(|(provider, amounts)| {
                amounts.iter().map(move |(class, used)| (provider, class, used))
            });
            held.map(move |held| (uuid, consumer.changed, held))
        });
        Box::new((1_u64..).zip(each).map(move |(key, (uuid, changed, (provider, class, used)))| {
            vec![
                text(key),
                providers.get(provider.as_str()).and_then(text),
                Some(uuid.clone()),
                classes.get(class.as_str()).and_then(text),
                text(used),
                changed.and_then(text),
            ]
        }))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a column may be null")]
#[expect(clippy::needless_pass_by_value, reason = "numbers, and references to numbers")]
fn text(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

/// Keys of names, in their order.
fn keys<'n>(names: impl IntoIterator<Item = &'n String>) -> HashMap<&'n str, u64> {
    (1..).zip(names).map(|(key, name)| (name.as_str(), key)).collect()
}

/// Rows of keys and names, and a null modification time if the table has that column.
fn named<'n, N>(names: N, has_times: bool) -> Rows<'n>
where
    N: IntoIterator<Item = &'n String>,
    N::IntoIter: Send + 'n,
{
    Box::new((1_u64..).zip(names).map(move |(key, name)| {
        let mut row = vec![text(key), Some(name.clone())];
        row.extend(has_times.then_some(None));
        row
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::super::super::tables::TABLES;
    use super::{Consumer, Inventory, ListedProvider, ProviderParts, Snapshot};

    fn snapshot() -> Snapshot {
        let listed = |uuid: &str, parent: Option<&str>| ListedProvider {
            uuid: uuid.to_owned(),
            name: format!("name of {uuid}"),
            generation: 7,
            parent_provider_uuid: parent.map(str::to_owned),
            root_provider_uuid: Some("p1".to_owned()),
        };
        let amounts = |used: i64| BTreeMap::from([("CUSTOM_A".to_owned(), used)]);
        let inventory = Inventory {
            class: "CUSTOM_A".to_owned(),
            units: [10, 1, 1, 10, 1],
            allocation_ratio: "16.0".to_owned(),
        };
        let parts = ProviderParts {
            changed: Some(99),
            inventories: vec![inventory],
            traits: vec!["T2".to_owned()],
            aggregates: vec!["b".to_owned(), "a".to_owned()],
            ..ProviderParts::default()
        };
        let consumer = |kind: Option<&str>, used| Consumer {
            project: "p".to_owned(),
            user: "u".to_owned(),
            kind: kind.map(str::to_owned),
            generation: 3,
            changed: Some(98),
            holds: BTreeMap::from([("p2".to_owned(), amounts(used))]),
        };
        Snapshot {
            classes: vec!["VCPU".to_owned(), "CUSTOM_A".to_owned()],
            traits: vec!["T1".to_owned(), "T2".to_owned()],
            providers: vec![listed("p1", None), listed("p2", Some("p1"))],
            parts: HashMap::from([("p2".to_owned(), parts)]),
            consumers: BTreeMap::from([
                ("c1".to_owned(), consumer(None, 2)),
                ("c2".to_owned(), consumer(Some("INSTANCE"), 3)),
            ]),
        }
    }

    #[test]
    fn rows_have_the_columns_of_their_tables_and_keys_that_fit() {
        let snapshot = snapshot();
        for table in &TABLES {
            for row in snapshot.rows(table.name) {
                assert_eq!(row.len(), table.columns.len(), "{}", table.name);
            }
        }
        let rows = |table: &str| -> Vec<String> {
            let word = |it: Option<String>| it.unwrap_or_else(|| "null".to_owned());
            let line = |row: Vec<Option<String>>| row.into_iter().map(word).collect::<Vec<_>>();
            snapshot.rows(table).map(|row| line(row).join(" ")).collect()
        };
        assert_eq!(rows("resource_classes"), ["1 VCPU null", "2 CUSTOM_A null"]);
        assert_eq!(
            rows("resource_providers"),
            ["1 p1 name of p1 7 1 null null", "2 p2 name of p2 7 1 1 99"]
        );
        assert_eq!(rows("resource_provider_traits"), ["2 2"]);
        assert_eq!(rows("placement_aggregates"), ["1 a", "2 b"]);
        assert_eq!(rows("resource_provider_aggregates"), ["2 2", "2 1"]);
        assert_eq!(rows("inventories"), ["1 2 2 10 1 1 10 1 16.0 null"]);
        assert_eq!(rows("consumers"), ["1 c1 1 1 3 null", "2 c2 1 1 3 1"]);
        assert_eq!(rows("allocations"), ["1 2 c1 2 2 98", "2 2 c2 2 3 98"]);
        assert_eq!(snapshot.held()["p2"], BTreeMap::from([("CUSTOM_A".to_owned(), 5)]));
    }
}
