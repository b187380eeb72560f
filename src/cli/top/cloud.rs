//! Snapshots of the whole cloud: the usage of each class, and the providers that change most.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use serde::Serialize;

use crate::cli::providers::{Progress, Provider, bulk, list, read};
use crate::moving::placement_client::{Client, Microversion};
use crate::server::failure::Failure;

/// Parts that are read of each provider.
const PARTS: [&str; 2] = ["inventories", "usages"];
/// Maximum number of providers that are read one by one, if the service has no bulk read.
const ASKED_MAX: usize = 1000;
/// Maximum number of changing providers in the output.
const HOTTEST: usize = 20;

/// The cloud at one moment.
#[derive(Clone, Debug)]
pub(super) struct Cloud {
    at: Instant,
    /// Name and generation by UUID.
    generations: HashMap<String, (String, i64)>,
    /// The fullest first; empty if there are too many providers to read.
    pub(super) classes: Vec<Class>,
}

/// A resource class in the whole cloud.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) capacity: i64,
    pub(super) used: i64,
}

/// A provider that changes: each write increments its generation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Hot {
    pub(super) name: String,
    pub(super) changes_per_second: f64,
}

impl Cloud {
    /// Reads the cloud, in one request if the service is Berth.
    ///
    /// # Errors
    /// The service does not respond.
    pub(super) async fn read(client: &Client, version: Microversion) -> Result<Self, Failure> {
        if let Some(providers) = bulk(client, version, &PARTS, None).await? {
            return Ok(Self::of(providers));
        }
        let listed = list(client, version, "").await?;
        let parts: &[&str] = if listed.len() > ASKED_MAX { &[] } else { &PARTS };
        let providers = read(client, version, listed, parts, usize::MAX, Progress::Hidden).await?;
        Ok(Self::of(providers))
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

    /// The providers that have changed most since another snapshot.
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
