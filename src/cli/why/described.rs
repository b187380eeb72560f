//! Describes a request that was refused or found nothing.

use super::listing::shortened;
use crate::cli::claim_faults::{explained, faulty};
use crate::cli::explain;
use crate::cli::page::{Page, Tone};
use crate::http::operator::views::Explanation;
use crate::http::operator::views::claim::ClaimExplanation;
use crate::http::operator::views::refused::{RefusedDetails, RefusedRequest};

/// A request, and its present outcome.
pub(super) struct RequestReasons {
    /// Address of the replica that has the record.
    pub(super) replica: String,
    pub(super) then: RefusedDetails,
    pub(super) now: PresentOutcome,
}

/// Present outcome of a request.
pub(super) enum PresentOutcome {
    /// Not checked.
    NotAsked,
    /// Conditions of a query, with the hosts that they leave.
    Explained(Box<Explanation>),
    /// Outcome of a claim.
    Judged(Box<ClaimExplanation>),
    /// Unknown, with the reason.
    Unknown(String),
}

/// Prints a request and its reasons.
pub(super) fn described(page: &mut Page, reasons: &RequestReasons) {
    let RefusedDetails { request, explanation, faults, left_out, .. } = &reasons.then;
    page.toned(Tone::Heading, format_args!("{}  {}", request.at, request.request_id));
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    if let Some(global) = &request.global_request_id {
        page.line(format_args!("on behalf of {global}"));
    }
    let (project, user) = (or_none(&request.project_id), or_none(&request.user_id));
    page.line(format_args!("project {project}, user {user}"));
    let RefusedRequest { method, path, microversion, status, .. } = request;
    page.line(format_args!("{method} {path}"));
    page.line(format_args!("at microversion {microversion}, answered with {status}"));
    match &request.error {
        Some(error) => page.toned(Tone::Bad, format_args!("{}", shortened(error, usize::MAX))),
        None => page.toned(Tone::Bad, format_args!("There were no allocation candidates.")),
    }
    page.blank();
    page.toned(Tone::Heading, format_args!("THEN"));
    match (explanation, faults, left_out) {
        (Some(explanation), ..) => explain::add(page, explanation),
        (_, Some(faults), _) => faulty(page, faults),
        (_, _, left_out) => page.line(format_args!("{}", missing(left_out.as_deref()))),
    }
    if let PresentOutcome::NotAsked = reasons.now {
        return;
    }
    page.blank();
    page.toned(Tone::Heading, format_args!("NOW"));
    match &reasons.now {
        PresentOutcome::NotAsked => {}
        PresentOutcome::Explained(explanation) => explain::add(page, explanation),
        PresentOutcome::Judged(explanation) => explained(page, explanation),
        PresentOutcome::Unknown(why) => page.line(format_args!("{why}")),
    }
}

/// Explains why reasons are missing.
fn missing(left_out: Option<&str>) -> &'static str {
    match left_out {
        Some("pending") => "The conditions are being counted. Ask again in a moment.",
        Some("busy") => {
            "The conditions were not counted: many queries found nothing at the same time."
        }
        Some("too_large") => "The reasons are not kept, because they are too large.",
        Some("in_error") => "The response says all that is known.",
        Some("not_counted") => "The query names something that did not exist.",
        _ => "The reasons are unknown.",
    }
}
