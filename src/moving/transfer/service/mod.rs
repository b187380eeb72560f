//! Reads the contents of a placement service over its API, while it may continue to change.
//!
//! Everything is read once. Then the list of providers and the usages of each are read again: a provider whose
//! generation or usages differ has changed, and is read again with its consumers. Claims raise the generations of the
//! providers, and releases change their usages. Once nothing has changed, the rows equal the state of the service at
//! one time.

pub(super) mod snapshot;
mod view;

use std::collections::{BTreeSet, HashMap};

use futures_util::{StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;

use self::snapshot::Amounts;
pub(super) use self::snapshot::{Consumer, ProviderParts, Snapshot};
use super::error::Error;
use super::report::Finding;
use super::responses::{ResponseKey, ResponseStore, StoredResponses};
use crate::moving::placement_client::{
    self, Client, ListedProvider, Microversion, ServiceResponse,
};
use crate::moving::progress::Progress;

/// First microversion that shows a provider's place in its tree.
const OLDEST: Microversion = Microversion(14);
/// First microversion that shows modification times.
const TIMES: Microversion = Microversion(15);
/// First microversion that shows generations of consumers.
const CONSUMER_GENERATIONS: Microversion = Microversion(28);
/// First microversion that shows consumer types.
const CONSUMER_TYPES: Microversion = Microversion(38);
/// Last microversion at which a project's usages are not grouped by consumer type.
const USAGES_IN_ONE: Microversion = Microversion(37);
/// Maximum number of rounds that read changes.
const ROUNDS: usize = 6;
/// Characters that need no encoding in a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The contents of a service, with notes for the report.
#[derive(Debug)]
pub(super) struct ServiceContents {
    pub(super) snapshot: Snapshot,
    pub(super) url: String,
    pub(super) version: Microversion,
    pub(super) notes: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

/// A service that can be read.
#[derive(Debug)]
pub(super) struct Service<'c> {
    client: &'c Client,
    pub(super) url: String,
    pub(super) version: Microversion,
}

impl<'c> Service<'c> {
    /// Requests the microversions of the service.
    ///
    /// # Errors
    /// The service does not respond, or is too old.
    pub(super) async fn open(client: &'c Client) -> Result<Self, Error> {
        let version = client.highest_microversion().await?.min(Microversion::MAX);
        let url = client.url().await?.to_string();
        if version < OLDEST {
            return Err(Error::Refused(format!(
                "{url}: the highest microversion is {version}, and {OLDEST} is needed to read trees of providers"
            )));
        }
        Ok(Self { client, url, version })
    }
}

/// Reads everything that was not read before, and what has changed since. Keeps the responses if `keep` is set.
///
/// # Errors
/// The service cannot be read, or changes too fast; or the kept responses cannot be read or written.
pub(super) async fn read(
    service: Service<'_>,
    mut kept: Option<ResponseStore<'_>>,
    progress: &Progress,
) -> Result<ServiceContents, Error> {
    let Service { client, url, version } = service;
    let known = match &mut kept {
        Some(kept) => kept.known().await?,
        None => StoredResponses::default(),
    };
    let mut notes = limitations(version);
    if known.count > 0 {
        notes.push(format!("{} responses had been read before", known.count));
    }
    let snapshot =
        Snapshot { parts: known.parts, consumers: known.consumers, ..Snapshot::default() };
    let mut reading = Reading { client, version, kept, snapshot };
    let unexplained = reading.until_nothing_changes(known.unread, progress).await?;
    let names = |list: &'static str, path: &'static str| {
        let client = client.clone();
        async move { view::names(&client.read(path, version).await?, list).map_err(wrong(path)) }
    };
    reading.snapshot.classes = names("resource_classes", "/resource_classes").await?;
    reading.snapshot.traits = names("traits", "/traits").await?;
    let mut findings = unexplained_usages("provider", unexplained.providers);
    findings.extend(unexplained_usages("project", unexplained.projects));
    Ok(ServiceContents { snapshot: reading.snapshot, url, version, notes, findings })
}

/// Findings about usages of providers or projects that exceed the allocations of the visible consumers.
fn unexplained_usages(what: &'static str, usages: HashMap<String, Amounts>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (of, mut more) in usages {
        // Less is used than allocated if a provider lacks an inventory, which is a separate finding.
        more.retain(|_, used| *used > 0);
        if !more.is_empty() {
            findings.push(Finding {
                kind: "usages that no consumer explains".to_owned(),
                row: format!("{what} {of}: {}", words(&more)),
                done: "left out: the service shows no consumer that holds it".to_owned(),
                about: Some(serde_json::json!({ what: of, "left_out": more })),
            });
        }
    }
    findings.sort_by(|one, other| one.row.cmp(&other.row));
    findings
}

/// Notes about data that the API does not show.
fn limitations(version: Microversion) -> Vec<String> {
    let mut limitations = vec![
        "when things were created, and the time of each single change: the latest change of a provider, of its \
         inventories and of a consumer's allocations stands for all of them",
        "consumers that hold nothing, and aggregates without members",
        "the keys of rows: lists have the order of the service's list of providers",
    ];
    if version < TIMES {
        limitations
            .push("when anything was changed (since 1.15): the time of the import is used instead");
    }
    if version < CONSUMER_GENERATIONS {
        limitations.push("the generations of consumers (since 1.28): they are 0");
    }
    if version < CONSUMER_TYPES {
        limitations.push("the types of consumers (since 1.38): they have none");
    }
    limitations.into_iter().map(|it| format!("the API at {version} does not show {it}")).collect()
}

fn words(amounts: &Amounts) -> String {
    let each: Vec<String> =
        amounts.iter().map(|(class, used)| format!("{used} of {class}")).collect();
    each.join(", ")
}

/// Usages in excess of the allocations of all visible consumers.
#[derive(Debug)]
struct UnexplainedUsages {
    /// By provider.
    providers: HashMap<String, Amounts>,
    /// By project.
    projects: HashMap<String, Amounts>,
}

struct Reading<'c> {
    client: &'c Client,
    version: Microversion,
    kept: Option<ResponseStore<'c>>,
    snapshot: Snapshot,
}

impl Reading<'_> {
    /// Reads until the service has not changed, starting with these consumers and everything unknown. Returns the
    /// usages that no consumer explains.
    async fn until_nothing_changes(
        &mut self,
        mut unread: BTreeSet<String>,
        progress: &Progress,
    ) -> Result<UnexplainedUsages, Error> {
        let mut before: Option<HashMap<String, Amounts>> = None;
        let mut projects: Option<HashMap<String, Amounts>> = None;
        for _ in 0..ROUNDS {
            let listed = self.client.providers("", self.version).await?;
            let unexplained = self.unexplained();
            let mut stale = self.changed(&listed).await?;
            if let Some(before) = &before {
                // A difference that persists over two rounds is not a change, but a hidden consumer.
                stale.extend(
                    unexplained
                        .iter()
                        .filter(|(uuid, more)| before.get(*uuid) != Some(more))
                        .map(|(uuid, _)| uuid.clone()),
                );
            }
            self.snapshot.providers = listed;
            let mut gone = self.forget_gone();
            gone.append(&mut unread);
            if before.is_some() && stale.is_empty() && gone.is_empty() {
                let is_known = projects.is_some();
                let of_projects = match projects {
                    Some(of_projects) => of_projects,
                    None => self.unexplained_of_projects().await?,
                };
                // They are from the same time as the rest if nothing changes in another round.
                if is_known || of_projects.is_empty() {
                    return Ok(UnexplainedUsages { providers: unexplained, projects: of_projects });
                }
                (before, projects) = (Some(unexplained), Some(of_projects));
                continue;
            }
            (before, projects) = (Some(unexplained), None);
            self.read_again(&stale, gone, progress).await?;
        }
        Err(Error::Changing(format!(
            "the service changes faster than it can be read: after {ROUNDS} rounds, providers still change. Stop \
             what writes to it, or import from its database, which can be read at one time"
        )))
    }

    /// The providers to read (again): those that are new, or whose generation or usages have changed.
    async fn changed(&self, listed: &[ListedProvider]) -> Result<BTreeSet<String>, Error> {
        let is_stale = |it: &ListedProvider| {
            let parts = self.snapshot.parts.get(&it.uuid);
            parts.is_none_or(|parts| parts.generation != Some(it.generation))
        };
        let (stale, same): (Vec<&ListedProvider>, Vec<&ListedProvider>) =
            listed.iter().partition(|it| is_stale(it));
        let mut stale: BTreeSet<String> = stale.into_iter().map(|it| it.uuid.clone()).collect();
        let usages = same.into_iter().map(|it| async move {
            let path = provider_path(&it.uuid, "/usages");
            let response = self.client.find(&path, self.version).await?;
            let usages =
                response.map(|body| view::usages(&body).map_err(wrong(&path))).transpose()?;
            Ok::<_, Error>((it.uuid.clone(), usages))
        });
        let mut usages = stream::iter(usages).buffer_unordered(self.client.concurrency());
        while let Some((uuid, usages)) = usages.try_next().await? {
            let known = self.snapshot.parts.get(&uuid).map(|parts| &parts.usages);
            if usages.as_ref() != known {
                stale.insert(uuid);
            }
        }
        Ok(stale)
    }

    /// Removes providers that are no longer listed. Returns their consumers.
    fn forget_gone(&mut self) -> BTreeSet<String> {
        let listed: BTreeSet<&str> =
            self.snapshot.providers.iter().map(|it| it.uuid.as_str()).collect();
        let gone: Vec<String> = self
            .snapshot
            .parts
            .keys()
            .filter(|uuid| !listed.contains(uuid.as_str()))
            .cloned()
            .collect();
        let parts = gone.iter().filter_map(|uuid| self.snapshot.parts.remove(uuid));
        parts.flat_map(|parts| parts.consumers).collect()
    }

    /// Reads providers, and then all consumers that they have or had.
    async fn read_again(
        &mut self,
        stale: &BTreeSet<String>,
        mut consumers: BTreeSet<String>,
        progress: &Progress,
    ) -> Result<(), Error> {
        let (client, version) = (self.client, self.version);
        let bar = progress.of("providers", stale.len() as u64);
        let parts = stale.iter().map(|uuid| async move {
            Ok::<_, Error>((uuid.clone(), parts(client, version, uuid).await?))
        });
        let mut parts = stream::iter(parts).buffer_unordered(client.concurrency());
        while let Some((uuid, new)) = parts.try_next().await? {
            if let Some(kept) = &mut self.kept {
                kept.keep(ResponseKey::Provider, &uuid, new.as_ref()).await?;
            }
            consumers.extend(new.iter().flat_map(|it| it.consumers.iter().cloned()));
            let old = match new {
                Some(new) => self.snapshot.parts.insert(uuid, new),
                None => self.snapshot.parts.remove(&uuid),
            };
            consumers.extend(old.into_iter().flat_map(|it| it.consumers));
            bar.inc(1);
        }
        bar.finish();
        self.write_kept().await?;
        self.read_consumers(&consumers, &progress.of("consumers", consumers.len() as u64)).await
    }

    async fn read_consumers(
        &mut self,
        consumers: &BTreeSet<String>,
        bar: &ProgressBar,
    ) -> Result<(), Error> {
        let (client, version) = (self.client, self.version);
        let read = consumers.iter().map(|uuid| async move {
            let path = format!("/allocations/{}", encoded(uuid));
            let response = client.get(&path, version).await?.expect(StatusCode::OK)?;
            let consumer = view::consumer(&response.json()?).map_err(wrong(&path))?;
            let changed = changed(&response);
            Ok::<_, Error>((uuid.clone(), consumer.map(|it| Consumer { changed, ..it })))
        });
        let mut read = stream::iter(read).buffer_unordered(client.concurrency());
        while let Some((uuid, consumer)) = read.try_next().await? {
            if let Some(kept) = &mut self.kept {
                kept.keep(ResponseKey::Consumer, &uuid, consumer.as_ref()).await?;
            }
            match consumer {
                Some(consumer) => drop(self.snapshot.consumers.insert(uuid, consumer)),
                None => drop(self.snapshot.consumers.remove(&uuid)),
            }
            bar.inc(1);
        }
        bar.finish();
        self.write_kept().await
    }

    async fn write_kept(&mut self) -> Result<(), Error> {
        match &mut self.kept {
            Some(kept) => kept.write().await,
            None => Ok(()),
        }
    }

    /// Usages of projects in excess of the allocations of their visible consumers. Hidden consumers may belong to
    /// these projects; allocations of deleted providers count as well.
    async fn unexplained_of_projects(&self) -> Result<HashMap<String, Amounts>, Error> {
        let mut held: HashMap<&str, Amounts> = HashMap::new();
        for consumer in self.snapshot.consumers.values() {
            let sums = held.entry(&consumer.project).or_default();
            for (class, used) in consumer.holds.values().flatten() {
                *sums.entry(class.clone()).or_insert(0) += used;
            }
        }
        // Later versions group them by consumer type, which fails in services on PostgreSQL.
        let (client, version) = (self.client, self.version.min(USAGES_IN_ONE));
        let unexplained = held.into_iter().map(|(project, held)| async move {
            let path = format!("/usages?project_id={}", encoded(project));
            let body = client.read(&path, version).await?;
            let mut more = view::usages(&body).map_err(wrong(&path))?;
            for (class, used) in held {
                *more.entry(class).or_insert(0) -= used;
            }
            more.retain(|_, used| *used != 0);
            Ok::<_, Error>((project.to_owned(), more))
        });
        let unexplained = stream::iter(unexplained).buffer_unordered(client.concurrency());
        let all: HashMap<String, Amounts> = unexplained.try_collect().await?;
        Ok(all.into_iter().filter(|(_, more)| !more.is_empty()).collect())
    }

    /// Differences between providers' usages and the allocations of the consumers read.
    fn unexplained(&self) -> HashMap<String, Amounts> {
        let held = self.snapshot.held();
        let mut unexplained = HashMap::new();
        for (uuid, parts) in &self.snapshot.parts {
            let mut more = parts.usages.clone();
            for (class, used) in held.get(uuid.as_str()).into_iter().flatten() {
                *more.entry(class.clone()).or_insert(0) -= used;
            }
            more.retain(|_, used| *used != 0);
            if !more.is_empty() {
                unexplained.insert(uuid.clone(), more);
            }
        }
        unexplained
    }
}

/// Reads the parts of a provider; `None` if the provider no longer exists.
async fn parts(
    client: &Client,
    version: Microversion,
    uuid: &str,
) -> Result<Option<ProviderParts>, Error> {
    let mut reader = view::Reader::default();
    for part in ["", "/inventories", "/usages", "/aggregates", "/traits", "/allocations"] {
        let path = provider_path(uuid, part);
        let response = client.get(&path, version).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let response = response.expect(StatusCode::OK)?;
        reader.read(part, &response.json()?, changed(&response)).map_err(wrong(&path))?;
    }
    Ok(Some(reader.finish()))
}

fn provider_path(uuid: &str, part: &str) -> String {
    format!("/resource_providers/{}{part}", encoded(uuid))
}

fn encoded(identifier: &str) -> percent_encoding::PercentEncode<'_> {
    utf8_percent_encode(identifier, UNRESERVED)
}

/// Modification time of the resource in a response, in seconds since 1970.
fn changed(response: &ServiceResponse) -> Option<i64> {
    let text = response.headers().get(reqwest::header::LAST_MODIFIED)?.to_str().ok()?;
    let time = httpdate::parse_http_date(text).ok()?;
    let seconds = time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    i64::try_from(seconds).ok()
}

/// Builds an error about a malformed response.
fn wrong(path: &str) -> impl FnOnce(String) -> Error {
    let url = path.to_owned();
    move |why| placement_client::Error::NotPlacement { url, why }.into()
}
