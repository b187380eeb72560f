//! Small clouds by name, with requests in the syntax of the query string, so that examples read like the
//! specification.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use berth::model::provider::{InventoryRow, ProviderRow};
use berth::model::{ClassId, Inventory, ProviderId, TraitId};
use berth::search::{Group, Policy, Request, Unknown};
use berth::world::{Catalogue, Name, World};
use uuid::Uuid;

use crate::search::oracle::Candidate;
use crate::search::properties::search;

const CLASSES: [&str; 7] =
    ["VCPU", "MEMORY_MB", "DISK_GB", "VGPU", "SRIOV_NET_VF", "CUSTOM_VF", "NET_BW"];
const TRAITS: [&str; 6] =
    ["MISC_SHARES_VIA_AGGREGATE", "HW_X", "HW_Y", "HW_Z", "CUSTOM_SWITCH", "CUSTOM_NIC"];

/// The number of further classes `CUSTOM_C0` and traits `CUSTOM_T0`, and so on.
const FURTHER: i32 = 40;

/// The key of a class or trait: its position in a list, or behind it if it is a further one.
fn key(name: &str, list: &[&str], further: &str) -> i32 {
    let number = name.strip_prefix(further).and_then(|number| number.parse::<i32>().ok());
    let further = number.map(|number| list.len() as i32 + number);
    let listed = list.iter().position(|it| *it == name).map(|at| at as i32);
    further.or(listed).unwrap()
}

fn further<'l>(list: &'l [&str], further: &'l str) -> impl Iterator<Item = Name> + use<'l> {
    let listed = list.iter().map(|name| (*name).to_owned());
    let all = listed.chain((0..FURTHER).map(move |number| format!("{further}{number}")));
    all.map(|name| Name { name, updated_at: 0 })
}

/// Some providers.
pub(crate) struct Cloud {
    pub(crate) rows: Vec<ProviderRow>,
}

/// Returns the UUID of a name.
pub(crate) fn uuid(name: &str) -> Uuid {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    Uuid::from_u64_pair(1, hasher.finish())
}

pub(crate) fn inventory(class: &str, total: i32) -> InventoryRow {
    unused(ClassId(key(class, &CLASSES, "CUSTOM_C")), total)
}

/// An inventory of which nothing is used, and each amount may be taken.
pub(crate) fn unused(class: ClassId, total: i32) -> InventoryRow {
    InventoryRow {
        class,
        terms: Inventory {
            total,
            reserved: 0,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
            allocation_ratio: 1.0,
        },
        used: 0,
        updated_at: 0,
    }
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(' ').filter(|word| !word.is_empty())
}

impl Cloud {
    /// Providers, one a line: `name < parent; CLASS:total ...; TRAIT ...; aggregate ...`, the
    /// parent and what is empty at the end left out. Parents come first.
    pub(crate) fn new(lines: &str) -> Self {
        let mut rows: Vec<ProviderRow> = Vec::new();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut fields = line.split(';').map(str::trim);
            let mut names = fields.next().unwrap().split('<').map(str::trim);
            let name = names.next().unwrap().to_owned();
            let parent = names.next().map(|it| rows.iter().find(|row| row.name == it).unwrap());
            let id = ProviderId(rows.len() as i64 + 1);
            let inventories = words(fields.next().unwrap_or_default()).map(|word| {
                let (class, total) = word.split_once(':').unwrap();
                inventory(class, total.parse().unwrap())
            });
            let mut inventories: Vec<_> = inventories.collect();
            inventories.sort_by_key(|it| it.class);
            let traits = words(fields.next().unwrap_or_default())
                .map(|word| TraitId(key(word, &TRAITS, "CUSTOM_T")));
            let mut traits: Vec<_> = traits.collect();
            traits.sort();
            let mut aggregates: Vec<_> =
                words(fields.next().unwrap_or_default()).map(uuid).collect();
            aggregates.sort();
            let row = ProviderRow {
                id,
                uuid: uuid(&name),
                name,
                generation: 0,
                parent: parent.map(|parent| parent.id),
                root: parent.map_or(id, |parent| parent.root),
                updated_at: 0,
                inventories,
                traits,
                aggregates,
                spellings: Vec::new(),
            };
            rows.push(row);
        }
        Self { rows }
    }

    /// Changes one inventory.
    pub(crate) fn with(
        mut self,
        name: &str,
        class: &str,
        change: impl Fn(&mut InventoryRow),
    ) -> Self {
        let row = self.rows.iter_mut().find(|row| row.name == name).unwrap();
        let class = inventory(class, 0).class;
        change(row.inventories.iter_mut().find(|it| it.class == class).unwrap());
        self
    }

    pub(crate) fn catalogue() -> Catalogue {
        Catalogue {
            classes: (0..).map(ClassId).zip(further(&CLASSES, "CUSTOM_C")).collect(),
            traits: (0..).map(TraitId).zip(further(&TRAITS, "CUSTOM_T")).collect(),
        }
    }

    pub(crate) fn world(&self) -> Arc<World> {
        Arc::new(World::build(Self::catalogue(), self.rows.clone()))
    }

    fn name(&self, uuid: Uuid) -> String {
        self.rows.iter().find(|row| row.uuid == uuid).unwrap().name.clone()
    }

    /// The candidates and summaries, or the unknown name.
    pub(crate) fn ask(&self, query: &str) -> Result<(Vec<Candidate>, Vec<String>), Unknown> {
        let (found, summarised) = search(&self.world(), &request(query))?;
        let mut summarised: Vec<String> = summarised.into_iter().map(|it| self.name(it)).collect();
        summarised.sort();
        Ok((found, summarised))
    }

    /// Candidates as `provider:CLASS:amount ...`, each and all of them sorted.
    pub(crate) fn candidates(&self, query: &str) -> Vec<String> {
        let found = self.ask(query).unwrap().0;
        let mut found: Vec<String> = found.iter().map(|it| self.allocations(it)).collect();
        found.sort();
        found
    }

    /// Candidates as above, each followed by ` | suffix=provider ...`.
    pub(crate) fn mapped(&self, query: &str) -> Vec<String> {
        let found = self.ask(query).unwrap().0;
        let with_mappings = |it: &Candidate| {
            let mappings = it.mappings.iter().map(|(suffix, providers)| {
                let mut names: Vec<String> = providers.iter().map(|&it| self.name(it)).collect();
                names.sort();
                format!("{suffix}={}", names.join(","))
            });
            format!("{} | {}", self.allocations(it), mappings.collect::<Vec<_>>().join(" "))
        };
        let mut found: Vec<String> = found.iter().map(with_mappings).collect();
        found.sort();
        found
    }

    /// The providers summarised.
    pub(crate) fn summarised(&self, query: &str) -> Vec<String> {
        self.ask(query).unwrap().1
    }

    pub(crate) fn allocations(&self, candidate: &Candidate) -> String {
        let mut parts: Vec<String> = candidate
            .allocations
            .iter()
            .map(|(&(uuid, class), amount)| {
                format!("{}:{}:{amount}", self.name(uuid), CLASSES[class.0 as usize])
            })
            .collect();
        parts.sort();
        parts.join(" ")
    }
}

/// Parses a request in the syntax of the query string. Providers and aggregates go by their names; `old`
/// means a microversion before 1.29.
pub(crate) fn request(query: &str) -> Request {
    let mut request = Request { nested: true, ..Request::default() };
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let list = || value.split(',').map(str::to_owned);
        match key {
            "old" => request.nested = false,
            "limit" => request.limit = Some(value.parse().unwrap()),
            "group_policy" => {
                request.policy = if value == "isolate" { Policy::Isolate } else { Policy::None };
            }
            "same_subtree" => request.same_subtree.push(list().collect()),
            "root_required" => {
                for name in list() {
                    match name.strip_prefix('!') {
                        Some(name) => request.root_forbidden.push(name.to_owned()),
                        None => request.root_required.push(name),
                    }
                }
            }
            _ => in_group(&mut request, key, value),
        }
    }
    request
}

fn in_group(request: &mut Request, key: &str, value: &str) {
    let keys = ["resources", "required", "member_of", "in_tree"];
    let key = keys.into_iter().find_map(|start| Some((start, key.strip_prefix(start)?)));
    let (key, suffix) = key.unwrap();
    if !request.groups.iter().any(|group| group.suffix == suffix) {
        request.groups.push(Group { suffix: suffix.to_owned(), ..Group::default() });
    }
    let group = request.groups.iter_mut().find(|group| group.suffix == suffix).unwrap();
    let (negative, positive) = match value.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let any = positive.strip_prefix("in:");
    match key {
        "resources" => {
            for resource in value.split(',') {
                let (class, amount) = resource.split_once(':').unwrap();
                group.resources.push((class.to_owned(), amount.parse().unwrap()));
            }
        }
        "required" => match any {
            Some(any) => group.required.push(any.split(',').map(str::to_owned).collect()),
            None => {
                for name in value.split(',') {
                    match name.strip_prefix('!') {
                        Some(name) => group.forbidden.push(name.to_owned()),
                        None => group.required.push(vec![name.to_owned()]),
                    }
                }
            }
        },
        "member_of" => {
            let aggregates = any.unwrap_or(positive).split(',').map(uuid).collect();
            if negative {
                group.not_member_of.extend(aggregates);
            } else {
                group.member_of.push(aggregates);
            }
        }
        _ => group.in_tree = Some(uuid(value)),
    }
}
