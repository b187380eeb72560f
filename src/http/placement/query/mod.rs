//! The query string: its pairs, and the syntax of their values.
//!
//! The syntax depends on the microversion: [`Grammar`] has all differences, which are set on its
//! ladder only.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::microversion::{
    ANY_TRAITS, FORBIDDEN_AGGREGATES, FORBIDDEN_TRAITS, Ladder, Microversion, NAMED_GROUPS,
    REPEATED_MEMBER_OF,
};
use super::problem::{Code, Problem};
use super::schema::Schema;
use super::spelling::any_uuid;
use crate::http::api::query::pairs;
use crate::model::effort::steps;

/// Allowed syntax of the query's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one permission a version gave")]
pub(super) struct Grammar {
    /// `!TRAIT` in `required`.
    pub(super) forbidden_traits: bool,
    /// `in:A,B` in `required`, and repeated `required`.
    pub(super) any_traits: bool,
    /// Repeated `member_of`.
    pub(super) repeated_member_of: bool,
    /// `!` in `member_of`.
    pub(super) forbidden_aggregates: bool,
    /// Groups with names instead of numbers.
    pub(super) named_groups: bool,
}

impl Grammar {
    /// Returns the grammar of a version.
    pub(super) fn at(microversion: Microversion) -> Self {
        let first = Self {
            forbidden_traits: false,
            any_traits: false,
            repeated_member_of: false,
            forbidden_aggregates: false,
            named_groups: false,
        };
        *Ladder::from(first)
            .then(FORBIDDEN_TRAITS, |it| Self { forbidden_traits: true, ..it })
            .then(REPEATED_MEMBER_OF, |it| Self { repeated_member_of: true, ..it })
            .then(FORBIDDEN_AGGREGATES, |it| Self { forbidden_aggregates: true, ..it })
            .then(NAMED_GROUPS, |it| Self { named_groups: true, ..it })
            .then(ANY_TRAITS, |it| Self { any_traits: true, ..it })
            .at(microversion)
    }
}

/// A query string as pairs, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Query {
    pairs: Vec<(String, String)>,
    /// Indexes of the values of each name.
    places: HashMap<String, Vec<usize>>,
}

impl Query {
    /// Parses the pairs. Rejects text that is not UTF-8 or contains a NUL.
    pub(in crate::http) fn parse(text: &str) -> Result<Self, Problem> {
        let pairs = pairs(text, &['&', ';']);
        pairs
            .map(Self::of)
            .map_err(|why| Problem::bad_request(format!("Invalid query string parameters: {why}")))
    }

    fn of(pairs: Vec<(String, String)>) -> Self {
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, (name, _)) in pairs.iter().enumerate() {
            steps(1);
            match places.get_mut(name) {
                Some(places) => places.push(place),
                None => drop(places.insert(name.clone(), vec![place])),
            }
        }
        Self { pairs, places }
    }

    /// Checks names and values. If a name is repeated, its last value is checked.
    pub(super) fn check(&self, schema: &Schema) -> Result<(), Problem> {
        let members =
            self.pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.clone())));
        schema.check(&Value::Object(members.collect::<Map<_, _>>())).map_err(|violation| {
            Problem::bad_request(format!("Invalid query string parameters: {violation}"))
        })
    }

    pub(in crate::http) fn without(&self, name: &str) -> Self {
        Self::of(self.pairs.iter().filter(|(other, _)| other != name).cloned().collect())
    }

    pub(in crate::http) fn renamed(&self, from: &str, to: &str) -> Self {
        let rename = |name: &String| if name == from { to.to_owned() } else { name.clone() };
        Self::of(self.pairs.iter().map(|(name, it)| (rename(name), it.clone())).collect())
    }

    pub(in crate::http) fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the pairs as a readable text, without percent-encoding.
    pub(in crate::http) fn written(&self) -> String {
        let pairs = self.pairs().map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("&")
    }

    pub(in crate::http) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns all values of a name.
    pub(in crate::http) fn all(&self, name: &str) -> impl DoubleEndedIterator<Item = &str> {
        let places = self.places.get(name).into_iter().flatten();
        let values = places.filter_map(|&place| self.pairs.get(place));
        values.inspect(|_| steps(1)).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a name, which must not be repeated.
    pub(in crate::http) fn once(&self, name: &str) -> Result<Option<&str>, Problem> {
        let count = self.all(name).count();
        if count > 1 {
            let detail = format!("{name} can be given only once, not {count} times");
            return Err(Problem::bad_request(detail).code(Code::DuplicateKey));
        }
        Ok(self.last(name))
    }

    /// Returns the number of a name, which must not be repeated and must be in the range; `default` without it.
    pub(in crate::http) fn number<N>(
        &self,
        name: &str,
        default: N,
        range: RangeInclusive<N>,
    ) -> Result<N, Problem>
    where
        N: FromStr + PartialOrd + Display,
    {
        let Some(value) = self.once(name)? else { return Ok(default) };
        value.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (least, most) = range.into_inner();
            let detail = format!("{name} must be a number from {least} to {most}, not {value}");
            Problem::bad_request(detail)
        })
    }

    /// Returns the last value of a name.
    pub(in crate::http) fn last(&self, name: &str) -> Option<&str> {
        self.all(name).next_back()
    }
}

/// Removes duplicates, keeping the first.
pub(super) fn distinct(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut known = HashSet::new();
    let names = names.into_iter().inspect(|_| steps(1));
    names.filter(|name| known.insert(name.clone())).collect()
}

/// Traits as clauses: one trait of each `required` clause is needed; none of `forbidden` is
/// allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits {
    /// No clause is empty.
    pub(super) required: Vec<Vec<String>>,
    /// In the order of the query.
    pub(super) forbidden: Vec<String>,
}

/// Parses `required` with a suffix: all values from 1.39, before that the last one.
pub(super) fn traits(query: &Query, suffix: &str, grammar: Grammar) -> Result<Traits, Problem> {
    let values: Vec<_> = query.all(&format!("required{suffix}")).collect();
    let counted = if grammar.any_traits { 0 } else { values.len().saturating_sub(1) };
    let mut traits = Traits::default();
    for value in values.into_iter().skip(counted) {
        let clauses = trait_clauses(value, grammar)?;
        traits.required.extend(clauses.required);
        traits.forbidden.extend(clauses.forbidden);
    }
    traits.forbidden = distinct(traits.forbidden);
    Ok(traits)
}

/// Parses a value of `required`: `A,!B`, or `in:A,B`.
pub(super) fn trait_clauses(value: &str, grammar: Grammar) -> Result<Traits, Problem> {
    if let Some(list) = value.strip_prefix("in:") {
        return any_of_traits(value, list, grammar);
    }
    let expected = |form: &str, got: &str| {
        Problem::bad_request(format!(
            "Invalid query string parameters: Expected 'required' parameter value of the form: \
             {form}. {got}: {value}"
        ))
    };
    let plain = "HW_CPU_X86_VMX,CUSTOM_MAGIC";
    let form = if grammar.forbidden_traits { "HW_CPU_X86_VMX,!CUSTOM_MAGIC" } else { plain };
    let mut traits = Traits::default();
    for name in value.split(',').map(str::trim) {
        steps(1);
        // Repeated marks count as one: a quirk of the reference that clients may rely on.
        let unmarked = name.trim_start_matches('!');
        if unmarked.is_empty() {
            return Err(expected(form, "Got an empty trait in"));
        }
        if unmarked.len() == name.len() {
            traits.required.push(vec![name.to_owned()]);
        } else {
            traits.forbidden.push(unmarked.to_owned());
        }
    }
    traits.forbidden = distinct(traits.forbidden);
    if !traits.forbidden.is_empty() && !grammar.forbidden_traits {
        return Err(expected(plain, "Got"));
    }
    Ok(traits)
}

fn any_of_traits(value: &str, list: &str, grammar: Grammar) -> Result<Traits, Problem> {
    let refused = |why: &str| {
        Err(Problem::bad_request(format!("Invalid query string parameters: {why}: {value}")))
    };
    if !grammar.any_traits {
        return refused(
            "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39. Got",
        );
    }
    let names: Vec<String> = distinct(list.split(',').map(|name| name.trim().to_owned()));
    if names.iter().any(String::is_empty) {
        return refused(
            "Expected 'required' parameter value of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an \
             empty trait in",
        );
    }
    if names.iter().any(|name| name.starts_with('!')) {
        return refused(
            "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' does not support forbidden traits. Got",
        );
    }
    Ok(Traits { required: vec![names], forbidden: Vec::new() })
}

/// Aggregates as clauses: one of each `required` clause is needed; none of `forbidden` is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Aggregates {
    /// No clause is empty.
    pub(super) required: Vec<Vec<Uuid>>,
    /// In the order of the query.
    pub(super) forbidden: Vec<Uuid>,
}

/// Parses `member_of` with a suffix: `A`, `in:A,B`, `!A`, `!in:A,B`, repeatable from 1.24.
pub(super) fn member_of(
    query: &Query,
    suffix: &str,
    grammar: Grammar,
) -> Result<Aggregates, Problem> {
    let values: Vec<_> = query.all(&format!("member_of{suffix}")).collect();
    if values.len() > 1 && !grammar.repeated_member_of {
        let detail = format!("Multiple member_of{suffix} parameters are not supported");
        return Err(Problem::bad_request(detail));
    }
    let mut aggregates = Aggregates::default();
    for value in values {
        let (forbidden, uuids) = aggregate_clause(value)?;
        if !forbidden {
            aggregates.required.push(uuids);
        } else if grammar.forbidden_aggregates {
            aggregates.forbidden.extend(uuids);
        } else {
            return Err(Problem::bad_request(format!(
                "Forbidden member_of{suffix} parameters are not supported in the specified \
                 microversion"
            )));
        }
    }
    Ok(aggregates)
}

/// Parses a value of `member_of`: whether it forbids, and the aggregates.
fn aggregate_clause(value: &str) -> Result<(bool, Vec<Uuid>), Problem> {
    let (forbidden, rest) = value.strip_prefix('!').map_or((false, value), |rest| (true, rest));
    let list: Vec<&str> = match rest.strip_prefix("in:") {
        Some(list) => list.split(',').collect(),
        None if rest.contains(',') => {
            return Err(Problem::bad_request(format!(
                "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword \
                 using the valid microversion. Got: {value}"
            )));
        }
        None => vec![rest],
    };
    let uuids = list.into_iter().map(|text| {
        steps(1);
        any_uuid(text).ok_or_else(|| {
            Problem::bad_request(format!(
                "Invalid query string parameters: Expected 'member_of' parameter to contain valid \
                 UUID(s). Got: {text}"
            ))
        })
    });
    Ok((forbidden, uuids.collect::<Result<_, _>>()?))
}

/// Parses `in_tree`: a UUID in any notation.
pub(super) fn in_tree(value: &str) -> Result<Uuid, Problem> {
    any_uuid(value.trim()).ok_or_else(|| {
        Problem::bad_request(format!(
            "Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. \
             Got: {value}"
        ))
    })
}

/// Parses `resources`: `VCPU:2,MEMORY_MB:1024`. If a class is repeated, the last amount applies.
pub(super) fn resources(value: &str) -> Result<Vec<(String, i64)>, Problem> {
    let badly_formed = |got: &str| {
        Problem::bad_request(format!(
            "Badly formed resources parameter. Expected resources query string parameter in form: \
             ?resources=VCPU:2,MEMORY_MB:1024. Got: {got}."
        ))
    };
    if value.trim().is_empty() {
        return Err(badly_formed("empty string"));
    }
    let mut resources: Vec<(String, i64)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for pair in value.split(',') {
        steps(1);
        let (class, amount) = pair.split_once(':').ok_or_else(|| badly_formed(pair))?;
        if amount.contains(':') {
            return Err(badly_formed(pair));
        }
        let amount = amount_of(class, amount)?;
        if let Some(known) = places.get(class).and_then(|&place| resources.get_mut(place)) {
            known.1 = amount;
        } else {
            places.insert(class, resources.len());
            resources.push((class.to_owned(), amount));
        }
    }
    Ok(resources)
}

/// More than any inventory can provide, so greater amounts are equivalent.
const AMOUNT_MAX: i64 = i32::MAX as i64 + 1;

fn amount_of(class: &str, text: &str) -> Result<i64, Problem> {
    let number = text.trim();
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::bad_request(format!(
            "Requested resource {class} expected positive integer amount. Got: {text}."
        )));
    }
    let amount = digits.parse().map_or(AMOUNT_MAX, |amount: i64| amount.min(AMOUNT_MAX));
    if negative || amount < 1 {
        let digits = digits.trim_start_matches('0');
        let got = if digits.is_empty() { "0".to_owned() } else { format!("-{digits}") };
        return Err(Problem::bad_request(format!(
            "Requested resource {class} requires amount >= 1. Got: {got}."
        )));
    }
    Ok(amount)
}

#[cfg(test)]
mod tests;
