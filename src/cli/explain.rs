//! `berth explain`: explains the result of a query for allocation candidates, and whether a claim would be allowed.

use std::path::{Path, PathBuf};

use clap::Args;
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::claim_faults::explained;
use super::columns::FormatOptions;
use super::page::{Cell, Page, Tone};
use super::service::ServiceOptions;
use super::terminal::Colours;
use crate::http::operator::views::{Closest, Condition, Explanation};
use crate::http::pasted_query;
use crate::moving::placement_client::{Client, Microversion, ServiceResponse};
use crate::server::failure::Failure;

/// Path of the resource.
const PATH: &str = "/-/v1/explain";

/// Options of `explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainOptions {
    /// The query, in the form of `GET /allocation_candidates`.
    ///
    /// A line of a log with a path and `?` in front of the query is accepted as well. Quote it, because it contains
    /// `&`.
    #[arg(value_name = "QUERY", required_unless_present = "claim")]
    pub query: Option<String>,

    /// Explain a claim instead: a file with the body of `PUT /allocations/{consumer}` or `POST /allocations`; `-`:
    /// standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["query", "near_misses"])]
    pub claim: Option<PathBuf>,

    /// Consumer of the claim, for the body of `PUT /allocations/{consumer}`.
    #[arg(long, value_name = "UUID", requires = "claim")]
    pub consumer: Option<Uuid>,

    /// Maximum number of consumers that are listed for an inventory.
    #[arg(long, value_name = "COUNT", default_value = "10", requires = "claim",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub holders: u16,

    /// Microversion of the query or the claim.
    #[arg(long, value_name = "1.N", default_value_t = Microversion::MAX)]
    pub microversion: Microversion,

    /// Maximum number of near misses: hosts that fail a single condition.
    #[arg(long, value_name = "COUNT", default_value = "10",
          value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub near_misses: u16,

    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The server.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Runs `berth explain`, and returns its output.
///
/// # Errors
/// The server does not respond, or the query is invalid.
pub async fn run(options: &ExplainOptions) -> Result<String, Failure> {
    let client = options.service.reader()?;
    let Some(query) = &options.query else { return explain_claim(options, &client).await };
    let query = pasted_query(query);
    let query = format!("near_misses={}&{query}", options.near_misses);
    shown(ask(&client, &query, options.microversion).await?, options.format, text)
}

/// Explains the claim in the given file.
async fn explain_claim(options: &ExplainOptions, client: &Client) -> Result<String, Failure> {
    let path = options.claim.as_deref().map_or(Path::new("-"), |path| path);
    let read = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let failed = |why: String| Failure(format!("{}: {why}", path.display()));
    let text = read.map_err(|error| failed(error.to_string()))?;
    let body: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    if options.consumer.is_none() && body.get("allocations").is_some() {
        return Err(failed(
            "this is the body of PUT /allocations/{consumer}: name the consumer with --consumer"
                .to_owned(),
        ));
    }
    let consumer = options.consumer.map(|consumer| consumer.to_string());
    let (holders, version) = (options.holders, options.microversion);
    let question = ClaimQuestion { consumer: consumer.as_deref(), holders, version, body: &body };
    shown(question.ask(client).await?, options.format, |explanation, colours| {
        let mut page = Page::new(colours);
        explained(&mut page, explanation);
        page.finish()
    })
}

/// A claim to explain.
pub(super) struct ClaimQuestion<'a> {
    /// The consumer, if the body is that of `PUT /allocations/{consumer}`.
    pub(super) consumer: Option<&'a str>,
    /// Maximum number of consumers that are listed for an inventory.
    pub(super) holders: u16,
    pub(super) version: Microversion,
    pub(super) body: &'a Value,
}

impl ClaimQuestion<'_> {
    /// Requests the explanation.
    ///
    /// # Errors
    /// The server does not respond, or is not Berth.
    pub(super) async fn ask(&self, client: &Client) -> Result<ServiceResponse, Failure> {
        let mut path = format!("{PATH}?holders={}", self.holders);
        if let Some(consumer) = self.consumer {
            path.push_str("&consumer=");
            path.push_str(consumer);
        }
        let response = client.send(Method::POST, &path, self.version, Some(self.body)).await?;
        if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
            return Err(only_berth(&response));
        }
        Ok(response)
    }
}

/// Requests the explanation of a query.
///
/// # Errors
/// The server does not respond, or is not Berth.
pub(super) async fn ask(
    client: &Client,
    query: &str,
    version: Microversion,
) -> Result<ServiceResponse, Failure> {
    of_berth(client.get(&format!("{PATH}?{query}"), version).await?)
}

/// Checks that the service is Berth. OpenStack Placement has nothing at this path.
pub(super) fn of_berth(response: ServiceResponse) -> Result<ServiceResponse, Failure> {
    if response.status() == StatusCode::NOT_FOUND {
        return Err(only_berth(&response));
    }
    Ok(response)
}

/// The error for a service that lacks one of Berth's own paths.
pub(super) fn only_berth(response: &ServiceResponse) -> Failure {
    Failure(format!(
        "{} does not exist: only Berth has this, and not before this version",
        response.url()
    ))
}

/// Formats the response to a request for one of Berth's own resources, as JSON or by `text`.
///
/// # Errors
/// The service is not Berth, or refuses the request.
pub(super) fn shown<T: DeserializeOwned>(
    response: ServiceResponse,
    format: FormatOptions,
    text: impl FnOnce(&T, Colours) -> String,
) -> Result<String, Failure> {
    let response = of_berth(response)?.expect(StatusCode::OK)?;
    if format.is_json() {
        return Ok(format!("{:#}", response.json()?));
    }
    Ok(text(&response.json_as()?, Colours::of_stdout()))
}

fn text(it: &Explanation, colours: Colours) -> String {
    let mut page = Page::new(colours);
    add(&mut page, it);
    page.finish()
}

/// Prints an explanation.
pub(super) fn add(page: &mut Page, it: &Explanation) {
    page.toned(
        Tone::of(it.fitting > 0),
        format_args!("{} of {} hosts fit ({} providers).", it.fitting, it.hosts, it.providers),
    );
    if !it.complete {
        page.line(format_args!(
            "Not all hosts were examined, because that takes too long: counts are too small."
        ));
    }
    if it.undecided > 0 {
        page.line(format_args!("It is not decided whether {} others do.", it.undecided));
    }
    page.blank();
    let heads = ["CONDITION", "PROVIDERS", "HOSTS LEFT", "RULES OUT", "FIT WITHOUT IT", ""];
    // Conditions that combine others are shown only where they fail.
    let shown = it.conditions.iter().filter(|it| it.providers.is_some() || it.ruled_out > 0);
    page.table(heads, shown.map(|condition| row(condition, it.fitting)));
    if let Some(conflict) = &it.conflict {
        let one = conflict.conditions.len() == 1;
        page.blank();
        let words = if one { "No host meets" } else { "No host meets all of" };
        page.toned(Tone::Heading, format_args!("{words}"));
        for condition in &conflict.conditions {
            page.toned(Tone::Bad, format_args!("  {condition}"));
        }
    }
    if !it.near_misses.hosts.is_empty() {
        let (shown, count) = (it.near_misses.hosts.len(), it.near_misses.count);
        page.blank();
        page.toned(
            Tone::Heading,
            format_args!("Hosts that lack one thing only ({shown} of {count}):"),
        );
        page.rows(it.near_misses.hosts.iter().map(|near| {
            let missing = near.missing.map(|missing| format!("{missing} short"));
            [
                format!("  {}", near.host).into(),
                near.condition.clone().into(),
                Cell::new(Tone::Bad, missing.unwrap_or_default()),
            ]
        }));
    }
}

/// A row for a condition; `fitting` hosts meet all conditions.
fn row(it: &Condition, fitting: usize) -> [Cell; 6] {
    let closest = it.amount.as_ref().and_then(|amount| amount.closest.as_ref());
    let left = if it.left == 0 && it.ruled_out > 0 { Tone::Bad } else { Tone::Plain };
    // If no host fits, removing a condition that lets some fit is highlighted.
    let without = fitting == 0 && it.fitting_without > 0;
    let without = if without { Tone::Good } else { Tone::Plain };
    [
        it.condition.clone().into(),
        it.providers.map(|count| count.to_string()).unwrap_or_default().into(),
        Cell::new(left, it.left.to_string()),
        it.ruled_out.to_string().into(),
        Cell::new(without, it.fitting_without.to_string()),
        closest.map(most).unwrap_or_default().into(),
    ]
}

/// Describes the closest host.
fn most(it: &Closest) -> String {
    let Closest { host, available, capacity, used, total, reserved, .. } = it;
    match it.limit_value {
        Some(value) => format!("at most {available} on {host} ({} {value})", it.limit),
        None if *reserved > 0 => format!(
            "at most {available} on {host} ({used} of {capacity} used, {reserved} of {total} reserved)"
        ),
        None => format!("at most {available} on {host} ({used} of {capacity} used)"),
    }
}

#[cfg(test)]
mod tests {
    use super::{most, pasted_query, text};
    use crate::cli::terminal::Colours;
    use crate::http::operator::views::{
        Amount, Closest, Condition, Conflict, Explanation, NearMiss, NearMisses,
    };

    #[test]
    fn a_query_can_be_copied_from_a_log() {
        let query = "resources=VCPU:1&required=HW_X";
        for copied in [
            query.to_owned(),
            format!("/allocation_candidates?{query}"),
            format!("\"GET http://front:8778/allocation_candidates?{query} HTTP/1.1\" 200"),
        ] {
            assert_eq!(pasted_query(&copied), query, "{copied}");
        }
    }

    #[test]
    fn the_closest_host_is_named_with_what_is_reserved() {
        let closest = |limit: &str, limit_value| Closest {
            host: "cn1".to_owned(),
            available: 0,
            capacity: 0,
            used: 0,
            total: 32,
            reserved: 32,
            limit: limit.to_owned(),
            limit_value,
        };
        let reserved = "at most 0 on cn1 (0 of 0 used, 32 of 32 reserved)";
        assert_eq!(most(&closest("free", None)), reserved);
        assert_eq!(most(&closest("max_unit", Some(4))), "at most 0 on cn1 (max_unit 4)");
    }

    #[test]
    fn an_explanation_is_a_table_with_what_contradicts_and_what_is_near() {
        let closest = Closest {
            host: "cn2".to_owned(),
            available: 4,
            capacity: 16,
            used: 12,
            total: 4,
            reserved: 0,
            limit: "free".to_owned(),
            limit_value: None,
        };
        let condition = |condition: &str, left, ruled_out, fitting_without| Condition {
            condition: condition.to_owned(),
            kind: "required".to_owned(),
            group: Some(String::new()),
            providers: Some(left),
            left,
            ruled_out,
            fitting_without,
            amount: None,
        };
        let cores = Condition {
            amount: Some(Amount {
                resource_class: "VCPU".to_owned(),
                requested: 8,
                without_inventory: 0,
                closest: Some(closest),
            }),
            ..condition("resources=VCPU:8", 1, 2, 1)
        };
        let explanation = Explanation {
            providers: 3,
            hosts: 3,
            complete: true,
            fitting: 0,
            undecided: 0,
            conditions: vec![cores, condition("required=HW_X", 0, 1, 1)],
            conflict: Some(Conflict {
                conditions: vec!["resources=VCPU:8".to_owned(), "required=HW_X".to_owned()],
                smallest: true,
            }),
            near_misses: NearMisses {
                count: 1,
                hosts: vec![NearMiss {
                    host: "cn2".to_owned(),
                    condition: "resources=VCPU:8".to_owned(),
                    missing: Some(4),
                }],
            },
        };
        insta::assert_snapshot!(text(&explanation, Colours::None), @r"
        0 of 3 hosts fit (3 providers).

        CONDITION         PROVIDERS  HOSTS LEFT  RULES OUT  FIT WITHOUT IT
        resources=VCPU:8  1          1           2          1               at most 4 on cn2 (12 of 16 used)
        required=HW_X     0          0           1          1

        No host meets all of
          resources=VCPU:8
          required=HW_X

        Hosts that lack one thing only (1 of 1):
          cn2  resources=VCPU:8  4 short
        ");
    }
}
