//! `berth why`: why a request was refused or found nothing, as of then and as of now.

use std::fmt::Write;

use clap::Args;
use reqwest::StatusCode;
use serde_json::json;

use super::claim_faults::{explained, faulty};
use super::columns::{FormatOptions, columns};
use super::explain::{self, ask, ask_of_claim, failure};
use super::service::ServiceOptions;
use crate::operator_api::Explanation;
use crate::operator_api::claim::ClaimExplanation;
use crate::operator_api::refused::{
    Kept, RefusedDetails, RefusedFound, RefusedList, RefusedRequest,
};
use crate::placement_client::{Client, Microversion};
use crate::serve::Failure;

/// The path of the requests.
const PATH: &str = "/-/v1/refused";
/// The length of a request id.
const ID: usize = "req-01234567-89ab-cdef-0123-456789abcdef".len();

/// How many holders of an inventory are named.
const HOLDERS: u16 = 10;

/// Options of `why`.
#[derive(Args, Clone, Debug)]
pub struct WhyOptions {
    /// Id of the request, or of the request on whose behalf it was sent: the `req-...` in the log of nova.
    ///
    /// A whole line of a log is understood as well. Without it, the last requests are listed that were
    /// refused or found nothing.
    #[arg(value_name = "REQUEST_ID")]
    pub request_id: Option<String>,

    /// List only requests of this kind: `candidates`, `claim` or `reshape`.
    #[arg(long, value_name = "KIND", conflicts_with = "request_id")]
    pub kind: Option<String>,

    /// List only requests of callers with this project.
    #[arg(long, value_name = "ID", conflicts_with = "request_id")]
    pub project: Option<String>,

    /// List only requests of this user.
    #[arg(long, value_name = "ID", conflicts_with = "request_id")]
    pub user: Option<String>,

    /// List only requests of the last so many seconds.
    #[arg(long, value_name = "COUNT", conflicts_with = "request_id")]
    pub seconds: Option<u32>,

    /// List at most so many requests.
    #[arg(long, value_name = "COUNT", default_value = "50",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,

    /// Do not ask how it is now.
    #[arg(long)]
    pub then: bool,

    /// How the reasons are printed.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The server.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Runs `berth why`, and returns the text that it prints.
///
/// # Errors
/// The server cannot be asked, or knows no such request.
pub async fn run(options: &WhyOptions) -> Result<String, Failure> {
    let client = options.service.client().map_err(Failure)?;
    match &options.request_id {
        None => list(options, &client).await,
        Some(text) => why(options, &client, text).await,
    }
}

/// A request, and how it would be now.
struct Reasons {
    then: RefusedDetails,
    now: Now,
}

/// How a request would be now.
enum Now {
    /// That was not asked.
    NotAsked,
    /// What the conditions of a query leave.
    Explained(Box<Explanation>),
    /// What would come of a claim.
    Judged(Box<ClaimExplanation>),
    /// It cannot be said, for this reason.
    Unknown(String),
}

async fn why(options: &WhyOptions, client: &Client, text: &str) -> Result<String, Failure> {
    let ids = ids_of(text);
    let (mut reasons, mut count, mut missing) = (Vec::new(), 0, None);
    for id in &ids {
        let found = match find(client, id).await? {
            Ok(found) => found,
            Err(why) => {
                missing.get_or_insert(why);
                continue;
            }
        };
        count += found.count;
        for then in found.requests {
            let known = |it: &Reasons| it.then.request.request_id == then.request.request_id;
            if !reasons.iter().any(known) {
                let now = if options.then { Now::NotAsked } else { now(client, &then).await? };
                reasons.push(Reasons { then, now });
            }
        }
    }
    if let (true, Some(why)) = (reasons.is_empty(), missing) {
        return Err(Failure(why));
    }
    if options.format.is_json() {
        let all: Vec<_> = reasons.iter().map(document).collect();
        return Ok(format!("{:#}", json!(all)));
    }
    let mut text = String::new();
    if count > reasons.len() {
        line(&mut text, &format!("The last {} of {count} requests:\n", reasons.len()));
    }
    let all: Vec<String> = reasons.iter().map(described).collect();
    Ok(text + &all.join("\n\n"))
}

/// The requests with an id, or the sentence of a server that knows none.
async fn find(client: &Client, id: &str) -> Result<Result<RefusedFound, String>, Failure> {
    let answer = client.get(&format!("{PATH}/{id}"), Microversion::MAX).await.map_err(failure)?;
    if answer.status() != StatusCode::NOT_FOUND {
        let answer = answer.expect(StatusCode::OK).map_err(failure)?;
        return answer.json_as().map(Ok).map_err(failure);
    }
    let error = answer.json().ok();
    let detail = error.as_ref().and_then(|it| it.pointer("/errors/0/detail")?.as_str());
    // Other services have nothing at this path, and say so in other words.
    let own = detail.filter(|it| it.starts_with("This "));
    Ok(Err(own.map_or_else(|| explain::only_berth(&answer).0, str::to_owned)))
}

/// The ids in what somebody has copied.
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

/// How a request would be now.
async fn now(client: &Client, then: &RefusedDetails) -> Result<Now, Failure> {
    let RefusedRequest { kind, path, microversion, .. } = &then.request;
    let version = match microversion.parse() {
        Ok(version) => version,
        Err(why) => return Ok(Now::Unknown(why)),
    };
    match kind.as_str() {
        "candidates" => {
            let query = path.split_once('?').map_or("", |(_, query)| query);
            match ask(client, query, version).await?.expect(StatusCode::OK) {
                Ok(answer) => {
                    answer.json_as().map(|it| Now::Explained(Box::new(it))).map_err(failure)
                }
                Err(error) => Ok(Now::Unknown(error.to_string())),
            }
        }
        "claim" => claim_now(client, then, version).await,
        // What a reshaping would come to depends on inventories that are not there yet.
        _ => Ok(Now::NotAsked),
    }
}

/// What would come of a claim now.
async fn claim_now(
    client: &Client,
    then: &RefusedDetails,
    version: Microversion,
) -> Result<Now, Failure> {
    let Some(body) = &then.body else {
        return Ok(Now::Unknown("The claim is not kept, because it is too large.".to_owned()));
    };
    let consumer = then.request.path.strip_prefix("/allocations/");
    let question = (consumer, HOLDERS);
    match ask_of_claim(client, question, version, body).await?.expect(StatusCode::OK) {
        Ok(answer) => answer.json_as().map(|it| Now::Judged(Box::new(it))).map_err(failure),
        Err(error) => Ok(Now::Unknown(error.to_string())),
    }
}

async fn list(options: &WhyOptions, client: &Client) -> Result<String, Failure> {
    let mut path = format!("{PATH}?limit={}", options.limit);
    let seconds = options.seconds.map(|seconds| seconds.to_string());
    for (name, value) in [
        ("kind", &options.kind),
        ("project", &options.project),
        ("user", &options.user),
        ("seconds", &seconds),
    ] {
        if let Some(value) = value {
            let all = percent_encoding::NON_ALPHANUMERIC;
            let value = percent_encoding::utf8_percent_encode(value, all);
            // Writing to a string cannot fail.
            let _ = write!(path, "&{name}={value}");
        }
    }
    let answer = client.get(&path, Microversion::MAX).await.map_err(failure)?;
    if answer.status() == StatusCode::NOT_FOUND {
        let turned_off = find(client, "none").await?;
        return Err(turned_off.map_or_else(Failure, |_| explain::only_berth(&answer)));
    }
    let answer = answer.expect(StatusCode::OK).map_err(failure)?;
    if options.format.is_json() {
        answer.json().map(|json| format!("{json:#}")).map_err(failure)
    } else {
        answer.json_as().map(|it| listed(&it)).map_err(failure)
    }
}

fn listed(list: &RefusedList) -> String {
    let RefusedList { kept, requests } = list;
    let Kept { since, age_max, requests: count, .. } = kept;
    if requests.is_empty() {
        return format!(
            "No request was refused or found nothing, of those that this process has answered since \
             {since} and keeps for {age_max} seconds ({count} in all)."
        );
    }
    let heads = ["TIME", "REQUEST", "GLOBAL REQUEST", "PROJECT", "STATUS", "WHAT", "ERROR"];
    let none = || "-".to_owned();
    columns(
        heads,
        requests.iter().map(|it| {
            [
                it.at.clone(),
                it.request_id.clone(),
                it.global_request_id.clone().unwrap_or_else(none),
                it.project_id.clone().unwrap_or_else(none),
                it.status.to_string(),
                shortened(&format!("{} {}", it.method, it.path), 80),
                it.error.as_deref().map_or_else(String::new, |error| shortened(error, 60)),
            ]
        }),
    )
}

/// A text in one line of at most so many characters.
fn shortened(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(3)).chain("...".chars()).collect()
}

fn document(reasons: &Reasons) -> serde_json::Value {
    let now = match &reasons.now {
        Now::NotAsked => json!(null),
        Now::Explained(explanation) => json!({"explanation": explanation}),
        Now::Judged(explanation) => json!({"claim": explanation}),
        Now::Unknown(why) => json!({"unknown": why}),
    };
    json!({"then": reasons.then, "now": now})
}

/// A request and its reasons, for people.
fn described(reasons: &Reasons) -> String {
    let RefusedDetails { request, explanation, faults, left_out, .. } = &reasons.then;
    let mut text = format!("{}  {}\n", request.at, request.request_id);
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    if request.global_request_id.is_some() {
        line(&mut text, &format!("on behalf of {}", or_none(&request.global_request_id)));
    }
    let (project, user) = (or_none(&request.project_id), or_none(&request.user_id));
    line(&mut text, &format!("project {project}, user {user}"));
    let RefusedRequest { method, path, microversion, status, .. } = request;
    line(&mut text, &format!("{method} {path}"));
    line(&mut text, &format!("at microversion {microversion}, answered with {status}"));
    match &request.error {
        Some(error) => line(&mut text, &shortened(error, usize::MAX)),
        None => line(&mut text, "There were no allocation candidates."),
    }
    text.push_str("\nTHEN\n");
    match (explanation, faults, left_out) {
        (Some(explanation), ..) => text.push_str(&explain::text(explanation)),
        (_, Some(faults), _) => text.push_str(&faulty(faults)),
        (_, _, left_out) => line(&mut text, missing(left_out.as_deref())),
    }
    match &reasons.now {
        Now::NotAsked => {}
        Now::Explained(explanation) => {
            text.push_str("\nNOW\n");
            text.push_str(&explain::text(explanation));
        }
        Now::Judged(explanation) => {
            text.push_str("\nNOW\n");
            text.push_str(&explained(explanation));
        }
        Now::Unknown(why) => line(&mut text, &format!("\nNOW\n{why}")),
    }
    text.trim_end().to_owned()
}

/// Why there are no reasons.
fn missing(left_out: Option<&str>) -> &'static str {
    match left_out {
        Some("pending") => "The conditions are being counted. Ask again in a moment.",
        Some("busy") => {
            "The conditions were not counted: many queries found nothing at the same time."
        }
        Some("too_large") => "The reasons are not kept, because they are too large.",
        Some("not_counted") => "The query names something that did not exist.",
        _ => "The reasons are not known.",
    }
}

fn line(text: &mut String, words: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{words}");
}

#[cfg(test)]
mod tests;
