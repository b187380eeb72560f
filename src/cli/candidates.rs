//! `berth candidates`: shows the allocation candidates of a request as a table.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use clap::Args;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::Value;

use super::columns::{FormatOptions, or_dash};

use super::page::{Cell, Page, Tone};
use super::service::ServiceOptions;
use super::terminal::Colours;
use crate::http::pasted_query;
use crate::moving::placement_client::{Client, Error, Microversion};
use crate::server::failure::Failure;

/// The first microversion at which candidates have their allocations by provider.
const BY_PROVIDER: Microversion = Microversion(12);
/// The first microversion with a limit.
const LIMIT: Microversion = Microversion(16);
/// Default maximum number of candidates.
pub(super) const SHOWN: u32 = 20;
/// Maximum number of providers whose names are read.
const NAMES_MAX: usize = 1000;

/// Options of `candidates`.
#[derive(Args, Clone, Debug)]
pub struct CandidatesOptions {
    /// The query, in the form of `GET /allocation_candidates`.
    ///
    /// A line of a log with a path and `?` in front of the query is accepted as well. Quote it, because it contains
    /// `&`.
    #[arg(value_name = "QUERY")]
    pub query: String,

    /// Ask for at most this many candidates, unless the query has a limit.
    #[arg(long, value_name = "COUNT", default_value_t = SHOWN,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,

    /// Microversion of the query. Default: the newest that the service supports, up to 1.39.
    #[arg(long, value_name = "1.N")]
    pub microversion: Option<Microversion>,

    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The service, Berth or OpenStack Placement.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Candidates, with summaries of their providers.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Candidates {
    #[serde(rename = "allocation_requests")]
    pub(super) all: Vec<Candidate>,
    provider_summaries: HashMap<String, Summary>,
}

/// A candidate.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Candidate {
    /// Requested amounts, by provider.
    pub(super) allocations: BTreeMap<String, Allocation>,
    /// The providers of each group of the query; from microversion 1.34.
    pub(super) mappings: Option<BTreeMap<String, Vec<String>>>,
}

/// Requested amounts of a provider.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Allocation {
    /// Amounts by resource class.
    pub(super) resources: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Summary {
    resources: BTreeMap<String, Room>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Room {
    capacity: i64,
    used: i64,
}

/// Runs `berth candidates`, and returns its output.
///
/// # Errors
/// The service does not respond, or the query is invalid.
pub async fn run(options: &CandidatesOptions) -> Result<String, Failure> {
    let client = options.service.reader()?;
    let version = match options.microversion {
        Some(version) => version,
        None => newest(&client).await?,
    };
    let found = ask(&client, &options.query, options.limit, version).await?;
    if options.format.is_json() {
        return Ok(format!("{found:#}"));
    }
    let found = read(&found)?;
    let names = names(&client, found.providers(), version).await?;
    Ok(text(&found, &names, Colours::of_stdout()))
}

/// The newest microversion that both sides support.
pub(super) async fn newest(client: &Client) -> Result<Microversion, Failure> {
    Ok(client.highest_microversion().await?.min(Microversion::MAX))
}

/// Reads candidates from the service, at most `limit` unless the query has a limit.
pub(super) async fn ask(
    client: &Client,
    query: &str,
    limit: u32,
    version: Microversion,
) -> Result<Value, Failure> {
    if version < BY_PROVIDER {
        return Err(Failure(format!(
            "candidates are supported from microversion {BY_PROVIDER} on, not at {version}"
        )));
    }
    let query = pasted_query(query);
    let is_limited = query.split(['&', ';']).any(|pair| pair.starts_with("limit="));
    let limit =
        if is_limited || version < LIMIT { String::new() } else { format!("&limit={limit}") };
    let path = format!("/allocation_candidates?{query}{limit}");
    Ok(client.read(&path, version).await?)
}

/// Parses the candidates of a response.
pub(super) fn read(response: &Value) -> Result<Candidates, Failure> {
    let failed =
        |error: serde_json::Error| Failure(format!("the candidates are not as expected: {error}"));
    Candidates::deserialize(response).map_err(failed)
}

impl Candidates {
    fn providers(&self) -> BTreeSet<String> {
        let allocations = self.all.iter().flat_map(|candidate| candidate.allocations.keys());
        allocations.cloned().collect()
    }
}

/// The names of at most a thousand providers. Deleted providers have none.
///
/// # Errors
/// The service does not respond.
pub(super) async fn names(
    client: &Client,
    providers: BTreeSet<String>,
    version: Microversion,
) -> Result<HashMap<String, String>, Failure> {
    let requests = providers.into_iter().take(NAMES_MAX).map(|uuid| async move {
        let found = client.find(&format!("/resource_providers/{uuid}"), version).await?;
        let name = found.as_ref().and_then(|it| it.get("name")?.as_str()).map(str::to_owned);
        Ok::<_, Error>((uuid, name))
    });
    let mut responses = stream::iter(requests).buffer_unordered(client.concurrency());
    let mut names = HashMap::new();
    while let Some(response) = responses.next().await {
        if let (uuid, Some(name)) = response? {
            names.insert(uuid, name);
        }
    }
    Ok(names)
}

/// Amounts in the form of a query.
pub(super) fn amounts(resources: &BTreeMap<String, i64>) -> String {
    let amounts: Vec<String> =
        resources.iter().map(|(class, amount)| format!("{class}:{amount}")).collect();
    amounts.join(",")
}

fn text(found: &Candidates, names: &HashMap<String, String>, colours: Colours) -> String {
    if found.all.is_empty() {
        return "There are no candidates. `berth explain` shows why.".to_owned();
    }
    let heads = ["CANDIDATE", "PROVIDER", "UUID", "RESOURCES", "GROUPS", "FREE"];
    let rows = found.all.iter().enumerate().flat_map(|(nth, candidate)| {
        let number = move |row: usize| if row == 0 { (nth + 1).to_string() } else { String::new() };
        candidate.allocations.iter().enumerate().map(move |(row, (uuid, allocation))| {
            [
                Cell::new(Tone::Heading, number(row)),
                or_dash(names.get(uuid)).into(),
                uuid.clone().into(),
                amounts(&allocation.resources).into(),
                groups(candidate, uuid).into(),
                Cell::new(Tone::Good, free(found.provider_summaries.get(uuid), allocation)),
            ]
        })
    });
    let mut page = Page::new(colours);
    page.table(heads, rows);
    page.finish()
}

/// The groups of the query that a provider serves. The unsuffixed one is shown as `""`.
fn groups(candidate: &Candidate, provider: &str) -> String {
    let served = candidate
        .mappings
        .iter()
        .flatten()
        .filter(|(_, providers)| providers.iter().any(|uuid| uuid == provider));
    let names: Vec<&str> =
        served.map(|(suffix, _)| if suffix.is_empty() { "\"\"" } else { suffix }).collect();
    names.join(" ")
}

/// The free amounts of the classes that a candidate uses.
fn free(summary: Option<&Summary>, allocation: &Allocation) -> String {
    let rooms = allocation.resources.keys().filter_map(|class| {
        let Room { capacity, used } = *summary?.resources.get(class)?;
        Some(format!("{class} {} of {capacity}", capacity - used))
    });
    rooms.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::{read, text};
    use crate::cli::terminal::Colours;

    #[test]
    fn candidates_are_rows_of_providers_with_what_is_free() {
        let found = read(&json!({
            "allocation_requests": [
                {
                    "allocations": {
                        "u1": {"resources": {"VCPU": 2, "MEMORY_MB": 512}},
                        "u2": {"resources": {"VGPU": 1}},
                    },
                    "mappings": {"": ["u1"], "_gpu": ["u2"]},
                },
                {"allocations": {"u3": {"resources": {"VCPU": 2}}}},
            ],
            "provider_summaries": {
                "u1": {"resources": {
                    "VCPU": {"capacity": 8, "used": 3},
                    "MEMORY_MB": {"capacity": 4096, "used": 0},
                    "DISK_GB": {"capacity": 1, "used": 1},
                }, "traits": []},
                "u2": {"resources": {"VGPU": {"capacity": 1, "used": 0}}},
            },
        }));
        let names = HashMap::from([("u1".to_owned(), "cn1".to_owned())]);
        insta::assert_snapshot!(text(&found.unwrap(), &names, Colours::None), @r#"
        CANDIDATE  PROVIDER  UUID  RESOURCES             GROUPS  FREE
        1          cn1       u1    MEMORY_MB:512,VCPU:2  ""      MEMORY_MB 4096 of 4096, VCPU 5 of 8
                   -         u2    VGPU:1                _gpu    VGPU 1 of 1
        2          -         u3    VCPU:2
        "#);
    }
}
