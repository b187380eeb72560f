//! Intended differences between the reference and Berth.
//!
//! docs/differences.md numbers them. A [`Rule`] decides whether its number explains the differences between two
//! responses to a request. Differences that no single response shows have no rule, such as those of concurrent
//! claims.

mod request;

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use uuid::Uuid;

pub use self::request::ComparedRequest;
use super::response::{Body, ComparedResponse, Difference};

/// Length of the compared beginning of a value that a refusal of Berth truncates.
const COMPARED_OF_A_LONG_TEXT: usize = 64;
/// Maximum length of a value that Berth shows, in bytes.
const LONG_VALUE: usize = 16 * 1024;
/// Maximum length of a request target that Berth accepts, in bytes.
const TARGET_MAX: usize = 64 * 1024;
/// Maximum length of the spelling of an aggregate that Berth accepts.
const AGGREGATE_MAX: usize = 64;
/// Parts of messages of the reference's databases.
const WORDS_OF_DATABASES: [&str; 5] =
    ["(sqlite3.", "(psycopg2", "(pymysql", "(MySQLdb", "(Background on this error at:"];

/// A request and its responses.
struct Case<'c> {
    request: &'c ComparedRequest,
    reference: &'c ComparedResponse,
    berth: &'c ComparedResponse,
    differences: &'c [Difference],
}

impl Case<'_> {
    fn statuses(&self) -> (u16, u16) {
        (self.reference.status, self.berth.status)
    }

    /// Returns whether all differences are at places that begin like this.
    fn differ_only_in(&self, places: &[&str]) -> bool {
        let is_within = |difference: &Difference| {
            let place = difference.place();
            places.iter().any(|it| place.starts_with(it))
        };
        self.differences.iter().all(is_within)
    }

    /// Returns whether only the text of an error differs.
    fn differ_in_words(&self) -> bool {
        self.differences.iter().all(is_of_words)
    }

    fn is_about_candidates(&self) -> bool {
        self.request.path.ends_with("/allocation_candidates")
    }
}

fn is_of_words(difference: &Difference) -> bool {
    let is_error = difference.path.get(1).is_some_and(|it| it == "errors");
    is_error && difference.path.last().is_some_and(|it| it == "detail")
}

fn json(response: &ComparedResponse) -> Option<&Value> {
    match &response.body {
        Body::Json(json) => Some(json),
        Body::Empty | Body::Text(_) => None,
    }
}

/// The text of an error.
fn detail(response: &ComparedResponse) -> &str {
    let detail = json(response).and_then(|it| it.pointer("/errors/0/detail")?.as_str());
    detail.unwrap_or("")
}

fn member<'a>(response: &'a ComparedResponse, name: &str) -> Option<&'a Vec<Value>> {
    json(response)?.get(name)?.as_array()
}

/// The candidates of both responses, as text that is the same for equal candidates.
fn candidates(case: &Case<'_>) -> Option<(Vec<String>, Vec<String>)> {
    let of = |response| {
        let found = member(response, "allocation_requests")?;
        Some(found.iter().map(|it| in_order(it).to_string()).collect())
    };
    Some((of(case.reference)?, of(case.berth)?))
}

/// A value with its members and lists sorted.
fn in_order(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            let member = |name| Some((String::clone(name), in_order(members.get(name)?)));
            names.into_iter().filter_map(member).collect()
        }
        Value::Array(values) => {
            let mut values: Vec<Value> = values.iter().map(in_order).collect();
            values.sort_by_cached_key(ToString::to_string);
            values.into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// An intended difference.
#[derive(Debug)]
pub struct Rule {
    /// Its number in docs/differences.md.
    pub id: &'static str,
    /// Its heading there, or its entry in the table of bad input.
    pub title: &'static str,
    explains: fn(&Case<'_>) -> bool,
}

/// All rules that can be applied to a single request and its responses. The first match counts.
pub const RULES: [Rule; 27] = [
    Rule { id: "B1", title: "a NUL character in any text, path or query", explains: b1 },
    Rule { id: "B2", title: "bytes in a path or query that are not UTF-8", explains: b2 },
    Rule { id: "B4", title: "an integer beyond 64 bits in a query", explains: b4 },
    Rule { id: "B7", title: "a name that ends in a line break", explains: b7 },
    Rule { id: "B8", title: "digits that are not ASCII, or with underscores", explains: b8 },
    Rule { id: "B12", title: "a path with query longer than 64 KiB", explains: b12 },
    Rule { id: "B15", title: "a consumer that is not a UUID", explains: b15 },
    Rule { id: "B16", title: "an aggregate written in more than 64 characters", explains: b16 },
    Rule { id: "B17", title: "%2F in a path", explains: b17 },
    Rule { id: "D1", title: "A shared disk does not hide hosts", explains: d1 },
    Rule { id: "D2", title: "Candidates contain the requested amounts", explains: d2 },
    Rule { id: "D4", title: "A pool below a root can be the whole answer", explains: d4 },
    Rule { id: "D5", title: "A limit that is not a number is refused", explains: d5 },
    Rule {
        id: "D6",
        title: "Searches of wide trees take existing usage into account",
        explains: d6,
    },
    Rule { id: "D8", title: "A refused write leaves no consumer behind", explains: d8 },
    Rule { id: "D10", title: "A capacity is a 64-bit number", explains: d10 },
    Rule { id: "H2", title: "A 405 says what is allowed", explains: h2 },
    Rule { id: "H4", title: "Load balancers can ask whether a replica is ready", explains: h4 },
    Rule { id: "R2", title: "Traits can be forbidden in trees", explains: r2 },
    Rule { id: "R3", title: "GET /usages works from 1.38 on", explains: r3 },
    Rule { id: "R4", title: "A 500 reveals nothing about the database", explains: r4 },
    Rule { id: "T1", title: "All unknown traits are named", explains: t1 },
    Rule { id: "T3", title: "An integer is written without a decimal point", explains: t3 },
    Rule { id: "U1", title: "The spelling of a UUID does not matter: paths", explains: u1_in_path },
    Rule {
        id: "U1",
        title: "The spelling of a UUID does not matter: uuid and member_of",
        explains: u1_in_query,
    },
    Rule {
        id: "U1",
        title: "The spelling of a UUID does not matter: consumers",
        explains: u1_in_body,
    },
    Rule { id: "V1", title: "A long value is truncated", explains: v1 },
];

/// The rule that explains the differences, if any.
pub fn known(
    request: &ComparedRequest,
    reference: &ComparedResponse,
    berth: &ComparedResponse,
    differences: &[Difference],
) -> Option<&'static Rule> {
    let case = Case { request, reference, berth, differences };
    RULES.iter().find(|rule| (rule.explains)(&case))
}

/// Removes differences in undefined behaviour, as listed at the end of docs/differences.md: the choice among
/// candidates when there is a limit, the order of names in a message, and the description of malformed JSON.
pub fn without_undefined(
    request: &ComparedRequest,
    reference: &ComparedResponse,
    berth: &ComparedResponse,
    differences: Vec<Difference>,
) -> Vec<Difference> {
    let is_cut = is_cut_short(request, reference) && is_cut_short(request, berth);
    let is_defined = |difference: &Difference| {
        let part = difference.path.get(1).map(String::as_str);
        let is_found = matches!(part, Some("allocation_requests" | "provider_summaries"));
        !(is_cut && is_found || is_of_words(difference) && same_words(difference))
    };
    differences.into_iter().filter(is_defined).collect()
}

/// Returns whether these are candidates that a limit may have truncated.
fn is_cut_short(request: &ComparedRequest, response: &ComparedResponse) -> bool {
    let limit = request.values("limit").next().and_then(|it| it.parse::<usize>().ok());
    let found = member(response, "allocation_requests").map(Vec::len);
    found.is_some() && found == limit
}

/// Returns whether two messages consist of the same words, or both describe malformed JSON.
fn same_words(difference: &Difference) -> bool {
    const MALFORMED: &str = "Malformed JSON:";
    let text = |value: &Option<Value>| value.as_ref().and_then(|it| it.as_str().map(str::to_owned));
    let (Some(one), Some(other)) = (text(&difference.left), text(&difference.right)) else {
        return false;
    };
    let words = |text: &str| {
        let is_part = |it: char| it.is_alphanumeric() || "_-.".contains(it);
        let split = text.split(|it| !is_part(it)).map(|it| it.trim_matches('.').to_owned());
        let mut words: Vec<String> = split.filter(|it| !it.is_empty()).collect();
        words.sort();
        words
    };
    one.contains(MALFORMED) && other.contains(MALFORMED) || words(&one) == words(&other)
}

fn b1(case: &Case<'_>) -> bool {
    case.berth.status == 400 && case.request.encodes("%00")
}

fn b2(case: &Case<'_>) -> bool {
    let is_text = percent_decode_str(&case.request.target).decode_utf8().is_ok();
    case.berth.status == 400 && !is_text
}

fn b4(case: &Case<'_>) -> bool {
    let is_beyond = |(_, value): &(String, String)| {
        let mut numbers = value.split(|it: char| !it.is_ascii_digit());
        numbers.any(|it| !it.is_empty() && it.parse::<i64>().is_err())
    };
    case.reference.status == 500
        && case.berth.status < 500
        && case.request.query.iter().any(is_beyond)
}

fn b7(case: &Case<'_>) -> bool {
    case.berth.status == 400 && case.request.path.ends_with('\n')
}

fn b8(case: &Case<'_>) -> bool {
    let is_foreign = |it: char| !it.is_ascii() && it.is_numeric();
    let has_underscore = |pair: &str| pair.split_once(':').is_some_and(|it| it.1.contains('_'));
    let is_it = |(name, value): &(String, String)| {
        let is_amount = name.starts_with("resources");
        value.contains(is_foreign) || is_amount && value.split(',').any(has_underscore)
    };
    case.berth.status == 400 && case.request.query.iter().any(is_it)
}

fn b12(case: &Case<'_>) -> bool {
    case.berth.status == 414 && case.request.target.len() > TARGET_MAX
}

fn b15(case: &Case<'_>) -> bool {
    let Some(consumers) = case.request.body.as_ref().and_then(Value::as_object) else {
        return false;
    };
    let is_none = |name: &String| name.len() == 36 && Uuid::try_parse(name).is_err();
    case.statuses() == (204, 400)
        && case.request.path.ends_with("/allocations")
        && consumers.keys().any(is_none)
}

fn b16(case: &Case<'_>) -> bool {
    let Some(body) = &case.request.body else { return false };
    let aggregates = body.as_array().or_else(|| body.get("aggregates")?.as_array());
    let is_long = |it: &Value| it.as_str().is_some_and(|it| it.len() > AGGREGATE_MAX);
    case.berth.status == 400
        && case.request.path.ends_with("/aggregates")
        && aggregates.is_some_and(|it| it.iter().any(is_long))
}

fn b17(case: &Case<'_>) -> bool {
    let path = case.request.target.split('?').next();
    path.is_some_and(|it| it.to_ascii_lowercase().contains("%2f"))
}

fn d1(case: &Case<'_>) -> bool {
    let groups = case.request.groups();
    let is_merged = groups.len() > 1 && groups.iter().any(|(suffix, _)| suffix.is_empty());
    let places = ["body/allocation_requests", "body/provider_summaries"];
    is_merged
        && case.differ_only_in(&places)
        && candidates(case).is_some_and(|(one, other)| {
            let other_set: BTreeSet<&String> = other.iter().collect();
            one.len() < other.len() && one.iter().all(|it| other_set.contains(it))
        })
}

fn d2(case: &Case<'_>) -> bool {
    let (own, numbered): (Vec<_>, Vec<_>) =
        case.request.groups().into_iter().partition(|(suffix, _)| suffix.is_empty());
    let own: BTreeSet<&str> = own.into_iter().flat_map(|(_, classes)| classes).collect();
    let is_shared = numbered.iter().any(|(_, classes)| !classes.is_disjoint(&own));
    let is_merged = case.request.values("group_policy").next() != Some("none");
    is_shared
        && is_merged
        && case.differ_only_in(&["body/allocation_requests"])
        && candidates(case).is_some()
}

fn d4(case: &Case<'_>) -> bool {
    let classes = case.request.groups();
    let has_own = classes.iter().any(|(suffix, _)| suffix.is_empty());
    let found = member(case.berth, "allocation_requests").is_some_and(|it| !it.is_empty());
    case.statuses() == (500, 200)
        && case.is_about_candidates()
        && has_own
        && found
        && !forbids(case)
}

fn d5(case: &Case<'_>) -> bool {
    case.statuses() == (500, 400) && case.request.values("limit").count() > 1
}

/// Only if no candidate that Berth lacks fits, by the usage that the reference shows.
fn d6(case: &Case<'_>) -> bool {
    let Some((reference, berth)) = candidates(case) else { return false };
    let reference_set: BTreeSet<&String> = reference.iter().collect();
    let berth_set: BTreeSet<&String> = berth.iter().collect();
    let found = member(case.reference, "allocation_requests");
    let summaries = json(case.reference).and_then(|it| it.get("provider_summaries"));
    let (Some(found), Some(summaries)) = (found, summaries) else { return false };
    let mut lacking = found.iter().zip(&reference).filter(|(_, text)| !berth_set.contains(text));
    case.request.groups().len() > 1
        && berth.len() < reference.len()
        && berth_set.is_subset(&reference_set)
        && lacking.all(|(candidate, _)| is_beyond_capacity(candidate, summaries))
}

fn is_beyond_capacity(candidate: &Value, summaries: &Value) -> bool {
    let Some(allocations) = candidate.get("allocations").and_then(Value::as_object) else {
        return false;
    };
    let number = |value: &Value, name: &str| value.get(name)?.as_u64();
    allocations.iter().any(|(provider, allocated)| {
        let resources = allocated.get("resources").and_then(Value::as_object);
        resources.into_iter().flatten().any(|(class, amount)| {
            let summary = || summaries.get(provider)?.get("resources")?.get(class);
            let fits = summary().and_then(|summary| {
                let wanted = amount.as_u64()?.checked_add(number(summary, "used")?)?;
                Some(wanted <= number(summary, "capacity")?)
            });
            fits == Some(false)
        })
    })
}

/// A consumer that the reference has kept has a generation.
fn d8(case: &Case<'_>) -> bool {
    let is_write = ["PUT", "POST"].contains(&case.request.method.as_str());
    is_write
        && case.request.path.contains("/allocations")
        && case.statuses() == (204, 409)
        && detail(case.berth).contains("consumer generation conflict - expected null but got 0")
}

fn d10(case: &Case<'_>) -> bool {
    let is_greatest =
        |it: &Difference| is_greatest_capacity(&it.path, it.left.as_ref(), it.right.as_ref());
    case.differences.iter().all(is_greatest)
}

/// Returns whether the values at a place are a capacity beyond 64 bits, and Berth's substitute for it (D10).
pub(super) fn is_greatest_capacity(
    path: &[String],
    reference: Option<&Value>,
    berth: Option<&Value>,
) -> bool {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let greatest = berth.and_then(Value::as_i64) == Some(i64::MAX);
    let beyond = reference.and_then(Value::as_f64).is_some_and(|it| it >= BEYOND);
    path.last().is_some_and(|it| it == "capacity") && greatest && beyond
}

fn h2(case: &Case<'_>) -> bool {
    let lacks = !case.reference.headers.contains_key("allow");
    case.statuses() == (405, 405) && lacks && case.differ_only_in(&["headers/allow"])
}

fn h4(case: &Case<'_>) -> bool {
    let is_check = ["/healthz", "/readyz"].iter().any(|it| case.request.path.ends_with(it));
    is_check && [401, 404].contains(&case.reference.status)
}

/// Returns whether a request forbids a trait.
fn forbids(case: &Case<'_>) -> bool {
    let required = case.request.query.iter().filter(|(name, _)| name.starts_with("required"));
    required.into_iter().any(|(_, value)| value.split(',').any(|it| it.starts_with('!')))
}

fn r2(case: &Case<'_>) -> bool {
    case.statuses() == (500, 200) && forbids(case)
}

fn r3(case: &Case<'_>) -> bool {
    case.statuses() == (500, 200) && case.request.path.ends_with("/usages")
}

fn r4(case: &Case<'_>) -> bool {
    let tells = |response| WORDS_OF_DATABASES.iter().any(|it| detail(response).contains(it));
    case.reference.status == case.berth.status
        && case.differ_in_words()
        && tells(case.reference)
        && !tells(case.berth)
}

fn t1(case: &Case<'_>) -> bool {
    let names = |response| -> Option<BTreeSet<&str>> {
        let (_, names) = detail(response).split_once("No such trait(s): ")?;
        Some(names.split('.').next()?.split(", ").collect())
    };
    let both = names(case.reference).zip(names(case.berth));
    case.statuses() == (400, 400)
        && case.differ_in_words()
        && both.is_some_and(|(one, other)| one.is_subset(&other))
}

fn t3(case: &Case<'_>) -> bool {
    let (actual, expected) = (detail(case.reference), detail(case.berth));
    case.differ_in_words() && actual != expected && without_points(actual) == expected
}

/// A text with `8` instead of `8.0`.
fn without_points(text: &str) -> String {
    let mut parts = text.split(".0").peekable();
    let mut without = String::new();
    while let Some(part) = parts.next() {
        without.push_str(part);
        if let Some(next) = parts.peek() {
            let is_number = part.ends_with(|it: char| it.is_ascii_digit())
                && !next.starts_with(|it: char| it.is_ascii_digit());
            without.push_str(if is_number { "" } else { ".0" });
        }
    }
    without
}

/// Returns whether a word is a UUID in another spelling than the usual one, or has its dashes elsewhere.
fn is_spelled_otherwise(word: &str) -> bool {
    let uuid = Uuid::try_parse(word).or_else(|_| Uuid::try_parse(&word.replace('-', "")));
    uuid.is_ok_and(|it| it.to_string() != word)
}

fn u1_in_path(case: &Case<'_>) -> bool {
    let mut segments = case.request.path.split('/');
    segments.any(is_spelled_otherwise) && case.reference.status != case.berth.status
        || case.request.path.contains("/allocations/")
            && case.request.path.split('/').any(is_spelled_otherwise)
}

/// Berth also finds objects whose spelling differs in the query or was different when stored; with `!`, it excludes
/// them.
fn u1_in_query(case: &Case<'_>) -> bool {
    let members = || case.request.query.iter().filter(|(name, _)| name.starts_with("member_of"));
    let spelled = |(name, value): &(String, String)| {
        let mut words = value.split(|it: char| ",:!".contains(it));
        (name == "uuid" || name.starts_with("in_tree")) && words.any(is_spelled_otherwise)
    };
    if members().next().is_none() && !case.request.query.iter().any(spelled) {
        return false;
    }
    let count = |response| {
        let found =
            ["resource_providers", "allocation_requests"].map(|name| member(response, name));
        found.into_iter().flatten().map(Vec::len).next()
    };
    let lacks = |side: fn(&Difference) -> &Option<Value>| {
        // For a list, a member that only one response has is a difference without the other's value.
        case.differences.iter().all(|it| side(it).is_none())
    };
    let is_negative = members().any(|(_, value)| value.starts_with('!'));
    match (count(case.reference), count(case.berth)) {
        (Some(one), Some(other)) if one < other => lacks(|it| &it.left),
        (Some(one), Some(other)) if one > other => is_negative && lacks(|it| &it.right),
        _ => false,
    }
}

fn u1_in_body(case: &Case<'_>) -> bool {
    let Some(body) = &case.request.body else { return false };
    let consumers = body.as_object().into_iter().flat_map(|it| it.keys());
    let claimed = body.get("allocations").and_then(Value::as_object);
    let mut names = consumers.chain(claimed.into_iter().flat_map(|it| it.keys()));
    case.request.path.contains("/allocations") && names.any(|it| is_spelled_otherwise(it))
}

fn v1(case: &Case<'_>) -> bool {
    let (full, cut) = (detail(case.reference), detail(case.berth));
    let beginning = |text: &'_ str| text.get(..COMPARED_OF_A_LONG_TEXT).map(str::to_owned);
    case.differ_in_words()
        && full.len() > LONG_VALUE
        && cut.contains("...")
        && beginning(full) == beginning(cut)
}

#[cfg(test)]
mod tests;
