//! `/-/v1/refused`: requests that were refused or found nothing, with the reasons.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use serde::de::DeserializeOwned;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::context::{Problem, RequestCaller};
use super::costly;
use super::requests::without_parameters;
use super::views::refused as view;
use crate::http::api::extract::path_parts;
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::query::pairs;
use crate::http::api::refused::{Kind, RefusalFacts, Refused, RefusedRequests, Status};
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::model::Bug;

/// Default and maximum number of requests in a list.
const LISTED: usize = 50;
const LISTED_MAX: usize = 1000;
/// The parameters of the list.
pub(super) const LIST_QUERY: [Parameter; 5] = [
    Parameter::new(
        "kind",
        ParameterKind::Text,
        "Only requests of this kind, such as `candidates` or `claim`.",
    ),
    Parameter::new("project", ParameterKind::Text, "Only requests of this project."),
    Parameter::new("user", ParameterKind::Text, "Only requests of this user."),
    Parameter::new("seconds", ParameterKind::Number(0, None), "Only requests of the last seconds."),
    Parameter::new(
        "limit",
        ParameterKind::Number(1, Some(LISTED_MAX)),
        "Maximum number of requests.",
    ),
];
/// Maximum number of requests with one id that are shown in detail.
pub(in crate::http) const SHOWN_MAX: usize = 20;
/// Number of requests that are examined while the list is locked.
const PART: usize = 256;

path_parts! {
    Problem;
    /// The id of a request.
    RequestIdPath = "request_id";
}

/// `GET /-/v1/refused`: the latest requests that were refused or found nothing, newest first.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    uri: Uri,
) -> Result<Reply, Problem> {
    let filter = Filter::of(uri.query(), app.now())?;
    let Some(status) = app.refused.status(app.now()) else { return Err(turned_off()) };
    let refused = app.refused.clone();
    let list = move || {
        let requests = filter.find(&refused).iter().map(|it| summary(it)).collect();
        Reply::json(&view::RefusedList { kept: kept(&status), requests })
    };
    costly::run(&app, caller.requester(), list).await
}

/// `GET /-/v1/refused/{request_id}`: details of the requests with an id, which is their own or that
/// of the client's request.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    RequestIdPath(id): RequestIdPath,
    uri: Uri,
) -> Result<Reply, Problem> {
    without_parameters(&uri)?;
    let now = app.now();
    let Some(status) = app.refused.status(now) else { return Err(turned_off()) };
    let (found, count) = app.refused.with_id(&id, SHOWN_MAX, now);
    if found.is_empty() {
        return Err(unknown(&id, &status));
    }
    let list = move || {
        let requests = found.iter().map(|refused| details(refused)).collect();
        Reply::json(&view::FoundRequests { count, requests })
    };
    costly::run(&app, caller.requester(), list).await
}

pub(in crate::http) fn turned_off() -> Problem {
    Problem::not_found("This server keeps no refused requests: --refused-requests is 0")
}

pub(in crate::http) fn unknown(id: &str, status: &Status) -> Problem {
    let Status { settings, since, .. } = status;
    Problem::not_found(format!(
        "This process knows no request {id} that was refused or found nothing. It keeps up to {} of them, for \
         {} seconds, since {}, and only those that it has answered itself: with several replicas, ask each of \
         them.",
        settings.requests,
        settings.age.as_secs(),
        rfc_3339(*since)
    ))
}

/// The filter of a list.
struct Filter {
    kind: Option<Kind>,
    project: Option<String>,
    user: Option<String>,
    /// The earliest second, since the Unix epoch.
    since: i64,
    limit: usize,
}

impl Filter {
    fn of(query: Option<&str>, now: i64) -> Result<Self, Problem> {
        let mut filter =
            Self { kind: None, project: None, user: None, since: i64::MIN, limit: LISTED };
        let Some(query) = query else { return Ok(filter) };
        let wrong = |why: String| Problem::bad_request(format!("Invalid query: {why}"));
        let mut known = HashSet::new();
        for (name, value) in pairs(query, &['&']).map_err(wrong)? {
            if !known.insert(name.clone()) {
                return Err(wrong(format!("{name} can be given only once")));
            }
            match name.as_str() {
                "kind" => {
                    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == value);
                    let names = || Kind::ALL.map(Kind::name).join(", ");
                    let none = || wrong(format!("kind must be one of {}, not {value}", names()));
                    filter.kind = Some(kind.ok_or_else(none)?);
                }
                "project" => filter.project = Some(value),
                "user" => filter.user = Some(value),
                "seconds" => {
                    let seconds = value.parse().ok().filter(|it| *it >= 0_i64);
                    let none = || wrong(format!("seconds must be a number, not {value}"));
                    filter.since = now.saturating_sub(seconds.ok_or_else(none)?);
                }
                "limit" => {
                    let limit = value.parse().ok().filter(|it| (1..=LISTED_MAX).contains(it));
                    let none = || wrong(format!("limit must be 1 to {LISTED_MAX}, not {value}"));
                    filter.limit = limit.ok_or_else(none)?;
                }
                _ => {
                    return Err(wrong(format!(
                        "{name} is not one of kind, project, user, seconds and limit"
                    )));
                }
            }
        }
        Ok(filter)
    }

    fn passes(&self, refused: &Refused) -> bool {
        let is =
            |filter: &Option<String>, value: &Option<String>| filter.is_none() || filter == value;
        self.kind.is_none_or(|kind| kind == refused.kind)
            && is(&self.project, &refused.project)
            && is(&self.user, &refused.user)
            && refused.at >= self.since
    }

    /// Returns the requests. Examines a part at a time, so that others need not wait long for the
    /// lock.
    fn find(&self, refused: &RefusedRequests) -> Vec<Arc<Refused>> {
        let (mut found, mut next) = (Vec::new(), Some(u64::MAX));
        while let Some(before) = next {
            let (part, rest) = refused.before(before, PART);
            found.extend(part.into_iter().filter(|it| self.passes(it)));
            next = rest.filter(|_| found.len() < self.limit);
        }
        found.truncate(self.limit);
        found
    }
}

fn kept(status: &Status) -> view::RefusedStatistics {
    let Status { settings, since, requests, bytes, gone, not_counted } = status;
    view::RefusedStatistics {
        since: rfc_3339(*since),
        requests: *requests,
        bytes: *bytes,
        requests_max: settings.requests,
        bytes_max: settings.bytes,
        age_max: Duration::as_secs(&settings.age),
        gone_by_age: gone.age,
        gone_by_requests: gone.entries,
        gone_by_bytes: gone.bytes,
        not_counted: *not_counted,
    }
}

fn summary(refused: &Refused) -> view::RefusedRequest {
    view::RefusedRequest {
        request_id: refused.request_id.clone(),
        global_request_id: refused.global_request_id.clone(),
        at: rfc_3339(refused.at),
        kind: refused.kind.name().to_owned(),
        method: refused.method.to_string(),
        path: refused.path.clone(),
        microversion: refused.microversion.clone(),
        project_id: refused.project.clone(),
        user_id: refused.user.clone(),
        status: refused.status,
        error: refused.error.clone(),
    }
}

/// Returns the view of a kept request.
pub(in crate::http) fn details(refused: &Refused) -> view::RefusedDetails {
    let mut details = view::RefusedDetails {
        request: summary(refused),
        // Refused before it was parsed, a body may be no JSON.
        body: refused.body.as_deref().and_then(|body| serde_json::from_str(body).ok()),
        body_bytes: refused.body_bytes,
        explanation: None,
        faults: None,
        left_out: None,
    };
    match (refused.facts(), refused.kind) {
        (RefusalFacts::Omitted(why), _) => details.left_out = Some(why.to_owned()),
        (RefusalFacts::Known(text), Kind::Candidates) => details.explanation = Some(read(&text)),
        (RefusalFacts::Known(text), _) => details.faults = Some(read(&text)),
    }
    details
}

/// Parses JSON that was written by this process.
fn read<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json)
        .unwrap_or_else(|error| Bug::raise(format!("a kept text is not what it was: {error}")))
}

/// Formats seconds since the Unix epoch as RFC 3339.
pub(in crate::http) fn rfc_3339(seconds: i64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let text = moment.and_then(|moment| moment.format(&Rfc3339).ok());
    text.unwrap_or_else(|| Bug::raise(format!("the moment {seconds} as a date")))
}
