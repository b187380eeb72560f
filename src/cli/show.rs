//! `berth show`: a provider with its consumers, or a consumer with its allocations.

use std::collections::BTreeMap;

use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use reqwest::header::LAST_MODIFIED;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::columns::{FormatOptions, columns, or_dash};
use super::providers::{PARTS, Provider, find, list, read, version};
use super::service::ServiceOptions;
use super::terminal::Colours;
use super::tree::drawing::{details, line};
use crate::moving::placement_client::{Client, Error, Microversion};
use crate::observe::printable::escaped;
use crate::server::failure::Failure;

/// Options of `show`.
#[derive(Args, Clone, Debug)]
pub struct ShowOptions {
    /// Name or UUID of a provider, or identifier of a consumer.
    #[arg(value_name = "PROVIDER|CONSUMER")]
    pub subject: String,

    /// Maximum number of consumers of a provider to show; each takes a request.
    #[arg(long, value_name = "COUNT", default_value = "100",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub limit: u32,

    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The service, Berth or OpenStack Placement.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Amounts by class.
type Amounts = BTreeMap<String, i64>;

/// Amounts held by a consumer, or of a provider.
#[derive(Debug, Deserialize)]
struct Portion {
    resources: Amounts,
}

#[derive(Debug, Deserialize)]
struct OfProvider {
    allocations: BTreeMap<String, Portion>,
}

#[derive(Debug, Deserialize)]
struct OfConsumer {
    allocations: BTreeMap<String, Portion>,
    project_id: Option<String>,
    user_id: Option<String>,
    consumer_type: Option<String>,
    consumer_generation: Option<i64>,
}

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Consumer {
    uuid: String,
    #[serde(rename = "consumer_type")]
    kind: Option<String>,
    project_id: Option<String>,
    user_id: Option<String>,
    #[serde(rename = "consumer_generation")]
    generation: Option<i64>,
    /// When its allocations were last changed, in HTTP's format.
    since: Option<String>,
    /// Its allocations, by provider.
    allocations: BTreeMap<String, Amounts>,
}

/// Runs `berth show`, and returns its output.
///
/// # Errors
/// The service does not respond, or there is neither such a provider nor such a consumer.
pub async fn run(options: &ShowOptions) -> Result<String, Failure> {
    let client = options.service.reader()?;
    let version = version(&client).await?;
    let subject = options.subject.as_str();
    if let Some(uuid) = find(&client, version, subject).await? {
        return provider(&client, version, &uuid, options).await;
    }
    let consumer = consumer(&client, version, subject).await?;
    let Some(consumer) = consumer else {
        return Err(Failure(format!("there is no resource provider and no consumer {subject}")));
    };
    if options.format.is_json() {
        return Ok(format!("{:#}", json!({"consumer": consumer})));
    }
    let names = names(&client, version, &consumer).await?;
    Ok(of_consumer(&consumer, &names))
}

/// Reads a provider, and its consumers with their allocations.
async fn provider(
    client: &Client,
    version: Microversion,
    uuid: &str,
    options: &ShowOptions,
) -> Result<String, Failure> {
    let listed = list(client, version, &format!("?uuid={uuid}")).await?;
    let providers = read(client, version, listed, &PARTS, usize::MAX).await?;
    let gone = || Failure(format!("resource provider {uuid} has just been deleted"));
    let provider = providers.into_iter().next().ok_or_else(gone)?;
    let path = format!("/resource_providers/{uuid}/allocations");
    let found = client.find(&path, version).await?;
    let held: OfProvider = serde_json::from_value(found.ok_or_else(gone)?)
        .map_err(|why| Failure(format!("{path}: {why}")))?;
    let count = held.allocations.len();
    let mut consumers: Vec<(Consumer, Amounts)> =
        stream::iter(held.allocations.into_iter().take(options.limit as usize))
            .map(|(uuid, portion)| async move {
                let found = consumer(client, version, &uuid).await?;
                Ok::<_, Error>(found.map(|found| (found, portion.resources)))
            })
            .buffer_unordered(client.concurrency())
            .try_filter_map(|found| async move { Ok(found) })
            .try_collect()
            .await?;
    consumers.sort_by(|(one, _), (other, _)| one.uuid.cmp(&other.uuid));
    if options.format.is_json() {
        let all: Vec<&Consumer> = consumers.iter().map(|(consumer, _)| consumer).collect();
        let all = json!({"resource_provider": provider, "consumers": all, "consumer_count": count});
        return Ok(format!("{all:#}"));
    }
    Ok(of_provider(&provider, &consumers, count, Colours::of_stdout()))
}

/// Reads a consumer; `None` if it has no allocations.
async fn consumer(
    client: &Client,
    version: Microversion,
    consumer: &str,
) -> Result<Option<Consumer>, Error> {
    let path = format!("/allocations/{}", utf8_percent_encode(consumer, NON_ALPHANUMERIC));
    let response = client.get(&path, version).await?.expect(StatusCode::OK)?;
    let found: OfConsumer = response.json_as()?;
    if found.allocations.is_empty() {
        return Ok(None);
    }
    let since = response.headers().get(LAST_MODIFIED).and_then(|it| it.to_str().ok());
    let held = found.allocations.into_iter().map(|(uuid, portion)| (uuid, portion.resources));
    Ok(Some(Consumer {
        uuid: consumer.to_owned(),
        kind: found.consumer_type,
        project_id: found.project_id,
        user_id: found.user_id,
        generation: found.consumer_generation,
        since: since.map(str::to_owned),
        allocations: held.collect(),
    }))
}

/// The names of the providers of a consumer's allocations.
async fn names(
    client: &Client,
    version: Microversion,
    consumer: &Consumer,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut names = BTreeMap::new();
    for uuid in consumer.allocations.keys() {
        let found = list(client, version, &format!("?uuid={uuid}")).await?;
        names.extend(found.into_iter().map(|it| (it.uuid, it.name)));
    }
    Ok(names)
}

fn of_provider(
    provider: &Provider,
    consumers: &[(Consumer, Amounts)],
    count: usize,
    colours: Colours,
) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("{}  {}", escaped(&provider.name), provider.uuid));
    line(&mut text, format_args!("  generation: {}", provider.generation));
    for (title, uuid) in
        [("parent", &provider.parent_provider_uuid), ("root", &provider.root_provider_uuid)]
    {
        if let Some(uuid) = uuid.as_ref().filter(|uuid| **uuid != provider.uuid) {
            line(&mut text, format_args!("  {title}: {uuid}"));
        }
    }
    for detail in details(provider, colours) {
        line(&mut text, format_args!("  {detail}"));
    }
    if count == 0 {
        text.push_str("\nIt has no allocations.\n");
        return text;
    }
    line(&mut text, format_args!("\n{} of {count} consumers:", consumers.len()));
    let heads = ["CONSUMER", "TYPE", "HOLDS", "PROJECT", "USER", "SINCE"];
    let rows = consumers.iter().map(|(it, held)| {
        [
            it.uuid.clone(),
            or_dash(it.kind.as_ref()),
            amounts(held),
            or_dash(it.project_id.as_ref()),
            or_dash(it.user_id.as_ref()),
            or_dash(it.since.as_ref()),
        ]
    });
    text.push_str(&columns(heads, rows));
    text
}

fn of_consumer(consumer: &Consumer, names: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("consumer {}", consumer.uuid));
    let generation = consumer.generation.map(|it| it.to_string());
    for (title, value) in [
        ("type", &consumer.kind),
        ("project", &consumer.project_id),
        ("user", &consumer.user_id),
        ("generation", &generation),
        ("since", &consumer.since),
    ] {
        if let Some(value) = value {
            line(&mut text, format_args!("  {title}: {}", escaped(value)));
        }
    }
    text.push('\n');
    let rows = consumer
        .allocations
        .iter()
        .map(|(uuid, held)| [or_dash(names.get(uuid)), uuid.clone(), amounts(held)]);
    text.push_str(&columns(["PROVIDER", "UUID", "HOLDS"], rows));
    text
}

fn amounts(held: &Amounts) -> String {
    let each: Vec<String> = held.iter().map(|(class, used)| format!("{class}:{used}")).collect();
    each.join(" ")
}
