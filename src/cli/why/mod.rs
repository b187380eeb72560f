//! `berth why`: explains why a request was refused or found nothing, at that time and now.

mod described;
mod listing;

use clap::Args;
use reqwest::StatusCode;
use serde_json::json;

use self::described::described;
use super::bars::Colours;
use super::columns::FormatOptions;
use super::explain::{self, ask, ask_of_claim, failure};
use super::page::{Page, Tone};
use super::service::ReplicaOptions;
use crate::http::operator::views::Explanation;
use crate::http::operator::views::claim::ClaimExplanation;
use crate::http::operator::views::refused::{FoundRequests, RefusedDetails, RefusedRequest};
use crate::moving::placement_client::{Client, Microversion};
use crate::observe::printable::escaped;
use crate::server::failure::Failure;

/// Path of the resource.
const PATH: &str = "/-/v1/refused";
/// The length of a request id.
const ID: usize = "req-01234567-89ab-cdef-0123-456789abcdef".len();

/// Maximum number of consumers that are listed for an inventory.
const HOLDERS: u16 = 10;

/// Options of `why`.
#[derive(Args, Clone, Debug)]
pub struct WhyOptions {
    /// ID of the request, or of the request on whose behalf it was sent: the `req-...` in the log of nova.
    ///
    /// A whole line of a log is accepted as well. Without it, lists the latest requests that were refused or found
    /// nothing.
    #[arg(value_name = "REQUEST_ID")]
    pub request_id: Option<String>,

    /// List only requests of this kind: `candidates`, `claim`, `reshape`, `provider`, `inventories`, `traits`,
    /// `aggregates` or `resource_classes`.
    #[arg(long, value_name = "KIND", conflicts_with = "request_id")]
    pub kind: Option<String>,

    /// List only requests of callers with this project.
    #[arg(long, value_name = "ID", conflicts_with = "request_id")]
    pub project: Option<String>,

    /// List only requests of this user.
    #[arg(long, value_name = "ID", conflicts_with = "request_id")]
    pub user: Option<String>,

    /// List only requests of the last seconds.
    #[arg(long, value_name = "COUNT", conflicts_with = "request_id")]
    pub seconds: Option<u32>,

    /// Maximum number of requests to list.
    #[arg(long, value_name = "COUNT", default_value = "50",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,

    /// Do not check the present state.
    #[arg(long)]
    pub then: bool,

    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The servers.
    #[command(flatten)]
    pub service: ReplicaOptions,
}

/// Runs `berth why`, and returns its output.
///
/// # Errors
/// No server responds, or none has such a request.
pub async fn run(options: &WhyOptions) -> Result<String, Failure> {
    let replicas = options.service.readers().map_err(Failure)?;
    match &options.request_id {
        None => listing::list(options, &replicas).await,
        Some(text) => why(options, &replicas, text).await,
    }
}

/// A request, and its present outcome.
struct RequestReasons {
    /// Address of the replica that has the record.
    replica: String,
    then: RefusedDetails,
    now: PresentOutcome,
}

/// Present outcome of a request.
enum PresentOutcome {
    /// Not checked.
    NotAsked,
    /// Conditions of a query, with the hosts that they leave.
    Explained(Box<Explanation>),
    /// Outcome of a claim.
    Judged(Box<ClaimExplanation>),
    /// Unknown, with the reason.
    Unknown(String),
}

/// Records of the replicas about the requests in a text.
#[derive(Default)]
struct KnownRequests {
    reasons: Vec<RequestReasons>,
    /// Number of requests; each replica returns its latest ones.
    count: usize,
    /// Replicas without a record, or without a response: each with the reason.
    silent: Vec<(String, String)>,
}

async fn why(options: &WhyOptions, replicas: &[Client], text: &str) -> Result<String, Failure> {
    let ids = ids_of(text);
    let mut known = KnownRequests::default();
    for client in replicas {
        let url = address(client).await;
        match look(options, client, (&url, &ids), &mut known).await {
            Ok(None) => {}
            Ok(Some(why)) | Err(Failure(why)) => known.silent.push((url, why)),
        }
        // A single process has responded to a request with this ID; it may have been sent on behalf of many others.
        let is_known =
            |id: &String| known.reasons.iter().any(|it| it.then.request.request_id == *id);
        if ids.iter().all(is_known) {
            break;
        }
    }
    if known.reasons.is_empty() {
        return Err(none_knows(known.silent));
    }
    if options.format.is_json() {
        let all: Vec<_> = known.reasons.iter().map(document).collect();
        return Ok(format!("{:#}", json!(all)));
    }
    let mut page = Page::new(Colours::of_stdout());
    if known.count > known.reasons.len() {
        let (shown, count) = (known.reasons.len(), known.count);
        page.toned(Tone::Heading, format_args!("The last {shown} of {count} requests:"));
        page.blank();
    }
    for (nth, reasons) in known.reasons.iter().enumerate() {
        if nth > 0 {
            page.blank();
        }
        if replicas.len() > 1 {
            page.line(format_args!("recorded by {}", reasons.replica));
        }
        described(&mut page, reasons);
    }
    Ok(page.finish())
}

async fn address(client: &Client) -> String {
    client.url().await.map_or_else(|error| error.to_string(), |url| url.to_string())
}

/// The error if no replica has the requests.
fn none_knows(mut silent: Vec<(String, String)>) -> Failure {
    if silent.len() == 1
        && let Some((_, why)) = silent.pop()
    {
        return Failure(why);
    }
    let all = silent.into_iter().map(|(url, why)| format!("{url}: {why}"));
    Failure(format!("no replica has this request: {}", all.collect::<Vec<_>>().join("; ")))
}

/// Adds one replica's records of requests, or returns why it has none.
async fn look(
    options: &WhyOptions,
    client: &Client,
    (url, ids): (&str, &[String]),
    known: &mut KnownRequests,
) -> Result<Option<String>, Failure> {
    let (before, mut missing) = (known.reasons.len(), None);
    for id in ids {
        let found = match find(client, id).await? {
            Ok(found) => found,
            Err(why) => {
                missing.get_or_insert(why);
                continue;
            }
        };
        known.count += found.count;
        for then in found.requests {
            let is_same =
                |it: &RequestReasons| it.then.request.request_id == then.request.request_id;
            if !known.reasons.iter().any(is_same) {
                let now = if options.then {
                    PresentOutcome::NotAsked
                } else {
                    now(client, &then).await?
                };
                known.reasons.push(RequestReasons { replica: url.to_owned(), then, now });
            }
        }
    }
    Ok(missing.filter(|_| known.reasons.len() == before))
}

/// The requests with an ID, or the error message of a server without a record.
async fn find(client: &Client, id: &str) -> Result<Result<FoundRequests, String>, Failure> {
    let answer = client.get(&format!("{PATH}/{id}"), Microversion::MAX).await.map_err(failure)?;
    if answer.status() != StatusCode::NOT_FOUND {
        let answer = answer.expect(StatusCode::OK).map_err(failure)?;
        return answer.json_as().map(Ok).map_err(failure);
    }
    let error = answer.json().ok();
    let detail = error.as_ref().and_then(|it| it.pointer("/errors/0/detail")?.as_str());
    // Other services have nothing at this path, and word the error differently.
    let own = detail.filter(|it| it.starts_with("This "));
    Ok(Err(own.map_or_else(|| explain::only_berth(&answer).0, escaped)))
}

/// Extracts the IDs from a copied text.
fn ids_of(text: &str) -> Vec<String> {
    let found = text.match_indices("req-").filter_map(|(at, _)| text.get(at..at + ID));
    let mut ids: Vec<String> = Vec::new();
    for id in found {
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    if ids.is_empty() {
        let is_plain = |it: &char| it.is_ascii_alphanumeric() || *it == '-' || *it == '_';
        ids.push(text.chars().filter(is_plain).collect());
    }
    ids
}

/// The present outcome of a request.
async fn now(client: &Client, then: &RefusedDetails) -> Result<PresentOutcome, Failure> {
    let RefusedRequest { kind, path, microversion, .. } = &then.request;
    let version = match microversion.parse() {
        Ok(version) => version,
        Err(why) => return Ok(PresentOutcome::Unknown(why)),
    };
    match kind.as_str() {
        "candidates" => {
            let query = path.split_once('?').map_or("", |(_, query)| query);
            match ask(client, query, version).await?.expect(StatusCode::OK) {
                Ok(answer) => answer
                    .json_as()
                    .map(|it| PresentOutcome::Explained(Box::new(it)))
                    .map_err(failure),
                Err(error) => Ok(PresentOutcome::Unknown(error.to_string())),
            }
        }
        "claim" if then.body.is_some() || then.body_bytes > 0 => {
            claim_now(client, then, version).await
        }
        // Only claims can be checked without being made.
        _ => Ok(PresentOutcome::NotAsked),
    }
}

/// The present outcome of a claim.
async fn claim_now(
    client: &Client,
    then: &RefusedDetails,
    version: Microversion,
) -> Result<PresentOutcome, Failure> {
    let Some(body) = &then.body else {
        return Ok(PresentOutcome::Unknown(
            "The claim is not kept, because it is too large.".to_owned(),
        ));
    };
    let consumer = then.request.path.strip_prefix("/allocations/");
    let question = (consumer, HOLDERS);
    match ask_of_claim(client, question, version, body).await?.expect(StatusCode::OK) {
        Ok(answer) => {
            answer.json_as().map(|it| PresentOutcome::Judged(Box::new(it))).map_err(failure)
        }
        Err(error) => Ok(PresentOutcome::Unknown(error.to_string())),
    }
}

fn document(reasons: &RequestReasons) -> serde_json::Value {
    let now = match &reasons.now {
        PresentOutcome::NotAsked => json!(null),
        PresentOutcome::Explained(explanation) => json!({"explanation": explanation}),
        PresentOutcome::Judged(explanation) => json!({"claim": explanation}),
        PresentOutcome::Unknown(why) => json!({"unknown": why}),
    };
    json!({"replica": reasons.replica, "then": reasons.then, "now": now})
}

#[cfg(test)]
mod tests;
