//! Reads providers and their parts from a placement service.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::model;
use crate::moving::placement_client::{Client, Error, ListedProvider, Microversion};
use crate::server::failure::Failure;

/// First microversion that shows parents.
const PARENTS: Microversion = Microversion(14);

/// Path of Berth's bulk read of providers.
const BULK: &str = "/-/v1/providers";

/// Template of the progress bar.
const PROGRESS: &str = "{bar:40} {pos} of {len} requests, {eta} left";

/// Parts of a provider, by the last segment of their paths.
pub(super) const PARTS: [&str; 4] = ["inventories", "usages", "traits", "aggregates"];

/// A provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Provider {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) generation: i64,
    pub(super) parent_provider_uuid: Option<String>,
    pub(super) root_provider_uuid: Option<String>,
    #[serde(default)]
    pub(super) inventories: BTreeMap<String, Inventory>,
    #[serde(default)]
    pub(super) usages: BTreeMap<String, i64>,
    #[serde(default)]
    pub(super) traits: Vec<String>,
    #[serde(default)]
    pub(super) aggregates: Vec<String>,
}

/// Providers in a bulk response.
#[derive(Deserialize)]
struct BulkResponse {
    providers: Vec<Provider>,
}

/// The part of an inventory that concerns its usage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Inventory {
    pub(super) total: i32,
    pub(super) reserved: i32,
    pub(super) allocation_ratio: f64,
}

/// A response about a part of a provider: each has one of these.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PartResponse {
    inventories: BTreeMap<String, Inventory>,
    usages: BTreeMap<String, i64>,
    traits: Vec<String>,
    aggregates: Vec<String>,
}

/// The microversion for requests to a service.
///
/// # Errors
/// The service does not respond, or does not show trees.
pub(super) async fn version(client: &Client) -> Result<Microversion, Failure> {
    let highest = client.highest_microversion().await?;
    let version = highest.min(Microversion::MAX);
    if version < PARENTS {
        return Err(Failure(format!(
            "the service does not support trees: its API ends at {version}"
        )));
    }
    Ok(version)
}

/// The providers that match a query of `GET /resource_providers`, starting with `?`; all if it is empty.
///
/// # Errors
/// The service does not respond, or refuses the query.
pub(super) async fn list(
    client: &Client,
    version: Microversion,
    query: &str,
) -> Result<Vec<ListedProvider>, Failure> {
    Ok(client.providers(query, version).await?)
}

/// All providers with these parts, or those of one tree, in one request. `None` if the service is not Berth, or
/// refuses this to the caller while allowing the published API. Parents come before their children.
///
/// # Errors
/// The service does not respond.
pub(super) async fn bulk(
    client: &Client,
    version: Microversion,
    parts: &[&str],
    tree: Option<&str>,
) -> Result<Option<Vec<Provider>>, Failure> {
    let tree = tree.map_or_else(String::new, |uuid| format!("&tree={uuid}"));
    let path = format!("{BULK}?include={}{tree}", parts.join(","));
    let response = client.get(&path, version).await?;
    if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::FORBIDDEN) {
        return Ok(None);
    }
    let response = response.expect(StatusCode::OK)?;
    let BulkResponse { mut providers } = response.json_as()?;
    for provider in &mut providers {
        provider.traits.sort_unstable();
        provider.aggregates.sort_unstable();
    }
    Ok(Some(in_order(providers)))
}

/// Reads these parts of providers, with several requests for each provider. Providers that are deleted in the
/// meantime are left out. Parents come before their children.
///
/// # Errors
/// The service does not respond, or there are more than `limit`.
pub(super) async fn read(
    client: &Client,
    version: Microversion,
    listed: Vec<ListedProvider>,
    parts: &[&str],
    limit: usize,
) -> Result<Vec<Provider>, Failure> {
    if listed.len() > limit {
        return Err(too_many(listed.len()));
    }
    let mut providers: Vec<Provider> = listed.into_iter().map(Provider::from).collect();
    let questions: Vec<(usize, String)> = providers
        .iter()
        .enumerate()
        .flat_map(|(nth, it)| {
            let path = |part: &&str| (nth, format!("/resource_providers/{}/{part}", it.uuid));
            parts.iter().map(path).collect::<Vec<_>>()
        })
        .collect();
    // Hidden if standard error is not a terminal.
    let progress = ProgressBar::new(questions.len() as u64);
    if let Ok(style) = ProgressStyle::with_template(PROGRESS) {
        progress.set_style(style);
    }
    let requests = questions.into_iter().map(|(nth, path)| async move {
        let found = client.find(&path, version).await?;
        Ok::<_, Error>((nth, path, found))
    });
    let mut responses = stream::iter(requests).buffer_unordered(client.concurrency());
    let mut gone: HashSet<String> = HashSet::new();
    while let Some(response) = responses.next().await {
        let (nth, path, found) = response?;
        progress.inc(1);
        let Some(provider) = providers.get_mut(nth) else { continue };
        match found {
            None => drop(gone.insert(provider.uuid.clone())),
            Some(body) => provider.add(body).map_err(|why| Failure(format!("{path}: {why}")))?,
        }
    }
    drop(responses);
    progress.finish_and_clear();
    providers.retain(|it| !gone.contains(&it.uuid));
    Ok(in_order(providers))
}

/// The UUID of a provider by its UUID or name; `None` if there is no such provider.
///
/// # Errors
/// The service does not respond.
pub(super) async fn find(
    client: &Client,
    version: Microversion,
    provider: &str,
) -> Result<Option<String>, Failure> {
    if let Ok(uuid) = Uuid::parse_str(provider) {
        let path = format!("/resource_providers/{uuid}");
        if client.find(&path, version).await?.is_some() {
            return Ok(Some(uuid.to_string()));
        }
    }
    let name = utf8_percent_encode(provider, NON_ALPHANUMERIC);
    let found = list(client, version, &format!("?name={name}")).await?;
    Ok(found.into_iter().next().map(|it| it.uuid))
}

/// The error for more providers than the limit allows.
pub(super) fn too_many(count: usize) -> Failure {
    Failure(format!("there are {count} providers: name one of them, or raise --limit"))
}

impl From<ListedProvider> for Provider {
    fn from(listed: ListedProvider) -> Self {
        Self {
            uuid: listed.uuid,
            name: listed.name,
            generation: listed.generation,
            parent_provider_uuid: listed.parent_provider_uuid,
            root_provider_uuid: listed.root_provider_uuid,
            ..Self::default()
        }
    }
}

impl Provider {
    /// The root of its tree. Before Stein, a provider may have been left without one.
    pub(super) fn root(&self) -> &str {
        self.root_provider_uuid.as_ref().map_or(&self.uuid, |root| root)
    }

    /// Adds the response about a part.
    fn add(&mut self, body: Value) -> Result<(), serde_json::Error> {
        let PartResponse { inventories, usages, traits, aggregates } =
            serde_json::from_value(body)?;
        self.inventories.extend(inventories);
        self.usages.extend(usages);
        self.traits.extend(traits);
        self.aggregates.extend(aggregates);
        self.traits.sort_unstable();
        self.aggregates.sort_unstable();
        Ok(())
    }
}

/// Sorts parents before children, and siblings by name.
fn in_order(providers: Vec<Provider>) -> Vec<Provider> {
    let known: HashSet<String> = providers.iter().map(|it| it.uuid.clone()).collect();
    let mut children: HashMap<Option<String>, Vec<Provider>> = HashMap::new();
    for provider in providers {
        // The parent may have been deleted in the meantime.
        let parent = provider.parent_provider_uuid.clone().filter(|it| known.contains(it));
        children.entry(parent).or_default().push(provider);
    }
    for siblings in children.values_mut() {
        siblings.sort_by(|one, other| other.name.cmp(&one.name));
    }
    let mut ordered = Vec::new();
    let mut open = children.remove(&None).into_iter().flatten().collect::<Vec<_>>();
    while let Some(provider) = open.pop() {
        open.extend(children.remove(&Some(provider.uuid.clone())).into_iter().flatten());
        ordered.push(provider);
    }
    ordered
}

impl Inventory {
    /// The amount that can be allocated.
    pub(super) fn capacity(&self) -> i64 {
        let Self { total, reserved, allocation_ratio } = *self;
        let terms = model::Inventory {
            total,
            reserved,
            allocation_ratio,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
        };
        terms.capacity()
    }
}
