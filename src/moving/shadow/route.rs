//! Classifies a request: its route, whether it is a read, and the UUIDs that it names.

use std::collections::BTreeSet;

use axum::http::Method;
use uuid::Uuid;

/// Length of a UUID with dashes, and position of its first dash.
const UUID_LENGTH: usize = 36;
const FIRST_DASH: usize = 8;
/// Maximum number of UUIDs that are read from one message.
const UUIDS_MAX: usize = 10_000;
/// Maximum number of path segments before those of the API: `/placement`.
const PREFIX_MAX: usize = 3;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A read.
    Read,
    /// A request that may change something.
    Write,
}

impl Kind {
    pub(super) fn of(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD | Method::OPTIONS => Self::Read,
            _ => Self::Write,
        }
    }

    /// Label in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The route of a path, such as `/resource_providers/{uuid}`, without a prefix; `other` if the API has no such route.
pub(super) fn route(path: &str) -> &'static str {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if segments.is_empty() {
        return "/";
    }
    let mut own = (0..=PREFIX_MAX).filter_map(|prefix| segments.get(prefix..));
    own.find_map(of_segments).unwrap_or("other")
}

fn of_segments(segments: &[&str]) -> Option<&'static str> {
    Some(match segments {
        ["resource_providers"] => "/resource_providers",
        ["resource_providers", _] => "/resource_providers/{uuid}",
        ["resource_providers", _, "inventories"] => "/resource_providers/{uuid}/inventories",
        ["resource_providers", _, "inventories", _] => {
            "/resource_providers/{uuid}/inventories/{resource_class}"
        }
        ["resource_providers", _, "usages"] => "/resource_providers/{uuid}/usages",
        ["resource_providers", _, "traits"] => "/resource_providers/{uuid}/traits",
        ["resource_providers", _, "aggregates"] => "/resource_providers/{uuid}/aggregates",
        ["resource_providers", _, "allocations"] => "/resource_providers/{uuid}/allocations",
        ["resource_classes"] => "/resource_classes",
        ["resource_classes", _] => "/resource_classes/{name}",
        ["traits"] => "/traits",
        ["traits", _] => "/traits/{name}",
        ["allocations"] => "/allocations",
        ["allocations", _] => "/allocations/{consumer_uuid}",
        ["allocation_candidates"] => "/allocation_candidates",
        ["usages"] => "/usages",
        ["reshaper"] => "/reshaper",
        _ => return None,
    })
}

/// The UUIDs in a text, and whether these are all.
pub(super) fn uuids(text: &[u8]) -> (BTreeSet<Uuid>, bool) {
    let mut found = BTreeSet::new();
    let mut at = 0;
    while let Some(window) = text.get(at..at + UUID_LENGTH) {
        if window.get(FIRST_DASH) == Some(&b'-')
            && let Ok(uuid) = Uuid::try_parse_ascii(window)
        {
            if found.len() >= UUIDS_MAX {
                return (found, false);
            }
            found.insert(uuid);
            at += UUID_LENGTH;
        } else {
            at += 1;
        }
    }
    (found, true)
}

/// Replaces UUIDs and numbers with placeholders in brackets, so that texts that differ only in these become equal.
pub(super) fn pattern(text: &str) -> String {
    let mut pattern = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let uuid = rest.get(..UUID_LENGTH).filter(|it| Uuid::try_parse(it).is_ok());
        if uuid.is_some() {
            pattern.push_str("{uuid}");
            rest = rest.get(UUID_LENGTH..).unwrap_or("");
            continue;
        }
        pattern.push(next);
        rest = rest.get(next.len_utf8()..).unwrap_or("");
        if next == '[' {
            rest = rest.trim_start_matches(|it: char| it.is_ascii_digit());
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::{pattern, route, uuids};

    #[test]
    fn a_route_has_no_names_in_it() {
        for (path, expected) in [
            ("/", "/"),
            ("", "/"),
            ("/resource_providers", "/resource_providers"),
            ("/placement/resource_providers/x", "/resource_providers/{uuid}"),
            (
                "/resource_providers/x/inventories/VCPU",
                "/resource_providers/{uuid}/inventories/{resource_class}",
            ),
            ("/allocations/x", "/allocations/{consumer_uuid}"),
            ("/resource_providers/x/secrets", "other"),
            ("/favicon.ico", "other"),
            ("/a/b/c/d/usages", "other"),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }

    #[test]
    fn uuids_are_found_wherever_they_stand() {
        let one = "4e8e5957-649f-477b-9e5b-f1f75b21c03c";
        let other = "9B8E5957-649F-477B-9E5B-F1F75B21C03C";
        let text = format!("/allocations/{one}?x={other}&y={one}-4e8e5957-649f");
        let (found, all) = uuids(text.as_bytes());
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!((found, all), (vec![one.to_owned(), other.to_lowercase()], true));
        assert_eq!(uuids(b"").0.len(), 0);
        assert_eq!(uuids("-".repeat(100).as_bytes()).0.len(), 0);
    }

    #[test]
    fn a_pattern_is_the_same_for_all_objects() {
        let path = "body.resource_providers[12].4e8e5957-649f-477b-9e5b-f1f75b21c03c.VCPU[]";
        assert_eq!(pattern(path), "body.resource_providers[].{uuid}.VCPU[]");
        assert_eq!(pattern("äöü"), "äöü");
    }
}
