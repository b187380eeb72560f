//! The whole cloud, looked at now and then: what of each class is used, and which providers change most.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use reqwest::StatusCode;
use serde::{Deserialize, Serialize};

use crate::cli::providers::{Inventory, Progress, failure, list, read};
use crate::placement_client::{Client, Microversion};
use crate::serve::Failure;

/// Where Berth tells of all providers at once.
const BULK: &str = "/-/v1/providers?include=inventories,usages";
/// What is asked of each provider of a service that does not.
const PARTS: [&str; 2] = ["inventories", "usages"];
/// Above so many providers, nothing is asked of each of them.
const ASKED_MAX: usize = 1000;
/// How many providers are named.
const HOTTEST: usize = 20;

/// The cloud at one moment.
#[derive(Clone, Debug)]
pub(super) struct Cloud {
    at: Instant,
    /// Name and generation by UUID.
    generations: HashMap<String, (String, i64)>,
    /// The fullest first; empty if there are too many providers to ask of each.
    pub(super) classes: Vec<Class>,
}

/// A resource class in the whole cloud.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) capacity: i64,
    pub(super) used: i64,
}

/// A provider that changes: with each write to it, its generation grows by one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Hot {
    pub(super) name: String,
    pub(super) changes_per_second: f64,
}

#[derive(Deserialize)]
struct Bulk {
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
struct Provider {
    uuid: String,
    name: String,
    generation: i64,
    inventories: BTreeMap<String, Inventory>,
    usages: BTreeMap<String, i64>,
}

impl Cloud {
    /// Looks at it: in one request if the service is Berth.
    ///
    /// # Errors
    /// The service cannot be asked.
    pub(super) async fn read(client: &Client, version: Microversion) -> Result<Self, Failure> {
        let answer = client.get(BULK, version).await.map_err(|error| failure(&error))?;
        if answer.status() != StatusCode::NOT_FOUND {
            let answer = answer.expect(StatusCode::OK).map_err(|error| failure(&error))?;
            let bulk: Bulk = answer.json_as().map_err(|error| failure(&error))?;
            return Ok(Self::of(bulk.providers));
        }
        let listed = list(client, version, "").await?;
        let parts: &[&str] = if listed.len() > ASKED_MAX { &[] } else { &PARTS };
        let providers = read(client, version, listed, parts, usize::MAX, Progress::Hidden).await?;
        Ok(Self::of(providers.into_iter().map(|it| Provider {
            uuid: it.uuid,
            name: it.name,
            generation: it.generation,
            inventories: it.inventories,
            usages: it.usages,
        })))
    }

    fn of(providers: impl IntoIterator<Item = Provider>) -> Self {
        let mut generations = HashMap::new();
        let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for provider in providers {
            for (class, inventory) in &provider.inventories {
                let (capacity, used) = sums.entry(class.clone()).or_default();
                *capacity = capacity.saturating_add(inventory.capacity());
                *used = used.saturating_add(provider.usages.get(class).map_or(0, |used| *used));
            }
            generations.insert(provider.uuid, (provider.name, provider.generation));
        }
        let class = |(name, (capacity, used))| Class { name, capacity, used };
        let mut classes: Vec<Class> = sums.into_iter().map(class).collect();
        classes.sort_by_key(|it| Reverse(it.used.saturating_mul(10_000) / it.capacity.max(1)));
        Self { at: Instant::now(), generations, classes }
    }

    /// The providers that have changed most since another look.
    pub(super) fn hottest(&self, before: &Self) -> Vec<Hot> {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let changes = self.generations.iter().filter_map(|(uuid, (name, now))| {
            let (_, then) = before.generations.get(uuid)?;
            u32::try_from(now - then).ok().filter(|it| *it > 0).map(|changes| (changes, name))
        });
        let mut changes: Vec<(u32, &String)> = changes.collect();
        changes.sort_unstable_by_key(|(changes, name)| (Reverse(*changes), *name));
        changes.truncate(HOTTEST);
        let hot = |(changes, name): (u32, &String)| Hot {
            name: name.clone(),
            changes_per_second: f64::from(changes) / seconds.max(0.001),
        };
        changes.into_iter().map(hot).collect()
    }
}
