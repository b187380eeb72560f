//! `berth why`: explains why a request was refused or found nothing, at that time and now.

mod described;
mod listing;
mod records;

use reqwest::StatusCode;
use serde_json::json;

use self::described::{PresentOutcome, RequestReasons, described};
pub(super) use self::records::WhyOptions;
use self::records::{address, find};
use super::explain::{ClaimQuestion, ask};
use super::page::{Page, Tone};
use super::terminal::Colours;
use crate::http::operator::views::refused::{RefusedDetails, RefusedRequest};
use crate::moving::placement_client::{Client, Microversion};
use crate::server::failure::Failure;

/// The length of a request id.
const ID: usize = "req-01234567-89ab-cdef-0123-456789abcdef".len();

/// Maximum number of consumers that are listed for an inventory.
const HOLDERS: u16 = 10;

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

/// Records of the replicas about the requests in a text.
#[derive(Default)]
struct KnownRequests {
    reasons: Vec<RequestReasons>,
    /// Number of requests; each replica returns its latest ones.
    count: usize,
    /// Replicas without a record, or without a response: each with the reason.
    silent: Vec<(String, String)>,
}

impl KnownRequests {
    /// Adds one replica's records of requests, or returns why it has none.
    async fn look(
        &mut self,
        options: &WhyOptions,
        client: &Client,
        url: &str,
        ids: &[String],
    ) -> Result<Option<String>, Failure> {
        let (before, mut missing) = (self.reasons.len(), None);
        for id in ids {
            let found = match find(client, id).await? {
                Ok(found) => found,
                Err(why) => {
                    missing.get_or_insert(why);
                    continue;
                }
            };
            self.count += found.count;
            for then in found.requests {
                let is_same =
                    |it: &RequestReasons| it.then.request.request_id == then.request.request_id;
                if !self.reasons.iter().any(is_same) {
                    let now = if options.then {
                        PresentOutcome::NotAsked
                    } else {
                        now(client, &then).await?
                    };
                    self.reasons.push(RequestReasons { replica: url.to_owned(), then, now });
                }
            }
        }
        Ok(missing.filter(|_| self.reasons.len() == before))
    }
}

async fn why(options: &WhyOptions, replicas: &[Client], text: &str) -> Result<String, Failure> {
    let ids = ids_of(text);
    let mut known = KnownRequests::default();
    for client in replicas {
        let url = address(client).await;
        match known.look(options, client, &url, &ids).await {
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
                Ok(response) => Ok(PresentOutcome::Explained(Box::new(response.json_as()?))),
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
    let question = ClaimQuestion { consumer, holders: HOLDERS, version, body };
    match question.ask(client).await?.expect(StatusCode::OK) {
        Ok(response) => Ok(PresentOutcome::Judged(Box::new(response.json_as()?))),
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
