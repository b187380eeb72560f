//! Microversions: the history of the API as named constants, the version header, and two ways to
//! express changes: [`Ladder`] for requests, [`Since`](super::since::Since) for members of responses.
//!
//! No other file compares versions; a new one is a line in the history, and then a row, a rung or a
//! field elsewhere.

use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull};

use axum::http::{HeaderMap, HeaderValue, header};

use crate::http::api::operation::VersionBounds;
use crate::model::Bug;

/// The version header of requests and responses.
pub(in crate::http) const HEADER: &str = "openstack-api-version";

/// The name of this API in that header.
pub(in crate::http) const SERVICE: &str = "placement";

/// A version `1.N` of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Microversion(u8);

/// Defines a constant for each `N` of `1.N`, and [`HISTORY`].
macro_rules! history {
    ($($(#[doc = $doc:literal])+ $name:ident = $minor:literal;)+) => {
        $(
            $(#[doc = $doc])+
            pub(in crate::http) const $name: Microversion = Microversion($minor);
        )+

        /// Every version with what it added, ascending and without gaps.
        pub(in crate::http) const HISTORY: &[(Microversion, &str)] =
            &[$(($name, concat!($($doc),+)),)+];
    };
}

history! {
    /// Providers, inventories, usages, allocations.
    INITIAL = 0;
    /// Aggregates of a provider.
    AGGREGATES = 1;
    /// Resource classes, including custom ones.
    RESOURCE_CLASSES = 2;
    /// Providers can be filtered by aggregate: `member_of`.
    MEMBER_OF = 3;
    /// Providers can be filtered by free capacity: `resources`.
    RESOURCES_QUERY = 4;
    /// All inventories of a provider can be deleted at once.
    DELETE_ALL_INVENTORIES = 5;
    /// Traits, and traits of a provider.
    TRAITS = 6;
    /// `PUT /resource_classes/{name}` creates a missing class instead of renaming one.
    ENSURE_RESOURCE_CLASS = 7;
    /// `PUT /allocations/{consumer}` names the project and the user.
    PROJECT_AND_USER = 8;
    /// `GET /usages` returns the sums of a project.
    USAGES = 9;
    /// `GET /allocation_candidates`.
    ALLOCATION_CANDIDATES = 10;
    /// Providers have a link to their allocations.
    ALLOCATIONS_LINK = 11;
    /// Allocations are keyed by provider in requests too; responses include project and user.
    ALLOCATIONS_BY_PROVIDER = 12;
    /// `POST /allocations` for several consumers at once.
    POST_ALLOCATIONS = 13;
    /// Providers form trees: `parent_provider_uuid`, `root_provider_uuid`, `in_tree`.
    NESTED_PROVIDERS = 14;
    /// Responses have `Last-Modified` and `Cache-Control` headers.
    CACHE_HEADERS = 15;
    /// The number of candidates can be limited: `limit`.
    LIMIT = 16;
    /// Candidates can require traits, and summaries include traits.
    REQUIRED_TRAITS = 17;
    /// Providers can be filtered by trait: `required`.
    PROVIDERS_REQUIRED = 18;
    /// Writes of aggregates carry the provider's generation.
    AGGREGATES_GENERATION = 19;
    /// `POST /resource_providers` returns the provider.
    CREATED_PROVIDER_SHOWN = 20;
    /// Candidates can be filtered by aggregate: `member_of`.
    CANDIDATES_MEMBER_OF = 21;
    /// Traits can be forbidden: `!TRAIT`.
    FORBIDDEN_TRAITS = 22;
    /// Errors have a `code`.
    ERROR_CODES = 23;
    /// `member_of` can be repeated.
    REPEATED_MEMBER_OF = 24;
    /// Candidates can be requested in numbered groups: `resources1`, `group_policy`.
    NUMBERED_GROUPS = 25;
    /// The whole of an inventory can be reserved.
    RESERVED_WHOLE = 26;
    /// Summaries include all resource classes, not only the requested ones.
    SUMMARIES_SHOW_ALL_CLASSES = 27;
    /// Consumers have a generation, and writes of allocations carry it.
    CONSUMER_GENERATION = 28;
    /// One candidate may use several providers of a tree.
    NESTED_CANDIDATES = 29;
    /// `POST /reshaper`.
    RESHAPER = 30;
    /// Candidates can be restricted to a tree: `in_tree`.
    CANDIDATES_IN_TREE = 31;
    /// Aggregates can be forbidden: `member_of=!...`.
    FORBIDDEN_AGGREGATES = 32;
    /// Groups can have names as well as numbers.
    NAMED_GROUPS = 33;
    /// Candidates say which provider serves which group: `mappings`.
    MAPPINGS = 34;
    /// Candidates can be filtered by traits of the root provider: `root_required`.
    ROOT_REQUIRED = 35;
    /// Groups can be required to share a subtree: `same_subtree`; groups may have no resources.
    SAME_SUBTREE = 36;
    /// The parent of a provider can be changed or removed.
    REPARENTING = 37;
    /// Consumers have a type, and usages are grouped by it.
    CONSUMER_TYPE = 38;
    /// Any of several traits can be required: `required=in:A,B`, and `required` can be repeated.
    ANY_TRAITS = 39;
}

pub(in crate::http) const LATEST: Microversion = match HISTORY {
    [.., (last, _)] => *last,
    [] => INITIAL,
};

// Checked at compile time.
const _: () = assert!(in_order(HISTORY), "the history has a gap or is out of order");

const fn in_order(history: &[(Microversion, &str)]) -> bool {
    match history {
        [before @ .., (last, _)] => last.0 as usize == before.len() && in_order(before),
        [] => true,
    }
}

/// Reason to reject a version header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum Unacceptable {
    /// A well-formed version that does not exist.
    Unknown(String),
    /// Not a version; with the reason, in Python's words.
    Malformed(String, String),
}

impl Microversion {
    /// Returns the version `1.minor`, in constant expressions about types of responses.
    pub(super) const fn of_minor(minor: u8) -> Self {
        Self(minor)
    }

    /// Returns `N` of `1.N`.
    pub(super) const fn minor(self) -> u8 {
        self.0
    }

    /// Returns the requested version; the oldest if there is no header.
    pub(in crate::http) fn from_headers(headers: &HeaderMap) -> Result<Self, Unacceptable> {
        let lines = headers.get_all(HEADER).into_iter().map(HeaderValue::as_bytes);
        let microversion =
            lines.rev().find_map(|line| requested_version(&String::from_utf8_lossy(line)));
        microversion.map_or(Ok(INITIAL), |text| Self::parse(&text))
    }

    /// Adds the version headers to a response. Removes cache headers from versions that do not have
    /// them.
    pub(super) fn describe(self, response: &mut HeaderMap) {
        let version = HeaderValue::try_from(format!("{SERVICE} {self}"));
        let version = version
            .unwrap_or_else(|error| Bug::raise(format!("version {self} as a header: {error}")));
        response.insert(HEADER, version);
        response.insert(header::VARY, HeaderValue::from_static(HEADER));
        if !self.has(CACHE_HEADERS) {
            response.remove(header::LAST_MODIFIED);
            response.remove(header::CACHE_CONTROL);
        }
    }

    fn parse(text: &str) -> Result<Self, Unacceptable> {
        if text == "latest" {
            return Ok(LATEST);
        }
        let malformed = |why: String| Unacceptable::Malformed(text.to_owned(), why);
        let number = |part: &str| {
            let literal = format!("invalid literal for int() with base 10: '{part}'");
            let part = part.trim();
            let digits = part.strip_prefix(['+', '-']).unwrap_or(part);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(malformed(literal));
            }
            // Larger than any version; the digits are quoted from the text.
            Ok(part.parse::<i64>().unwrap_or(i64::MAX))
        };
        let Some((major, minor)) = text.split_once('.') else {
            number(text)?;
            let why = "Version.__new__() missing 1 required positional argument: 'minor'";
            return Err(malformed(why.to_owned()));
        };
        let (major, minor) = (number(major)?, number(minor)?);
        let known = HISTORY.iter().map(|(version, _)| *version);
        let mut same = known.filter(|version| major == 1 && minor == i64::from(version.0));
        same.next().ok_or_else(|| Unacceptable::Unknown(text.to_owned()))
    }

    /// Returns the value if this version shows it; `None` omits it from the response.
    pub(in crate::http) fn show<T>(self, since: Self, value: T) -> Option<T> {
        self.has(since).then_some(value)
    }

    /// Returns whether this version includes the change of `since`.
    pub(in crate::http) fn has(self, since: Self) -> bool {
        self.0 >= since.0
    }
}

impl fmt::Display for Microversion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "1.{}", self.0)
    }
}

/// Returns the version that a header line requests for this service. A line may name several
/// services; the last one applies.
fn requested_version(line: &str) -> Option<String> {
    line.rsplit(',').find_map(|entry| {
        let (service, version) = entry.trim().split_once(char::is_whitespace)?;
        let version = version.trim();
        (service.eq_ignore_ascii_case(SERVICE) && !version.is_empty()).then(|| version.to_owned())
    })
}

/// The versions from a first one up to, but not including, a last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Versions {
    from: Microversion,
    until: Option<Microversion>,
}

impl From<RangeFull> for Versions {
    fn from(_: RangeFull) -> Self {
        Self { from: INITIAL, until: None }
    }
}

impl From<RangeFrom<Microversion>> for Versions {
    fn from(range: RangeFrom<Microversion>) -> Self {
        Self { from: range.start, until: None }
    }
}

impl From<Range<Microversion>> for Versions {
    fn from(range: Range<Microversion>) -> Self {
        Self { from: range.start, until: Some(range.end) }
    }
}

impl Versions {
    /// Returns the bounds, for the API document.
    pub(in crate::http) fn bounds(self) -> VersionBounds {
        let last = self.until.map(|until| Microversion(until.0.saturating_sub(1)).to_string());
        VersionBounds { first: (self.from != INITIAL).then(|| self.from.to_string()), last }
    }

    /// Returns whether the range contains the version.
    pub(in crate::http) fn contain(self, version: Microversion) -> bool {
        version.has(self.from) && self.until.is_none_or(|until| !version.has(until))
    }

    /// Returns whether the ranges overlap.
    #[cfg(test)]
    pub(in crate::http) fn overlap(self, other: Self) -> bool {
        HISTORY.iter().any(|(version, _)| self.contain(*version) && other.contain(*version))
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.until {
            Some(until) => write!(formatter, "{}-1.{}", self.from, until.0 - 1),
            None => write!(formatter, "{}-", self.from),
        }
    }
}

/// A value that changes with the version: its first form, and each step as a change to the one
/// before.
#[derive(Clone, Debug)]
pub(in crate::http) struct Ladder<T> {
    first: T,
    steps: Vec<(Microversion, T)>,
}

impl<T> Ladder<T> {
    /// Starts with the first form.
    pub(in crate::http) fn from(first: T) -> Self {
        Self { first, steps: Vec::new() }
    }

    /// Converts every rung.
    pub(in crate::http) fn map<U>(self, make: impl Fn(T) -> U) -> Ladder<U> {
        let steps = self.steps.into_iter().map(|(since, rung)| (since, make(rung))).collect();
        Ladder { first: make(self.first), steps }
    }

    /// Returns every form with its versions.
    pub(in crate::http) fn forms(&self) -> impl Iterator<Item = (Versions, &T)> {
        let froms = std::iter::once(INITIAL).chain(self.steps.iter().map(|(since, _)| *since));
        let untils = self.steps.iter().map(|(since, _)| Some(*since)).chain([None]);
        let forms = std::iter::once(&self.first).chain(self.steps.iter().map(|(_, form)| form));
        froms.zip(untils).map(|(from, until)| Versions { from, until }).zip(forms)
    }

    /// Returns the value at a version.
    pub(in crate::http) fn at(&self, microversion: Microversion) -> &T {
        let reached = self.steps.iter().rev().find(|(since, _)| microversion.has(*since));
        reached.map_or(&self.first, |(_, rung)| rung)
    }
}

impl<T: Clone> Ladder<T> {
    /// Adds the change of `version`. Steps are given in the order of their versions.
    #[must_use]
    pub(in crate::http) fn then(mut self, version: Microversion, step: impl Fn(T) -> T) -> Self {
        let before = self.steps.last().map_or(&self.first, |(_, rung)| rung);
        let rung = step(before.clone());
        self.steps.push((version, rung));
        self
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};
    use axum::response::IntoResponse;
    use proptest::prelude::*;

    use super::*;
    use crate::http::api::reply::Reply;

    fn microversion(lines: &[&str]) -> Result<Microversion, Unacceptable> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(HEADER, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        Microversion::from_headers(&headers)
    }

    #[test]
    fn a_request_gets_the_version_it_names() {
        let version = |minor| Ok(Microversion(minor));
        for (lines, expected) in [
            (&[][..], version(0)),
            (&["placement 1.20"], version(20)),
            (&["PLACEMENT 1.20"], version(20)),
            (&["placement latest"], version(39)),
            (&["placement\t 1.7 "], version(7)),
            (&["placement 1. 7"], version(7)),
            (&["placement 01.07"], version(7)),
            (&["compute 2.1"], version(0)),
            (&["compute 2.1, placement 1.5"], version(5)),
            (&["placement 1.5, compute 2.1"], version(5)),
            (&["placement 1.5,placement 1.6"], version(6)),
            (&["placement 1.5", "placement 1.6"], version(6)),
            (&["placement 1.5", "compute 2.1"], version(5)),
            (&["placement"], version(0)),
            (&["1.5"], version(0)),
            (&[""], version(0)),
        ] {
            assert_eq!(microversion(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn an_unknown_version_is_repeated_as_written() {
        for text in ["0.5", "1.40", "2.0", "-1.0", "1.-5", "1.99999999999999999999999999"] {
            let expected = Err(Unacceptable::Unknown(text.to_owned()));
            assert_eq!(microversion(&[&format!("placement {text}")]), expected);
        }
    }

    #[test]
    fn another_text_is_a_malformed_version() {
        for (text, literal) in
            [("pony", "pony"), ("1.2.3", "2.3"), ("1.", ""), (".1", ""), ("1.\u{663}", "\u{663}")]
        {
            let why = format!("invalid literal for int() with base 10: '{literal}'");
            let expected = Err(Unacceptable::Malformed(text.to_owned(), why));
            assert_eq!(microversion(&[&format!("placement {text}")]), expected);
        }
        assert!(matches!(microversion(&["placement 1"]), Err(Unacceptable::Malformed(..))));
        assert!(matches!(microversion(&["placement 1_0.1"]), Err(Unacceptable::Malformed(..))));
        assert!(matches!(microversion(&["placement 1.2 1.3"]), Err(Unacceptable::Malformed(..))));
    }

    #[test]
    fn a_ladder_gives_the_last_rung_reached() {
        let ladder = Ladder::from("a".to_owned())
            .then(TRAITS, |before| before + "b")
            .then(LIMIT, |before| before + "c");
        for (version, expected) in
            [(INITIAL, "a"), (DELETE_ALL_INVENTORIES, "a"), (TRAITS, "ab"), (LATEST, "abc")]
        {
            assert_eq!(ladder.at(version), expected, "{version}");
        }
    }

    #[test]
    fn ranges_contain_and_overlap() {
        let early = Versions::from(RESOURCE_CLASSES..ENSURE_RESOURCE_CLASS);
        let late = Versions::from(ENSURE_RESOURCE_CLASS..);
        assert!(early.contain(TRAITS) && !early.contain(ENSURE_RESOURCE_CLASS));
        assert!(late.contain(ENSURE_RESOURCE_CLASS) && late.contain(LATEST));
        assert!(!early.overlap(late) && early.overlap(Versions::from(..)));
        assert_eq!((early.to_string(), late.to_string()), ("1.2-1.6".into(), "1.7-".into()));
    }

    #[test]
    fn cache_headers_are_shown_from_1_15() {
        let shown = |microversion: Microversion| {
            let mut response = Reply::no_content().modified(0).into_response();
            microversion.describe(response.headers_mut());
            let has = |name| response.headers().contains_key(name);
            (has(header::LAST_MODIFIED), has(header::CACHE_CONTROL), has(header::CONTENT_TYPE))
        };
        assert_eq!(shown(NESTED_PROVIDERS), (false, false, false));
        assert_eq!(shown(CACHE_HEADERS), (true, true, false));
    }

    #[test]
    fn the_newest_version_is_1_39() {
        assert_eq!(LATEST.to_string(), "1.39");
        assert_eq!(LATEST.show(ANY_TRAITS, 1), Some(1));
        assert_eq!(CONSUMER_TYPE.show(ANY_TRAITS, 1), None);
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&line) {
                headers.append(HEADER, value);
            }
            let _ = Microversion::from_headers(&headers);
        }

        #[test]
        fn no_version_makes_it_panic(text in "placement [ 0-9._+a-z]{0,12}") {
            let _ = microversion(&[&text]);
        }
    }
}
