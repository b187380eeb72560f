//! `berth claim` and `berth release`: change the allocations of one consumer manually.
//!
//! The change is shown first. The write carries the consumer's generation that was read, so it fails if the consumer
//! has changed in the meantime.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::candidates::{self, names, newest};
use super::columns::{columns, or_dash};
use super::providers::find;
use super::service::ServiceOptions;
use super::terminal::confirmed;
use crate::moving::placement_client::{Client, Microversion};
use crate::observe::printable::escaped;
use crate::server::failure::Failure;

/// First microversion that checks the generations of consumers.
const GENERATIONS: Microversion = Microversion(28);
/// First microversion that accepts the groups of a candidate.
const MAPPINGS: Microversion = Microversion(34);
/// First microversion that accepts the type of a consumer, and requires it.
const TYPES: Microversion = Microversion(38);
/// Type shown for a consumer that has none.
const UNKNOWN_TYPE: &str = "unknown";

/// Options of `claim`.
#[derive(Args, Clone, Debug)]
pub struct ClaimOptions {
    /// UUID of the consumer.
    #[arg(value_name = "CONSUMER")]
    pub consumer: Uuid,

    /// Name or UUID of a provider. The amounts are those of the --resources in the same place.
    #[arg(
        long,
        value_name = "PROVIDER",
        requires = "resources",
        required_unless_present = "query"
    )]
    pub on: Vec<String>,

    /// Amounts that the consumer is to have of the provider, such as `VCPU:4,MEMORY_MB:8192`.
    #[arg(long, value_name = "CLASS:AMOUNT,...", requires = "on")]
    pub resources: Vec<String>,

    /// Use a candidate of this query instead, as shown by `berth candidates`.
    #[arg(long, value_name = "QUERY", conflicts_with_all = ["on", "resources"])]
    pub query: Option<String>,

    /// Number of the candidate.
    #[arg(long, value_name = "NUMBER", default_value = "1", requires = "query",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub candidate: u32,

    /// Project of the consumer. Default: its present one.
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,

    /// User of the consumer. Default: its present one.
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,

    /// Type of the consumer, such as INSTANCE. Default: its present one, if any.
    #[arg(long = "type", value_name = "TYPE")]
    pub consumer_type: Option<String>,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub yes: bool,

    /// The service, Berth or OpenStack Placement.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Options of `release`.
#[derive(Args, Clone, Debug)]
pub struct ReleaseOptions {
    /// UUID of the consumer.
    #[arg(value_name = "CONSUMER")]
    pub consumer: Uuid,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub yes: bool,

    /// The service, Berth or OpenStack Placement.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Amounts by provider and class.
type Amounts = BTreeMap<String, BTreeMap<String, i64>>;

/// A consumer's current allocations and owner.
#[derive(Clone, Debug, Deserialize)]
struct ConsumerState {
    allocations: BTreeMap<String, candidates::Allocation>,
    project_id: Option<String>,
    user_id: Option<String>,
    consumer_generation: Option<i64>,
    consumer_type: Option<String>,
}

impl ConsumerState {
    /// Reads a consumer's current state.
    async fn read(client: &Client, consumer: Uuid, version: Microversion) -> Result<Self, Failure> {
        let body = client.read(&format!("/allocations/{consumer}"), version).await;
        let failed = |error| Failure(format!("the allocations are not as expected: {error}"));
        Self::deserialize(body?).map_err(failed)
    }

    fn amounts(&self) -> Amounts {
        let held = self.allocations.iter();
        held.map(|(provider, held)| (provider.clone(), held.resources.clone())).collect()
    }
}

/// Runs `berth claim`, and reports the change and its outcome through `out`.
///
/// # Errors
/// The service does not respond or refuses the claim, or an argument is missing or invalid.
pub async fn claim(options: &ClaimOptions, out: impl Fn(&str)) -> Result<(), Failure> {
    let client = options.service.client()?;
    let version = with_generations(&client).await?;
    let held = ConsumerState::read(&client, options.consumer, version).await?;
    let (requested, mappings) = requested(options, &client, version).await?;
    let change = change(&client, options.consumer, &held.amounts(), &requested, version).await?;
    let owner = |given: &Option<String>, had: &Option<String>, flag: &str| {
        let missing =
            || Failure(format!("the consumer does not exist, so its owner must be given: {flag}"));
        given.clone().or_else(|| had.clone()).ok_or_else(missing)
    };
    let had_type = held.consumer_type.clone().filter(|it| it != UNKNOWN_TYPE);
    let consumer_type = options.consumer_type.clone().or(had_type);
    // Before 1.38, a write keeps the type of a consumer.
    let version = match &consumer_type {
        Some(_) => version,
        None => version.min(Microversion(TYPES.0 - 1)),
    };
    if options.consumer_type.is_some() && version < TYPES {
        return Err(Failure(format!(
            "the service does not support consumer types: its API ends at {version}"
        )));
    }
    let body = Body {
        project_id: owner(&options.project, &held.project_id, "--project")?,
        user_id: owner(&options.user, &held.user_id, "--user")?,
        consumer_type: consumer_type.filter(|_| version >= TYPES),
        mappings: mappings.filter(|_| version >= MAPPINGS),
        ..Body::of(requested, &held)
    };
    out(&change);
    for line in new_owner(&held, &body) {
        out(&line);
    }
    if !options.yes && !confirmed("Write this?", "use --yes").map_err(Failure)? {
        out("Nothing was done.");
        return Ok(());
    }
    write(&client, options.consumer, &body, version).await?;
    out("Done.");
    Ok(())
}

/// Runs `berth release`, and reports the change and its outcome through `out`.
///
/// # Errors
/// The service does not respond, or refuses.
pub async fn release(options: &ReleaseOptions, out: impl Fn(&str)) -> Result<(), Failure> {
    let client = options.service.client()?;
    let version = with_generations(&client).await?;
    let held = ConsumerState::read(&client, options.consumer, version).await?;
    if held.allocations.is_empty() {
        out("The consumer has no allocations.");
        return Ok(());
    }
    let nothing = Amounts::new();
    out(&change(&client, options.consumer, &held.amounts(), &nothing, version).await?);
    if !options.yes && !confirmed("Release this?", "use --yes").map_err(Failure)? {
        out("Nothing was done.");
        return Ok(());
    }
    // Later versions require a type even for a consumer that is removed.
    write(&client, options.consumer, &Body::of(nothing, &held), GENERATIONS).await?;
    out("Done.");
    Ok(())
}

/// Describes the changes of the consumer's project, user and type.
fn new_owner(held: &ConsumerState, body: &Body) -> Vec<String> {
    let changes = [
        ("project", &held.project_id, Some(&body.project_id)),
        ("user", &held.user_id, Some(&body.user_id)),
        ("type", &held.consumer_type, body.consumer_type.as_ref()),
    ];
    let line = |(what, had, then): (&str, &Option<String>, Option<&String>)| {
        let (had, then) = (had.as_ref()?, then?);
        let (was, will_be) = (escaped(had), escaped(then));
        (had != then).then(|| format!("Its {what} changes from {was} to {will_be}."))
    };
    changes.into_iter().filter_map(line).collect()
}

/// The newest microversion that both sides support, if it checks generations.
async fn with_generations(client: &Client) -> Result<Microversion, Failure> {
    let version = newest(client).await?;
    if version < GENERATIONS {
        return Err(Failure(format!(
            "the service does not compare the generations of consumers: its API ends at {version}"
        )));
    }
    Ok(version)
}

/// The requested allocations, and the groups of the candidate.
async fn requested(
    options: &ClaimOptions,
    client: &Client,
    version: Microversion,
) -> Result<(Amounts, Option<Value>), Failure> {
    if let Some(query) = &options.query {
        return candidate(client, query, options.candidate, version).await;
    }
    let (on, resources) = (&options.on, &options.resources);
    if on.len() != resources.len() {
        return Err(Failure(format!(
            "each --on needs its --resources: there are {} and {}",
            on.len(),
            resources.len()
        )));
    }
    let mut requested = Amounts::new();
    for (provider, resources) in on.iter().zip(resources) {
        let unknown = || Failure(format!("there is no resource provider {provider}"));
        let uuid = find(client, version, provider).await?.ok_or_else(unknown)?;
        let of_provider = requested.entry(uuid).or_default();
        for (class, amount) in parsed(resources)? {
            if of_provider.insert(class.clone(), amount).is_some() {
                return Err(Failure(format!("{class} of {provider} is named twice")));
            }
        }
    }
    Ok((requested, None))
}

/// Reads a candidate of a query.
async fn candidate(
    client: &Client,
    query: &str,
    number: u32,
    version: Microversion,
) -> Result<(Amounts, Option<Value>), Failure> {
    let found = candidates::ask(client, query, number.max(candidates::SHOWN), version).await?;
    let mut all = candidates::read(&found)?.all;
    let count = all.len();
    let nth = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let Some(nth) = nth.filter(|nth| *nth < count) else {
        return Err(Failure(format!("there is no candidate {number}: the query finds {count}")));
    };
    let candidate = all.swap_remove(nth);
    let allocations = candidate.allocations.into_iter();
    let requested = allocations.map(|(provider, it)| (provider, it.resources)).collect();
    Ok((requested, candidate.mappings.map(|mappings| json!(mappings))))
}

/// Parses amounts such as `VCPU:4,MEMORY_MB:8192`.
///
/// # Errors
/// The pair that is not one.
pub(super) fn parsed(text: &str) -> Result<Vec<(String, i64)>, Failure> {
    let wrong = |pair: &str| Failure(format!("{pair:?} is not an amount such as VCPU:4"));
    let pair = |pair: &str| {
        let (class, amount) = pair.split_once([':', '=']).ok_or_else(|| wrong(pair))?;
        let amount = amount.parse().ok().filter(|amount| *amount > 0);
        Ok((class.to_owned(), amount.ok_or_else(|| wrong(pair))?))
    };
    text.split(',').map(pair).collect()
}

/// Formats the change as a table.
async fn change(
    client: &Client,
    consumer: Uuid,
    now: &Amounts,
    then: &Amounts,
    version: Microversion,
) -> Result<String, Failure> {
    let providers: BTreeSet<String> = now.keys().chain(then.keys()).cloned().collect();
    let names = names(client, providers.clone(), version).await?;
    let mut rows = Vec::new();
    for provider in providers {
        let classes = |of: &Amounts| -> Vec<String> {
            of.get(&provider).iter().flat_map(|it| it.keys().cloned()).collect()
        };
        let classes: BTreeSet<String> = classes(now).into_iter().chain(classes(then)).collect();
        for class in classes {
            let amount = |of: &Amounts| {
                let amount = of.get(&provider).and_then(|it| it.get(&class));
                amount.map_or_else(|| "-".to_owned(), ToString::to_string)
            };
            let name = or_dash(names.get(&provider));
            rows.push([name, provider.clone(), class.clone(), amount(now), amount(then)]);
        }
    }
    let table = columns(["PROVIDER", "UUID", "CLASS", "NOW", "THEN"], rows.into_iter());
    Ok(format!("Consumer {consumer}:\n{table}"))
}

/// The body of a write.
#[derive(Serialize)]
struct Body {
    allocations: BTreeMap<String, Resources>,
    consumer_generation: Option<i64>,
    project_id: String,
    user_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mappings: Option<Value>,
}

/// Amounts in the body of a write.
#[derive(Serialize)]
struct Resources {
    resources: BTreeMap<String, i64>,
}

impl Body {
    /// The requested allocations, with the consumer's present generation, and its owner if it has one.
    fn of(requested: Amounts, held: &ConsumerState) -> Self {
        let requested = requested.into_iter();
        let owner = |it: &Option<String>| it.as_ref().map_or_else(String::new, Clone::clone);
        Self {
            allocations: requested
                .map(|(uuid, resources)| (uuid, Resources { resources }))
                .collect(),
            consumer_generation: held.consumer_generation,
            project_id: owner(&held.project_id),
            user_id: owner(&held.user_id),
            consumer_type: None,
            mappings: None,
        }
    }
}

async fn write(
    client: &Client,
    consumer: Uuid,
    body: &Body,
    version: Microversion,
) -> Result<(), Failure> {
    let (path, body) = (format!("/allocations/{consumer}"), json!(body));
    let response = client.send(Method::PUT, &path, version, Some(&body)).await?;
    let id = response.headers().get("x-openstack-request-id").and_then(|id| id.to_str().ok());
    let hint = id.filter(|_| response.status() == StatusCode::CONFLICT);
    let hint =
        hint.map_or_else(String::new, |id| format!("\nWith Berth, `berth why {id}` shows more."));
    match response.expect(StatusCode::NO_CONTENT) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure(format!("nothing was written: {error}{hint}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{Amounts, Body, ConsumerState, parsed};

    /// The service refuses a write if the consumer's generation differs.
    #[test]
    fn a_write_carries_the_generation_that_was_shown() {
        for generation in [Some(7), None] {
            let held = ConsumerState {
                allocations: BTreeMap::new(),
                project_id: Some("p".to_owned()),
                user_id: Some("u".to_owned()),
                consumer_generation: generation,
                consumer_type: None,
            };
            let expected = json!({
                "allocations": {}, "consumer_generation": generation, "project_id": "p",
                "user_id": "u",
            });
            assert_eq!(json!(Body::of(Amounts::new(), &held)), expected);
        }
    }

    #[test]
    fn amounts_are_read() {
        let read = |text| parsed(text).map_err(|error| error.0);
        let expected = vec![("VCPU".to_owned(), 4), ("MEMORY_MB".to_owned(), 512)];
        assert_eq!(read("VCPU:4,MEMORY_MB=512"), Ok(expected));
        for wrong in ["", "VCPU", "VCPU:", "VCPU:0", "VCPU:-1", "VCPU:1,", "VCPU:x"] {
            assert!(read(wrong).unwrap_err().contains("is not an amount"), "{wrong}");
        }
    }
}
