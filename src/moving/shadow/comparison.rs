//! Compares the responses of both services.

use super::exchange::{Incomparable, RequestHead, TimedResponse};
use super::records::{RecordedDifference, Records, shortened};
use super::route;
use super::tally::{DifferenceKind, Outcome, Tally};
use crate::moving::compare::known::{Rule, known, without_undefined};
use crate::moving::compare::response::{Difference, Rules, differences};

/// Modification times come from each service's own database.
const RULES: Rules = Rules {
    provider_generations: true,
    consumer_generations: true,
    times: false,
    error_texts: true,
};
/// Maximum number of characters of a value in an example.
const VALUE_MAX: usize = 100;

/// Result of comparing two responses.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// Equal responses.
    Same,
    /// A difference explained by a rule.
    Known(&'static Rule, Vec<Difference>),
    /// An unexplained difference.
    Different(Vec<Difference>),
}

/// Compares the responses to a request with this body.
///
/// # Errors
/// A response cannot be decoded.
pub(super) fn compare(
    head: &RequestHead,
    body: &[u8],
    upstream: &TimedResponse,
    berth: &TimedResponse,
) -> Result<Verdict, Incomparable> {
    if upstream.is_literally(berth) {
        return Ok(Verdict::Same);
    }
    let (left, right) = (upstream.comparable()?, berth.comparable()?);
    let found = differences(&left, &right, RULES);
    if found.is_empty() {
        return Ok(Verdict::Same);
    }
    let request = head.compared_request(body);
    let found = without_undefined(&request, &left, &right, found);
    Ok(match known(&request, &left, &right, &found) {
        _ if found.is_empty() => Verdict::Same,
        Some(rule) => Verdict::Known(rule, found),
        None => Verdict::Different(found),
    })
}

/// Counts and records differences.
pub(super) struct Report {
    pub(super) tally: std::sync::Arc<Tally>,
    pub(super) records: Option<Records>,
}

impl Report {
    /// Counts and records a difference.
    pub(super) fn add(&self, found: &RecordedDifference<'_>) {
        self.tally.compared(found.head.kind(), found.outcome);
        if let Some(rule) = found.known {
            self.tally.differed_as_known(rule);
        } else {
            let (kind, example) = described(found);
            tracing::info!(route = kind.route, place = kind.place, example, "the responses differ");
            self.tally.differed(kind, example);
        }
        if let Some(records) = &self.records {
            records.add(found);
        }
    }
}

/// The kind of a difference, and an example as text.
fn described(found: &RecordedDifference<'_>) -> (DifferenceKind, String) {
    let head = found.head;
    let (status, other) = (found.upstream.status.as_u16(), found.berth.status.as_u16());
    let differences = found.differences;
    // Whenever something differs, generations may differ too.
    let first = differences.iter().find(|it| !is_generation(it)).or_else(|| differences.first());
    let place = match first {
        _ if status != other => format!("status {status} / {other}"),
        Some(first) => kind_of_place(first),
        None => "body".to_owned(),
    };
    let prefix = if found.outcome == Outcome::Refused { "refused: " } else { "" };
    let route = format!("{prefix}{} {}", head.method, head.route());
    let value = |value: Option<&serde_json::Value>| {
        value.map_or("nothing".to_owned(), |it| shortened(&it.to_string(), VALUE_MAX))
    };
    let values = first.map_or_else(String::new, |it| {
        format!(": {} is {} / {}", it.place(), value(it.left.as_ref()), value(it.right.as_ref()))
    });
    let target = shortened(head.target(), VALUE_MAX * 2);
    let example = format!("{} {target}{values}", head.method);
    (DifferenceKind { route, place }, example)
}

fn is_generation(difference: &Difference) -> bool {
    difference.path.last().is_some_and(|it| it.ends_with("generation"))
}

/// A place without the identifiers of objects.
fn kind_of_place(difference: &Difference) -> String {
    let parts: Vec<String> = difference.path.iter().map(|part| route::pattern(part)).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::http::{HeaderMap, Method, StatusCode};

    use super::super::copied_body::Budget;
    use super::{
        Outcome, RecordedDifference, Report, RequestHead, TimedResponse, Verdict, compare,
    };
    use crate::moving::shadow::tally::Tally;

    fn answered(status: StatusCode, body: &str) -> TimedResponse {
        let mut copy = Budget::new(1000).copy(1000);
        copy.add(body.as_bytes()).unwrap();
        TimedResponse { status, headers: HeaderMap::new(), body: copy, took: Duration::ZERO }
    }

    fn head(target: &str) -> RequestHead {
        let uri = target.parse().unwrap();
        RequestHead { method: Method::GET, uri, headers: HeaderMap::new() }
    }

    #[test]
    fn answers_are_the_same_known_or_different() {
        let ask = |target: &str, one: &TimedResponse, other: &TimedResponse| match compare(
            &head(target),
            b"",
            one,
            other,
        )
        .unwrap()
        {
            Verdict::Same => "same",
            Verdict::Known(rule, _) => rule.id,
            Verdict::Different(_) => "different",
        };
        let ok = answered(StatusCode::OK, r#"{"usages": {"VCPU": 1, "MEMORY_MB": 2}}"#);
        let other_order = answered(StatusCode::OK, r#"{"usages": {"MEMORY_MB": 2, "VCPU": 1}}"#);
        let other = answered(StatusCode::OK, r#"{"usages": {"VCPU": 1, "MEMORY_MB": 3}}"#);
        let failed = answered(StatusCode::INTERNAL_SERVER_ERROR, "{}");
        assert_eq!(ask("/usages", &ok, &other_order), "same");
        assert_eq!(ask("/usages", &ok, &other), "different");
        assert_eq!(ask("/usages", &failed, &ok), "R3");
        assert_eq!(ask("/traits", &failed, &ok), "different");
    }

    #[test]
    fn differences_are_counted_by_kind() {
        let tally = Arc::new(Tally::default());
        let report = Report { tally: Arc::clone(&tally), records: None };
        let body = |used: u8| {
            format!(r#"{{"resource_provider_generation": {used}, "usages": {{"VCPU": {used}}}}}"#)
        };
        let one = answered(StatusCode::OK, &body(1));
        let other = answered(StatusCode::OK, &body(2));
        for uuid in ["4e8e5957-649f-477b-9e5b-f1f75b21c03c", "9b8e5957-649f-477b-9e5b-f1f75b21c03c"]
        {
            let head = head(&format!("/resource_providers/{uuid}/usages"));
            let verdict = compare(&head, b"", &one, &other).unwrap();
            let Verdict::Different(differences) = verdict else { panic!("{verdict:?}") };
            report.add(&RecordedDifference {
                head: &head,
                body: b"",
                upstream: &one,
                berth: &other,
                outcome: Outcome::Different,
                known: None,
                confirmations: 2,
                differences: &differences,
            });
        }
        let found = tally.snapshot().differences;
        let (kind, counted) = found.first_key_value().unwrap();
        assert_eq!((found.len(), counted.count), (1, 2));
        assert_eq!(kind.route, "GET /resource_providers/{uuid}/usages");
        assert_eq!(kind.place, "body/usages/VCPU");
        assert!(
            counted.example.ends_with("usages: body/usages/VCPU is 1 / 2"),
            "{}",
            counted.example
        );
    }
}
