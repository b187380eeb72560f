//! Lists the requests that were refused or found nothing.

use std::fmt::Write;

use reqwest::StatusCode;
use serde_json::json;

use super::records::{PATH, WhyOptions, address, find};
use crate::cli::columns::or_dash;
use crate::cli::explain::only_berth;
use crate::cli::page::{Cell, Page, Tone};
use crate::cli::terminal::Colours;
use crate::http::operator::views::refused::{RefusedList, RefusedStatistics};
use crate::moving::placement_client::{Client, Microversion, ServiceResponse};
use crate::observe::printable::acts;
use crate::server::failure::Failure;

/// The latest requests that were refused or found nothing: those of one replica, or of each in turn.
///
/// # Errors
/// A server does not respond, or keeps no requests.
pub(super) async fn list(options: &WhyOptions, replicas: &[Client]) -> Result<String, Failure> {
    let mut page = Page::new(Colours::of_stdout());
    let mut documents = Vec::new();
    for client in replicas {
        let response = ask(options, client).await?;
        if options.format.is_json() {
            let mut json = response.json()?;
            if let Some(fields) = json.as_object_mut().filter(|_| replicas.len() > 1) {
                fields.insert("replica".to_owned(), json!(address(client).await));
            }
            documents.push(json);
            continue;
        }
        if !page.is_empty() {
            page.blank();
        }
        if replicas.len() > 1 {
            page.toned(Tone::Heading, format_args!("{}", address(client).await));
        }
        listed(&mut page, &response.json_as()?);
    }
    Ok(match documents.as_slice() {
        [] => page.finish(),
        [only] => format!("{only:#}"),
        all => format!("{:#}", json!(all)),
    })
}

async fn ask(options: &WhyOptions, client: &Client) -> Result<ServiceResponse, Failure> {
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
    let response = client.get(&path, Microversion::MAX).await?;
    if response.status() == StatusCode::NOT_FOUND {
        let turned_off = find(client, "none").await?;
        return Err(turned_off.map_or_else(Failure, |_| only_berth(&response)));
    }
    Ok(response.expect(StatusCode::OK)?)
}

fn listed(page: &mut Page, list: &RefusedList) {
    let RefusedList { kept, requests } = list;
    let RefusedStatistics { since, age_max, requests: count, .. } = kept;
    if requests.is_empty() {
        page.line(format_args!(
            "No request was refused or found nothing, of those that this process has answered since \
             {since} and keeps for {age_max} seconds ({count} in all)."
        ));
        return;
    }
    let heads = ["TIME", "REQUEST", "GLOBAL REQUEST", "PROJECT", "STATUS", "WHAT", "ERROR"];
    page.table(
        heads,
        requests.iter().map(|it| {
            [
                it.at.clone(),
                it.request_id.clone(),
                or_dash(it.global_request_id.as_ref()),
                or_dash(it.project_id.as_ref()),
                it.status.to_string(),
                shortened(&format!("{} {}", it.method, it.path), 80),
                it.error.as_deref().map_or_else(String::new, |error| shortened(error, 60)),
            ]
            .map(Cell::from)
        }),
    );
}

/// Truncates a text to one line of at most `most` characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|it| if acts(it) { ' ' } else { it }).collect();
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(3)).chain("...".chars()).collect()
}
